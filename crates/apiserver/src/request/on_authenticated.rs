//! What a connection wants to be told of its requests.

use std::sync::Arc;

/// Among the extensions of a request: who to tell that its client has proved who it is.
#[derive(Clone)]
pub struct OnAuthenticated(Arc<dyn Fn() + Send + Sync>);

impl OnAuthenticated {
    pub fn new(tell: impl Fn() + Send + Sync + 'static) -> OnAuthenticated {
        OnAuthenticated(Arc::new(tell))
    }

    pub fn tell(&self) {
        (self.0)();
    }
}
