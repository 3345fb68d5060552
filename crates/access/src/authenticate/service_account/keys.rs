//! The keys of tokens: those that sign and those that verify, from PEM. RSA, and ECDSA on P-256 and P-384.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED, ECDSA_P384_SHA384_FIXED_SIGNING,
    EcdsaKeyPair, KeyPair, RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY, RSA_PKCS1_SHA256, RsaKeyPair,
    UnparsedPublicKey, VerificationAlgorithm,
};
use rkube_machinery::{Value, object};
use rustls::pki_types::pem::{PemObject, SectionKind};
use x509_parser::prelude::{FromDer, SubjectPublicKeyInfo, X509Certificate};
use x509_parser::public_key::PublicKey;

/// How signatures are made, under its name in tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Algorithm {
    Rs256,
    Es256,
    Es384,
}

/// The algorithm identifiers of keys in certificates, as DER.
const RSA: &[u8] = b"\x30\x0d\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01\x05\x00";
const P256: &[u8] = b"\x30\x13\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07";
const P384: &[u8] = b"\x30\x10\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x05\x2b\x81\x04\x00\x22";

impl Algorithm {
    const ALL: [Algorithm; 3] = [Algorithm::Rs256, Algorithm::Es256, Algorithm::Es384];

    fn name(self) -> &'static str {
        match self {
            Algorithm::Rs256 => "RS256",
            Algorithm::Es256 => "ES256",
            Algorithm::Es384 => "ES384",
        }
    }

    fn identifier(self) -> &'static [u8] {
        match self {
            Algorithm::Rs256 => RSA,
            Algorithm::Es256 => P256,
            Algorithm::Es384 => P384,
        }
    }

    fn verification(self) -> &'static dyn VerificationAlgorithm {
        match self {
            Algorithm::Rs256 => &RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY,
            Algorithm::Es256 => &ECDSA_P256_SHA256_FIXED,
            Algorithm::Es384 => &ECDSA_P384_SHA384_FIXED,
        }
    }
}

/// A key by which tokens are known to be ours.
pub struct VerifyingKey {
    /// By which tokens name the key: made of it, and not the other way round.
    pub id: String,
    algorithm: Algorithm,
    /// A point of the curve, or modulus and exponent as DER.
    public: Vec<u8>,
    /// How others who verify tokens see it.
    pub web_key: Value,
}

impl VerifyingKey {
    /// All keys in a file: public ones, those of certificates and those of private keys.
    pub fn all(pem: &str) -> Result<Vec<VerifyingKey>, String> {
        let mut keys = Vec::new();
        for section in <(SectionKind, Vec<u8>)>::pem_slice_iter(pem.as_bytes()) {
            let (kind, der) = section.map_err(|error| format!("a key of service accounts is damaged: {error}"))?;
            let key = match kind {
                SectionKind::PublicKey => VerifyingKey::of_info(&der)?,
                SectionKind::Certificate => {
                    let (_, certificate) = X509Certificate::from_der(&der)
                        .map_err(|error| format!("a certificate of service accounts is damaged: {error}"))?;
                    VerifyingKey::of_info(certificate.public_key().raw)?
                }
                SectionKind::PrivateKey | SectionKind::RsaPrivateKey | SectionKind::EcPrivateKey => {
                    SigningKey::of_section(kind, &der)?.public
                }
                _ => continue,
            };
            keys.push(key);
        }
        if keys.is_empty() {
            Err("data does not contain any valid RSA or ECDSA public keys".to_owned())
        } else {
            Ok(keys)
        }
    }

    pub fn algorithm(&self) -> &'static str {
        self.algorithm.name()
    }

    /// Whether the key's owner signed this text, by the algorithm that the token names.
    pub fn has_signed(&self, algorithm: &str, text: &str, signature: &[u8]) -> bool {
        let key = UnparsedPublicKey::new(self.algorithm.verification(), &self.public);
        algorithm == self.algorithm.name() && key.verify(text.as_bytes(), signature).is_ok()
    }

    /// From the way that certificates have keys.
    fn of_info(der: &[u8]) -> Result<VerifyingKey, String> {
        let unusable =
            || "a key of service accounts cannot be used: it must be RSA, or ECDSA on P-256 or P-384".to_owned();
        let (_, info) = SubjectPublicKeyInfo::from_der(der).map_err(|_| unusable())?;
        let public = info.subject_public_key.data.to_vec();
        let algorithm = match info.parsed() {
            Ok(PublicKey::RSA(_)) => Some(Algorithm::Rs256),
            Ok(PublicKey::EC(_)) => {
                let parameters = info.algorithm.parameters.as_ref().map(|curve| curve.data);
                let curves = [Algorithm::Es256, Algorithm::Es384];
                curves.into_iter().find(|curve| parameters.is_some_and(|name| curve.identifier().ends_with(name)))
            }
            _ => None,
        };
        VerifyingKey::new(algorithm.ok_or_else(unusable)?, public).ok_or_else(unusable)
    }

    fn new(algorithm: Algorithm, public: Vec<u8>) -> Option<VerifyingKey> {
        let bits = [&[0], public.as_slice()].concat();
        let info = tagged(0x30, &[algorithm.identifier(), &tagged(0x03, &bits)].concat());
        let id = URL_SAFE_NO_PAD.encode(ring::digest::digest(&ring::digest::SHA256, &info));
        let (kind, curve, numbers) = match algorithm {
            Algorithm::Rs256 => {
                let (_, info) = SubjectPublicKeyInfo::from_der(&info).ok()?;
                let Ok(PublicKey::RSA(rsa)) = info.parsed() else { return None };
                ("RSA", "", [("n", number(rsa.modulus)), ("e", number(rsa.exponent))])
            }
            Algorithm::Es256 | Algorithm::Es384 => {
                let (curve, size) = if algorithm == Algorithm::Es256 { ("P-256", 32) } else { ("P-384", 48) };
                // Only whole points, not those that are half computed.
                let point = public.strip_prefix(&[4]).filter(|point| point.len() == 2 * size)?;
                let (x, y) = point.split_at(size);
                ("EC", curve, [("x", URL_SAFE_NO_PAD.encode(x)), ("y", URL_SAFE_NO_PAD.encode(y))])
            }
        };
        let mut web_key = object! { "use": "sig", "kty": kind, "kid": id.as_str() };
        if !curve.is_empty() {
            web_key.set("crv", curve);
        }
        web_key.set("alg", algorithm.name());
        for (name, text) in numbers {
            web_key.set(name, text);
        }
        Some(VerifyingKey { id, algorithm, public, web_key })
    }
}

