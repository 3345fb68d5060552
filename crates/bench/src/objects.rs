//! What is written and read: objects of fixed sizes.

use bytes::Bytes;
use serde_json::{Value, json};

/// The size of a ConfigMap as a client sends it.
pub const CONFIG_MAP_BYTES: usize = 1024;
pub const PODS: usize = 5_000;
/// The size of a page of a list.
pub const PAGE: usize = 100;
pub const WATCHERS: usize = 500;
/// Creates that are watched in one round.
pub const EVENTS_PER_ROUND: usize = 400;

pub fn config_map(name: &str) -> Bytes {
    config_map_of(name, CONFIG_MAP_BYTES)
}

/// One with hardly any data.
pub fn small_config_map(name: &str) -> Bytes {
    config_map_of(name, 0)
}

/// One of so many bytes, or as few as there can be.
pub fn config_map_of(name: &str, bytes: usize) -> Bytes {
    let head = format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}","labels":{{"app":"bench"}}}},"data":{{"payload":""#
    );
    let tail = r#""}}"#;
    let filler = bytes.saturating_sub(head.len() + tail.len());
    format!("{head}{}{tail}", "x".repeat(filler)).into()
}

/// The question of a server to a webhook, about a ConfigMap that is made.
pub fn review() -> Bytes {
    let object: Value = serde_json::from_slice(&config_map("name")).unwrap_or_default();
    let kind = json!({"group": "", "version": "v1", "kind": "ConfigMap"});
    let resource = json!({"group": "", "version": "v1", "resource": "configmaps"});
    json!({
        "kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1",
        "request": {
            "uid": "705ab4f5-6393-11e8-b7cc-42010a800002", "kind": kind, "resource": resource, "requestKind": kind,
            "requestResource": resource, "name": "name", "namespace": "hooked", "operation": "CREATE",
            "userInfo": {"username": "admin", "groups": ["system:masters", "system:authenticated"]},
            "object": object, "oldObject": null, "dryRun": false,
            "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
        },
    })
    .to_string()
    .into()
}

/// The answer of a webhook that has nothing against it.
pub fn admitted(review: &[u8]) -> Bytes {
    let review: Value = serde_json::from_slice(review).unwrap_or_default();
    let response = json!({"uid": review["request"]["uid"], "allowed": true});
    json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response}).to_string().into()
}

pub fn config_map_patch(turn: usize) -> Bytes {
    format!(r#"{{"data":{{"turn":"{turn}"}}}}"#).into()
}

pub fn namespace(name: &str) -> Bytes {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}).to_string().into()
}

/// About 3 kB once the server has filled in its defaults and who set what.
pub fn pod(name: &str) -> Bytes {
    let environment: Vec<Value> =
        (0..5).map(|index| json!({"name": format!("SETTING_{index}"), "value": format!("value-{index}")})).collect();
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "bench", "tier": "web"}},
        "spec": {
            "containers": [{
                "name": "main",
                "image": "registry.example/team/service:1.2.3",
                "args": ["--listen=:8080", "--verbose"],
                "ports": [{"containerPort": 8080, "name": "http"}],
                "env": environment,
                "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
            }],
        },
    })
    .to_string()
    .into()
}

/// Bytes that look like an object and are as long as one.
pub fn filler(bytes: usize) -> Bytes {
    let head = r#"{"apiVersion":"v1","kind":"ConfigMap","data":{"payload":""#;
    let tail = r#""}}"#;
    format!("{head}{}{tail}", "x".repeat(bytes.saturating_sub(head.len() + tail.len()))).into()
}

/// A list of so many fillers.
pub fn list(item_bytes: usize, items: usize) -> Bytes {
    let item = filler(item_bytes);
    let mut out = br#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":["#.to_vec();
    for index in 0..items {
        if index > 0 {
            out.push(b',');
        }
        out.extend_from_slice(&item);
    }
    out.extend_from_slice(b"]}\n");
    out.into()
}

/// A watch's line of so many bytes.
pub fn event(bytes: usize) -> Bytes {
    let head = r#"{"type":"ADDED","object":"#;
    let object = filler(bytes.saturating_sub(head.len() + 2));
    let mut out = head.as_bytes().to_vec();
    out.extend_from_slice(&object);
    out.extend_from_slice(b"}\n");
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_as_asked_and_all_is_json() {
        assert_eq!(config_map("some-name").len(), CONFIG_MAP_BYTES);
        assert_eq!(filler(1500).len(), 1500);
        assert_eq!(event(1700).len(), 1700);
        for bytes in
            [config_map("a"), pod("a"), namespace("a"), filler(200), list(100, 3), event(300), config_map_patch(1)]
        {
            serde_json::from_slice::<Value>(&bytes).unwrap();
        }
    }
}
