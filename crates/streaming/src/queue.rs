//! Bytes of one stream between the task that reads the connection and whoever reads the stream.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use tokio::sync::Notify;

/// What a stream holds that nobody has read: the window that SPDY gives a sender who has not been told otherwise. At it
/// the connection is read no further until somebody takes some.
pub const QUEUE_BYTES_MAX: usize = 64 * 1024;

/// A queue's two ends.
pub fn queue() -> (Feed, Source) {
    let shared = Arc::new(Shared::default());
    (Feed { shared: shared.clone() }, Source { shared })
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    readable: Notify,
    writable: Notify,
}

#[derive(Default)]
struct State {
    bytes: BytesMut,
    /// Nothing comes after what is in it.
    ended: bool,
    /// Nobody reads it: what comes is dropped.
    unread: bool,
}

/// The end that the connection has.
pub struct Feed {
    shared: Arc<Shared>,
}

impl Feed {
    /// Waits until everything is in it, or nobody wants it.
    pub async fn push(&self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let writable = self.shared.writable.notified();
            let taken = self.take_some(bytes);
            bytes = &bytes[taken..];
            if !bytes.is_empty() && taken == 0 {
                writable.await;
            }
        }
    }

    /// How many of these it takes now.
    fn take_some(&self, bytes: &[u8]) -> usize {
        let mut state = self.shared.state.lock();
        if state.unread || state.ended {
            return bytes.len();
        }
        let taken = bytes.len().min(QUEUE_BYTES_MAX - state.bytes.len());
        state.bytes.extend_from_slice(&bytes[..taken]);
        drop(state);
        if taken > 0 {
            self.shared.readable.notify_one();
        }
        taken
    }

    /// What is in it can still be read.
    pub fn end(&self) {
        self.shared.state.lock().ended = true;
        self.shared.readable.notify_one();
        self.shared.writable.notify_one();
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.end();
    }
}

/// The end that somebody reads. Dropping it says that nobody does.
pub struct Source {
    shared: Arc<Shared>,
}

impl Source {
    /// What has come, as soon as there is any; None at the end.
    pub async fn next(&mut self) -> Option<Bytes> {
        loop {
            let readable = self.shared.readable.notified();
            {
                let mut state = self.shared.state.lock();
                if !state.bytes.is_empty() {
                    let bytes = std::mem::take(&mut state.bytes).freeze();
                    drop(state);
                    self.shared.writable.notify_one();
                    return Some(bytes);
                }
                if state.ended {
                    return None;
                }
            }
            readable.await;
        }
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        state.unread = true;
        state.bytes = BytesMut::new();
        drop(state);
        self.shared.writable.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_goes_in_comes_out() {
        let (feed, mut source) = queue();
        let big = vec![7; 3 * QUEUE_BYTES_MAX + 5];
        let sent = big.clone();
        let pushing = tokio::spawn(async move { feed.push(&sent).await });
        let mut got = Vec::new();
        while let Some(bytes) = source.next().await {
            assert!(bytes.len() <= QUEUE_BYTES_MAX);
            got.extend_from_slice(&bytes);
        }
        pushing.await.unwrap();
        assert_eq!(got, big);
    }

    #[tokio::test]
    async fn without_a_reader_nothing_is_held() {
        let (feed, source) = queue();
        feed.push(&[1; QUEUE_BYTES_MAX]).await;
        let pushing = tokio::spawn(async move {
            feed.push(&[1; 10]).await;
            feed.push(&[1; 10 * QUEUE_BYTES_MAX]).await;
        });
        tokio::task::yield_now().await;
        assert!(!pushing.is_finished());
        drop(source);
        pushing.await.unwrap();
    }

    #[tokio::test]
    async fn the_end_comes_after_the_bytes() {
        let (feed, mut source) = queue();
        feed.push(b"last").await;
        feed.end();
        feed.push(b"dropped").await;
        assert_eq!(source.next().await.as_deref(), Some(&b"last"[..]));
        assert_eq!(source.next().await, None);
        assert_eq!(source.next().await, None);
    }
}
