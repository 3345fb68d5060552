//! The kubeconfig that `rkube up` writes: where it is kept, and when it is written anew.

use std::error::Error as _;
use std::path::Path;

use rkube_cluster::certificates::Pair;
use rkube_cluster::kubeconfig::render;

use crate::files::{self, Readers};

/// Writes the file unless it fits the address and the certificates of this start already. A server that cannot write it,
/// on a full disk, is still of use to who has the old one: only with it can objects be deleted.
pub fn write(path: &Path, url: &str, authorities: &str, user: &Pair) {
    let text = render(url, authorities, user);
    match files::read_private(path) {
        Ok(Some(found)) if found == text => {}
        found => {
            let Err(error) = files::replace(path, &text, Readers::Owner) else { return };
            let why = error.source().map(ToString::to_string).unwrap_or_default();
            match found {
                Ok(Some(_)) => tracing::warn!(
                    %error, why, "the kubeconfig is of an earlier start: use it with kubectl --server={url}"
                ),
                _ => tracing::warn!(%error, why, "there is no kubeconfig"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_embedded() {
        let pair = |text: &str| Pair { certificate: text.to_owned(), key: format!("{text}-key") };
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("kubeconfig");
        write(&path, "https://127.0.0.1:6443", "ca", &pair("admin"));
        // The loader that operators use reads it back.
        let config = kube::config::Kubeconfig::read_from(&path).unwrap();
        assert_eq!(config.current_context.as_deref(), Some("rkube"));
        let cluster = config.clusters[0].cluster.as_ref().unwrap();
        assert_eq!(cluster.server.as_deref(), Some("https://127.0.0.1:6443"));
        assert_eq!(cluster.certificate_authority_data.as_deref(), Some("Y2E="));
        let user = config.auth_infos[0].auth_info.as_ref().unwrap();
        assert_eq!(user.client_certificate_data.as_deref(), Some("YWRtaW4="));
        assert!(user.client_key_data.is_some());
    }

    #[test]
    fn one_that_fits_is_left_alone_and_one_that_cannot_be_written_is_no_end() {
        let pair = |text: &str| Pair { certificate: text.to_owned(), key: String::new() };
        let user = pair("c");
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("kubeconfig");
        let inode = || std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(&path).unwrap());
        write(&path, "https://127.0.0.1:1", "a", &user);
        let first = inode();
        write(&path, "https://127.0.0.1:1", "a", &user);
        assert_eq!(inode(), first);
        write(&path, "https://127.0.0.1:2", "a", &user);
        assert_ne!(inode(), first);
        write(&directory.path().join("absent/kubeconfig"), "https://127.0.0.1:1", "a", &user);
    }
}
