//! A watch that loses nothing: it goes on where it was interrupted, and where it cannot, everything is listed anew.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::Request;
use http::header::ACCEPT;
use kube::Client;
use kube::core::ApiResource;
use rkube_machinery::Text;
use tokio::time::Instant;

use super::answers::{Change, Page};
use super::lines::Lines;
use crate::source::{Event, Item, Selection};

/// The server ends a watch after so long, and it is begun again; upstream's clients ask for about that.
const WATCH: Duration = Duration::from_secs(290);
/// A watch that the server should have ended so long ago is dead.
const WATCH_OVERDUE: Duration = Duration::from_secs(30);
/// A watch that has not sent all that there is by then will not: an old server does not say when it has.
const INITIAL_EVENTS_MAX: Duration = Duration::from_secs(60);
/// So many objects are asked for at a time where watches do not send what is there.
const PAGE: u32 = 500;
/// How long until it is tried again after a failure; doubled with each further one.
const AGAIN_FIRST: Duration = Duration::from_millis(100);
const AGAIN_MAX: Duration = Duration::from_secs(30);

pub(super) struct Watch {
    client: Client,
    resource: ApiResource,
    selection: Selection,
    streams_lists: Arc<AtomicBool>,
    state: State,
    failures: u32,
    /// What was read and is not told yet.
    pending: VecDeque<Event>,
}

enum State {
    /// Everything is to be listed.
    Start,
    /// Objects come as events of a watch, until a bookmark says that these were all.
    Listing {
        lines: Lines,
        until: Instant,
        listed: BTreeMap<(Text, Text), Item>,
    },
    /// Everything up to this version was told.
    Interrupted(Text),
    Watching {
        lines: Lines,
        until: Instant,
        version: Text,
    },
}

/// What to do next.
enum Next {
    Go(State),
    /// The same after a while, because something went wrong.
    Wait(State),
    /// The resource is served no more.
    End,
}

impl Watch {
    pub fn new(client: Client, resource: &ApiResource, selection: &Selection, streams_lists: Arc<AtomicBool>) -> Watch {
        let (resource, selection) = (resource.clone(), selection.clone());
        let (state, pending) = (State::Start, VecDeque::new());
        Watch { client, resource, selection, streams_lists, state, failures: 0, pending }
    }

