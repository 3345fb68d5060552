//! Users, and the groups that mean something to the server itself.

use std::sync::Arc;

use rkube_machinery::Text;

/// The group of everybody whose name is proved.
pub const AUTHENTICATED: &str = "system:authenticated";
/// The group of those who did not prove who they are.
pub const UNAUTHENTICATED: &str = "system:unauthenticated";
/// The group of those who may do everything.
pub const MASTERS: &str = "system:masters";

/// The group of nodes.
pub const NODES: &str = "system:nodes";
const NODE_PREFIX: &str = "system:node:";

/// Who makes a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    pub name: Text,
    pub uid: Text,
    pub groups: Vec<Text>,
    pub extra: Vec<(Text, Vec<Text>)>,
}

pub type UserRef = Arc<User>;

impl User {
    pub const ANONYMOUS: &str = "system:anonymous";

    pub fn anonymous() -> User {
        User { name: User::ANONYMOUS.into(), groups: vec![UNAUTHENTICATED.into()], ..User::default() }
    }

    /// The groups of the service accounts of a namespace.
    pub fn account_groups(namespace: &str) -> Vec<Text> {
        vec!["system:serviceaccounts".into(), format!("system:serviceaccounts:{namespace}").into()]
    }

    /// The server itself.
    pub fn apiserver() -> User {
        User { name: "system:apiserver".into(), groups: vec![AUTHENTICATED.into(), MASTERS.into()], ..User::default() }
    }

    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|member| member == group)
    }

    /// The name of the node that the user is; empty where it is a node without a name.
    pub fn node(&self) -> Option<&str> {
        self.name.strip_prefix(NODE_PREFIX).filter(|_| self.is_in(NODES))
    }

    /// The user in the group that all known users are in.
    pub(crate) fn authenticated(mut self) -> UserRef {
        if !self.is_in(AUTHENTICATED) {
            self.groups.push(AUTHENTICATED.into());
        }
        Arc::new(self)
    }
}
