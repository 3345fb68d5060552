//! `list`: a consistent snapshot, whole or in pages, written out while it is sent.

use std::ops::Bound;
use std::sync::Arc;

use rkube_machinery::field::quote;
use rkube_machinery::selector::{fields, labels};
use rkube_machinery::value::{Map, Text};
use rkube_machinery::{Status, Value};

use super::continue_token::{decode_token, encode_token};
use super::list_body::{Form, ListBody};
use super::read::{parse_version, wait_for_version};
use super::request::Request;
use super::selected::Selected;
use super::{Registry, cache_error};
use crate::content::Answer;
use crate::request::{ListOptions, VersionMatch};
use rkube_catalog::{Entry, Items, LabelMarks, Object};

const TOO_OLD: &str = "The resourceVersion for the provided list is too old.";
const TOKEN_TOO_OLD: &str = "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.";

/// What a list is made from.
struct Snapshot {
    items: Items,
    revision: u64,
    /// The key to start at; empty: the first.
    start: String,
    /// How many objects there are from there on, where a token says so.
    left: Option<i64>,
}

pub async fn list(registry: &Registry, request: &Request<'_>) -> Result<Answer, Status> {
    let options = ListOptions::of(request.query, request.query.watch, registry.watch_list)?;
    let filter = Arc::new(Filter::new(request)?);
    let Snapshot { items, revision, start, left } = choose_snapshot(registry, request, options).await?;
    let mut selected = Selected::new(request, filter.clone(), items, &start);
    let (mut token, mut remaining) = (String::new(), None);
    if request.query.limit > 0 {
        let page = selected.page(request.query.limit).await;
        if let Some(last) = page.last {
            // Counted once, on the first page; the token carries what is left from page to page.
            remaining = filter.is_everything().then(|| match left {
                Some(left) => left - page.count as i64,
                None => page.rest.count_all() as i64,
            });
            token = encode_token(selected.below_prefix(&last), revision as i64, remaining);
            selected.end_at(last);
        }
    }
    let metadata = list_metadata(revision, &token, remaining);
    Ok(ListBody::of(form(request, registry.clock.now_seconds()), selected, metadata).answer_when_begun().await)
}

async fn choose_snapshot(registry: &Registry, request: &Request<'_>, options: ListOptions) -> Result<Snapshot, Status> {
    if !request.query.continue_token.is_empty() {
        let (start, revision, left) = decode_token(&request.query.continue_token)?;
        if request.query.resource_version.as_deref().is_some_and(|version| version != "0") {
            return Err(Status::bad_request("specifying resource version is not allowed when using continue"));
        }
        let start = format!("{}{start}", Filter::scope_prefix(request));
        if revision < 0 {
            registry.catalog.cache().fresh().await.map_err(cache_error)?;
            let (items, revision) = request.served.readable().await?.snapshot();
            return Ok(Snapshot { items, revision, start, left: None });
        }
        let reached = registry.catalog.cache().reach(revision as u64).await;
        reached.map_err(cache_error).map_err(without_retry)?;
        let items = past(registry, request, revision as u64).await?.ok_or_else(|| {
            let prefix = Filter::scope_prefix(request);
            let mut status = Status::expired(TOKEN_TOO_OLD);
            status.continue_token = encode_token(start.strip_prefix(&prefix).unwrap_or(&start), -1, None);
            status
        })?;
        return Ok(Snapshot { items, revision: revision as u64, start, left });
    }
    let version = request.query.resource_version.as_deref().map(parse_version).transpose()?;
    if let (Some(version), Some(VersionMatch::Exact)) = (version, options.version_match) {
        return exact(registry, request, version).await;
    }
    // A page of an explicit version without a match rule is of exactly that version.
    if let (Some(version), None) = (version.filter(|version| *version > 0), options.version_match)
        && request.query.limit > 0
    {
        return exact(registry, request, version).await;
    }
    wait_for_version(registry, request).await?;
    let (items, revision) = request.served.readable().await?.snapshot();
    Ok(Snapshot { items, revision, start: String::new(), left: None })
}

