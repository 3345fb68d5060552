//! What real nodes and their pods use: each node is asked every few seconds at its own port, as metrics-server does, and what
//! came between two answers is the use.

mod text;
mod usage;

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::StreamExt as _;
use http_body_util::{BodyExt as _, Limited};
use parking_lot::RwLock;
use rkube_catalog::{Catalog, Object};
use rkube_machinery::host::Clock;
use rkube_machinery::value::Map;
use rkube_machinery::{Status, Text, Value, object, time};

use crate::kubelet::KubeletClient;
use crate::nodes::Nodes;
use crate::proxy::{Location, Proxy, Security};
use text::Scrape;
use usage::History;

/// How often nodes are asked.
const PERIOD: Duration = Duration::from_secs(15);
/// A node that was asked only once so far is asked again after so long, so that there is something to show soon.
const FIRST_PERIOD: Duration = Duration::from_secs(2);
/// A node that has not answered by then is asked the next time.
const TIMEOUT: Duration = Duration::from_secs(10);
/// So many nodes are asked at once.
const AT_ONCE: usize = 16;
/// An answer that is longer is no answer.
const ANSWER_BYTES_MAX: usize = 8 << 20;

/// What was found out.
pub struct NodeMetrics {
    clock: Arc<dyn Clock>,
    /// By node. One that is not there any more, or does not answer, is forgotten.
    known: RwLock<BTreeMap<Text, History>>,
}

/// How it is found out.
pub struct Asker {
    pub catalog: Weak<Catalog>,
    pub nodes: Arc<Nodes>,
    pub kubelet: KubeletClient,
    pub proxy: Arc<Proxy>,
    pub clock: Arc<dyn Clock>,
}

impl NodeMetrics {
    pub fn new(clock: &Arc<dyn Clock>) -> NodeMetrics {
        NodeMetrics { clock: clock.clone(), known: RwLock::default() }
    }

    /// What a node uses: an object of kind NodeMetrics without `kind` and `apiVersion`.
    pub fn node(&self, node: &Object) -> Option<Value> {
        self.known.read().get(&node.name)?.node(self.metadata(node))
    }

    /// The same of a pod on the node of this name.
    pub fn pod(&self, node: &str, pod: &Object) -> Option<Value> {
        let used = self.known.read().get(node)?.pod(&(pod.namespace.clone(), pod.name.clone()))?;
        Some(used.show(self.metadata(pod)))
    }

    fn metadata(&self, object: &Object) -> Value {
        let mut metadata = object! { "name": object.name.clone() };
        if !object.namespace.is_empty() {
            metadata.set("namespace", object.namespace.clone());
        }
        metadata.set("creationTimestamp", time::format_seconds(self.clock.now_seconds()));
        if !object.labels.is_empty() {
            let labels = object.labels.iter().map(|(key, value)| (key.clone(), value.clone().into())).collect();
            metadata.set("labels", Value::Object(Map::sorted(labels)));
        }
        metadata
    }
}

impl Asker {
    /// Asks all nodes over and over, until nobody wants to know any more.
    pub async fn run(self, metrics: Weak<NodeMetrics>) {
        loop {
            let Some(catalog) = self.catalog.upgrade() else { return };
            let locations = self.locations(&catalog);
            drop(catalog);
            let answers: Vec<(Text, Option<Scrape>)> = futures::stream::iter(locations)
                .map(|(name, location)| async {
                    let answer = tokio::time::timeout(TIMEOUT, self.ask(location)).await;
                    let why = match answer {
                        Ok(Ok(scrape)) => return (name, Some(scrape)),
                        Ok(Err(status)) => status.message,
                        Err(_) => "it does not answer in time".to_owned(),
                    };
                    tracing::debug!(node = %name, why, "a node does not say what it uses");
                    (name, None)
                })
                .buffer_unordered(AT_ONCE)
                .collect()
                .await;
            let Some(metrics) = metrics.upgrade() else { return };
            let is_whole = take(&metrics, answers);
            drop(metrics);
            tokio::time::sleep(if is_whole { PERIOD } else { FIRST_PERIOD }).await;
        }
    }

    /// The ports of the nodes that have one.
    fn locations(&self, catalog: &Catalog) -> Vec<(Text, Location)> {
        let Some(nodes) = catalog.resource("", "v1", "nodes") else { return Vec::new() };
        let items = nodes.snapshot().0;
        let simulated = |name: &str| self.nodes.provider().is_some_and(|provider| provider.has(name));
        let real = items.values().filter(|entry| !simulated(&entry.object.name));
        let located = real.filter_map(|entry| {
            let node = entry.object.value(0);
            let location = Location {
                security: Security::Kubelet,
                host: self.kubelet.address_of(&node)?.to_owned(),
                port: self.kubelet.port_of(&node).to_string(),
                path: "/metrics/resource".to_owned(),
                query: String::new(),
            };
            Some((entry.object.name.clone(), location))
        });
        located.collect()
    }

    async fn ask(&self, location: Location) -> Result<Scrape, Status> {
        let answer = self.proxy.get(&location, "text/plain").await?;
        let code = answer.status();
        let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|error| Status::internal(error.to_string()))?.to_bytes();
        if !code.is_success() {
            return Err(Status::internal(format!("status {code}")));
        }
        Ok(Scrape::parse(&String::from_utf8_lossy(&body), self.clock.now_micros() / 1000))
    }
}

/// Takes note of what nodes said. False: of one that answers there is nothing to show yet.
fn take(metrics: &NodeMetrics, answers: Vec<(Text, Option<Scrape>)>) -> bool {
    let mut known = metrics.known.write();
    let answered: HashSet<&Text> =
        answers.iter().filter(|(_, scrape)| scrape.is_some()).map(|(name, _)| name).collect();
    known.retain(|name, _| answered.contains(name));
    drop(answered);
    for (name, scrape) in answers {
        if let Some(scrape) = scrape {
            known.entry(name).or_default().add(scrape);
        }
    }
    known.values().all(History::is_whole)
}
