//! Whether a certificate and a private key belong together, and what is wrong in the words that clients know.
//!
//! Keys are looked at, not used: of a private key only the public half that it carries is read.

use ring::signature::{Ed25519KeyPair, KeyPair};
use rkube_machinery::pem;
use x509_parser::prelude::{FromDer, SubjectPublicKeyInfo, X509Certificate};
use x509_parser::public_key::PublicKey;

const MISMATCH: &str = "tls: private key does not match public key";
const OTHER_TYPE: &str = "tls: private key type does not match public key type";
const UNREADABLE: &str = "tls: failed to parse private key";

const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
const ELLIPTIC: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
const ED25519: &[u8] = &[0x2b, 0x65, 0x70];
const X25519: &[u8] = &[0x2b, 0x65, 0x6e];

/// P-224, P-256, P-384 and P-521.
const CURVES: [&[u8]; 4] = [
    &[0x2b, 0x81, 0x04, 0x00, 0x21],
    &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07],
    &[0x2b, 0x81, 0x04, 0x00, 0x22],
    &[0x2b, 0x81, 0x04, 0x00, 0x23],
];

/// What is wrong with this pair of PEM texts; none where they fit.
pub(super) fn problem(certificate: &[u8], key: &[u8]) -> Option<String> {
    check(certificate, key).err()
}

fn check(certificate: &[u8], key: &[u8]) -> Result<(), String> {
    let certificate = certificate_bytes(certificate)?;
    let key = key_bytes(key)?;
    let public = match X509Certificate::from_der(&certificate) {
        Ok(([], certificate)) => public_half(certificate.public_key())?,
        Ok(_) => return Err("x509: trailing data".to_owned()),
        Err(_) => return Err("x509: malformed certificate".to_owned()),
    };
    let private = private_half(&key)?;
    match (public, private) {
        (None, _) => Err("tls: unknown public key algorithm".to_owned()),
        (Some(Half::Rsa(public)), Half::Rsa(private)) if public == private => Ok(()),
        // A key that does not carry its public half cannot be compared.
        (Some(Half::Elliptic(_)), Half::Elliptic(private)) if private.is_empty() => Ok(()),
        (Some(Half::Elliptic(public)), Half::Elliptic(private)) if public == private => Ok(()),
        (Some(Half::Ed25519(public)), Half::Ed25519(private)) if public == private => Ok(()),
        (Some(public), private) => {
            let same_type = std::mem::discriminant(&public) == std::mem::discriminant(&private);
            Err(if same_type { MISMATCH } else { OTHER_TYPE }.to_owned())
        }
    }
}

/// The public half of a key: an RSA modulus, a point of a curve, the bytes of an Ed25519 key.
enum Half {
    Rsa(Vec<u8>),
    Elliptic(Vec<u8>),
    Ed25519(Vec<u8>),
}

/// The first certificate of the text.
fn certificate_bytes(text: &[u8]) -> Result<Vec<u8>, String> {
    let mut skipped: Vec<String> = Vec::new();
    for block in pem::blocks(text) {
        if block.label == "CERTIFICATE" {
            return Ok(block.bytes);
        }
        skipped.push(block.label);
    }
    Err(match &skipped[..] {
        [] => "tls: failed to find any PEM data in certificate input".to_owned(),
        [only] if only.ends_with("PRIVATE KEY") => {
            "tls: failed to find certificate PEM data in certificate input, but did find a private key; PEM inputs may \
             have been switched"
                .to_owned()
        }
        skipped => format!(
            "tls: failed to find \"CERTIFICATE\" PEM block in certificate input after skipping PEM blocks of the \
             following types: [{}]",
            skipped.join(" ")
        ),
    })
}

/// The first private key of the text.
fn key_bytes(text: &[u8]) -> Result<Vec<u8>, String> {
    let mut skipped: Vec<String> = Vec::new();
    for block in pem::blocks(text) {
        if block.label == "PRIVATE KEY" || block.label.ends_with(" PRIVATE KEY") {
            return Ok(block.bytes);
        }
        skipped.push(block.label);
    }
    Err(match &skipped[..] {
        [] => "tls: failed to find any PEM data in key input".to_owned(),
        [only] if only == "CERTIFICATE" => {
            "tls: found a certificate rather than a key in the PEM for the private key".to_owned()
        }
        skipped => format!(
            "tls: failed to find PEM block with type ending in \"PRIVATE KEY\" in key input after skipping PEM blocks \
             of the following types: [{}]",
            skipped.join(" ")
        ),
    })
}

