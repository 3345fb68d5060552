//! Everybody may see whether the server lives, and its version.

use super::{Attributes, Authorizer, Rule};
use crate::User;

const PATHS: &[&str] = &["/healthz", "/livez", "/readyz", "/version", "/version/"];

pub struct PublicPaths;

impl Authorizer for PublicPaths {
    fn allows(&self, _user: &User, attributes: &Attributes<'_>) -> bool {
        matches!(attributes, Attributes::Path { verb: "get", path } if PATHS.contains(path))
    }

    fn rules(&self, _user: &User) -> Vec<Rule> {
        vec![Rule::Path { verbs: &["get"], paths: PATHS }]
    }
}