    /// None: the resource is served no more.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.pending.pop_front() {
                return Some(event);
            }
            // Who is dropped on the way begins with a list again: that is always right.
            let next = match std::mem::replace(&mut self.state, State::Start) {
                State::Start => self.start().await,
                State::Listing { lines, until, listed } => self.list(lines, until, listed).await,
                State::Interrupted(version) => self.resume(version).await,
                State::Watching { lines, until, version } => self.watch(lines, until, version).await,
            };
            match next {
                Next::Go(state) => self.state = state,
                Next::Wait(state) => {
                    self.state = state;
                    let delay = AGAIN_FIRST.saturating_mul(2_u32.saturating_pow(self.failures.min(10)));
                    self.failures += 1;
                    tokio::time::sleep(delay.min(AGAIN_MAX)).await;
                }
                Next::End => return None,
            }
        }
    }

    async fn start(&mut self) -> Next {
        if !self.streams_lists.load(Ordering::Relaxed) {
            return self.list_pages().await;
        }
        let query = "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
        match self.open(query).await {
            Ok(lines) => {
                let until = Instant::now() + INITIAL_EVENTS_MAX;
                Next::Go(State::Listing { lines, until, listed: BTreeMap::new() })
            }
            Err(kube::Error::Api(status)) if matches!(status.code, 400 | 422) => {
                tracing::debug!(why = status.message, "the server does not send lists by watches");
                self.streams_lists.store(false, Ordering::Relaxed);
                Next::Go(State::Start)
            }
            Err(error) => self.refused(&error, State::Start),
        }
    }

    async fn list(&mut self, mut lines: Lines, until: Instant, mut listed: BTreeMap<(Text, Text), Item>) -> Next {
        let line = match tokio::time::timeout_at(until, lines.next()).await {
            Ok(line) => line,
            Err(_) => {
                self.streams_lists.store(false, Ordering::Relaxed);
                return Next::Go(State::Start);
            }
        };
        let Some(change) = self.read(line) else { return Next::Wait(State::Start) };
        match change {
            Change::Applied(item, _) => {
                listed.insert((item.namespace.clone(), item.name.clone()), item);
            }
            Change::Deleted(item, _) => {
                listed.remove(&(item.namespace, item.name));
            }
            Change::Bookmark { version, initial_events_end: true } => {
                self.failures = 0;
                self.pending.push_back(Event::Listed(listed.into_values().collect()));
                self.progress(&version);
                return Next::Go(State::Watching { lines, until: Instant::now() + WATCH + WATCH_OVERDUE, version });
            }
            Change::Bookmark { .. } => {}
            Change::Error { code, message } => {
                tracing::debug!(code, message, "a list was interrupted and begins again");
                return Next::Wait(State::Start);
            }
        }
        Next::Go(State::Listing { lines, until, listed })
    }

    /// The old way: page by page, then a watch from there.
    async fn list_pages(&mut self) -> Next {
        let (mut all, mut rest) = (Vec::new(), String::new());
        loop {
            let mut path = format!("{}?limit={PAGE}{}", self.path(), self.selectors());
            if !rest.is_empty() {
                path.push_str("&continue=");
                path.push_str(&escaped(&rest));
            }
            let kind = if self.selection.metadata_only { ACCEPT_METADATA_LIST } else { ACCEPT_JSON };
            let asked = match Request::get(path).header(ACCEPT, kind).body(Vec::new()) {
                Ok(request) => self.client.request_text(request).await,
                Err(error) => Err(kube::Error::HttpError(error)),
            };
            let page = match asked.and_then(|text| Page::read(text).map_err(kube::Error::SerdeError)) {
                Ok(page) => page,
                Err(error) => return self.refused(&error, State::Start),
            };
            all.extend(page.items);
            rest = page.rest;
            if rest.is_empty() {
                self.failures = 0;
                self.pending.push_back(Event::Listed(all));
                self.progress(&page.version);
                return Next::Go(State::Interrupted(page.version));
            }
        }
    }

    async fn resume(&mut self, version: Text) -> Next {
        match self.open(&format!("&resourceVersion={version}")).await {
            Ok(lines) => Next::Go(State::Watching { lines, until: Instant::now() + WATCH + WATCH_OVERDUE, version }),
            Err(kube::Error::Api(status)) if status.code == 410 => Next::Go(State::Start),
            Err(error) => self.refused(&error, State::Interrupted(version)),
        }
    }

    async fn watch(&mut self, mut lines: Lines, until: Instant, mut version: Text) -> Next {
        let Ok(line) = tokio::time::timeout_at(until, lines.next()).await else {
            return Next::Go(State::Interrupted(version));
        };
        let ended = matches!(line, Ok(None));
        let Some(change) = self.read(line) else {
            // The server ends watches all the time: only one that brought nothing is begun again with a delay.
            let interrupted = State::Interrupted(version);
            return if ended && self.failures == 0 {
                self.failures = 1;
                Next::Go(interrupted)
            } else {
                Next::Wait(interrupted)
            };
        };
        match change {
            Change::Applied(item, at) => {
                version = at;
                self.pending.push_back(Event::Applied(item));
            }
            Change::Deleted(item, at) => {
                version = at;
                self.pending.push_back(Event::Deleted(item));
            }
            Change::Bookmark { version: newer, .. } => {
                self.progress(&newer);
                version = newer;
            }
            Change::Error { code, message } => {
                tracing::debug!(code, message, "a watch was ended, and everything is listed");
                return Next::Wait(State::Start);
            }
        }
        self.failures = 0;
        Next::Go(State::Watching { lines, until, version })
    }

    fn read(&self, line: std::io::Result<Option<Vec<u8>>>) -> Option<Change> {
        let resource = &self.resource.plural;
        match line {
            Ok(Some(line)) => match Change::read(line) {
                Ok(change) => return Some(change),
                Err(error) => tracing::warn!(resource, %error, "an event of a watch cannot be read"),
            },
            Ok(None) => {}
            Err(error) => tracing::debug!(resource, %error, "a watch was interrupted and goes on"),
        }
        None
    }

    fn refused(&self, error: &kube::Error, again: State) -> Next {
        if matches!(error, kube::Error::Api(status) if status.code == 404) {
            return Next::End;
        }
        tracing::debug!(resource = self.resource.plural, %error, "objects cannot be watched; trying again");
        Next::Wait(again)
    }

    fn progress(&mut self, version: &str) {
        if let Ok(revision) = version.parse() {
            self.pending.push_back(Event::Progress(revision));
        }
    }

    async fn open(&mut self, query: &str) -> Result<Lines, kube::Error> {
        let path = format!(
            "{}?watch=true&allowWatchBookmarks=true&timeoutSeconds={}{query}{}",
            self.path(),
            WATCH.as_secs(),
            self.selectors()
        );
        let kind = if self.selection.metadata_only { ACCEPT_METADATA } else { ACCEPT_JSON };
        let request = Request::get(path).header(ACCEPT, kind).body(Vec::new()).map_err(kube::Error::HttpError)?;
        Ok(Lines::new(self.client.request_stream(request).await?))
    }

    fn path(&self) -> String {
        let ApiResource { group, api_version, plural, .. } = &self.resource;
        let root = if group.is_empty() { "/api" } else { "/apis" };
        match &self.selection.namespace {
            Some(namespace) => format!("{root}/{api_version}/namespaces/{namespace}/{plural}"),
            None => format!("{root}/{api_version}/{plural}"),
        }
    }

    fn selectors(&self) -> String {
        let Selection { name, labels, fields, .. } = &self.selection;
        let name = name.map(|name| format!("metadata.name={name}"));
        let fields: Vec<&str> = name.as_deref().into_iter().chain(fields.as_deref()).collect();
        let mut query = String::new();
        if !fields.is_empty() {
            query = format!("&fieldSelector={}", escaped(&fields.join(",")));
        }
        if let Some(labels) = labels {
            query.push_str("&labelSelector=");
            query.push_str(&escaped(labels));
        }
        query
    }
}

const ACCEPT_JSON: &str = "application/json";
const ACCEPT_METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
const ACCEPT_METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

/// A text as a part of a query.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    escaped
}
