//! What is mounted into a container: its volumes, `/etc/hosts`, and the file for its last words. Blocks: parts of volumes
//! are mounted on the way.

use std::path::{Path, PathBuf};

use rkube_machinery::Value;
use rkube_runtime::api::{Mount, Propagation};

use super::env::Variables;
use super::expansion::expand_strictly;
use crate::real::volumes::directory::PodDirectory;
use crate::real::volumes::subpath;

const HOSTS: &str = "/etc/hosts";

/// Where a volume of the pod is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mounted {
    pub path: PathBuf,
    /// What directories call it.
    pub name: String,
    pub read_only: bool,
    /// A further group that its users are to be in.
    pub extra_group: Option<u32>,
}

/// With what mounts are made.
pub struct Mounts<'a> {
    pub container: &'a Value,
    pub directory: &'a PodDirectory,
    pub variables: &'a Variables,
    pub volume: &'a dyn Fn(&str) -> Option<Mounted>,
    /// None: the pod has no addresses yet.
    pub hosts_file: Option<PathBuf>,
    pub termination_log: Option<PathBuf>,
}

impl Mounts<'_> {
    pub fn make(&self) -> Result<Vec<Mount>, String> {
        let mut mounts = Vec::new();
        for (index, mount) in self.container.list("volumeMounts").iter().enumerate() {
            mounts.push(self.of_volume(index, mount)?);
        }
        let file = |path: &Path, container_path: &str| Mount {
            host_path: path.to_owned(),
            container_path: container_path.to_owned(),
            ..Mount::default()
        };
        let has_own = self.container.list("volumeMounts").iter().any(|mount| mount.str("mountPath") == HOSTS);
        if let Some(path) = self.hosts_file.as_ref().filter(|_| !has_own) {
            mounts.push(file(path, HOSTS));
        }
        if let Some(path) = &self.termination_log {
            mounts.push(file(path, &absolute(self.container.str("terminationMessagePath"))));
        }
        Ok(mounts)
    }

    fn of_volume(&self, index: usize, mount: &Value) -> Result<Mount, String> {
        let (name, container) = (mount.str("name"), self.container.str("name"));
        let volume = (self.volume)(name)
            .ok_or_else(|| format!("cannot find volume {name:?} to mount into container {container:?}"))?;
        let part = self.part(mount)?;
        let host_path = match part.as_str() {
            "" => volume.path,
            part => {
                let target = self.directory.subpath(&volume.name, container, index);
                let bound = target.and_then(|target| subpath::bind(&volume.path, part, &target));
                bound.map_err(|error| {
                    // People are told no more: it could say something about the host.
                    tracing::warn!(volume = name, container, part, %error, "a part of a volume cannot be mounted");
                    format!("failed to prepare subPath for volumeMount {name:?} of container {container:?}")
                })?
            }
        };
        let recursive_read_only = recursive(mount)?;
        Ok(Mount {
            host_path,
            container_path: absolute(mount.str("mountPath")),
            read_only: mount.bool("readOnly") || volume.read_only,
            recursive_read_only,
            propagation: propagation(mount.str("mountPropagation"))?,
        })
    }

    /// The path inside of the volume; empty: all of it.
    fn part(&self, mount: &Value) -> Result<String, String> {
        let part = match mount.str("subPathExpr") {
            "" => mount.str("subPath").to_owned(),
            expression => expand_strictly(expression, self.variables)?,
        };
        if part.starts_with('/') {
            return Err(format!("error SubPath `{part}` must not be an absolute path"));
        }
        if part.split('/').any(|name| name == "..") {
            return Err(format!("unable to provision SubPath `{part}`: must not contain '..'"));
        }
        Ok(part)
    }
}

fn absolute(path: &str) -> String {
    if path.starts_with('/') { path.to_owned() } else { format!("/{path}") }
}

