//! Private keys in the forms in which others write them: PKCS#8, and the older ones of RSA (PKCS#1) and of elliptic curves
//! (SEC 1), which are the inner part of the newer.

use rcgen::{Error, KeyPair};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use yasna::models::ObjectIdentifier;

const RSA: &[u64] = &[1, 2, 840, 113_549, 1, 1, 1];
const ELLIPTIC: &[u64] = &[1, 2, 840, 10045, 2, 1];
const P256: &[u64] = &[1, 2, 840, 10045, 3, 1, 7];
const P384: &[u64] = &[1, 3, 132, 0, 34];

/// The first key in the text.
pub fn read(pem: &str) -> Result<KeyPair, Error> {
    match PrivateKeyDer::from_pem_slice(pem.as_bytes()).map_err(|_| Error::CouldNotParseKeyPair)? {
        PrivateKeyDer::Pkcs8(key) => KeyPair::try_from(&key),
        PrivateKeyDer::Pkcs1(key) => wrapped(RSA, None, key.secret_pkcs1_der()),
        PrivateKeyDer::Sec1(key) => {
            let der = key.secret_sec1_der();
            wrapped(ELLIPTIC, Some(P256), der).or_else(|_| wrapped(ELLIPTIC, Some(P384), der))
        }
        _ => Err(Error::CouldNotParseKeyPair),
    }
}

fn wrapped(algorithm: &[u64], curve: Option<&[u64]>, inner: &[u8]) -> Result<KeyPair, Error> {
    let der = yasna::construct_der(|writer| {
        writer.write_sequence(|fields| {
            fields.next().write_u8(0);
            fields.next().write_sequence(|name| {
                name.next().write_oid(&ObjectIdentifier::from_slice(algorithm));
                match curve {
                    Some(curve) => name.next().write_oid(&ObjectIdentifier::from_slice(curve)),
                    None => name.next().write_null(),
                }
            });
            fields.next().write_bytes(inner);
        });
    });
    KeyPair::try_from(&PrivatePkcs8KeyDer::from(der))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As openssl writes them, with its parameters before them.
    #[test]
    fn keys_are_read_in_whatever_form() {
        let ecdsa = [&rcgen::PKCS_ECDSA_P256_SHA256, &rcgen::PKCS_ECDSA_P384_SHA384];
        for (text, want) in [
            (include_str!("testdata/rsa-old.pem"), Some(&rcgen::PKCS_RSA_SHA256)),
            (include_str!("testdata/rsa-new.pem"), Some(&rcgen::PKCS_RSA_SHA256)),
            (include_str!("testdata/p256-old.pem"), Some(ecdsa[0])),
            (include_str!("testdata/p384-old.pem"), Some(ecdsa[1])),
            (include_str!("testdata/ed-new.pem"), Some(&rcgen::PKCS_ED25519)),
            (include_str!("testdata/p521-old.pem"), None),
            ("-----BEGIN EC PRIVATE KEY-----\nAAAA\n-----END EC PRIVATE KEY-----\n", None),
            ("", None),
        ] {
            let found = read(text);
            let algorithm = found.as_ref().ok().map(KeyPair::algorithm);
            assert_eq!(algorithm, want, "{text}");
        }
    }
}
