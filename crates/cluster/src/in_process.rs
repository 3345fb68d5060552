//! The source of the controllers in this process: the catalog's own objects, under a component's user.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use futures::{FutureExt as _, StreamExt as _};
use rkube_access::UserRef;
use rkube_apiserver::{ApiServer, Followed, Scope};
use rkube_catalog::{CachedEvent, Entry, EventType, Limit, Object, Served, Snapshot, Subscription};
use rkube_machinery::selector::{fields, labels};
use rkube_machinery::{Text, json, names};
use rkube_operator::kube::core::ApiResource;
use rkube_operator::{Discovered, Event, Item, Selection, Source};

/// At most so much is taken from the ring of events at once.
const BATCH: Limit = Limit { events: 256, bytes: 4 << 20 };
/// How long until a watch is begun again that was refused.
const AGAIN: Duration = Duration::from_secs(1);
/// Definitions that come together are told of together.
const DISCOVERY_DELAY: Duration = Duration::from_millis(10);

pub struct InProcess {
    server: Arc<ApiServer>,
    user: UserRef,
}

impl InProcess {
    pub fn new(server: Arc<ApiServer>, user: UserRef) -> InProcess {
        InProcess { server, user }
    }
}

impl Source for InProcess {
    fn follow(&self, resource: &ApiResource, selection: &Selection) -> BoxStream<'static, Event> {
        let follower = Follower {
            server: self.server.clone(),
            user: self.user.clone(),
            resource: resource.clone(),
            selection: Selected::new(selection),
            state: State::Start,
            pending: VecDeque::new(),
        };
        stream::unfold(follower, |mut follower| async move { Some((follower.next().await?, follower)) }).boxed()
    }

    fn last_change(&self, resource: &ApiResource) -> Option<u64> {
        let ApiResource { group, version, plural, .. } = resource;
        Some(self.server.catalog().resource(group, version, plural)?.last_change())
    }

    fn discover(&self) -> BoxStream<'static, Vec<Discovered>> {
        let server = self.server.clone();
        let generations = server.catalog().generations();
        let found = stream::unfold((server, generations, true), |(server, mut generations, first)| async move {
            if !first {
                generations.changed().await.ok()?;
                tokio::time::sleep(DISCOVERY_DELAY).await;
                generations.mark_unchanged();
            }
            let found = discovered(&server.catalog().snapshot());
            Some((found, (server, generations, false)))
        });
        found.boxed()
    }

    fn resources(&self) -> BoxFuture<'static, Result<Vec<Discovered>, String>> {
        std::future::ready(Ok(discovered(&self.server.catalog().snapshot()))).boxed()
    }
}

struct Follower {
    server: Arc<ApiServer>,
    user: UserRef,
    resource: ApiResource,
    selection: Selected,
    state: State,
    /// What was taken and is not told yet.
    pending: VecDeque<Event>,
}

enum State {
    /// Everything is to be listed.
    Start,
    Following {
        served: Arc<Served>,
        changes: Subscription,
    },
}

impl Follower {
    /// None: the resource is served no more.
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.pending.pop_front() {
                return Some(event);
            }
            match &mut self.state {
                State::Start => {
                    if let Some(listed) = self.start().await? {
                        return Some(listed);
                    }
                    tokio::time::sleep(AGAIN).await;
                }
                State::Following { served, changes } => match changes.next(BATCH).await {
                    Ok(Some(taken)) => {
                        let wanted = taken.events.iter().filter(|event| self.selection.may_have(&event.object));
                        self.pending.extend(wanted.map(|event| told(served, &self.selection, event)));
                        if !self.selection.is_everything {
                            // What was left out was seen, too.
                            self.pending.push_back(Event::Progress(changes.revision()));
                        }
                    }
                    // It ended, or this fell behind: what is there now is told as a whole.
                    Ok(None) | Err(_) => self.state = State::Start,
                },
            }
        }
    }

    /// Begins to follow; tells what is there. `Some(None)`: not now.
    async fn start(&mut self) -> Option<Option<Event>> {
        let name = (self.resource.group.as_str(), self.resource.version.as_str(), self.resource.plural.as_str());
        let scope = self.selection.scope();
        let Followed { served, items, changes } =
            match self.server.follow(&self.user, name, scope, self.selection.metadata_only).await {
                Ok(followed) => followed,
                Err(status) if status.code == 404 => return None,
                Err(status) => {
                    tracing::warn!(resource = name.2, why = status.message, "objects cannot be followed; trying again");
                    return Some(None);
                }
            };
        let wanted = items.values().filter(|entry| self.selection.has(&served, &entry.object));
        let listed = wanted.map(|entry| item(&served, &self.selection, entry)).collect();
        self.pending.push_back(Event::Progress(changes.revision()));
        self.state = State::Following { served, changes };
        Some(Some(Event::Listed(listed)))
    }
}

