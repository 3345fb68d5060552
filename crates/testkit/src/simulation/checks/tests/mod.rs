//! Each check fires: short histories of writes, good ones of which it says nothing, and bad ones of which it says what is
//! wrong.

mod autoscalers;
mod budgets;
mod claims;
mod daemons;
mod jobs;
mod leaders;
mod namespaces;
mod nodes;
mod objects;
mod owners;
mod quotas;
mod requests;
mod sets;
mod stateful;

use serde_json::{Value, json};

use super::{Checks, Violations};
use crate::{Observer as _, Seen, Writer};

/// Long enough that nobody can have missed what was before.
pub const A_WHILE: u64 = 600;

/// Writes, one after the other, and what the checks say of them.
pub struct History {
    checks: Checks,
    violations: Violations,
    at_micros: u64,
    revision: u64,
    /// As whom the next are written, by which instance of a part, and whether it is told.
    user: Option<&'static str>,
    identity: &'static str,
    is_told: bool,
}

impl History {
    pub fn new() -> History {
        let violations = Violations::default();
        let checks = Checks::new(violations.clone());
        History { checks, violations, at_micros: 0, revision: 0, user: None, identity: "first", is_told: true }
    }

    /// So many seconds pass.
    pub fn after(mut self, seconds: u64) -> History {
        self.at_micros += seconds * 1_000_000;
        self
    }

    /// Nothing happens in the cluster from here on.
    pub fn quiet(self) -> History {
        self.checks.quiet().begin();
        self
    }

    /// What follows is written by this controller.
    pub fn by(mut self, user: &'static str) -> History {
        (self.user, self.is_told) = (Some(user), true);
        self
    }

    /// The same controller in another process.
    pub fn of(mut self, identity: &'static str) -> History {
        self.identity = identity;
        self
    }

    /// And does not hear that it was carried out.
    pub fn unheard(mut self) -> History {
        self.is_told = false;
        self
    }

    /// What follows is written by no part of the control plane.
    pub fn by_users(mut self) -> History {
        self.user = None;
        self
    }

    pub fn put(self, key: &str, object: &Value) -> History {
        self.write(key, Some(object.to_string().as_bytes()))
    }

    pub fn gone(self, key: &str) -> History {
        self.write(key, None)
    }

    fn write(mut self, key: &str, value: Option<&[u8]>) -> History {
        self.revision += 1;
        let user = self.user.map(|user| format!("system:serviceaccount:kube-system:{user}"));
        let writer = user.as_deref().map(|user| Writer {
            lease: Some("kube-controller-manager"),
            identity: self.identity,
            user,
            is_told: self.is_told,
        });
        let key = format!("/registry/{key}");
        self.checks.see(&Seen { at_micros: self.at_micros, key: &key, revision: self.revision, value, writer });
        self
    }

    #[track_caller]
    pub fn stays_silent(self) {
        self.says(&[]);
    }

    /// What the checks say, without the times and revisions.
    #[track_caller]
    pub fn says(self, expected: &[&str]) {
        let violations = self.violations.lock();
        let said: Vec<&str> = violations.iter().map(|text| text.splitn(3, ' ').nth(2).unwrap_or(text)).collect();
        assert_eq!(said, expected);
    }
}

pub fn owned_by(kind: &str, uid: &str) -> Value {
    json!([{ "kind": kind, "uid": uid, "controller": true }])
}

pub fn conditions(all: &[&str]) -> Value {
    all.iter().map(|kind| json!({ "type": kind, "status": "True" })).collect()
}

/// A pod that runs and is ready.
pub fn ready(mut pod: Value) -> Value {
    pod["status"] = json!({ "phase": "Running", "conditions": conditions(&["Ready"]) });
    pod
}

pub fn over(mut pod: Value, phase: &str) -> Value {
    pod["status"] = json!({ "phase": phase });
    pod
}

/// An object that is to go.
pub fn terminating(mut object: Value) -> Value {
    object["metadata"]["deletionTimestamp"] = json!("2030-01-01T00:00:00Z");
    object
}
