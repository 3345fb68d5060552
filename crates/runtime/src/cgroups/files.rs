//! Reading and writing the small files that control groups are made of.

use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::path::Path;

/// No file of a group that we read is longer; the rest of it is not looked at.
const FILE_MAX_BYTES: u64 = 4 << 20;

pub(super) fn write(file: &Path, text: &str) -> io::Result<()> {
    let named =
        |error: io::Error| io::Error::new(error.kind(), format!("write {text:?} to {}: {error}", file.display()));
    let mut open = OpenOptions::new().write(true).open(file).map_err(named)?;
    open.write_all(text.as_bytes()).map_err(named)
}

/// Writes where there is such a file.
pub(super) fn write_if_there(file: &Path, text: &str) -> io::Result<()> {
    match write(file, text) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

pub(super) fn read(file: &Path) -> String {
    let mut text = String::new();
    if let Ok(open) = std::fs::File::open(file) {
        let _incomplete = open.take(FILE_MAX_BYTES).read_to_string(&mut text);
    }
    text
}

/// The file's only number; 0 where there is none, and where it says `max`.
pub(super) fn number(file: &Path) -> u64 {
    read(file).trim().parse().unwrap_or(0)
}

/// The number behind a key, in lines of both.
pub(super) fn keyed(text: &str, key: &str) -> u64 {
    let value = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
    value.and_then(|value| value.trim().parse().ok()).unwrap_or(0)
}

pub(super) fn processes(file: &Path) -> Vec<i32> {
    // A process that cannot be seen from here is shown as 0.
    read(file).lines().filter_map(|line| line.trim().parse().ok()).filter(|process| *process > 0).collect()
}

pub(super) fn directories(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let directories = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    directories.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

pub(super) fn remove(directory: &Path) -> io::Result<()> {
    match std::fs::remove_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}
