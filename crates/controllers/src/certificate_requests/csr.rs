//! What is asked for in a PKCS#10 request: subject, names and key. A request of which anything that counts cannot be read
//! is not read at all, so that nobody signs what nobody has seen.

use std::collections::BTreeMap;
use std::net::IpAddr;

use rkube_machinery::pem;
use x509_parser::cri_attributes::ParsedCriAttribute;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::{FromDer as _, X509CertificationRequest, X509Name};

/// What a subject has, in the order in which it is written. Whatever else it may have is left out, as upstream does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Attribute {
    Country,
    Organization,
    OrganizationalUnit,
    Locality,
    Province,
    StreetAddress,
    PostalCode,
    CommonName,
    SerialNumber,
}

impl Attribute {
    const ALL: [Attribute; 9] = [
        Attribute::Country,
        Attribute::Organization,
        Attribute::OrganizationalUnit,
        Attribute::Locality,
        Attribute::Province,
        Attribute::StreetAddress,
        Attribute::PostalCode,
        Attribute::CommonName,
        Attribute::SerialNumber,
    ];

    /// Its number below `2.5.4`.
    pub fn number(self) -> u64 {
        match self {
            Attribute::CommonName => 3,
            Attribute::SerialNumber => 5,
            Attribute::Country => 6,
            Attribute::Locality => 7,
            Attribute::Province => 8,
            Attribute::StreetAddress => 9,
            Attribute::Organization => 10,
            Attribute::OrganizationalUnit => 11,
            Attribute::PostalCode => 17,
        }
    }

    fn is_single(self) -> bool {
        matches!(self, Attribute::CommonName | Attribute::SerialNumber)
    }
}

/// What a certificate is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    pub subject: BTreeMap<Attribute, Vec<String>>,
    pub dns: Vec<String>,
    pub emails: Vec<String>,
    pub addresses: Vec<IpAddr>,
    pub uris: Vec<String>,
    /// A SubjectPublicKeyInfo in DER.
    pub public_key: Vec<u8>,
}

impl Asked {
    pub fn common_name(&self) -> &str {
        self.values(Attribute::CommonName).first().map_or("", String::as_str)
    }

    pub fn organizations(&self) -> &[String] {
        self.values(Attribute::Organization)
    }

    fn values(&self, attribute: Attribute) -> &[String] {
        self.subject.get(&attribute).map_or(&[], Vec::as_slice)
    }

    /// Of a request in PEM; or why it cannot be read.
    pub fn read(text: &[u8]) -> Result<Asked, &'static str> {
        let block = pem::blocks(text).next().filter(|block| block.label == "CERTIFICATE REQUEST");
        let block = block.ok_or("PEM block type must be CERTIFICATE REQUEST")?;
        let (rest, request) = X509CertificationRequest::from_der(&block.bytes).map_err(|_| "malformed request")?;
        if !rest.is_empty() {
            return Err("trailing data");
        }
        let info = &request.certification_request_info;
        let mut asked = Asked {
            subject: read_subject(&info.subject)?,
            public_key: info.subject_pki.raw.to_vec(),
            ..Asked::default()
        };
        let mut named = false;
        for attribute in info.iter_attributes() {
            let ParsedCriAttribute::ExtensionRequest(requested) = attribute.parsed_attribute() else { continue };
            for extension in &requested.extensions {
                if extension.oid != x509_parser::oid_registry::OID_X509_EXT_SUBJECT_ALT_NAME {
                    continue;
                }
                let ParsedExtension::SubjectAlternativeName(names) = extension.parsed_extension() else {
                    return Err("malformed subjectAltName");
                };
                if std::mem::replace(&mut named, true) {
                    return Err("duplicate requested extensions");
                }
                names.general_names.iter().try_for_each(|name| asked.add_name(name))?;
            }
        }
        Ok(asked)
    }

    fn add_name(&mut self, name: &GeneralName<'_>) -> Result<(), &'static str> {
        let text = |text: &str| if text.is_ascii() { Ok(text.to_owned()) } else { Err("malformed subjectAltName") };
        match name {
            GeneralName::DNSName(name) => self.dns.push(text(name)?),
            GeneralName::RFC822Name(name) => self.emails.push(text(name)?),
            GeneralName::URI(name) => self.uris.push(text(name)?),
            GeneralName::IPAddress(bytes) => self.addresses.push(read_address(bytes)?),
            GeneralName::Invalid(..) => return Err("malformed subjectAltName"),
            // Nobody gets these.
            _ => {}
        }
        Ok(())
    }
}

fn read_subject(name: &X509Name<'_>) -> Result<BTreeMap<Attribute, Vec<String>>, &'static str> {
    let mut subject: BTreeMap<Attribute, Vec<String>> = BTreeMap::new();
    for one in name.iter_attributes() {
        let known = Attribute::ALL.into_iter().find(|known| {
            let mut numbers = one.attr_type().iter().into_iter().flatten();
            [2, 5, 4, known.number()].iter().all(|number| numbers.next() == Some(*number)) && numbers.next().is_none()
        });
        let Some(known) = known else { continue };
        let text = one.as_str().map_err(|_| "unsupported type in the subject")?.to_owned();
        let values = subject.entry(known).or_default();
        if known.is_single() {
            // The last one counts.
            values.clear();
        }
        values.push(text);
    }
    for single in [Attribute::CommonName, Attribute::SerialNumber] {
        if subject.get(&single).is_some_and(|values| values.iter().all(String::is_empty)) {
            subject.remove(&single);
        }
    }
    Ok(subject)
}

fn read_address(bytes: &[u8]) -> Result<IpAddr, &'static str> {
    if let Ok(bytes) = <[u8; 4]>::try_from(bytes) {
        return Ok(IpAddr::from(bytes));
    }
    let bytes = <[u8; 16]>::try_from(bytes).map_err(|_| "malformed address")?;
    Ok(IpAddr::from(bytes).to_canonical())
}
