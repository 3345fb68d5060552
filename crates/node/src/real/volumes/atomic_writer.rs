//! Writes the files of a volume so that who reads them sees all of the old ones or all of the new ones.
//!
//! The files are in a directory of their own, `..TIME`; `..data` is a link to it, and what people see are links through
//! `..data`. A new version is written beside the old one, and one rename makes it the current one.
//!
//! What holds: a crash at any moment leaves the old version or the new one, and what it leaves beside them goes with the
//! next write. One writer at a time.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use super::directory;
use super::payload::{Payload, ancestors, cleaned, first_part};

const DATA: &str = "..data";
const NEW_DATA: &str = "..data_tmp";
/// All versions begin so, and nothing else.
const VERSION_PREFIX: &str = "..2";

/// Writes what is new, and says whether anything was. `version` is the name of a new version; `before_publishing` is
/// called when its files are there and nobody sees them yet.
pub fn write(
    target: &Path,
    payload: Payload,
    version: &str,
    before_publishing: impl FnOnce() -> io::Result<()>,
) -> io::Result<bool> {
    let payload = cleaned(payload).map_err(io::Error::other)?;
    let old = current(target)?;
    let stale = match &old {
        Some(old) => stale_paths(&target.join(old), &payload)?,
        None => BTreeSet::new(),
    };
    let is_current = match &old {
        Some(old) => stale.is_empty() && has_all(&target.join(old), &payload)?,
        None => false,
    };
    if !is_current {
        write_version(target, &payload, version, before_publishing)?;
    }
    link_visible(target, &payload)?;
    for path in stale.iter().filter(|path| !path.contains('/')) {
        remove_link(&target.join(path))?;
    }
    remove_other_versions(target)?;
    Ok(!is_current)
}

/// The name of a version that is written now, as `..2026_11_16_21_32_05.1234567890`.
pub fn version_name(now_seconds: i64, random: u64) -> String {
    let time = rkube_machinery::time::format_seconds(now_seconds).replace(['-', 'T', ':'], "_");
    format!("..{}.{:010}", time.trim_end_matches('Z'), random % 10_000_000_000)
}

/// What `..data` leads to, if it is one of ours.
fn current(target: &Path) -> io::Result<Option<String>> {
    match fs::read_link(target.join(DATA)) {
        Ok(link) => Ok(link.to_str().filter(|name| name.starts_with(VERSION_PREFIX)).map(str::to_owned)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// What is in the old version and not in the new one.
fn stale_paths(old: &Path, payload: &Payload) -> io::Result<BTreeSet<String>> {
    let mut known: BTreeSet<&str> = payload.keys().map(String::as_str).collect();
    known.extend(payload.keys().flat_map(|path| ancestors(path)));
    let mut found = BTreeSet::new();
    let mut waiting = vec![String::new()];
    while let Some(directory) = waiting.pop() {
        let entries = match fs::read_dir(old.join(&directory)) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        for entry in entries {
            let entry = entry?;
            let Some(name) = entry.file_name().to_str().map(str::to_owned) else { continue };
            let path = if directory.is_empty() { name } else { format!("{directory}/{name}") };
            if entry.file_type()?.is_dir() {
                waiting.push(path.clone());
            }
            if !known.contains(path.as_str()) {
                found.insert(path);
            }
        }
    }
    Ok(found)
}

fn has_all(old: &Path, payload: &Payload) -> io::Result<bool> {
    for (path, file) in payload {
        match fs::read(old.join(path)) {
            Ok(bytes) if bytes == file.bytes => {}
            Ok(_) => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

fn write_version(
    target: &Path,
    payload: &Payload,
    version: &str,
    before_publishing: impl FnOnce() -> io::Result<()>,
) -> io::Result<()> {
    let directory = target.join(version);
    fs::create_dir(&directory)?;
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o755))?;
    let published = write_files(&directory, payload).and_then(|()| before_publishing()).and_then(|()| {
        let link = target.join(NEW_DATA);
        remove_link(&link)?;
        symlink(version, &link)?;
        fs::rename(&link, target.join(DATA))
    });
    if published.is_err() {
        let _ = fs::remove_dir_all(&directory);
    }
    published
}

fn write_files(directory: &Path, payload: &Payload) -> io::Result<()> {
    for (path, file) in payload {
        let full = directory.join(path);
        if let Some(parent) = full.parent() {
            directory::make(parent, 0o755)?;
        }
        fs::write(&full, &file.bytes)?;
        fs::set_permissions(&full, fs::Permissions::from_mode(file.mode))?;
        if let Some(owner) = file.owner {
            std::os::unix::fs::lchown(&full, Some(owner), None)?;
        }
    }
    Ok(())
}

/// What people see: a link for every file or directory at the top.
fn link_visible(target: &Path, payload: &Payload) -> io::Result<()> {
    let names: BTreeSet<&str> = payload.keys().map(|path| first_part(path)).collect();
    for name in names {
        let visible = target.join(name);
        if fs::read_link(&visible).is_err() {
            symlink(Path::new(DATA).join(name), &visible)?;
        }
    }
    Ok(())
}

fn remove_link(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn remove_other_versions(target: &Path) -> io::Result<()> {
    let current = current(target)?;
    for entry in fs::read_dir(target)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(name) = name.to_str().filter(|name| name.starts_with(VERSION_PREFIX)) else { continue };
        if Some(name) != current.as_deref() && entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}
