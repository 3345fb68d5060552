//! What an informer keeps: objects by key, and by whatever indexes were asked for.

use std::any::{Any, TypeId};
use std::borrow::Borrow;
use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher as _, Hash};
use std::sync::Arc;

use foldhash::quality::RandomState;

use crate::informer::{Key, MakeView};
use crate::source::{Item, uid_hash};

/// Another way to find objects: a function of an object gives the keys under which it is found.
///
/// ```
/// use rkube_operator::{Index, Key};
/// use rkube_operator::k8s_openapi::api::core::v1::Pod;
///
/// struct ByNode;
///
/// impl Index<Pod> for ByNode {
///     type Key = String;
///
///     fn keys(_: &Key, pod: &Pod) -> impl IntoIterator<Item = String> {
///         pod.spec.as_ref().and_then(|spec| spec.node_name.clone())
///     }
/// }
/// ```
///
/// With it, `informer.by_index::<ByNode, _>("node-1")` costs what it finds. The type is the name of the index: who asks
/// for the same one of the same cache shares it.
pub trait Index<V>: 'static {
    type Key: Eq + Hash + Send + Sync + 'static;

    fn keys(key: &Key, object: &V) -> impl IntoIterator<Item = Self::Key>;
}

/// Objects by the uid of each of their owners.
pub struct ByOwner;

impl<K: kube::Resource> Index<K> for ByOwner {
    type Key = String;

    fn keys(_: &Key, object: &K) -> impl IntoIterator<Item = String> {
        let owners = object.meta().owner_references.iter().flatten();
        owners.map(|owner| owner.uid.clone()).collect::<Vec<_>>()
    }
}

/// Ordered by namespace and name, so that what is told and listed has an order, and a namespace is a range.
pub(super) struct Store<V> {
    pub objects: Objects<V>,
    indexes: Vec<(TypeId, Box<dyn Maintained<V>>)>,
}

pub(super) struct Entry<V> {
    pub object: Arc<V>,
    /// At which it was written, and which object of this name it is: so that it is known what of a controller's own
    /// writes has arrived.
    pub revision: u64,
    pub uid: u64,
    /// The hash of its text.
    text: u64,
}

impl<V> Clone for Entry<V> {
    fn clone(&self) -> Self {
        Entry { object: self.object.clone(), ..*self }
    }
}

/// Tells whether what is listed again has to be read again: after a watch broke, most of it has not changed. The text
/// decides, not the revision: who serves an object may have come to show it otherwise.
#[derive(Default)]
pub(super) struct Texts(RandomState);

impl Texts {
    pub fn entry<V>(&self, item: &Item, known: Option<&Entry<V>>, make: MakeView<V>) -> Option<Entry<V>> {
        let (revision, uid, text) = (item.revision, uid_hash(&item.uid), self.0.hash_one(&*item.json));
        match known {
            Some(known) if (known.revision, known.uid, known.text) == (revision, uid, text) => Some(known.clone()),
            _ => Some(Entry { object: Arc::new(make(item)?), revision, uid, text }),
        }
    }
}

impl<V: Send + Sync + 'static> Store<V> {
    pub fn new() -> Store<V> {
        Store { objects: BTreeMap::new(), indexes: Vec::new() }
    }

    pub fn get(&self, namespace: &str, name: &str) -> Option<&Entry<V>> {
        self.objects.get(&(namespace, name) as &dyn Place)
    }

    pub fn known(&self, namespace: &str, name: &str) -> Option<(&Arc<Key>, &Entry<V>)> {
        self.objects.get_key_value(&(namespace, name) as &dyn Place)
    }

    /// The key is the one that is there already, if there is one: it is shared with the indexes.
    pub fn insert(&mut self, key: &Arc<Key>, entry: Entry<V>) -> Option<Arc<V>> {
        let new = entry.object.clone();
        let old = match self.objects.get_mut(key) {
            Some(there) => Some(std::mem::replace(there, entry).object),
            None => {
                self.objects.insert(key.clone(), entry);
                None
            }
        };
        for (_, index) in &mut self.indexes {
            match &old {
                Some(old) => index.replace(key, old, &new),
                None => index.insert(key, &new),
            }
        }
        old
    }

    pub fn remove(&mut self, namespace: &str, name: &str) -> Option<(Arc<Key>, Arc<V>)> {
        let (key, old) = self.objects.remove_entry(&(namespace, name) as &dyn Place)?;
        self.indexes.iter_mut().for_each(|(_, index)| index.remove(&key, &old.object));
        Some((key, old.object))
    }

    /// All that there was before.
    pub fn replace(&mut self, fresh: Objects<V>) -> Objects<V> {
        let before = std::mem::replace(&mut self.objects, fresh);
        for (_, index) in &mut self.indexes {
            only_in(&self.objects, &before).for_each(|(key, entry)| index.insert(key, &entry.object));
            only_in(&before, &self.objects).for_each(|(key, entry)| index.remove(key, &entry.object));
        }
        before
    }

    pub fn in_namespace(&self, namespace: &str) -> impl Iterator<Item = (&Arc<Key>, &Arc<V>)> {
        let from = (namespace, "");
        let found = self
            .objects
            .range::<dyn Place, _>((std::ops::Bound::Included(&from as &dyn Place), std::ops::Bound::Unbounded));
        let namespace = namespace.to_owned();
        found.take_while(move |(key, _)| key.namespace == namespace).map(|(key, entry)| (key, &entry.object))
    }

    pub fn has_index<I: Index<V>>(&self) -> bool {
        self.indexes.iter().any(|(id, _)| *id == TypeId::of::<I>())
    }

    pub fn add_index<I: Index<V>>(&mut self) {
        if self.has_index::<I>() {
            return;
        }
        let mut index = Box::new(Buckets::<I, V>(HashMap::default()));
        self.objects.iter().for_each(|(key, entry)| index.insert(key, &entry.object));
        self.indexes.push((TypeId::of::<I>(), index));
    }

    /// What an index has under a key. There has to be such an index.
    pub fn indexed<I: Index<V>, Q>(&self, key: &Q) -> Option<&BTreeMap<Arc<Key>, Arc<V>>>
    where
        I::Key: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.buckets::<I>()?.0.get(key)
    }

    /// The keys under which an index has something, in no order. There has to be such an index.
    pub fn index_keys<I: Index<V>>(&self) -> impl Iterator<Item = &I::Key> {
        self.buckets::<I>().into_iter().flat_map(|buckets| buckets.0.keys())
    }

    fn buckets<I: Index<V>>(&self) -> Option<&Buckets<I, V>> {
        let (_, index) = self.indexes.iter().find(|(id, _)| *id == TypeId::of::<I>())?;
        index.any().downcast_ref()
    }
}

