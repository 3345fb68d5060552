//! The environment of a container: what others bring (`envFrom`), its own variables in their order, and services.

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use rkube_machinery::decode::base64;
use rkube_machinery::{Text, Value};

use super::expansion::expand;
use super::{env_file, fields};

/// Variables in the order in which they came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Variables {
    entries: Vec<(String, String)>,
    places: HashMap<String, usize>,
}

impl Variables {
    /// One that is there already keeps its place.
    pub fn set(&mut self, name: &str, value: impl Into<String>) {
        match self.places.get(name) {
            Some(place) => self.entries[*place].1 = value.into(),
            None => {
                self.places.insert(name.to_owned(), self.entries.len());
                self.entries.push((name.to_owned(), value.into()));
            }
        }
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.places.get(name).map(|place| self.entries[*place].1.as_str())
    }

    pub fn entries(&self) -> &[(String, String)] {
        &self.entries
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ObjectKind {
    ConfigMap,
    Secret,
}

/// Objects that variables come from, as they were read; in the pod's namespace.
pub type Objects = HashMap<(ObjectKind, Text), Read>;

/// What became of reading one.
#[derive(Clone, Debug)]
pub enum Read {
    Found(Arc<Value>),
    NotFound(String),
    Failed(String),
}

/// All that the environment is made of.
pub struct Sources<'a> {
    pub pod: &'a Value,
    pub container: &'a Value,
    pub objects: &'a Objects,
    /// Those that tell of services.
    pub services: &'a [(String, String)],
    pub addresses: &'a [IpAddr],
    pub host_addresses: &'a [IpAddr],
    /// What the node has for pods: limits of those who have none.
    pub allocatable: &'a Value,
    /// Where the volume of this name is.
    pub volume: &'a dyn Fn(&str) -> Option<std::path::PathBuf>,
}

/// The objects that the container's environment is made of.
pub fn references(container: &Value) -> Vec<(ObjectKind, Text)> {
    let mut found = Vec::new();
    for from in container.list("envFrom") {
        found.push((ObjectKind::ConfigMap, from.get("configMapRef").str("name")));
        found.push((ObjectKind::Secret, from.get("secretRef").str("name")));
    }
    for variable in container.list("env").iter().filter(|variable| variable.str("value").is_empty()) {
        let from = variable.get("valueFrom");
        found.push((ObjectKind::ConfigMap, from.get("configMapKeyRef").str("name")));
        found.push((ObjectKind::Secret, from.get("secretKeyRef").str("name")));
    }
    let mut found: Vec<(ObjectKind, Text)> =
        found.into_iter().filter(|(_, name)| !name.is_empty()).map(|(kind, name)| (kind, name.into())).collect();
    found.sort();
    found.dedup();
    found
}

pub fn make(sources: &Sources<'_>) -> Result<Variables, String> {
    let mut variables = Variables::default();
    for from in sources.container.list("envFrom") {
        sources.add_all(from, &mut variables)?;
    }
    let services: HashMap<&str, &str> =
        sources.services.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    for variable in sources.container.list("env") {
        let given = variable.str("value");
        let value = if given.is_empty() {
            sources.value_from(variable.get("valueFrom"))?
        } else {
            let resolve = |name: &str| variables.get(name).or_else(|| services.get(name).copied()).map(str::to_owned);
            Some(expand(given, &resolve))
        };
        if let Some(value) = value {
            variables.set(variable.str("name"), value);
        }
    }
    for (name, value) in sources.services {
        if variables.get(name).is_none() {
            variables.set(name, value.as_str());
        }
    }
    Ok(variables)
}

impl Sources<'_> {
    fn add_all(&self, from: &Value, variables: &mut Variables) -> Result<(), String> {
        let prefix = from.str("prefix");
        for (field, kind) in [("configMapRef", ObjectKind::ConfigMap), ("secretRef", ObjectKind::Secret)] {
            let reference = from.get(field);
            if reference.is_null() {
                continue;
            }
            let Some(object) = self.object(kind, reference)? else { return Ok(()) };
            for (key, _) in object.map("data").iter() {
                let value = text_of(kind, &object, key).unwrap_or_default();
                variables.set(&format!("{prefix}{key}"), value);
            }
            return Ok(());
        }
        Ok(())
    }

