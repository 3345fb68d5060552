//! The end of an object: at once, gracefully, or when the last finalizer is gone.

use rkube_machinery::schema::Schema;
use rkube_machinery::value::Distinct;
use rkube_machinery::{Value, time};

use crate::kind::Kind;

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";
/// The last second that a date can name. Longer grace periods end there.
const TIME_MAX: i64 = 253_402_300_799;

/// What to do about an object that is to be deleted.
#[derive(Debug, PartialEq)]
pub enum Fate {
    Remove,
    Mark(Value),
    /// Written as marked, then removed: those who watch see both.
    MarkAndRemove(Value),
    /// It is terminating already.
    Wait,
}

/// How an object is to be deleted.
pub struct Deletion<'a> {
    pub kind: &'a Kind,
    /// Of the version in which objects are stored.
    pub schema: &'a Schema,
    pub grace_period_seconds: Option<i64>,
    pub propagation_policy: Option<&'a str>,
    pub orphan_dependents: Option<bool>,
    /// In seconds since 1970.
    pub now: i64,
}

impl Deletion<'_> {
    /// Decides from the object, its kind and the options. Works on the object in place where it is to be marked.
    pub fn decide(&self, object: &mut Value) -> Fate {
        let now = self.now;
        let asked = self.grace_period_seconds.map(|seconds| if seconds < 0 { 1 } else { seconds });
        let rules = &self.kind.rules;
        let deleting = object.get("metadata").has("deletionTimestamp");
        let mut graceful = false;
        if deleting && rules.grace_period_seconds(object, asked).is_some() {
            let current = object.get("metadata").int("deletionGracePeriodSeconds");
            if current > 0 {
                match asked {
                    Some(period) if period < current => {
                        shorten(object, period, current, now);
                        graceful = true;
                    }
                    _ => return Fate::Wait,
                }
            }
        } else if !deleting && let Some(seconds) = rules.grace_period_seconds(object, asked) {
            mark(object, now, seconds);
            graceful = true;
        }
        self.set_dependents_finalizers(object);
        let held = !object.get("metadata").list("finalizers").is_empty() || rules.keep_until_finalized(object);
        if held && !graceful {
            if !deleting {
                mark(object, now, 0);
            }
            rules.prepare_deletion(object);
            return Fate::Mark(std::mem::take(object));
        }
        if !graceful {
            return Fate::Remove;
        }
        let at_once = !held && object.get("metadata").int("deletionGracePeriodSeconds") == 0;
        let object = std::mem::take(object);
        if at_once { Fate::MarkAndRemove(object) } else { Fate::Mark(object) }
    }

    /// Adds or removes the finalizers by which the garbage collector knows what to do with dependents.
    fn set_dependents_finalizers(&self, object: &mut Value) {
        // Events are no part of garbage collection.
        if self.kind.resource == "events" {
            return;
        }
        let given = object.get("metadata").list("finalizers");
        let has = |name: &str| given.iter().any(|finalizer| finalizer.as_str() == name);
        let policy = self.propagation_policy.unwrap_or_default();
        let (orphan, foreground) = match (self.orphan_dependents, policy) {
            (Some(orphan), _) => (orphan, false),
            (None, "Orphan") => (true, false),
            (None, "Foreground") => (false, true),
            (None, "Background") => (false, false),
            _ => {
                let orphan = has(ORPHAN) || (!has(FOREGROUND) && self.kind.strategy.orphans_dependents);
                (orphan, has(FOREGROUND) && !has(ORPHAN))
            }
        };
        let mut finalizers: Vec<Value> =
            given.iter().filter(|finalizer| !matches!(finalizer.as_str(), ORPHAN | FOREGROUND)).cloned().collect();
        if orphan {
            finalizers.push(ORPHAN.into());
        }
        if foreground {
            finalizers.push(FOREGROUND.into());
        }
        let metadata = object.object_mut("metadata");
        if finalizers.is_empty() {
            metadata.remove("finalizers");
        } else if finalizers.len() != metadata.list("finalizers").len()
            || !has_all(metadata.list("finalizers"), &finalizers)
        {
            metadata.set("finalizers", finalizers);
        }
        self.schema.complete(object);
    }
}

