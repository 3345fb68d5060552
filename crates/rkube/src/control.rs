//! The running process's private door: a socket in the data directory over which `rkube store save` asks for a backup.
//!
//! One line each way: `save PATH`, then `saved REVISION` or `failed WHY`. The file is written by the running process: so
//! the socket is its owner's alone whatever the directory's mode and the umask are, and callers of other users are sent
//! away (root is not).

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
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
/// A pause when no caller can be let in (no file descriptors are left), so as not to spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

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
        let listener = bind_private(data_directory, &path)?;
        let task = tokio::spawn(async move {
            // One caller at a time: a backup reads the whole store.
            loop {
                match listener.accept().await {
                    Ok((stream, _)) => receive(stream, store.as_ref()).await,
                    Err(error) => {
                        tracing::warn!(%error, "cannot let a caller of the control socket in");
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                }
            }
        });
        Ok(Door { path, task })
    }
}

/// A socket appears with the mode that the umask leaves it. So it is made where nobody else can reach it, and moved when
/// its mode is right.
fn bind_private(data_directory: &Path, path: &Path) -> std::io::Result<UnixListener> {
    // As short as can be: paths of sockets have about a hundred bytes.
    let apart = tempfile::Builder::new()
        .prefix(".s")
        .rand_bytes(6)
        .permissions(Permissions::from_mode(0o700))
        .tempdir_in(data_directory)?;
    let socket = apart.path().join("s");
    let listener = UnixListener::bind(&socket)?;
    std::fs::set_permissions(&socket, Permissions::from_mode(0o600))?;
    std::fs::rename(&socket, path)?;
    Ok(listener)
}

async fn receive(stream: UnixStream, store: &dyn Store) {
    match stream.peer_cred() {
        Ok(caller) if may_ask(caller.uid(), rustix::process::geteuid().as_raw()) => {}
        Ok(caller) => {
            tracing::warn!(user = caller.uid(), "sent a caller of the control socket away");
            // Its line is not read: who may not ask may not make others wait either.
            let _ = stream.try_write(b"failed it runs as another user\n");
            return;
        }
        Err(error) => return tracing::warn!(%error, "cannot tell who calls on the control socket"),
    }
    if let Err(error) = answer(stream, store).await {
        tracing::debug!(%error, "a caller of the control socket went away");
    }
}

/// The file is written with the rights of this process: nobody may use those who does not have them.
fn may_ask(caller: u32, own: u32) -> bool {
    caller == own || caller == 0
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
    // One that sends us away does not read what we want; what it says is there nevertheless.
    let _ = stream.write_all(format!("save {file}\n").as_bytes()).await;
    let reply = read_line(&mut stream).await.unwrap_or_default();
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

    #[test]
    fn only_the_same_user_and_root_may_ask() {
        let table = [(1000, 1000, true), (0, 1000, true), (0, 0, true), (1000, 0, false), (65534, 1000, false)];
        for (caller, own, expected) in table {
            assert_eq!(may_ask(caller, own), expected, "{caller} {own}");
        }
    }

    #[tokio::test]
    async fn the_socket_is_its_owners_and_leaves_nothing_behind() {
        let directory = tempfile::tempdir().unwrap();
        let door = Door::open(directory.path(), Arc::new(Memory::new())).unwrap();
        let mode = std::fs::metadata(socket(directory.path())).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
        drop(door);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }

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
