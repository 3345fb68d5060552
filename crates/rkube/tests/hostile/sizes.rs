//! Bodies with many small parts. Work that grew with the square of their number would take minutes, and the client's
//! patience ends before; `doubling` looks for more of them.

use serde_json::json;

use crate::client::{Answer, Client};
use crate::{is_well, start};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";

fn send(client: &Client, method: &str, path: &str, content_type: &str, body: &str) -> Answer {
    client.request(method, path, &[("Content-Type", content_type)], body.as_bytes()).unwrap()
}

fn warnings(answer: &Answer) -> usize {
    answer.headers.iter().filter(|(name, _)| name == "warning").count()
}

#[test]
fn many_small_parts() {
    let rkube = start();
    let client = Client::of(&rkube);
    let json = |path: &str, body: serde_json::Value| send(&client, "POST", path, "application/json", &body.to_string());

    let owner = |number: usize| json!({"apiVersion": "v1", "kind": "A", "name": "a", "uid": format!("{}", number / 2)});
    let owners: Vec<_> = (0..30_000).map(owner).collect();
    let made = json(MAPS, json!({"metadata": {"name": "owners", "ownerReferences": owners}}));
    assert_eq!(made.status, 201);
    assert_eq!(made.json()["metadata"]["ownerReferences"].as_array().unwrap().len(), 15_000);
    assert_eq!(warnings(&made), 1);

    let variable = |number: usize| json!({"name": format!("E{}", number / 2)});
    let variables: Vec<_> = (0..90_000).map(variable).collect();
    let container = json!({"name": "a", "image": "a", "env": variables});
    let made = json(PODS, json!({"metadata": {"name": "variables"}, "spec": {"containers": [container]}}));
    assert_eq!(made.status, 201);
    assert!((1..200).contains(&warnings(&made)), "{}", warnings(&made));

    // Warnings are of pairs.
    let items: Vec<_> = (0..30_000).map(|number| json!({"key": "a", "path": format!("a/{}", number % 3)})).collect();
    let volume = json!({"name": "a", "configMap": {"name": "a", "items": items}});
    let ports: Vec<_> = (0..30_000).map(|number| json!({"containerPort": number % 2 + 1})).collect();
    let container = json!({"name": "a", "image": "a", "ports": ports});
    let made =
        json(PODS, json!({"metadata": {"name": "pairs"}, "spec": {"containers": [container], "volumes": [volume]}}));
    assert_eq!(made.status, 201);
    assert!((3..200).contains(&warnings(&made)), "{}", warnings(&made));

    let merges = format!("metadata: {{name: merges}}\nx: &x {{a: b}}\ndata:\n{}", "  <<: *x\n".repeat(30_000));
    let made = send(&client, "POST", MAPS, "application/yaml", &merges);
    assert_eq!(made.status, 201);
    assert!((1..200).contains(&warnings(&made)), "{}", warnings(&made));

    // Each wrong part is said with the whole.
    let scopes: Vec<_> = (0..100_000).map(|number| format!("S{number}")).collect();
    let quota = json!({"metadata": {"name": "scopes"}, "spec": {"scopes": scopes}});
    let refused = json("/api/v1/namespaces/default/resourcequotas", quota);
    assert_eq!(refused.status, 422);
    assert!(refused.body.len() < 32 << 20, "{}", refused.body.len());
    is_well(&rkube);
}

#[test]
fn many_small_parts_in_a_patch() {
    let rkube = start();
    let client = Client::of(&rkube);
    let finalizers: Vec<_> = (0..30_000).map(|number| format!("a.example/{number}")).collect();
    let body = json!({"metadata": {"name": "a", "finalizers": finalizers}});
    assert_eq!(send(&client, "POST", MAPS, "application/json", &body.to_string()).status, 201);
    let reversed: Vec<_> = finalizers.iter().rev().collect();
    let patch = json!({"metadata": {"$setElementOrder/finalizers": reversed, "finalizers": reversed}});
    let path = format!("{MAPS}/a");
    let patched = send(&client, "PATCH", &path, "application/strategic-merge-patch+json", &patch.to_string());
    assert_eq!(patched.status, 200, "{:.300}", String::from_utf8_lossy(&patched.body));
    assert_eq!(patched.json()["metadata"]["finalizers"], json!(reversed));

    let manager = |number: usize| {
        json!({"manager": format!("m{number}"), "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
            "time": "2026-01-01T00:00:00Z", "fieldsV1": {"f:data": {format!("f:k{number}"): {}}}})
    };
    let managers: Vec<_> = (0..15_000).map(manager).collect();
    let patch = json!({"metadata": {"managedFields": managers}});
    let patched = send(&client, "PATCH", &path, "application/merge-patch+json", &patch.to_string());
    assert_eq!(patched.status, 200);
    assert!(patched.json()["metadata"]["managedFields"].as_array().unwrap().len() <= 11);

    // As many operations as a patch may have.
    let add = |number: usize| json!({"op": "add", "path": format!("/data/k{number}"), "value": "v"});
    let mut adds = vec![json!({"op": "add", "path": "/data", "value": {}})];
    adds.extend((1..10_000).map(add));
    let patched = send(&client, "PATCH", &path, "application/json-patch+json", &json!(adds).to_string());
    assert_eq!(patched.status, 200, "{:.300}", String::from_utf8_lossy(&patched.body));
    assert_eq!(patched.json()["data"].as_object().unwrap().len(), 9_999);

    // The same field twice, thousands of times, in a place with a long name.
    let twice: String = (0..20_000).map(|number| format!(r#""k{number}":1,"k{number}":1,"#)).collect();
    let patch = format!(r#"{{"{}":{{{twice}"z":1}}}}"#, "n".repeat(1_000_000));
    let patched = send(&client, "PATCH", &path, "application/merge-patch+json", &patch);
    assert!([200, 400].contains(&patched.status));
    is_well(&rkube);
}

#[test]
fn periods_without_end() {
    let rkube = start();
    let client = Client::of(&rkube);
    let body = r#"{"metadata":{"name":"a"},"spec":{"nodeName":"a","containers":[{"name":"a","image":"a"}]}}"#;
    assert_eq!(send(&client, "POST", PODS, "application/json", body).status, 201);
    for seconds in [i64::MAX, i64::MAX - 1, 5] {
        let path = format!("{PODS}/a?gracePeriodSeconds={seconds}");
        assert_eq!(send(&client, "DELETE", &path, "application/json", "").status, 200);
    }
    assert_eq!(client.get(&format!("{PODS}/a")).status, 200);
    is_well(&rkube);
}
