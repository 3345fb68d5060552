//! Watches of the objects that volumes of this node are made of, one for each that anybody uses: a node may see no
//! others. Who uses one is told when it changes.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use futures::StreamExt as _;
use parking_lot::Mutex;
use rkube_machinery::{Text, Value};
use rkube_operator::kube::core::ApiResource;
use rkube_operator::{Event, Selection, Source};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use super::env::ObjectKind;
use crate::real::volumes;

/// No more objects are watched; volumes made of others follow when pods are looked at again, about once in a minute.
const WATCHES_MAX: usize = 10_000;

/// An object that volumes are made of.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Reference {
    pub kind: ObjectKind,
    pub namespace: Text,
    pub name: Text,
}

pub struct Watches {
    source: Arc<dyn Source>,
    /// Takes the uids of pods whose objects have changed.
    changed: mpsc::UnboundedSender<Text>,
    held: Arc<Mutex<Held>>,
}

#[derive(Default)]
struct Held {
    watches: HashMap<Reference, Watch>,
    by_user: HashMap<Text, BTreeSet<Reference>>,
}

struct Watch {
    users: HashSet<Text>,
    task: AbortHandle,
}

impl Watches {
    pub fn new(source: Arc<dyn Source>, changed: mpsc::UnboundedSender<Text>) -> Watches {
        Watches { source, changed, held: Arc::default() }
    }

    /// Has the pod told of these objects, and of no others.
    pub fn follow(&self, uid: &str, references: BTreeSet<Reference>) {
        let mut held = self.held.lock();
        let before = match references.is_empty() {
            true => held.by_user.remove(uid),
            false => held.by_user.insert(uid.into(), references.clone()),
        };
        for reference in before.unwrap_or_default().difference(&references) {
            held.leave(reference, uid);
        }
        for reference in references {
            if let Some(watch) = held.watches.get_mut(&reference) {
                watch.users.insert(uid.into());
            } else if held.watches.len() < WATCHES_MAX {
                let task = self.start(reference.clone());
                held.watches.insert(reference, Watch { users: HashSet::from([uid.into()]), task });
            }
        }
    }

    pub fn forget(&self, uid: &str) {
        self.follow(uid, BTreeSet::new());
    }

    fn start(&self, reference: Reference) -> AbortHandle {
        let selection = Selection {
            namespace: Some(reference.namespace.clone()),
            fields: Some(format!("metadata.name={}", reference.name).into()),
            ..Selection::default()
        };
        let mut events = self.source.follow(&resource(reference.kind), &selection);
        let (changed, held) = (self.changed.clone(), self.held.clone());
        let task = tokio::spawn(async move {
            while let Some(event) = events.next().await {
                if matches!(event, Event::Progress(_)) {
                    continue;
                }
                let users = held.lock().watches.get(&reference).map(|watch| watch.users.clone()).unwrap_or_default();
                users.into_iter().for_each(|uid| drop(changed.send(uid)));
            }
        });
        task.abort_handle()
    }
}

impl Held {
    fn leave(&mut self, reference: &Reference, uid: &str) {
        let Some(watch) = self.watches.get_mut(reference) else { return };
        watch.users.remove(uid);
        if watch.users.is_empty() {
            watch.task.abort();
            self.watches.remove(reference);
        }
    }
}

impl Drop for Watches {
    fn drop(&mut self) {
        self.held.lock().watches.values().for_each(|watch| watch.task.abort());
    }
}

fn resource(kind: ObjectKind) -> ApiResource {
    use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    match kind {
        ObjectKind::ConfigMap => ApiResource::erase::<ConfigMap>(&()),
        ObjectKind::Secret => ApiResource::erase::<Secret>(&()),
    }
}

/// What the volumes of a pod are made of.
pub fn references(pod: &Value) -> BTreeSet<Reference> {
    let namespace: Text = pod.get("metadata").str("namespace").into();
    let mut found = BTreeSet::new();
    let mut add = |kind: ObjectKind, name: &str| {
        if !name.is_empty() {
            found.insert(Reference { kind, namespace: namespace.clone(), name: name.into() });
        }
    };
    for volume in volumes::used(pod) {
        add(ObjectKind::ConfigMap, volume.get("configMap").str("name"));
        add(ObjectKind::Secret, volume.get("secret").str("secretName"));
        for source in volume.get("projected").list("sources") {
            add(ObjectKind::ConfigMap, source.get("configMap").str("name"));
            add(ObjectKind::Secret, source.get("secret").str("name"));
        }
    }
    found
}
