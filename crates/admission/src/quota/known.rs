//! Quotas as they were last read: to read one takes longer than to ask it.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use rkube_catalog::{Entry, Object};
use rkube_machinery::Text;
use rkube_quota::Quota;

/// So many are kept. When there are more, it begins again with none: they are read, and nothing else changes.
const KNOWN_MAX: usize = 1_024;

/// By uid.
#[derive(Default)]
pub struct Known(Mutex<HashMap<Text, Read>>);

struct Read {
    object: Arc<Object>,
    quota: Arc<Quota>,
}

impl Known {
    pub fn read(&self, entry: &Entry) -> Arc<Quota> {
        if let Some(read) = self.0.lock().get(&entry.object.uid)
            && Arc::ptr_eq(&read.object, &entry.object)
        {
            return read.quota.clone();
        }
        let quota = Arc::new(Quota::read(&entry.object.value(entry.revision)));
        let mut known = self.0.lock();
        if known.len() >= KNOWN_MAX && !known.contains_key(&entry.object.uid) {
            known.clear();
        }
        let read = Read { object: entry.object.clone(), quota: quota.clone() };
        known.insert(entry.object.uid.clone(), read);
        quota
    }
}

#[cfg(test)]
mod tests {
    use rkube_catalog::Snapshot;
    use rkube_machinery::object;

    use super::*;

    fn entry(uid: &str, pods: &str) -> Entry {
        let catalog = Snapshot::unfed(rkube_kinds::all());
        let served = catalog.find("", "v1", "resourcequotas").unwrap();
        let metadata = object! { "name": "q", "namespace": "default", "uid": uid };
        let quota = object! { "metadata": metadata, "spec": object! { "hard": object! { "pods": pods } } };
        Entry::new(Arc::new(Object::new(&quota, &served.kind)), 1)
    }

    #[test]
    fn what_changed_is_read_again() {
        let known = Known::default();
        let before = entry("a", "1");
        assert!(Arc::ptr_eq(&known.read(&before), &known.read(&before)));
        let after = known.read(&entry("a", "2"));
        assert_eq!(after.wanted["pods"].value(), 2);
        assert_eq!(known.read(&before).wanted["pods"].value(), 1);
        assert_eq!(known.0.lock().len(), 1);
    }

    #[test]
    fn there_is_a_bound_on_what_is_kept() {
        let known = Known::default();
        for uid in 0..KNOWN_MAX + 10 {
            known.read(&entry(&uid.to_string(), "1"));
        }
        assert!(known.0.lock().len() <= KNOWN_MAX);
    }
}
