//! `/openapi/v2` and `/openapi/v3`: documents of what is served, made when somebody asks.
//!
//! A document is put together of parts: one for the built-in kinds, and one for each custom kind. Parts are kept until
//! what they were made of changes, so that a definition that comes costs its own part and nothing else. Documents
//! themselves are not kept: their bytes are those of their parts.

mod blocks;
mod parts;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use parking_lot::Mutex;
use rkube_catalog::{Resource, Snapshot};
use rkube_kinds::Kind;
use rkube_machinery::{Status, Value, json};
use rkube_openapi::{self as documents, Custom, Form, Frame, Part};
use tokio::sync::Semaphore;

use crate::apart;
use crate::content::{Answer, Body};
use parts::{CustomKind, Parts};

const JSON: &str = "application/json";

/// A document that would be larger is refused with 503: it does not fit beside everything else. The definitions that
/// lead there are themselves many times what a store is made for.
const DOCUMENT_BYTES_MAX: usize = 512 << 20;

#[derive(Default)]
pub struct OpenApi {
    built_in: Mutex<Option<Arc<BuiltIn>>>,
    /// What documents of custom resources begin with: without scales, with them.
    types: [OnceLock<Arc<Part>>; 2],
    texts: OnceLock<Custom>,
    parts: Mutex<Parts>,
    /// Held by who makes parts: others who want the same find them made. For v3 and v2 apart, since all of v2 may take a
    /// while.
    making: [tokio::sync::Mutex<()>; 2],
}

/// Of the built-in kinds, which do not change while the server runs.
struct BuiltIn {
    kinds: Vec<Arc<Kind>>,
    /// Of every v3 document its path and hash.
    paths: BTreeMap<String, String>,
    parts: Mutex<HashMap<BuiltInKey, Arc<Part>>>,
}

/// A v3 document's path, none of v2; and whether custom kinds lie in the same document.
type BuiltInKey = (Option<String>, Form, bool);

/// A document that somebody asks for.
struct Wanted {
    frame: Frame,
    form: Form,
    built_in: Option<(Arc<BuiltIn>, BuiltInKey)>,
    custom: Vec<CustomKind>,
}

impl OpenApi {
    /// The answer to a request for a document; none where there is no such document. Making parts takes turns.
    pub async fn answer(
        &self,
        catalog: &Snapshot,
        path: &str,
        headers: &HeaderMap,
        turns: &Semaphore,
    ) -> Result<Option<Answer>, Status> {
        let Some(rest) = path.trim_matches('/').strip_prefix("openapi/") else { return Ok(None) };
        let (wanted, content_type) = match rest {
            "v2" => {
                let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
                match accept.contains("proto-openapi.spec.v2") {
                    true => (Some(self.v2(catalog, Form::V2Protobuf)), documents::V2_PROTOBUF_CONTENT_TYPE),
                    false => (Some(self.v2(catalog, Form::V2Json)), JSON),
                }
            }
            "v3" => {
                let index = json::to_string(&self.index(catalog));
                return Ok(Some(answer(headers, &mark_of(index.as_bytes()), JSON, || vec![index.into()])));
            }
            _ => (rest.strip_prefix("v3/").and_then(|path| self.v3(catalog, path)), JSON),
        };
        let Some(wanted) = wanted else { return Ok(None) };
        self.parts.lock().sweep(catalog.generation);
        let parts = match self.find(&wanted) {
            Some(parts) => parts,
            // In a box, so that the future of every other request does not grow with what is seldom needed.
            None => apart::run(Some(turns), Box::pin(self.make(&wanted)).as_mut()).await?,
        };
        let mark = documents::mark(wanted.frame, &parts);
        Ok(Some(answer(headers, &mark, content_type, || documents::document(wanted.frame, &parts))))
    }

    fn v2(&self, catalog: &Snapshot, form: Form) -> Wanted {
        let frame = if form == Form::V2Protobuf { Frame::V2Protobuf } else { Frame::V2Json };
        let custom = custom_kinds(catalog, |_| true);
        // Custom kinds refer to types that built-in ones nearly always have: one part does for both.
        Wanted { frame, form, built_in: Some((self.built_in(catalog), (None, form, true))), custom }
    }

