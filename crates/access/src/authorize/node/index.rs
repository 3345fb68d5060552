//! What the pods of nodes refer to.
//!
//! Only nodes that asked are in it, and only as long as they have pods: simulated ones never ask, and cost nothing. The index
//! follows the catalog when it is asked, as that of roles does: a pod that was bound counts for every request after that.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::{RwLock, RwLockWriteGuard};
use rkube_catalog::{EventType, Limit, Object, Resource, Subscription};
use rkube_machinery::Text;

use super::references::{self, Reference};

/// All events that there are.
const NO_LIMIT: Limit = Limit { events: usize::MAX, bytes: usize::MAX };

pub struct Pods {
    resource: Arc<Resource>,
    /// Where an object's header has the name of its node.
    node_field: usize,
    state: RwLock<State>,
}

#[derive(Default)]
struct State {
    known: Option<Known>,
    nodes: HashMap<Text, OfNode>,
    /// Which node has a pod, by namespace and name.
    placed: HashMap<(Text, Text), Text>,
}

struct Known {
    changes: u64,
    subscription: Subscription,
}

/// The pods of a node, by namespace and name.
type OfNode = HashMap<(Text, Text), Vec<Reference>>;

impl Pods {
    pub fn new(resource: Arc<Resource>) -> Option<Pods> {
        let node_field = resource.kind.selectable.labels().position(|label| label == "spec.nodeName")?;
        Some(Pods { resource, node_field, state: RwLock::default() })
    }

    /// Whether a pod of this name is on the node.
    pub fn has(&self, node: &str, namespace: &str, name: &str) -> bool {
        let found = self.resource.find(namespace, name);
        found.is_some_and(|entry| entry.object.fields.get(self.node_field).is_some_and(|on| on == node))
    }

    /// Whether a pod of the node refers to this.
    pub fn refer(&self, node: &str, namespace: &str, reference: &Reference) -> bool {
        self.ask(node, |pods| {
            pods.iter().any(|((of, _), references)| of == namespace && references.contains(reference))
        })
    }

    /// What the pods of a node refer to of one kind, with their namespaces.
    pub fn referred(&self, node: &str, kind: references::Kind) -> Vec<(Text, Text)> {
        self.ask(node, |pods| {
            let all = pods.iter().flat_map(|((namespace, _), found)| found.iter().map(move |one| (namespace, one)));
            all.filter(|(_, one)| one.0 == kind).map(|(namespace, one)| (namespace.clone(), one.1.clone())).collect()
        })
    }

    fn ask<T>(&self, node: &str, ask: impl Fn(&OfNode) -> T) -> T {
        let state = self.state.read();
        let is_current = state.known.as_ref().is_some_and(|known| known.changes == self.resource.changes());
        if let Some(pods) = state.nodes.get(node).filter(|_| is_current) {
            return ask(pods);
        }
        drop(state);
        let mut state = self.state.write();
        self.catch_up(&mut state);
        if !state.nodes.contains_key(node) {
            self.add_node(&mut state, node);
        }
        let state = RwLockWriteGuard::downgrade(state);
        match state.nodes.get(node) {
            Some(pods) => ask(pods),
            None => ask(&OfNode::new()),
        }
    }

    fn catch_up(&self, state: &mut State) {
        // Looked at first: what changes meanwhile is seen now and looked for once more.
        let changes = self.resource.changes();
        if let Some(known) = &mut state.known {
            if known.changes == changes {
                return;
            }
            if let Ok(taken) = known.subscription.take(NO_LIMIT) {
                known.changes = changes;
                for event in taken.events {
                    self.put(state, &event.object, event.event_type == EventType::Deleted);
                }
                return;
            }
        }
        // The events since then are not kept any more, or this is the first look.
        let (items, subscription) = self.resource.follow(0);
        state.placed.clear();
        state.nodes.values_mut().for_each(HashMap::clear);
        items.values().for_each(|entry| self.put(state, &entry.object, false));
        state.nodes.retain(|_, pods| !pods.is_empty());
        state.known = Some(Known { changes, subscription });
    }

    /// A node that asks for the first time, or had no pods before.
    fn add_node(&self, state: &mut State, node: &str) {
        let (items, _) = self.resource.snapshot();
        let on_it = |object: &Object| object.fields.get(self.node_field).is_some_and(|on| on == node);
        let mut theirs = items.values().filter(|entry| on_it(&entry.object)).peekable();
        if theirs.peek().is_some() {
            state.nodes.insert(node.into(), OfNode::new());
            theirs.for_each(|entry| self.put(state, &entry.object, false));
        }
    }

    fn put(&self, state: &mut State, pod: &Object, is_deleted: bool) {
        let node = pod.fields.get(self.node_field).cloned().unwrap_or_default();
        let is_asked_for = !is_deleted && state.nodes.contains_key(&node);
        if !is_asked_for && state.placed.is_empty() {
            return;
        }
        let name = (pod.namespace.clone(), pod.name.clone());
        if let Some(before) = state.placed.remove(&name)
            && let Some(pods) = state.nodes.get_mut(&before)
        {
            pods.remove(&name);
            if pods.is_empty() && !(is_asked_for && before == node) {
                state.nodes.remove(&before);
            }
        }
        if let Some(pods) = state.nodes.get_mut(&node).filter(|_| is_asked_for) {
            pods.insert(name.clone(), references::of_pod(&pod.value(0)));
            state.placed.insert(name, node);
        }
    }

    #[cfg(test)]
    pub fn nodes(&self) -> usize {
        self.state.read().nodes.len()
    }
}
