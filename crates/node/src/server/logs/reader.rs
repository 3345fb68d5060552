//! A log file, piece by piece, as somebody wants to see it.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use bytes::Bytes;

use super::line::{Line, LogStream};
use super::options::{LogOptions, Selection};
use super::tail;

/// What is read of the file at once.
const PIECE_BYTES: usize = 64 * 1024;
/// The longest line of a file; what is beyond is left out. Runtimes cut what containers write at 16 kB.
const LINE_BYTES_MAX: usize = 1 << 20;

pub struct Reader {
    path: PathBuf,
    file: File,
    inode: u64,
    options: LogOptions,
    /// Of a tail that is not followed: lines that are still to be shown, however many are written meanwhile.
    lines_left: Option<u64>,
    bytes_left: Option<u64>,
    /// The beginning of a line whose end was not read yet.
    begun: Vec<u8>,
    /// What comes belongs to a line that is too long.
    is_skipping: bool,
    /// What was shown last ended a line.
    at_line_start: bool,
    piece: Vec<u8>,
}

/// What one step brought.
#[derive(Debug, Default)]
pub struct Step {
    pub output: Bytes,
    /// There was no more in the file.
    pub is_at_end: bool,
    /// No more was asked for.
    pub is_done: bool,
}

impl Reader {
    pub fn open(path: &Path, options: LogOptions) -> io::Result<Reader> {
        let mut file = File::open(path)?;
        if let Some(lines) = options.tail_lines {
            let start = tail::start(&file, lines)?;
            file.seek(SeekFrom::Start(start))?;
        }
        Ok(Reader {
            path: path.to_owned(),
            inode: file.metadata()?.ino(),
            file,
            lines_left: options.tail_lines.filter(|_| !options.follow),
            bytes_left: options.limit_bytes,
            options,
            begun: Vec::new(),
            is_skipping: false,
            at_line_start: true,
            piece: vec![0; PIECE_BYTES],
        })
    }

    pub fn step(&mut self) -> io::Result<Step> {
        if self.is_done() {
            return Ok(Step { is_done: true, ..Step::default() });
        }
        let mut piece = std::mem::take(&mut self.piece);
        let count = self.file.read(&mut piece);
        let mut output = Vec::new();
        if let Ok(count) = count {
            self.take(&piece[..count], &mut output);
        }
        self.piece = piece;
        let count = count?;
        if count == 0 && !self.options.follow {
            output.extend_from_slice(&self.last());
        }
        let is_done = self.is_done() || (count == 0 && !self.options.follow);
        Ok(Step { output: output.into(), is_at_end: count == 0, is_done })
    }

    fn is_done(&self) -> bool {
        self.lines_left == Some(0) || self.bytes_left == Some(0)
    }

    /// The file that is written instead of this one, if it was rotated away.
    pub fn successor(&self) -> Option<File> {
        let file = File::open(&self.path).ok()?;
        (file.metadata().ok()?.ino() != self.inode).then_some(file)
    }

    pub fn go_on_with(&mut self, file: File) {
        self.inode = file.metadata().map_or(0, |metadata| metadata.ino());
        self.file = file;
    }

    /// A last line that has no end.
    pub fn last(&mut self) -> Bytes {
        let begun = std::mem::take(&mut self.begun);
        let mut output = Vec::new();
        if !begun.is_empty() && !self.is_done() {
            self.show(&begun, &mut output);
        }
        output.into()
    }

