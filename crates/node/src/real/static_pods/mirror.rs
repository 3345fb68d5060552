//! The objects that stand in the API for static pods.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use rkube_machinery::{Value, object};
use rkube_operator::Key;
use tokio::task::JoinSet;

use super::super::kubelet::Kubelet;
use super::HASH;
use crate::api;
use crate::pod::spec;

const MIRROR: &str = "kubernetes.io/config.mirror";

/// Whether an object of the API stands for a static pod.
pub fn is_mirror(pod: &Value) -> bool {
    pod.get("metadata").map("annotations").get(MIRROR).is_some()
}

/// Those that there are, and those that are being written.
#[derive(Default)]
pub struct Mirrors {
    known: HashMap<Key, Arc<Value>>,
    busy: HashSet<Key>,
    writes: JoinSet<Key>,
}

/// What is to be done about one.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Plan {
    Nothing,
    Create,
    /// It is that of another pod, or of none.
    Remove {
        uid: String,
    },
}

impl Mirrors {
    pub fn get(&self, key: &Key) -> Option<Arc<Value>> {
        self.known.get(key).cloned()
    }

    pub fn put(&mut self, key: &Key, mirror: Option<Arc<Value>>) {
        match mirror {
            Some(mirror) => self.known.insert(key.clone(), mirror),
            None => self.known.remove(key),
        };
    }

    pub fn keys(&self) -> Vec<Key> {
        self.known.keys().cloned().collect()
    }

    /// Brings the mirror of a static pod to where it is to be, without waiting for it.
    pub fn reconcile(&mut self, kubelet: &Arc<Kubelet>, key: &Key, pod: Option<&Arc<Value>>) {
        while self.writes.try_join_next().map(|done| done.map(|key| self.busy.remove(&key))).is_some() {}
        if self.busy.contains(key) {
            return;
        }
        let plan = plan(pod.map(|pod| &**pod), self.known.get(key).map(|mirror| &**mirror));
        if plan == Plan::Nothing {
            return;
        }
        self.busy.insert(key.clone());
        let (kubelet, key, pod) = (kubelet.clone(), key.clone(), pod.cloned());
        self.writes.spawn(async move {
            let written = match (plan, pod) {
                (Plan::Create, Some(pod)) => create(&kubelet, &pod).await,
                (Plan::Remove { uid }, _) => {
                    api::remove_pod(&kubelet.config.client, &key.namespace, &key.name, &uid).await.map(|_| ())
                }
                _ => Ok(()),
            };
            if let Err(error) = written {
                tracing::debug!(namespace = key.namespace, name = key.name, %error, "a mirror pod cannot be written");
            }
            key
        });
    }
}

fn plan(pod: Option<&Value>, mirror: Option<&Value>) -> Plan {
    let hash = |pod: &Value, name: &str| pod.get("metadata").map("annotations").str(name).to_owned();
    match (pod, mirror) {
        (None, None) => Plan::Nothing,
        (Some(_), None) => Plan::Create,
        (Some(pod), Some(mirror)) if hash(mirror, MIRROR) == hash(pod, HASH) && !spec::is_deleted(mirror) => {
            Plan::Nothing
        }
        (_, Some(mirror)) => Plan::Remove { uid: mirror.get("metadata").str("uid").to_owned() },
    }
}

async fn create(kubelet: &Kubelet, pod: &Value) -> Result<(), api::Error> {
    // It has the Node as its owner: without one it waits.
    let Some(node) = kubelet.node.get("", &kubelet.config.name) else { return Ok(()) };
    let mut mirror = pod.clone();
    let owner = object! {
        "apiVersion": "v1",
        "kind": "Node",
        "name": kubelet.config.name.clone(),
        "uid": node.uid.clone(),
        "controller": true,
    };
    let namespace = pod.get("metadata").str("namespace");
    let metadata = mirror.object_mut("metadata");
    let hash = metadata.map("annotations").str(HASH).to_owned();
    metadata.object_mut("annotations").set(MIRROR, hash);
    metadata.set("ownerReferences", vec![owner]);
    metadata.set("uid", Value::Null);
    api::create(&kubelet.config.client, &format!("/api/v1/namespaces/{namespace}/pods"), &mirror).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use rkube_machinery::json;

    use super::*;

    #[test]
    fn mirrors_follow_their_pods() {
        let of = |annotation: &str, hash: &str, more: &str| {
            let text = format!(r#"{{"metadata":{{"uid":"m","annotations":{{"{annotation}":"{hash}"}}{more}}}}}"#);
            json::parse(text.as_bytes()).unwrap()
        };
        let pod = of(HASH, "1", "");
        let remove = Plan::Remove { uid: "m".to_owned() };
        assert_eq!(plan(Some(&pod), None), Plan::Create);
        assert_eq!(plan(Some(&pod), Some(&of(MIRROR, "1", ""))), Plan::Nothing);
        assert_eq!(plan(Some(&pod), Some(&of(MIRROR, "0", ""))), remove);
        assert_eq!(plan(Some(&pod), Some(&of(MIRROR, "1", r#","deletionTimestamp":"x""#))), remove);
        assert_eq!(plan(None, Some(&of(MIRROR, "1", ""))), remove);
        assert_eq!(plan(None, None), Plan::Nothing);
    }
}
