//! A node for tests: a runtime, a preparer and an API that do as they are told, in virtual time.

mod api;
mod prepare;
mod runtime;

pub use runtime::{Behaviour, FakeRuntime};

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use rkube_machinery::host::{Clock, Entropy};
use rkube_machinery::{Value, json, object};
use rkube_operator::{Caches, Manager};
use tokio::time::Instant;

use super::config::{Config, Directories, PODS_MAX};
use super::machine::Machine;
use super::{Pods, start};
use api::FakeApi;
use prepare::FakePrepare;

/// Any time of this century.
const BEGIN_SECONDS: i64 = 1_800_000_000;

pub const NODE: &str = "n1";

/// The time of the tests: that of tokio, which goes on when nobody has anything to do.
pub struct VirtualClock(Instant);

impl Clock for VirtualClock {
    fn now_micros(&self) -> i64 {
        BEGIN_SECONDS * 1_000_000 + i64::try_from(self.0.elapsed().as_micros()).unwrap()
    }
}

struct Zeros;

impl Entropy for Zeros {
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill(0);
    }
}

/// A whole node with its API.
pub struct TestNode {
    pub runtime: Arc<FakeRuntime>,
    pub prepare: Arc<FakePrepare>,
    pub api: Arc<FakeApi>,
    pub pods: Arc<Pods>,
    pub directory: tempfile::TempDir,
    clock: Arc<VirtualClock>,
    manager: Option<Manager>,
}

impl TestNode {
    pub async fn start() -> TestNode {
        let clock = Arc::new(VirtualClock(Instant::now()));
        let runtime = FakeRuntime::new(clock.clone());
        let mut node = TestNode {
            runtime,
            prepare: Arc::default(),
            api: Arc::default(),
            pods: Arc::default(),
            directory: tempfile::tempdir().unwrap(),
            clock,
            manager: None,
        };
        node.boot().await;
        node
    }

    /// Starts the kubelet, with what the runtime has from before.
    pub async fn boot(&mut self) {
        let root = self.directory.path();
        let (manager, pods) = start(Config {
            name: NODE.into(),
            caches: Caches::new(self.api.clone()),
            client: self.api.client(),
            runtime: self.runtime.clone(),
            prepare: self.prepare.clone(),
            clock: self.clock.clone(),
            entropy: Arc::new(Zeros),
            addresses: vec![Ipv4Addr::new(192, 0, 2, 1).into()],
            labels: Vec::new(),
            taints: Vec::new(),
            machine: Machine { cpus: 4, memory_bytes: 4 << 30, ..Machine::default() },
            directories: Directories {
                pod_logs: root.join("pods"),
                container_logs: root.join("containers"),
                static_pods: Some(root.join("manifests")),
            },
            pods_max: PODS_MAX,
            port: 10250,
            pod_ranges: Vec::new(),
        });
        (self.manager, self.pods) = (Some(manager), pods);
        self.settle().await;
    }

    /// As `kill -9`: nobody hears of it.
    pub async fn crash(&mut self) {
        if let Some(mut manager) = self.manager.take() {
            manager.shutdown().await;
        }
    }

    /// Lets all that can happen now happen.
    pub async fn settle(&self) {
        self.after(Duration::from_millis(200)).await;
    }

    pub async fn after(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    pub async fn seconds(&self, seconds: u64) {
        self.after(Duration::from_secs(seconds)).await;
    }

    /// Makes a pod that is bound to the node. `spec` is JSON without its braces.
    pub async fn create(&self, name: &str, spec: &str) {
        self.create_with(name, "", spec).await;
    }

    pub async fn create_with(&self, name: &str, metadata: &str, spec: &str) {
        let policy = if spec.starts_with("\"restartPolicy") { "" } else { r#""restartPolicy":"Always","# };
        let text = format!(
            r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{name}","namespace":"ns","uid":"uid-{name}","generation":1{metadata}}},
            "spec":{{"nodeName":"{NODE}","terminationGracePeriodSeconds":30,{policy}{spec}}},"status":{{"phase":"Pending"}}}}"#
        );
        self.api.put("pods", json::parse(text.as_bytes()).unwrap());
        self.settle().await;
    }

    pub async fn delete(&self, name: &str, grace_seconds: i64) {
        let mut pod = self.pod(name).unwrap();
        let metadata = pod.object_mut("metadata");
        metadata.set("deletionTimestamp", "2027-01-15T08:00:00Z");
        metadata.set("deletionGracePeriodSeconds", grace_seconds);
        self.api.put("pods", pod);
        self.settle().await;
    }

    pub fn pod(&self, name: &str) -> Option<Value> {
        self.api.get("pods", "ns", name)
    }

    /// Phase, and what each container is: `name:state*restarts`, with `+` where it is ready; `gone` where it is not there.
    pub fn shows(&self, name: &str) -> String {
        let Some(pod) = self.pod(name) else { return "gone".to_owned() };
        let status = pod.get("status");
        let mut text = status.str("phase").to_owned();
        if !status.str("reason").is_empty() {
            text = format!("{text}({})", status.str("reason"));
        }
        for list in ["initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"] {
            for container in status.list(list) {
                let state = container.get("state");
                let what = match (state.get("waiting"), state.get("terminated")) {
                    (Value::Null, Value::Null) => "running".to_owned(),
                    (Value::Null, exit) => exit.int("exitCode").to_string(),
                    (waiting, _) => waiting.str("reason").to_owned(),
                };
                let ready = if container.bool("ready") { "+" } else { "" };
                let restarts = match container.int("restartCount") {
                    0 => String::new(),
                    count => format!("*{count}"),
                };
                text.push_str(&format!(" {}:{what}{restarts}{ready}", container.str("name")));
            }
        }
        text
    }

    pub fn status(&self, name: &str, list: &str, number: usize) -> Value {
        self.pod(name).unwrap_or_else(|| object! {}).get("status").list(list)[number].clone()
    }

    /// Reasons of the events about a pod, with how often each was told, in the order of their first.
    pub fn events(&self, name: &str) -> Vec<String> {
        self.api.events(name).iter().map(|event| event.str("reason").to_owned()).collect()
    }
}
