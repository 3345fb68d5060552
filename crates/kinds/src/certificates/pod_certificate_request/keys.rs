//! The keys that pods have, and whether they are as strong as they must be.

use ring::signature::{self, UnparsedPublicKey, VerificationAlgorithm};
use x509_parser::prelude::SubjectPublicKeyInfo;
use x509_parser::public_key::PublicKey;

const RSA_BITS: [usize; 2] = [3072, 4096];
/// Points of P-256, P-384 and P-521 as they are written, in bits of one coordinate.
const CURVE_BITS: [usize; 3] = [256, 384, 528];
const ED25519: &str = "1.3.101.112";

/// What is wrong with a key: what is shown of it, where something is, and words.
pub type Weakness = (Option<String>, &'static str);

pub fn check(key: &SubjectPublicKeyInfo<'_>, curves: &'static str) -> Result<(), Weakness> {
    match key.parsed() {
        Ok(PublicKey::RSA(rsa)) => {
            // The modulus may begin with a zero, so that it is no negative number.
            let bits = rsa.modulus.iter().skip_while(|byte| **byte == 0).count() * 8;
            if RSA_BITS.contains(&bits) {
                return Ok(());
            }
            Err((Some(format!("{bits}-bit modulus")), "RSA keys must have modulus size 3072 or 4096"))
        }
        Ok(PublicKey::EC(point)) => {
            if CURVE_BITS.contains(&point.key_size()) {
                return Ok(());
            }
            Err((Some("curve P-224".to_owned()), curves))
        }
        _ if is_ed25519(key) => Ok(()),
        _ => Err((None, "unknown public key type; supported types are Ed25519, ECDSA, and RSA")),
    }
}

/// Whether the message is signed with this key. Keys on P-521 cannot be tried.
pub fn verifies(key: &SubjectPublicKeyInfo<'_>, message: &[u8], signature: &[u8]) -> bool {
    let algorithm: &dyn VerificationAlgorithm = match key.parsed() {
        Ok(PublicKey::RSA(_)) => &signature::RSA_PSS_2048_8192_SHA256,
        Ok(PublicKey::EC(point)) if point.key_size() == 256 => &signature::ECDSA_P256_SHA256_ASN1,
        Ok(PublicKey::EC(point)) if point.key_size() == 384 => &signature::ECDSA_P384_SHA256_ASN1,
        _ if is_ed25519(key) => &signature::ED25519,
        _ => return false,
    };
    UnparsedPublicKey::new(algorithm, &key.subject_public_key.data).verify(message, signature).is_ok()
}

fn is_ed25519(key: &SubjectPublicKeyInfo<'_>) -> bool {
    key.algorithm.algorithm.to_id_string() == ED25519
}
