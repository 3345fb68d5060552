//! Webhooks that admit requests and are broken, hostile, slow or gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rkube_machinery::decode::base64;
use serde_json::{Value, json};

use crate::client::{Answer, Client};
use crate::webhook::{Reply, Webhook};
use crate::{is_well, start, start_durable};

const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";

fn configurations(kind: &str) -> String {
    format!("/apis/admissionregistration.k8s.io/v1/{}webhookconfigurations", kind.to_lowercase())
}

fn send(client: &Client, method: &str, path: &str, body: &Value) -> Answer {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    client.request(method, path, &[("Content-Type", "application/json")], body.as_bytes()).unwrap()
}

fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"k": "v"}})
}

/// Makes a configuration of one webhook. `kind`: Mutating or Validating.
fn configure(client: &Client, kind: &str, config: Value, resources: &[&str], more: &Value) {
    let mut hook = json!({
        "name": "hook.example.com", "clientConfig": config, "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "rules": [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": resources}],
    });
    for (key, value) in more.as_object().unwrap() {
        hook[key] = value.clone();
    }
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": format!("{kind}WebhookConfiguration"),
        "metadata": {"name": "hook"}, "webhooks": [hook],
    });
    let made = send(client, "POST", &configurations(kind), &configuration);
    assert_eq!(made.status, 201, "{}", made.json());
}

fn remove(client: &Client, kind: &str) {
    let removed = send(client, "DELETE", &format!("{}/hook", configurations(kind)), &Value::Null);
    assert_eq!(removed.status, 200, "{}", removed.json());
}

/// Answers by the path: each is another way to be wrong.
fn answer(path: &str, review: &Value) -> Reply {
    let patch = |operations: Value| base64::encode(operations.to_string().as_bytes());
    let mut response = json!({"uid": review["request"]["uid"], "allowed": true});
    let patched = match path {
        "hang" => {
            std::thread::sleep(Duration::from_secs(20));
            return Reply::HangsUp;
        }
        "hangup" => return Reply::HangsUp,
        "error" => return Reply::Error(500, "boom"),
        "endless" => return Reply::Endless,
        "uid" => {
            response["uid"] = json!("another");
            return Reply::Json(reviewed(response));
        }
        "silent" => return Reply::Json(json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1"})),
        "broken" => Some(base64::encode(b"[{\"op\":")),
        "impossible" => Some(patch(json!([{"op": "remove", "path": "/data/none"}]))),
        "mistyped" => Some(patch(json!([{"op": "add", "path": "/data", "value": {"k": {"deep": [1]}}}]))),
        "name" => Some(patch(json!([{"op": "replace", "path": "/metadata/name", "value": "other"}]))),
        "namespace" => Some(patch(json!([{"op": "replace", "path": "/metadata/namespace", "value": "kube-system"}]))),
        "kind" => Some(patch(json!([{"op": "replace", "path": "/kind", "value": "Secret"}]))),
        "huge" => Some(patch(json!([{"op": "add", "path": "/data", "value": {"k": "x".repeat(4 << 20)}}]))),
        // Doubles a list again and again.
        "doubling" => {
            let copy = |index: usize| json!({"op": "copy", "from": "/data", "path": format!("/data/k{index}")});
            let copies: Vec<Value> = (0..64).map(copy).collect();
            Some(patch(json!(copies)))
        }
        _ => None,
    };
    if let Some(patch) = patched {
        response["patch"] = json!(patch);
        response["patchType"] = json!("JSONPatch");
    }
    Reply::Json(reviewed(response))
}

fn reviewed(response: Value) -> Value {
    json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response})
}

#[test]
fn bad_webhooks_harm_nobody_else() {
    let rkube = start();
    let client = Client::of(&rkube);
    let webhook = Webhook::start(answer);
    assert_eq!(send(&client, "POST", CONFIGMAPS, &config_map("there")).status, 201);
    let there = format!("{CONFIGMAPS}/there");
    let failed = |why: &str| format!("Internal error occurred: failed calling webhook \"hook.example.com\": {why}");
    // The way to be wrong, the code of the answer to an update, and what its message begins with; whether the failure
    // policy may let the request pass.
    let table = [
        ("hang", 500, failed("failed to call webhook: Post \"https://"), true),
        ("hangup", 500, failed("failed to call webhook: Post \"https://"), true),
        (
            "error",
            500,
            failed("failed to call webhook: an error on the server (\"boom\") has prevented the request"),
            true,
        ),
        ("endless", 500, failed("failed to call webhook: unexpected error when reading response body."), true),
        ("uid", 500, failed("received invalid webhook response: expected response.uid="), true),
        ("silent", 500, failed("received invalid webhook response: webhook response was absent"), true),
        ("broken", 500, failed("received undecodable patch in webhook response: unexpected end of JSON"), true),
        ("impossible", 500, "Internal error occurred: error in remove for path: '/data/none'".to_owned(), false),
        (
            "mistyped",
            500,
            "Internal error occurred: json: cannot unmarshal object into Go struct field".to_owned(),
            false,
        ),
        ("name", 422, "ConfigMap \"other\" is invalid: metadata.name: Invalid value: \"other\"".to_owned(), false),
        ("namespace", 400, "the namespace of the provided object does not match".to_owned(), false),
        ("kind", 500, "Internal error occurred: illegal base64 data at input byte 0".to_owned(), false),
        ("huge", 422, "ConfigMap \"there\" is invalid: : Too long: may not be more than 1048576".to_owned(), false),
        ("doubling", 500, "Internal error occurred: ".to_owned(), false),
    ];
    for (path, code, message, may_pass) in table {
        let seconds = if path == "hang" { 1 } else { 30 };
        let more = json!({"timeoutSeconds": seconds});
        configure(&client, "Mutating", webhook.client_config(path), &["configmaps"], &more);
        let refused = send(&client, "PUT", &there, &config_map("there"));
        let said = refused.json()["message"].as_str().unwrap_or_default().to_owned();
        assert!(refused.status == code && said.starts_with(&message), "{path}: {} {said}", refused.status);
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": path}});
        let other = send(&client, "POST", "/api/v1/namespaces/default/secrets", &secret);
        assert_eq!(other.status, 201, "who is not asked about goes on");
        remove(&client, "Mutating");
        if may_pass {
            let more = json!({"timeoutSeconds": seconds, "failurePolicy": "Ignore"});
            for kind in ["Mutating", "Validating"] {
                configure(&client, kind, webhook.client_config(path), &["configmaps"], &more);
            }
            assert_eq!(send(&client, "PUT", &there, &config_map("there")).status, 200, "{path} is ignored");
            remove(&client, "Mutating");
            remove(&client, "Validating");
        }
        let kept = client.get(&there).json();
        assert_eq!(kept["data"], json!({"k": "v"}), "{path} left something behind");
    }
    let metrics = String::from_utf8(client.get("/metrics").body).unwrap();
    for line in [
        r#"apiserver_admission_webhook_rejection_count{error_type="calling_webhook_error",name="hook.example.com",operation="UPDATE",rejection_code="500",type="admit"} 1"#,
        r#"apiserver_admission_webhook_fail_open_count{name="hook.example.com",type="validating"} "#,
    ] {
        assert!(metrics.contains(line), "{line}\n{metrics}");
    }
    is_well(&rkube);
}

