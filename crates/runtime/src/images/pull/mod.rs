//! Pulls images from registries.
//!
//! A name is resolved to a digest, by the first server that may say so; everything after that is asked for by digest, and
//! compared with it. Layers are downloaded some at a time ([`download`]) and unpacked as they arrive.

mod auth;
mod download;
mod hosts;
mod http;
mod session;
mod unverified;

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::{Either, select};
use futures::stream::StreamExt;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use self::download::{Arrival, Arriving, Download};
use self::session::Session;
use super::bounds::{MAX_LAYER_BYTES, MAX_LAYERS, PARALLEL_DOWNLOADS};
use super::digest::Digest;
use super::platform::{self, Descriptor, Document};
use super::store::Store;
use super::{Error, Reference, Result, config, layers};
use crate::api::{Credentials, Image, PullProgress};

pub use self::http::Patience;

/// Of indexes in indexes.
const MAX_HOPS: usize = 4;

/// How registries are reached.
#[derive(Clone, Debug)]
pub struct Registries {
    /// Where the files are that name mirrors and the like, as `<directory>/docker.io/hosts.toml`.
    pub directory: PathBuf,
    pub patience: Patience,
}

/// Where [`Registries`] are described unless somebody says otherwise.
pub const REGISTRIES: &str = "/etc/rkube/certs.d";

impl Default for Registries {
    fn default() -> Registries {
        Registries { directory: REGISTRIES.into(), patience: Patience::default() }
    }
}

/// Is told how far a pull is.
pub type SharedProgress = Arc<dyn Fn(PullProgress) + Send + Sync>;

impl Store {
    /// Has an image here that a registry has under this name. What is here already is not fetched again.
    pub async fn pull(
        &self,
        reference: &str,
        credentials: Option<Credentials>,
        registries: &Registries,
        progress: SharedProgress,
    ) -> Result<Image> {
        let reference: Reference = reference.parse()?;
        // Who wants the same waits, and then finds it here.
        let turn = self.turn(&reference.to_string());
        let _turn = turn.lock().await;
        let sessions = sessions(reference.clone(), credentials, registries.clone()).await;
        let result = match sessions {
            Ok(sessions) => {
                let tally = Arc::new(Tally { state: Mutex::default(), report: progress });
                Pull { store: self, reference: &reference, sessions, tally }.run().await
            }
            Err(error) => Err(error),
        };
        result.map_err(|error| pull_error(error, &reference))
    }
}

/// One for each server. Reads what files say of them.
async fn sessions(
    reference: Reference,
    credentials: Option<Credentials>,
    registries: Registries,
) -> Result<Vec<Session>> {
    blocking(move || {
        let hosts = hosts::of(&registries.directory, reference.domain())?;
        let session = |host| Session::new(host, &reference, credentials.clone(), registries.patience);
        hosts.into_iter().map(session).collect()
    })
    .await
}

/// Leaves what waits for the disk to another thread.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| Error::corrupt(format_args!("a pull ended early: {error}")))?
}

/// In the words of containerd. What our own disk refuses is not the registry's.
fn pull_error(error: Error, reference: &Reference) -> Error {
    let text = format!("failed to pull and unpack image \"{reference}\": ");
    match error {
        Error::Io(doing, source) => Error::Io(format!("{text}{doing}"), source),
        other => Error::Pull(format!("{text}{other}")),
    }
}

struct Pull<'a> {
    store: &'a Store,
    reference: &'a Reference,
    sessions: Vec<Session>,
    tally: Arc<Tally>,
}

/// A manifest with what led to it.
struct Found {
    config: Vec<u8>,
    layers: Vec<Descriptor>,
    documents: Vec<Vec<u8>>,
}

