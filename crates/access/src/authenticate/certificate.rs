//! A client certificate's subject is its user: the common name is the name, the organizations are the groups.
//! A name of Kubernetes' own in it is the UID. The certificate's fingerprint goes along, so that what the user does can be traced to it.

use std::sync::Arc;
use std::time::Duration;

use ring::digest::{SHA256, digest};
use rkube_machinery::Text;
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use x509_parser::prelude::{FromDer, X509Certificate, X509Name};

use super::{Authenticator, CREDENTIAL_ID, Credentials, Verdict};
use crate::{User, UserRef};

/// What the name of a UID is in a subject.
const UID: &str = "1.3.6.1.4.1.57683.2";

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
    // The last one counts, as in Go.
    let name = subject.iter_common_name().last().and_then(|name| name.as_str().ok()).unwrap_or_default();
    if name.is_empty() {
        return Proof::None;
    }
    let uid = match uid_of(subject) {
        Ok(uid) => uid,
        Err(why) => return Proof::Refused(why.to_owned()),
    };
    let groups = subject.iter_organization().filter_map(|group| group.as_str().ok()).map(Text::from).collect();
    let extra = vec![(CREDENTIAL_ID.into(), vec![fingerprint(der).into()])];
    let user = User { name: name.into(), uid: uid.into(), groups, extra }.authenticated();
    Proof::User { user, until: certificate.validity().not_after.timestamp() }
}

/// The user's UID, if the subject has one.
fn uid_of<'a>(subject: &'a X509Name<'_>) -> Result<&'a str, &'static str> {
    let mut found = subject.iter_attributes().filter(|attribute| attribute.attr_type().to_id_string() == UID);
    match (found.next().map(|uid| uid.as_str()), found.next()) {
        (None, _) => Ok(""),
        (_, Some(_)) => Err("expected 1 UID, but found multiple"),
        (Some(Err(_)), _) => Err("unable to parse UID into a string"),
        (Some(Ok("")), _) => Err("UID cannot be an empty string"),
        (Some(Ok(uid)), None) => Ok(uid),
    }
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
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    use super::*;

    /// Certificates of openssl, for `O=dev, CN=first, CN=jane` with the UID `u-1`, and with another one, too.
    const ONE_UID: &str = "MIIBfzCCASUCFCv1OAd61dKOsP+yCRNyE36TyOfQMAoGCCqGSM49BAMCMEExDDAKBgNVBAoMA2RldjEOMAwGA1UEAwwFZmlyc3Qx\
        DTALBgNVBAMMBGphbmUxEjAQBgkrBgEEAYPCUwIMA3UtMTAgFw0yNjExMTkyMzE3NTdaGA8yMTI2MTAyNjIzMTc1N1owQTEMMAoG\
        A1UECgwDZGV2MQ4wDAYDVQQDDAVmaXJzdDENMAsGA1UEAwwEamFuZTESMBAGCSsGAQQBg8JTAgwDdS0xMFkwEwYHKoZIzj0CAQYI\
        KoZIzj0DAQcDQgAEEWdAgqbnifYkhg28QkMahtgc21TteXpVD78IKVv9364DyPU00vluZme2Pna84hGjsChgNjHD7afuTzW6TmfU\
        PDAKBggqhkjOPQQDAgNIADBFAiBz7CdpZBG484/v4npfOOq/ztDvWH0rZbs1SPR7TnFLLQIhAPCD8BrfYv3BGFCxiuJkKiX/QBq7\
        Z3UvkjfaMLSBxPMP";
    const TWO_UIDS: &str = "MIIBpzCCAU0CFGWSscE1QE7H4BSdkWAFrJaZoqzgMAoGCCqGSM49BAMCMFUxDDAKBgNVBAoMA2RldjEOMAwGA1UEAwwFZmlyc3Qx\
        DTALBgNVBAMMBGphbmUxEjAQBgkrBgEEAYPCUwIMA3UtMTESMBAGCSsGAQQBg8JTAgwDdS0yMCAXDTI2MTExOTIzMTc1N1oYDzIx\
        MjYxMDI2MjMxNzU3WjBVMQwwCgYDVQQKDANkZXYxDjAMBgNVBAMMBWZpcnN0MQ0wCwYDVQQDDARqYW5lMRIwEAYJKwYBBAGDwlMC\
        DAN1LTExEjAQBgkrBgEEAYPCUwIMA3UtMjBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABBFnQIKm54n2JIYNvEJDGobYHNtU7Xl6\
        VQ+/CClb/d+uA8j1NNL5bmZntj52vOIRo7AoYDYxw+2n7k81uk5n1DwwCgYIKoZIzj0EAwIDSAAwRQIhAL86VbatKxIiprf+BNqo\
        jjdTaNr4rh51Z+z54lyWMYnIAiAybT0C0q0r9TTOKqMEUCCwzuFEFAISnF6qaIPmt4zm6g==";

    #[test]
    fn the_last_name_counts_and_there_is_one_uid() {
        let proof = |text: &str| user_of(&STANDARD.decode(text).unwrap());
        let Proof::User { user, .. } = proof(ONE_UID) else { panic!("it names somebody") };
        let groups: Vec<&str> = user.groups.iter().map(Text::as_str).collect();
        assert_eq!((user.name.as_str(), user.uid.as_str()), ("jane", "u-1"));
        assert_eq!(groups, ["dev", "system:authenticated"]);
        let Proof::Refused(why) = proof(TWO_UIDS) else { panic!("it has two UIDs") };
        assert_eq!(why, "expected 1 UID, but found multiple");
    }

    #[test]
    fn fingerprints_are_lower_case_hex() {
        let empty = "X509SHA256=e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(fingerprint(b""), empty);
    }
}
