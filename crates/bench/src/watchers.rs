//! Many watches of one thing, each counting what it is told.
//!
//! The client shares its cores with the server and has 500 answers to read, so it reads as cheaply as can be: it decrypts,
//! and counts line ends in what comes. The framing of chunks ends its lines with CRLF, an event with LF alone.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::client::TlsStream;

use crate::client::{Protocol, Server};

/// All events must be there by then.
const TIMEOUT: Duration = Duration::from_secs(60);
/// So many handshakes run at once.
const CONNECTING: usize = 16;
const BUFFER_BYTES: usize = 32 * 1024;

/// Open watches, each on a connection of its own.
pub struct Watchers(Vec<Stream>);

type Stream = TlsStream<TcpStream>;

impl Watchers {
    pub async fn open(server: &Server, count: usize, path: &str) -> Result<Watchers> {
        let mut opening = JoinSet::new();
        let mut open = Vec::with_capacity(count);
        for _ in 0..count {
            if opening.len() >= CONNECTING
                && let Some(one) = opening.join_next().await
            {
                open.push(one??);
            }
            opening.spawn(watch(server.clone(), path.to_owned()));
        }
        while let Some(one) = opening.join_next().await {
            open.push(one??);
        }
        Ok(Watchers(open))
    }

    /// Starts counting; [`Counting::wait`] returns when every watch has been told of so many events.
    pub fn count(self, events: usize) -> Counting {
        let mut readers = JoinSet::new();
        for stream in self.0 {
            readers.spawn(read(stream, events));
        }
        Counting(readers)
    }
}

pub struct Counting(JoinSet<Result<usize>>);

impl Counting {
    /// The bytes that came.
    pub async fn wait(mut self) -> Result<usize> {
        let all = async {
            let mut bytes = 0;
            while let Some(reader) = self.0.join_next().await {
                bytes += reader??;
            }
            anyhow::Ok(bytes)
        };
        tokio::time::timeout(TIMEOUT, all).await.context("not all events came")?
    }
}

/// Returns when the answer's head is there.
async fn watch(server: Server, path: String) -> Result<Stream> {
    let mut stream = server.open(Protocol::Http1).await?;
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\naccept: application/json\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    stream.flush().await?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read_buf(&mut head).await? == 0 {
            break;
        }
    }
    if !head.starts_with(b"HTTP/1.1 200 ") {
        bail!("the server does not want to be watched: {}", String::from_utf8_lossy(&head));
    }
    Ok(stream)
}

async fn read(mut stream: Stream, events: usize) -> Result<usize> {
    let (mut seen, mut bytes, mut last) = (0, 0, b' ');
    let mut buffer = vec![0; BUFFER_BYTES];
    while seen < events {
        let length = stream.read(&mut buffer).await?;
        if length == 0 {
            bail!("a watch ended early");
        }
        let part = &buffer[..length];
        seen += events_in(last, part);
        bytes += length;
        last = part[length - 1];
    }
    Ok(bytes)
}

/// Line ends without a carriage return before them; `before` is the byte before the part.
fn events_in(before: u8, part: &[u8]) -> usize {
    let lone = |pair: &&[u8]| pair[0] != b'\r' && pair[1] == b'\n';
    let first = usize::from(part.first() == Some(&b'\n') && before != b'\r');
    first + part.windows(2).filter(lone).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_told_from_framing() {
        let table: [(u8, &[u8], usize); 6] = [
            (b' ', b"5\r\n{..}\n\r\n", 1),
            (b'\r', b"\n{..}\n", 1),
            (b'}', b"\n\r\n5\r\n{", 1),
            (b'}', b"\n", 1),
            (b'\r', b"\n", 0),
            (b' ', b"", 0),
        ];
        for (before, part, expected) in table {
            assert_eq!(events_in(before, part), expected, "{:?}", String::from_utf8_lossy(part));
        }
    }
}
