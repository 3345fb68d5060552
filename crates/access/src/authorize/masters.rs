//! Members of `system:masters` may do everything.

use super::{Attributes, Authorizer, Rule};
use crate::{MASTERS, User};

/// Who may do everything.
pub fn is_master(user: &User) -> bool {
    user.is_in(MASTERS)
}

pub struct Masters;

impl Authorizer for Masters {
    fn allows(&self, user: &User, _attributes: &Attributes<'_>) -> bool {
        is_master(user)
    }

    fn rules(&self, user: &User) -> Vec<Rule> {
        if !is_master(user) {
            return Vec::new();
        }
        vec![
            Rule::Resource { verbs: &["*"], groups: &["*"], resources: &["*"] },
            Rule::Path { verbs: &["*"], paths: &["*"] },
        ]
    }

    fn allows_all(&self, user: &User) -> bool {
        is_master(user)
    }
}
