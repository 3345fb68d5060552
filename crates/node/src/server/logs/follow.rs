//! Waiting for a log to grow.

use std::path::Path;
use std::time::Duration;

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use tokio::net::unix::pipe;

/// How often to look even where nothing was said: the kernel's notices may have been lost.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// How often to look where the kernel gives no notices: a user may have a hundred or so of them.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
const NOTICES_BYTES: usize = 4096;

/// Notices about the directory of a log: so that a file which takes the place of another is noticed, too.
pub struct Changes {
    notices: Option<pipe::Receiver>,
}

impl Changes {
    pub fn of(path: &Path) -> Changes {
        let directory = path.parent().unwrap_or(Path::new("/"));
        let notices = watch(directory).inspect_err(|error| tracing::debug!(%error, "a log is looked at by the clock"));
        Changes { notices: notices.ok() }
    }

    /// Comes back when it is worth to look.
    pub async fn next(&mut self) {
        let Some(notices) = &self.notices else { return tokio::time::sleep(POLL_INTERVAL).await };
        if let Ok(Ok(())) = tokio::time::timeout(LOOK_INTERVAL, notices.readable()).await {
            let mut buffer = [0; NOTICES_BYTES];
            // What they say does not matter, only that they are gone.
            while notices.try_read(&mut buffer).is_ok() {}
        }
    }
}

fn watch(directory: &Path) -> std::io::Result<pipe::Receiver> {
    let notices = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
    inotify::add_watch(&notices, directory, WatchFlags::MODIFY | WatchFlags::CREATE | WatchFlags::MOVED_TO)?;
    // It is read like a pipe, and that is all that is asked of it.
    pipe::Receiver::from_owned_fd_unchecked(notices)
}