    fn v3(&self, catalog: &Snapshot, path: &str) -> Option<Wanted> {
        let custom = match path.strip_prefix("apis/").and_then(|rest| rest.split_once('/')) {
            Some((group, version)) => custom_kinds(catalog, |kind| kind.group == group && kind.version == version),
            None => Vec::new(),
        };
        let built_in = self.built_in(catalog);
        let form = Form::V3;
        if built_in.paths.contains_key(path) {
            let key = (Some(path.to_owned()), form, !custom.is_empty());
            return Some(Wanted { frame: Frame::V3BuiltIn, form, built_in: Some((built_in, key)), custom });
        }
        (!custom.is_empty()).then_some(Wanted { frame: Frame::V3Custom, form, built_in: None, custom })
    }

    /// Where the v3 documents lie. Hashes are made of what documents are made of, not of documents.
    fn index(&self, catalog: &Snapshot) -> Value {
        let mut paths = self.built_in(catalog).paths.clone();
        let custom = custom_kinds(catalog, |_| true);
        let mut by_root: BTreeMap<String, Vec<(&Kind, String)>> = BTreeMap::new();
        for custom in &custom {
            by_root.entry(documents::root_of(&custom.kind)).or_default().push((&custom.kind, custom.mark()));
        }
        for (root, kinds) in by_root {
            let hash = documents::custom_hash(kinds.iter().map(|(kind, mark)| (*kind, mark.as_str())));
            // A group version may have kinds of both sorts.
            let entry = paths.entry(root).or_default();
            *entry = if entry.is_empty() { hash } else { mark_of(format!("{entry} {hash}").as_bytes()) };
        }
        documents::v3_index(paths)
    }

    fn built_in(&self, catalog: &Snapshot) -> Arc<BuiltIn> {
        let kinds = || catalog.all().iter().map(|served| &served.kind).filter(|kind| kind.schema.table().is_some());
        let mut kept = self.built_in.lock();
        if let Some(known) = kept.as_ref()
            && known.kinds.len() == kinds().count()
            && known.kinds.iter().zip(kinds()).all(|(known, kind)| Arc::ptr_eq(known, kind))
        {
            return known.clone();
        }
        let kinds: Vec<Arc<Kind>> = kinds().cloned().collect();
        let paths = documents::v3_paths(&references(&kinds)).into_iter().collect();
        let made = Arc::new(BuiltIn { kinds, paths, parts: Mutex::default() });
        *kept = Some(made.clone());
        made
    }

    /// All parts, if they are there.
    fn find(&self, wanted: &Wanted) -> Option<Vec<Arc<Part>>> {
        let mut found = Vec::with_capacity(wanted.custom.len() + 1);
        found.push(self.find_first(wanted)?);
        let parts = self.parts.lock();
        for custom in &wanted.custom {
            found.push(parts.find(custom, wanted.form)?);
        }
        Some(found)
    }

    fn find_first(&self, wanted: &Wanted) -> Option<Arc<Part>> {
        match &wanted.built_in {
            Some((built_in, key)) => built_in.parts.lock().get(key).cloned(),
            None => self.types[usize::from(wanted.has_scale())].get().cloned(),
        }
    }

    /// All parts; those that are missing are made, one definition after the other.
    async fn make(&self, wanted: &Wanted) -> Result<Vec<Arc<Part>>, Status> {
        let _making = self.making[usize::from(wanted.form != Form::V3)].lock().await;
        let first = self.find_first(wanted).unwrap_or_else(|| self.make_first(wanted));
        let mut size = first.size();
        let mut made = vec![first];
        // The versions of a definition stand next to each other: it is read once for all of them.
        for versions in wanted.custom.chunk_by(CustomKind::has_same_definition) {
            let found = {
                let parts = self.parts.lock();
                versions.iter().map(|custom| parts.find(custom, wanted.form)).collect::<Option<Vec<_>>>()
            };
            let of_definition = match found {
                Some(found) => found,
                None => {
                    tokio::task::yield_now().await;
                    self.make_versions(versions, wanted.form)
                }
            };
            size += of_definition.iter().map(|part| part.size()).sum::<usize>();
            made.extend(of_definition);
            if size > DOCUMENT_BYTES_MAX {
                let message = format!("the OpenAPI document has more than {DOCUMENT_BYTES_MAX} bytes");
                return Err(Status::service_unavailable(message));
            }
        }
        Ok(made)
    }

