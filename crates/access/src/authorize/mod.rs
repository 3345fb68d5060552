//! Who may do what. The members in their order: [`masters`], then those of the [`Mode`]s. What nobody allows is refused.

mod always_allow;
mod masters;
pub mod node;
pub mod rbac;

use std::sync::Arc;

use rkube_catalog::Snapshot;
use rkube_machinery::field::quote;
use rkube_machinery::{GroupResource, Status};

pub use masters::is_master;
pub use rbac::{Rbac, Rule};

use crate::User;

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attributes<'a> {
    Resource(ResourceAttributes<'a>),
    /// On a path that is no resource: `/healthz`, `/openapi/v3`, discovery.
    Path {
        verb: &'a str,
        path: &'a str,
    },
}

/// Something done to an API object or a collection of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResourceAttributes<'a> {
    pub verb: &'a str,
    pub group: &'a str,
    pub version: &'a str,
    pub resource: &'a str,
    pub subresource: &'a str,
    pub namespace: &'a str,
    /// Of lists and watches that of the only object that is asked for, if there is one.
    pub name: &'a str,
    /// The field selector of a list, a watch or the deletion of a collection, as it was given.
    pub field_selector: &'a str,
}

/// What a member makes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    Allow,
    /// Nobody else is asked.
    Deny,
    /// Others may know. What nobody has an opinion on is refused.
    NoOpinion,
}

/// A decision and what is to be said of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub decision: Decision,
    pub reason: String,
}

/// What a user may do in a namespace, as reviews of rules show it.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    pub rules: Vec<Arc<Rule>>,
    pub is_incomplete: bool,
    /// Why there may be more; empty where all went well.
    pub error: String,
}

pub trait Authorizer: Send + Sync {
    /// Asked about every request: quick, and waits for nothing.
    fn decide(&self, user: &User, attributes: &Attributes<'_>) -> Decision;

    /// Why the member decides so; empty where there is nothing to say.
    fn reason(&self, _user: &User, _attributes: &Attributes<'_>, _decision: Decision) -> String {
        String::new()
    }

    /// What the member's rules allow the user in a namespace, and everywhere.
    fn rules(&self, _user: &User, _namespace: &str) -> Rules {
        Rules::default()
    }
}

/// Who is asked, beside the masters of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Nodes may do what they need for their pods.
    Node,
    Rbac,
    /// Everybody may do everything: for tests.
    AlwaysAllow,
}

/// The members in their order.
pub struct Authorizers {
    rbac: Arc<Rbac>,
    members: Vec<Arc<dyn Authorizer>>,
}

impl Authorizers {
    /// As clusters have it: nodes have rights of their own, and roles decide.
    pub fn new(catalog: &Snapshot) -> Authorizers {
        Authorizers::of_modes(catalog, &[Mode::Node, Mode::Rbac])
    }

    pub fn of_modes(catalog: &Snapshot, modes: &[Mode]) -> Authorizers {
        let rbac = Arc::new(Rbac::new(catalog));
        let mut members: Vec<Arc<dyn Authorizer>> = vec![Arc::new(masters::Masters)];
        members.extend(modes.iter().map(|mode| -> Arc<dyn Authorizer> {
            match mode {
                Mode::Node => Arc::new(node::NodeAuthorizer::new(catalog)),
                Mode::Rbac => rbac.clone(),
                Mode::AlwaysAllow => Arc::new(always_allow::AlwaysAllow),
            }
        }));
        Authorizers { rbac, members }
    }

    pub fn allow(&self, user: &User, attributes: &Attributes<'_>) -> bool {
        self.decide(user, attributes).0 == Decision::Allow
    }

    /// The refusal, unless the user may.
    pub fn check(&self, user: &User, attributes: &Attributes<'_>) -> Result<(), Status> {
        if self.allow(user, attributes) {
            return Ok(());
        }
        let (resource, name) = match attributes {
            Attributes::Resource(asked) => (GroupResource::new(asked.group, asked.resource), asked.name),
            Attributes::Path { .. } => (GroupResource::new("", ""), ""),
        };
        let reason = self.verdict(user, attributes).reason;
        Err(Status::forbidden(&resource, name, attributes.refusal(user, &reason)))
    }

