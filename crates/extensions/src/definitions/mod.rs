//! Definitions of custom resources become kinds that are served.
//!
//! One task follows the definitions and takes them one by one, so that of two that want the same name the first gets
//! it. What a definition's status is to be is a plan ([`plan`]); the catalog serves a kind before the status says so.
//! Every server does this for itself: where two write the same status, one of them finds it done.

// tidy: types CustomResourceDefinition

mod names;
mod plan;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::future::BoxFuture;
use rkube_catalog::{Catalog, Entry, Limit, Resource, Served, Subscription};
use rkube_kinds::custom::Definition;
use rkube_kinds::custom_resource_definition::{GROUP, RESOURCE, VERSION, is_condition_true};
use rkube_machinery::host::Clock;
use rkube_machinery::{Status, Text, Value};
use tokio::time::Instant;

use crate::conversion::Converters;
use names::Names;
use plan::Step;

/// So many changes of definitions are taken at once.
const TAKEN_AT_ONCE: Limit = Limit { events: 256, bytes: 4 * 1024 * 1024 };
/// How long a definition that could not be dealt with waits: the first time, and at most.
const RETRY_MIN: Duration = Duration::from_millis(20);
const RETRY_MAX: Duration = Duration::from_secs(5);

/// What is asked of the server, under its own name.
pub trait Requests: Send + Sync {
    /// Replaces the status (and finalizers) of a definition, if it is still the one of its resource version.
    fn put_status(&self, definition: Value) -> BoxFuture<'_, Result<(), Status>>;

    /// Deletes an object as a client would. That it is gone already is fine.
    fn delete<'a>(&'a self, served: &'a Arc<Served>, entry: &'a Entry) -> BoxFuture<'a, Result<(), Status>>;
}

/// All that is known of the definitions, and what is to be done about them.
pub struct Definitions {
    catalog: Arc<Catalog>,
    requests: Weak<dyn Requests>,
    clock: Arc<dyn Clock>,
    definitions: Arc<Resource>,
    /// Who converts between versions; where nobody does they differ in nothing but their name.
    converters: Option<Converters>,
    /// What the catalog serves, by the names of definitions.
    served: HashMap<Text, Mark>,
    names: Names,
    /// Which definitions to look at, and when.
    due: HashMap<Text, Due>,
}

/// Of what a served kind was made.
#[derive(PartialEq)]
struct Mark {
    uid: Text,
    generation: i64,
    accepted: Value,
}

struct Due {
    at: Instant,
    delay: Duration,
}

/// When a definition is to be looked at again.
enum Next {
    Changed,
    Retry,
}

impl Definitions {
    /// None where definitions are not served.
    pub fn new(catalog: Arc<Catalog>, requests: Weak<dyn Requests>, clock: Arc<dyn Clock>) -> Option<Definitions> {
        let definitions = catalog.resource(GROUP, VERSION, RESOURCE)?;
        let (served, names, due) = (HashMap::new(), Names::default(), HashMap::new());
        Some(Definitions { catalog, requests, clock, definitions, converters: None, served, names, due })
    }

    /// Has webhooks convert where definitions say so.
    pub fn with_converters(self, converters: Converters) -> Definitions {
        Definitions { converters: Some(converters), ..self }
    }

    /// Serves what the definitions that are there ask for, then follows their changes until `end`.
    pub async fn start(mut self, end: impl Future<Output = ()> + Send + 'static) {
        let subscription = self.list();
        self.work().await;
        tokio::spawn(async move {
            tokio::select! {
                biased;
                () = end => {}
                () = self.follow(subscription) => {}
            }
        });
    }

