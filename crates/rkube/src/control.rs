//! The running process's private door: a socket in the data directory over which `rkube store save` asks for a backup.
//!
//! One line each way: `save PATH`, then `saved REVISION` or `failed WHY`. The directory is its owner's alone, and the
//! file is written by the running process, which is of the same user.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use rkube_store::embedded;
use rkube_store::{Revision, Store};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinHandle;

/// Longer than any path.
const LINE_BYTES_MAX: u64 = 64 * 1024;
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Open until it is dropped.
pub struct Door {
    path: PathBuf,
    task: JoinHandle<()>,
}

impl Door {
    /// The caller holds the directory's lock, so a socket that is there is of a process that ended.
    pub fn open(data_directory: &Path, store: Arc<dyn Store>) -> std::io::Result<Door> {
        let path = socket(data_directory);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(&path)?;
        let task = tokio::spawn(async move {
            // One caller at a time: a backup reads the whole store.
            while let Ok((stream, _)) = listener.accept().await {
                if let Err(error) = answer(stream, store.as_ref()).await {
                    tracing::debug!(%error, "a caller of the control socket went away");
                }
            }
        });
        Ok(Door { path, task })
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.task.abort();
        // What stays behind, the next start removes.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Asks the process that runs on the directory for a backup. `None`: none runs there.
pub async fn save(data_directory: &Path, file: &Path) -> anyhow::Result<Option<Revision>> {
    let Ok(mut stream) = UnixStream::connect(socket(data_directory)).await else { return Ok(None) };
    let file = file.to_str().filter(|path| !path.contains('\n')).context("the file's name is not plain text")?;
    stream.write_all(format!("save {file}\n").as_bytes()).await?;
    let reply = read_line(&mut stream).await?;
    match reply.split_once(' ') {
        Some(("saved", revision)) => Ok(Some(revision.parse().context("the running rkube answered nonsense")?)),
        Some(("failed", why)) => bail!("the running rkube could not save: {why}"),
        _ => bail!("the running rkube did not answer: see its log"),
    }
}

async fn answer(mut stream: UnixStream, store: &dyn Store) -> std::io::Result<()> {
    let line = tokio::time::timeout(REQUEST_TIMEOUT, read_line(&mut stream)).await??;
    let reply = match line.strip_prefix("save ").map(Path::new) {
        Some(file) if file.is_absolute() => match embedded::save(store, file).await {
            Ok(revision) => format!("saved {revision}\n"),
            Err(error) => format!("failed {}\n", error.to_string().replace('\n', " ")),
        },
        _ => "failed not understood\n".to_owned(),
    };
    stream.write_all(reply.as_bytes()).await
}

async fn read_line(stream: &mut UnixStream) -> std::io::Result<String> {
    let mut line = String::new();
    BufReader::new(stream.take(LINE_BYTES_MAX)).read_line(&mut line).await?;
    Ok(line.trim_end_matches('\n').to_owned())
}

fn socket(data_directory: &Path) -> PathBuf {
    data_directory.join("control.sock")
}

#[cfg(test)]
mod tests {
    use super::*;
    use rkube_store::Memory;

    #[tokio::test]
    async fn a_running_store_is_saved_and_an_ended_one_is_not_there() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("backup");
        assert_eq!(save(directory.path(), &file).await.unwrap(), None);
        let door = Door::open(directory.path(), Arc::new(Memory::new())).unwrap();
        assert_eq!(save(directory.path(), &file).await.unwrap(), Some(1));
        assert!(file.is_file());
        let unwritable = directory.path().join("absent/backup");
        assert!(save(directory.path(), &unwritable).await.unwrap_err().to_string().contains("could not save"));
        drop(door);
        assert_eq!(save(directory.path(), &file).await.unwrap(), None);
    }
}
