//! Objects that own each other in ways that they should not, and what becomes of what they own.

use rkube_testkit::{Rkube, eventually};
use serde_json::{Value, json};

use crate::client::{Answer, Client};
use crate::{is_well, start};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

fn send(client: &Client, method: &str, path: &str, body: &Value) -> Answer {
    let content_type = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    client.request(method, path, &[("Content-Type", content_type)], body.to_string().as_bytes()).unwrap()
}

/// Makes a ConfigMap with these owners; returns a reference to it.
fn make(client: &Client, path: &str, name: &str, owners: &[Value]) -> Value {
    let made = send(client, "POST", path, &json!({"metadata": {"name": name, "ownerReferences": owners}}));
    assert_eq!(made.status, 201, "{}", made.json());
    reference("v1", "ConfigMap", name, made.json()["metadata"]["uid"].as_str().unwrap())
}

fn reference(api_version: &str, kind: &str, name: &str, uid: &str) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "name": name, "uid": uid, "blockOwnerDeletion": true})
}

fn delete(client: &Client, path: &str, policy: &str) {
    let deleted = send(client, "DELETE", path, &json!({"propagationPolicy": policy}));
    assert_eq!(deleted.status, 200, "{}", deleted.json());
}

/// The names of the ConfigMaps in the namespace, but for that which every namespace has.
fn left(client: &Client, path: &str) -> Vec<String> {
    let list = client.get(path).json();
    let names =
        list["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].as_str().unwrap().to_owned());
    names.filter(|name| name != "kube-root-ca.crt").collect()
}

fn expect_left(client: &Client, path: &str, names: &[&str]) {
    eventually("garbage is collected", || {
        let left = left(client, path);
        if left == names { Ok(()) } else { Err(format!("{left:?}, not {names:?}")) }
    });
}

/// Once an object that has lost its owner just now is gone, what was to go before it is gone, too.
fn everything_is_looked_at(client: &Client) {
    make(client, MAPS, "canary", &[reference("v1", "ConfigMap", "nobody", "nothing")]);
    eventually("the canary goes", || match client.get(&format!("{MAPS}/canary")).status {
        404 => Ok(()),
        status => Err(status.to_string()),
    });
}

#[test]
fn circles_go_as_a_whole() {
    let rkube = start();
    let client = Client::of(&rkube);
    for policy in ["Background", "Foreground"] {
        let first = make(&client, MAPS, "a", &[]);
        let second = make(&client, MAPS, "b", &[first]);
        let third = make(&client, MAPS, "c", &[second]);
        let owners = json!({"metadata": {"ownerReferences": [third]}});
        assert_eq!(send(&client, "PATCH", &format!("{MAPS}/a"), &owners).status, 200);
        everything_is_looked_at(&client);
        assert_eq!(left(&client, MAPS), ["a", "b", "c"]);
        delete(&client, &format!("{MAPS}/b"), policy);
        expect_left(&client, MAPS, &[]);

        // One that owns itself goes as nobody's.
        let itself = make(&client, MAPS, "itself", &[]);
        let owners = json!({"metadata": {"ownerReferences": [itself]}});
        assert_eq!(send(&client, "PATCH", &format!("{MAPS}/itself"), &owners).status, 200);
        everything_is_looked_at(&client);
        assert_eq!(left(&client, MAPS), ["itself"]);
        delete(&client, &format!("{MAPS}/itself"), policy);
        expect_left(&client, MAPS, &[]);
    }
    is_well(&rkube);
}

#[test]
fn owners_that_are_not_there_or_elsewhere_or_of_no_kind() {
    let rkube = start();
    let client = Client::of(&rkube);
    let top = make(&client, MAPS, "top", &[]);
    // Nothing says that there is no such object.
    make(&client, MAPS, "of-no-kind", &[reference("example.com/v1", "Foo", "foo", "1")]);
    make(&client, MAPS, "of-nobody", &[reference("v1", "ConfigMap", "nobody", "2")]);
    make(&client, MAPS, "of-another-uid", &[reference("v1", "ConfigMap", "top", "3")]);
    make(&client, MAPS, "of-both", &[reference("v1", "ConfigMap", "nobody", "2"), top.clone()]);
    expect_left(&client, MAPS, &["of-both", "of-no-kind", "top"]);
    eventually("the reference to nobody goes", || {
        let owners = client.get(&format!("{MAPS}/of-both")).json()["metadata"]["ownerReferences"].clone();
        if owners.as_array().is_some_and(|owners| owners.len() == 1) { Ok(()) } else { Err(owners.to_string()) }
    });

    assert_eq!(send(&client, "POST", "/api/v1/namespaces", &json!({"metadata": {"name": "other"}})).status, 201);
    let elsewhere = "/api/v1/namespaces/other/configmaps";
    make(&client, elsewhere, "stray", std::slice::from_ref(&top));
    expect_left(&client, elsewhere, &[]);
    let uid = top["uid"].as_str().unwrap();
    let message = format!(
        "ownerRef [v1/ConfigMap, namespace: other, name: top, uid: {uid}] does not exist in namespace \"other\""
    );
    eventually("an event says why", || {
        let events = client.get("/api/v1/namespaces/other/events").json();
        let found = events["items"].as_array().unwrap().iter().find(|event| event["message"] == message.as_str());
        let Some(event) = found else { return Err(events.to_string()) };
        assert_eq!((&event["reason"], &event["type"]), (&json!("OwnerRefInvalidNamespace"), &json!("Warning")));
        assert_eq!(event["source"]["component"], "garbage-collector-controller");
        assert_eq!(event["involvedObject"]["name"], "stray");
        Ok(())
    });
    assert_eq!(client.get(&format!("{MAPS}/top")).status, 200);

    // A cluster-scoped object cannot have an owner in a namespace: it is left alone.
    let role = json!({"metadata": {"name": "held", "ownerReferences": [top]}, "rules": []});
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    assert_eq!(send(&client, "POST", roles, &role).status, 201);
    everything_is_looked_at(&client);
    assert_eq!(client.get(&format!("{roles}/held")).status, 200);
    is_well(&rkube);
}

#[test]
fn a_foreground_deletion_waits_for_those_that_block_it() {
    let rkube = start();
    let client = Client::of(&rkube);
    let top = make(&client, MAPS, "top", &[]);
    let hold = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    let mut free = top.clone();
    free["blockOwnerDeletion"] = json!(false);
    make(&client, MAPS, "blocking", &[top]);
    make(&client, MAPS, "free", &[free]);
    for name in ["blocking", "free"] {
        assert_eq!(send(&client, "PATCH", &format!("{MAPS}/{name}"), &hold).status, 200);
    }
    delete(&client, &format!("{MAPS}/top"), "Foreground");
    eventually("dependents are deleted", || {
        let is_going =
            |name: &str| client.get(&format!("{MAPS}/{name}")).json()["metadata"]["deletionTimestamp"].is_string();
        if is_going("blocking") && is_going("free") { Ok(()) } else { Err("not yet".to_owned()) }
    });
    everything_is_looked_at(&client);
    let finalizers = client.get(&format!("{MAPS}/top")).json()["metadata"]["finalizers"].clone();
    assert_eq!(finalizers, json!(["foregroundDeletion"]));
    let release = json!({"metadata": {"finalizers": null}});
    assert_eq!(send(&client, "PATCH", &format!("{MAPS}/blocking"), &release).status, 200);
    expect_left(&client, MAPS, &["free"]);
    assert_eq!(send(&client, "PATCH", &format!("{MAPS}/free"), &release).status, 200);
    expect_left(&client, MAPS, &[]);
    is_well(&rkube);
}

#[test]
fn orphans_stay_without_their_owner() {
    let rkube = start();
    let client = Client::of(&rkube);
    let top = make(&client, MAPS, "top", &[]);
    let other = make(&client, MAPS, "other", &[]);
    make(&client, MAPS, "kid", std::slice::from_ref(&top));
    make(&client, MAPS, "shared", &[top, other.clone()]);
    delete(&client, &format!("{MAPS}/top"), "Orphan");
    expect_left(&client, MAPS, &["kid", "other", "shared"]);
    let owners = |name: &str| client.get(&format!("{MAPS}/{name}")).json()["metadata"]["ownerReferences"].clone();
    assert_eq!((owners("kid"), owners("shared")), (Value::Null, json!([other])));
    is_well(&rkube);
}

fn define(client: &Client, scope: &str) {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = json!({
        "metadata": {"name": "foos.example.com"},
        "spec": {
            "group": "example.com", "scope": scope, "names": {"plural": "foos", "kind": "Foo"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    });
    let made = send(client, "POST", DEFINITIONS, &definition);
    assert_eq!(made.status, 201, "{}", made.json());
}

#[test]
fn a_definition_takes_its_objects_and_theirs_along() {
    let rkube = start();
    let client = Client::of(&rkube);
    let foos = "/apis/example.com/v1/namespaces/default/foos";
    for _ in 0..2 {
        define(&client, "Namespaced");
        let uid = eventually("the kind is served", || {
            let foo = json!({"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": "foo"}});
            let made = send(&client, "POST", foos, &foo);
            if made.status == 201 {
                Ok(made.json()["metadata"]["uid"].as_str().unwrap().to_owned())
            } else {
                Err(made.status.to_string())
            }
        });
        let foo = reference("example.com/v1", "Foo", "foo", &uid);
        // An owner that is custom, and one that a custom object has: strategic patches are none of theirs.
        let map = make(&client, MAPS, "of-foo", &[foo]);
        let bar = json!({"apiVersion": "example.com/v1", "kind": "Foo",
            "metadata": {"name": "bar", "ownerReferences": [map, reference("v1", "ConfigMap", "nobody", "0")]}});
        assert_eq!(send(&client, "POST", foos, &bar).status, 201);
        eventually("the custom object keeps the owner that is there", || {
            let owners = client.get(&format!("{foos}/bar")).json()["metadata"]["ownerReferences"].clone();
            if owners.as_array().is_some_and(|owners| owners.len() == 1) { Ok(()) } else { Err(owners.to_string()) }
        });
        assert_eq!(send(&client, "DELETE", &format!("{DEFINITIONS}/foos.example.com"), &json!({})).status, 200);
        expect_left(&client, MAPS, &[]);
        eventually("the definition goes", || match client.get(&format!("{DEFINITIONS}/foos.example.com")).status {
            404 => Ok(()),
            status => Err(status.to_string()),
        });
    }
    is_well(&rkube);
}

#[test]
fn a_kind_that_comes_later_has_its_dependents_judged_then() {
    let rkube = start();
    let client = Client::of(&rkube);
    make(&client, MAPS, "early", &[reference("example.com/v1", "Foo", "never", "1")]);
    everything_is_looked_at(&client);
    assert_eq!(left(&client, MAPS), ["early"]);
    define(&client, "Namespaced");
    expect_left(&client, MAPS, &[]);
    is_well(&rkube);
}

#[test]
fn what_happened_while_nobody_looked_is_found_at_the_start() {
    let mut rkube = Rkube::start_with(env!("CARGO_BIN_EXE_rkube"), &["--controllers=*,-garbage-collector-controller"]);
    let client = Client::of(&rkube);
    let top = make(&client, MAPS, "top", &[]);
    make(&client, MAPS, "kid", &[top]);
    let held = make(&client, MAPS, "held", &[]);
    make(&client, MAPS, "of-held", &[held]);
    let orphaning = make(&client, MAPS, "orphaning", &[]);
    make(&client, MAPS, "orphan", &[orphaning]);
    delete(&client, &format!("{MAPS}/top"), "Background");
    delete(&client, &format!("{MAPS}/held"), "Foreground");
    delete(&client, &format!("{MAPS}/orphaning"), "Orphan");
    assert_eq!(left(&client, MAPS).len(), 5);
    rkube.restart_with(&["--controllers=*"]);
    expect_left(&Client::of(&rkube), MAPS, &["orphan"]);
    is_well(&rkube);
}

#[test]
fn a_namespace_says_what_it_waits_for() {
    let rkube = start();
    let client = Client::of(&rkube);
    let namespace = "/api/v1/namespaces/going";
    assert_eq!(send(&client, "POST", "/api/v1/namespaces", &json!({"metadata": {"name": "going"}})).status, 201);
    let maps = format!("{namespace}/configmaps");
    let held = json!({"metadata": {"name": "held", "finalizers": ["example.com/hold"]}});
    assert_eq!(send(&client, "POST", &maps, &held).status, 201);
    // One that a kubelet would have to end first.
    let pod = json!({"metadata": {"name": "pod"},
        "spec": {"nodeName": "n", "serviceAccountName": "x", "automountServiceAccountToken": false,
            "containers": [{"name": "a", "image": "a"}]}});
    let account = json!({"metadata": {"name": "x"}});
    assert_eq!(send(&client, "POST", &format!("{namespace}/serviceaccounts"), &account).status, 201);
    let made = send(&client, "POST", &format!("{namespace}/pods"), &pod);
    assert_eq!(made.status, 201, "{}", made.json());
    delete(&client, namespace, "Background");
    let condition = |kind: &str| {
        let found = client.get(namespace).json()["status"]["conditions"].clone();
        let mut conditions = found.as_array().cloned().unwrap_or_default().into_iter();
        conditions.find(|condition| condition["type"] == kind).unwrap_or_default()
    };
    eventually("it is looked at", || match condition("NamespaceContentRemaining")["status"] == "False" {
        true => Ok(()),
        false => Err(condition("NamespaceContentRemaining").to_string()),
    });
    // Pods go first, and nothing else while there are any.
    assert!(client.get(&format!("{maps}/held")).json()["metadata"].get("deletionTimestamp").is_none());
    let now = json!({"gracePeriodSeconds": 0});
    assert_eq!(send(&client, "DELETE", &format!("{namespace}/pods/pod"), &now).status, 200);
    eventually("what is left is said", || {
        let text = condition("NamespaceContentRemaining")["message"].clone();
        let want = "Some resources are remaining: configmaps. has 1 resource instances";
        if text == want { Ok(()) } else { Err(text.to_string()) }
    });
    assert_eq!(
        condition("NamespaceFinalizersRemaining")["message"],
        "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances"
    );
    let release = json!({"metadata": {"finalizers": null}});
    assert_eq!(send(&client, "PATCH", &format!("{maps}/held"), &release).status, 200);
    eventually("the namespace goes", || match client.get(namespace).status {
        404 => Ok(()),
        status => Err(status.to_string()),
    });
    is_well(&rkube);
}
