//! Pods, nodes, and a scheduler that is driven by hand.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rkube_operator::Item;
use rkube_scheduler::DEFAULT_NAME;
use rkube_scheduler::core::{Bound, Core, Step};
use rkube_scheduler::view::{Attachment, Capacity, Claim, CsiDriver, CsiNode, Node, Pod, StorageClass, Volume};
use serde_json::{Value, json};
use tokio::time::Instant;

/// An object as a source has it.
pub fn item(json: &Value, revision: u64) -> Item {
    let text = |value: &Value| value.as_str().unwrap_or_default().into();
    let metadata = &json["metadata"];
    Item {
        namespace: text(&metadata["namespace"]),
        name: text(&metadata["name"]),
        uid: text(&metadata["uid"]),
        revision,
        json: json.to_string().into(),
    }
}

/// A pod with one container; `spec` says more.
pub fn pod_json(name: &str, spec: Value) -> Value {
    let mut pod = json!({
        "metadata": { "namespace": "a", "name": name, "uid": format!("uid-{name}"), "generation": 1 },
        "spec": { "schedulerName": DEFAULT_NAME, "containers": [{ "name": "c", "image": "i" }] },
        "status": { "phase": "Pending" },
    });
    merge(&mut pod["spec"], spec);
    pod
}

/// What a pod with one container asks for.
pub fn asking(requests: Value) -> Value {
    json!({ "containers": [{ "name": "c", "image": "i", "resources": { "requests": requests } }] })
}

pub fn node_json(name: &str, more: Value) -> Value {
    let mut node = json!({
        "metadata": { "name": name, "labels": { "kubernetes.io/hostname": name } },
        "spec": {},
        "status": { "allocatable": { "cpu": "4", "memory": "8Gi", "pods": "10" } },
    });
    merge(&mut node, more);
    node
}

pub fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            from.into_iter().for_each(|(key, value)| merge(into.entry(key).or_insert(Value::Null), value));
        }
        (into, from) => *into = from,
    }
}

/// A scheduler, and the time.
pub struct Driver {
    pub core: Core,
    pub now: Instant,
    revision: u64,
    nodes: Vec<Arc<Node>>,
    pods: Vec<Arc<Pod>>,
    /// Of what there is for volumes, by kind, namespace and name.
    others: BTreeMap<String, Value>,
}

impl Driver {
    pub fn new() -> Driver {
        let core = Core::new(vec![DEFAULT_NAME.into()], 0, 7);
        Driver { core, now: Instant::now(), revision: 0, nodes: Vec::new(), pods: Vec::new(), others: BTreeMap::new() }
    }

    /// With nodes of four cores, 8 GiB and ten pods each.
    pub fn with_nodes(count: usize) -> Driver {
        let mut driver = Driver::new();
        (0..count).for_each(|number| driver.node(&format!("n{number}"), json!({})));
        driver
    }

    pub fn node(&mut self, name: &str, more: Value) {
        self.revision += 1;
        let node = Arc::new(Node::of(&item(&node_json(name, more), self.revision)).unwrap());
        let place = self.nodes.iter().position(|known| known.name == name);
        let old = place.map(|place| self.nodes.swap_remove(place));
        self.core.node_changed(old.as_deref(), Some(&node), self.now);
        self.nodes.push(node);
    }

    pub fn no_node(&mut self, name: &str) {
        let place = self.nodes.iter().position(|known| known.name == name).unwrap();
        let old = self.nodes.swap_remove(place);
        self.core.node_changed(Some(&old), None, self.now);
    }

    pub fn pod(&mut self, name: &str, spec: Value) {
        self.object(&pod_json(name, spec));
    }

    pub fn object(&mut self, json: &Value) {
        self.revision += 1;
        let pod = Pod::of(&item(json, self.revision)).map(Arc::new);
        let name = json["metadata"]["name"].as_str().unwrap();
        let place = self.pods.iter().position(|known| known.name == name);
        let old = place.map(|place| self.pods.swap_remove(place));
        self.core.pod_changed(old.as_ref(), pod.as_ref(), self.now);
        self.pods.extend(pod);
    }

    pub fn no_pod(&mut self, name: &str) {
        let place = self.pods.iter().position(|known| known.name == name).unwrap();
        let old = self.pods.swap_remove(place);
        self.core.pod_changed(Some(&old), None, self.now);
    }

    /// Something that volumes are about is there, or is like this now.
    pub fn storage(&mut self, kind: &str, json: Value) {
        let key = format!("{kind}/{}/{}", json["metadata"]["namespace"], json["metadata"]["name"]);
        let (old, before) = (self.others.insert(key, json.clone()), self.revision);
        self.revision += 1;
        let old = old.map(|old| item(&old, before));
        self.tell(kind, old.as_ref(), Some(&item(&json, self.revision)));
    }

    pub fn no_storage(&mut self, kind: &str, namespace: Option<&str>, name: &str) {
        let key = format!("{kind}/{}/{}", json!(namespace), json!(name));
        let old = self.others.remove(&key).unwrap();
        self.tell(kind, Some(&item(&old, self.revision)), None);
    }

    fn tell(&mut self, kind: &str, old: Option<&Item>, new: Option<&Item>) {
        fn both<V>(old: Option<&Item>, new: Option<&Item>, view: fn(&Item) -> Option<V>) -> [Option<Arc<V>>; 2] {
            [old, new].map(|item| item.map(|item| Arc::new(view(item).unwrap())))
        }
        let (core, now) = (&mut self.core, self.now);
        macro_rules! tell {
            ($view:expr, $changed:ident) => {{
                let [old, new] = both(old, new, $view);
                core.$changed(old.as_ref(), new.as_ref(), now);
            }};
        }
        match kind {
            "claim" => tell!(Claim::of, claim_changed),
            "volume" => tell!(Volume::of, volume_changed),
            "class" => tell!(StorageClass::of, class_changed),
            "csi node" => tell!(CsiNode::of, csi_node_changed),
            "driver" => tell!(CsiDriver::of, csi_driver_changed),
            "capacity" => tell!(Capacity::of, capacity_changed),
            "attachment" => tell!(Attachment::of, attachment_changed),
            kind => panic!("{kind} is no kind of these"),
        }
    }

    /// The next thing that it does.
    pub fn step(&mut self) -> Step {
        self.core.step(self.now).unwrap()
    }

    pub fn pass(&mut self, time: Duration) {
        self.now += time;
    }

    /// Does all that there is to do; all bindings succeed. What was done, in words.
    pub fn work(&mut self) -> Vec<String> {
        let mut done = Vec::new();
        while let Some(step) = self.core.step(self.now) {
            done.push(match step {
                Step::Bind { pod, node, .. } => {
                    self.core.bound(&pod.uid, Bound::Done, self.now);
                    format!("{} to {node}", pod.name)
                }
                Step::Refused { pod, message, .. } => format!("{}: {message}", pod.name),
                Step::Skipped { pod } => format!("{} is deleted", pod.name),
            });
            self.core.snapshot().check().unwrap();
        }
        done
    }
}
