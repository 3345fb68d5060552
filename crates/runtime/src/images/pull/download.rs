//! Downloads layers, some at a time, and goes on where it stopped.
//!
//! What is half there stays in `downloads`, under its digest, and is taken up by the next pull, also of another process.

use std::fs::File;
use std::io::{BufReader, Read, Seek, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use http::StatusCode;
use http::header::CONTENT_RANGE;
use parking_lot::Mutex;
use rustix::fs::FlockOperation;
use tokio::sync::oneshot;

use super::http::Answer;
use super::session::Session;
use super::{Tally, blocking};
use crate::images::bounds::{MAX_IDLE_RESUMPTIONS, MAX_RESUMPTIONS};
use crate::images::compression::decompress;
use crate::images::digest::{Digest, Hasher, Hashing};
use crate::images::error::Doing;
use crate::images::layers::Layers;
use crate::images::platform::Descriptor;
use crate::images::scratch::{Scratch, Space};
use crate::images::{Error, Result};

const READ_BYTES: usize = 256 << 10;
/// What comes in smaller pieces is gathered before it is written.
const WRITE_BYTES: usize = 1 << 20;

/// A file that has a layer, or will have it.
pub(super) struct Download {
    path: PathBuf,
    /// Held as long as anybody uses the file.
    _lock: File,
    /// Nobody else goes on with it.
    shared: bool,
}

impl Download {
    /// The file of earlier attempts, or one of our own while somebody else has that.
    pub(super) fn claim(directory: &Path, digest: &Digest, scratch: &Scratch) -> Result<Download> {
        let path = directory.join(digest.hex());
        let options = || File::options().create(true).truncate(false).read(true).write(true).to_owned();
        let file = options().open(&path).doing(|| format!("open {}", path.display()))?;
        let free = rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok();
        // Whoever had it may have been done with it, and removed it.
        if free && same_file(&file, &path) {
            return Ok(Download { path, _lock: file, shared: true });
        }
        let path = scratch.path().join(format!("download-{}", digest.hex()));
        let file = options().open(&path).doing(|| format!("open {}", path.display()))?;
        Ok(Download { path, _lock: file, shared: false })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// It is not needed any more.
    pub(super) fn remove(&self) {
        if self.shared {
            // What stays is found by the next.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn same_file(file: &File, path: &Path) -> bool {
    let (Ok(open), Ok(named)) = (rustix::fs::fstat(file.as_fd()), rustix::fs::stat(path)) else {
        return false;
    };
    (open.st_dev, open.st_ino) == (named.st_dev, named.st_ino)
}

/// Fetches what is missing of a layer, from the first server that has it, and compares it with its digest.
pub(super) async fn fetch(sessions: &[Session], layer: &Descriptor, path: &Path, tally: &Tally) -> Result<()> {
    let mut last = Error::NotFound(format!("{}: not found", layer.digest));
    for session in sessions {
        match fetch_from(session, layer, path, tally).await {
            Ok(()) => return Ok(()),
            // What was sent is wrong whoever sends it next.
            Err(error @ (Error::Corrupt(_) | Error::Refused(_) | Error::Io(..))) => {
                let _ = std::fs::remove_file(path);
                return Err(error);
            }
            Err(error) => last = error,
        }
    }
    Err(last.within("failed to copy"))
}

async fn fetch_from(session: &Session, layer: &Descriptor, path: &Path, tally: &Tally) -> Result<()> {
    let mut partial = Partial::open(path.to_owned(), layer).await?;
    tally.advance(|progress| progress.bytes_done += partial.bytes);
    let (mut idle, mut attempts) = (0, 0);
    loop {
        let before = partial.bytes;
        let broken = match partial.append(session, tally).await? {
            None => break,
            Some(broken) => broken,
        };
        attempts += 1;
        idle = if partial.bytes > before { 0 } else { idle + 1 };
        if idle >= MAX_IDLE_RESUMPTIONS || attempts >= MAX_RESUMPTIONS {
            return Err(broken);
        }
        tracing::debug!(layer = %layer.digest, at = partial.bytes, error = %broken, "a download is taken up again");
    }
    partial.finish()
}

/// As much of a layer as is there.
struct Partial<'a> {
    layer: &'a Descriptor,
    /// None while another thread writes.
    written: Option<Written>,
    /// What came and is not written yet.
    buffer: Vec<u8>,
    /// With what is in the buffer.
    bytes: u64,
    space: Space,
}

/// What is in the file. The disk may take its time, and so may hashing: neither is done where requests are served.
struct Written {
    file: File,
    hasher: Hasher,
}

impl<'a> Partial<'a> {
    async fn open(path: PathBuf, layer: &'a Descriptor) -> Result<Partial<'a>> {
        let size = layer.size;
        let (written, bytes, space) = blocking(move || -> Result<_> {
            let doing = || format!("open {}", path.display());
            let file = File::options().create(true).truncate(false).read(true).write(true).open(&path).doing(doing)?;
            if file.metadata().doing(doing)?.len() > size {
                file.set_len(0).doing(doing)?;
            }
            let (hasher, bytes) = Hashing::new(BufReader::with_capacity(READ_BYTES, &file)).so_far().doing(doing)?;
            let space = Space::of(path.parent().unwrap_or(&path))?;
            Ok((Written { file, hasher }, bytes, space))
        })
        .await?;
        Ok(Partial { layer, written: Some(written), buffer: Vec::with_capacity(WRITE_BYTES), bytes, space })
    }

    /// Takes what the server sends. Some: it stopped too early, for this reason, and may be asked again.
    async fn append(&mut self, session: &Session, tally: &Tally) -> Result<Option<Error>> {
        if self.bytes == self.layer.size {
            return Ok(None);
        }
        let mut answer = match session.blob(&self.layer.digest, self.bytes).await {
            Ok(answer) => answer,
            Err(error) => return Ok(Some(error)),
        };
        match answer.status {
            StatusCode::PARTIAL_CONTENT if starts_at(&answer, self.bytes) => {}
            StatusCode::OK | StatusCode::PARTIAL_CONTENT | StatusCode::RANGE_NOT_SATISFIABLE if self.bytes > 0 => {
                // It cannot, or will not, go on from there.
                self.restart(tally).await?;
                if answer.status != StatusCode::OK {
                    return Ok(Some(answer.unexpected()));
                }
            }
            StatusCode::OK => {}
            StatusCode::NOT_FOUND => return Err(Error::NotFound(format!("{}: not found", self.layer.digest))),
            status if status.is_server_error() => return Ok(Some(answer.unexpected())),
            _ => return Err(answer.unexpected()),
        }
        let ended = self.receive(&mut answer, tally).await?;
        self.flush().await?;
        Ok(ended)
    }

    async fn receive(&mut self, answer: &mut Answer, tally: &Tally) -> Result<Option<Error>> {
        loop {
            let chunk = match answer.chunk().await {
                Ok(Some(chunk)) => chunk,
                Ok(None) if self.bytes == self.layer.size => return Ok(None),
                Ok(None) => return Ok(Some(Error::Pull("unexpected EOF".to_owned()))),
                Err(error) => return Ok(Some(Error::Pull(error.to_string()))),
            };
            if self.bytes + chunk.len() as u64 > self.layer.size {
                let (digest, size) = (&self.layer.digest, self.layer.size);
                return Err(Error::corrupt(format_args!("{digest} is longer than the {size} bytes of the manifest")));
            }
            self.space.take(chunk.len() as u64)?;
            self.buffer.extend_from_slice(&chunk);
            self.bytes += chunk.len() as u64;
            if self.buffer.len() >= WRITE_BYTES {
                self.flush().await?;
            }
            tally.advance(|progress| progress.bytes_done += chunk.len() as u64);
        }
    }

    async fn flush(&mut self) -> Result<()> {
        let buffer = std::mem::take(&mut self.buffer);
        self.buffer = self
            .on_disk(move |written| {
                written.file.write_all(&buffer).doing(|| "write a layer".to_owned())?;
                written.hasher.update(&buffer);
                Ok(buffer)
            })
            .await?;
        self.buffer.clear();
        Ok(())
    }

    async fn restart(&mut self, tally: &Tally) -> Result<()> {
        tally.advance(|progress| progress.bytes_done -= self.bytes);
        (self.bytes, self.buffer) = (0, Vec::with_capacity(WRITE_BYTES));
        self.on_disk(|written| {
            let file = &mut written.file;
            file.set_len(0).and_then(|()| file.rewind()).doing(|| "write a layer".to_owned())?;
            written.hasher = Hasher::default();
            Ok(())
        })
        .await
    }

    async fn on_disk<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut Written) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let Some(mut written) = self.written.take() else {
            return Err(Error::corrupt("writing a download was given up"));
        };
        let (written, result) = blocking(move || {
            let result = work(&mut written);
            Ok((written, result))
        })
        .await?;
        self.written = Some(written);
        result
    }

    fn finish(self) -> Result<()> {
        let expected = &self.layer.digest;
        let found = self.written.map(|written| written.hasher.finish());
        if found.as_ref() != Some(expected) {
            let found = found.map(|found| found.to_string()).unwrap_or_default();
            return Err(Error::corrupt(format_args!(
                "failed commit on ref \"layer-{expected}\": unexpected commit digest {found}, expected {expected}: \
                 failed precondition"
            )));
        }
        Ok(())
    }
}

fn starts_at(answer: &Answer, offset: u64) -> bool {
    let range = answer.headers.get(CONTENT_RANGE).and_then(|range| range.to_str().ok());
    range.is_some_and(|range| range.starts_with(&format!("bytes {offset}-")))
}

/// Layers that are on their way: who unpacks one waits until it is there.
pub(super) struct Arriving {
    layers: Vec<Mutex<Arrival>>,
}

pub(super) enum Arrival {
    Expected(oneshot::Receiver<Result<PathBuf>>),
    Here(PathBuf),
    /// It was here when the pull began, or could not be had.
    Absent,
}

impl Arriving {
    pub(super) fn new(layers: Vec<Arrival>) -> Arriving {
        Arriving { layers: layers.into_iter().map(Mutex::new).collect() }
    }
}

impl Layers for Arriving {
    /// Progress is counted where it arrives.
    fn bytes(&self, _: usize) -> u64 {
        0
    }

    fn open<'a>(&'a self, index: usize, _: &'a (dyn Fn(u64) + Send + Sync)) -> Result<Box<dyn Read + Send + 'a>> {
        let mut arrival = self.layers[index].lock();
        let path = match std::mem::replace(&mut *arrival, Arrival::Absent) {
            Arrival::Here(path) => path,
            Arrival::Expected(receiver) => match receiver.blocking_recv() {
                Ok(arrived) => arrived?,
                Err(_) => return Err(Error::Pull("the pull was given up".to_owned())),
            },
            Arrival::Absent => return Err(Error::Pull("a layer was removed as the image was pulled".to_owned())),
        };
        let file = File::open(&path).doing(|| format!("open {}", path.display()))?;
        *arrival = Arrival::Here(path);
        decompress(BufReader::with_capacity(READ_BYTES, file)).map_err(Error::reading)
    }
}
