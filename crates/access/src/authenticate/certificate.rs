//! A client certificate's subject is its user: the common name is the name, the organizations are the groups.
//! The certificate's fingerprint goes along, so that what the user does can be traced to it.

use std::sync::Arc;
use std::time::Duration;

use ring::digest::{SHA256, digest};
use rkube_machinery::Text;
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::{Authenticator, CREDENTIAL_ID, Credentials, Verdict};
use crate::{User, UserRef};

/// The authority whose client certificates are taken.
pub struct Authority(Option<Arc<dyn ClientCertVerifier>>);

/// What the certificate of a connection proves.
#[derive(Debug)]
pub enum Proof {
    /// Who it is, and until when (in seconds) that holds.
    User { user: UserRef, until: i64 },
    /// Why it proves nothing: it was made by another authority, or is not valid now.
    Refused(String),
    /// There is none, or nobody is named.
    None,
}

impl Authority {
    /// Of certificates in PEM; without any, no certificate proves anything.
    pub fn new(pem: &str) -> Authority {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(CertificateDer::pem_slice_iter(pem.as_bytes()).filter_map(Result::ok));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
        Authority(verifier.ok())
    }

    /// What a chain, the leaf first, proves at this time. That the peer has its key was shown by TLS.
    pub fn proof(&self, chain: &[CertificateDer<'_>], now: i64) -> Proof {
        let (Some(verifier), Some((leaf, intermediates))) = (&self.0, chain.split_first()) else { return Proof::None };
        let seconds = UnixTime::since_unix_epoch(Duration::from_secs(now.try_into().unwrap_or(0)));
        if let Err(error) = verifier.verify_client_cert(leaf, intermediates, seconds) {
            return Proof::Refused(error.to_string());
        }
        user_of(leaf)
    }
}

/// The [`Authority`] has verified the certificate once for all requests of the connection.
pub struct Certificate;

impl Authenticator for Certificate {
    fn authenticate(&self, credentials: &Credentials<'_>) -> Verdict {
        match (credentials.connection, credentials.untrusted) {
            (Some(user), _) => Verdict::User(user.clone().into()),
            (None, Some(why)) => Verdict::Refused(why.to_owned()),
            (None, None) => Verdict::NoOpinion,
        }
    }
}

/// The user of a certificate that is good; nobody without a common name.
fn user_of(der: &[u8]) -> Proof {
    let Ok((_, certificate)) = X509Certificate::from_der(der) else { return Proof::None };
    let subject = certificate.subject();
    let name = subject.iter_common_name().next().and_then(|name| name.as_str().ok()).unwrap_or_default();
    if name.is_empty() {
        return Proof::None;
    }
    let groups = subject.iter_organization().filter_map(|group| group.as_str().ok()).map(Text::from).collect();
    let extra = vec![(CREDENTIAL_ID.into(), vec![fingerprint(der).into()])];
    let user = User { name: name.into(), groups, extra, ..User::default() }.authenticated();
    Proof::User { user, until: certificate.validity().not_after.timestamp() }
}

fn fingerprint(der: &[u8]) -> String {
    let mut text = "X509SHA256=".to_owned();
    for byte in digest(&SHA256, der).as_ref() {
        text.extend([byte >> 4, byte & 15].map(|half| char::from(b"0123456789abcdef"[usize::from(half)])));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_are_lower_case_hex() {
        let empty = "X509SHA256=e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(fingerprint(b""), empty);
    }
}
