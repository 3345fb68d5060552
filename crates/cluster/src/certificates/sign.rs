//! Certificates that others ask for: with their subject, names and key, signed by an authority. What is asked for was
//! checked before; nothing of it makes the certificate an authority itself.

use std::net::IpAddr;
use std::sync::Arc;

use rcgen::{KeyPair, SigningKey as _};
use rkube_controllers::{Asked, Attribute, NewCertificate};
use rkube_machinery::host::Entropy;
use time::OffsetDateTime;
use x509_parser::extensions::ParsedExtension;
use x509_parser::prelude::{FromDer as _, X509Certificate};
use yasna::models::{GeneralizedTime, ObjectIdentifier, UTCTime};
use yasna::{DERWriter, DERWriterSeq, Tag};

use super::Pair;
use super::keys;
use super::tls;

const SERIAL_BYTES: usize = 16;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the signer's certificate cannot be read")]
    Certificate,
    #[error("the signer's key cannot be used")]
    Key(#[from] rcgen::Error),
    #[error(
        "the signer's key is of a kind that signs no certificates here: it must be RSA, Ed25519, or ECDSA on P-256 or P-384"
    )]
    Algorithm,
    #[error("the signer's key does not belong to its certificate")]
    Mismatch,
}

/// An authority that signs what it is asked to.
pub struct CertificateSigner {
    key: KeyPair,
    /// How its signatures are made, in DER.
    algorithm: Vec<u8>,
    /// Its name, in DER.
    name: Vec<u8>,
    key_identifier: Option<Vec<u8>>,
    not_after: i64,
    entropy: Arc<dyn Entropy>,
}

impl CertificateSigner {
    pub fn new(authority: &Pair, entropy: Arc<dyn Entropy>) -> Result<CertificateSigner, Error> {
        let key = keys::read(&authority.key)?;
        let algorithm = algorithm(&key).ok_or(Error::Algorithm)?;
        let chain = tls::certificates(&authority.certificate).map_err(|_| Error::Certificate)?;
        let first = chain.first().ok_or(Error::Certificate)?;
        let (_, certificate) = X509Certificate::from_der(first).map_err(|_| Error::Certificate)?;
        if certificate.public_key().subject_public_key.data[..] != *key.public_key_raw() {
            return Err(Error::Mismatch);
        }
        let key_identifier = certificate.iter_extensions().find_map(|extension| match extension.parsed_extension() {
            ParsedExtension::SubjectKeyIdentifier(identifier) => Some(identifier.0.to_vec()),
            _ => None,
        });
        let name = certificate.subject().as_raw().to_vec();
        let not_after = certificate.validity().not_after.timestamp();
        Ok(CertificateSigner { key, algorithm, name, key_identifier, not_after, entropy })
    }

    /// In PEM; or why not.
    pub fn sign(&self, new: &NewCertificate<'_>) -> Result<String, String> {
        if new.now >= self.not_after {
            let ended = rkube_machinery::time::format_seconds(self.not_after);
            return Err(format!("refusing to sign a certificate that expired in the past: NotAfter={ended}"));
        }
        let not_after = new.validity.not_after.min(self.not_after);
        let times = [instant(new.validity.not_before)?, instant(not_after)?];
        let usages = Usages::of(new.usages)?;
        let mut serial = [0; SERIAL_BYTES];
        self.entropy.fill(&mut serial);
        let content = yasna::construct_der(|writer| {
            writer.write_sequence(|fields| {
                fields.next().write_tagged(Tag::context(0), |writer| writer.write_u8(2));
                fields.next().write_bigint_bytes(&serial, true);
                fields.next().write_der(&self.algorithm);
                fields.next().write_der(&self.name);
                fields.next().write_sequence(|fields| times.iter().for_each(|time| write_time(fields.next(), time)));
                write_subject(fields.next(), new.asked);
                fields.next().write_der(&new.asked.public_key);
                fields.next().write_tagged(Tag::context(3), |writer| {
                    writer.write_sequence(|extensions| self.write_extensions(extensions, new.asked, &usages));
                });
            });
        });
        let signature = self.key.sign(&content).map_err(|error| format!("failed to sign certificate: {error}"))?;
        let signed = yasna::construct_der(|writer| {
            writer.write_sequence(|fields| {
                fields.next().write_der(&content);
                fields.next().write_der(&self.algorithm);
                fields.next().write_bitvec_bytes(&signature, signature.len() * 8);
            });
        });
        Ok(pem("CERTIFICATE", &signed))
    }