/// Refuses a token that cannot be read.
pub fn check_token(request: &Request<'_>) -> Result<(), Status> {
    if request.query.continue_token.is_empty() {
        return Ok(());
    }
    decode_token(&request.query.continue_token).map(drop)
}

async fn exact(registry: &Registry, request: &Request<'_>, version: u64) -> Result<Snapshot, Status> {
    registry.catalog.cache().reach(version).await.map_err(cache_error).map_err(without_retry)?;
    let items = past(registry, request, version).await?.ok_or_else(|| Status::expired(TOO_OLD))?;
    Ok(Snapshot { items, revision: version, start: String::new(), left: None })
}

/// All objects as they were at a revision, unless it is too old.
async fn past(registry: &Registry, request: &Request<'_>, revision: u64) -> Result<Option<Items>, Status> {
    let kept = revision >= registry.catalog.cache().compacted();
    Ok(request.served.readable().await?.snapshot_at(revision).ok().filter(|_| kept))
}

/// These objects, which are all that were asked for, in the form asked for.
pub fn whole_answer(request: &Request<'_>, entries: Vec<Entry>, revision: u64, now: i64) -> Answer {
    ListBody::of(form(request, now), entries, list_metadata(revision, "", None)).answer()
}

/// A list of these objects in the form asked for; for any but the whole objects they are in the stored version.
pub fn values_answer(request: &Request<'_>, objects: Vec<Value>, metadata: Value, now: i64) -> Answer {
    form(request, now).whole(objects, metadata)
}

fn form(request: &Request<'_>, now: i64) -> Form {
    let Request { served, accept, query, .. } = *request;
    Form { served: served.clone(), accept, include: query.include_object.clone(), now }
}

fn list_metadata(revision: u64, token: &str, remaining: Option<i64>) -> Value {
    let mut entries: Vec<(Text, Value)> = vec![(Text::new_static("resourceVersion"), revision.to_string().into())];
    if !token.is_empty() {
        entries.push((Text::new_static("continue"), token.into()));
    }
    if let Some(remaining) = remaining {
        entries.push((Text::new_static("remainingItemCount"), remaining.into()));
    }
    Value::Object(Map::in_order(entries))
}

/// Which objects a list or watch is about.
pub struct Filter {
    labels: labels::Selector,
    /// Of the labels.
    marks: LabelMarks,
    fields: fields::Selector,
    /// The one name that is asked for, if one is.
    name: Option<String>,
    /// The field requirements by their place in the kind's row; `metadata.*` apart.
    kind: std::sync::Arc<rkube_kinds::Kind>,
    namespace: String,
}

impl Filter {
    pub fn new(request: &Request<'_>) -> Result<Filter, Status> {
        let labels = labels::Selector::parse(&request.query.label_selector);
        let labels = labels.map_err(|error| Status::bad_request(error.to_string()))?;
        let fields = fields::Selector::parse(&request.query.field_selector)
            .map_err(|error| Status::bad_request(error.to_string()))?;
        let kind = request.served.kind.clone();
        for requirement in fields.requirements() {
            let label = requirement.field.as_str();
            let known = label == "metadata.name"
                || (label == "metadata.namespace" && (kind.is_namespaced() || kind.selectable.is_empty()))
                || kind.selectable.labels().any(|field| field == label);
            if !known {
                return Err(Status::bad_request(unknown_field(&kind, label)));
            }
        }
        let mut name = fields.exact("metadata.name").map(str::to_owned);
        if !request.info.name.is_empty() {
            if name.as_deref().is_some_and(|name| name != request.info.name) {
                return Err(Status::bad_request("fieldSelector metadata.name doesn't match requested name"));
            }
            name = Some(request.info.name.to_string());
        }
        let namespace = if kind.is_namespaced() { request.info.namespace.to_string() } else { String::new() };
        Ok(Filter { marks: LabelMarks::wanted(&labels), labels, fields, name, kind, namespace })
    }

    pub fn is_everything(&self) -> bool {
        self.labels.is_everything() && self.fields.is_everything() && self.name.is_none()
    }

