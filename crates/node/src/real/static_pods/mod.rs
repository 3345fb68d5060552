//! Static pods: files of this machine that describe pods, which run whether there is an API server or not. In the API each
//! has an object that stands for it, its mirror, so that others see it.

mod defaults;
mod mirror;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rkube_machinery::{Value, json, object, time, yaml};
use rkube_operator::Key;

pub(super) use mirror::{Mirrors, is_mirror};

use crate::digest::digest;

/// How often the directory is looked at.
pub(super) const PERIOD: Duration = Duration::from_secs(1);
/// So many files are looked at, and none that is larger: the rest is left alone.
const FILES_MAX: usize = 1000;
const BYTES_MAX: u64 = 10 << 20;
/// How upstream's annotations are called.
const HASH: &str = "kubernetes.io/config.hash";
const SOURCE: &str = "kubernetes.io/config.source";
const SEEN: &str = "kubernetes.io/config.seen";

pub(super) type Pods = HashMap<Key, Arc<Value>>;

/// A file as it was when it was read.
type Stamp = (Option<SystemTime>, u64);

/// The directory of static pods.
pub(super) struct Files {
    directory: Option<PathBuf>,
    node: String,
    stamps: BTreeMap<PathBuf, Stamp>,
    pods: BTreeMap<PathBuf, (Key, Arc<Value>)>,
}

impl Files {
    pub fn new(directory: Option<PathBuf>, node: &str) -> Files {
        Files { directory, node: node.to_owned(), stamps: BTreeMap::new(), pods: BTreeMap::new() }
    }

    pub fn is_used(&self) -> bool {
        self.directory.is_some()
    }

    /// The pods, if they are others than when it was last asked. Reads what has changed and nothing else.
    pub fn scan(&mut self, now_micros: i64) -> Option<Pods> {
        let stamps = stamps(self.directory.as_deref()?);
        if stamps == self.stamps {
            return None;
        }
        self.pods.retain(|path, _| stamps.contains_key(path));
        for (path, stamp) in &stamps {
            if self.stamps.get(path) == Some(stamp) {
                continue;
            }
            match read(path, &self.node, now_micros) {
                Ok(pod) => {
                    self.pods.insert(path.clone(), (key_of(&pod), Arc::new(pod)));
                }
                Err(why) => {
                    self.pods.remove(path);
                    tracing::warn!(path = %path.display(), why, "a static pod cannot be read");
                }
            }
        }
        self.stamps = stamps;
        Some(self.pods.values().cloned().collect())
    }
}

fn key_of(pod: &Value) -> Key {
    let metadata = pod.get("metadata");
    Key { namespace: metadata.str("namespace").to_owned(), name: metadata.str("name").to_owned() }
}

fn stamps(directory: &Path) -> BTreeMap<PathBuf, Stamp> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let files = entries.filter_map(|entry| {
        let is_hidden = entry.file_name().to_string_lossy().starts_with('.');
        let facts = std::fs::metadata(entry.path()).ok().filter(|facts| facts.is_file() && !is_hidden)?;
        Some((entry.path(), (facts.modified().ok(), facts.len())))
    });
    files.take(FILES_MAX).collect()
}

fn read(path: &Path, node: &str, now_micros: i64) -> Result<Value, String> {
    let length = std::fs::metadata(path).map_err(|error| error.to_string())?.len();
    if length > BYTES_MAX {
        return Err(format!("it is larger than {BYTES_MAX} bytes"));
    }
    let text = std::fs::read(path).map_err(|error| error.to_string())?;
    let object = json::parse(&text).or_else(|_| yaml::parse(&text)).map_err(|error| error.to_string())?;
    if object.str("kind") != "Pod" || object.str("apiVersion") != "v1" {
        return Err("it is no Pod of v1".to_owned());
    }
    pod(object, &path.to_string_lossy(), node, now_micros)
}

/// The pod that a file describes, on this node.
fn pod(mut object: Value, path: &str, node: &str, now_micros: i64) -> Result<Value, String> {
    let name = object.get("metadata").str("name").to_owned();
    if name.is_empty() || object.get("spec").list("containers").is_empty() {
        return Err("it has no name, or no containers".to_owned());
    }
    if object.get("spec").has("serviceAccountName") || object.get("spec").has("ephemeralContainers") {
        return Err("a static pod cannot have a service account or ephemeral containers".to_owned());
    }
    let uid = match object.get("metadata").str("uid") {
        "" => digest(&[&json::to_string(&object), "host:", node, "file:", path])[..32].to_owned(),
        uid => uid.to_owned(),
    };
    let metadata = object.object_mut("metadata");
    metadata.set("name", format!("{name}-{}", node.to_lowercase()));
    if metadata.str("namespace").is_empty() {
        metadata.set("namespace", "default");
    }
    metadata.set("uid", uid.as_str());
    metadata.set("creationTimestamp", Value::Null);
    let annotations = metadata.object_mut("annotations");
    annotations.set(HASH, uid.as_str());
    annotations.set(SOURCE, "file");
    annotations.set(SEEN, time::format_micros(now_micros));
    let spec = object.object_mut("spec");
    spec.set("nodeName", node);
    let mut tolerations = spec.list("tolerations").to_vec();
    tolerations.push(object! { "operator": "Exists", "effect": "NoExecute" });
    spec.set("tolerations", tolerations);
    defaults::set(spec);
    object.set("status", object! { "phase": "Pending" });
    Ok(object)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_become_pods_and_are_read_when_they_change() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(directory.path().join(name), text).unwrap();
        let mut files = Files::new(Some(directory.path().to_owned()), "Node-1");
        assert!(files.scan(0).is_none());
        write(".hidden", "x");
        write("broken.yaml", "kind: [");
        write(
            "web.yaml",
            "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: a, image: x:1}]}\n",
        );
        let pods = files.scan(0).unwrap();
        let key = Key { namespace: "default".to_owned(), name: "web-node-1".to_owned() };
        let pod = &pods[&key];
        assert_eq!(pods.len(), 1);
        let uid = pod.get("metadata").str("uid").to_owned();
        assert_eq!((uid.len(), pod.get("metadata").map("annotations").str(HASH)), (32, uid.as_str()));
        assert_eq!(pod.get("spec").list("containers")[0].str("imagePullPolicy"), "IfNotPresent");
        assert!(files.scan(1_000_000).is_none());
        write(
            "web.yaml",
            "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: a, image: x:22}]}\n",
        );
        let pods = files.scan(0).unwrap();
        assert_ne!(pods[&key].get("metadata").str("uid"), uid, "another pod");
        std::fs::remove_file(directory.path().join("web.yaml")).unwrap();
        assert!(files.scan(0).unwrap().is_empty());
    }
}
