//! A socket to the kernel. It belongs to the network namespace that its thread was in when it was opened.

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::sockopt::{
    Timeout, set_socket_recv_buffer_size_force, set_socket_send_buffer_size_force, set_socket_timeout,
};
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};

use super::batch::{Batch, HEADER_BYTES};
use super::{Error, Result};

const ERROR: u16 = 2;
const DONE: u16 = 3;
/// The kernel answers at once; this only guards against waiting for ever.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// The largest batch. One that does not fit is refused by the kernel.
const BUFFER_BYTES: usize = 4 << 20;
/// What the kernel puts into one datagram at most.
const DATAGRAM_BYTES_MAX: usize = 64 << 10;

pub struct Socket {
    descriptor: OwnedFd,
    sequence: u32,
    buffer: Vec<u8>,
}

/// What the kernel said of one thing: the message without its header.
pub type Answer = Vec<u8>;

impl Socket {
    /// For links, addresses, routes and neighbours.
    pub fn route() -> Result<Socket> {
        Socket::open(None, "cannot open a netlink socket")
    }

    /// For nftables.
    pub fn netfilter() -> Result<Socket> {
        Socket::open(Some(netlink::NETFILTER), "this kernel has no netfilter")
    }

    /// No protocol is that of routes.
    fn open(protocol: Option<Protocol>, what: &'static str) -> Result<Socket> {
        let refused = |errno| Error::Refused { what, errno };
        let descriptor =
            socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, protocol).map_err(refused)?;
        set_socket_timeout(&descriptor, Timeout::Recv, Some(ANSWER_TIMEOUT)).map_err(refused)?;
        // Refused to who may not change anything anyway.
        let _ = set_socket_send_buffer_size_force(&descriptor, BUFFER_BYTES);
        let _ = set_socket_recv_buffer_size_force(&descriptor, BUFFER_BYTES);
        Ok(Socket { descriptor, sequence: 0, buffer: vec![0; DATAGRAM_BYTES_MAX] })
    }

    /// Sends the messages and waits for the last one's end. The first that fails is the error; whether the others count is up
    /// to the kernel. Answers with what was asked for in between.
    pub fn send(&mut self, batch: Batch, what: &'static str) -> Result<Vec<Answer>> {
        let last = batch.len().saturating_sub(1);
        self.send_acknowledged(batch, last, what)
    }

    /// The same, where another message than the last is the one that is acknowledged.
    pub fn send_acknowledged(&mut self, batch: Batch, acknowledged: usize, what: &'static str) -> Result<Vec<Answer>> {
        let count = u32::try_from(batch.len()).unwrap_or(u32::MAX);
        let first = self.numbers(count);
        let end = first.wrapping_add(u32::try_from(acknowledged).unwrap_or(u32::MAX));
        self.put(&batch.finish(first, acknowledged), what)?;
        self.gather(first, count, end, what)
    }

    /// Everything that one message asks for.
    pub fn dump(&mut self, batch: Batch, what: &'static str) -> Result<Vec<Answer>> {
        let first = self.numbers(1);
        // Not to be acknowledged: the end is a message of its own.
        self.put(&batch.finish(first, usize::MAX), what)?;
        self.gather(first, 1, first, what)
    }

    fn numbers(&mut self, count: u32) -> u32 {
        let first = self.sequence.wrapping_add(1);
        self.sequence = self.sequence.wrapping_add(count);
        first
    }

    fn put(&self, bytes: &[u8], what: &'static str) -> Result<()> {
        let sent = send(&self.descriptor, bytes, SendFlags::empty()).map_err(|errno| Error::Refused { what, errno })?;
        if sent == bytes.len() { Ok(()) } else { Err(Error::Garbled { what }) }
    }

    /// Reads until the message numbered `end` has succeeded, or any of ours has failed. Answers to an earlier batch that had
    /// failed are passed over.
    fn gather(&mut self, first: u32, count: u32, end: u32, what: &'static str) -> Result<Vec<Answer>> {
        let mut answers = Vec::new();
        loop {
            let (length, _) = match recv(&self.descriptor, &mut self.buffer[..], RecvFlags::empty()) {
                Ok(received) => received,
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(Error::Refused { what, errno }),
            };
            let mut rest = &self.buffer[..length.min(self.buffer.len())];
            while rest.len() >= HEADER_BYTES {
                let message = Header::read(rest);
                let body = rest.get(HEADER_BYTES..message.length).ok_or(Error::Garbled { what })?;
                rest = rest.get(message.length.next_multiple_of(4)..).unwrap_or_default();
                if message.sequence.wrapping_sub(first) >= count {
                    continue;
                }
                match message.kind {
                    ERROR | DONE => {
                        let code = body.get(..4).and_then(|code| code.try_into().ok()).map_or(0, i32::from_ne_bytes);
                        if code != 0 {
                            return Err(Error::Refused { what, errno: Errno::from_raw_os_error(-code) });
                        }
                        if message.sequence == end {
                            return Ok(answers);
                        }
                    }
                    _ => answers.push(body.to_vec()),
                }
            }
        }
    }
}

struct Header {
    length: usize,
    kind: u16,
    sequence: u32,
}

impl Header {
    fn read(bytes: &[u8]) -> Header {
        let word = |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        // One that is shorter than its header would be read for ever.
        let length = usize::try_from(word(0)).unwrap_or(usize::MAX).max(HEADER_BYTES);
        Header { length, kind: u16::from_ne_bytes([bytes[4], bytes[5]]), sequence: word(8) }
    }
}
