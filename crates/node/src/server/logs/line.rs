//! A line of a log in the form that the Container Runtime Interface lays down:
//! `2016-10-06T00:17:09.669794202Z stdout P what was written`.

use rkube_machinery::time;

/// Which stream it was written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogStream {
    Stdout,
    Stderr,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    timestamp: &'a str,
    pub stream: LogStream,
    /// With its line feed, unless it goes on in the next one.
    pub content: &'a [u8],
}

impl<'a> Line<'a> {
    /// None: it is not in that form.
    pub fn parse(line: &'a [u8]) -> Option<Line<'a>> {
        let (timestamp, rest) = split(line)?;
        let (stream, rest) = split(rest)?;
        let (tags, content) = split(rest)?;
        let stream = match stream {
            b"stdout" => LogStream::Stdout,
            b"stderr" => LogStream::Stderr,
            _ => return None,
        };
        let timestamp = std::str::from_utf8(timestamp).ok()?;
        if !timestamp.starts_with(|first: char| first.is_ascii_digit()) {
            return None;
        }
        let is_partial = tags.split(|byte| *byte == b':').next() == Some(b"P");
        let content = match content {
            [content @ .., b'\n'] if is_partial => content,
            content => content,
        };
        Some(Line { timestamp, stream, content })
    }

    /// Nanoseconds since 1970.
    pub fn nanos(&self) -> Option<i128> {
        let (seconds, nanos) = time::parse(self.timestamp).ok()?;
        Some(i128::from(seconds) * 1_000_000_000 + i128::from(nanos))
    }

    /// The timestamp with nine digits behind the second, as upstream shows it.
    pub fn put_timestamp(&self, out: &mut Vec<u8>) {
        let is_as_shown =
            self.timestamp.len() == "2016-10-06T00:17:09.669794202Z".len() && self.timestamp.ends_with('Z');
        match time::parse(self.timestamp) {
            Ok((seconds, nanos)) if !is_as_shown => {
                let whole = time::format_seconds(seconds);
                out.extend_from_slice(whole.trim_end_matches('Z').as_bytes());
                out.extend_from_slice(format!(".{nanos:09}Z").as_bytes());
            }
            _ => out.extend_from_slice(self.timestamp.as_bytes()),
        }
    }
}

fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = bytes.iter().position(|byte| *byte == b' ')?;
    Some((&bytes[..at], &bytes[at + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let line = Line::parse(b"2016-10-06T00:17:09.669794202Z stdout F some words\n").unwrap();
        assert_eq!((line.stream, line.content), (LogStream::Stdout, &b"some words\n"[..]));
        assert_eq!(line.nanos(), Some(1_475_713_029_669_794_202));
        let line = Line::parse(b"2016-10-06T00:17:09.6Z stderr P:x half\n").unwrap();
        assert_eq!((line.stream, line.content), (LogStream::Stderr, &b"half"[..]));
        let mut shown = Vec::new();
        line.put_timestamp(&mut shown);
        assert_eq!(shown, b"2016-10-06T00:17:09.600000000Z");
        for broken in [&b"words"[..], b"2016-10-06T00:17:09Z stdin F x\n", b"x stdout F y\n", b"2016 stdout", b""] {
            assert_eq!(Line::parse(broken), None);
        }
    }
}