    async fn follow(mut self, mut subscription: Subscription) {
        loop {
            let next = self.due.values().map(|due| due.at).min();
            let wait = async {
                match next {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                taken = subscription.next(TAKEN_AT_ONCE) => match taken {
                    Ok(Some(taken)) => taken.events.iter().for_each(|event| self.touch(event.object.name.clone())),
                    Ok(None) => return,
                    Err(_) => subscription = self.list(),
                },
                () = wait => {}
            }
            self.work().await;
        }
    }

    /// Marks all definitions to be looked at, and those that were known. The names that they have are theirs before
    /// any of them asks for more.
    fn list(&mut self) -> Subscription {
        loop {
            let (items, revision) = self.definitions.snapshot();
            self.served.keys().cloned().collect::<Vec<_>>().into_iter().for_each(|name| self.touch(name));
            for entry in items.values() {
                let definition = entry.object.value(entry.revision);
                self.names.note(&entry.object.name, definition.get("spec").str("group"), definition.get("status"));
                self.touch(entry.object.name.clone());
            }
            if let Ok(subscription) = self.definitions.subscribe("", revision) {
                return subscription;
            }
        }
    }

    fn touch(&mut self, name: Text) {
        self.due.insert(name, Due { at: Instant::now(), delay: RETRY_MIN });
    }

    /// Looks at every definition whose time has come.
    async fn work(&mut self) {
        loop {
            let now = Instant::now();
            let mut due: Vec<Text> =
                self.due.iter().filter(|(_, due)| due.at <= now).map(|(name, _)| name.clone()).collect();
            if due.is_empty() {
                return;
            }
            // Who came first has the names.
            due.sort_by_cached_key(|name| (self.definitions.find("", name).map(|entry| entry.revision), name.clone()));
            for name in due {
                let Some(done) = self.due.remove(&name) else { continue };
                match self.reconcile(&name).await {
                    Next::Changed => {}
                    Next::Retry => {
                        let due = Due { at: Instant::now() + done.delay, delay: (done.delay * 2).min(RETRY_MAX) };
                        self.due.entry(name).or_insert(due);
                    }
                }
            }
        }
    }

    /// Does what one definition needs.
    async fn reconcile(&mut self, name: &Text) -> Next {
        let Some(requests) = self.requests.upgrade() else { return Next::Changed };
        let Some(entry) = self.definitions.find("", name) else {
            self.forget(name).await;
            return Next::Changed;
        };
        let found = entry.object.value(entry.revision);
        let mut planned = found.clone();
        let taken = self.names.of_group(found.get("spec").str("group"));
        let now = self.clock.now_seconds();
        plan::settle(&mut planned, &taken, now);
        if self.served.get(name).is_none_or(|mark| mark.generation != found.get("metadata").int("generation")) {
            plan::check_schemas(&mut planned, now);
        }
        if let Err(why) = self.serve(name, &planned).await {
            tracing::warn!(definition = %name, why, "a custom resource cannot be served");
            return Next::Retry;
        }
        if planned != found {
            if let Err(next) = put(&*requests, planned.clone(), name).await {
                return next;
            }
            let released = self.names.note(name, planned.get("spec").str("group"), planned.get("status"));
            self.touch_waiting(released.as_deref());
            return Next::Changed;
        }
        let released = self.names.note(name, found.get("spec").str("group"), found.get("status"));
        self.touch_waiting(released.as_deref());
        self.terminate(&*requests, name, planned).await
    }

    /// The definition is gone, and with it what was served.
    async fn forget(&mut self, name: &Text) {
        if self.served.remove(name).is_some()
            && let Some((resource, group)) = name.split_once('.')
        {
            self.catalog.remove(group, resource).await;
        }
        let released = self.names.forget(name);
        self.touch_waiting(released.as_deref());
    }

    /// Names of this group are free again: those who could not have theirs may have them now.
    fn touch_waiting(&mut self, group: Option<&str>) {
        let Some(group) = group else { return };
        for name in self.names.waiting(group) {
            self.touch(name);
        }
    }

    /// Serves what the definition asks for, as far as its names are accepted.
    async fn serve(&mut self, name: &Text, definition: &Value) -> Result<(), String> {
        if !is_condition_true(definition, "NamesAccepted") && !is_condition_true(definition, "Established") {
            return Ok(());
        }
        let metadata = definition.get("metadata");
        let mark = Mark {
            uid: metadata.str("uid").into(),
            generation: metadata.int("generation"),
            accepted: definition.get("status").get("acceptedNames").clone(),
        };
        if self.served.get(name) != Some(&mark) {
            let kinds = Definition::read(definition).map_err(|error| error.to_string())?;
            let converter = self.converters.as_ref().and_then(|converters| converters.of(definition));
            self.catalog.replace(kinds, converter).await.map_err(|error| error.to_string())?;
            self.served.insert(name.clone(), mark);
        }
        if is_condition_true(definition, "Terminating")
            && let Some(resource) = self.resource(definition)
        {
            resource.gate.close().await;
        }
        Ok(())
    }

    /// The objects of a definition.
    fn resource(&self, definition: &Value) -> Option<Arc<Resource>> {
        let spec = definition.get("spec");
        let prefix = format!("{}/{}", spec.str("group"), spec.get("names").str("plural"));
        self.catalog.cache().resource(&prefix)
    }

    /// Takes a definition that is being deleted one step on: its objects go before it does.
    async fn terminate(&mut self, requests: &dyn Requests, name: &Text, mut definition: Value) -> Next {
        let now = self.clock.now_seconds();
        match plan::termination(&mut definition, now) {
            Step::Nothing => return Next::Changed,
            Step::Announce => {}
            Step::Empty => {
                let resource = self.resource(&definition);
                if let Some(resource) = resource {
                    if let Err(why) = empty(requests, resource.clone()).await {
                        let before = definition.get("status").clone();
                        plan::deletion_failed(&mut definition, &why, now);
                        if *definition.get("status") != before {
                            // Whether it could be said or not, it is tried again.
                            let _ = put(requests, definition, name).await;
                        }
                        return Next::Retry;
                    }
                    if resource.count() > 0 {
                        return Next::Retry;
                    }
                }
                plan::deletion_completed(&mut definition, now);
            }
        }
        put(requests, definition, name).await.map_or_else(|next| next, |()| Next::Changed)
    }
}

/// Writes the status. One that another writer changed comes again by itself.
async fn put(requests: &dyn Requests, definition: Value, name: &str) -> Result<(), Next> {
    match requests.put_status(definition).await {
        Ok(()) => Ok(()),
        Err(status) if matches!(status.code, 404 | 409) => Err(Next::Retry),
        Err(status) => {
            tracing::warn!(definition = name, why = status.message, "cannot write the status of a definition");
            Err(Next::Retry)
        }
    }
}

/// Deletes every object. Some may have finalizers and stay for a while.
async fn empty(requests: &dyn Requests, resource: Arc<Resource>) -> Result<(), String> {
    let served = Arc::new(Served::of_storage(resource.clone()));
    let mut failed = Vec::new();
    for entry in resource.snapshot().0.values().filter(|entry| !entry.object.deleting) {
        if let Err(status) = requests.delete(&served, entry).await {
            failed.push(status.message);
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(plan::aggregate(failed)) }
}
