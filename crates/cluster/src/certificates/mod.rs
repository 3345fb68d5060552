//! The certificates by which a control plane and its administrator know each other: how they look, and how the server
//! speaks TLS with them. Where they are kept is not known here. All keys are ECDSA P-256, everything is PEM.

pub mod issue;
mod keys;
mod names;
mod sign;
pub mod tls;

use rcgen::{Issuer, KeyPair};
use rkube_machinery::host::Entropy;

use issue::Subject;
pub use names::ServerNames;
pub use sign::CertificateSigner;

#[derive(Clone)]
pub struct Pair {
    pub certificate: String,
    pub key: String,
}

/// All that a control plane has.
pub struct Pki {
    pub ca: Pair,
    pub server: Pair,
    /// Of a user in the group `system:masters`.
    pub admin: Pair,
    /// Of the API server as a client of nodes.
    pub kubelet_client: Pair,
    /// Signs service account tokens.
    pub service_account_key: String,
}

impl Pki {
    /// New ones, of an authority that nobody knows yet.
    pub fn generate(names: &ServerNames, now_seconds: i64, entropy: &dyn Entropy) -> Result<Pki, rcgen::Error> {
        let ca = issue::authority(now_seconds, entropy)?;
        let issuer = Issuer::from_ca_cert_pem(&ca.certificate, KeyPair::from_pem(&ca.key)?)?;
        let leaf = |subject| new_leaf(&issuer, subject, now_seconds, entropy);
        let (server, admin) = (leaf(Subject::Server(names))?, leaf(Subject::Admin)?);
        let kubelet_client = leaf(Subject::KubeletClient)?;
        Ok(Pki { ca, server, admin, kubelet_client, service_account_key: issue::new_key()?.serialize_pem() })
    }
}

/// What a node has: by which the API server knows it, and by which it serves its own port.
pub struct NodePki {
    pub client: Pair,
    pub server: Pair,
}

impl NodePki {
    /// New ones. `names`: those under which others reach the node; its own name is added.
    pub fn generate(
        ca: &Pair,
        node: &str,
        mut names: ServerNames,
        now_seconds: i64,
        entropy: &dyn Entropy,
    ) -> Result<NodePki, rcgen::Error> {
        names.add_dns(node);
        let issuer = Issuer::from_ca_cert_pem(&ca.certificate, KeyPair::from_pem(&ca.key)?)?;
        let leaf = |subject| new_leaf(&issuer, subject, now_seconds, entropy);
        Ok(NodePki { client: leaf(Subject::Node(node))?, server: leaf(Subject::NodeServer(node, &names))? })
    }
}

fn new_leaf(
    issuer: &Issuer<'_, KeyPair>,
    subject: Subject<'_>,
    now_seconds: i64,
    entropy: &dyn Entropy,
) -> Result<Pair, rcgen::Error> {
    let key = issue::new_key()?;
    let certificate = issue::leaf(issuer, &key, subject, now_seconds, entropy)?;
    Ok(Pair { certificate, key: key.serialize_pem() })
}
