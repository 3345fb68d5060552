//! The streams of a connection: which there are, and what their owners do with them.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use super::frame::{DATA_BYTES_MAX, Reset};
use super::headers::Headers;
use super::output::{Ordered, Output, Urgent};
use crate::Closed;
use crate::queue::{Feed, Source, queue};

/// A stream that the client opened.
pub struct Stream {
    pub id: u32,
    pub headers: Headers,
    /// What the client sends.
    pub source: StreamSource,
    /// What it is sent.
    pub sink: Sink,
}

/// Streams that are open.
#[derive(Default)]
pub(super) struct Streams {
    open: Mutex<HashMap<u32, Entry>>,
}

struct Entry {
    feed: Arc<Feed>,
    /// The client sends no more.
    remote_ended: bool,
    /// We send no more.
    local_ended: bool,
}

impl Streams {
    pub(super) fn count(&self) -> usize {
        self.open.lock().len()
    }

    pub(super) fn open(self: &Arc<Self>, id: u32, headers: Headers, remote_ended: bool, output: &Output) -> Stream {
        let (feed, source) = queue();
        if remote_ended {
            feed.end();
        }
        self.open.lock().insert(id, Entry { feed: Arc::new(feed), remote_ended, local_ended: false });
        let source = StreamSource { source, id, unannounced: 0, output: output.clone() };
        let sink = Sink { id, streams: self.clone(), output: output.clone(), ended: false };
        Stream { id, headers, source, sink }
    }

    /// Where to put what the client sends on a stream; None for one that is closed, whose data is passed over.
    pub(super) fn feed(&self, id: u32) -> Option<Arc<Feed>> {
        let open = self.open.lock();
        open.get(&id).filter(|entry| !entry.remote_ended).map(|entry| entry.feed.clone())
    }

    pub(super) fn end_remote(&self, id: u32) {
        let mut open = self.open.lock();
        let Some(entry) = open.get_mut(&id) else { return };
        entry.remote_ended = true;
        entry.feed.end();
        if entry.local_ended {
            open.remove(&id);
        }
    }

    fn end_local(&self, id: u32) {
        let mut open = self.open.lock();
        let Some(entry) = open.get_mut(&id) else { return };
        entry.local_ended = true;
        if entry.remote_ended {
            open.remove(&id);
        }
    }

    /// Both sides are done with it.
    pub(super) fn remove(&self, id: u32) {
        if let Some(entry) = self.open.lock().remove(&id) {
            entry.feed.end();
        }
    }

    fn has(&self, id: u32) -> bool {
        self.open.lock().contains_key(&id)
    }

    /// The connection is gone.
    pub(super) fn clear(&self) {
        for (_, entry) in self.open.lock().drain() {
            entry.feed.end();
        }
    }
}

/// What the client sends on a stream.
pub struct StreamSource {
    source: Source,
    id: u32,
    /// Bytes that were read since the client was last told of room.
    unannounced: usize,
    output: Output,
}

/// Not every byte that is read is worth a frame.
const WINDOW_STEP_BYTES: usize = 32 * 1024;

impl StreamSource {
    pub async fn next(&mut self) -> Option<Bytes> {
        let bytes = self.source.next().await?;
        self.unannounced += bytes.len();
        if self.unannounced >= WINDOW_STEP_BYTES {
            let window = Urgent::Window { stream: self.id, bytes: self.unannounced as u32 };
            if self.output.urgent.try_send(window).is_ok() {
                self.unannounced = 0;
            }
        }
        Some(bytes)
    }
}

/// Our end of a stream. One that is dropped before it was finished resets the stream.
pub struct Sink {
    id: u32,
    streams: Arc<Streams>,
    output: Output,
    ended: bool,
}

impl Sink {
    /// Waits for room. Fails when the client has reset the stream, or is gone.
    pub async fn send(&mut self, mut bytes: Bytes) -> Result<(), Closed> {
        while !bytes.is_empty() {
            if !self.streams.has(self.id) {
                return Err(Closed);
            }
            let piece = bytes.split_to(bytes.len().min(DATA_BYTES_MAX));
            let frame = Ordered::Data { stream: self.id, bytes: piece, fin: false };
            self.output.ordered.send(frame).await.map_err(|_| Closed)?;
        }
        Ok(())
    }

    /// Neither side has reset it, and the client is there.
    pub fn is_open(&self) -> bool {
        self.streams.has(self.id)
    }

    /// Says that nothing more will come. What the client sends can still be read.
    pub async fn finish(mut self) {
        self.ended = true;
        if self.streams.has(self.id) {
            let last = Ordered::Data { stream: self.id, bytes: Bytes::new(), fin: true };
            let _ = self.output.ordered.send(last).await;
            self.streams.end_local(self.id);
        }
    }

    /// Ends both directions, behind everything that was sent.
    pub async fn reset(mut self) {
        self.ended = true;
        if self.streams.has(self.id) {
            self.streams.remove(self.id);
            let _ = self.output.ordered.send(Ordered::Reset { stream: self.id, why: Reset::Cancel }).await;
        }
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        if !self.ended && self.streams.has(self.id) {
            self.streams.remove(self.id);
            let _ = self.output.urgent.try_send(Urgent::Reset { stream: self.id, why: Reset::Cancel });
        }
    }
}
