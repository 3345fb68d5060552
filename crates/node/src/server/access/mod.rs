//! Who asks, and whether they may: the API server decides both, and its answers are kept for a while.
//!
//! [`attributes`] is what a request needs to be allowed, as upstream's fine-grained rules have it; [`DelegatedAccess`]
//! asks the API server.

pub mod attributes;
mod delegated;

pub use delegated::DelegatedAccess;

use std::sync::Arc;

use futures::future::BoxFuture;
use rustls::pki_types::CertificateDer;

use attributes::Attributes;

/// Somebody whose identity was proved.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct User {
    pub name: String,
    pub uid: String,
    pub groups: Vec<String>,
    pub extra: Vec<(String, Vec<String>)>,
}

/// What the server asks of whoever knows users and rights.
pub trait Access: Send + Sync + 'static {
    /// Whom the certificates of a connection, the client's own first, prove. That it has the key to them was shown.
    fn certificate(&self, chain: &[CertificateDer<'_>]) -> Option<Arc<User>>;

    /// Whom a bearer token proves. An error: it could not be found out.
    fn token<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<Option<Arc<User>>, String>>;

    /// Whether a user may. An error: it could not be found out.
    fn allows<'a>(&'a self, user: &'a Arc<User>, attributes: &'a Attributes) -> BoxFuture<'a, Result<bool, String>>;
}
