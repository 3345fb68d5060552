//! `watch`: every change after a version, as long as the client listens.
//!
//! Each watch pulls from the cache's ring when its connection takes more. JSON events are copied from the objects'
//! bytes; nothing is parsed to be printed again. Protobuf forms are made once and shared.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::stream;
use http::StatusCode;
use rkube_machinery::{Status, Value, json, object, protobuf};
use tokio::time::{Instant, Sleep};

use super::list::Filter;
use super::read::unworded_version;
use super::request::Request;
use super::selected::Selected;
use super::{Registry, cache_error};
use crate::content::{Accept, Answer, Body, Format, Transform, body_answer, partial_metadata, table_for};
use crate::metrics::Running;
use crate::request::ListOptions;
use rkube_catalog::Served;
use rkube_catalog::{CachedEvent, Entry, EventType, Gone, Limit, Object, Resource, Subscription, Taken};

/// A write is ended early when it has grown to this size.
const BATCH_BYTES: usize = 256 * 1024;
/// At most so much is written at once.
const BATCH: Limit = Limit { events: 256, bytes: BATCH_BYTES };
/// How often a bookmark is sent to those who want them.
const BOOKMARK_PERIOD: Duration = Duration::from_secs(60);
/// A watch without a time limit of its own ends after 30 to 60 minutes.
const TIMEOUT_MIN_SECONDS: u64 = 1800;
/// What an event's JSON has around its object, about.
const EVENT_FRAME_BYTES: usize = 80;
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

pub async fn watch(registry: &Registry, request: &Request<'_>) -> Result<Answer, Status> {
    let Request { served, query, accept, .. } = *request;
    ListOptions::of(query, true, registry.watch_list)?;
    let filter = Arc::new(Filter::new(request)?);
    let Start { initial, subscription, end_of_initial, gone } = start_of_watch(registry, request, &filter).await?;
    let time = time_limit(query.timeout_seconds).unwrap_or_else(|| {
        Duration::from_secs(TIMEOUT_MIN_SECONDS + registry.entropy.next_u64() % TIMEOUT_MIN_SECONDS)
    });
    let now = Instant::now();
    let watch = Watch {
        served: served.clone(),
        filter,
        accept,
        include: query.include_object.clone(),
        initial: initial.into(),
        end_of_initial,
        gone,
        subscription,
        bookmarks: query.allow_watch_bookmarks,
        deadline: now + time,
        timer: Box::pin(tokio::time::sleep(BOOKMARK_PERIOD.min(time))),
        clock: registry.clock.clone(),
        draining: registry.draining.clone(),
        sent_columns: false,
        over: false,
        _running: registry.metrics.long_running(&served.kind.resource),
    };
    let content_type = match accept.format {
        Format::Json => "application/json",
        Format::Yaml => "application/yaml;stream=watch",
        Format::Protobuf => "application/vnd.kubernetes.protobuf;stream=watch",
    };
    Ok(body_answer(StatusCode::OK, content_type, Body::stream(stream::unfold(watch, Watch::next))))
}

async fn start_of_watch(registry: &Registry, request: &Request<'_>, filter: &Arc<Filter>) -> Result<Start, Status> {
    let Request { served, query, .. } = *request;
    let namespace = request.object_namespace();
    let version = query.resource_version.as_deref().map(unworded_version).transpose()?;
    let streaming = query.send_initial_events;
    let from_now = match (version, streaming) {
        (_, Some(true)) | (None | Some(0), None) => true,
        (None | Some(0), Some(false)) => {
            registry.catalog.cache().fresh().await.map_err(cache_error)?;
            let resource = served.readable().await?;
            let after = resource.snapshot().1;
            return Start::after(&resource, namespace, after);
        }
        _ => false,
    };
    if let (false, Some(version)) = (from_now, version) {
        registry.catalog.cache().reach(version).await.map_err(cache_error)?;
        let resource = served.readable().await?;
        return Start::after(&resource, namespace, version);
    }
    match version {
        Some(version) if version > 0 => registry.catalog.cache().reach(version).await.map_err(cache_error)?,
        Some(_) => {}
        None => {
            registry.catalog.cache().fresh().await.map_err(cache_error)?;
        }
    }
    let resource = served.readable().await?;
    let (items, revision) = resource.snapshot();
    let subscription = resource.subscribe(namespace, revision).map_err(too_old)?;
    let mut entries = Selected::new(request, filter.clone(), items, "").collect().await;
    entries.sort_by_key(|entry| entry.revision);
    let end_of_initial = (streaming == Some(true)).then_some(revision);
    Ok(Start { initial: entries, subscription, end_of_initial, gone: None })
}
/// With what a watch begins.
struct Start {
    /// The objects to send first.
    initial: Vec<Entry>,
    /// From where changes follow.
    subscription: Subscription,
    /// The revision of the bookmark that ends the first part.
    end_of_initial: Option<u64>,
    /// The past that was asked for is not kept any more: that is the first event, and the last.
    gone: Option<Gone>,
}

