//! What a request asks for: the path taken apart, the query's options, and who asks.

mod info;
mod options;

use std::sync::Arc;

pub use info::{RequestInfo, Target};
pub use options::{FieldValidation, Options, VersionMatch, number};
use rkube_machinery::value::Text;

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
    pub fn anonymous() -> User {
        User { name: "system:anonymous".into(), groups: vec!["system:unauthenticated".into()], ..User::default() }
    }

    /// The server itself.
    pub fn apiserver() -> User {
        User {
            name: "system:apiserver".into(),
            groups: vec!["system:authenticated".into(), "system:masters".into()],
            ..User::default()
        }
    }

    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|member| member == group)
    }
}