pub(super) type Objects<V> = BTreeMap<Arc<Key>, Entry<V>>;

/// The objects of the first that are not the very same in the second.
fn only_in<'a, V>(these: &'a Objects<V>, those: &'a Objects<V>) -> impl Iterator<Item = (&'a Arc<Key>, &'a Entry<V>)> {
    let is_in_those = |(key, entry): &(&Arc<Key>, &Entry<V>)| {
        those.get(*key).is_some_and(|other| Arc::ptr_eq(&entry.object, &other.object))
    };
    these.iter().filter(move |it| !is_in_those(it))
}

/// An index of whatever key.
trait Maintained<V>: Send + Sync {
    fn insert(&mut self, key: &Arc<Key>, object: &Arc<V>);
    /// Removes this object; another of the same key stays.
    fn remove(&mut self, key: &Arc<Key>, object: &Arc<V>);
    /// Both are of this key.
    fn replace(&mut self, key: &Arc<Key>, old: &Arc<V>, new: &Arc<V>);
    fn any(&self) -> &dyn Any;
}

struct Buckets<I: Index<V>, V>(HashMap<I::Key, BTreeMap<Arc<Key>, Arc<V>>, RandomState>);

impl<I: Index<V>, V: Send + Sync + 'static> Maintained<V> for Buckets<I, V> {
    fn insert(&mut self, key: &Arc<Key>, object: &Arc<V>) {
        for found_by in I::keys(key, object) {
            self.0.entry(found_by).or_default().insert(key.clone(), object.clone());
        }
    }

    fn remove(&mut self, key: &Arc<Key>, object: &Arc<V>) {
        for found_by in I::keys(key, object) {
            if let Some(bucket) = self.0.get_mut(&found_by)
                && bucket.get(key).is_some_and(|there| Arc::ptr_eq(there, object))
            {
                bucket.remove(key);
                if bucket.is_empty() {
                    self.0.remove(&found_by);
                }
            }
        }
    }

    fn replace(&mut self, key: &Arc<Key>, old: &Arc<V>, new: &Arc<V>) {
        let before: Vec<I::Key> = I::keys(key, old).into_iter().collect();
        let now: Vec<I::Key> = I::keys(key, new).into_iter().collect();
        if before != now {
            self.insert(key, new);
            self.remove(key, old);
            return;
        }
        // Mostly it is found as it was.
        for found_by in &now {
            if let Some(there) = self.0.get_mut(found_by).and_then(|bucket| bucket.get_mut(key)) {
                there.clone_from(new);
            }
        }
    }

    fn any(&self) -> &dyn Any {
        self
    }
}

/// A namespace and a name, owned or not: so that nothing is allocated to look a key up.
trait Place {
    fn parts(&self) -> (&str, &str);
}

impl Place for Key {
    fn parts(&self) -> (&str, &str) {
        (&self.namespace, &self.name)
    }
}

impl Place for (&str, &str) {
    fn parts(&self) -> (&str, &str) {
        *self
    }
}

impl<'a> Borrow<dyn Place + 'a> for Arc<Key> {
    fn borrow(&self) -> &(dyn Place + 'a) {
        &**self
    }
}

impl PartialEq for dyn Place + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.parts() == other.parts()
    }
}

impl Eq for dyn Place + '_ {}

impl PartialOrd for dyn Place + '_ {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for dyn Place + '_ {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.parts().cmp(&other.parts())
    }
}
