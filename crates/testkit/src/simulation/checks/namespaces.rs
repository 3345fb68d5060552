//! Nothing is made in a namespace that goes, and nothing is left in one that is gone.

use std::collections::{HashMap, HashSet};

use super::view::Owned;

#[derive(Default)]
pub(super) struct Namespaces {
    /// Those that are deleted, or are about to be.
    going: HashSet<String>,
    /// In which namespace an object is, by its key.
    known: HashMap<String, String>,
    /// How many objects are in it.
    counts: HashMap<String, usize>,
}

impl Namespaces {
    pub fn namespace(&mut self, key: &str, namespace: Option<&Owned>) -> Option<String> {
        let name = key.rsplit('/').next().unwrap_or_default();
        if namespace.is_some_and(|namespace| namespace.metadata.deletion_timestamp.is_none()) {
            self.going.remove(name);
            return None;
        }
        self.going.insert(name.to_owned());
        let left = self.counts.get(name).filter(|left| **left > 0 && namespace.is_none())?;
        Some(format!("is gone, and {left} objects are left in it"))
    }

    pub fn object(&mut self, key: &str, object: Option<&Owned>) -> Option<String> {
        let Some(object) = object else {
            let count = self.counts.get_mut(&self.known.remove(key)?)?;
            *count -= 1;
            return None;
        };
        let namespace = &object.metadata.namespace;
        if namespace.is_empty() || self.known.insert(key.to_owned(), namespace.clone()).is_some() {
            return None;
        }
        *self.counts.entry(namespace.clone()).or_default() += 1;
        self.going.contains(namespace).then(|| format!("is made in {namespace}, which goes or is gone"))
    }
}
