//! Says in the status of ValidatingAdmissionPolicies what their expressions get wrong about the kinds that they are for.
//! Watches policies; writes their status once for each generation. It changes nothing about what policies do.

mod plan;
mod types;

use std::sync::Arc;

use k8s_openapi::api::admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicySpec};
use rkube_operator::kube::{self, Client};
use rkube_operator::{Caches, Discovered, Informer, Key, Outcome, Queue};
use serde_json::json;

use crate::Context;
use crate::requests::{self, is_not_found};
use plan::{Gvk, Typed};
use types::SchemaTypes;

const NAME: &str = "validatingadmissionpolicy-status-controller";
/// Who writes the status.
const FIELD_MANAGER: &str = "validatingadmissionpolicy-status";

pub async fn run(context: Context) {
    let Context { client, caches, settings, .. } = context;
    let queue: Queue<Key> = Queue::new();
    let adding = queue.clone();
    let policies = caches.objects::<ValidatingAdmissionPolicy>().on_change(move |change| {
        if change.new.is_some() {
            adding.add(change.key.clone());
        }
    });
    policies.synced().await;
    let workers = settings.concurrent_validating_admission_policy_status_syncs;
    let manager = Arc::new(Manager { client, caches, policies });
    rkube_operator::run(NAME, queue, workers, move |key: Key| {
        let manager = manager.clone();
        async move { manager.reconcile(&key).await.map_err(rkube_operator::Error::from) }
    })
    .await;
}

struct Manager {
    client: Client,
    caches: Caches,
    policies: Informer<ValidatingAdmissionPolicy>,
}

impl Manager {
    async fn reconcile(&self, key: &Key) -> Result<Outcome, kube::Error> {
        let Some(policy) = self.policies.get("", &key.name) else { return Ok(Outcome::Unchanged) };
        let generation = policy.metadata.generation.unwrap_or(0);
        let seen = policy.status.as_ref().and_then(|status| status.observed_generation).unwrap_or(0);
        if generation <= seen {
            return Ok(Outcome::Unchanged);
        }
        let spec = policy.spec.clone().unwrap_or_default();
        let warnings = self.check(&spec).await;
        let mut checking = json!({});
        if !warnings.is_empty() {
            checking["expressionWarnings"] = warnings.into();
        }
        let body = json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicy",
            "metadata": { "name": key.name },
            "status": { "observedGeneration": generation, "typeChecking": checking },
        });
        let path = format!("/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/{}/status", key.name);
        match requests::apply(&self.client, &path, FIELD_MANAGER, &body).await {
            Err(error) if is_not_found(&error) => Ok(Outcome::Unchanged),
            other => other.map(|_| Outcome::Wrote),
        }
    }

    async fn check(&self, spec: &ValidatingAdmissionPolicySpec) -> Vec<serde_json::Value> {
        let served = self.caches.source().resources().await.unwrap_or_default();
        let find = |group: &str, version: &str, resource: &str| {
            let is_meant = |found: &&Discovered| {
                let of = &found.resource;
                (of.group.as_str(), of.version.as_str(), of.plural.as_str()) == (group, version, resource)
            };
            served.iter().find(is_meant).map(|found| found.resource.kind.clone())
        };
        let mut kinds = Vec::new();
        for kind in plan::kinds(spec, find) {
            kinds.extend(self.typed(kind).await);
        }
        let params = match &spec.param_kind {
            Some(params) => {
                let version = params.api_version.as_deref().unwrap_or_default();
                let (group, version) = version.split_once('/').unwrap_or(("", version));
                let kind = params.kind.clone().unwrap_or_default();
                self.typed((group.to_owned(), version.to_owned(), kind)).await
            }
            None => None,
        };
        plan::warnings(spec, &kinds, params.as_ref())
    }

    /// What a kind is like. A kind without a schema is not checked.
    async fn typed(&self, kind: Gvk) -> Option<Typed> {
        let (group, version, name) = &kind;
        let place = if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") };
        let document = requests::get_value(&self.client, &format!("/openapi/v3/{place}")).await.ok()?;
        let (object, types) = SchemaTypes::of(Arc::new(document), group, version, name)?;
        Some(Typed { kind, object, types })
    }
}
