//! CertificateSigningRequests: [`approve`] says yes to kubelets that ask for client certificates and may, [`sign`] makes the
//! certificates of the four signers that Kubernetes has itself, and [`clean`] deletes requests that are of no use any
//! more. Each watches the requests; the first writes their approval, the second their status.

mod approve;
mod clean;
mod csr;
mod sign;
mod signers;

use rkube_machinery::decode::base64;
use rkube_machinery::time;
use rkube_operator::kube::core::ApiResource;
use rkube_operator::{Caches, Informer, Item, Queue, QueueOptions, Selection};
use serde::Deserialize;

use k8s_openapi::api::certificates::v1::CertificateSigningRequest;

pub use approve::run as approve;
pub use clean::run as clean;
pub use csr::{Asked, Attribute};
pub use sign::{NewCertificate, SignCertificate, SignCertificates, run as sign};
pub use signers::{Signer, Validity};

use std::time::Duration;

const PATH: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
/// As many requests at a time as upstream's.
const WORKERS: usize = 5;

const APPROVED: &str = "Approved";
const DENIED: &str = "Denied";
const FAILED: &str = "Failed";

/// A request as these controllers look at it. What it asks for is read when it is its turn.
struct Request {
    item: Item,
    signer: String,
    created: Option<i64>,
    conditions: Vec<Condition>,
    issued: bool,
}

struct Condition {
    kind: String,
    updated: Option<i64>,
}

impl Request {
    fn has(&self, kind: &str) -> bool {
        self.conditions.iter().any(|condition| condition.kind == kind)
    }

    fn whole(&self) -> serde_json::Result<Whole> {
        self.item.parse()
    }
}

fn requests(caches: &Caches) -> Informer<Request> {
    caches.view(&ApiResource::erase::<CertificateSigningRequest>(&()), Selection::default(), read)
}

/// Those that fail are tried again as slowly as upstream does.
fn queue() -> Queue<String> {
    Queue::with(QueueOptions {
        backoff_first: Duration::from_millis(200),
        backoff_max: Duration::from_secs(1000),
        ..QueueOptions::default()
    })
}

fn read(item: &Item) -> Option<Request> {
    let Whole { metadata, spec, status } = item.parse().ok()?;
    let seconds = |text: &Option<String>| time::parse(text.as_deref()?).ok().map(|(seconds, _)| seconds);
    let condition = |raw: WholeCondition| Condition { kind: raw.kind, updated: seconds(&raw.last_update_time) };
    Some(Request {
        item: item.clone(),
        signer: spec.signer_name,
        created: seconds(&metadata.creation_timestamp),
        issued: !status.certificate.unwrap_or_default().is_empty(),
        conditions: status.conditions.unwrap_or_default().into_iter().map(condition).collect(),
    })
}

/// A request as it stands in JSON.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Whole {
    metadata: WholeMetadata,
    spec: WholeSpec,
    status: WholeStatus,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct WholeMetadata {
    creation_timestamp: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct WholeSpec {
    request: String,
    signer_name: String,
    expiration_seconds: Option<i64>,
    usages: Option<Vec<String>>,
    username: String,
    uid: String,
    groups: Option<Vec<String>>,
    extra: Option<std::collections::BTreeMap<String, Vec<String>>>,
}

impl WholeSpec {
    fn asked(&self) -> Result<Asked, &'static str> {
        Asked::read(&base64::decode(self.request.as_bytes()).unwrap_or_default())
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WholeStatus {
    certificate: Option<String>,
    conditions: Option<Vec<WholeCondition>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct WholeCondition {
    #[serde(rename = "type")]
    kind: String,
    last_update_time: Option<String>,
}