    fn take(&mut self, mut bytes: &[u8], output: &mut Vec<u8>) {
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            let (line, rest) = bytes.split_at(end + 1);
            bytes = rest;
            if std::mem::take(&mut self.is_skipping) {
                continue;
            }
            if self.begun.is_empty() {
                self.show(line, output);
            } else {
                let mut whole = std::mem::take(&mut self.begun);
                whole.extend_from_slice(line);
                self.show(&whole, output);
            }
            if self.is_done() {
                return;
            }
        }
        if !self.is_skipping {
            self.begun.extend_from_slice(bytes);
        }
        if self.begun.len() > LINE_BYTES_MAX {
            let mut cut = std::mem::take(&mut self.begun);
            cut.truncate(LINE_BYTES_MAX);
            cut.push(b'\n');
            self.show(&cut, output);
            self.is_skipping = true;
        }
    }

    /// Lines that are not in the form of a log are passed over, as upstream does.
    fn show(&mut self, line: &[u8], output: &mut Vec<u8>) {
        let Some(line) = Line::parse(line) else { return };
        if let Some(left) = &mut self.lines_left {
            *left -= 1;
        }
        let is_continued = !line.content.ends_with(b"\n") && !line.content.is_empty();
        let at_line_start = std::mem::replace(&mut self.at_line_start, !is_continued);
        let is_too_old = self.options.since_nanos.is_some_and(|since| line.nanos().is_none_or(|nanos| nanos < since));
        let is_wanted = match self.options.stream {
            Selection::All => true,
            Selection::Stdout => line.stream == LogStream::Stdout,
            Selection::Stderr => line.stream == LogStream::Stderr,
        };
        if is_too_old || !is_wanted {
            return;
        }
        let begin = output.len();
        if self.options.timestamps && at_line_start {
            line.put_timestamp(output);
            output.push(b' ');
        }
        output.extend_from_slice(line.content);
        if let Some(left) = &mut self.bytes_left {
            let shown = u64::try_from(output.len() - begin).unwrap_or(u64::MAX).min(*left);
            output.truncate(begin + usize::try_from(shown).unwrap_or(0));
            *left -= shown;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(log: &[u8], options: LogOptions) -> String {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("0.log");
        std::fs::write(&path, log).unwrap();
        let mut reader = Reader::open(&path, options).unwrap();
        let mut shown = Vec::new();
        loop {
            let step = reader.step().unwrap();
            shown.extend_from_slice(&step.output);
            if step.is_done {
                return String::from_utf8(shown).unwrap();
            }
        }
    }

    const LOG: &[u8] = b"2020-01-01T00:00:01.000000000Z stdout F one\n\
        2020-01-01T00:00:02.000000000Z stderr P tw\n\
        2020-01-01T00:00:02.500000000Z stderr F o\n\
        no line of a log\n\
        2020-01-01T00:00:03.000000000Z stdout F \n\
        2020-01-01T00:00:04.000000000Z stdout F three";

    #[test]
    fn what_is_shown() {
        let all = LogOptions::default();
        assert_eq!(read(LOG, all.clone()), "one\ntwo\n\nthree");
        assert_eq!(read(b"", all.clone()), "");
        assert_eq!(read(LOG, LogOptions { stream: Selection::Stderr, ..all.clone() }), "two\n");
        assert_eq!(read(LOG, LogOptions { limit_bytes: Some(6), ..all.clone() }), "one\ntw");
        assert_eq!(read(LOG, LogOptions { tail_lines: Some(0), ..all.clone() }), "");
        assert_eq!(read(LOG, LogOptions { tail_lines: Some(1), ..all.clone() }), "\n");
        let since = Some(1_577_836_803_000_000_000);
        assert_eq!(read(LOG, LogOptions { since_nanos: since, ..all.clone() }), "\nthree");
        let stamped = "2020-01-01T00:00:01.000000000Z one\n2020-01-01T00:00:02.000000000Z two\n\
            2020-01-01T00:00:03.000000000Z \n2020-01-01T00:00:04.000000000Z three";
        assert_eq!(read(LOG, LogOptions { timestamps: true, ..all }), stamped);
    }

    #[test]
    fn lines_over_pieces_are_whole() {
        let mut log = Vec::new();
        let mut expected = String::new();
        for number in 0..2000 {
            let text = format!("{number:06}").repeat(20);
            log.extend_from_slice(format!("2020-01-01T00:00:01Z stdout F {text}\n").as_bytes());
            expected.push_str(&text);
            expected.push('\n');
        }
        assert_eq!(read(&log, LogOptions::default()), expected);
        let tail = read(&log, LogOptions { tail_lines: Some(700), ..LogOptions::default() });
        assert_eq!(tail.lines().count(), 700);
        assert!(expected.ends_with(&tail));
    }

    #[test]
    fn a_line_without_end_is_cut() {
        let log = [b"2020-01-01T00:00:01Z stdout F ".to_vec(), vec![b'x'; 3 * LINE_BYTES_MAX]].concat();
        let with_next = [log, b"\n2020-01-01T00:00:01Z stdout F next\n".to_vec()].concat();
        let shown = read(&with_next, LogOptions::default());
        assert!(shown.len() < LINE_BYTES_MAX + 10);
        assert!(shown.ends_with("x\nnext\n"));
    }
}