    /// None: there is none, and need not be.
    fn value_from(&self, from: &Value) -> Result<Option<String>, String> {
        if from.has("fieldRef") {
            let path = from.get("fieldRef").str("fieldPath");
            return fields::of_running(self.pod, path, self.addresses, self.host_addresses).map(Some);
        }
        if from.has("resourceFieldRef") {
            let reference = from.get("resourceFieldRef");
            return fields::of_resources(self.pod, Some(self.container), reference, self.allocatable).map(Some);
        }
        if from.has("configMapKeyRef") {
            return self.key(ObjectKind::ConfigMap, from.get("configMapKeyRef"));
        }
        if from.has("secretKeyRef") {
            return self.key(ObjectKind::Secret, from.get("secretKeyRef"));
        }
        if from.has("fileKeyRef") {
            return self.file_key(from.get("fileKeyRef"));
        }
        Ok(Some(String::new()))
    }

    fn key(&self, kind: ObjectKind, reference: &Value) -> Result<Option<String>, String> {
        let Some(object) = self.object(kind, reference)? else { return Ok(None) };
        let key = reference.str("key");
        match text_of(kind, &object, key) {
            Some(value) => Ok(Some(value)),
            None if reference.bool("optional") => Ok(None),
            None => {
                let kind = if kind == ObjectKind::Secret { "Secret" } else { "ConfigMap" };
                let namespace = self.pod.get("metadata").str("namespace");
                Err(format!("couldn't find key {key} in {kind} {namespace}/{}", reference.str("name")))
            }
        }
    }

    /// None: it is not there, and need not be.
    fn object(&self, kind: ObjectKind, reference: &Value) -> Result<Option<Arc<Value>>, String> {
        match self.objects.get(&(kind, reference.str("name").into())) {
            Some(Read::Found(object)) => Ok(Some(object.clone())),
            Some(Read::NotFound(_)) if reference.bool("optional") => Ok(None),
            Some(Read::NotFound(why) | Read::Failed(why)) => Err(why.clone()),
            None => Err(format!("{} was not read", reference.str("name"))),
        }
    }

    fn file_key(&self, reference: &Value) -> Result<Option<String>, String> {
        let (volume, key) = (reference.str("volumeName"), reference.str("key"));
        let missing = || format!("cannot find the volume {volume:?} referenced by FileKeyRef");
        let directory = (self.volume)(volume).ok_or_else(missing)?;
        let path = reference.str("path");
        let text = read_beneath(&directory, path).map_err(|error| {
            tracing::warn!(volume, path, %error, "a file of variables cannot be read");
            "couldn't parse env file".to_owned()
        })?;
        let value = env_file::find(&text, key).map_err(|error| {
            tracing::warn!(volume, path, error, "a file of variables cannot be understood");
            "couldn't parse env file".to_owned()
        })?;
        match value.filter(|value| !value.is_empty()) {
            Some(value) => Ok(Some(value)),
            None if reference.bool("optional") => Ok(None),
            None => Err(format!(
                "environment variable key {key:?} not found in file {:?}",
                directory.join(path).display().to_string()
            )),
        }
    }
}

/// A file of a volume, whatever links the pod has put there: none leads out of it.
fn read_beneath(directory: &Path, path: &str) -> std::io::Result<String> {
    use rustix::fs::{Mode, OFlags, ResolveFlags, open, openat2};
    use std::io::Read as _;

    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let root = open(directory, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    // As if the volume was the root, so that absolute links stay inside, too.
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let file = std::fs::File::from(openat2(&root, path, flags | OFlags::NONBLOCK, Mode::empty(), resolve)?);
    if !file.metadata()?.is_file() {
        return Err(std::io::Error::other("it is not a file"));
    }
    let mut text = String::new();
    file.take(env_file::BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}

/// None where there is no such key. What is no text is made one, as Go would keep it.
fn text_of(kind: ObjectKind, object: &Value, key: &str) -> Option<String> {
    let value = object.map("data").get(key)?.as_str();
    Some(match kind {
        ObjectKind::ConfigMap => value.to_owned(),
        ObjectKind::Secret => {
            String::from_utf8_lossy(&base64::decode(value.as_bytes()).unwrap_or_default()).into_owned()
        }
    })
}
