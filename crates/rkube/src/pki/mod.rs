//! The cluster's certificates: made on the first start, reused on later ones.
//!
//! `DIR/pki` holds a pair of files each for the authority (`ca`), the server (`apiserver`), the administrator (`admin`), the
//! server as a client of nodes (`apiserver-kubelet-client`), the node of this host as a client (`kubelet-client`) and as a
//! server (`kubelet`), and the key with which service account tokens are signed (`sa.key`, `sa.pub`). All keys are ECDSA P-256.
//!
//! - A key is written before what is made with it: a certificate without its key is an error, never half a start.
//! - The authority and the signing key are never replaced: clients and tokens out there depend on them.
//! - All others get a new certificate, with the key they have, when theirs is about to expire, is of another authority or
//!   of another subject, or, a server's, lacks a name. That happens at a start: nothing is renewed in between.

mod inspect;

use std::error::Error as _;
use std::path::{Path, PathBuf};

use rcgen::{Issuer, KeyPair};
use rkube_cluster::certificates::issue::{self, Subject};
pub use rkube_cluster::certificates::{NodePki, Pair, Pki, ServerNames};
use rkube_machinery::host::Entropy;

use crate::files::{self, Readers};
use inspect::Facts;

const AUTHORITY_CERTIFICATE: &str = "ca.crt";

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    File(#[from] files::Error),
    #[error("{} is missing, but {} is there: put it back, or remove the directory to begin with a new authority",
            missing.display(), present.display())]
    Half { missing: PathBuf, present: PathBuf },
    #[error("{} is damaged: put a good one back, or remove the directory to begin with a new authority", path.display())]
    Damaged { path: PathBuf, source: rcgen::Error },
    #[error("the authority {} has expired: remove its directory to begin with a new one", .0.display())]
    Expired(PathBuf),
    #[error("cannot make a certificate")]
    Issue(#[from] rcgen::Error),
}

/// What all control planes of a cluster share: who signs certificates, and who tokens.
pub struct SharedKeys {
    pub ca: Pair,
    pub service_account_key: String,
}

/// Those in `directory`; `None` where there is no authority.
pub fn shared_keys(directory: &Path, now_seconds: i64, entropy: &dyn Entropy) -> Result<Option<SharedKeys>, Error> {
    let files = Files { directory, now_seconds, entropy };
    if files::read(&files.path(AUTHORITY_CERTIFICATE))?.is_none() {
        return Ok(None);
    }
    let ca = files.authority()?.pair;
    Ok(Some(SharedKeys { ca, service_account_key: files.signing_key()? }))
}

pub fn new_shared_keys(now_seconds: i64, entropy: &dyn Entropy) -> Result<SharedKeys, Error> {
    let ca = issue::authority(now_seconds, entropy)?;
    Ok(SharedKeys { ca, service_account_key: issue::new_key()?.serialize_pem() })
}

/// The authority's certificate comes last: without it there is none.
pub fn write_shared_keys(directory: &Path, keys: &SharedKeys) -> Result<(), Error> {
    files::make_private_directory(directory)?;
    files::replace(&directory.join("sa.key"), &keys.service_account_key, Readers::Owner)?;
    files::replace(&directory.join("ca.key"), &keys.ca.key, Readers::Owner)?;
    files::replace(&directory.join(AUTHORITY_CERTIFICATE), &keys.ca.certificate, Readers::Everybody)?;
    Ok(())
}

/// Reads what `directory` holds and makes what it lacks.
pub fn load_or_create(
    directory: &Path,
    names: &ServerNames,
    now_seconds: i64,
    entropy: &dyn Entropy,
) -> Result<Pki, Error> {
    files::make_private_directory(directory)?;
    files::keep_private(directory);
    let files = Files { directory, now_seconds, entropy };
    let authority = files.authority()?;
    let server = files.leaf("apiserver", &authority, Subject::Server(names))?;
    let admin = files.leaf("admin", &authority, Subject::Admin)?;
    let kubelet_client = files.leaf("apiserver-kubelet-client", &authority, Subject::KubeletClient)?;
    let service_account_key = files.signing_key()?;
    Ok(Pki { ca: authority.pair, server, admin, kubelet_client, service_account_key })
}

/// The certificates of this host's node, from `directory` or new. `names`: those under which others reach the node; its own
/// name is added.
pub fn node(
    directory: &Path,
    node: &str,
    mut names: ServerNames,
    now_seconds: i64,
    entropy: &dyn Entropy,
) -> Result<NodePki, Error> {
    names.add_dns(node);
    let files = Files { directory, now_seconds, entropy };
    let authority = files.authority()?;
    let client = files.leaf("kubelet-client", &authority, Subject::Node(node))?;
    Ok(NodePki { client, server: files.leaf("kubelet", &authority, Subject::NodeServer(node, &names))? })
}

