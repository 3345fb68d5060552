//! Reading a certificate that is there, to see whether it still serves.

use std::net::IpAddr;

use rcgen::{KeyPair, PublicKeyData};
use x509_parser::extensions::GeneralName;
use x509_parser::pem::Pem;
use x509_parser::prelude::X509Certificate;

use super::ServerNames;

/// A certificate as PEM holds it.
pub(super) struct Facts {
    pem: Pem,
}

impl Facts {
    pub(super) fn read(text: &str) -> Result<Self, rcgen::Error> {
        let pem = Pem::iter_from_buffer(text.as_bytes())
            .next()
            .and_then(Result::ok)
            .ok_or(rcgen::Error::CouldNotParseCertificate)?;
        let facts = Facts { pem };
        facts.certificate().ok_or(rcgen::Error::CouldNotParseCertificate)?;
        Ok(facts)
    }

    pub(super) fn expires_within(&self, now_seconds: i64, seconds: i64) -> bool {
        self.holds(|certificate| certificate.validity().not_after.timestamp() <= now_seconds + seconds)
    }

    pub(super) fn is_signed_by(&self, authority_pem: &str) -> bool {
        let Ok(authority) = Facts::read(authority_pem) else { return false };
        self.holds(|certificate| {
            authority.holds(|authority| {
                certificate.issuer() == authority.subject()
                    && certificate.verify_signature(Some(authority.public_key())).is_ok()
            })
        })
    }

    pub(super) fn is_of_key(&self, key: &KeyPair) -> bool {
        self.holds(|certificate| certificate.public_key().subject_public_key.data.as_ref() == key.der_bytes())
    }

    /// Whether its subject has this common name.
    pub(super) fn is_of(&self, common_name: &str) -> bool {
        self.holds(|certificate| {
            let mut names = certificate.subject().iter_common_name();
            names.any(|name| name.as_str().is_ok_and(|name| name == common_name))
        })
    }

    pub(super) fn covers(&self, names: &ServerNames) -> bool {
        self.holds(|certificate| {
            let Ok(Some(extension)) = certificate.subject_alternative_name() else { return false };
            let mut covered = ServerNames::default();
            for name in &extension.value.general_names {
                match name {
                    GeneralName::DNSName(name) => covered.add_dns(name),
                    GeneralName::IPAddress(bytes) => address(bytes).into_iter().for_each(|ip| covered.add_address(ip)),
                    _ => {}
                }
            }
            let all_names = names.dns().all(|name| covered.dns().any(|other| other == name));
            all_names && names.addresses().all(|address| covered.addresses().any(|other| other == address))
        })
    }

    fn holds(&self, test: impl Fn(&X509Certificate<'_>) -> bool) -> bool {
        self.certificate().is_some_and(|certificate| test(&certificate))
    }

    fn certificate(&self) -> Option<X509Certificate<'_>> {
        self.pem.parse_x509().ok()
    }
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from),
        16 => <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from),
        _ => None,
    }
}