impl Start {
    /// With the changes after a revision.
    fn after(resource: &Arc<Resource>, namespace: &str, revision: u64) -> Result<Start, Status> {
        let (subscription, gone) = match resource.subscribe(namespace, revision) {
            Ok(subscription) => (subscription, None),
            Err(gone) => (resource.subscribe(namespace, resource.snapshot().1).map_err(too_old)?, Some(gone)),
        };
        Ok(Start { initial: Vec::new(), subscription, end_of_initial: None, gone })
    }
}

/// How long a watch may last, if its client says. The seconds become nanoseconds in 64 bits as they do in Go: too many
/// wrap around. Less than no time at all: the watch ends when it has begun.
fn time_limit(seconds: Option<i64>) -> Option<Duration> {
    let nanoseconds = seconds?.wrapping_mul(1_000_000_000);
    (nanoseconds != 0).then(|| Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(0)))
}

async fn drained(draining: &mut tokio::sync::watch::Receiver<bool>) {
    let _ = draining.wait_for(|draining| *draining).await;
}

fn too_old(gone: Gone) -> Status {
    Status::expired(format!("too old resource version: {} ({})", gone.requested, gone.oldest))
}

struct Watch {
    served: Arc<Served>,
    filter: Arc<Filter>,
    accept: Accept,
    include: String,
    initial: VecDeque<Entry>,
    /// The revision of the bookmark that says that all initial events were sent.
    end_of_initial: Option<u64>,
    gone: Option<Gone>,
    subscription: Subscription,
    bookmarks: bool,
    deadline: Instant,
    /// Rings for the next bookmark or at the deadline. Kept, since to make one for every wait costs more than the wait.
    timer: Pin<Box<Sleep>>,
    clock: Arc<dyn rkube_machinery::host::Clock>,
    draining: tokio::sync::watch::Receiver<bool>,
    sent_columns: bool,
    over: bool,
    _running: Running,
}

/// What a watch waits for.
enum Next {
    Events(Taken),
    Timer,
    Gone(Gone),
    End,
}

impl Watch {
    /// The next piece of the stream. Also the step of the `unfold`.
    async fn next(mut self) -> Option<(Bytes, Watch)> {
        if self.over {
            return None;
        }
        let mut out = Vec::new();
        if let Some(gone) = self.gone.take() {
            self.write_error(&too_old(gone), &mut out);
            self.over = true;
            return Some((out.into(), self));
        }
        if self.write_initial(&mut out) {
            return Some((out.into(), self));
        }
        while !self.over {
            match self.wait().await {
                Next::Events(taken) => {
                    let bytes = self.write_events(&taken);
                    if !bytes.is_empty() {
                        return Some((bytes, self));
                    }
                    // Nothing of it was for this watch, and more may be there at once.
                    tokio::task::yield_now().await;
                }
                Next::Timer => {
                    let now = Instant::now();
                    if now >= self.deadline {
                        return None;
                    }
                    self.timer.as_mut().reset((now + BOOKMARK_PERIOD).min(self.deadline));
                    if self.bookmarks {
                        let revision = self.subscription.revision();
                        self.write_bookmark(revision, false, &mut out);
                        return Some((out.into(), self));
                    }
                }
                Next::Gone(gone) => {
                    self.write_error(&too_old(gone), &mut out);
                    self.over = true;
                    return Some((out.into(), self));
                }
                Next::End => return None,
            }
        }
        None
    }

