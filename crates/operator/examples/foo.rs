//! A Foo has a Deployment: Kubernetes' `sample-controller`, in Rust.
//!
//! ```sh
//! cargo run -p rkube-operator --example foo &
//! kubectl apply -f - <<E
//! {apiVersion: samplecontroller.k8s.io/v1alpha1, kind: Foo, metadata: {name: example-foo},
//!  spec: {deploymentName: example-foo, replicas: 1}}
//! E
//! kubectl get deployments,foos
//! ```
//!
//! It shows a custom resource, objects that belong to it, a status, and events.

use rkube_operator::events::Reference;
use rkube_operator::k8s_openapi::api::apps::v1::Deployment;
use rkube_operator::k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use rkube_operator::kube::api::{Api, Patch, PatchParams, PostParams};
use rkube_operator::kube::{Client, CustomResource, CustomResourceExt as _, ResourceExt as _};
use rkube_operator::ownership::{controller_of, controller_reference};
use rkube_operator::{Action, Context, Controller, Error, Key, Operator, Watch};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

#[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[kube(group = "samplecontroller.k8s.io", version = "v1alpha1", kind = "Foo", namespaced, status = "FooStatus")]
#[kube(annotation("api-approved.kubernetes.io", "unapproved, experimental-only; an example"))]
#[kube(crates(kube_core = "rkube_operator::kube::core", k8s_openapi = "rkube_operator::k8s_openapi"))]
#[serde(rename_all = "camelCase")]
pub struct FooSpec {
    pub deployment_name: String,
    pub replicas: i32,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FooStatus {
    pub available_replicas: i32,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let mut operator = Operator::connect("sample-controller").await?;
    define(operator.environment().client.clone()).await?;
    start(&mut operator);
    operator.run().await
}

/// Has the cluster know what a Foo is.
pub async fn define(client: Client) -> Result<(), Error> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client);
    let (definition, params) = (Foo::crd(), PatchParams::apply("sample-controller").force());
    definitions.patch(&definition.name_any(), &params, &Patch::Apply(&definition)).await?;
    Ok(())
}

pub fn start(operator: &mut Operator) {
    let controller = Controller::<Foo>::new("sample-controller").owns(Watch::<Deployment>::objects()).workers(2);
    operator.controller(controller, reconcile);
}

async fn reconcile(context: Context, key: Key) -> Result<Action, Error> {
    let Some(owner) = context.get::<Foo>(&key).await else { return Ok(Action::done()) };
    let wanted = &owner.spec.deployment_name;
    if wanted.is_empty() {
        return Err(Error::terminal("deploymentName must be specified"));
    }
    let deployments = context.api::<Deployment>(&key.namespace);
    let place = Key { name: wanted.clone(), ..key.clone() };
    let deployment = match context.get::<Deployment>(&place).await {
        None => deployments.create(&PostParams::default(), &deployment(&owner)?).await?,
        Some(there) => (*there).clone(),
    };
    if controller_of(&deployment.metadata).map(|controller| &controller.uid) != owner.metadata.uid.as_ref() {
        let message = format!("Resource {wanted:?} already exists and is not managed by Foo");
        context.recorder.warn(&Reference::of(&*owner), "ErrResourceExists", &*message);
        return Err(Error::text(message));
    }
    if deployment.spec.as_ref().and_then(|spec| spec.replicas) != Some(owner.spec.replicas) {
        let patch = Patch::Merge(json!({ "spec": { "replicas": owner.spec.replicas } }));
        deployments.patch(wanted, &PatchParams::default(), &patch).await?;
    }
    let available = deployment.status.and_then(|status| status.available_replicas).unwrap_or(0);
    let status = FooStatus { available_replicas: available };
    if owner.status.as_ref() != Some(&status) {
        let patch = Patch::Merge(json!({ "status": status }));
        context.api::<Foo>(&key.namespace).patch_status(&key.name, &PatchParams::default(), &patch).await?;
    }
    context.recorder.normal(&Reference::of(&*owner), "Synced", "Foo synced successfully");
    Ok(Action::done())
}

fn deployment(owner: &Foo) -> Result<Deployment, Error> {
    let labels = json!({ "app": "nginx", "controller": owner.name_any() });
    let pods = json!({ "metadata": { "labels": labels }, "spec": { "containers": [{ "name": "nginx", "image": "nginx:latest" }] } });
    Ok(serde_json::from_value(json!({
        "metadata": { "name": owner.spec.deployment_name, "ownerReferences": [controller_reference(owner)] },
        "spec": { "replicas": owner.spec.replicas, "selector": { "matchLabels": labels }, "template": pods },
    }))?)
}
