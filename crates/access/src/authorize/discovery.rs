//! Everybody who is known may find out what is served.

use super::{Attributes, Authorizer, Rule};
use crate::{AUTHENTICATED, User};

const ROOTS: [&str; 3] = ["/api", "/apis", "/openapi"];

pub struct Discovery;

impl Authorizer for Discovery {
    fn allows(&self, user: &User, attributes: &Attributes<'_>) -> bool {
        let Attributes::Path { verb: "get", path } = attributes else { return false };
        let below = |root: &str| path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        ROOTS.into_iter().any(below) && user.is_in(AUTHENTICATED)
    }

    fn rules(&self, user: &User) -> Vec<Rule> {
        let paths = &["/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*"];
        if user.is_in(AUTHENTICATED) { vec![Rule::Path { verbs: &["get"], paths }] } else { Vec::new() }
    }
}
