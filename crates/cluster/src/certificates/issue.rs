//! How the certificates look: subjects, usages, lifetimes. They follow what kubeadm makes.

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    SanType, SerialNumber,
};
use rkube_machinery::host::Entropy;
use time::OffsetDateTime;

use super::{Pair, ServerNames};

const DAY_SECONDS: i64 = 24 * 60 * 60;
const AUTHORITY_LIFETIME_SECONDS: i64 = 3650 * DAY_SECONDS;
const LEAF_LIFETIME_SECONDS: i64 = 365 * DAY_SECONDS;
/// A certificate that ends sooner than this is replaced.
pub const RENEW_BEFORE_SECONDS: i64 = 30 * DAY_SECONDS;
/// Certificates are valid from a little before they are made, for clients whose clock is late.
const CLOCK_SKEW_SECONDS: i64 = 60 * 60;

#[derive(Clone, Copy)]
pub enum Subject<'a> {
    Server(&'a ServerNames),
    Admin,
    /// The API server as a client of nodes. They ask it what others may do: it is a master, so that no role that somebody
    /// removes keeps logs and shells from working.
    KubeletClient,
    /// A node as a client of the API server.
    Node(&'a str),
    /// A node as a server, under these names and addresses.
    NodeServer(&'a str, &'a ServerNames),
}

impl Subject<'_> {
    /// The names that the certificate must have, where it is a server's.
    pub fn server_names(&self) -> Option<&ServerNames> {
        match self {
            Subject::Server(names) | Subject::NodeServer(_, names) => Some(names),
            Subject::Admin | Subject::KubeletClient | Subject::Node(_) => None,
        }
    }

    pub fn common_name(&self) -> String {
        match self {
            Subject::Server(_) => "kube-apiserver".to_owned(),
            Subject::Admin => "kubernetes-admin".to_owned(),
            Subject::KubeletClient => "kube-apiserver-kubelet-client".to_owned(),
            Subject::Node(name) | Subject::NodeServer(name, _) => format!("system:node:{name}"),
        }
    }

    fn organization(&self) -> Option<&'static str> {
        match self {
            Subject::Server(_) => None,
            Subject::Admin | Subject::KubeletClient => Some("system:masters"),
            Subject::Node(_) | Subject::NodeServer(..) => Some("system:nodes"),
        }
    }
}

pub fn new_key() -> Result<KeyPair, rcgen::Error> {
    KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)
}

pub fn authority(now_seconds: i64, entropy: &dyn Entropy) -> Result<Pair, rcgen::Error> {
    let key = new_key()?;
    let mut parameters = parameters(now_seconds, AUTHORITY_LIFETIME_SECONDS, entropy)?;
    parameters.distinguished_name.push(DnType::CommonName, "kubernetes");
    parameters.subject_alt_names = vec![SanType::DnsName("kubernetes".try_into()?)];
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    parameters.key_usages.push(KeyUsagePurpose::KeyCertSign);
    let certificate = parameters.self_signed(&key)?.pem();
    Ok(Pair { certificate, key: key.serialize_pem() })
}

pub fn leaf(
    issuer: &Issuer<'_, KeyPair>,
    key: &KeyPair,
    subject: Subject<'_>,
    now_seconds: i64,
    entropy: &dyn Entropy,
) -> Result<String, rcgen::Error> {
    let mut parameters = parameters(now_seconds, LEAF_LIFETIME_SECONDS, entropy)?;
    parameters.use_authority_key_identifier_extension = true;
    if let Some(organization) = subject.organization() {
        parameters.distinguished_name.push(DnType::OrganizationName, organization);
    }
    parameters.distinguished_name.push(DnType::CommonName, subject.common_name());
    parameters.extended_key_usages = match subject.server_names() {
        Some(names) => {
            parameters.subject_alt_names = alternative_names(names)?;
            vec![ExtendedKeyUsagePurpose::ServerAuth]
        }
        None => vec![ExtendedKeyUsagePurpose::ClientAuth],
    };
    Ok(parameters.signed_by(key, issuer)?.pem())
}

fn parameters(
    now_seconds: i64,
    lifetime_seconds: i64,
    entropy: &dyn Entropy,
) -> Result<CertificateParams, rcgen::Error> {
    let mut parameters = CertificateParams::new(Vec::new())?;
    parameters.distinguished_name = rcgen::DistinguishedName::new();
    parameters.not_before = instant(now_seconds - CLOCK_SKEW_SECONDS)?;
    parameters.not_after = instant(now_seconds + lifetime_seconds)?;
    parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
    // A renewed certificate keeps its key, so the serial must not be derived from the key.
    let mut serial = [0; 16];
    entropy.fill(&mut serial);
    serial[0] = serial[0] & 0x7f | 0x40;
    parameters.serial_number = Some(SerialNumber::from_slice(&serial));
    Ok(parameters)
}

fn alternative_names(names: &ServerNames) -> Result<Vec<SanType>, rcgen::Error> {
    let dns = names.dns().map(|name| Ok(SanType::DnsName(name.try_into()?)));
    let addresses = names.addresses().map(|address| Ok(SanType::IpAddress(address)));
    dns.chain(addresses).collect()
}

fn instant(seconds: i64) -> Result<OffsetDateTime, rcgen::Error> {
    OffsetDateTime::from_unix_timestamp(seconds).map_err(|_| rcgen::Error::Time)
}