    fn make_first(&self, wanted: &Wanted) -> Arc<Part> {
        let Some((built_in, key)) = &wanted.built_in else {
            let with_scale = wanted.has_scale();
            let make = || Arc::new(self.texts().types_part(with_scale));
            return self.types[usize::from(with_scale)].get_or_init(make).clone();
        };
        let (path, form, with_custom) = key;
        let shared: &[&str] = if *with_custom { &Custom::TYPES } else { &[] };
        let kinds = references(&built_in.kinds);
        let part = match path {
            Some(path) => documents::v3_part(&kinds, path, shared).unwrap_or_default(),
            None => documents::v2_part(&kinds, *form, shared),
        };
        let part = Arc::new(part);
        built_in.parts.lock().insert(key.clone(), part.clone());
        part
    }

    fn make_versions(&self, versions: &[CustomKind], form: Form) -> Vec<Arc<Part>> {
        let definition = versions.first().map(CustomKind::definition_value).unwrap_or_default();
        let make = |custom: &CustomKind| {
            if let Some(part) = self.parts.lock().find(custom, form) {
                return part;
            }
            let part = Arc::new(self.texts().part(&custom.kind, &definition, form));
            self.parts.lock().keep(custom, form, &part);
            part
        };
        versions.iter().map(make).collect()
    }

    fn texts(&self) -> &Custom {
        self.texts.get_or_init(Custom::new)
    }
}

impl Wanted {
    fn has_scale(&self) -> bool {
        self.custom.iter().any(|custom| custom.kind.scale.is_some())
    }
}

fn references(kinds: &[Arc<Kind>]) -> Vec<&Kind> {
    kinds.iter().map(|kind| &**kind).collect()
}

/// Custom kinds with their definitions, in an order that does not depend on when they came.
fn custom_kinds(catalog: &Snapshot, wanted: impl Fn(&Kind) -> bool) -> Vec<CustomKind> {
    let definitions: Option<Arc<Resource>> =
        catalog.resource("apiextensions.k8s.io", "v1", "customresourcedefinitions");
    let kinds = catalog.all().iter().map(|served| &served.kind);
    let kinds = kinds.filter(|kind| kind.schema.table().is_none() && wanted(kind));
    let mut found: Vec<CustomKind> = kinds.map(|kind| CustomKind::new(kind.clone(), definitions.as_deref())).collect();
    found.sort_by(|left, right| left.place().cmp(&right.place()));
    found
}

/// FNV-1a over the bytes, twice with different seeds: a mark of the content, not a secret.
fn mark_of(bytes: &[u8]) -> String {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = |seed: u64| bytes.iter().fold(seed, step);
    format!("{:016X}{:016X}", hash(0xcbf2_9ce4_8422_2325), hash(0x9e37_79b9_7f4a_7c15))
}

fn answer(headers: &HeaderMap, mark: &str, content_type: &'static str, bytes: impl FnOnce() -> Vec<Bytes>) -> Answer {
    let etag = format!("\"{mark}\"");
    let asked = headers.get(header::IF_NONE_MATCH).and_then(|value| value.to_str().ok());
    let known = asked.is_some_and(|known| known.contains(&etag));
    let mut answer = Response::new(if known { Body::Empty } else { blocks::body(bytes()) });
    if known {
        *answer.status_mut() = StatusCode::NOT_MODIFIED;
    }
    let out = answer.headers_mut();
    out.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    if let Ok(value) = HeaderValue::from_str(&etag) {
        out.insert(header::ETAG, value);
    }
    out.insert(header::VARY, HeaderValue::from_static("Accept-Encoding, Accept"));
    answer
}