/// It matches everything and cannot be reached: it can still be removed, and then all is as before.
#[test]
fn nobody_locks_themselves_out() {
    let mut rkube = start_durable();
    let client = Client::of(&rkube);
    // A controller makes it, and cannot once the webhooks stand.
    while client.get("/api/v1/namespaces/default/configmaps/kube-root-ca.crt").status != 200 {
        std::thread::sleep(Duration::from_millis(10));
    }
    let nowhere = json!({"url": "https://127.0.0.1:1/x"});
    for kind in ["Mutating", "Validating"] {
        configure(&client, kind, nowhere.clone(), &["*/*"], &json!({}));
    }
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}});
    for (method, path, body) in [
        ("POST", CONFIGMAPS, config_map("a")),
        ("POST", "/api/v1/namespaces", namespace),
        ("DELETE", "/api/v1/namespaces/default/configmaps/kube-root-ca.crt", Value::Null),
        ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", {
            json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
                "spec": {"nonResourceAttributes": {"path": "/", "verb": "get"}}})
        }),
    ] {
        let refused = send(&client, method, path, &body);
        let said = refused.json()["message"].as_str().unwrap_or_default().to_owned();
        let wanted = "Internal error occurred: failed calling webhook \"hook.example.com\": failed to call webhook: \
            Post \"https://127.0.0.1:1/x?timeout=10s\": dial tcp 127.0.0.1:1: connect: connection refused";
        assert_eq!((refused.status, said.as_str()), (500, wanted), "{method} {path}");
    }
    assert_eq!(client.get(CONFIGMAPS).status, 200, "reads ask nobody");
    is_well(&rkube);
    rkube.restart();
    let client = Client::of(&rkube);
    is_well(&rkube);
    for kind in ["Mutating", "Validating"] {
        let path = format!("{}/hook", configurations(kind));
        let patch = br#"{"metadata":{"labels":{"a":"b"}}}"#;
        let headers = [("Content-Type", "application/merge-patch+json")];
        assert_eq!(client.request("PATCH", &path, &headers, patch).unwrap().status, 200);
        remove(&client, kind);
    }
    assert_eq!(send(&client, "POST", CONFIGMAPS, &config_map("a")).status, 201);
    is_well(&rkube);
}

/// Many requests wait for a webhook that takes its time: those that need nobody go on, and so do the waiting ones.
#[test]
fn a_slow_webhook_holds_up_its_own_requests_alone() {
    let rkube = start();
    let client = Client::of(&rkube);
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let gate = Arc::new((std::sync::Mutex::new(false), std::sync::Condvar::new()));
    let opened = gate.clone();
    let webhook = Webhook::start(move |_, review| {
        // Controllers write ConfigMaps, too.
        let is_ours = review["request"]["name"].as_str().is_some_and(|name| name.starts_with("c-"));
        counted.fetch_add(usize::from(is_ours), Ordering::SeqCst);
        drop(opened.1.wait_while(opened.0.lock().unwrap(), |open| !*open).unwrap());
        answer("", review)
    });
    let more = json!({"timeoutSeconds": 30});
    configure(&client, "Validating", webhook.client_config("x"), &["configmaps"], &more);
    let waiting: Vec<_> = (0..100)
        .map(|index| {
            let client = Client::of(&rkube);
            std::thread::spawn(move || send(&client, "POST", CONFIGMAPS, &config_map(&format!("c-{index}"))))
        })
        .collect();
    while calls.load(Ordering::SeqCst) == 0 {
        std::thread::sleep(Duration::from_millis(10));
    }
    for index in 0..50 {
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": format!("s-{index}")}});
        assert_eq!(send(&client, "POST", "/api/v1/namespaces/default/secrets", &secret).status, 201);
    }
    *gate.0.lock().unwrap() = true;
    gate.1.notify_all();
    for waiting in waiting {
        let answer = waiting.join().unwrap();
        assert_eq!(answer.status, 201, "{}", answer.json());
    }
    assert_eq!(calls.load(Ordering::SeqCst), 100);
    is_well(&rkube);
}
