//! Whether a document is signed with a key, for all that upstream's library verifies, in its words.

use num_bigint::BigUint;
use ring::digest::{self, Algorithm, SHA1_FOR_LEGACY_USE_ONLY, SHA256, SHA384, SHA512};
use x509_parser::prelude::{AlgorithmIdentifier, SubjectPublicKeyInfo, X509CertificationRequest};
use x509_parser::public_key::{PublicKey, RSAPublicKey};
use x509_parser::signature_algorithm::SignatureAlgorithm;

use super::curve::Curve;

/// Keys of fewer bits prove nothing.
const RSA_BITS_MIN: u64 = 1024;
/// Nobody waits for keys of more bits. Upstream has no such bound: what it takes grows with the third power of a key.
const RSA_BITS_MAX: u64 = 16_384;
const EXPONENT_BITS_MAX: u64 = 31;
const UNKNOWN: &str = "x509: cannot verify signature: algorithm unimplemented";

/// A key of a kind that is known.
enum Key<'a> {
    Rsa(RSAPublicKey<'a>),
    Ecdsa(Curve, &'a [u8]),
    Ed25519(&'a [u8]),
    Other,
}

enum Scheme {
    Pkcs1(&'static Algorithm),
    Pss(&'static Algorithm),
    Ecdsa(&'static Algorithm),
    Ed25519,
}

/// Whether a request is signed with the key that it speaks of.
pub fn verify_request(request: &X509CertificationRequest<'_>) -> Result<(), String> {
    // Faster, and enough for the usual keys.
    if request.verify_signature().is_ok() {
        return Ok(());
    }
    let info = &request.certification_request_info;
    verify(&info.subject_pki, &request.signature_algorithm, info.raw, &request.signature_value.data)
}

fn verify(
    key: &SubjectPublicKeyInfo<'_>,
    algorithm: &AlgorithmIdentifier<'_>,
    message: &[u8],
    signature: &[u8],
) -> Result<(), String> {
    let key = read_key(key)?;
    let scheme = read_scheme(algorithm)?;
    let hash = |algorithm: &'static Algorithm| digest::digest(algorithm, message);
    let (verified, failure) = match (scheme, key) {
        (_, Key::Other) => return Err(UNKNOWN.to_owned()),
        (Scheme::Pkcs1(algorithm), Key::Rsa(key)) => {
            (is_signed(&key, signature, |form, _| is_pkcs1(form, algorithm, hash(algorithm).as_ref()))?, RSA_FAILURE)
        }
        (Scheme::Pss(algorithm), Key::Rsa(key)) => (
            is_signed(&key, signature, |form, bits| is_pss(form, bits, algorithm, hash(algorithm).as_ref()))?,
            RSA_FAILURE,
        ),
        (Scheme::Ecdsa(algorithm), Key::Ecdsa(curve, point)) => {
            (curve.verifies(point, hash(algorithm).as_ref(), signature), "x509: ECDSA verification failure")
        }
        (Scheme::Ed25519, Key::Ed25519(key)) => {
            let key = ring::signature::UnparsedPublicKey::new(&ring::signature::ED25519, key);
            (key.verify(message, signature).is_ok(), "x509: Ed25519 verification failure")
        }
        (scheme, key) => return Err(mismatch(&scheme, &key)),
    };
    if verified { Ok(()) } else { Err(failure.to_owned()) }
}

/// Whether upstream can read the key at all. `strange`: whether it may also be of an algorithm that nobody knows.
pub fn is_readable(key: &SubjectPublicKeyInfo<'_>, strange: bool) -> bool {
    const DSA_AND_X25519: [&str; 2] = ["1.2.840.10040.4.1", "1.3.101.110"];
    match read_key(key) {
        Ok(Key::Other) => strange || DSA_AND_X25519.contains(&key.algorithm.algorithm.to_id_string().as_str()),
        key => key.is_ok(),
    }
}

const RSA_FAILURE: &str = "crypto/rsa: verification error";

fn read_key<'a>(key: &'a SubjectPublicKeyInfo<'a>) -> Result<Key<'a>, String> {
    let bytes = key.subject_public_key.data.as_ref();
    match (key.algorithm.algorithm.to_id_string().as_str(), key.parsed()) {
        ("1.2.840.113549.1.1.1", Ok(PublicKey::RSA(key))) => Ok(Key::Rsa(key)),
        ("1.2.840.10045.2.1", _) => {
            let name = key.algorithm.parameters.as_ref().and_then(|name| name.as_oid().ok());
            let curve = name.and_then(|name| Curve::find(&name.to_id_string()));
            Ok(Key::Ecdsa(curve.ok_or("x509: unsupported elliptic curve")?, bytes))
        }
        ("1.3.101.112", _) => Ok(Key::Ed25519(bytes)),
        _ => Ok(Key::Other),
    }
}

fn read_scheme(algorithm: &AlgorithmIdentifier<'_>) -> Result<Scheme, String> {
    Ok(match algorithm.algorithm.to_id_string().as_str() {
        "1.2.840.113549.1.1.4" => return Err("x509: cannot verify signature: insecure algorithm MD5-RSA".to_owned()),
        "1.2.840.113549.1.1.5" | "1.3.14.3.2.29" => Scheme::Pkcs1(&SHA1_FOR_LEGACY_USE_ONLY),
        "1.2.840.113549.1.1.11" => Scheme::Pkcs1(&SHA256),
        "1.2.840.113549.1.1.12" => Scheme::Pkcs1(&SHA384),
        "1.2.840.113549.1.1.13" => Scheme::Pkcs1(&SHA512),
        "1.2.840.113549.1.1.10" => Scheme::Pss(pss_digest(algorithm).ok_or(UNKNOWN)?),
        "1.2.840.10045.4.1" => Scheme::Ecdsa(&SHA1_FOR_LEGACY_USE_ONLY),
        "1.2.840.10045.4.3.2" => Scheme::Ecdsa(&SHA256),
        "1.2.840.10045.4.3.3" => Scheme::Ecdsa(&SHA384),
        "1.2.840.10045.4.3.4" => Scheme::Ecdsa(&SHA512),
        "1.3.101.112" => Scheme::Ed25519,
        _ => return Err(UNKNOWN.to_owned()),
    })
}

/// One digest for all, and a salt as long as it.
fn pss_digest(algorithm: &AlgorithmIdentifier<'_>) -> Option<&'static Algorithm> {
    let Ok(SignatureAlgorithm::RSASSA_PSS(parameters)) = SignatureAlgorithm::try_from(algorithm) else { return None };
    let name = parameters.hash_algorithm_oid().to_id_string();
    let digest = match name.as_str() {
        "2.16.840.1.101.3.4.2.1" => &SHA256,
        "2.16.840.1.101.3.4.2.2" => &SHA384,
        "2.16.840.1.101.3.4.2.3" => &SHA512,
        _ => return None,
    };
    let mask = parameters.mask_gen_algorithm().ok()?;
    let fits = mask.mgf.to_id_string() == "1.2.840.113549.1.1.8"
        && mask.hash.to_id_string() == name
        && parameters.trailer_field() == 1
        && parameters.salt_length() as usize == digest.output_len();
    fits.then_some(digest)
}

fn mismatch(scheme: &Scheme, key: &Key<'_>) -> String {
    let wanted = match scheme {
        Scheme::Pkcs1(_) | Scheme::Pss(_) => "RSA",
        Scheme::Ecdsa(_) => "ECDSA",
        Scheme::Ed25519 => "Ed25519",
    };
    let found = match key {
        Key::Rsa(_) => "*rsa.PublicKey",
        Key::Ecdsa(..) => "*ecdsa.PublicKey",
        Key::Ed25519(_) | Key::Other => "ed25519.PublicKey",
    };
    format!("x509: signature algorithm specifies an {wanted} public key, but have public key of type {found}")
}

/// Takes the signature back with the key; `fits` looks at what was signed, in as many bytes as the key has, and at its bits.
fn is_signed(key: &RSAPublicKey<'_>, signature: &[u8], fits: impl Fn(&[u8], u64) -> bool) -> Result<bool, String> {
    let (modulus, exponent) = (BigUint::from_bytes_be(key.modulus), BigUint::from_bytes_be(key.exponent));
    let bits = modulus.bits();
    if bits < RSA_BITS_MIN {
        return Err(format!(
            "crypto/rsa: {bits}-bit keys are insecure (see https://go.dev/pkg/crypto/rsa#hdr-Minimum_key_size)"
        ));
    }
    if bits > RSA_BITS_MAX {
        return Err(format!("crypto/rsa: {bits}-bit keys are too large: at most {RSA_BITS_MAX} bits can be verified"));
    }
    if exponent.bits() > EXPONENT_BITS_MAX {
        return Err("crypto/rsa: public exponent too large".to_owned());
    }
    let size = usize::try_from(bits.div_ceil(8)).unwrap_or_default();
    let number = BigUint::from_bytes_be(signature);
    if signature.len() != size || number >= modulus {
        return Ok(false);
    }
    let plain = number.modpow(&exponent, &modulus).to_bytes_be();
    let mut form = vec![0; size - plain.len().min(size)];
    form.extend_from_slice(&plain);
    Ok(fits(&form, bits))
}

/// Padding, the name of the digest, and the digest.
fn is_pkcs1(form: &[u8], algorithm: &'static Algorithm, hash: &[u8]) -> bool {
    let prefix: &[u8] = match algorithm.output_len() {
        20 => &[0x30, 0x21, 0x30, 0x09, 0x06, 0x05, 0x2b, 0x0e, 0x03, 0x02, 0x1a, 0x05, 0x00, 0x04, 0x14],
        32 => &sha2_prefix(1, 32),
        48 => &sha2_prefix(2, 48),
        _ => &sha2_prefix(3, 64),
    };
    let tail = [prefix, hash].concat();
    let Some(padding) = form.len().checked_sub(tail.len() + 3).filter(|padding| *padding >= 8) else { return false };
    let want = [&[0, 1][..], &vec![0xff; padding], &[0], &tail].concat();
    form == want
}

fn sha2_prefix(name: u8, size: u8) -> [u8; 19] {
    [
        0x30,
        0x11 + size,
        0x30,
        0x0d,
        0x06,
        0x09,
        0x60,
        0x86,
        0x48,
        0x01,
        0x65,
        0x03,
        0x04,
        0x02,
        name,
        0x05,
        0x00,
        0x04,
        size,
    ]
}

/// A salt as long as the digest, masked.
fn is_pss(form: &[u8], bits: u64, algorithm: &'static Algorithm, hash: &[u8]) -> bool {
    let size = algorithm.output_len();
    let spare = (8 - (bits - 1) % 8) % 8;
    // With a bit to spare of a whole byte, the first byte is none of the form's.
    let form = if (bits - 1).is_multiple_of(8) { form.strip_prefix(&[0]).unwrap_or_default() } else { form };
    let Some(masked_size) = form.len().checked_sub(size + 1).filter(|masked| *masked > size) else { return false };
    let (masked, rest) = form.split_at(masked_size);
    let (digest, trailer) = rest.split_at(size);
    let mut block: Vec<u8> =
        masked.iter().zip(mask(digest, masked_size, algorithm)).map(|(left, right)| left ^ right).collect();
    let kept = 0xff_u8 >> spare;
    if trailer != [0xbc] || masked[0] & !kept != 0 {
        return false;
    }
    block[0] &= kept;
    let (padding, salt) = block.split_at(masked_size - size);
    let Some((1, zeros)) = padding.split_last().map(|(last, zeros)| (*last, zeros)) else { return false };
    let again = digest::digest(algorithm, &[&[0; 8][..], hash, salt].concat());
    zeros.iter().all(|byte| *byte == 0) && again.as_ref() == digest
}

fn mask(seed: &[u8], size: usize, algorithm: &'static Algorithm) -> Vec<u8> {
    let mut out = Vec::new();
    for counter in 0u32.. {
        if out.len() >= size {
            break;
        }
        out.extend_from_slice(digest::digest(algorithm, &[seed, &counter.to_be_bytes()].concat()).as_ref());
    }
    out.truncate(size);
    out
}

#[cfg(test)]
mod tests {
    use rkube_machinery::decode::base64;
    use x509_parser::prelude::FromDer;

    use super::*;

    /// Requests as openssl makes them, with what upstream says of them, and of them with a bit of the signature changed.
    #[test]
    fn signatures_are_verified_as_upstream_verifies_them() {
        let ecdsa = "x509: ECDSA verification failure";
        let weak = "crypto/rsa: 512-bit keys are insecure (see https://go.dev/pkg/crypto/rsa#hdr-Minimum_key_size)";
        let md5 = "x509: cannot verify signature: insecure algorithm MD5-RSA";
        let curve = "x509: unsupported elliptic curve";
        for (text, want, spoilt) in [
            (P521_SHA512, "", ecdsa),
            (P521_SHA1, "", ecdsa),
            (P224_SHA256, "", ecdsa),
            (P256_SHA512, "", ecdsa),
            (K256, curve, curve),
            (RSA_1031, "", RSA_FAILURE),
            (RSA_512, weak, weak),
            (RSA_MD5, md5, md5),
            (PSS, "", RSA_FAILURE),
            (ED25519, "", "x509: Ed25519 verification failure"),
            (ED448, UNKNOWN, UNKNOWN),
        ] {
            let mut bytes = base64::decode(text.as_bytes()).unwrap();
            assert_eq!(check(&bytes), want, "{text}");
            let place = bytes.len() - 3;
            bytes[place] ^= 1;
            assert_eq!(check(&bytes), spoilt, "spoilt {text}");
        }
    }

    #[test]
    fn no_key_is_too_large_to_be_looked_at() {
        let verdict = |bytes: usize, exponent: &[u8]| {
            let mut modulus = vec![0xff; bytes];
            modulus[0] = 0x80;
            let key = RSAPublicKey { modulus: &modulus, exponent };
            is_signed(&key, &vec![1; bytes], |_, _| true)
        };
        assert_eq!(verdict(2048, &[1, 0, 1]), Ok(true));
        assert_eq!(verdict(256, &[0x7f, 0xff, 0xff, 0xff]), Ok(true));
        let large = "crypto/rsa: public exponent too large";
        assert_eq!(verdict(256, &[0x80, 0, 0, 1]).unwrap_err(), large);
        let wide = "crypto/rsa: 8000000-bit keys are too large: at most 16384 bits can be verified";
        assert_eq!(verdict(1_000_000, &[0xff; 8]).unwrap_err(), wide);
    }

    #[test]
    fn keys_that_nobody_knows_are_not_read() {
        for (text, alone, in_request) in [(P521_SHA1, true, true), (K256, false, false), (ED448, false, true)] {
            let bytes = base64::decode(text.as_bytes()).unwrap();
            let (_, request) = X509CertificationRequest::from_der(&bytes).unwrap();
            let key = &request.certification_request_info.subject_pki;
            assert_eq!((is_readable(key, false), is_readable(key, true)), (alone, in_request), "{text}");
        }
    }

    fn check(bytes: &[u8]) -> String {
        let (_, request) = X509CertificationRequest::from_der(bytes).unwrap();
        let info = &request.certification_request_info;
        let signature = &request.signature_value.data;
        verify(&info.subject_pki, &request.signature_algorithm, info.raw, signature).err().unwrap_or_default()
    }

    const P521_SHA512: &str = "MIIBWTCBvQIBADAYMQowCAYDVQQDDAF4MQowCAYDVQQKDAF5MIGbMBAGByqGSM49AgEGBSuBBAAjA4GGAAQBW6iPO+uc1J+2DDufG10uFeHz49L/AzMwRvcYfS0s1ith7/NnnX0aoq607EQNAMF9qgQj1irEK6/P3pihSg17G48AWx6Ew9ZRoefBrx9cickzhFnU/MjsuIOd/eb/JJFnbeOka9T88fA2fFIFry0DoKNgBdpLFYiCZmsp695+ao0VbrSgADAKBggqhkjOPQQDBAOBigAwgYYCQSX1c5gr8epHwKvC8MkwzcL1OPEY+kwuHj9/K8cXfFlJOdqrjGSl0hN6wKi40OqYaIfGJUUUSYTzPFw8FAcbRH3uAkEknqKo1bpnigi3rnTXyrw/IhtTuNxoCT1koU5QZ6e14xlF2VxZnovDWrJgxYZdOyXbCiwW9FqJ2O3z6MiByzB48w==";
    const P521_SHA1: &str = "MIIBWjCBvQIBADAYMQowCAYDVQQDDAF4MQowCAYDVQQKDAF5MIGbMBAGByqGSM49AgEGBSuBBAAjA4GGAAQBW6iPO+uc1J+2DDufG10uFeHz49L/AzMwRvcYfS0s1ith7/NnnX0aoq607EQNAMF9qgQj1irEK6/P3pihSg17G48AWx6Ew9ZRoefBrx9cickzhFnU/MjsuIOd/eb/JJFnbeOka9T88fA2fFIFry0DoKNgBdpLFYiCZmsp695+ao0VbrSgADAJBgcqhkjOPQQBA4GMADCBiAJCAYqZsluR0PoFoaM+0Bjmdcve0CHNhYaIPD2dEpmfvprkidJE9KfQM3aZPvDfAhRkiknK2KNIh36elMABvBMeEsbjAkIBD7BA5rzz+5tfJQwGNPod7Ec9h5A30UsXWOsgwrM9H5WHY6XEltqzb1X+oqOqp+Kz7NkvxeEVGSMnNr2w9Tms1ys=";
    const P224_SHA256: &str = "MIG+MG8CAQAwGDEKMAgGA1UEAwwBeDEKMAgGA1UECgwBeTBOMBAGByqGSM49AgEGBSuBBAAhAzoABA6+7qC8ELueIMbfDzmV9iZ4+QhvJ0IRLojy8OhGC7e/5OhVeSxsZ1bJP+h/oup0REVEoSemi+WUoAAwCgYIKoZIzj0EAwIDPwAwPAIcKLv4UKDzfgL6m5GBIW2WlAmhtkhZRmsn2qqgrgIcY0Kxo99ZY1Fn3pYPVUDO4rm2LfIxA5BwsANVCQ==";
    const P256_SHA512: &str = "MIHTMHoCAQAwGDEKMAgGA1UEAwwBeDEKMAgGA1UECgwBeTBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABJgRsIN9ZAfz7aMHsE8xoLdLaSwhTq8i4Xi0IuA0k5fBkXFFD5X5oA00JBtTqQaAdOniJmHihvxEJ0T/rcl/E6qgADAKBggqhkjOPQQDBANJADBGAiEA4Cv1Cir0FU+uNQhl6RDzQeQPJs2RyP6Ua57gP4c/MfwCIQCcS+EsHvDDC+4CK8PgtWUutrKx9jWojzKuABpZT/O99w==";
    const K256: &str = "MIHOMHcCAQAwGDEKMAgGA1UEAwwBeDEKMAgGA1UECgwBeTBWMBAGByqGSM49AgEGBSuBBAAKA0IABDFlzymY/de7T+orMwBp/dd/RtxUeMYI0Aknzg7Ly2/gZ3QuNCE2NhVpVYGg6BOSHxrU79Ssi9jzzcvqPITaNp6gADAKBggqhkjOPQQDAgNHADBEAiBZYOTEGyV2QTITMKD9fSUc7qACYnFaXsaVJTPZRTbM9gIgPRdLYtj5VVFpmxsvtx6kQvQlCBvo0yjAUPw4HIS7BgQ=";
    const RSA_1031: &str = "MIIBWDCBwQIBADAYMQowCAYDVQQDDAF4MQowCAYDVQQKDAF5MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgVS6IvoAX7DZy+RJ6qrKlouDH+2Xu5m2HEiUyoMtjPtP4LjUkPJKEecnoR+FE0F3VyM0dZBwPKDobcJ45BKo62Cum7j6zB4w+IO5z8ycxZw6FGnP7eR728g9+1ifTjIl8+sphzK3Zpy/x+WmC20ESmpgiVMDFD/T8jDVOmRnJbH2DwIDAQABoAAwDQYJKoZIhvcNAQELBQADgYIAC8CHS6hhWiZlCahbZD+/mYkW1QuFUfFnDTM+WvHVa9xn/9Y04e/P4YkFDxbpgn11SqY5pN+1Jn141nW/XDHJWYTFanzMPa712C/D/pvDQYdGtv2D9pA2CWhG0FS8EXhUCDc/hy9EMERppZoIuxP3hn7NwVzsx/x86VxZcJor2IWo";
    const RSA_512: &str = "MIHRMH0CAQAwGDEKMAgGA1UEAwwBeDEKMAgGA1UECgwBeTBcMA0GCSqGSIb3DQEBAQUAA0sAMEgCQQDP3C8SQNMi0BWLIG8eHof3FT95FIWBYMs3xakNgOqAvCdthekLhgYjaFwrw045XfdfPy389TEJ+2SJt2ijsc0tAgMBAAGgADANBgkqhkiG9w0BAQUFAANBAKcp5+Ef4kAbs9IWxNMa05g5/XCJshLk6RWf+hK/AV8i34jNDXXJ+jlqwAsyiRYuz8q9EtTXj4NrN0hpd5utMEg=";
    const RSA_MD5: &str = "MIHRMH0CAQAwGDEKMAgGA1UEAwwBeDEKMAgGA1UECgwBeTBcMA0GCSqGSIb3DQEBAQUAA0sAMEgCQQDP3C8SQNMi0BWLIG8eHof3FT95FIWBYMs3xakNgOqAvCdthekLhgYjaFwrw045XfdfPy389TEJ+2SJt2ijsc0tAgMBAAGgADANBgkqhkiG9w0BAQQFAANBAKHu+DYNZzyykAWRU+ZOXreE7U4OLqAikXp1yvNtRen3x/v2qIafCsXQx5SaEMN6c76F+CiIKPwZdqESDKgd5L0=";
    const PSS: &str = "MIIChTCCATkCAQAwDDEKMAgGA1UEAwwBeDCCASIwDQYJKoZIhvcNAQEBBQADggEPADCCAQoCggEBAJOkhReKwbbKQG0FFkGfzENpKPMxmV0DRL2wywSm67bY283PZFXK/lsjBxpfnIGc+6SWZ0Jv5moB1DaQsHj2YwLv01QqECLrYegIIgbMM9YTbhW8R/wZ0Q2IhQJQ28C1wLdcJb/AZBT3Um6OKHwxp+l7d1nph6cz/kvkEVfUQgUpVMztOHu9twBAH8g3JgLv+PTqdNyK61amyr/95akO0VdVFBEZIHA9zaxWf6Iowf9QOTL3ZRqmPvBjlJPOnPPklm6b1ogSgoYLXFRuP9A7nyptNIsTjKrcyDp1bWBCQix1cS3DGNLtc3xfVN3SCLlOLQY8d2ql8InQlVgnXWURcekCAwEAAaAAMEEGCSqGSIb3DQEBCjA0oA8wDQYJYIZIAWUDBAIBBQChHDAaBgkqhkiG9w0BAQgwDQYJYIZIAWUDBAIBBQCiAwIBIAOCAQEAOxQihGxghbVe12AZJeAqlZK13+Rxz9hMX28ReN98J19Hc2zNLbyeZGtuECypoMsLkEfRyqWL+6bhgVVdwpLM2yXo7EA4zvOjNMgW9nB7biHuyL19Pcgiq6YQl+sDYvfYyiumxSORCMAEzhjX4D7Lbi/icEk4xFyV/ytCe92yEcUD5ORQbp3VHdzVVE0DIJsaPDR0l0SCgW6/ys+cXW8f6Tu9t5FpFWxPhL3Gp5F42zCOBVjYV8gqoz5BHqJRfZxRVaM8Keo6by8B9IX3JuNOi1imdXxjuLfqZ72pl96GxEYRuBbTc9a885W4fbiDZ5xsn8lygXS5eUG96mmT0JoSzw==";
    const ED25519: &str = "MIGLMD8CAQAwDDEKMAgGA1UEAwwBeDAqMAUGAytlcAMhAEJXTfZdeArcY8XSQBSxNBCu9q7rE1CYtIUEi+yMg8t0oAAwBQYDK2VwA0EAD945lbHVqU7ntji1Fw/2tgYqZHFqmsFBKLFlziHGkcVy6z2g+mQlFwQIjgPrrwvu3jD2BzJozBGSJXSLSDKjBw==";
    const ED448: &str = "MIHWMFgCAQAwDDEKMAgGA1UEAwwBeDBDMAUGAytlcQM6ACP4gBdkAOb+9ZZJg+UJGZHVLeIZ1HkAyf3Ooax9B13ENcu5gZIKlH3z6+jn2fk5Q0Gw0KCMQvd7gKAAMAUGAytlcQNzAEY6ksRF2XcJxP2/azWiF1+JOeVzZW0kRw51rrO9ce98+bBHtWQpzJu7GmCJKN1uZXxozxLBY0gEANt6DaXBGqFps2WUZPqSNN7FAInhqgeZ4vlcUomuOHO7iAMtqF5B6lylbI8gvgH/ufmKP3X0xqc+AA==";
}