    fn write_extensions(&self, extensions: &mut DERWriterSeq<'_>, asked: &Asked, usages: &Usages) {
        if usages.bits != 0 {
            write_extension(extensions, 15, true, |writer| usages.write_bits(writer));
        }
        if !usages.purposes.is_empty() {
            write_extension(extensions, 37, false, |writer| {
                writer.write_sequence(|each| {
                    for purpose in &usages.purposes {
                        each.next().write_oid(&ObjectIdentifier::from_slice(purpose));
                    }
                });
            });
        }
        // It is no authority.
        write_extension(extensions, 19, true, |writer| writer.write_sequence(|_| {}));
        if let Some(identifier) = &self.key_identifier {
            write_extension(extensions, 35, false, |writer| {
                writer.write_sequence(|fields| {
                    fields.next().write_tagged_implicit(Tag::context(0), |writer| writer.write_bytes(identifier));
                });
            });
        }
        if !(asked.dns.is_empty() && asked.emails.is_empty() && asked.addresses.is_empty() && asked.uris.is_empty()) {
            write_extension(extensions, 17, asked.subject.is_empty(), |writer| write_names(writer, asked));
        }
    }
}

fn algorithm(key: &KeyPair) -> Option<Vec<u8>> {
    let (numbers, has_null): (&[u64], bool) = match key.algorithm() {
        known if *known == rcgen::PKCS_ECDSA_P256_SHA256 => (&[1, 2, 840, 10045, 4, 3, 2], false),
        known if *known == rcgen::PKCS_ECDSA_P384_SHA384 => (&[1, 2, 840, 10045, 4, 3, 3], false),
        known if *known == rcgen::PKCS_ED25519 => (&[1, 3, 101, 112], false),
        known if *known == rcgen::PKCS_RSA_SHA256 => (&[1, 2, 840, 113_549, 1, 1, 11], true),
        _ => return None,
    };
    Some(yasna::construct_der(|writer| {
        writer.write_sequence(|fields| {
            fields.next().write_oid(&ObjectIdentifier::from_slice(numbers));
            if has_null {
                fields.next().write_null();
            }
        });
    }))
}

fn instant(seconds: i64) -> Result<OffsetDateTime, String> {
    let instant =
        OffsetDateTime::from_unix_timestamp(seconds).ok().filter(|instant| (1950..=9999).contains(&instant.year()));
    instant.ok_or_else(|| "a time is out of range".to_owned())
}

fn write_time(writer: DERWriter<'_>, time: &OffsetDateTime) {
    if time.year() < 2050 {
        writer.write_utctime(&UTCTime::from_datetime(*time));
    } else {
        writer.write_generalized_time(&GeneralizedTime::from_datetime(*time));
    }
}

/// All values of an attribute stand together.
fn write_subject(writer: DERWriter<'_>, asked: &Asked) {
    writer.write_sequence(|names| {
        for (attribute, values) in asked.subject.iter().filter(|(_, values)| !values.is_empty()) {
            names.next().write_set_of(|set| {
                for value in values {
                    set.next().write_sequence(|pair| write_attribute(pair, *attribute, value));
                }
            });
        }
    });
}

fn write_attribute(pair: &mut DERWriterSeq<'_>, attribute: Attribute, value: &str) {
    pair.next().write_oid(&ObjectIdentifier::from_slice(&[2, 5, 4, attribute.number()]));
    let is_printable = |byte: u8| byte.is_ascii_alphanumeric() || b" '()+,-./:=?".contains(&byte);
    if value.bytes().all(is_printable) {
        pair.next().write_printable_string(value);
    } else {
        pair.next().write_utf8_string(value);
    }
}

fn write_names(writer: DERWriter<'_>, asked: &Asked) {
    writer.write_sequence(|names| {
        let texts = |number, texts: &[String], names: &mut DERWriterSeq<'_>| {
            for text in texts {
                names.next().write_tagged_implicit(Tag::context(number), |writer| writer.write_bytes(text.as_bytes()));
            }
        };
        texts(2, &asked.dns, names);
        texts(1, &asked.emails, names);
        for address in &asked.addresses {
            let bytes = match address {
                IpAddr::V4(address) => address.octets().to_vec(),
                IpAddr::V6(address) => address.octets().to_vec(),
            };
            names.next().write_tagged_implicit(Tag::context(7), |writer| writer.write_bytes(&bytes));
        }
        texts(6, &asked.uris, names);
    });
}

