//! The lines of a watch, each with a bound.

use std::io;
use std::pin::Pin;

use futures::io::{AsyncBufRead, AsyncBufReadExt as _};

/// A line may have so many bytes; a watch with a longer one is broken, and begun again. No server stores such objects.
const LINE_MAX: usize = 64 << 20;

pub(super) struct Lines {
    bytes: Pin<Box<dyn AsyncBufRead + Send>>,
    /// What has come of the next line.
    line: Vec<u8>,
}

impl Lines {
    pub fn new(bytes: impl AsyncBufRead + Send + 'static) -> Lines {
        Lines { bytes: Box::pin(bytes), line: Vec::new() }
    }

    /// None at the end. Nothing is lost if it is dropped before it returns.
    pub async fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            let part = self.bytes.fill_buf().await?;
            if part.is_empty() {
                return Ok(None);
            }
            let end = part.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(part.len(), |end| end + 1);
            self.line.extend_from_slice(&part[..end.unwrap_or(taken)]);
            self.bytes.as_mut().consume(taken);
            if self.line.len() > LINE_MAX {
                return Err(io::Error::other("a line of a watch is too long"));
            }
            if end.is_some() && !self.line.is_empty() {
                return Ok(Some(std::mem::take(&mut self.line)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lines_are_found_wherever_the_bytes_are_cut() {
        let text = b"one\n\ntwo and more\nlost";
        for size in 1..text.len() {
            let parts = text.chunks(size).map(|part| Ok::<_, io::Error>(part.to_vec())).collect::<Vec<_>>();
            let stream = futures::TryStreamExt::into_async_read(futures::stream::iter(parts));
            let mut lines = Lines::new(stream);
            assert_eq!(lines.next().await.unwrap(), Some(b"one".to_vec()));
            assert_eq!(lines.next().await.unwrap(), Some(b"two and more".to_vec()));
            assert_eq!(lines.next().await.unwrap(), None, "what has no end is no line");
        }
    }
}
