//! A client certificate's subject is its user: the common name is the name, the organizations are the groups.

use rkube_machinery::Text;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::authenticated;
use crate::request::{User, UserRef};

/// The user of a certificate that TLS has verified; `None` without a common name.
pub fn user_of(der: &[u8]) -> Option<UserRef> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    let subject = certificate.subject();
    let name = subject.iter_common_name().next()?.as_str().ok()?;
    if name.is_empty() {
        return None;
    }
    let groups = subject.iter_organization().filter_map(|group| group.as_str().ok()).map(Text::from).collect();
    Some(authenticated(User { name: name.into(), groups, ..User::default() }))
}
