//! Everybody who is known may ask who they are.

use super::{Attributes, Authorizer, Rule};
use crate::{AUTHENTICATED, User};

const RESOURCE: &str = "selfsubjectreviews";

pub struct SelfReview;

impl Authorizer for SelfReview {
    fn allows(&self, user: &User, attributes: &Attributes<'_>) -> bool {
        let Attributes::Resource(asked) = attributes else { return false };
        asked.resource == RESOURCE && asked.verb == "create" && user.is_in(AUTHENTICATED)
    }

    fn rules(&self, user: &User) -> Vec<Rule> {
        if !user.is_in(AUTHENTICATED) {
            return Vec::new();
        }
        vec![Rule::Resource { verbs: &["create"], groups: &["authentication.k8s.io"], resources: &[RESOURCE] }]
    }
}
