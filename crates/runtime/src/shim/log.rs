//! Log files of containers, in the format of the Container Runtime Interface: `<time> <stream> <P or F> <text>`.
//!
//! Lines longer than a bound are written in parts. Files are rotated at a size, and old ones are removed. Memory does not
//! grow with what is written, and a disk that is full costs lines but stops nobody: they are counted, and what is in the
//! file always ends with a whole line.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Longer lines are written in parts of this size.
const LINE_MAX_BYTES: usize = 16 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    Stdout,
    Stderr,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// 0: files are never rotated.
    pub(super) file_max_bytes: u64,
    /// With the one that is written.
    pub(super) files_max: usize,
}

pub(super) struct Log {
    path: PathBuf,
    limits: Limits,
    file: Option<File>,
    size: u64,
    /// Of each stream: the line that has no end yet.
    unfinished: [Vec<u8>; 2],
    /// Lines on their way to the file.
    ready: Vec<u8>,
    dropped_bytes: u64,
    /// When a file was last tried to be opened: not more often than once a second.
    tried_seconds: u64,
}

impl Log {
    pub(super) fn new(path: PathBuf, limits: Limits) -> Self {
        let unfinished = [Vec::new(), Vec::new()];
        Self { path, limits, file: None, size: 0, unfinished, ready: Vec::new(), dropped_bytes: 0, tried_seconds: 0 }
    }

    pub(super) fn dropped_bytes(&self) -> u64 {
        self.dropped_bytes
    }

    /// Makes the file, so that it is there before anything is written.
    pub(super) fn open(&mut self) -> io::Result<()> {
        if let Some(directory) = self.path.parent() {
            std::fs::create_dir_all(directory)?;
        }
        let file = OpenOptions::new().create(true).append(true).open(&self.path)?;
        self.size = file.metadata()?.len();
        self.file = Some(file);
        Ok(())
    }

    pub(super) fn write(&mut self, stream: Stream, data: &[u8], now_nanos: u64) {
        let time = timestamp(now_nanos);
        for piece in data.split_inclusive(|byte| *byte == b'\n') {
            let (text, whole) = match piece.split_last() {
                Some((b'\n', text)) => (text, true),
                _ => (piece, false),
            };
            self.add(stream, text, whole, &time);
        }
        self.flush(now_nanos);
    }

    /// Writes what has no end, as a part.
    pub(super) fn finish(&mut self, now_nanos: u64) {
        let time = timestamp(now_nanos);
        for stream in [Stream::Stdout, Stream::Stderr] {
            let text = std::mem::take(&mut self.unfinished[stream as usize]);
            if !text.is_empty() {
                line(&mut self.ready, &time, stream, b'P', &[&text]);
            }
        }
        self.flush(now_nanos);
    }

    fn add(&mut self, stream: Stream, mut text: &[u8], whole: bool, time: &str) {
        let unfinished = &mut self.unfinished[stream as usize];
        while unfinished.len() + text.len() > LINE_MAX_BYTES {
            let (part, rest) = text.split_at(LINE_MAX_BYTES - unfinished.len());
            line(&mut self.ready, time, stream, b'P', &[unfinished, part]);
            unfinished.clear();
            text = rest;
        }
        if whole {
            line(&mut self.ready, time, stream, b'F', &[unfinished, text]);
            unfinished.clear();
        } else {
            unfinished.extend_from_slice(text);
        }
    }

    fn flush(&mut self, now_nanos: u64) {
        if self.ready.is_empty() {
            return;
        }
        let max = self.limits.file_max_bytes;
        if max > 0 && self.size > 0 && self.size + self.ready.len() as u64 > max {
            self.rotate(now_nanos);
        }
        let seconds = now_nanos / 1_000_000_000;
        if self.file.is_none() && seconds != self.tried_seconds {
            self.tried_seconds = seconds;
            let _counted_below = self.open();
        }
        let written = match &mut self.file {
            Some(file) => write_whole(file, &self.ready, self.size),
            None => false,
        };
        if written {
            self.size += self.ready.len() as u64;
        } else {
            self.dropped_bytes += self.ready.len() as u64;
        }
        self.ready.clear();
    }

    fn rotate(&mut self, now_nanos: u64) {
        let seconds = timestamp(now_nanos).replace([':', '-'], "").replace('T', "-");
        let mut old = with_suffix(&self.path, &seconds[..15]);
        if old.exists() {
            // More than one in a second.
            old = with_suffix(&self.path, &seconds[..25]);
        }
        if std::fs::rename(&self.path, &old).is_ok() {
            self.file = None;
            let _tried_again = self.open();
            remove_old(&self.path, self.limits.files_max);
        } else if let Some(file) = &self.file {
            // Nowhere to put it: the bound counts more than the lines.
            self.dropped_bytes += self.size;
            let _best_effort = file.set_len(0);
            self.size = 0;
        }
    }
}