    /// The events as they go out.
    fn write_events(&mut self, taken: &Taken) -> Bytes {
        let events = &taken.events;
        let size = events.iter().map(|event| event.object.size() + EVENT_FRAME_BYTES).sum();
        let plain = self.accept.format == Format::Json && self.accept.transform == Transform::None;
        if let (true, None, Some(namespace)) = (plain, &self.served.kind.conversion, self.filter.namespace_only()) {
            // Nothing is filtered but by namespace: the same bytes for all who watch this scope.
            return self.subscription.resource().written(namespace, taken.from, taken.to, || {
                let mut out = Vec::with_capacity(size);
                for event in events.iter().filter(|event| namespace.is_empty() || event.object.namespace == namespace) {
                    write_json(event.event_type.name(), &event.object, event.revision, &mut out);
                }
                out.into()
            });
        }
        let mut out = Vec::with_capacity(size);
        for event in events {
            self.write_event(event, &mut out);
        }
        out.into()
    }

    async fn wait(&mut self) -> Next {
        tokio::select! {
            biased;
            taken = self.subscription.next(BATCH) => match taken {
                Ok(Some(taken)) => Next::Events(taken),
                Ok(None) => Next::End,
                Err(gone) => Next::Gone(gone),
            },
            () = &mut self.timer => Next::Timer,
            () = drained(&mut self.draining) => Next::End,
        }
    }

    /// Writes what comes before the first change; says whether there was anything.
    fn write_initial(&mut self, out: &mut Vec<u8>) -> bool {
        while let Some(entry) = self.initial.pop_front() {
            self.write_object("ADDED", &entry, None, out);
            if out.len() >= BATCH_BYTES {
                return true;
            }
        }
        // A watch may last for hours: the room that they took is not kept for it.
        self.initial = VecDeque::new();
        if let Some(revision) = self.end_of_initial.take()
            && self.bookmarks
        {
            self.write_bookmark(revision, true, out);
        }
        !out.is_empty()
    }

    /// Writes a change as this watch's selectors see it.
    fn write_event(&mut self, event: &Arc<CachedEvent>, out: &mut Vec<u8>) {
        let matched_before = event.previous.as_ref().is_some_and(|entry| self.filter.matches(&entry.object));
        let matches = event.event_type != EventType::Deleted && self.filter.matches(&event.object);
        let (name, object) = match (matched_before, matches) {
            (false, true) => ("ADDED", &event.object),
            (true, true) => ("MODIFIED", &event.object),
            // What the client last saw, at the revision at which it went out of sight.
            (true, false) => ("DELETED", event.previous.as_ref().map_or(&event.object, |entry| &entry.object)),
            (false, false) => return,
        };
        let shared = (Arc::ptr_eq(object, &event.object)).then_some(event);
        self.write_object(name, &Entry::new(object.clone(), event.revision), shared, out);
    }

    fn write_object(&mut self, name: &str, entry: &Entry, shared: Option<&Arc<CachedEvent>>, out: &mut Vec<u8>) {
        if let Transform::PartialObjectMetadataList(_) = self.accept.transform {
            // An object is no list: the watch ends where it would have to show one as such.
            self.over = true;
            return;
        }
        let plain = self.accept.transform == Transform::None;
        match self.accept.format {
            Format::Json if plain && self.served.kind.conversion.is_none() => {
                write_json(name, &entry.object, entry.revision, out)
            }
            Format::Protobuf if plain => {
                let Some(table) = self.served.kind.schema.table() else { return };
                let make = || -> Bytes {
                    let value = self.served.value(entry);
                    protobuf::encode(&value, table, &self.served.api_version, &self.served.kind.kind).into()
                };
                let envelope = match shared.filter(|_| self.served.kind.conversion.is_none()) {
                    Some(event) => event.protobuf.get_or_init(make).clone(),
                    None => make(),
                };
                out.extend_from_slice(&protobuf::encode_watch_event(name, &envelope));
            }
            _ => {
                let value = match self.accept.transform {
                    Transform::None => self.served.value(entry),
                    // Columns and metadata are read from the stored form.
                    _ => entry.object.value(entry.revision),
                };
                let value = self.transform(value);
                self.write_value(name, &value, out);
            }
        }
    }