fn write_extension(
    extensions: &mut DERWriterSeq<'_>,
    number: u64,
    is_critical: bool,
    value: impl FnOnce(DERWriter<'_>),
) {
    extensions.next().write_sequence(|fields| {
        fields.next().write_oid(&ObjectIdentifier::from_slice(&[2, 5, 29, number]));
        if is_critical {
            fields.next().write_bool(true);
        }
        fields.next().write_bytes(&yasna::construct_der(value));
    });
}

/// What a key may be used for: bits of the key usage, and purposes beyond it.
struct Usages {
    /// The first usage is the lowest bit.
    bits: u16,
    purposes: Vec<&'static [u64]>,
}

/// In the order of their bits.
const BITS: [&str; 9] = [
    "digital signature",
    "content commitment",
    "key encipherment",
    "data encipherment",
    "key agreement",
    "cert sign",
    "crl sign",
    "encipher only",
    "decipher only",
];

/// In the order in which they are written.
const PURPOSES: [(&str, &[u64]); 12] = [
    ("any", &[2, 5, 29, 37, 0]),
    ("server auth", &[1, 3, 6, 1, 5, 5, 7, 3, 1]),
    ("client auth", &[1, 3, 6, 1, 5, 5, 7, 3, 2]),
    ("code signing", &[1, 3, 6, 1, 5, 5, 7, 3, 3]),
    ("email protection", &[1, 3, 6, 1, 5, 5, 7, 3, 4]),
    ("ipsec end system", &[1, 3, 6, 1, 5, 5, 7, 3, 5]),
    ("ipsec tunnel", &[1, 3, 6, 1, 5, 5, 7, 3, 6]),
    ("ipsec user", &[1, 3, 6, 1, 5, 5, 7, 3, 7]),
    ("timestamping", &[1, 3, 6, 1, 5, 5, 7, 3, 8]),
    ("ocsp signing", &[1, 3, 6, 1, 5, 5, 7, 3, 9]),
    ("microsoft sgc", &[1, 3, 6, 1, 4, 1, 311, 10, 3, 3]),
    ("netscape sgc", &[2, 16, 840, 1, 113_730, 4, 1]),
];

impl Usages {
    fn of(names: &[String]) -> Result<Usages, String> {
        let present = |name: &str| {
            match name {
                "signing" => "digital signature",
                "s/mime" => "email protection",
                other => other,
            }
            .to_owned()
        };
        let names: Vec<String> = names.iter().map(|name| present(name)).collect();
        let is_known = |name: &str| BITS.contains(&name) || PURPOSES.iter().any(|(known, _)| *known == name);
        if let Some(unknown) = names.iter().find(|name| !is_known(name)) {
            return Err(format!("unrecognized usage values: [{unknown:?}]"));
        }
        let asked = |name: &str| names.iter().any(|asked| asked == name);
        let bits =
            BITS.iter().enumerate().filter(|(_, name)| asked(name)).fold(0, |bits, (place, _)| bits | 1 << place);
        let purposes = PURPOSES.iter().filter(|(name, _)| asked(name)).map(|(_, numbers)| *numbers).collect();
        Ok(Usages { bits, purposes })
    }

    /// As many bits as there are up to the last one that is set.
    fn write_bits(&self, writer: DERWriter<'_>) {
        let length = usize::try_from(u16::BITS - self.bits.leading_zeros()).unwrap_or_default();
        let mut bytes = vec![0_u8; length.div_ceil(8)];
        for place in (0..length).filter(|place| self.bits >> place & 1 == 1) {
            bytes[place / 8] |= 0x80 >> (place % 8);
        }
        writer.write_bitvec_bytes(&bytes, length);
    }
}

fn pem(label: &str, der: &[u8]) -> String {
    let text = rkube_machinery::decode::base64::encode(der);
    let mut pem = format!("-----BEGIN {label}-----\n");
    for line in text.as_bytes().chunks(64) {
        pem.push_str(&String::from_utf8_lossy(line));
        pem.push('\n');
    }
    pem.push_str(&format!("-----END {label}-----\n"));
    pem
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rkube_access::authenticate::certificate::{Authority, Proof};
    use rkube_controllers::Validity;

    use super::super::issue;
    use super::*;

    struct Counting;

    impl Entropy for Counting {
        fn fill(&self, bytes: &mut [u8]) {
            bytes.iter_mut().zip(0x81..).for_each(|(byte, value)| *byte = value);
        }
    }

    const NOW: i64 = 1_800_000_000;

    fn asked(key: &KeyPair) -> Asked {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        Asked {
            subject: BTreeMap::from([
                (Attribute::Organization, texts(&["dev", "système"])),
                (Attribute::CommonName, texts(&["jane_doe"])),
            ]),
            dns: texts(&["a.example"]),
            emails: texts(&["a@b"]),
            addresses: vec![[10, 0, 0, 1].into(), "fd00::1".parse().unwrap()],
            uris: texts(&["spiffe://a/b"]),
            public_key: rcgen::PublicKeyData::subject_public_key_info(key),
        }
    }

    #[test]
    fn a_certificate_says_what_was_asked_for_and_proves_it() {
        let authority = issue::authority(NOW, &Counting).unwrap();
        let signer = CertificateSigner::new(&authority, Arc::new(Counting)).unwrap();
        let (key, usages) = (issue::new_key().unwrap(), ["client auth".to_owned(), "signing".to_owned()]);
        let asked = asked(&key);
        let validity = Validity { not_before: NOW - 300, not_after: NOW + 3600 };
        let new = NewCertificate { asked: &asked, usages: &usages, validity, now: NOW };
        let text = signer.sign(&new).unwrap();
        let chain = tls::certificates(&text).unwrap();
        let Proof::User { user, until } = Authority::new(&authority.certificate).proof(&chain, NOW) else {
            panic!("it is of the authority")
        };
        let groups: Vec<_> = user.groups.iter().map(|group| group.as_str()).collect();
        assert_eq!((user.name.as_str(), until), ("jane_doe", NOW + 3600));
        assert_eq!(groups, ["dev", "système", "system:authenticated"]);
        let (_, certificate) = X509Certificate::from_der(&chain[0]).unwrap();
        assert!(!certificate.is_ca() && certificate.basic_constraints().unwrap().is_some());
        let usage = certificate.key_usage().unwrap().unwrap().value;
        assert!(usage.digital_signature() && !usage.key_cert_sign());
        let names = &certificate.subject_alternative_name().unwrap().unwrap().value.general_names;
        assert_eq!(names.len(), 5, "{names:?}");
        assert!(chain[0].iter().len() > 0 && certificate.raw_serial()[0] == 0, "the serial is positive");
    }

    #[test]
    fn a_pair_belongs_together() {
        let authority = issue::authority(NOW, &Counting).unwrap();
        let signer = |certificate: &str, key: &str| {
            let pair = Pair { certificate: certificate.to_owned(), key: key.to_owned() };
            CertificateSigner::new(&pair, Arc::new(Counting)).err().map(|error| error.to_string())
        };
        let (certificate, key) = (authority.certificate.as_str(), authority.key.as_str());
        assert_eq!(signer(certificate, key), None);
        let other = issue::new_key().unwrap().serialize_pem();
        let mismatch = "the signer's key does not belong to its certificate";
        assert_eq!(signer(certificate, &other).as_deref(), Some(mismatch));
        assert_eq!(signer(certificate, include_str!("testdata/rsa-old.pem")).as_deref(), Some(mismatch));
        assert!(signer(certificate, "").is_some() && signer("", key).is_some());
    }

    #[test]
    fn nothing_outlives_its_signer() {
        let authority = issue::authority(NOW, &Counting).unwrap();
        let signer = CertificateSigner::new(&authority, Arc::new(Counting)).unwrap();
        let key = issue::new_key().unwrap();
        let asked = asked(&key);
        let sign = |now: i64| {
            let validity = Validity { not_before: now - 300, not_after: now + 100_000_000_000 };
            signer.sign(&NewCertificate { asked: &asked, usages: &[], validity, now })
        };
        let chain = tls::certificates(&sign(NOW).unwrap()).unwrap();
        let (_, certificate) = X509Certificate::from_der(&chain[0]).unwrap();
        assert_eq!(certificate.validity().not_after.timestamp(), signer.not_after);
        let refused = sign(signer.not_after).unwrap_err();
        assert!(refused.starts_with("refusing to sign a certificate that expired in the past: NotAfter="), "{refused}");
    }

    #[test]
    fn usages_are_bits_and_purposes() {
        let usages = |names: &[&str]| Usages::of(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        let bits = |names: &[&str]| yasna::construct_der(|writer| usages(names).unwrap().write_bits(writer));
        assert_eq!(bits(&["digital signature", "key encipherment"]), [3, 2, 5, 0xa0]);
        assert_eq!(bits(&["decipher only"]), [3, 3, 7, 0, 0x80]);
        assert_eq!(usages(&["s/mime", "any", "email protection"]).unwrap().purposes.len(), 2);
        let refused = usages(&["client auth", "flying"]).err().unwrap();
        assert_eq!(refused, "unrecognized usage values: [\"flying\"]");
    }
}
