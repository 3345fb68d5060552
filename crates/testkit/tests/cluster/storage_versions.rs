//! Objects that are stored in the version of yesterday are written again; and what API servers say of versions goes with
//! them.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use rkube_operator::kube::api::{DynamicObject, ListParams, Patch, PatchParams, PostParams};
use rkube_operator::kube::core::{ApiResource, GroupVersionKind};
use rkube_operator::kube::{Api, Client, ResourceExt as _};
use rkube_store::{Memory, Store as _};
use rkube_testkit::TestCluster;
use serde_json::{Value, json};

const SOON: Duration = Duration::from_secs(5);

fn api(client: Client, group: &str, version: &str, kind: &str) -> Api<DynamicObject> {
    Api::all_with(client, &ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind)))
}

fn definitions(cluster: &TestCluster) -> Api<DynamicObject> {
    api(cluster.client(), "apiextensions.k8s.io", "v1", "CustomResourceDefinition")
}

fn migrations(cluster: &TestCluster) -> Api<DynamicObject> {
    api(cluster.client(), "storagemigration.k8s.io", "v1beta1", "StorageVersionMigration")
}

async fn create(api: &Api<DynamicObject>, object: Value) {
    api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
}

async fn migrate(cluster: &TestCluster, name: &str, group: &str, resource: &str) {
    let migration = json!({
        "apiVersion": "storagemigration.k8s.io/v1beta1", "kind": "StorageVersionMigration",
        "metadata": { "name": name }, "spec": { "resource": { "group": group, "resource": resource } },
    });
    create(&migrations(cluster), migration).await;
}

/// Type, status, reason and message of each condition.
fn conditions(object: &DynamicObject) -> Vec<[String; 4]> {
    let all = object.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let text = |condition: &Value, field: &str| condition[field].as_str().unwrap_or_default().to_owned();
    all.iter().map(|one| ["type", "status", "reason", "message"].map(|field| text(one, field))).collect()
}

fn told(conditions: &[[&str; 4]]) -> Vec<[String; 4]> {
    conditions.iter().map(|condition| condition.map(str::to_owned)).collect()
}

/// A definition with two versions, of which one is stored.
fn definition(stored: &str) -> Value {
    let version = |name: &str| {
        let schema = json!({ "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } });
        json!({ "name": name, "served": true, "storage": name == stored, "schema": schema })
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "things.example.com" },
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": { "plural": "things", "kind": "Thing" },
            "versions": [version("v1"), version("v2")],
        },
    })
}

async fn stored_versions(cluster: &TestCluster) -> Value {
    definitions(cluster).get("things.example.com").await.unwrap().data["status"]["storedVersions"].clone()
}

#[tokio::test]
async fn all_objects_are_stored_in_the_new_version_and_the_old_one_can_go() {
    let store = Arc::new(Memory::new());
    let builder = TestCluster::builder().store(store.clone()).virtual_time().without_scheduler();
    let cluster = builder.feature("StorageVersionMigrator").serve("storagemigration.k8s.io/v1beta1").start().await;
    create(&definitions(&cluster), definition("v1")).await;
    cluster.advance(SOON).await;
    let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("example.com", "v1", "Thing"), "things");
    let things: Api<DynamicObject> = Api::namespaced_with(cluster.client(), "default", &resource);
    for index in 0..3 {
        let name = format!("t{index}");
        create(&things, json!({ "apiVersion": "example.com/v1", "kind": "Thing", "metadata": { "name": name } })).await;
    }
    let moved = Patch::Merge(definition("v2"));
    definitions(&cluster).patch("things.example.com", &PatchParams::default(), &moved).await.unwrap();
    cluster.advance(SOON).await;
    assert_eq!(stored_versions(&cluster).await, json!(["v1", "v2"]));
    let stored = async |name: &str| {
        let (found, _) = store.get(&format!("/registry/example.com/things/default/{name}")).await.unwrap();
        String::from_utf8_lossy(&found.unwrap().value).contains("example.com/v2")
    };
    assert!(!stored("t0").await, "nobody has written it since");

    migrate(&cluster, "m", "example.com", "things").await;
    cluster.advance(SOON).await;
    let migration = migrations(&cluster).get("m").await.unwrap();
    let over = [
        ["Running", "False", "MigrationCompleted", "Migration completed"],
        ["Succeeded", "True", "StorageVersionMigrationSucceeded", ""],
    ];
    assert_eq!(conditions(&migration), told(&over));
    assert!(migration.data["status"]["resourceVersion"].as_str().is_some_and(|revision| !revision.is_empty()));
    for name in ["t0", "t1", "t2"] {
        assert!(stored(name).await, "{name} is stored in the new version");
        let managers = things.get(name).await.unwrap().metadata.managed_fields.unwrap_or_default();
        assert!(managers.iter().all(|entry| entry.manager.as_deref() != Some("storage-version-migrator-controller")));
    }
    assert_eq!(stored_versions(&cluster).await, json!(["v2"]));
    let found = definitions(&cluster).get("things.example.com").await.unwrap();
    let message = "The migration has succeeded and the stored versions have been updated";
    let expected = told(&[["StorageMigrating", "False", "MigrationSucceeded", message]]);
    assert!(conditions(&found).contains(&expected[0]), "{:?}", conditions(&found));

    let mut without = definition("v2");
    without["spec"]["versions"].as_array_mut().unwrap().remove(0);
    definitions(&cluster).patch("things.example.com", &PatchParams::default(), &Patch::Merge(without)).await.unwrap();
    cluster.advance(SOON).await;
    let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("example.com", "v2", "Thing"), "things");
    let things: Api<DynamicObject> = Api::namespaced_with(cluster.client(), "default", &resource);
    assert_eq!(things.list(&ListParams::default()).await.unwrap().items.len(), 3);
}