/// All of it or nothing: what was written in part is taken back.
fn write_whole(file: &mut File, bytes: &[u8], size: u64) -> bool {
    if file.write_all(bytes).is_ok() {
        return true;
    }
    let _best_effort = file.set_len(size);
    false
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(suffix);
    PathBuf::from(name)
}

/// Keeps the newest files; their names sort by their times.
fn remove_old(path: &Path, files_max: usize) {
    let (Some(directory), Some(name)) = (path.parent(), path.file_name().and_then(|name| name.to_str())) else {
        return;
    };
    let prefix = format!("{name}.");
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut old: Vec<String> = names.filter(|name| name.starts_with(&prefix)).collect();
    old.sort();
    let keep = files_max.saturating_sub(1);
    for name in &old[..old.len().saturating_sub(keep)] {
        let _next_time = std::fs::remove_file(directory.join(name));
    }
}

fn line(ready: &mut Vec<u8>, time: &str, stream: Stream, tag: u8, text: &[&[u8]]) {
    ready.extend_from_slice(time.as_bytes());
    ready.extend_from_slice(match stream {
        Stream::Stdout => b" stdout ",
        Stream::Stderr => b" stderr ",
    });
    ready.push(tag);
    ready.push(b' ');
    for part in text {
        ready.extend_from_slice(part);
    }
    ready.push(b'\n');
}

/// As `2006-01-02T15:04:05.000000000Z`.
pub(super) fn timestamp(nanos: u64) -> String {
    let seconds = nanos / 1_000_000_000;
    let (year, month, day) = date(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:09}Z", nanos % 1_000_000_000)
}

/// The date of a day since 1970, by counting in eras of 400 years that begin in March.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day_of_month = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + u64::from(month <= 2), month, day_of_month)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_709_210_096_000_000_007;

    fn log(directory: &Path, file_max_bytes: u64) -> Log {
        Log::new(directory.join("main/0.log"), Limits { file_max_bytes, files_max: 3 })
    }

    fn text(directory: &Path) -> String {
        std::fs::read_to_string(directory.join("main/0.log")).unwrap()
    }

    #[test]
    fn lines_are_whole_partial_or_endless() {
        let directory = tempfile::tempdir().unwrap();
        let mut log = log(directory.path(), 0);
        log.write(Stream::Stdout, b"one\ntw", NOW);
        log.write(Stream::Stderr, b"problem\n", NOW);
        log.write(Stream::Stdout, b"o\n\nend", NOW);
        log.finish(NOW);
        let time = "2024-02-29T12:34:56.000000007Z";
        let expected = ["stdout F one", "stderr F problem", "stdout F two", "stdout F ", "stdout P end"];
        let lines: Vec<String> = expected.iter().map(|line| format!("{time} {line}\n")).collect();
        assert_eq!(text(directory.path()), lines.concat());
        for _ in 0..100 {
            log.write(Stream::Stdout, &[b'x'; 1000], NOW);
            assert!(log.unfinished[0].len() <= LINE_MAX_BYTES && log.ready.is_empty());
        }
        let last = text(directory.path()).lines().last().unwrap().to_owned();
        assert_eq!(last.len(), format!("{time} stdout P ").len() + LINE_MAX_BYTES);
    }

    #[test]
    fn files_are_rotated_and_the_oldest_removed() {
        let directory = tempfile::tempdir().unwrap();
        let mut log = log(directory.path(), 200);
        for number in 0..20 {
            log.write(Stream::Stdout, format!("{number:050}\n").as_bytes(), NOW + number * 1_000_000_000);
        }
        let names = || {
            let entries = std::fs::read_dir(directory.path().join("main")).unwrap();
            let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
            names.sort();
            names
        };
        assert_eq!(names().len(), 3);
        assert!(text(directory.path()).ends_with("19\n"));
        for number in 0..20 {
            log.write(Stream::Stdout, format!("{number:050}\n").as_bytes(), NOW + 20_000_000_000 + number);
        }
        assert_eq!(names().len(), 3);
        assert_eq!(log.dropped_bytes(), 0);
    }

    #[test]
    fn a_full_disk_drops_and_counts() {
        let mut log = Log::new(PathBuf::from("/dev/full"), Limits { file_max_bytes: 0, files_max: 1 });
        log.write(Stream::Stdout, b"lost\n", NOW);
        assert_eq!(log.dropped_bytes(), 45);
    }
}
