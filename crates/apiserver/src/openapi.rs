//! `/openapi/v2` and `/openapi/v3`: documents made when first asked for, and kept.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use parking_lot::Mutex;
use rkube_kinds::Kind;
use rkube_machinery::json;
use rkube_openapi as documents;

use crate::content::{Answer, Body};

const JSON: &str = "application/json";

pub struct OpenApi {
    kinds: Vec<Arc<Kind>>,
    /// By path: `api/v1`, `apis/apps/v1`. Only paths that exist are kept.
    v3: Mutex<HashMap<String, Arc<Document>>>,
    v3_index: OnceLock<Document>,
    v2: OnceLock<Document>,
    v2_protobuf: OnceLock<Document>,
}

struct Document {
    bytes: Bytes,
    etag: String,
}

impl OpenApi {
    pub fn new(kinds: Vec<Arc<Kind>>) -> OpenApi {
        OpenApi {
            kinds,
            v3: Mutex::default(),
            v3_index: OnceLock::new(),
            v2: OnceLock::new(),
            v2_protobuf: OnceLock::new(),
        }
    }

    fn kinds(&self) -> Vec<&Kind> {
        self.kinds.iter().map(|kind| &**kind).collect()
    }

    pub fn answer(&self, path: &str, headers: &HeaderMap) -> Option<Answer> {
        let rest = path.trim_matches('/').strip_prefix("openapi/")?;
        match rest {
            "v2" => {
                let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
                if accept.contains("proto-openapi.spec.v2") {
                    let make = || Document::new(documents::v2_protobuf(&documents::v2_document(&self.kinds())));
                    return Some(
                        self.v2_protobuf.get_or_init(make).answer(documents::V2_PROTOBUF_CONTENT_TYPE, headers),
                    );
                }
                let make = || Document::new(json::to_string(&documents::v2_document(&self.kinds())).into_bytes());
                Some(self.v2.get_or_init(make).answer(JSON, headers))
            }
            "v3" => {
                let index = || documents::v3_index(documents::v3_paths(&self.kinds()));
                let make = || Document::new(json::to_string(&index()).into_bytes());
                Some(self.v3_index.get_or_init(make).answer(JSON, headers))
            }
            _ => Some(self.v3_document(rest.strip_prefix("v3/")?)?.answer(JSON, headers)),
        }
    }

    fn v3_document(&self, path: &str) -> Option<Arc<Document>> {
        let mut kept = self.v3.lock();
        if let Some(document) = kept.get(path) {
            return Some(document.clone());
        }
        let document = Arc::new(Document::new(documents::v3_document(&self.kinds(), path)?));
        kept.insert(path.to_owned(), document.clone());
        Some(document)
    }
}

impl Document {
    fn new(bytes: Vec<u8>) -> Document {
        // FNV-1a over the bytes, twice with different seeds: a mark of the content, not a secret.
        let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        let hash = |seed: u64| bytes.iter().fold(seed, step);
        let etag = format!("\"{:016X}{:016X}\"", hash(0xcbf2_9ce4_8422_2325), hash(0x9e37_79b9_7f4a_7c15));
        Document { bytes: bytes.into(), etag }
    }

    fn answer(&self, content_type: &'static str, headers: &HeaderMap) -> Answer {
        let asked = headers.get(header::IF_NONE_MATCH).and_then(|value| value.to_str().ok());
        let known = asked.is_some_and(|known| known.contains(&self.etag));
        let mut answer = Response::new(if known { Body::Empty } else { Body::Whole(self.bytes.clone()) });
        if known {
            *answer.status_mut() = StatusCode::NOT_MODIFIED;
        }
        let out = answer.headers_mut();
        out.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        if let Ok(value) = HeaderValue::from_str(&self.etag) {
            out.insert(header::ETAG, value);
        }
        out.insert(header::VARY, HeaderValue::from_static("Accept-Encoding, Accept"));
        answer
    }
}
