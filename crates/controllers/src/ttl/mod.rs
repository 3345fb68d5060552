//! Says to nodes how long they may use what they know of Secrets and ConfigMaps: the longer, the more nodes there are to
//! ask. Watches nodes; writes an annotation of them.

use std::sync::Arc;

use parking_lot::Mutex;
use rkube_operator::{Action, Key, Queue};
use serde_json::json;

use crate::Context;
use crate::nodes::{self, TTL};
use crate::requests::{self, escaped, is_not_found};

const NAME: &str = "ttl-controller";
/// As many nodes at a time as upstream's.
const WORKERS: usize = 5;

/// From how many nodes on a step is left downwards, up to how many it holds, and its seconds. Steps overlap, so that a node
/// that comes and goes changes nothing for the others.
const STEPS: [(usize, usize, i64); 5] =
    [(0, 100, 0), (90, 500, 15), (450, 1000, 30), (900, 2000, 60), (1800, usize::MAX, 300)];

/// The size of the cluster, and the step that it is on.
#[derive(Debug, Default)]
struct Size {
    nodes: usize,
    step: usize,
}

impl Size {
    /// Whether another step was reached.
    fn add(&mut self) -> bool {
        self.nodes += 1;
        let above = self.nodes > STEPS[self.step].1;
        self.step += usize::from(above);
        above
    }

    fn remove(&mut self) -> bool {
        self.nodes = self.nodes.saturating_sub(1);
        let below = self.nodes < STEPS[self.step].0;
        self.step -= usize::from(below);
        below
    }

    fn seconds(&self) -> i64 {
        STEPS[self.step].2
    }
}

pub async fn run(context: Context) {
    let Context { client, caches, .. } = context;
    let queue: Queue<Key> = Queue::new();
    let size: Arc<Mutex<Size>> = Arc::default();
    let (adding, counting, all) = (queue.clone(), size.clone(), nodes::informer(&caches));
    let nodes = nodes::informer(&caches).on_change(move |change| {
        let mut size = counting.lock();
        let moved = match (change.old, change.new) {
            (None, Some(_)) => size.add(),
            (Some(_), None) => size.remove(),
            _ => false,
        };
        if moved {
            all.keys().into_iter().for_each(|key| adding.add(key));
        } else if change.new.is_some_and(|node| node.ttl != Some(size.seconds())) {
            adding.add(change.key.clone());
        }
    });
    nodes.synced().await;
    let nodes = Arc::new(nodes);
    rkube_operator::run(NAME, queue, WORKERS, move |key: Key| {
        let (client, nodes, seconds) = (client.clone(), nodes.clone(), size.lock().seconds());
        async move {
            if nodes.get("", &key.name).is_none_or(|node| node.ttl == Some(seconds)) {
                return Ok(Action::done());
            }
            let patch = json!({ "metadata": { "annotations": { TTL: seconds.to_string() } } });
            match requests::patch(&client, &format!("/api/v1/nodes/{}", escaped(&key.name)), &patch).await {
                Err(error) if is_not_found(&error) => Ok(Action::done()),
                other => other.map(|_| Action::wrote()),
            }
        }
    })
    .await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_more_nodes_the_longer() {
        let mut size = Size::default();
        let mut changes = Vec::new();
        for _ in 0..2500 {
            if size.add() {
                changes.push((size.nodes, size.seconds()));
            }
        }
        assert_eq!(changes, [(101, 15), (501, 30), (1001, 60), (2001, 300)]);
        changes.clear();
        for _ in 0..2500 {
            if size.remove() {
                changes.push((size.nodes, size.seconds()));
            }
        }
        assert_eq!(changes, [(1799, 60), (899, 30), (449, 15), (89, 0)]);
    }
}