fn propagation(mode: &str) -> Result<Propagation, String> {
    match mode {
        "" | "None" => Ok(Propagation::Private),
        "HostToContainer" => Ok(Propagation::HostToContainer),
        "Bidirectional" => Ok(Propagation::Bidirectional),
        other => Err(format!("invalid MountPropagation mode: {other:?}")),
    }
}

/// The runtime can do it, so that `IfPossible` is as `Enabled`.
fn recursive(mount: &Value) -> Result<bool, String> {
    let wrong = |why: String| Err(format!("failed to resolve recursive read-only mode: {why}"));
    let mode = mount.str("recursiveReadOnly");
    match mode {
        "" | "Disabled" => Ok(false),
        "IfPossible" | "Enabled" if !mount.bool("readOnly") => {
            wrong(format!("volume {:?} requested recursive read-only mode, but it is not read-only", mount.str("name")))
        }
        "IfPossible" | "Enabled" if !matches!(mount.str("mountPropagation"), "" | "None") => wrong(format!(
            "volume {:?} requested recursive read-only mode, but it is not compatible with propagation {:?}",
            mount.str("name"),
            mount.str("mountPropagation")
        )),
        "IfPossible" | "Enabled" => Ok(true),
        other => wrong(format!("unknown recursive read-only mode {other:?}")),
    }
}

#[cfg(test)]
mod tests {
    use rkube_machinery::json;

    use super::*;

    fn make(mounts: &str) -> Result<Vec<Mount>, String> {
        let text = format!(r#"{{"name":"c","terminationMessagePath":"/dev/termination-log","volumeMounts":{mounts}}}"#);
        let container = json::parse(text.as_bytes()).unwrap();
        let mut variables = Variables::default();
        variables.set("OUT", "../x");
        let volume = |name: &str| {
            let found =
                Mounted { path: "/v".into(), name: name.to_owned(), read_only: name == "ro", extra_group: None };
            (name != "none").then_some(found)
        };
        Mounts {
            container: &container,
            directory: &PodDirectory::new(Path::new("/root"), "u").unwrap(),
            variables: &variables,
            volume: &volume,
            hosts_file: Some("/root/pods/u/etc-hosts".into()),
            termination_log: Some("/root/pods/u/containers/c/0".into()),
        }
        .make()
    }

    #[test]
    fn mounts_are_those_of_the_container() {
        let mounts =
            make(r#"[{"name":"ro","mountPath":"a"},{"name":"v","mountPath":"/b","mountPropagation":"Bidirectional"}]"#);
        let mounts = mounts.unwrap();
        let short: Vec<_> = mounts.iter().map(|mount| (mount.container_path.as_str(), mount.read_only)).collect();
        assert_eq!(short, [("/a", true), ("/b", false), ("/etc/hosts", false), ("/dev/termination-log", false)]);
        assert_eq!(mounts[1].propagation, Propagation::Bidirectional);
        let own = make(r#"[{"name":"v","mountPath":"/etc/hosts"}]"#).unwrap();
        assert_eq!(own.len(), 2);
    }

    #[test]
    fn what_cannot_be_mounted_is_said_in_upstreams_words() {
        let table = [
            (r#"[{"name":"none","mountPath":"/a"}]"#, "cannot find volume \"none\" to mount into container \"c\""),
            (r#"[{"name":"v","mountPath":"/a","subPath":"/x"}]"#, "error SubPath `/x` must not be an absolute path"),
            (
                r#"[{"name":"v","mountPath":"/a","subPathExpr":"$(OUT)"}]"#,
                "unable to provision SubPath `../x`: must not contain '..'",
            ),
            (r#"[{"name":"v","mountPath":"/a","subPathExpr":"$(NO)"}]"#, "missing value for NO"),
            (
                r#"[{"name":"v","mountPath":"/a","recursiveReadOnly":"Enabled"}]"#,
                "failed to resolve recursive read-only mode: volume \"v\" requested recursive read-only mode, but it is \
                 not read-only",
            ),
        ];
        for (mounts, expected) in table {
            assert_eq!(make(mounts).map(drop), Err(expected.to_owned()), "{mounts}");
        }
    }
}
