//! Has volumes on this machine as they are to be. Blocks: it works on files and mounts.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use rkube_machinery::Value;

use super::directory::{self, PodDirectory};
use super::ownership::{ChangePolicy, give_to_group};
use super::payload::Payload;
use super::{Content, Gathered, Medium, atomic_writer, host_path, mounts};
use crate::pod::spec::containers;

const EMPTY_DIR: &str = "kubernetes.io~empty-dir";
const LOCAL: &str = "kubernetes.io~local-volume";
/// Of volumes: who is inside of a container may be anybody.
const VOLUME_MODE: u32 = 0o777;
/// Of those in memory: as the kernel makes tmpfs, and upstream leaves it. Programs that keep `/tmp` there look at it.
const MEMORY_MODE: u32 = 0o1777;

/// With what volumes are set up.
pub struct SetUp<'a> {
    pub pod: &'a Value,
    pub directory: &'a PodDirectory,
    pub group: Option<u32>,
    pub policy: ChangePolicy,
    /// For tmpfs without a limit of its own.
    pub memory_bytes: u64,
    /// Of a new version of files.
    pub version: &'a str,
}

/// Has one there, and says where.
pub fn set_up(context: &SetUp<'_>, volume: &Gathered) -> Result<PathBuf, String> {
    let text = |error: io::Error| error.to_string();
    match &volume.content {
        Content::Host { path, path_type } => host_path::check(path, path_type).map(|()| path.clone()),
        Content::Empty(medium) => context.empty(&volume.name, medium).map_err(text),
        Content::Local { path } => context.local(&volume.name, path, volume.read_only),
        Content::Files { plugin, in_memory, payload } => {
            context.files(plugin, &volume.name, *in_memory, payload.clone()).map_err(text)
        }
    }
}

impl SetUp<'_> {
    fn empty(&self, name: &str, medium: &Medium) -> io::Result<PathBuf> {
        let path = self.directory.volume(EMPTY_DIR, name)?;
        let marker = self.directory.ready_marker(name)?;
        let is_mounted = *medium == Medium::Disk || mounts::is_mount_point(&path)?;
        if marker.exists() && path.is_dir() && is_mounted {
            return Ok(path);
        }
        make_volume(&path)?;
        match medium {
            Medium::Disk => {}
            _ if is_mounted => {}
            Medium::Memory { size_bytes } => mounts::mount_tmpfs(&path, *size_bytes)?,
            Medium::HugePages { page_size } => mounts::mount_huge_pages(&path, page_size)?,
        }
        let mode = if matches!(medium, Medium::Memory { .. }) { MEMORY_MODE } else { VOLUME_MODE };
        fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
        self.own(&path, false, ChangePolicy::Always)?;
        if let Some(parent) = marker.parent() {
            directory::make(parent, 0o750)?;
        }
        fs::write(&marker, b"")?;
        Ok(path)
    }

    fn files(&self, plugin: &str, name: &str, in_memory: bool, payload: Payload) -> io::Result<PathBuf> {
        let path = self.directory.volume(plugin, name)?;
        if !path.is_dir() {
            make_volume(&path)?;
        }
        if in_memory && !mounts::is_mount_point(&path)? {
            mounts::mount_tmpfs(&path, self.memory_bytes)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(MEMORY_MODE))?;
        }
        for nested in nested_mount_points(self.pod, name) {
            directory::make(&path.join(nested), 0o755)
                .map_err(|error| io::Error::other(format!("unable to create nested volume mountpoints: {error}")))?;
        }
        let own = || self.own(&path, true, ChangePolicy::Always);
        atomic_writer::write(&path, payload, self.version, own)?;
        Ok(path)
    }

    fn local(&self, name: &str, source: &Path, read_only: bool) -> Result<PathBuf, String> {
        if source.components().any(|part| part == std::path::Component::ParentDir) {
            return Err(format!("invalid path: {} must not contain '..'", source.display()));
        }
        let text = |error: io::Error| error.to_string();
        let path = self.directory.volume(LOCAL, name).map_err(text)?;
        if mounts::is_mount_point(&path).map_err(text)? {
            return Ok(path);
        }
        match fs::metadata(source) {
            Ok(found) if found.is_dir() => {}
            Ok(_) => return Err("only directory and block device are supported".to_owned()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(format!("path {:?} does not exist", source.display().to_string()));
            }
            Err(error) => return Err(error.to_string()),
        }
        directory::make(&path, 0o750).map_err(text)?;
        mounts::bind(source, &path, read_only).map_err(|error| {
            let _ = fs::remove_dir(&path);
            error.to_string()
        })?;
        // Who had it first says whose it is.
        let is_shared = self.group.is_some() && self.is_used_by_others(&path).map_err(text)?;
        if !read_only && !is_shared {
            self.own(&path, false, self.policy).map_err(text)?;
        }
        Ok(path)
    }

    fn is_used_by_others(&self, path: &Path) -> io::Result<bool> {
        match self.directory.path().parent() {
            Some(pods) => mounts::also_mounted(path, pods),
            None => Ok(false),
        }
    }

    fn own(&self, path: &Path, read_only: bool, policy: ChangePolicy) -> io::Result<()> {
        match self.group {
            Some(group) => give_to_group(path, group, read_only, policy),
            None => Ok(()),
        }
    }
}

/// The directories above it are not for everybody.
fn make_volume(path: &Path) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        directory::make(parent, 0o750)?;
    }
    match fs::create_dir(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    fs::set_permissions(path, fs::Permissions::from_mode(VOLUME_MODE))
}

/// Where other volumes are mounted inside of this one, relative to it: nobody can make these directories later.
fn nested_mount_points(pod: &Value, volume: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for container in containers(pod) {
        let mounts = container.value.list("volumeMounts");
        let mut points: Vec<String> = mounts.iter().map(|mount| clean(mount.str("mountPath"))).collect();
        points.sort();
        for own in mounts.iter().filter(|mount| mount.str("name") == volume) {
            let prefix = format!("{}/", clean(own.str("mountPath")).trim_end_matches('/'));
            let mut nested: Vec<&str> = Vec::new();
            for point in points.iter().filter_map(|point| point.strip_prefix(&prefix)).filter(|point| !point.is_empty())
            {
                // What is mounted inside of another one is that one's.
                let is_inside = |outer: &str| point.strip_prefix(outer).is_some_and(|rest| rest.starts_with('/'));
                if !nested.iter().any(|outer| is_inside(outer)) {
                    nested.push(point);
                }
            }
            found.extend(nested.into_iter().map(str::to_owned));
        }
    }
    found
}

/// An absolute path without `.` and `..`.
fn clean(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use rkube_machinery::json;

    use super::*;

    #[test]
    fn nested_mounts_need_directories() {
        let pod = json::parse(
            br#"{"spec":{"containers":[{"volumeMounts":[
                {"name":"v","mountPath":"/dir"},{"name":"w","mountPath":"/dir/nested"},{"name":"x","mountPath":"/dir/nested/double"},
                {"name":"y","mountPath":"/dir/nested-vol/"},{"name":"z","mountPath":"/other/../dir/a/b"},{"name":"u","mountPath":"/dirt"}]}]}}"#,
        )
        .unwrap();
        let found: Vec<String> = nested_mount_points(&pod, "v").into_iter().collect();
        assert_eq!(found, ["a/b", "nested", "nested-vol"]);
        assert!(nested_mount_points(&pod, "u").is_empty());
    }
}