/// None for an algorithm that is not known.
fn public_half(info: &SubjectPublicKeyInfo<'_>) -> Result<Option<Half>, String> {
    let point = || info.subject_public_key.data.to_vec();
    let algorithm = info.algorithm.algorithm.as_bytes();
    if algorithm == ELLIPTIC {
        let curve = info.algorithm.parameters.as_ref().map(|parameters| parameters.data);
        let known = curve.is_some_and(|curve| CURVES.contains(&curve));
        return if known {
            Ok(Some(Half::Elliptic(point())))
        } else {
            Err("x509: unsupported elliptic curve".to_owned())
        };
    }
    if algorithm == ED25519 {
        return Ok(Some(Half::Ed25519(point())));
    }
    Ok(match info.parsed() {
        Ok(PublicKey::RSA(key)) => Some(Half::Rsa(without_zeros(key.modulus).to_vec())),
        _ => None,
    })
}

/// Reads the three forms in which private keys are written: PKCS#1, PKCS#8 and SEC 1.
fn private_half(bytes: &[u8]) -> Result<Half, String> {
    if let Some(modulus) = rsa_modulus(bytes) {
        return Ok(Half::Rsa(modulus));
    }
    if let Some(Wrapped { algorithm, curve, key: inner }) = Wrapped::read(bytes) {
        let half = if algorithm == RSA {
            rsa_modulus(inner).map(Half::Rsa)
        } else if algorithm == ELLIPTIC {
            elliptic_point(inner, curve).map(Half::Elliptic)
        } else if algorithm == ED25519 {
            ed25519_public(inner).map(Half::Ed25519)
        } else if algorithm == X25519 {
            return Err("tls: found unknown private key type in PKCS#8 wrapping".to_owned());
        } else {
            None
        };
        return half.ok_or_else(|| UNREADABLE.to_owned());
    }
    elliptic_point(bytes, None).map(Half::Elliptic).ok_or_else(|| UNREADABLE.to_owned())
}

/// `SEQUENCE { version, modulus, … }`, with all nine numbers of a key of two primes.
fn rsa_modulus(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut fields = Der::sequence(bytes)?;
    let mut numbers = Vec::new();
    while let Some(number) = fields.next(INTEGER) {
        numbers.push(number);
    }
    (numbers.len() == 9 && numbers[0] == [0]).then(|| without_zeros(numbers[1]).to_vec())
}

/// `SEQUENCE { version, SEQUENCE { algorithm, curve }, OCTET STRING }`.
struct Wrapped<'a> {
    algorithm: &'a [u8],
    curve: Option<&'a [u8]>,
    key: &'a [u8],
}

impl<'a> Wrapped<'a> {
    fn read(bytes: &'a [u8]) -> Option<Wrapped<'a>> {
        let mut fields = Der::sequence(bytes)?;
        fields.next(INTEGER)?;
        let mut names = Der(fields.next(SEQUENCE)?);
        let algorithm = names.next(OBJECT)?;
        Some(Wrapped { algorithm, curve: names.next(OBJECT), key: fields.next(OCTETS)? })
    }
}

/// `SEQUENCE { 1, OCTET STRING, [0] curve, [1] BIT STRING }`: the point; empty where it is not there.
fn elliptic_point(bytes: &[u8], curve: Option<&[u8]>) -> Option<Vec<u8>> {
    const CURVE: u8 = 0xa0;
    const POINT: u8 = 0xa1;
    let mut fields = Der::sequence(bytes)?;
    if fields.next(INTEGER)? != [1] {
        return None;
    }
    fields.next(OCTETS)?;
    let own = fields.next(CURVE).and_then(|inner| Der(inner).next(OBJECT));
    if !CURVES.contains(&curve.or(own)?) {
        return None;
    }
    // The first byte of a bit string says how many bits are not used.
    let point = fields.next(POINT).and_then(|inner| Der(inner).next(BITS));
    Some(point.and_then(|bits| bits.get(1..)).unwrap_or_default().to_vec())
}

fn ed25519_public(bytes: &[u8]) -> Option<Vec<u8>> {
    let seed = Der(bytes).next(OCTETS)?;
    let pair = Ed25519KeyPair::from_seed_unchecked(seed).ok()?;
    Some(pair.public_key().as_ref().to_vec())
}

fn without_zeros(number: &[u8]) -> &[u8] {
    let start = number.iter().position(|byte| *byte != 0).unwrap_or(number.len());
    &number[start..]
}

const INTEGER: u8 = 0x02;
const BITS: u8 = 0x03;
const OCTETS: u8 = 0x04;
const OBJECT: u8 = 0x06;
const SEQUENCE: u8 = 0x30;

/// A row of DER values.
struct Der<'a>(&'a [u8]);

