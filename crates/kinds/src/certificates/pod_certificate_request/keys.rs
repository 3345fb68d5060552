//! The keys that pods have, and whether they are as strong as they must be.

use ring::signature::{self, UnparsedPublicKey, VerificationAlgorithm};
use x509_parser::prelude::SubjectPublicKeyInfo;
use x509_parser::public_key::PublicKey;

use super::super::curve::Curve;

const RSA_BITS: [usize; 2] = [3072, 4096];
/// Points of P-256, P-384 and P-521 as they are written, in bits of one coordinate.
const CURVE_BITS: [usize; 3] = [256, 384, 528];
const P521: &str = "1.3.132.0.35";
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

/// Whether the message is signed with this key.
pub fn verifies(key: &SubjectPublicKeyInfo<'_>, message: &[u8], signature: &[u8]) -> bool {
    let algorithm: &dyn VerificationAlgorithm = match key.parsed() {
        Ok(PublicKey::RSA(_)) => &signature::RSA_PSS_2048_8192_SHA256,
        Ok(PublicKey::EC(point)) if point.key_size() == 256 => &signature::ECDSA_P256_SHA256_ASN1,
        Ok(PublicKey::EC(point)) if point.key_size() == 384 => &signature::ECDSA_P384_SHA256_ASN1,
        Ok(PublicKey::EC(_)) => {
            let digest = ring::digest::digest(&ring::digest::SHA256, message);
            let curve = Curve::find(P521);
            return curve.is_some_and(|curve| curve.verifies(&key.subject_public_key.data, digest.as_ref(), signature));
        }
        _ if is_ed25519(key) => &signature::ED25519,
        _ => return false,
    };
    UnparsedPublicKey::new(algorithm, &key.subject_public_key.data).verify(message, signature).is_ok()
}

fn is_ed25519(key: &SubjectPublicKeyInfo<'_>) -> bool {
    key.algorithm.algorithm.to_id_string() == ED25519
}

#[cfg(test)]
mod tests {
    use rkube_machinery::decode::base64;
    use x509_parser::prelude::FromDer;

    use super::*;

    #[test]
    fn keys_on_the_largest_curve_prove_themselves() {
        let bytes = base64::decode(KEY.as_bytes()).unwrap();
        let proof = base64::decode(PROOF.as_bytes()).unwrap();
        let (_, key) = SubjectPublicKeyInfo::from_der(&bytes).unwrap();
        assert!(check(&key, "").is_ok());
        assert!(verifies(&key, b"11111111-2222-3333-4444-555555555555", &proof));
        assert!(!verifies(&key, b"11111111-2222-3333-4444-555555555556", &proof));
    }

    const KEY: &str = "MIGbMBAGByqGSM49AgEGBSuBBAAjA4GGAAQBW6iPO+uc1J+2DDufG10uFeHz49L/AzMwRvcYfS0s1ith7/NnnX0aoq607EQNAMF9qgQj1irEK6/P3pihSg17G48AWx6Ew9ZRoefBrx9cickzhFnU/MjsuIOd/eb/JJFnbeOka9T88fA2fFIFry0DoKNgBdpLFYiCZmsp695+ao0VbrQ=";
    const PROOF: &str = "MIGIAkIBn2V34q3zuWwMUEOlm7WteR0nXsvcnE9DR8wDODBYmcQzLlqZxu5gADhYReTaTeB/b8yDYrAy72utLSAKi3lq6/ACQgDCgCSbyTqLlsgQeUWC1rPDjNgQf7/9su5Z84fGGuiaMH91ZEcslQ/8y9pPlVFRohr8WApykKvuuqF5+7EDzrFB1Q==";
}