    /// How many things to look at to say of an object whether it matches.
    pub fn cost(&self) -> usize {
        let labels = self.labels.requirements().iter().map(|requirement| 1 + requirement.values().len());
        1 + labels.sum::<usize>() + self.fields.requirements().len()
    }

    /// The one key that can match, where there is one.
    pub fn key(&self, prefix: &str) -> Option<String> {
        let name = self.name.as_deref().filter(|_| !self.namespace.is_empty() || !self.kind.is_namespaced())?;
        Some(format!("{prefix}{name}"))
    }

    /// Whether everything in the scope is asked for.
    pub fn namespace_only(&self) -> Option<&str> {
        self.is_everything().then_some(self.namespace.as_str())
    }

    /// The same as [`Filter::matches`]; most objects that are not are told by their marks.
    pub fn selects(&self, entry: &Entry) -> bool {
        self.is_everything() || entry.may_be(self.marks) && self.matches(&entry.object)
    }

    /// Whether an object is one of those, its namespace included.
    pub fn matches(&self, object: &Object) -> bool {
        if !self.namespace.is_empty() && object.namespace != self.namespace.as_str() {
            return false;
        }
        if self.name.as_deref().is_some_and(|name| object.name != name) {
            return false;
        }
        if !self.labels.is_everything() && !self.labels.matches_pairs(|key| object.label(key)) {
            return false;
        }
        self.fields.is_everything() || self.fields.matches(|field| self.field(object, field))
    }

    fn field<'a>(&self, object: &'a Object, field: &str) -> Option<&'a str> {
        match field {
            "metadata.name" => Some(&object.name),
            "metadata.namespace" => Some(&object.namespace),
            _ => {
                let place = self.kind.selectable.labels().position(|selectable| selectable == field)?;
                object.fields.get(place).map(Text::as_str)
            }
        }
    }

    /// The keys of the namespace, or of all.
    pub fn scope_prefix(request: &Request<'_>) -> String {
        let resource = request.served.stored();
        if request.served.kind.is_namespaced() && !request.info.namespace.is_empty() {
            format!("{}{}/", resource.prefix, request.info.namespace)
        } else {
            resource.prefix.clone()
        }
    }

    /// The matching objects in key order, from `start` on (empty: from the first).
    pub fn range<'a>(
        &'a self,
        request: &Request<'_>,
        items: &'a Items,
        start: &str,
    ) -> Box<dyn Iterator<Item = (&'a Arc<str>, &'a Entry)> + Send + 'a> {
        let prefix = Self::scope_prefix(request);
        if let Some(name) = self.name.as_deref().filter(|_| !self.namespace.is_empty() || !self.kind.is_namespaced()) {
            let key: Arc<str> = format!("{prefix}{name}").into();
            let found = items.get_key_value(&key).filter(|(_, entry)| self.matches(&entry.object));
            return Box::new(found.into_iter().filter({
                let start = start.to_owned();
                move |(key, _)| start.is_empty() || &***key >= start.as_str()
            }));
        }
        let from: Arc<str> = if start.is_empty() { prefix.as_str().into() } else { start.into() };
        let range = items.range((Bound::Included(from), Bound::Unbounded));
        Box::new(
            range
                .take_while(move |(key, _)| key.starts_with(prefix.as_str()))
                .filter(move |(_, entry)| self.selects(entry)),
        )
    }
}

fn unknown_field(kind: &rkube_kinds::Kind, label: &str) -> String {
    if kind.selectable.is_empty() {
        return format!(
            "{} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
            quote(label)
        );
    }
    if kind.kind == "Job" && kind.group == "batch" {
        return format!("field label {} not supported for Job", quote(label));
    }
    format!("field label not supported: {label}")
}

/// An exact version that is not there yet is nothing to wait for.
fn without_retry(mut status: Status) -> Status {
    if let Some(details) = &mut status.details {
        details.retry_after_seconds = 0;
    }
    status
}

#[cfg(test)]
#[path = "list_tests.rs"]
mod tests;
