//! The Lease as an object of the API.

use std::time::Duration;

use http::{Method, Request};
use kube::Client;
use rkube_machinery::time;
use serde::Deserialize;
use serde_json::{Value, json};

use super::state::Record;
use crate::events::Reference;

const API_VERSION: &str = "coordination.k8s.io/v1";

/// A Lease as the API had it.
#[derive(Clone)]
pub(super) struct Lease {
    /// All of it: whatever others have put there stays.
    object: Value,
    pub record: Record,
    pub revision: Option<u64>,
}

impl Lease {
    fn new(object: Value) -> Lease {
        let revision = object["metadata"]["resourceVersion"].as_str().and_then(|version| version.parse().ok());
        let spec = Spec::deserialize(&object["spec"]).unwrap_or_default();
        Lease { record: spec.into(), revision, object }
    }

    /// What events are about.
    pub fn reference(&self) -> Reference {
        let metadata = |field: &str| self.object["metadata"][field].as_str().unwrap_or_default().into();
        Reference {
            kind: "Lease".into(),
            namespace: metadata("namespace"),
            name: metadata("name"),
            uid: metadata("uid"),
            api_version: API_VERSION.into(),
            resource_version: metadata("resourceVersion"),
            ..Reference::default()
        }
    }
}

/// The part of a Lease that says who leads.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Spec {
    holder_identity: Option<String>,
    lease_duration_seconds: Option<i64>,
    acquire_time: Option<String>,
    renew_time: Option<String>,
    lease_transitions: Option<i64>,
}

impl From<Spec> for Record {
    fn from(spec: Spec) -> Record {
        Record {
            holder: spec.holder_identity.unwrap_or_default(),
            duration_seconds: spec.lease_duration_seconds.unwrap_or(0),
            acquired_micros: spec.acquire_time.as_deref().and_then(micros),
            renewed_micros: spec.renew_time.as_deref().and_then(micros),
            transitions: spec.lease_transitions.unwrap_or(0),
        }
    }
}

fn micros(text: &str) -> Option<i64> {
    let (seconds, nanos) = time::parse_micros(text).ok()?;
    seconds.checked_mul(1_000_000)?.checked_add(i64::from(nanos / 1000))
}

fn spec(record: &Record) -> Value {
    json!({
        "holderIdentity": record.holder,
        "leaseDurationSeconds": record.duration_seconds,
        "acquireTime": record.acquired_micros.map(time::format_micros),
        "renewTime": record.renewed_micros.map(time::format_micros),
        "leaseTransitions": record.transitions,
    })
}

/// Where a Lease is.
pub(super) struct Place {
    pub client: Client,
    pub namespace: String,
    pub name: String,
    /// A request that takes longer has failed.
    pub timeout: Duration,
}

impl Place {
    /// None: there is none.
    pub async fn get(&self) -> Result<Option<Lease>, String> {
        match self.send(Method::GET, &self.path(), None).await {
            Ok(lease) => Ok(Some(lease)),
            Err(Refusal { code: 404, .. }) => Ok(None),
            Err(refusal) => Err(refusal.why),
        }
    }

    pub async fn create(&self, record: &Record) -> Result<Lease, String> {
        let metadata = json!({ "name": self.name, "namespace": self.namespace });
        let lease = json!({ "apiVersion": API_VERSION, "kind": "Lease", "metadata": metadata, "spec": spec(record) });
        self.send(Method::POST, &self.collection(), Some(&lease)).await.map_err(|refusal| refusal.why)
    }

    /// Fails if another has written it since.
    pub async fn update(&self, lease: &Lease, record: &Record) -> Result<Lease, String> {
        let mut object = lease.object.clone();
        object["spec"] = spec(record);
        self.send(Method::PUT, &self.path(), Some(&object)).await.map_err(|refusal| refusal.why)
    }

    fn collection(&self) -> String {
        format!("/apis/{API_VERSION}/namespaces/{}/leases", self.namespace)
    }

    fn path(&self) -> String {
        format!("{}/{}", self.collection(), self.name)
    }

    async fn send(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Lease, Refusal> {
        let request = Request::builder().method(method).uri(path);
        let request = request.header(http::header::CONTENT_TYPE, "application/json");
        let body = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
        let request = request.body(body).map_err(|error| Refusal { code: 0, why: error.to_string() })?;
        match tokio::time::timeout(self.timeout, self.client.request::<Value>(request)).await {
            Ok(Ok(object)) => Ok(Lease::new(object)),
            Ok(Err(kube::Error::Api(status))) => Err(Refusal { code: status.code, why: status.message.clone() }),
            Ok(Err(error)) => Err(Refusal { code: 0, why: error.to_string() }),
            Err(_) => Err(Refusal { code: 0, why: format!("no answer within {:?}", self.timeout) }),
        }
    }
}

struct Refusal {
    code: u16,
    why: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_the_same_again_after_a_lease() {
        let record = Record {
            holder: "a".to_owned(),
            duration_seconds: 15,
            acquired_micros: Some(1_700_000_000_123_456),
            renewed_micros: Some(1_700_000_001_000_000),
            transitions: 3,
        };
        let spec = spec(&record);
        assert_eq!(spec["acquireTime"], "2023-11-14T22:13:20.123456Z");
        assert_eq!(spec["renewTime"], "2023-11-14T22:13:21.000000Z");
        let lease = Lease::new(json!({ "metadata": { "resourceVersion": "7" }, "spec": spec }));
        assert_eq!((lease.record, lease.revision), (record, Some(7)));
    }

    #[test]
    fn a_lease_may_say_anything() {
        for spec in [json!(null), json!({}), json!([]), json!({ "holderIdentity": 3 }), json!({ "renewTime": "soon" })]
        {
            let lease = Lease::new(json!({ "spec": spec }));
            assert_eq!((lease.record, lease.revision), (Record::default(), None));
        }
    }
}
