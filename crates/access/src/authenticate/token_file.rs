//! Bearer tokens that are known from the start.

use std::collections::HashMap;

use super::{TokenAuthenticator, TokenUser};
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

impl TokenAuthenticator for TokenFile {
    /// Such tokens are good for every audience.
    fn user_of(&self, token: &str, audiences: &[String]) -> Option<Result<TokenUser, String>> {
        let user = self.users.get(token)?.clone();
        Some(Ok(TokenUser { user, audiences: audiences.to_vec(), warning: None }))
    }
}