/// The pair `apiserver.crt` and `apiserver.key` in `directory`, by whomever it was made; if there is none, one of an
/// authority that nobody else will ever hear of.
pub fn serving_pair(
    directory: &Path,
    names: &ServerNames,
    now_seconds: i64,
    entropy: &dyn Entropy,
) -> Result<Pair, Error> {
    let files = Files { directory, now_seconds, entropy };
    let (certificate_path, key_path) = (files.path("apiserver.crt"), files.path("apiserver.key"));
    match (files::read(&certificate_path)?, files::read(&key_path)?) {
        (Some(certificate), Some(key)) => Ok(Pair { certificate, key }),
        (Some(_), None) => Err(Error::Half { missing: key_path, present: certificate_path }),
        (None, Some(_)) => Err(Error::Half { missing: certificate_path, present: key_path }),
        (None, None) => {
            files::make_private_directory(directory)?;
            let ca = issue::authority(now_seconds, entropy)?;
            let issuer = Issuer::from_ca_cert_pem(&ca.certificate, KeyPair::from_pem(&ca.key)?)?;
            let key = issue::new_key()?;
            let leaf = issue::leaf(&issuer, &key, Subject::Server(names), now_seconds, entropy)?;
            let pair = Pair { certificate: format!("{leaf}{}", ca.certificate), key: key.serialize_pem() };
            files.write_pair("apiserver", &pair)?;
            Ok(pair)
        }
    }
}

struct Authority {
    pair: Pair,
    issuer: Issuer<'static, KeyPair>,
}

struct Files<'a> {
    directory: &'a Path,
    now_seconds: i64,
    entropy: &'a dyn Entropy,
}

impl Files<'_> {
    fn authority(&self) -> Result<Authority, Error> {
        let (certificate_path, key_path) = (self.path(AUTHORITY_CERTIFICATE), self.path("ca.key"));
        let pair = match (files::read(&certificate_path)?, files::read_private(&key_path)?) {
            (Some(certificate), Some(key)) => Pair { certificate, key },
            (Some(_), None) => return Err(Error::Half { missing: key_path, present: certificate_path }),
            (None, _) => {
                let pair = issue::authority(self.now_seconds, self.entropy)?;
                self.write_pair("ca", &pair)?;
                pair
            }
        };
        let facts = Facts::read(&pair.certificate)
            .map_err(|source| Error::Damaged { path: certificate_path.clone(), source })?;
        if facts.expires_within(self.now_seconds, 0) {
            return Err(Error::Expired(certificate_path));
        }
        let key = KeyPair::from_pem(&pair.key).map_err(|source| Error::Damaged { path: key_path.clone(), source })?;
        let issuer = Issuer::from_ca_cert_pem(&pair.certificate, key)
            .map_err(|source| Error::Damaged { path: certificate_path, source })?;
        Ok(Authority { pair, issuer })
    }

    fn leaf(&self, name: &str, authority: &Authority, subject: Subject<'_>) -> Result<Pair, Error> {
        let (certificate_path, key_path) = (self.path(&format!("{name}.crt")), self.path(&format!("{name}.key")));
        let certificate = files::read(&certificate_path)?;
        let key = files::read_private(&key_path)?;
        if certificate.is_some() && key.is_none() {
            return Err(Error::Half { missing: key_path, present: certificate_path });
        }
        let key = match key {
            Some(text) => KeyPair::from_pem(&text).map_err(|source| Error::Damaged { path: key_path, source })?,
            None => issue::new_key()?,
        };
        if let Some(certificate) = certificate {
            if self.is_good(&certificate, &key, authority, &subject) {
                return Ok(Pair { certificate, key: key.serialize_pem() });
            }
            tracing::info!(path = %certificate_path.display(), "renewing a certificate");
        }
        let certificate = issue::leaf(&authority.issuer, &key, subject, self.now_seconds, self.entropy)?;
        let pair = Pair { certificate, key: key.serialize_pem() };
        // On a full disk it serves for this once: objects can be deleted only by a server that runs.
        if let Err(error) = self.write_pair(name, &pair) {
            let why = error.source().map(ToString::to_string).unwrap_or_default();
            tracing::warn!(%error, why, "a certificate is good for this start only");
        }
        Ok(pair)
    }

    fn is_good(&self, certificate: &str, key: &KeyPair, authority: &Authority, subject: &Subject<'_>) -> bool {
        let Ok(facts) = Facts::read(certificate) else { return false };
        subject.server_names().is_none_or(|names| facts.covers(names))
            && facts.is_of(&subject.common_name())
            && facts.is_of_key(key)
            && facts.is_signed_by(&authority.pair.certificate)
            && !facts.expires_within(self.now_seconds, issue::RENEW_BEFORE_SECONDS)
    }

    fn signing_key(&self) -> Result<String, Error> {
        let path = self.path("sa.key");
        let key = match files::read_private(&path)? {
            Some(text) => KeyPair::from_pem(&text).map_err(|source| Error::Damaged { path, source })?,
            None => {
                let key = issue::new_key()?;
                files::replace(&path, &key.serialize_pem(), Readers::Owner)?;
                key
            }
        };
        let public = key.public_key_pem();
        let public_path = self.path("sa.pub");
        if files::read(&public_path)?.as_deref() != Some(&public)
            && let Err(error) = files::replace(&public_path, &public, Readers::Everybody)
        {
            tracing::warn!(%error, "others cannot check tokens with it");
        }
        Ok(key.serialize_pem())
    }

    fn write_pair(&self, name: &str, pair: &Pair) -> Result<(), files::Error> {
        files::replace(&self.path(&format!("{name}.key")), &pair.key, Readers::Owner)?;
        files::replace(&self.path(&format!("{name}.crt")), &pair.certificate, Readers::Everybody)?;
        Ok(())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }
}

#[cfg(test)]
mod tests;