/// The key that signs.
pub struct SigningKey {
    pair: Pair,
    pub public: VerifyingKey,
    random: SystemRandom,
}

enum Pair {
    Rsa(Box<RsaKeyPair>),
    Ecdsa(Box<EcdsaKeyPair>),
}

impl SigningKey {
    /// The first private key in a file.
    pub fn new(pem: &str) -> Result<SigningKey, String> {
        for section in <(SectionKind, Vec<u8>)>::pem_slice_iter(pem.as_bytes()) {
            let (kind, der) = section.map_err(|error| format!("the signing key is damaged: {error}"))?;
            if matches!(kind, SectionKind::PrivateKey | SectionKind::RsaPrivateKey | SectionKind::EcPrivateKey) {
                return SigningKey::of_section(kind, &der);
            }
        }
        Err("the signing key is damaged: data does not contain a valid RSA or ECDSA private key".to_owned())
    }

    pub fn algorithm(&self) -> &'static str {
        self.public.algorithm()
    }

    pub fn sign(&self, text: &str) -> Result<Vec<u8>, String> {
        let failed = |_| "the token could not be signed".to_owned();
        match &self.pair {
            Pair::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &self.random, text.as_bytes(), &mut signature).map_err(failed)?;
                Ok(signature)
            }
            Pair::Ecdsa(pair) => {
                pair.sign(&self.random, text.as_bytes()).map(|signature| signature.as_ref().to_vec()).map_err(failed)
            }
        }
    }

    fn of_section(kind: SectionKind, der: &[u8]) -> Result<SigningKey, String> {
        let random = SystemRandom::new();
        let found = Algorithm::ALL.into_iter().find_map(|algorithm| {
            let pair = read_pair(kind, der, algorithm, &random)?;
            let public = match &pair {
                Pair::Rsa(pair) => pair.public().as_ref().to_vec(),
                Pair::Ecdsa(pair) => pair.public_key().as_ref().to_vec(),
            };
            Some((pair, VerifyingKey::new(algorithm, public)?))
        });
        let unusable =
            "the signing key cannot be used: it must be RSA of 2048 to 4096 bits, or ECDSA on P-256 or P-384";
        let (pair, public) = found.ok_or(unusable)?;
        Ok(SigningKey { pair, public, random })
    }
}

fn read_pair(kind: SectionKind, der: &[u8], algorithm: Algorithm, random: &SystemRandom) -> Option<Pair> {
    let curve = match algorithm {
        Algorithm::Rs256 => {
            let pair = match kind {
                SectionKind::RsaPrivateKey => RsaKeyPair::from_der(der),
                SectionKind::PrivateKey => RsaKeyPair::from_pkcs8(der),
                _ => return None,
            };
            return pair.ok().map(|pair| Pair::Rsa(Box::new(pair)));
        }
        Algorithm::Es256 => &ECDSA_P256_SHA256_FIXED_SIGNING,
        Algorithm::Es384 => &ECDSA_P384_SHA384_FIXED_SIGNING,
    };
    let pair = match kind {
        SectionKind::PrivateKey => EcdsaKeyPair::from_pkcs8(curve, der, random),
        // The older form is the inner part of the newer one.
        SectionKind::EcPrivateKey => {
            let inner = [b"\x02\x01\x00".as_slice(), algorithm.identifier(), &tagged(0x04, der)].concat();
            EcdsaKeyPair::from_pkcs8(curve, &tagged(0x30, &inner), random)
        }
        _ => return None,
    };
    pair.ok().map(|pair| Pair::Ecdsa(Box::new(pair)))
}

/// DER: a tag, a length and what it is of.
fn tagged(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len();
    let mut out = vec![tag];
    if length < 128 {
        out.push(length as u8);
    } else {
        let bytes: Vec<u8> = length.to_be_bytes().into_iter().skip_while(|byte| *byte == 0).collect();
        out.push(0x80 | bytes.len() as u8);
        out.extend(bytes);
    }
    out.extend_from_slice(content);
    out
}

/// A number as web keys have it: without leading zeros.
fn number(bytes: &[u8]) -> String {
    let start = bytes.iter().position(|byte| *byte != 0).unwrap_or(bytes.len());
    URL_SAFE_NO_PAD.encode(&bytes[start..])
}
