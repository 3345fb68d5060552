//! What the embedded runtime asks of whoever keeps images.

use std::path::PathBuf;

use futures::future::BoxFuture;

use crate::api::{Credentials, FilesystemUsage, Image, ImageFilesystem, Result};

pub trait Images: Send + Sync + 'static {
    /// Makes a root directory for a container.
    fn prepare<'a>(&'a self, container: &'a str, image_id: &'a str) -> BoxFuture<'a, Result<Prepared>>;

    /// Removes a container's root directory, if there is one.
    fn release<'a>(&'a self, container: &'a str) -> BoxFuture<'a, Result<()>>;

    /// The containers that have one.
    fn prepared(&self) -> BoxFuture<'_, Result<Vec<String>>>;

    /// What a container wrote into it.
    fn usage<'a>(&'a self, container: &'a str) -> BoxFuture<'a, Result<FilesystemUsage>>;

    fn pull<'a>(&'a self, reference: &'a str, credentials: Option<Credentials>) -> BoxFuture<'a, Result<Image>>;

    fn find<'a>(&'a self, reference: &'a str) -> BoxFuture<'a, Result<Option<Image>>>;

    fn list(&self) -> BoxFuture<'_, Result<Vec<Image>>>;

    fn remove<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<()>>;

    fn filesystem(&self) -> BoxFuture<'_, Result<ImageFilesystem>>;
}

/// What a container is made of.
#[derive(Clone, Debug, Default)]
pub struct Prepared {
    pub root: PathBuf,
    pub entrypoint: Vec<String>,
    pub command: Vec<String>,
    /// As `PATH=/bin`.
    pub environment: Vec<String>,
    pub user: String,
    pub working_directory: String,
    pub stop_signal: String,
    /// What pods show as `imageID`.
    pub image_ref: String,
}
