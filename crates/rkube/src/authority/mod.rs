//! One authority for all control planes on one etcd: who signs certificates and tokens is kept in the store, sealed under
//! a join secret.
//!
//! The first to start publishes its authority; the others have none of their own, are given a copy of the secret, and
//! take the published one. Whoever has it already needs no secret. What cannot be one control plane is refused: two that
//! disagree would overwrite each other's objects for good.

mod seal;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rkube_machinery::host::Entropy;
use rkube_store::{Change, Expect, Store, Write};

use crate::files::{self, Readers};
use crate::pki;

/// Outside of what objects are kept under, so that nobody who serves objects sees it.
const KEY: &str = "/rkube/authority";
/// In the data directory of who made it.
const SECRET_FILE: &str = "join-secret";
const SECRET_BYTES: usize = 32;
/// A secret is no password: there is nothing that makes guessing it slow.
const SECRET_LENGTH_MIN: usize = 32;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    File(#[from] files::Error),
    #[error(transparent)]
    Pki(#[from] pki::Error),
    #[error("cannot read or write the authority in the store")]
    Store(#[from] rkube_store::Error),
    #[error(
        "the control plane on this etcd has another authority than {}: to join it, remove that directory and give \
         --join-secret-file; to stay on your own, use another etcd",
        directory.display()
    )]
    Another { directory: PathBuf },
    #[error(
        "this etcd has a control plane already: to join it, copy the file {SECRET_FILE} from the data directory of its \
         first rkube to this host, and give --join-secret-file FILE"
    )]
    NoSecret,
    #[error("the secret in {} is not the one of the control plane on this etcd: copy that one", path.display())]
    WrongSecret { path: PathBuf },
    #[error("there is no join secret in {}", path.display())]
    Missing { path: PathBuf },
    #[error("the join secret in {} is too short: make one with `head -c {SECRET_BYTES} /dev/urandom | base64`", path.display())]
    TooShort { path: PathBuf },
    #[error("others can read the join secret: say `chmod 600 {}`", path.display())]
    Exposed { path: PathBuf },
    #[error("the authority in the store (key {KEY}) is damaged or of a newer rkube")]
    Damaged,
}

/// Where this process keeps and finds things.
pub struct Place<'a> {
    pub data_directory: &'a Path,
    pub secret_file: Option<&'a Path>,
    pub now_seconds: i64,
    pub entropy: &'a dyn Entropy,
}

/// Returns once the certificates' directory has the authority of everybody on this store.
pub async fn agree(store: &dyn Store, place: &Place<'_>) -> Result<(), Error> {
    let directory = place.data_directory.join("pki");
    loop {
        let own = pki::shared_keys(&directory, place.now_seconds, place.entropy)?;
        let published = store.get(KEY).await?.0.map(|found| found.value);
        match (published, own) {
            (Some(record), Some(own)) => {
                let theirs = seal::certificate(&record).ok_or(Error::Damaged)?;
                return if theirs == own.ca.certificate { Ok(()) } else { Err(Error::Another { directory }) };
            }
            (Some(record), None) => {
                let (path, secret) = place.secret()?.ok_or(Error::NoSecret)?;
                let keys = seal::open(&record, &secret).map_err(|error| match error {
                    seal::Error::Secret => Error::WrongSecret { path },
                    seal::Error::Damaged => Error::Damaged,
                })?;
                pki::write_shared_keys(&directory, &keys)?;
                tracing::info!("joined the control plane on this etcd");
                return Ok(());
            }
            (None, own) => {
                // Before the authority: one that nobody can open would be in everybody's way.
                let (path, secret) = place.secret_or_new()?;
                let is_own = own.is_some();
                let keys = own.map_or_else(|| pki::new_shared_keys(place.now_seconds, place.entropy), Ok)?;
                if !publish(store, &seal::seal(&keys, &secret, place.entropy)).await? {
                    continue;
                }
                if !is_own {
                    pki::write_shared_keys(&directory, &keys)?;
                }
                let path = path.display();
                tracing::info!("other rkubes join on this etcd with --join-secret-file and a copy of {path}");
                return Ok(());
            }
        }
    }
}