    /// The decision, and who made it.
    fn decide(&self, user: &User, attributes: &Attributes<'_>) -> (Decision, Option<&dyn Authorizer>) {
        let decisions = self.members.iter().map(|member| (member.decide(user, attributes), Some(&**member)));
        let mut opinions = decisions.filter(|(decision, _)| *decision != Decision::NoOpinion);
        opinions.next().unwrap_or((Decision::NoOpinion, None))
    }

    /// The decision with its reason: who decides says why, and where nobody does, all of them.
    pub fn verdict(&self, user: &User, attributes: &Attributes<'_>) -> Verdict {
        let (decision, member) = self.decide(user, attributes);
        let reason = match member {
            Some(member) => member.reason(user, attributes, decision),
            None => {
                let reasons = self.members.iter().map(|member| member.reason(user, attributes, decision));
                reasons.filter(|reason| !reason.is_empty()).collect::<Vec<_>>().join("\n")
            }
        };
        Verdict { decision, reason }
    }

    /// What the user may do in the namespace.
    pub fn rules(&self, user: &User, namespace: &str) -> Rules {
        let mut found = Rules::default();
        let mut errors = Vec::new();
        for rules in self.members.iter().map(|member| member.rules(user, namespace)) {
            found.rules.extend(rules.rules);
            found.is_incomplete |= rules.is_incomplete;
            errors.extend(Some(rules.error).filter(|error| !error.is_empty()));
        }
        found.error = rbac::together(&errors);
        found
    }

    /// Who knows the roles, for those who look after what they give away.
    pub fn rbac(&self) -> &Rbac {
        &self.rbac
    }
}

impl<'a> Attributes<'a> {
    /// Where it is to be done: empty at the scope of the cluster.
    pub fn namespace(&self) -> &'a str {
        match self {
            Attributes::Resource(asked) => asked.namespace,
            Attributes::Path { .. } => "",
        }
    }

    /// The words by which the user is refused, with the reason where there is one.
    pub fn refusal(&self, user: &User, reason: &str) -> String {
        let refused = escaped(&self.refused(user));
        if reason.is_empty() { refused } else { format!("{refused}: {reason}") }
    }

    fn refused(&self, user: &User) -> String {
        let name = quote(&user.name);
        let asked = match self {
            Attributes::Path { verb, path } => return format!("User {name} cannot {verb} path {}", quote(path)),
            Attributes::Resource(asked) => asked,
        };
        let resource = match asked.subresource {
            "" => quote(asked.resource),
            subresource => quote(&format!("{}/{subresource}", asked.resource)),
        };
        let scope = match asked.namespace {
            "" => "at the cluster scope".to_owned(),
            namespace => format!("in the namespace {}", quote(namespace)),
        };
        let (verb, group) = (asked.verb, quote(asked.group));
        format!("User {name} cannot {verb} resource {resource} in API group {group} {scope}")
    }
}

/// The text with nothing in it that a browser would take for markup.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_say_what_was_asked() {
        let user = User { name: "a".into(), ..User::default() };
        let mut asked = ResourceAttributes { verb: "get", group: "apps", resource: "b", ..Default::default() };
        let want = r#"User "a" cannot get resource "b" in API group "apps" at the cluster scope"#;
        assert_eq!(Attributes::Resource(asked).refusal(&user, ""), want);
        (asked.subresource, asked.namespace) = ("c", "d");
        let want = r#"User "a" cannot get resource "b/c" in API group "apps" in the namespace "d""#;
        assert_eq!(Attributes::Resource(asked).refusal(&user, ""), want);
        let path = Attributes::Path { verb: "get", path: "/x" };
        assert_eq!(path.refusal(&user, "why"), r#"User "a" cannot get path "/x": why"#);
        let path = Attributes::Path { verb: "get", path: "/<&>" };
        assert_eq!(path.refusal(&user, "<"), r#"User "a" cannot get path "/&lt;&amp;&gt;": <"#);
    }
}
