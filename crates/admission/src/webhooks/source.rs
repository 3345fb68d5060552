//! The webhooks that there are: those of all configurations by the name of the configuration, each in its own order.
//! What has changed is read when the next request comes, so that no request goes by a configuration that was
//! acknowledged before it; what has not is kept, connections included.

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use parking_lot::Mutex;
use rkube_catalog::Resource;
use rkube_extensions::webhook::Resolver;
use rkube_machinery::Text;

use super::hook::Hook;
use super::rules::Operations;
use crate::Operation;

/// Stands for every resource.
const ANY: &str = "*";

pub struct Source {
    /// The configurations; none where their kind is not served.
    configurations: Option<Arc<Resource>>,
    resolver: Arc<dyn Resolver>,
    current: ArcSwap<Hooks>,
    /// Held while webhooks are read.
    reading: Mutex<()>,
}

/// All webhooks at one moment.
#[derive(Default)]
pub struct Hooks {
    /// What the configurations said of their changes then; none before they were read for the first time.
    changes: Option<u64>,
    pub all: Vec<Arc<Hook>>,
    /// By configuration and its revision.
    kept: HashMap<Arc<str>, (u64, Vec<Arc<Hook>>)>,
    /// Which operations anybody wants to know of, by the name of the resource.
    wanted: HashMap<Text, Operations>,
    wanted_of_any: Operations,
}

impl Source {
    pub fn new(configurations: Option<Arc<Resource>>, resolver: Arc<dyn Resolver>) -> Source {
        Source { configurations, resolver, current: ArcSwap::default(), reading: Mutex::default() }
    }

    /// The webhooks now. Costs next to nothing where no configuration has changed.
    pub fn hooks(&self) -> Guard<Arc<Hooks>> {
        let current = self.current.load();
        let Some(configurations) = &self.configurations else { return current };
        if current.changes == Some(configurations.changes()) {
            return current;
        }
        drop(current);
        let _reading = self.reading.lock();
        let before = self.current.load_full();
        // What changes in between is read again by who comes next.
        let changes = configurations.changes();
        if before.changes != Some(changes) {
            let read = Hooks::read(&before, changes, configurations, &self.resolver);
            self.current.store(Arc::new(read));
        }
        self.current.load()
    }
}

impl Hooks {
    fn read(before: &Hooks, changes: u64, configurations: &Resource, resolver: &Arc<dyn Resolver>) -> Hooks {
        let mut hooks = Hooks { changes: Some(changes), ..Hooks::default() };
        for (key, entry) in configurations.snapshot().0.iter() {
            let kept = before.kept.get(key).filter(|(revision, _)| *revision == entry.revision);
            let own = kept.map(|(_, own)| own.clone());
            let own = own.unwrap_or_else(|| Hook::of(entry.object.tree(), resolver));
            hooks.all.extend(own.iter().cloned());
            hooks.kept.insert(key.clone(), (entry.revision, own));
        }
        for rule in hooks.all.iter().flat_map(|hook| &hook.rules) {
            for resource in rule.resources() {
                match resource.as_str() {
                    ANY => hooks.wanted_of_any.add(rule.operations),
                    _ => hooks.wanted.entry(resource.clone()).or_default().add(rule.operations),
                }
            }
        }
        hooks
    }

    /// Whether a webhook may want to know of such a request. Versions of the same objects have the same name, so nobody
    /// is missed; who really does, its rules say.
    pub fn may_want(&self, resource: &str, operation: Operation) -> bool {
        if self.all.is_empty() {
            return false;
        }
        self.wanted_of_any.has(operation) || self.wanted.get(resource).is_some_and(|wanted| wanted.has(operation))
    }
}
