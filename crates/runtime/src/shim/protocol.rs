//! What daemon and shim say to each other: a length of four bytes, the most significant first, and JSON; descriptors come
//! along with the first byte of the message that they belong to.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::api::Namespaces;
use crate::cgroups::Hierarchies;
use crate::launch::ProcessUser;

/// A longer message ends the connection: what is large is in files.
pub const MESSAGE_MAX_BYTES: usize = 4 << 20;
/// As many descriptors as a message carries.
pub const DESCRIPTORS_MAX: usize = 3;
/// The file in a sandbox's run directory that tells a shim what to do.
pub const CONFIGURATION_FILE: &str = "shim.json";
/// Where it listens, in the same directory.
pub const SOCKET_FILE: &str = "shim.sock";
/// In a container's directory, written by the daemon.
pub const BUNDLE_FILE: &str = "bundle.json";
/// In a container's directory, written by the shim.
pub const RECORD_FILE: &str = "record.json";

/// What a shim is made for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Configuration {
    pub sandbox: String,
    pub hierarchies: Hierarchies,
    pub namespaces: Namespaces,
    pub hostname: String,
    pub sysctls: BTreeMap<String, String>,
    /// Of the process that holds the namespaces.
    pub pause_cgroup: String,
    /// Of the shim itself.
    pub shim_cgroup: String,
    /// An empty directory.
    pub pause_mount_point: PathBuf,
    /// With a directory for each container.
    pub containers_directory: PathBuf,
    pub log_file_max_bytes: u64,
    pub log_files_max: usize,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Request {
    /// Answers with [`Answer::State`], and then with each change.
    Watch,
    Start {
        id: String,
    },
    /// To its first process.
    Signal {
        id: String,
        signal: i32,
    },
    /// Kills all of it.
    Kill {
        id: String,
    },
    Exec {
        id: String,
        arguments: Vec<String>,
        terminal: bool,
        streams: Streams,
    },
    Attach {
        id: String,
        streams: Streams,
    },
    /// Of the terminal of the container that this connection is attached to.
    Resize {
        width: u16,
        height: u16,
    },
    /// The container is removed.
    Forget {
        id: String,
    },
    /// Ends all containers, and the shim.
    Shutdown,
}

/// Which descriptors come along, in this order.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Streams {
    pub stdin: bool,
    pub stdout: bool,
    pub stderr: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Answer {
    Done,
    Failed {
        kind: Problem,
        text: String,
    },
    State {
        pause: u32,
        records: BTreeMap<String, Record>,
    },
    Changed {
        id: String,
        record: Record,
    },
    /// The process runs. With a terminal its other side comes along.
    Running,
    Exited {
        code: i32,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Problem {
    NotFound,
    WrongState,
    CannotStart,
    Internal,
}

/// What became of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    pub pid: Option<u32>,
    pub started_micros: i64,
    pub finished_micros: i64,
    pub exit_code: i32,
    pub reason: String,
    pub message: String,
    pub user: Option<ProcessUser>,
    /// What could not be written to its log.
    pub log_dropped_bytes: u64,
}

/// A message as it goes over the wire.
pub fn encode(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; 4];
    serde_json::to_writer(&mut bytes, message)?;
    let length = bytes.len() - 4;
    if length > MESSAGE_MAX_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the message is too long for the shim"));
    }
    let length = u32::try_from(length).map_err(|_| io::ErrorKind::InvalidInput)?;
    bytes[..4].copy_from_slice(&length.to_be_bytes());
    Ok(bytes)
}

/// Takes the next message off the front of what was received; None: it is not whole yet.
pub fn decode<T: for<'a> Deserialize<'a>>(received: &mut Vec<u8>) -> io::Result<Option<T>> {
    let Some(length) = received.first_chunk::<4>().map(|bytes| u32::from_be_bytes(*bytes) as usize) else {
        return Ok(None);
    };
    if length > MESSAGE_MAX_BYTES {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let Some(body) = received.get(4..4 + length) else { return Ok(None) };
    let message = serde_json::from_slice(body)?;
    received.drain(..4 + length);
    Ok(Some(message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_in_pieces() {
        let bytes = encode(&Request::Signal { id: "a".to_owned(), signal: 15 }).unwrap();
        let mut received = Vec::new();
        for byte in &bytes[..bytes.len() - 1] {
            received.push(*byte);
            assert!(decode::<Request>(&mut received).unwrap().is_none());
        }
        received.push(bytes[bytes.len() - 1]);
        received.push(0);
        assert!(matches!(decode(&mut received).unwrap(), Some(Request::Signal { signal: 15, .. })));
        assert_eq!(received, [0]);
        assert!(decode::<Request>(&mut vec![0xff; 8]).is_err());
    }
}
