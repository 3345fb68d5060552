//! Definitions of custom resources that are too deep, too large or wrong, and how they go.

use rkube_testkit::Rkube;
use serde_json::{Value, json};

use crate::client::{Answer, Client};
use crate::is_well;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

fn definition(schema: &Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "foos.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "foos", "kind": "Foo"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    })
}

fn send(client: &Client, method: &str, path: &str, content_type: &str, body: &Value) -> Answer {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    client.request(method, path, &[("Content-Type", content_type)], body.as_bytes()).unwrap()
}

fn create(client: &Client, schema: &Value) -> Answer {
    send(client, "POST", &format!("{DEFINITIONS}?dryRun=All"), "application/json", &definition(schema))
}

fn start_with_definitions() -> Rkube {
    Rkube::start_with(env!("CARGO_BIN_EXE_rkube"), &["--store=memory"])
}

#[test]
fn schemas_of_any_depth_and_size_are_answered() {
    let rkube = start_with_definitions();
    let client = Client::of(&rkube);
    for (open, close) in
        [(r#"{"type":"object","properties":{"a":"#, "}}"), (r#"{"not":"#, "}"), (r#"{"allOf":["#, "]}")]
    {
        for depth in [90, 1_000, 100_000] {
            let schema = [&open.repeat(depth), r#"{"type":"string"}"#, &close.repeat(depth)].concat();
            let body = definition(&Value::Null).to_string().replace("null", &schema);
            let headers = [("Content-Type", "application/json")];
            let answer =
                client.request("POST", &format!("{DEFINITIONS}?dryRun=All"), &headers, body.as_bytes()).unwrap();
            assert!(matches!(answer.status, 201 | 400 | 413 | 422), "{depth}: {}", answer.status);
        }
    }
    let properties = |count: usize| {
        let property = |index: usize| {
            let schema = json!({"type": "string", "maxLength": 40, "pattern": "^[a-z]+$", "default": "a"});
            (format!("field{index}"), schema)
        };
        (0..count).map(property).collect::<serde_json::Map<_, _>>()
    };
    // About a megabyte.
    let large = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": properties(14_000)}}});
    assert!(large.to_string().len() > 1_000_000);
    assert_eq!(create(&client, &large).status, 201);
    is_well(&rkube);
}

#[test]
fn what_is_not_changed_does_not_count() {
    let rkube = start_with_definitions();
    let client = Client::of(&rkube);
    let properties = json!({"a": {"type": "integer", "minimum": 0, "maximum": 1e3, "default": 1, "enum": [1, 2]}});
    let schema =
        json!({"type": "object", "required": [], "properties": {"spec": {"type": "object", "properties": properties}}});
    let created = send(&client, "POST", DEFINITIONS, "application/json", &definition(&schema));
    assert_eq!(created.status, 201, "{}", created.json());
    let path = format!("{DEFINITIONS}/foos.example.com");
    for content_type in ["application/merge-patch+json", "application/strategic-merge-patch+json"] {
        let patched = send(&client, "PATCH", &path, content_type, &json!({"spec": {"scope": "Namespaced"}}));
        assert_eq!((patched.status, &patched.json()["metadata"]["generation"]), (200, &json!(1)), "{content_type}");
    }
    // The server writes the status by itself.
    let mut definition = created.json();
    let current = send(&client, "GET", &path, "application/json", &Value::Null).json();
    definition["metadata"]["resourceVersion"] = current["metadata"]["resourceVersion"].clone();
    let replaced = send(&client, "PUT", &path, "application/json", &definition);
    assert_eq!(replaced.json()["metadata"]["generation"], 1, "{}", replaced.json());
}

#[test]
fn a_definition_waits_for_its_objects() {
    let rkube = start_with_definitions();
    let client = Client::of(&rkube);
    let created = send(&client, "POST", DEFINITIONS, "application/json", &definition(&json!({"type": "object"})));
    assert_eq!(created.status, 201, "{}", created.json());
    let path = format!("{DEFINITIONS}/foos.example.com");
    let wrong = json!({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": "another"}});
    let refused = send(&client, "DELETE", &path, "application/json", &wrong);
    let uid = created.json()["metadata"]["uid"].as_str().unwrap().to_owned();
    let message = format!(
        "Operation cannot be fulfilled on customresourcedefinitions.apiextensions.k8s.io \"foos.example.com\": \
         Precondition failed: UID in precondition: another, UID in object meta: {uid}"
    );
    assert_eq!((refused.status, &refused.json()["message"]), (409, &json!(message)));
    let trial = send(&client, "DELETE", &format!("{path}?dryRun=All"), "application/json", &Value::Null);
    assert_eq!(trial.json()["metadata"]["finalizers"], json!(["customresourcecleanup.apiextensions.k8s.io"]));
    assert_eq!((&trial.json()["kind"], trial.status), (&json!("CustomResourceDefinition"), 200));
    assert_eq!(trial.json()["metadata"]["generation"], 1);
    let conditions = trial.json()["status"]["conditions"].as_array().cloned().unwrap_or_default();
    assert!(conditions.iter().any(|condition| condition["type"] == "Terminating"), "{conditions:?}");
    is_well(&rkube);
}
