//! Bearer tokens that are known from the start.

use std::collections::HashMap;

use super::bearer::PlainTokens;
use crate::{User, UserRef};

#[derive(Default)]
pub struct TokenFile {
    users: HashMap<String, UserRef>,
}

impl TokenFile {
    pub fn insert(&mut self, token: &str, user: User) {
        self.users.insert(token.to_owned(), user.authenticated());
    }
}

impl PlainTokens for TokenFile {
    fn user_of(&self, token: &str) -> Option<UserRef> {
        self.users.get(token).cloned()
    }
}
