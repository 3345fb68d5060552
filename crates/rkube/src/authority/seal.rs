//! What is written to the store: the authority's certificate for all to see, and the keys under the join secret.
//!
//! Text: a line that names the format, then `salt`, `nonce` and `sealed` in base64, a line each, then the certificate as
//! PEM. The key is derived from the secret with HKDF-SHA256 and the salt; AES-256-GCM seals the two private keys with
//! format and certificate as associated data, so that none of the three can be exchanged.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::{aead, hkdf};
use rkube_machinery::host::Entropy;

use crate::pki::{Pair, SharedKeys};

const FORMAT: &str = "rkube authority 1";
/// What the derived key is for.
const PURPOSE: &[u8] = b"rkube authority 1: AES-256-GCM";
const SALT_BYTES: usize = 32;
/// Between the two keys, which are texts.
const SEPARATOR: char = '\0';

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Error {
    /// It was sealed under another one.
    Secret,
    Damaged,
}

pub(super) fn seal(keys: &SharedKeys, secret: &str, entropy: &dyn Entropy) -> String {
    let (mut salt, mut nonce) = ([0; SALT_BYTES], [0; aead::NONCE_LEN]);
    entropy.fill(&mut salt);
    entropy.fill(&mut nonce);
    let certificate = &keys.ca.certificate;
    let mut sealed = format!("{}{SEPARATOR}{}", keys.ca.key, keys.service_account_key).into_bytes();
    key(secret, &salt)
        .seal_in_place_append_tag(aead::Nonce::assume_unique_for_key(nonce), associated(certificate), &mut sealed)
        .expect("a text of a few kilobytes can be sealed");
    let [salt, nonce, sealed] = [&salt[..], &nonce[..], &sealed[..]].map(|bytes| STANDARD.encode(bytes));
    format!("{FORMAT}\n{salt}\n{nonce}\n{sealed}\n{certificate}")
}

pub(super) fn open(record: &[u8], secret: &str) -> Result<SharedKeys, Error> {
    let record = Record::parse(record).ok_or(Error::Damaged)?;
    let nonce = aead::Nonce::try_assume_unique_for_key(&record.nonce).map_err(|_| Error::Damaged)?;
    let mut sealed = record.sealed;
    let opened = key(secret, &record.salt)
        .open_in_place(nonce, associated(record.certificate), &mut sealed)
        .map_err(|_| Error::Secret)?;
    let text = std::str::from_utf8(opened).map_err(|_| Error::Damaged)?;
    let (key, service_account_key) = text.split_once(SEPARATOR).ok_or(Error::Damaged)?;
    let ca = Pair { certificate: record.certificate.to_owned(), key: key.to_owned() };
    Ok(SharedKeys { ca, service_account_key: service_account_key.to_owned() })
}

/// The certificate of the authority, which takes no secret to read.
pub(super) fn certificate(record: &[u8]) -> Option<&str> {
    Record::parse(record).map(|record| record.certificate)
}

struct Record<'a> {
    salt: Vec<u8>,
    nonce: Vec<u8>,
    sealed: Vec<u8>,
    certificate: &'a str,
}

impl Record<'_> {
    fn parse(record: &[u8]) -> Option<Record<'_>> {
        let mut lines = std::str::from_utf8(record).ok()?.splitn(5, '\n');
        if lines.next()? != FORMAT {
            return None;
        }
        let mut bytes = || STANDARD.decode(lines.next()?).ok();
        let (salt, nonce, sealed) = (bytes()?, bytes()?, bytes()?);
        Some(Record { salt, nonce, sealed, certificate: lines.next()? })
    }
}

fn key(secret: &str, salt: &[u8]) -> aead::LessSafeKey {
    let derived = hkdf::Salt::new(hkdf::HKDF_SHA256, salt).extract(secret.as_bytes());
    let expanded = derived.expand(&[PURPOSE], &aead::AES_256_GCM).expect("a key is shorter than HKDF's limit");
    aead::LessSafeKey::new(aead::UnboundKey::from(expanded))
}

fn associated(certificate: &str) -> aead::Aad<String> {
    aead::Aad::from(format!("{FORMAT}\n{certificate}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::SystemEntropy;

    fn keys() -> SharedKeys {
        let ca = Pair { certificate: "certificate\nof lines\n".to_owned(), key: "key\n".to_owned() };
        SharedKeys { ca, service_account_key: "signs\n".to_owned() }
    }

    #[test]
    fn what_was_sealed_is_opened_with_the_secret_alone() {
        let record = seal(&keys(), "secret", &SystemEntropy);
        let opened = open(record.as_bytes(), "secret").map_err(|_| ()).unwrap();
        assert_eq!(opened.ca.certificate, keys().ca.certificate);
        assert_eq!(opened.ca.key, keys().ca.key);
        assert_eq!(opened.service_account_key, keys().service_account_key);
        assert_eq!(certificate(record.as_bytes()), Some("certificate\nof lines\n"));
        assert_eq!(open(record.as_bytes(), "another").err(), Some(Error::Secret));
        assert_ne!(record, seal(&keys(), "secret", &SystemEntropy), "salt and nonce are new each time");
    }

    #[test]
    fn nothing_can_be_exchanged() {
        let record = seal(&keys(), "secret", &SystemEntropy);
        for index in 0..record.len() {
            let mut bytes = record.clone().into_bytes();
            bytes[index] ^= 1;
            assert!(open(&bytes, "secret").is_err(), "byte {index}");
            assert!(open(&bytes[..index], "secret").is_err(), "the first {index} bytes");
        }
    }
}