/// Whether an update leaves nothing that holds an object that is terminating.
pub fn is_finished(kind: &Kind, object: &Value, old: &Value) -> bool {
    let before = old.get("metadata");
    before.has("deletionTimestamp")
        && before.int("deletionGracePeriodSeconds") == 0
        && object.get("metadata").list("finalizers").is_empty()
        && !kind.rules.keep_until_finalized(object)
}

fn has_all(given: &[Value], wanted: &[Value]) -> bool {
    let given = Distinct::of(given);
    wanted.iter().all(|one| given.has(one))
}

/// Sets the time of deletion, and counts it as a new generation.
fn mark(object: &mut Value, now: i64, seconds: i64) {
    let metadata = object.object_mut("metadata");
    metadata.set("deletionTimestamp", time::format_seconds(now.saturating_add(seconds).min(TIME_MAX)));
    metadata.set("deletionGracePeriodSeconds", seconds);
    if metadata.int("generation") > 0 {
        metadata.set("generation", metadata.int("generation").wrapping_add(1));
    }
}

/// Brings an earlier deletion forward.
fn shorten(object: &mut Value, period: i64, current: i64, now: i64) {
    let metadata = object.object_mut("metadata");
    let (planned, _) = time::parse(metadata.str("deletionTimestamp")).unwrap_or((now, 0));
    let moved = planned.saturating_sub(current).saturating_add(period).min(TIME_MAX);
    let (when, period) = if moved < now { (now, period.min(1)) } else { (moved, period) };
    metadata.set("deletionTimestamp", time::format_seconds(when));
    metadata.set("deletionGracePeriodSeconds", period);
}

#[cfg(test)]
mod tests {
    use rkube_machinery::object;

    use super::*;
    use crate::all;

    /// Decides about an object of the core group with this metadata.
    fn decided(resource: &str, metadata: Value, seconds: Option<i64>, policy: Option<&str>) -> (&'static str, Value) {
        let kind = all().iter().find(|kind| kind.is("", resource)).unwrap();
        let deletion = Deletion {
            kind,
            schema: &kind.schema,
            grace_period_seconds: seconds,
            propagation_policy: policy,
            orphan_dependents: None,
            now: 100,
        };
        let spec = object! { "nodeName": "n", "terminationGracePeriodSeconds": 30 };
        let mut object = object! { "kind": kind.kind.clone(), "apiVersion": "v1", "metadata": metadata };
        if resource == "pods" {
            object.set("spec", spec);
        }
        match deletion.decide(&mut object) {
            Fate::Remove => ("remove", Value::Null),
            Fate::Wait => ("wait", Value::Null),
            Fate::Mark(mut object) => ("mark", std::mem::take(object.object_mut("metadata"))),
            Fate::MarkAndRemove(mut object) => ("mark and remove", std::mem::take(object.object_mut("metadata"))),
        }
    }

    #[test]
    fn objects_go_at_once_gracefully_or_when_nothing_holds_them() {
        let terminating = || object! { "deletionTimestamp": "1970-01-01T00:02:10Z", "deletionGracePeriodSeconds": 30 };
        let held = || object! { "finalizers": vec![Value::from("a/b")] };
        let none = Value::object;
        let rows = [
            ("configmaps", none(), None, None, "remove", ""),
            ("configmaps", none(), Some(5), Some("Background"), "remove", ""),
            ("configmaps", held(), None, None, "mark", "1970-01-01T00:01:40Z"),
            ("configmaps", none(), None, Some("Foreground"), "mark", "1970-01-01T00:01:40Z"),
            ("pods", none(), None, None, "mark", "1970-01-01T00:02:10Z"),
            ("pods", none(), Some(0), None, "mark and remove", "1970-01-01T00:01:40Z"),
            ("pods", terminating(), Some(40), None, "wait", ""),
            ("pods", terminating(), Some(10), None, "mark", "1970-01-01T00:01:50Z"),
        ];
        for (resource, metadata, seconds, policy, fate, until) in rows {
            let (found, marked) = decided(resource, metadata, seconds, policy);
            assert_eq!((found, marked.str("deletionTimestamp")), (fate, until), "{resource} {seconds:?} {policy:?}");
        }
    }
}
