//! Tokens whose signature was verified: that takes longer than all else on the way of a request, and a token does not change.
//! What a token is worth (its time, its account, what it is bound to) is looked up at every request all the same.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::RwLock;
use rkube_machinery::Value;

/// Of so many tokens it is known; at one more all are forgotten, and verified again.
const TOKENS_MAX: usize = 1024;
/// Longer ones are verified each time.
const LENGTH_MAX: usize = 4096;

#[derive(Default)]
pub(super) struct Verified(RwLock<HashMap<Box<str>, Arc<Value>>>);

impl Verified {
    /// What the token says, if it was verified before.
    pub fn find(&self, token: &str) -> Option<Arc<Value>> {
        self.0.read().get(token).cloned()
    }

    pub fn keep(&self, token: &str, claims: &Arc<Value>) {
        if token.len() > LENGTH_MAX {
            return;
        }
        let mut tokens = self.0.write();
        if tokens.len() >= TOKENS_MAX {
            tokens.clear();
        }
        tokens.insert(token.into(), claims.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_has_a_bound() {
        let verified = Verified::default();
        let claims = Arc::new(Value::object());
        for number in 0..TOKENS_MAX {
            verified.keep(&number.to_string(), &claims);
        }
        assert!(verified.find("0").is_some());
        verified.keep("another", &claims);
        assert!(verified.find("0").is_none() && verified.find("another").is_some());
        verified.keep(&"x".repeat(LENGTH_MAX + 1), &claims);
        assert_eq!(verified.0.read().len(), 1);
    }
}
