//! Members of `system:masters` may do everything, whatever roles there are.

use super::{Attributes, Authorizer, Decision};
use crate::{MASTERS, User};

/// Who may do everything.
pub fn is_master(user: &User) -> bool {
    user.is_in(MASTERS)
}

pub struct Masters;

impl Authorizer for Masters {
    fn decide(&self, user: &User, _attributes: &Attributes<'_>) -> Decision {
        if is_master(user) { Decision::Allow } else { Decision::NoOpinion }
    }
}
