//! Logs of containers, as their runtime wrote them.
//!
//! [`options`] is what may be asked for, [`which`] whose log is meant, [`line`] the form of a line, [`reader`] reads a file
//! piece by piece, [`follow`] waits for more of it. Nothing holds more of a log than one piece and one line.
//!
//! As upstream's kubelets, a read begins in the file that is written now; what was rotated away before is not shown. Who
//! follows goes along when the file is rotated.

mod follow;
pub mod line;
pub mod options;
pub mod reader;
mod tail;
pub mod which;

pub use options::LogOptions;
pub use reader::{Reader, Step};

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt as _;
use rkube_runtime::api::{ContainerState, Event, Runtime};
use tokio::sync::mpsc;

use follow::Changes;

/// Pieces that wait for the client to take them.
const PIECES_MAX: usize = 2;

/// Sends a log, piece by piece, until it ends, the client has gone, or, with `follow`, the container has ended.
pub fn stream(
    runtime: Arc<dyn Runtime>,
    container: String,
    path: PathBuf,
    options: LogOptions,
) -> mpsc::Receiver<Bytes> {
    let (pieces, receiver) = mpsc::channel(PIECES_MAX);
    tokio::spawn(async move {
        let gone = pieces.clone();
        let sent = async {
            if let Err(why) = send(runtime, &container, &path, options, &pieces).await {
                // Upstream has begun its answer by then, too, and says it there.
                let _ = pieces.send(Bytes::from(why)).await;
            }
        };
        tokio::select! {
            () = sent => {}
            () = gone.closed() => {}
        }
    });
    receiver
}

async fn send(
    runtime: Arc<dyn Runtime>,
    container: &str,
    path: &Path,
    options: LogOptions,
    pieces: &mpsc::Sender<Bytes>,
) -> Result<(), String> {
    let is_following = options.follow;
    let mut reader = open(path, options).await?;
    // Before the first look at whether it runs, so that its end cannot be missed.
    let mut events = is_following.then(|| runtime.events());
    let mut changes = is_following.then(|| Changes::of(path));
    let mut is_running = is_following;
    loop {
        let (returned, step) = step(reader).await;
        reader = returned;
        let step = step.map_err(|error| format!("failed to read log file {path:?}: {error}"))?;
        if !step.output.is_empty() && pieces.send(step.output).await.is_err() {
            return Ok(());
        }
        if step.is_done {
            return Ok(());
        }
        if !step.is_at_end {
            continue;
        }
        if let Some(file) = reader.successor() {
            reader.go_on_with(file);
            continue;
        }
        if !is_running {
            return match reader.last() {
                rest if rest.is_empty() => Ok(()),
                rest => pieces.send(rest).await.map_err(|_| String::new()),
            };
        }
        // What it wrote last may have come after the end was read: so once more.
        is_running = runs(&*runtime, container).await;
        if is_running && let (Some(changes), Some(events)) = (&mut changes, &mut events) {
            tokio::select! {
                () = changes.next() => {}
                () = stopped(events, container) => {}
            }
        }
    }
}

async fn open(path: &Path, options: LogOptions) -> Result<Reader, String> {
    let path = path.to_owned();
    let opened = tokio::task::spawn_blocking(move || {
        let opened = Reader::open(&path, options);
        opened.map_err(|error| not_opened(&path, &error))
    });
    opened.await.unwrap_or_else(|_| Err("the log could not be read".to_owned()))
}

/// As upstream says it, who looks where links lead to before.
fn not_opened(path: &Path, error: &std::io::Error) -> String {
    let shown = path.display();
    match error.kind() {
        ErrorKind::NotFound => {
            format!("failed to try resolving symlinks in path {path:?}: lstat {shown}: no such file or directory")
        }
        ErrorKind::PermissionDenied => format!("failed to open log file {path:?}: open {shown}: permission denied"),
        _ => format!("failed to open log file {path:?}: open {shown}: {error}"),
    }
}

async fn step(mut reader: Reader) -> (Reader, std::io::Result<Step>) {
    let stepped = tokio::task::spawn_blocking(move || {
        let step = reader.step();
        (reader, step)
    });
    stepped.await.expect("reading a log does not panic, and the server's runtime outlives it")
}

async fn runs(runtime: &dyn Runtime, container: &str) -> bool {
    let status = runtime.container(container).await;
    status.is_ok_and(|status| matches!(status.state, ContainerState::Running | ContainerState::Created))
}

/// Waits until the container may have ended.
async fn stopped(events: &mut (impl futures::Stream<Item = Event> + Unpin), id: &str) {
    loop {
        match events.next().await {
            Some(Event::Stopped { container, .. }) if container == id => return,
            Some(Event::Missed) => return,
            Some(_) => {}
            None => std::future::pending().await,
        }
    }
}
