//! What goes out on a connection, and in which order: answers to control frames overtake data, which keeps its own order.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;

use super::frame::{self, GoAway, Reset};
use super::headers::{Deflater, Headers};

/// Pieces of data that wait to be written, all streams together. At it whoever writes waits.
const DATA_FRAMES_MAX: usize = 32;
/// Answers that wait to be written. At it pings and windows are not answered any more, and no further stream is accepted.
const CONTROL_FRAMES_MAX: usize = 256;
/// What is written in one go.
const BATCH_BYTES: usize = 64 * 1024;
/// How long a peer may take to accept the last bytes.
const FAREWELL_TIMEOUT: Duration = Duration::from_secs(10);

/// A frame to be written, in its place behind all that were given before it.
pub(super) enum Ordered {
    Data {
        stream: u32,
        bytes: Bytes,
        fin: bool,
    },
    Reset {
        stream: u32,
        why: Reset,
    },
    /// The last one.
    GoAway {
        last_stream: u32,
        why: GoAway,
    },
}

/// A frame that overtakes data.
pub(super) enum Urgent {
    Reply { stream: u32 },
    Reset { stream: u32, why: Reset },
    Ping(u32),
    Window { stream: u32, bytes: u32 },
}

#[derive(Clone)]
pub(super) struct Output {
    pub ordered: mpsc::Sender<Ordered>,
    pub urgent: mpsc::Sender<Urgent>,
    /// Something was written since somebody looked.
    pub active: Arc<AtomicBool>,
}

/// Where frames are put, and the task that writes them. It ends with the last one, or when all senders are gone.
pub(super) fn output<W: AsyncWrite + Send + Unpin + 'static>(writer: W) -> (Output, impl Future<Output = ()>) {
    let (ordered, ordered_frames) = mpsc::channel(DATA_FRAMES_MAX);
    let (urgent, urgent_frames) = mpsc::channel(CONTROL_FRAMES_MAX);
    let active = Arc::new(AtomicBool::new(false));
    let task = Writer {
        writer,
        deflater: Deflater::default(),
        batch: BytesMut::new(),
        ordered: ordered_frames,
        urgent: urgent_frames,
        active: active.clone(),
    };
    (Output { ordered, urgent, active }, task.run())
}

struct Writer<W> {
    writer: W,
    deflater: Deflater,
    batch: BytesMut,
    ordered: mpsc::Receiver<Ordered>,
    urgent: mpsc::Receiver<Urgent>,
    active: Arc<AtomicBool>,
}

impl<W: AsyncWrite + Send + Unpin> Writer<W> {
    async fn run(mut self) {
        let mut more = true;
        while more {
            more = self.gather().await;
            self.active.store(true, Ordering::Relaxed);
            if self.writer.write_all_buf(&mut self.batch).await.is_err() || self.writer.flush().await.is_err() {
                return;
            }
        }
        let _ = tokio::time::timeout(FAREWELL_TIMEOUT, self.writer.shutdown()).await;
    }

    /// Waits for a frame, and takes what else is there. False: that was the last one.
    async fn gather(&mut self) -> bool {
        let mut more = tokio::select! {
            biased;
            Some(frame) = self.urgent.recv() => { self.put_urgent(frame); true }
            frame = self.ordered.recv() => match frame {
                Some(frame) => self.put_ordered(frame),
                None => return false,
            },
        };
        while more && self.batch.len() < BATCH_BYTES {
            if let Ok(frame) = self.urgent.try_recv() {
                self.put_urgent(frame);
            } else if let Ok(frame) = self.ordered.try_recv() {
                more = self.put_ordered(frame);
            } else {
                break;
            }
        }
        more
    }

    fn put_urgent(&mut self, frame: Urgent) {
        match frame {
            Urgent::Reply { stream } => {
                if let Ok(block) = self.deflater.write(&Headers::default()) {
                    frame::put_syn_reply(&mut self.batch, stream, &block);
                }
            }
            Urgent::Reset { stream, why } => frame::put_rst_stream(&mut self.batch, stream, why),
            Urgent::Ping(id) => frame::put_ping(&mut self.batch, id),
            Urgent::Window { stream, bytes } => frame::put_window_update(&mut self.batch, stream, bytes),
        }
    }

    fn put_ordered(&mut self, frame: Ordered) -> bool {
        match frame {
            Ordered::Data { stream, bytes, fin } => {
                frame::put_data_head(&mut self.batch, stream, fin, bytes.len());
                self.batch.extend_from_slice(&bytes);
            }
            Ordered::Reset { stream, why } => frame::put_rst_stream(&mut self.batch, stream, why),
            Ordered::GoAway { last_stream, why } => {
                frame::put_goaway(&mut self.batch, last_stream, why);
                return false;
            }
        }
        true
    }
}
