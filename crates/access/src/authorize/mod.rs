//! Who may do what. The members in their order: [`masters`], [`public_paths`], [`discovery`], [`self_review`]. What
//! nobody allows is refused.

mod discovery;
mod masters;
mod public_paths;
mod self_review;

use rkube_machinery::field::quote;

pub use masters::is_master;

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
    pub name: &'a str,
}

/// What a user may do, as reviews of rules show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rule {
    Resource { verbs: &'static [&'static str], groups: &'static [&'static str], resources: &'static [&'static str] },
    Path { verbs: &'static [&'static str], paths: &'static [&'static str] },
}

pub trait Authorizer: Send + Sync {
    /// Whether this member allows it. Those who do not leave it to the others.
    fn allows(&self, user: &User, attributes: &Attributes<'_>) -> bool;

    /// What this member allows the user.
    fn rules(&self, user: &User) -> Vec<Rule>;

    /// Whether this member's rules leave nothing for others to allow.
    fn allows_all(&self, _user: &User) -> bool {
        false
    }
}

/// The members in their order.
pub struct Authorizers {
    members: Vec<Box<dyn Authorizer>>,
}

impl Default for Authorizers {
    fn default() -> Self {
        Authorizers {
            members: vec![
                Box::new(masters::Masters),
                Box::new(public_paths::PublicPaths),
                Box::new(discovery::Discovery),
                Box::new(self_review::SelfReview),
            ],
        }
    }
}

impl Authorizers {
    pub fn allow(&self, user: &User, attributes: &Attributes<'_>) -> bool {
        self.members.iter().any(|member| member.allows(user, attributes))
    }

    /// What the user may do.
    pub fn rules(&self, user: &User) -> Vec<Rule> {
        let mut rules = Vec::new();
        for member in &self.members {
            rules.extend(member.rules(user));
            if member.allows_all(user) {
                break;
            }
        }
        rules
    }
}

impl Attributes<'_> {
    /// The words by which the user is refused.
    pub fn refusal(&self, user: &User) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AUTHENTICATED, MASTERS};

    #[test]
    fn the_members_allow() {
        let path = |verb, path| Attributes::Path { verb, path };
        let on = |verb, resource| Attributes::Resource(ResourceAttributes { verb, resource, ..Default::default() });
        // What is asked, and whether anonymous users, known users and masters may.
        let table = [
            (path("get", "/healthz"), [true, true, true]),
            (path("post", "/healthz"), [false, false, true]),
            (path("get", "/version/"), [true, true, true]),
            (path("get", "/openapi/v3"), [false, true, true]),
            (path("get", "/apis"), [false, true, true]),
            (path("get", "/apisx"), [false, false, true]),
            (path("get", "/metrics"), [false, false, true]),
            (on("get", "pods"), [false, false, true]),
            (on("create", "selfsubjectreviews"), [false, true, true]),
            (on("get", "selfsubjectreviews"), [false, false, true]),
        ];
        let in_groups =
            |groups: &[&str]| User { groups: groups.iter().map(|group| (*group).into()).collect(), ..User::default() };
        let users = [User::anonymous(), in_groups(&[AUTHENTICATED]), in_groups(&[AUTHENTICATED, MASTERS])];
        let authorizers = Authorizers::default();
        for (attributes, allowed) in table {
            let found = std::array::from_fn(|place| authorizers.allow(&users[place], &attributes));
            assert_eq!(allowed, found, "{attributes:?}");
        }
        assert_eq!(authorizers.rules(&users[2]).len(), 2);
    }

    #[test]
    fn refusals_say_what_was_asked() {
        let user = User { name: "a".into(), ..User::default() };
        let mut asked = ResourceAttributes { verb: "get", group: "apps", resource: "b", ..Default::default() };
        let want = r#"User "a" cannot get resource "b" in API group "apps" at the cluster scope"#;
        assert_eq!(Attributes::Resource(asked).refusal(&user), want);
        (asked.subresource, asked.namespace) = ("c", "d");
        let want = r#"User "a" cannot get resource "b/c" in API group "apps" in the namespace "d""#;
        assert_eq!(Attributes::Resource(asked).refusal(&user), want);
        let path = Attributes::Path { verb: "get", path: "/x" };
        assert_eq!(path.refusal(&user), r#"User "a" cannot get path "/x""#);
    }
}