/// False: another was first.
async fn publish(store: &dyn Store, record: &str) -> Result<bool, Error> {
    let change = Change::Put { value: record.to_owned().into(), lease: None, note: None };
    match store.write(Write { key: Arc::from(KEY), expect: Expect::Absent, change, guard: None }).await {
        Ok(_) => Ok(true),
        Err(rkube_store::Error::Conflict { .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

impl Place<'_> {
    /// The secret that was given, or that this process made at an earlier start.
    fn secret(&self) -> Result<Option<(PathBuf, String)>, Error> {
        let (path, found) = match self.secret_file {
            Some(path) => {
                let found = files::read(path)?.ok_or_else(|| Error::Missing { path: path.to_owned() })?;
                if files::others_may_read(path) {
                    return Err(Error::Exposed { path: path.to_owned() });
                }
                (path.to_owned(), found)
            }
            None => {
                let path = self.data_directory.join(SECRET_FILE);
                match files::read_private(&path)? {
                    Some(found) => (path, found),
                    None => return Ok(None),
                }
            }
        };
        let secret = found.trim().to_owned();
        if secret.len() < SECRET_LENGTH_MIN {
            return Err(Error::TooShort { path });
        }
        Ok(Some((path, secret)))
    }

    fn secret_or_new(&self) -> Result<(PathBuf, String), Error> {
        if let Some(found) = self.secret()? {
            return Ok(found);
        }
        let mut bytes = [0; SECRET_BYTES];
        self.entropy.fill(&mut bytes);
        let secret = STANDARD.encode(bytes);
        let path = self.data_directory.join(SECRET_FILE);
        files::replace(&path, &format!("{secret}\n"), Readers::Owner)?;
        Ok((path, secret))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::SystemEntropy;
    use rkube_store::Memory;

    const NOW_SECONDS: i64 = 1_800_000_000;

    async fn start(store: &dyn Store, data: &Path, secret_file: Option<&Path>) -> Result<(), Error> {
        let place = Place { data_directory: data, secret_file, now_seconds: NOW_SECONDS, entropy: &SystemEntropy };
        agree(store, &place).await
    }

    fn file(data: &Path, name: &str) -> String {
        std::fs::read_to_string(data.join("pki").join(name)).unwrap()
    }

    #[tokio::test]
    async fn the_second_takes_the_authority_of_the_first() {
        let store = Memory::new();
        let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        start(&store, first.path(), None).await.unwrap();
        let secret = first.path().join(SECRET_FILE);
        assert!(!files::others_may_read(&secret));
        assert!(matches!(start(&store, second.path(), None).await, Err(Error::NoSecret)));
        start(&store, second.path(), Some(&secret)).await.unwrap();
        for name in ["ca.crt", "ca.key", "sa.key"] {
            assert_eq!(file(first.path(), name), file(second.path(), name), "{name}");
        }
        // Neither needs the secret again.
        std::fs::remove_file(secret).unwrap();
        start(&store, first.path(), None).await.unwrap();
        start(&store, second.path(), None).await.unwrap();
        let stored = store.get(KEY).await.unwrap().0.unwrap().value;
        assert!(!String::from_utf8_lossy(&stored).contains("PRIVATE"), "keys are sealed");
    }

    #[tokio::test]
    async fn many_at_once_agree() {
        let (store, directories) = (Memory::new(), [(); 8].map(|()| tempfile::tempdir().unwrap()));
        let shared = tempfile::tempdir().unwrap();
        let secret = shared.path().join("secret");
        files::replace(&secret, &"x".repeat(SECRET_LENGTH_MIN), Readers::Owner).unwrap();
        let starts = directories.iter().map(|data| start(&store, data.path(), Some(&secret)));
        for outcome in futures::future::join_all(starts).await {
            outcome.unwrap();
        }
        for data in &directories {
            assert_eq!(file(data.path(), "ca.key"), file(directories[0].path(), "ca.key"));
        }
    }

    #[tokio::test]
    async fn an_authority_that_was_there_is_published_and_another_is_refused() {
        let store = Memory::new();
        let (old, other, joining) =
            (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for data in [&old, &other] {
            let keys = pki::new_shared_keys(NOW_SECONDS, &SystemEntropy).unwrap();
            pki::write_shared_keys(&data.path().join("pki"), &keys).unwrap();
        }
        let before = file(old.path(), "ca.crt");
        start(&store, old.path(), None).await.unwrap();
        assert_eq!(file(old.path(), "ca.crt"), before);
        let refused = start(&store, other.path(), None).await.unwrap_err();
        assert!(refused.to_string().contains("remove that directory"), "{refused}");
        start(&store, joining.path(), Some(&old.path().join(SECRET_FILE))).await.unwrap();
        assert_eq!(file(joining.path(), "ca.crt"), before);
    }

    #[tokio::test]
    async fn a_secret_that_cannot_be_used_is_said() {
        let store = Memory::new();
        let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        start(&store, first.path(), None).await.unwrap();
        let given = second.path().join("given");
        let attempt = || async { start(&store, second.path(), Some(&given)).await.unwrap_err() };
        assert!(matches!(attempt().await, Error::Missing { .. }));
        files::replace(&given, "short", Readers::Owner).unwrap();
        assert!(matches!(attempt().await, Error::TooShort { .. }));
        files::replace(&given, &"x".repeat(40), Readers::Everybody).unwrap();
        assert!(matches!(attempt().await, Error::Exposed { .. }));
        files::replace(&given, &"x".repeat(40), Readers::Owner).unwrap();
        assert!(matches!(attempt().await, Error::WrongSecret { .. }));
        let change = Change::Put { value: "nonsense".into(), lease: None, note: None };
        store.write(Write { key: Arc::from(KEY), expect: Expect::Anything, change, guard: None }).await.unwrap();
        assert!(matches!(attempt().await, Error::Damaged));
        assert!(!second.path().join("pki/ca.crt").exists());
    }
}
