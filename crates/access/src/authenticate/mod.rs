//! Who asks. The members in their order: [`certificate`], [`bearer`] (whose own members are [`token_file`],
//! [`service_account`] and [`bootstrap`]), [`anonymous`].

mod anonymous;
mod bearer;
mod bootstrap;
pub mod certificate;
pub mod service_account;
mod token_file;

use std::sync::Arc;

use http::HeaderMap;
use rkube_catalog::Catalog;
use rkube_machinery::host::Clock;

pub use bearer::{TokenAuthenticator, TokenUser};
pub use token_file::TokenFile;

use crate::UserRef;
use bearer::{Bearer, ForServer};
use bootstrap::BootstrapTokens;
use service_account::{OnLegacyUse, ServiceAccounts, Signer};

/// The key in a user's extra facts that says which certificate or token proved who asks.
const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// What a request brings along to prove who sends it.
pub struct Credentials<'a> {
    /// The user of the connection: of its certificate, or a component's in the process.
    pub connection: Option<&'a UserRef>,
    /// Why the connection's certificate proves nothing.
    pub untrusted: Option<&'a str>,
    pub headers: &'a HeaderMap,
}

/// Who asks.
#[derive(Debug)]
pub struct Known {
    pub user: UserRef,
    /// Said to them with the answer.
    pub warning: Option<&'static str>,
}

impl From<UserRef> for Known {
    fn from(user: UserRef) -> Known {
        Known { user, warning: None }
    }
}

/// What a member makes of credentials.
#[derive(Debug)]
pub enum Verdict {
    User(Known),
    /// The credentials are the member's business, and worth nothing.
    Refused(String),
    /// Others may know.
    NoOpinion,
}

pub trait Authenticator: Send + Sync {
    fn authenticate(&self, credentials: &Credentials<'_>) -> Verdict;
}

/// What the members are made of.
pub struct Options {
    pub token_file: TokenFile,
    /// Whether one may be nobody.
    pub anonymous: bool,
    /// The keys of service accounts, where there are any.
    pub signer: Option<Arc<Signer>>,
    pub on_legacy_use: OnLegacyUse,
    /// Whether Secrets of `kube-system` hold tokens by which nodes join.
    pub bootstrap_tokens: bool,
}

/// The members in their order.
pub struct Authenticators {
    bearer: Arc<Bearer>,
    members: Vec<Box<dyn Authenticator>>,
    /// Whether who proves nothing may be nobody.
    anonymous: bool,
}

impl Authenticators {
    pub fn new(options: Options, catalog: &Arc<Catalog>, clock: &Arc<dyn Clock>) -> Authenticators {
        let Options { token_file, anonymous, signer, on_legacy_use, bootstrap_tokens } = options;
        let audiences = signer.as_ref().map(|signer| signer.audiences().to_vec()).unwrap_or_default();
        let token_file = ForServer { tokens: token_file, audiences: audiences.clone() };
        let mut tokens: Vec<Box<dyn TokenAuthenticator>> = vec![Box::new(token_file)];
        if let Some(signer) = signer {
            let (catalog, clock) = (catalog.clone(), clock.clone());
            tokens.push(Box::new(ServiceAccounts { signer, catalog, clock, on_legacy_use }));
        }
        if bootstrap_tokens {
            let known = BootstrapTokens { catalog: catalog.clone(), clock: clock.clone() };
            tokens.push(Box::new(ForServer { tokens: known, audiences }));
        }
        let bearer = Arc::new(Bearer { members: tokens });
        let members: Vec<Box<dyn Authenticator>> = vec![Box::new(certificate::Certificate), Box::new(bearer.clone())];
        Authenticators { bearer, members, anonymous }
    }

    /// The user of a request, or why it is refused.
    /// Whose credentials one member refuses may have others that another takes, but is not nobody.
    pub fn request(&self, credentials: &Credentials<'_>) -> Result<Known, String> {
        let mut refused = None;
        for member in &self.members {
            match member.authenticate(credentials) {
                Verdict::User(user) => return Ok(user),
                Verdict::Refused(why) => refused = Some(why),
                Verdict::NoOpinion => {}
            }
        }
        match (refused, self.anonymous) {
            (Some(why), _) => Err(why),
            (None, true) => Ok(anonymous::user()),
            (None, false) => Err("nobody knows who asks".to_owned()),
        }
    }

    /// The user of a token and for which of these audiences it is good; without any, it must be good for this server.
    pub fn token(&self, token: &str, audiences: &[String]) -> Result<TokenUser, String> {
        self.bearer.user_of(token, audiences)
    }
}
