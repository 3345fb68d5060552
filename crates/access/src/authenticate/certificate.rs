//! A client certificate's subject is its user: the common name is the name, the organizations are the groups.
//! The certificate's fingerprint goes along, so that what the user does can be traced to it.

use ring::digest::{SHA256, digest};
use rkube_machinery::Text;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::{Authenticator, CREDENTIAL_ID, Credentials, Verdict};
use crate::{User, UserRef};

/// TLS has verified the certificate, and [`user_of`] has read it once for all requests of the connection.
pub struct Certificate;

impl Authenticator for Certificate {
    fn authenticate(&self, credentials: &Credentials<'_>) -> Verdict {
        credentials.connection.map_or(Verdict::NoOpinion, |user| Verdict::User(user.clone().into()))
    }
}

/// The user of a certificate that TLS has verified; `None` without a common name.
pub fn user_of(der: &[u8]) -> Option<UserRef> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    let subject = certificate.subject();
    let name = subject.iter_common_name().next()?.as_str().ok()?;
    if name.is_empty() {
        return None;
    }
    let groups = subject.iter_organization().filter_map(|group| group.as_str().ok()).map(Text::from).collect();
    let extra = vec![(CREDENTIAL_ID.into(), vec![fingerprint(der).into()])];
    Some(User { name: name.into(), groups, extra, ..User::default() }.authenticated())
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