    fn transform(&mut self, value: Value) -> Value {
        match self.accept.transform {
            Transform::None => value,
            Transform::Table(version) => {
                let headers = !std::mem::replace(&mut self.sent_columns, true);
                let now = self.clock.now_seconds();
                table_for(&self.served, version, &[value], &self.include, now, &Value::Null, headers)
            }
            Transform::PartialObjectMetadata(version) | Transform::PartialObjectMetadataList(version) => {
                partial_metadata(&self.served, &value, version)
            }
        }
    }

    fn write_bookmark(&mut self, revision: u64, ends_initial: bool, out: &mut Vec<u8>) {
        let mut metadata = object! { "resourceVersion": revision.to_string() };
        if ends_initial {
            metadata.set("annotations", object! { "k8s.io/initial-events-end": "true" });
            debug_assert_eq!(metadata.get("annotations").str(INITIAL_EVENTS_END), "true");
        }
        let mut value = object! {
            "kind": self.served.kind.kind.clone(),
            "apiVersion": self.served.api_version.as_str(),
            "metadata": metadata,
        };
        self.served.kind.schema.complete(&mut value);
        match self.accept.transform {
            Transform::None => {}
            Transform::Table(version) => {
                // A bookmark has no cells to show, only a version.
                let metadata = value.get("metadata").clone();
                let headers = !std::mem::replace(&mut self.sent_columns, true);
                let now = self.clock.now_seconds();
                value = table_for(&self.served, version, &[value], &self.include, now, &metadata, headers);
            }
            Transform::PartialObjectMetadata(version) | Transform::PartialObjectMetadataList(version) => {
                value = partial_metadata(&self.served, &value, version);
            }
        }
        self.write_value("BOOKMARK", &value, out);
    }

    fn write_error(&self, status: &Status, out: &mut Vec<u8>) {
        self.write_value("ERROR", &status.to_value(), out);
    }

    fn write_value(&self, name: &str, value: &Value, out: &mut Vec<u8>) {
        if self.accept.format == Format::Protobuf {
            let type_name = match value.str("kind") {
                "Status" => "io.k8s.apimachinery.pkg.apis.meta.v1.Status",
                "PartialObjectMetadata" => crate::content::PARTIAL,
                _ => &self.served.kind.type_name,
            };
            if let Some(schema) = rkube_machinery::TypeRef::find(type_name) {
                let envelope = protobuf::encode(value, schema.get(), value.str("apiVersion"), value.str("kind"));
                out.extend_from_slice(&protobuf::encode_watch_event(name, &envelope));
            }
            return;
        }
        out.extend_from_slice(b"{\"type\":\"");
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b"\",\"object\":");
        json::write(value, out);
        out.extend_from_slice(b"}\n");
    }
}

fn write_json(name: &str, object: &Object, revision: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"type\":\"");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\",\"object\":");
    object.write(revision, out);
    out.extend_from_slice(b"}\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_time_limit_is_too_long() {
        let table = [
            (None, None),
            (Some(0), None),
            (Some(1 << 55), None),
            (Some(-1), Some(Duration::ZERO)),
            (Some(i64::MAX), Some(Duration::ZERO)),
            (Some(90), Some(Duration::from_secs(90))),
            (Some(9_223_372_036), Some(Duration::from_secs(9_223_372_036))),
        ];
        for (seconds, want) in table {
            assert_eq!(time_limit(seconds), want, "{seconds:?}");
            assert!(Instant::now().checked_add(want.unwrap_or_default()).is_some());
        }
    }
}