impl<'a> Der<'a> {
    /// What is in the sequence that these bytes are.
    fn sequence(bytes: &'a [u8]) -> Option<Der<'a>> {
        let mut outer = Der(bytes);
        let inner = outer.next(SEQUENCE)?;
        outer.0.is_empty().then_some(Der(inner))
    }

    /// The contents of the next value, if it has this tag.
    fn next(&mut self, tag: u8) -> Option<&'a [u8]> {
        let (&[found, length], rest) = self.0.split_first_chunk::<2>()?;
        if found != tag {
            return None;
        }
        let (length, rest) = match usize::from(length) {
            short if short < 0x80 => (short, rest),
            long => {
                let (digits, rest) = rest.split_at_checked(long - 0x80).filter(|(digits, _)| digits.len() <= 4)?;
                (digits.iter().fold(0, |sum, digit| sum << 8 | usize::from(*digit)), rest)
            }
        };
        let (contents, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some(contents)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Made for this test: certificates for the name `a`, and keys.
    const EC_CERTIFICATE: &str = concat!(
        "MIIBbjCCAROgAwIBAgIUGXoEea+DnuCci/1uqqzVeQe4tYUwCgYIKoZIzj0EAwIwDDEKMAgGA1UEAwwBYTAeFw0yNjExMTYwMDUw",
        "MDZaFw0yNjEyMTYwMDUwMDZaMAwxCjAIBgNVBAMMAWEwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAAS/SIvn5apmzfLjCev8fa85",
        "PKoytF/VBmLQLkTkd6vXOeMgoAdbiN6aQf+qjnhrR3Qkzztn/YqDpwCx/eUNSFGYo1MwUTAdBgNVHQ4EFgQUwV18ZcyXI5mMEBh1",
        "DO6pOmK2CjAwHwYDVR0jBBgwFoAUwV18ZcyXI5mMEBh1DO6pOmK2CjAwDwYDVR0TAQH/BAUwAwEB/zAKBggqhkjOPQQDAgNJADBG",
        "AiEA4rKFbL1YSin7kdu6sKBPeiEgctGr/If/zWYgl2oiwfwCIQD2qZ26DuJrT1sqcHScynmnnd/+ZYQIJb3+4aF59/eEWQ==",
    );
    const EC_KEY: &str = concat!(
        "MHcCAQEEIE5K39J2WYquwPhFsauIyJCcSAeJjRx9GnvPvR/17406oAoGCCqGSM49AwEHoUQDQgAEv0iL5+WqZs3y4wnr/H2vOTyq",
        "MrRf1QZi0C5E5Her1znjIKAHW4jemkH/qo54a0d0JM87Z/2Kg6cAsf3lDUhRmA==",
    );
    const EC_KEY_WRAPPED: &str = concat!(
        "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgTkrf0nZZiq7A+EWxq4jIkJxIB4mNHH0ae8+9H/XvjTqhRANCAAS/",
        "SIvn5apmzfLjCev8fa85PKoytF/VBmLQLkTkd6vXOeMgoAdbiN6aQf+qjnhrR3Qkzztn/YqDpwCx/eUNSFGY",
    );
    const OTHER_EC_KEY: &str = concat!(
        "MHcCAQEEIN+sZv1XejIdfqKr+tmJDHXKieR0LVvhI2ws60fFA55MoAoGCCqGSM49AwEHoUQDQgAEpOmHfneA8AQRbKUmLTUds4UT",
        "OwllMRTykuUqi1G2BOUAryjmmtVEP1/QbGJUaZtnWJR0EgHezXpiUYWPS8ZbSA==",
    );
    const ED_CERTIFICATE: &str = concat!(
        "MIIBLDCB36ADAgECAhRavbJ4N9aGsYIk+ORJ9rCfDNmXfTAFBgMrZXAwDDEKMAgGA1UEAwwBYTAeFw0yNjExMTYwMDUwMDhaFw0y",
        "NjEyMTYwMDUwMDhaMAwxCjAIBgNVBAMMAWEwKjAFBgMrZXADIQAaFTtXb1h0fFHizKZTvTiiqdyPOPEzTRmfH7R6MwcXMKNTMFEw",
        "HQYDVR0OBBYEFF8tU5PEKfraFv6JPcI7RsZ8c4PsMB8GA1UdIwQYMBaAFF8tU5PEKfraFv6JPcI7RsZ8c4PsMA8GA1UdEwEB/wQF",
        "MAMBAf8wBQYDK2VwA0EAazRf9SUUOHcn3yEJGuCnPMHItKN1GBpwEez9OT1siJYHtIJA4b7cuLqDh8ZtmlRHwxj4ZbF4ka1bzYX7",
        "PQ2TBw==",
    );
    const ED_KEY: &str = "MC4CAQAwBQYDK2VwBCIEIM62J747tvJcJkmGf1PBglA49UqN4qCdQ8I1E4qYOI7n";
    const OTHER_ED_KEY: &str = "MC4CAQAwBQYDK2VwBCIEIC0MUsoifemrJdSdW906UuvXm8Tw/5N6E4BqLMznklMh";
    const X_KEY: &str = "MC4CAQAwBQYDK2VuBCIEIEBPadwtDX/QDgYSOXayqUHimEaFPkPoZbVpfdi4B9J1";

    fn block(label: &str, text: &str) -> String {
        format!("-----BEGIN {label}-----\n{text}\n-----END {label}-----\n")
    }

    #[test]
    fn pairs() {
        let ec = &block("CERTIFICATE", EC_CERTIFICATE);
        let ed = &block("CERTIFICATE", ED_CERTIFICATE);
        let key = |text: &str| block("PRIVATE KEY", text);
        let table = [
            (ec, block("EC PRIVATE KEY", EC_KEY), ""),
            (ec, key(EC_KEY_WRAPPED), ""),
            (ed, key(ED_KEY), ""),
            (ec, block("EC PRIVATE KEY", OTHER_EC_KEY), MISMATCH),
            (ed, key(OTHER_ED_KEY), MISMATCH),
            (ec, key(ED_KEY), OTHER_TYPE),
            (ed, key(X_KEY), "tls: found unknown private key type in PKCS#8 wrapping"),
            (ed, key("MIIB"), UNREADABLE),
            (&block("CERTIFICATE", "MIIB"), key(ED_KEY), "x509: malformed certificate"),
        ];
        for (certificate, key, want) in table {
            let found = problem(certificate.as_bytes(), key.as_bytes()).unwrap_or_default();
            assert_eq!(found, want, "{certificate}{key}");
        }
    }

    #[test]
    fn texts_without_what_they_should_have() {
        let (certificate, key) = (&block("CERTIFICATE", ED_CERTIFICATE), &block("PRIVATE KEY", ED_KEY));
        let other = &block("FOO", "MIIB");
        let table = [
            ("x", key.as_str(), "tls: failed to find any PEM data in certificate input"),
            (certificate, "x", "tls: failed to find any PEM data in key input"),
            (certificate, certificate, "tls: found a certificate rather than a key in the PEM for the private key"),
            (
                key,
                certificate,
                "tls: failed to find certificate PEM data in certificate input, but did find a private key; PEM inputs \
                 may have been switched",
            ),
            (
                other,
                key,
                "tls: failed to find \"CERTIFICATE\" PEM block in certificate input after skipping PEM blocks of the \
                 following types: [FOO]",
            ),
            (
                certificate,
                other,
                "tls: failed to find PEM block with type ending in \"PRIVATE KEY\" in key input after skipping PEM \
                 blocks of the following types: [FOO]",
            ),
        ];
        for (certificate, key, want) in table {
            assert_eq!(problem(certificate.as_bytes(), key.as_bytes()).as_deref(), Some(want));
        }
    }
}
