//! After an upgrade: bytes between a client and a backend, both ways, whatever they mean.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::watch;
use tokio::time::Instant;

/// A connection on which nothing was said for so long ends; upstream's nodes do so, too.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(4 * 60 * 60);
/// How long a backend may go on talking to a client that has no more to say.
const HALF_CLOSE_TIMEOUT: Duration = Duration::from_secs(30);
/// How long the client may take to let its connection be another one.
const UPGRADE_TIMEOUT: Duration = Duration::from_secs(10);
const BUFFER_BYTES: usize = 32 * 1024;

/// Copies until one of them ends, nobody says anything any more, or the server stops. `held` is let go then.
pub async fn run<T>(client: OnUpgrade, backend: OnUpgrade, mut draining: watch::Receiver<bool>, held: T) {
    let both = tokio::time::timeout(UPGRADE_TIMEOUT, futures::future::try_join(client, backend)).await;
    match both {
        Ok(Ok((client, backend))) => {
            let copying = copy(TokioIo::new(client), TokioIo::new(backend), IDLE_TIMEOUT);
            tokio::select! {
                biased;
                ended = copying => if let Err(error) = ended {
                    tracing::debug!(%error, "a connection to a backend broke");
                },
                _ = draining.wait_for(|draining| *draining) => {}
            }
        }
        Ok(Err(error)) => tracing::debug!(%error, "a connection was not upgraded"),
        Err(_) => tracing::debug!("a connection was not upgraded in time"),
    }
    drop(held);
}

/// The end of the client's bytes is handed on, and the backend may finish. The end of the backend's is the end.
async fn copy<C, B>(client: C, backend: B, idle_timeout: Duration) -> io::Result<()>
where
    C: AsyncRead + AsyncWrite,
    B: AsyncRead + AsyncWrite,
{
    let (mut from_client, mut to_client) = tokio::io::split(client);
    let (mut from_backend, mut to_backend) = tokio::io::split(backend);
    let activity = Activity::new();
    let up = async {
        pump(&mut from_client, &mut to_backend, &activity).await?;
        to_backend.shutdown().await?;
        tokio::time::sleep(HALF_CLOSE_TIMEOUT).await;
        Ok::<(), io::Error>(())
    };
    let down = pump(&mut from_backend, &mut to_client, &activity);
    let ended = tokio::select! {
        biased;
        ended = up => ended,
        ended = down => ended,
        () = activity.idle(idle_timeout) => Ok(()),
    };
    // Each is told that this is the end; that it may be gone already is no news.
    let _ = to_client.shutdown().await;
    let _ = to_backend.shutdown().await;
    ended
}

async fn pump(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    activity: &Activity,
) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let count = from.read(&mut buffer).await?;
        if count == 0 {
            return Ok(());
        }
        activity.note();
        to.write_all(&buffer[..count]).await?;
        to.flush().await?;
    }
}

/// When something was last said, by whomever.
struct Activity {
    began: Instant,
    last_ms: AtomicU64,
}

impl Activity {
    fn new() -> Activity {
        Activity { began: Instant::now(), last_ms: AtomicU64::new(0) }
    }

    fn note(&self) {
        let now = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last_ms.store(now, Ordering::Relaxed);
    }

    async fn idle(&self, timeout: Duration) {
        loop {
            let until = self.began + Duration::from_millis(self.last_ms.load(Ordering::Relaxed)) + timeout;
            if until <= Instant::now() {
                return;
            }
            tokio::time::sleep_until(until).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_end_of_what_a_client_says_is_handed_on() {
        let (mut client, near) = tokio::io::duplex(64);
        let (mut backend, far) = tokio::io::duplex(64);
        let copying = tokio::spawn(copy(near, far, IDLE_TIMEOUT));
        client.write_all(b"hello").await.unwrap();
        client.shutdown().await.unwrap();
        let mut heard = String::new();
        backend.read_to_string(&mut heard).await.unwrap();
        assert_eq!(heard, "hello");
        backend.write_all(b"bye").await.unwrap();
        backend.shutdown().await.unwrap();
        let mut heard = String::new();
        client.read_to_string(&mut heard).await.unwrap();
        assert_eq!(heard, "bye");
        copying.await.unwrap().unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn silence_ends_it() {
        let (mut client, near) = tokio::io::duplex(64);
        let (mut backend, far) = tokio::io::duplex(64);
        let began = Instant::now();
        let copying = tokio::spawn(copy(near, far, Duration::from_secs(60)));
        tokio::time::sleep(Duration::from_secs(50)).await;
        backend.write_all(b"x").await.unwrap();
        let mut one = [0];
        client.read_exact(&mut one).await.unwrap();
        copying.await.unwrap().unwrap();
        assert_eq!(began.elapsed().as_secs(), 110, "of the paused clock");
        assert_eq!(client.read(&mut one).await.unwrap(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_backend_that_does_not_stop_is_left() {
        let (mut client, near) = tokio::io::duplex(64);
        let (_backend, far) = tokio::io::duplex(64);
        let began = Instant::now();
        client.shutdown().await.unwrap();
        copy(near, far, IDLE_TIMEOUT).await.unwrap();
        assert_eq!(began.elapsed(), HALF_CLOSE_TIMEOUT);
    }
}