/// A selection, ready to be compared with objects.
struct Selected {
    is_everything: bool,
    metadata_only: bool,
    name: Option<&'static str>,
    namespace: Option<Text>,
    labels: Option<labels::Selector>,
    fields: Option<fields::Selector>,
    /// The same as it was given.
    field_selector: Text,
}

impl Selected {
    /// What the user has to be allowed to follow.
    fn scope(&self) -> Scope<'_> {
        Scope {
            namespace: self.namespace.as_deref().unwrap_or_default(),
            name: self.name.unwrap_or_default(),
            field_selector: &self.field_selector,
        }
    }

    /// What cannot be read selects nothing, and is logged.
    fn new(selection: &Selection) -> Selected {
        let refused = |text: &Text, why: String| tracing::error!(selector = %text, why, "nothing is selected");
        let labels = selection.labels.as_ref().map(|text| {
            let parsed = labels::Selector::parse(text);
            parsed.map_err(|error| refused(text, error.to_string())).unwrap_or_else(|()| labels::Selector::nothing())
        });
        let fields = selection.fields.as_ref().map(|text| {
            let parsed = fields::Selector::parse(text);
            // No object has such a field.
            parsed
                .map_err(|error| refused(text, error.to_string()))
                .unwrap_or_else(|()| fields::Selector::exactly("!", "!"))
        });
        Selected {
            is_everything: selection.is_everything(),
            metadata_only: selection.metadata_only,
            name: selection.name,
            namespace: selection.namespace.clone(),
            labels,
            fields,
            field_selector: selection.fields.clone().unwrap_or_default(),
        }
    }

    /// By what never changes of an object.
    fn may_have(&self, object: &Object) -> bool {
        self.name.is_none_or(|name| object.name == name)
            && self.namespace.as_ref().is_none_or(|namespace| object.namespace == *namespace)
    }

    fn has(&self, served: &Served, object: &Object) -> bool {
        if self.is_everything {
            return true;
        }
        let field = |name: &str| match name {
            "metadata.name" => Some(object.name.as_str()),
            "metadata.namespace" => Some(object.namespace.as_str()),
            _ => {
                let place = served.kind.selectable.labels().position(|selectable| selectable == name)?;
                object.fields.get(place).map(Text::as_str)
            }
        };
        self.may_have(object)
            && self.labels.as_ref().is_none_or(|labels| labels.matches_pairs(|key| object.label(key)))
            && self.fields.as_ref().is_none_or(|fields| fields.matches(field))
    }
}

/// What is not selected (any more) is told to be gone: who did not know of it does not care.
fn told(served: &Served, selection: &Selected, event: &CachedEvent) -> Event {
    let entry = Entry::new(event.object.clone(), event.revision);
    let item = item(served, selection, &entry);
    match event.event_type {
        EventType::Added | EventType::Modified if selection.has(served, &event.object) => Event::Applied(item),
        EventType::Added | EventType::Modified | EventType::Deleted => Event::Deleted(item),
    }
}

/// The object's own bytes; only a built-in kind that is served in another version than it is stored in is written anew.
fn item(served: &Served, selection: &Selected, entry: &Entry) -> Item {
    let object = &entry.object;
    let json = match &served.kind.conversion {
        Some(_) if !selection.metadata_only => json::to_string(&served.value(entry)).into(),
        _ => object.stored(),
    };
    Item {
        namespace: object.namespace.clone(),
        name: object.name.clone(),
        uid: object.uid.clone(),
        revision: entry.revision,
        json,
    }
}

/// All resources of all versions, as discovery shows them.
fn discovered(catalog: &Snapshot) -> Vec<Discovered> {
    let mut preferred: HashMap<(&str, &str), &str> = HashMap::new();
    for kind in catalog.all().iter().map(|served| &served.kind) {
        let best = preferred.entry((&kind.group, &kind.resource)).or_insert(&kind.version);
        if names::compare_versions(&kind.version, best).is_lt() {
            *best = &kind.version;
        }
    }
    let found = catalog.all().iter().map(|served| {
        let kind = &served.kind;
        Discovered {
            resource: ApiResource {
                group: kind.group.to_string(),
                version: kind.version.to_string(),
                api_version: served.api_version.clone(),
                kind: kind.kind.to_string(),
                plural: kind.resource.to_string(),
            },
            namespaced: kind.is_namespaced(),
            verbs: kind.verbs.iter().map(|verb| (*verb).into()).collect(),
            preferred: preferred.get(&(kind.group.as_str(), kind.resource.as_str())) == Some(&kind.version.as_str()),
        }
    });
    found.collect()
}
