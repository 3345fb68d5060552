//! What a connection wants to be told of its requests, and what it knows of their client.

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

/// Among the extensions of a request: why the certificate of its connection proves nothing.
#[derive(Clone)]
pub struct Untrusted(pub Arc<str>);

/// Among the extensions of a request that asks for another protocol: its connection's place among the connected, to be
/// kept for as long as that is spoken.
#[derive(Clone)]
pub struct HeldPlace {
    _place: Arc<dyn std::any::Any + Send + Sync>,
}

impl HeldPlace {
    pub fn new(place: impl std::any::Any + Send + Sync) -> HeldPlace {
        HeldPlace { _place: Arc::new(place) }
    }
}

/// Among the extensions of a request: it comes from a part of this process, which bounds itself.
#[derive(Clone, Copy)]
pub struct OfThisProcess;
