//! Frames as they are on the wire: pure functions over bytes.

use bytes::{BufMut, BytesMut};

/// Every frame begins with so many bytes.
pub const HEAD_BYTES: usize = 8;
/// A control frame with more is refused; upstream's are a hundred bytes or two. Frames of data have no bound but the 24
/// bits of their length: they are not held, but read piece by piece.
pub const CONTROL_BYTES_MAX: usize = 32 * 1024;

pub const FLAG_FIN: u8 = 1;
const VERSION: u16 = 3;

const SYN_STREAM: u16 = 1;
const SYN_REPLY: u16 = 2;
const RST_STREAM: u16 = 3;
const SETTINGS: u16 = 4;
const PING: u16 = 6;
const GOAWAY: u16 = 7;
const HEADERS: u16 = 8;
const WINDOW_UPDATE: u16 = 9;

/// Why a stream was reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Reset {
    ProtocolError = 1,
    InvalidStream = 2,
    RefusedStream = 3,
    Cancel = 5,
}

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum GoAway {
    Ok = 0,
    ProtocolError = 1,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    #[error("a control frame of version {0}")]
    Version(u16),
    #[error("a control frame of {0} bytes")]
    TooLong(usize),
    #[error("a control frame with the wrong length for its type")]
    WrongLength,
    #[error("a frame for the stream 0")]
    NoStream,
}

/// The first bytes of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Head {
    Data { stream: u32, fin: bool, length: usize },
    Control { kind: u16, flags: u8, length: usize },
}

impl Head {
    pub fn parse(bytes: &[u8; HEAD_BYTES]) -> Result<Head, FrameError> {
        let first = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        let flags = bytes[4];
        let length = u32::from_be_bytes([0, bytes[5], bytes[6], bytes[7]]) as usize;
        if first >> 31 == 0 {
            return match first {
                0 => Err(FrameError::NoStream),
                stream => Ok(Head::Data { stream, fin: flags & FLAG_FIN != 0, length }),
            };
        }
        let version = (first >> 16) as u16 & 0x7fff;
        if version != VERSION {
            return Err(FrameError::Version(version));
        }
        if length > CONTROL_BYTES_MAX {
            return Err(FrameError::TooLong(length));
        }
        Ok(Head::Control { kind: first as u16, flags, length })
    }
}

/// What a control frame says. Header blocks are still compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control<'a> {
    SynStream {
        stream: u32,
        fin: bool,
        block: &'a [u8],
    },
    SynReply {
        stream: u32,
        fin: bool,
        block: &'a [u8],
    },
    Headers {
        stream: u32,
        fin: bool,
        block: &'a [u8],
    },
    RstStream {
        stream: u32,
    },
    Ping(u32),
    GoAway,
    WindowUpdate,
    Settings,
    /// Of a type that nobody knows: to be passed over.
    Unknown,
}

impl Control<'_> {
    pub fn parse(kind: u16, flags: u8, payload: &[u8]) -> Result<Control<'_>, FrameError> {
        let fin = flags & FLAG_FIN != 0;
        match kind {
            SYN_STREAM => {
                let stream = stream_id(payload)?;
                // The stream it belongs to, priority and slot.
                let block = payload.get(10..).ok_or(FrameError::WrongLength)?;
                Ok(Control::SynStream { stream, fin, block })
            }
            SYN_REPLY => Ok(Control::SynReply { stream: stream_id(payload)?, fin, block: &payload[4..] }),
            HEADERS => Ok(Control::Headers { stream: stream_id(payload)?, fin, block: &payload[4..] }),
            RST_STREAM if payload.len() == 8 => Ok(Control::RstStream { stream: stream_id(payload)? }),
            PING if payload.len() == 4 => Ok(Control::Ping(word(payload, 0)?)),
            GOAWAY if payload.len() == 8 => Ok(Control::GoAway),
            WINDOW_UPDATE if payload.len() == 8 => Ok(Control::WindowUpdate),
            SETTINGS if payload.len() >= 4 => Ok(Control::Settings),
            RST_STREAM | PING | GOAWAY | WINDOW_UPDATE | SETTINGS => Err(FrameError::WrongLength),
            _ => Ok(Control::Unknown),
        }
    }
}

fn word(payload: &[u8], at: usize) -> Result<u32, FrameError> {
    let bytes = payload.get(at..at + 4).ok_or(FrameError::WrongLength)?;
    Ok(bytes.iter().fold(0, |word, byte| word << 8 | u32::from(*byte)))
}

fn stream_id(payload: &[u8]) -> Result<u32, FrameError> {
    match word(payload, 0)? & 0x7fff_ffff {
        0 => Err(FrameError::NoStream),
        id => Ok(id),
    }
}

/// The longest piece of data that one frame has: small enough that streams take turns.
pub const DATA_BYTES_MAX: usize = 32 * 1024;

/// The head of a frame with so many bytes of data.
pub fn put_data_head(out: &mut BytesMut, stream: u32, fin: bool, length: usize) {
    debug_assert!(length <= DATA_BYTES_MAX);
    out.put_u32(stream);
    out.put_u32(u32::from(fin) << 24 | length as u32);
}

pub fn put_syn_stream(out: &mut BytesMut, stream: u32, fin: bool, block: &[u8]) {
    put_control(out, SYN_STREAM, u8::from(fin), 10 + block.len());
    out.put_u32(stream);
    out.put_slice(&[0; 6]);
    out.put_slice(block);
}

pub fn put_syn_reply(out: &mut BytesMut, stream: u32, block: &[u8]) {
    put_control(out, SYN_REPLY, 0, 4 + block.len());
    out.put_u32(stream);
    out.put_slice(block);
}

pub fn put_rst_stream(out: &mut BytesMut, stream: u32, why: Reset) {
    put_control(out, RST_STREAM, 0, 8);
    out.put_u32(stream);
    out.put_u32(why as u32);
}

pub fn put_ping(out: &mut BytesMut, id: u32) {
    put_control(out, PING, 0, 4);
    out.put_u32(id);
}

pub fn put_goaway(out: &mut BytesMut, last_stream: u32, why: GoAway) {
    put_control(out, GOAWAY, 0, 8);
    out.put_u32(last_stream);
    out.put_u32(why as u32);
}

pub fn put_window_update(out: &mut BytesMut, stream: u32, bytes: u32) {
    put_control(out, WINDOW_UPDATE, 0, 8);
    out.put_u32(stream);
    out.put_u32(bytes);
}

fn put_control(out: &mut BytesMut, kind: u16, flags: u8, length: usize) {
    out.put_u16(0x8000 | VERSION);
    out.put_u16(kind);
    out.put_u32(u32::from(flags) << 24 | length as u32);
}
