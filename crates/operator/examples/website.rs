//! A Website is served by pods under its domain.
//!
//! ```sh
//! cargo run -p rkube-operator --example website &
//! kubectl apply -f - <<E
//! {apiVersion: example.com/v1, kind: Website, metadata: {name: blog}, spec: {domain: blog.example.com}}
//! E
//! kubectl get websites,deployments,pods
//! kubectl delete website blog
//! ```
//!
//! It shows a desired set of objects that is applied and pruned, a status, and a finalizer: domains are registered
//! somewhere else (here that is the ConfigMap `domains`), and the registration has to go before the Website does.

use rkube_operator::desired::apply_all;
use rkube_operator::finalizer::{Step, finalized};
use rkube_operator::k8s_openapi::api::apps::v1::Deployment;
use rkube_operator::k8s_openapi::api::core::v1::ConfigMap;
use rkube_operator::k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use rkube_operator::kube::api::{Api, Patch, PatchParams};
use rkube_operator::kube::{Client, CustomResource, CustomResourceExt as _, ResourceExt as _};
use rkube_operator::{Action, Context, Controller, Error, Key, Operator, Watch};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

const AGENT: &str = "website-operator";
const FINALIZER: &str = "example.com/domain";
const DOMAINS: &str = "domains";

#[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[kube(group = "example.com", version = "v1", kind = "Website", namespaced, status = "WebsiteStatus")]
#[kube(printcolumn = r#"{"name":"Domain","type":"string","jsonPath":".spec.domain"}"#)]
#[kube(printcolumn = r#"{"name":"Ready","type":"integer","jsonPath":".status.readyReplicas"}"#)]
#[kube(crates(kube_core = "rkube_operator::kube::core", k8s_openapi = "rkube_operator::k8s_openapi"))]
#[serde(rename_all = "camelCase")]
pub struct WebsiteSpec {
    pub domain: String,
    /// How many pods serve it; one, if that is not said.
    pub replicas: Option<i32>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebsiteStatus {
    pub observed_generation: Option<i64>,
    pub ready_replicas: i32,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let mut operator = Operator::connect(AGENT).await?;
    define(operator.environment().client.clone()).await?;
    start(&mut operator);
    operator.serve("127.0.0.1:8080").await?;
    operator.run().await
}

/// Has the cluster know what a Website is.
pub async fn define(client: Client) -> Result<(), Error> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client);
    let (definition, params) = (Website::crd(), PatchParams::apply(AGENT).force());
    definitions.patch(&definition.name_any(), &params, &Patch::Apply(&definition)).await?;
    Ok(())
}

pub fn start(operator: &mut Operator) {
    let controller = Controller::<Website>::new("website").owns(Watch::<Deployment>::objects()).workers(4);
    operator.controller(controller, reconcile);
}

async fn reconcile(context: Context, key: Key) -> Result<Action, Error> {
    let Some(site) = context.get::<Website>(&key).await else { return Ok(Action::done()) };
    let sites = context.api::<Website>(&key.namespace);
    finalized(&sites, &*site, FINALIZER, async |step| match step {
        Step::Apply => apply(&context, &sites, &site).await,
        Step::Cleanup => register(&context, &site, None).await.map(|()| Action::done()),
    })
    .await
}

async fn apply(context: &Context, sites: &Api<Website>, site: &Website) -> Result<Action, Error> {
    register(context, site, Some(&site.spec.domain)).await?;
    apply_all(context, site, AGENT, vec![deployment(site)?]).await?;
    let place = Key::of(site);
    let status = context.get::<Deployment>(&place).await.and_then(|there| there.status.clone());
    let ready = status.and_then(|status| status.ready_replicas).unwrap_or(0);
    let status = WebsiteStatus { observed_generation: site.metadata.generation, ready_replicas: ready };
    if site.status.as_ref() != Some(&status) {
        let patch = Patch::Merge(json!({ "status": status }));
        sites.patch_status(&place.name, &PatchParams::default(), &patch).await?;
    }
    Ok(Action::done())
}

/// Says under which domain the site is; under none any more.
async fn register(context: &Context, site: &Website, domain: Option<&str>) -> Result<(), Error> {
    let place = Key::of(site);
    let maps = context.api::<ConfigMap>(&place.namespace);
    let known = maps.get_opt(DOMAINS).await?.and_then(|map| map.data?.remove(&place.name));
    if known.as_deref() == domain {
        return Ok(());
    }
    // Each site has a manager of its own: what it no longer applies is gone.
    let data = domain.map(|domain| json!({ place.name.clone(): domain })).unwrap_or_default();
    let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": DOMAINS }, "data": data });
    let params = PatchParams::apply(&format!("{AGENT}-{}", place.name)).force();
    maps.patch(DOMAINS, &params, &Patch::Apply(map)).await?;
    Ok(())
}

fn deployment(site: &Website) -> Result<Deployment, Error> {
    let labels = json!({ "website": site.name_any() });
    let environment = json!([{ "name": "DOMAIN", "value": site.spec.domain }]);
    let containers = json!([{ "name": "web", "image": "nginx:latest", "env": environment }]);
    Ok(serde_json::from_value(json!({
        "metadata": { "name": site.name_any(), "labels": labels },
        "spec": {
            "replicas": site.spec.replicas.unwrap_or(1),
            "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels }, "spec": { "containers": containers } },
        },
    }))?)
}
