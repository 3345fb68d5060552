//! Streams of containers: what they write goes to their log and to all who are attached, what those write goes to them.

use std::os::fd::OwnedFd;

use rustix::event::PollFlags;
use rustix::io::Errno;

use super::container::{SINK_STALLED_NANOS, Sink, State};
use super::log::Stream;
use super::protocol::Answer;
use super::serve::Shim;

/// What is read at most of a container that has ended: more than a pipe can hold.
const DRAIN_ROUNDS: usize = 64;

impl Shim {
    /// Reads what a container wrote. Whether there may be more.
    pub(super) fn read_output(&mut self, id: &str, stream: Stream) -> bool {
        let now = (self.clock)();
        let Some(container) = self.containers.get_mut(id) else { return false };
        let end = match stream {
            Stream::Stdout => &mut container.ends.stdout,
            Stream::Stderr => &mut container.ends.stderr,
        };
        let Some(descriptor) = end else { return false };
        let count = match rustix::io::read(&*descriptor, &mut self.buffer[..]) {
            Ok(count) if count > 0 => count,
            Err(Errno::AGAIN) => return false,
            Err(Errno::INTR) => return true,
            // The end; a terminal that nobody has open says so by an error.
            _ => {
                *end = None;
                return false;
            }
        };
        let data = &self.buffer[..count];
        if let Some(log) = &mut container.log {
            log.write(stream, data, now);
        }
        for attachment in &mut container.attached {
            let sink = attachment.sink(stream);
            if sink.as_mut().is_some_and(|sink| !feed(sink, data, now)) {
                *sink = None;
            }
        }
        true
    }

    pub(super) fn drain_output(&mut self, id: &str) {
        for stream in [Stream::Stdout, Stream::Stderr] {
            for _ in 0..DRAIN_ROUNDS {
                if !self.read_output(id, stream) {
                    break;
                }
            }
        }
    }

    /// Writes to a container what waits for it.
    pub(super) fn write_input(&mut self, id: &str) {
        let Some(container) = self.containers.get_mut(id) else { return };
        let Some(end) = &container.ends.stdin else { return };
        let (bytes, _) = container.stdin_waiting.as_slices();
        match rustix::io::write(end, bytes) {
            Ok(count) => {
                container.stdin_waiting.drain(..count);
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => {
                container.stdin_waiting.clear();
                container.ends.stdin = None;
            }
        }
        if container.stdin_ends && container.stdin_waiting.is_empty() {
            container.ends.stdin = None;
        }
    }

    /// Reads what somebody who is attached writes.
    pub(super) fn read_attached(&mut self, id: &str, number: u64) {
        let Some(container) = self.containers.get_mut(id) else { return };
        let Some(attachment) = container.attached.iter_mut().find(|attachment| attachment.connection == number) else {
            return;
        };
        let Some(stdin) = &attachment.stdin else { return };
        match rustix::io::read(stdin, &mut self.buffer[..]) {
            Ok(count) if count > 0 => container.stdin_waiting.extend(&self.buffer[..count]),
            Err(Errno::AGAIN | Errno::INTR) => return,
            _ => {
                attachment.stdin = None;
                container.input_ended();
            }
        }
        self.write_input(id);
    }

    pub(super) fn write_sink(&mut self, id: &str, number: u64, stream: Stream, flags: PollFlags) {
        let now = (self.clock)();
        let Some(container) = self.containers.get_mut(id) else { return };
        let Some(attachment) = container.attached.iter_mut().find(|attachment| attachment.connection == number) else {
            return;
        };
        let sink = attachment.sink(stream);
        let gone = flags.contains(PollFlags::ERR);
        if gone || sink.as_mut().is_some_and(|sink| !flush(sink, now)) {
            *sink = None;
        }
        if container.state == State::Exited {
            self.let_attached_go(id);
        }
    }

    /// Tells those who are attached to a container that has ended, once they have all that it wrote.
    pub(super) fn let_attached_go(&mut self, id: &str) {
        let Some(container) = self.containers.get_mut(id) else { return };
        let code = container.record.exit_code;
        let mut finished = Vec::new();
        for attachment in &mut container.attached {
            attachment.stdin = None;
            for sink in [&mut attachment.stdout, &mut attachment.stderr] {
                if sink.as_ref().is_some_and(|sink| sink.waiting.is_empty()) {
                    *sink = None;
                }
            }
            if attachment.stdout.is_none() && attachment.stderr.is_none() {
                finished.push(attachment.connection);
            }
        }
        for number in finished {
            self.answer(number, &Answer::Exited { code });
            if let Some(container) = self.containers.get_mut(id) {
                container.attached.retain(|attachment| attachment.connection != number);
            }
            self.close_when_sent(number);
        }
    }

    /// Lets go of those who hold a container up.
    pub(super) fn drop_stalled(&mut self) {
        let now = (self.clock)();
        let stalled = |sink: &Option<Sink>| {
            let since = sink.as_ref().filter(|sink| sink.is_full()).and_then(|sink| sink.stalled_since);
            since.is_some_and(|since| now.saturating_sub(since) > SINK_STALLED_NANOS)
        };
        let attachments = self.containers.values().flat_map(|container| &container.attached);
        let found = attachments.filter(|attachment| stalled(&attachment.stdout) || stalled(&attachment.stderr));
        for number in found.map(|attachment| attachment.connection).collect::<Vec<_>>() {
            self.close(number);
        }
    }
}

/// Gives output to somebody who is attached. Whether they are still there.
fn feed(sink: &mut Sink, data: &[u8], now: u64) -> bool {
    let mut data = data;
    if sink.waiting.is_empty() {
        match write_some(&sink.descriptor, data) {
            Some(count) => data = &data[count..],
            None => return false,
        }
        if !data.is_empty() {
            sink.stalled_since = Some(now);
        }
    }
    sink.waiting.extend(data);
    true
}

fn flush(sink: &mut Sink, now: u64) -> bool {
    let (bytes, _) = sink.waiting.as_slices();
    let Some(count) = write_some(&sink.descriptor, bytes) else { return false };
    sink.waiting.drain(..count);
    if count > 0 {
        sink.stalled_since = Some(now);
    }
    true
}

/// How much was taken; None: nobody is there.
fn write_some(descriptor: &OwnedFd, bytes: &[u8]) -> Option<usize> {
    match rustix::io::write(descriptor, bytes) {
        Ok(count) => Some(count),
        Err(Errno::AGAIN | Errno::INTR) => Some(0),
        Err(_) => None,
    }
}
