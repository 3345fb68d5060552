//! A MyDatabase is a StatefulSet with a disk for each member, and a Service by which members and clients find them.
//!
//! ```sh
//! cargo run -p rkube-operator --example mydatabase &
//! kubectl apply -f - <<E
//! {apiVersion: example.com/v1, kind: MyDatabase, metadata: {name: orders}, spec: {version: "16", members: 3, storage: 1Gi}}
//! E
//! kubectl get mydatabases,statefulsets,services,pvc
//! kubectl delete mydatabase orders
//! ```
//!
//! It shows two kinds of owned objects, claims that go with their owner, a status, and a rule by which the
//! server refuses what cannot be done: the disks of a StatefulSet do not change.

use rkube_operator::desired::apply_all;
use rkube_operator::k8s_openapi::api::apps::v1::StatefulSet;
use rkube_operator::k8s_openapi::api::core::v1::Service;
use rkube_operator::k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use rkube_operator::kube::api::{Api, Patch, PatchParams};
use rkube_operator::kube::{Client, CustomResource, CustomResourceExt as _, KubeSchema, ResourceExt as _};
use rkube_operator::{Action, Context, Controller, Error, Key, Operator, Watch};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

const AGENT: &str = "mydatabase-operator";
const PORT: u16 = 5432;

#[derive(CustomResource, Clone, Debug, Serialize, Deserialize, KubeSchema)]
#[kube(group = "example.com", version = "v1", kind = "MyDatabase", plural = "mydatabases", namespaced)]
#[kube(status = "MyDatabaseStatus")]
#[kube(printcolumn = r#"{"name":"Version","type":"string","jsonPath":".spec.version"}"#)]
#[kube(printcolumn = r#"{"name":"Members","type":"integer","jsonPath":".status.readyMembers"}"#)]
#[kube(printcolumn = r#"{"name":"Phase","type":"string","jsonPath":".status.phase"}"#)]
#[kube(crates(kube_core = "rkube_operator::kube::core", k8s_openapi = "rkube_operator::k8s_openapi"))]
pub struct MyDatabaseSpec {
    pub version: String,
    #[schemars(range(min = 1, max = 9))]
    pub members: i32,
    /// The disk of each member.
    #[x_kube(validation = ("self == oldSelf", "disks cannot change: make a new database and move the data"))]
    pub storage: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MyDatabaseStatus {
    pub observed_generation: Option<i64>,
    pub phase: String,
    pub ready_members: i32,
    /// Where clients connect to.
    pub address: String,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let mut operator = Operator::connect(AGENT).await?;
    define(operator.environment().client.clone()).await?;
    start(&mut operator);
    operator.run().await
}

/// Has the cluster know what a MyDatabase is.
pub async fn define(client: Client) -> Result<(), Error> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client);
    let (definition, params) = (MyDatabase::crd(), PatchParams::apply(AGENT).force());
    definitions.patch(&definition.name_any(), &params, &Patch::Apply(&definition)).await?;
    Ok(())
}

pub fn start(operator: &mut Operator) {
    let controller = Controller::<MyDatabase>::new("mydatabase")
        .owns(Watch::<StatefulSet>::objects())
        .owns(Watch::<Service>::objects());
    operator.controller(controller, reconcile);
}

async fn reconcile(context: Context, key: Key) -> Result<Action, Error> {
    let Some(database) = context.get::<MyDatabase>(&key).await else { return Ok(Action::done()) };
    if database.metadata.deletion_timestamp.is_some() {
        // What it owns goes with it: the set and the service by the garbage collector, disks by the set's retention policy.
        return Ok(Action::done());
    }
    apply_all(&context, &*database, AGENT, vec![service(&database)?]).await?;
    apply_all(&context, &*database, AGENT, vec![stateful_set(&database)?]).await?;
    let set = context.get::<StatefulSet>(&key).await.and_then(|set| set.status.clone()).unwrap_or_default();
    let status = status(&database, set.ready_replicas.unwrap_or(0), set.updated_replicas.unwrap_or(0));
    if database.status.as_ref() != Some(&status) {
        let databases = context.api::<MyDatabase>(&key.namespace);
        let patch = Patch::Merge(json!({ "status": status }));
        databases.patch_status(&key.name, &PatchParams::default(), &patch).await?;
    }
    Ok(Action::done())
}

fn status(database: &MyDatabase, ready: i32, updated: i32) -> MyDatabaseStatus {
    let members = database.spec.members;
    let phase = match (ready >= members, updated >= members) {
        (true, true) => "Running",
        (_, true) => "Starting",
        (_, false) => "Updating",
    };
    let (name, namespace) = (database.name_any(), database.namespace().unwrap_or_default());
    MyDatabaseStatus {
        observed_generation: database.metadata.generation,
        phase: phase.to_owned(),
        ready_members: ready,
        address: format!("{name}.{namespace}.svc:{PORT}"),
    }
}

/// Without an address of its own: each member has a name, and clients get all of them.
fn service(database: &MyDatabase) -> Result<Service, Error> {
    let (name, ports) = (database.name_any(), json!([{ "name": "sql", "port": PORT }]));
    Ok(serde_json::from_value(json!({
        "metadata": { "name": name },
        "spec": { "clusterIP": "None", "selector": { "mydatabase": name }, "ports": ports },
    }))?)
}

fn stateful_set(database: &MyDatabase) -> Result<StatefulSet, Error> {
    let (name, spec) = (database.name_any(), &database.spec);
    let labels = json!({ "mydatabase": name });
    let mounts = json!([{ "name": "data", "mountPath": "/var/lib/data" }]);
    let image = format!("postgres:{}", spec.version);
    let containers =
        json!([{ "name": "database", "image": image, "ports": [{ "containerPort": PORT }], "volumeMounts": mounts }]);
    let disk = json!({ "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": spec.storage } } });
    Ok(serde_json::from_value(json!({
        "metadata": { "name": name, "labels": labels },
        "spec": {
            "serviceName": name,
            "replicas": spec.members,
            "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels }, "spec": { "containers": containers } },
            "volumeClaimTemplates": [{ "metadata": { "name": "data" }, "spec": disk }],
            "persistentVolumeClaimRetentionPolicy": { "whenDeleted": "Delete", "whenScaled": "Retain" },
        },
    }))?)
}
