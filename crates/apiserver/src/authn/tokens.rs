//! Bearer tokens that are known from the start.

use std::collections::HashMap;

use super::authenticated;
use crate::request::{User, UserRef};

#[derive(Default)]
pub struct Tokens {
    users: HashMap<String, UserRef>,
}

impl Tokens {
    pub fn find(&self, token: &str) -> Option<UserRef> {
        self.users.get(token).cloned()
    }

    pub fn insert(&mut self, token: &str, user: User) {
        self.users.insert(token.to_owned(), authenticated(user));
    }
}