#[tokio::test]
async fn migrations_end_also_where_there_is_nothing_to_do_or_nothing_can_be_done() {
    let builder = TestCluster::builder().virtual_time().without_scheduler();
    let cluster = builder.feature("StorageVersionMigrator").serve("storagemigration.k8s.io/v1beta1").start().await;
    let maps: Api<ConfigMap> = Api::all(cluster.client());
    let versions = async || {
        let all = maps.list(&ListParams::default()).await.unwrap().items;
        all.iter().map(|map| (map.name_any(), map.resource_version())).collect::<Vec<_>>()
    };
    cluster.advance(SOON).await;
    let before = versions().await;
    assert!(!before.is_empty());
    migrate(&cluster, "maps", "", "configmaps").await;
    migrate(&cluster, "again", "", "configmaps").await;
    migrate(&cluster, "nothing", "example.com", "nothings").await;
    migrate(&cluster, "reviews", "authorization.k8s.io", "subjectaccessreviews").await;
    cluster.advance(SOON).await;
    let found = async |name: &str| conditions(&migrations(&cluster).get(name).await.unwrap());
    let running = ["Running", "True", "MigrationRunning", "The migration is running"];
    let completed = ["Running", "False", "MigrationCompleted", "Migration completed"];
    let succeeded = ["Succeeded", "True", "StorageVersionMigrationSucceeded", ""];
    assert_eq!(found("maps").await, told(&[completed, succeeded]));
    assert_eq!(found("again").await, told(&[completed, succeeded]));
    assert_eq!(versions().await, before, "they were as they should be");
    let why = "resource \"authorization.k8s.io/v1, Resource=subjectaccessreviews\" does not support discovery operations: \
               [update patch list]";
    assert_eq!(found("reviews").await, told(&[completed, ["Failed", "True", "StorageVersionMigrationFailed", why]]));
    assert_eq!(found("nothing").await, told(&[running]));
    cluster.advance(Duration::from_secs(60)).await;
    let why = "resource does not exist in discovery";
    assert_eq!(found("nothing").await, told(&[completed, ["Failed", "True", "StorageVersionMigrationFailed", why]]));
}

#[tokio::test]
async fn what_servers_said_goes_with_them() {
    let builder = TestCluster::builder().virtual_time().without_scheduler();
    let cluster = builder.feature("StorageVersionAPI").serve("internal.apiserver.k8s.io/v1alpha1").start().await;
    let versions = api(cluster.client(), "internal.apiserver.k8s.io", "v1alpha1", "StorageVersion");
    let leases: Api<DynamicObject> = {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("coordination.k8s.io", "v1", "Lease"));
        Api::namespaced_with(cluster.client(), "kube-system", &resource)
    };
    cluster.advance(SOON).await;
    let identity = ListParams::default().labels("apiserver.kubernetes.io/identity=kube-apiserver");
    let server = leases.list(&identity).await.unwrap().items.remove(0).name_any();
    let said = |server: &str, version: &str| json!({ "apiServerID": server, "encodingVersion": version, "decodableVersions": [version], "servedVersions": [version] });
    for (name, servers, common) in [
        ("apps.deployments", vec![said(&server, "apps/v1"), said("apiserver-gone", "apps/v2")], Value::Null),
        ("batch.jobs", vec![said("apiserver-gone", "batch/v1")], json!("batch/v1")),
    ] {
        let version = json!({
            "apiVersion": "internal.apiserver.k8s.io/v1alpha1", "kind": "StorageVersion",
            "metadata": { "name": name }, "spec": {},
        });
        create(&versions, version).await;
        let status = Patch::Merge(json!({ "status": { "storageVersions": servers, "commonEncodingVersion": common } }));
        versions.patch_status(name, &PatchParams::default(), &status).await.unwrap();
    }
    cluster.advance(SOON).await;
    let left = versions.list(&ListParams::default()).await.unwrap().items;
    assert_eq!(left.iter().map(|version| version.name_any()).collect::<Vec<_>>(), ["apps.deployments"]);
    let status = &left[0].data["status"];
    assert_eq!(status["storageVersions"], json!([said(&server, "apps/v1")]));
    assert_eq!(status["commonEncodingVersion"], "apps/v1");
    let expected =
        told(&[["AllEncodingVersionsEqual", "True", "CommonEncodingVersionSet", "Common encoding version set"]]);
    assert_eq!(conditions(&left[0]), expected);
}