impl Pull<'_> {
    async fn run(&self) -> Result<Image> {
        let digest = self
            .resolve()
            .await
            .map_err(|error| error.within(format_args!("failed to resolve reference \"{}\"", self.reference)))?;
        let by_digest = format!("{}@{digest}", self.reference.repository());
        let names = vec![by_digest.clone(), self.reference.to_string()];
        if let Some(image) = self.store.find(&by_digest)? {
            let store = self.store.clone();
            return blocking(move || store.name(&image.id, &names)).await;
        }
        let found = self.manifest(&digest).await?;
        self.fetch(found, names).await
    }

    async fn resolve(&self) -> Result<Digest> {
        let name = match (self.reference.tag(), self.reference.digest()) {
            (_, Some(digest)) => digest.to_string(),
            (tag, None) => tag.unwrap_or("latest").to_owned(),
        };
        let mut first = None;
        for session in self.sessions.iter().filter(|session| session.host.resolves) {
            match session.resolve(&name).await {
                Ok(Some(digest)) if self.reference.digest().is_some_and(|wanted| *wanted != digest) => {
                    let wrong = Error::corrupt(format_args!("{} has {digest} as {name}", session.host.base));
                    first.get_or_insert(wrong);
                }
                Ok(Some(digest)) => return Ok(digest),
                Ok(None) => {}
                Err(error) => {
                    first.get_or_insert(error);
                }
            }
        }
        Err(first.unwrap_or_else(|| Error::NotFound(format!("{}: not found", self.reference))))
    }

    /// The manifest of the image for this machine.
    async fn manifest(&self, top: &Digest) -> Result<Found> {
        let mut documents = Vec::new();
        let mut digest = top.clone();
        for _ in 0..MAX_HOPS {
            let content = self.document("manifests", "manifest", &digest).await?;
            let document: Document = serde_json::from_slice(&content)
                .map_err(|error| Error::corrupt(format_args!("{digest} cannot be read: {error}")))?;
            documents.push(content.to_vec());
            if let Some(manifests) = document.manifests {
                digest = platform::choose(&manifests)?.digest.clone();
                continue;
            }
            let Some(config) = document.config else {
                return Err(Error::corrupt(format_args!("{digest} is no manifest of an image")));
            };
            let config = self.document("blobs", "config", &config.digest).await?.to_vec();
            let layers = document.layers.unwrap_or_default();
            check(&layers, &config)?;
            return Ok(Found { config, layers, documents });
        }
        Err(Error::refused("indexes of images lead to each other without an end"))
    }

    /// From the first server that has it.
    async fn document(&self, kind: &str, name: &str, digest: &Digest) -> Result<Bytes> {
        let mut last = Error::NotFound(format!("{digest}: not found"));
        for session in &self.sessions {
            match session.document(&format!("{kind}/{digest}")).await {
                Ok(Some(content)) => {
                    let found = Digest::of(&content);
                    if found == *digest {
                        return Ok(content);
                    }
                    last = Error::corrupt(format_args!(
                        "failed commit on ref \"{name}-{digest}\": unexpected commit digest {found}, expected {digest}: \
                         failed precondition"
                    ));
                }
                Ok(None) => {}
                Err(error) => last = error,
            }
        }
        Err(last.within("failed to copy"))
    }

    /// Downloads and unpacks at the same time.
    async fn fetch(&self, found: Found, names: Vec<String>) -> Result<Image> {
        let (_, diff_ids) = config::parse(&found.config)?;
        let scratch = self.store.scratch()?;
        let missing = layers::missing(self.store, &diff_ids);
        let bytes_total = missing.iter().map(|index| found.layers[*index].size).sum();
        self.tally.advance(|tally| (tally.layers_total, tally.bytes_total) = (diff_ids.len(), bytes_total));
        let (mut arrivals, mut downloads, mut senders) = (Vec::new(), Vec::new(), Vec::new());
        for (index, layer) in found.layers.iter().enumerate() {
            if !missing.contains(&index) {
                arrivals.push(Arrival::Absent);
                continue;
            }
            let (sender, receiver) = oneshot::channel();
            arrivals.push(Arrival::Expected(receiver));
            downloads.push(Download::claim(&self.store.downloads(), &layer.digest, &scratch)?);
            senders.push((layer, sender));
        }
        let downloading = futures::stream::iter(senders.into_iter().zip(&downloads)).for_each_concurrent(
            PARALLEL_DOWNLOADS,
            async |((layer, sender), download)| {
                let fetched = download::fetch(&self.sessions, layer, download.path(), &self.tally).await;
                // Who was to unpack it may have given up.
                let _ = sender.send(fetched.map(|()| download.path().to_owned()));
            },
        );
        let unpacking = self.unpack(found.config, found.documents, names, Arriving::new(arrivals));
        let result = match select(std::pin::pin!(unpacking), std::pin::pin!(downloading)).await {
            Either::Left((result, _)) => result,
            Either::Right(((), unpacking)) => unpacking.await,
        };
        let image = self.store.expect_image(&result?)?;
        downloads.iter().for_each(Download::remove);
        Ok(image)
    }

    async fn unpack(
        &self,
        config: Vec<u8>,
        documents: Vec<Vec<u8>>,
        names: Vec<String>,
        arriving: Arriving,
    ) -> Result<Digest> {
        let (store, tally) = (self.store.clone(), self.tally.clone());
        blocking(move || {
            let progress = |unpacked: PullProgress| tally.advance(|tally| tally.layers_done = unpacked.layers_done);
            store.add(config, &documents, &names, &|diff_ids| layers::unpack(&store, diff_ids, &arriving, &progress))
        })
        .await
    }
}

/// What a manifest says of layers is what the configuration says, and within bounds.
fn check(layers: &[Descriptor], config: &[u8]) -> Result<()> {
    let (_, diff_ids) = config::parse(config)?;
    if layers.len() > MAX_LAYERS || layers.iter().any(|layer| layer.size > MAX_LAYER_BYTES) {
        return Err(Error::refused("the manifest asks for more than an image may have"));
    }
    if layers.len() != diff_ids.len() {
        let (has, said) = (layers.len(), diff_ids.len());
        return Err(Error::corrupt(format_args!("the image has {has} layers, and its configuration {said}")));
    }
    Ok(())
}

/// How far a pull is.
struct Tally {
    state: Mutex<PullProgress>,
    report: SharedProgress,
}

impl Tally {
    fn advance(&self, change: impl FnOnce(&mut PullProgress)) {
        let now = {
            let mut state = self.state.lock();
            change(&mut state);
            state.clone()
        };
        (self.report)(now);
    }
}
