//! Everybody may do everything.

use std::sync::Arc;

use super::{Attributes, Authorizer, Decision, Rule, Rules};
use crate::User;

pub struct AlwaysAllow;

impl Authorizer for AlwaysAllow {
    fn decide(&self, _user: &User, _attributes: &Attributes<'_>) -> Decision {
        Decision::Allow
    }

    fn rules(&self, _user: &User, _namespace: &str) -> Rules {
        let all = || vec!["*".into()];
        let resources = Rule { verbs: all(), groups: all(), resources: all(), ..Rule::default() };
        let paths = Rule { verbs: all(), paths: all(), ..Rule::default() };
        Rules { rules: vec![Arc::new(resources), Arc::new(paths)], ..Rules::default() }
    }
}
