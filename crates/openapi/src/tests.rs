//! What clients look for in the documents.

use std::sync::{Arc, LazyLock};

use rkube_kinds::{Kind, Row, Scope, Subresource};

use rkube_machinery::{Value, json};

use crate::part::protobuf_document;
use crate::{Custom, Form, Frame, Part, document, v2_part, v3_index, v3_part, v3_paths};

static ROWS: &[Row] = &[
    Row {
        kind: "Pod",
        resource: "pods",
        type_name: "io.k8s.api.core.v1.Pod",
        subresources: &[
            Subresource::STATUS,
            Subresource { name: "exec", verbs: &["create", "get"], kind: Some("PodExecOptions"), group_version: None },
            Subresource { name: "log", verbs: &["get"], kind: None, group_version: None },
            Subresource {
                name: "eviction",
                verbs: &["create"],
                kind: Some("Eviction"),
                group_version: Some(("policy", "v1")),
            },
        ],
        ..Row::DEFAULTS
    },
    Row {
        group: "rbac.authorization.k8s.io",
        kind: "ClusterRole",
        resource: "clusterroles",
        scope: Scope::Cluster,
        type_name: "io.k8s.api.rbac.v1.ClusterRole",
        ..Row::DEFAULTS
    },
];

static KINDS: LazyLock<Vec<Kind>> = LazyLock::new(|| ROWS.iter().map(Kind::of).collect());

fn kinds() -> Vec<&'static Kind> {
    KINDS.iter().collect()
}

fn v3(path: &str) -> String {
    let part = v3_part(&kinds(), path, &[]).unwrap();
    String::from_utf8(document(Frame::V3BuiltIn, &[Arc::new(part)]).concat()).unwrap()
}

fn v2() -> Value {
    let part = v2_part(&kinds(), Form::V2Json, &Custom::TYPES);
    json::parse(&document(Frame::V2Json, &[Arc::new(part)]).concat()).unwrap()
}

#[test]
fn the_index_names_every_document() {
    let entries = v3_paths(&kinds());
    let paths: Vec<&str> = entries.iter().map(|entry| entry.0.as_str()).collect();
    assert_eq!(
        paths,
        ["api", "api/v1", "apis", "apis/rbac.authorization.k8s.io", "apis/rbac.authorization.k8s.io/v1", "version"]
    );
    assert!(paths.iter().all(|path| v3_part(&kinds(), path, &[]).is_some()));
    assert!(v3_part(&kinds(), "apis/apps/v1", &[]).is_none());
    let index = v3_index(entries);
    let url = index.at(&["paths", "api/v1", "serverRelativeURL"]).as_str();
    assert!(url.starts_with("/openapi/v3/api/v1?hash="), "{url}");
}

#[test]
fn schemas_carry_what_patches_and_explain_need() {
    let document = v3("api/v1");
    for part in [
        r#""x-kubernetes-group-version-kind":[{"group":"","kind":"Pod","version":"v1"}]"#,
        r#""x-kubernetes-list-map-keys":["name"],"x-kubernetes-list-type":"map","x-kubernetes-patch-merge-key":"name","x-kubernetes-patch-strategy":"merge,retainKeys""#,
        r#""format":"int-or-string","oneOf":[{"type":"integer"},{"type":"string"}]"#,
        r##""allOf":[{"$ref":"#/components/schemas/io.k8s.api.core.v1.PodSpec"}],"default":{},"description":"##,
        r#""io.k8s.apimachinery.pkg.apis.meta.v1.WatchEvent":{"#,
        r#""io.k8s.api.policy.v1.Eviction":{"#,
    ] {
        assert!(document.contains(part), "{part}");
    }
}

#[test]
fn operations_are_named_as_clients_know_them() {
    let document = v3("api/v1");
    for id in [
        "createCoreV1NamespacedPod",
        "deleteCoreV1CollectionNamespacedPod",
        "listCoreV1PodForAllNamespaces",
        "watchCoreV1NamespacedPodList",
        "patchCoreV1NamespacedPodStatus",
        "connectCoreV1GetNamespacedPodExec",
        "createCoreV1NamespacedPodEviction",
        "readCoreV1NamespacedPodLog",
    ] {
        assert!(document.contains(&format!(r#""operationId":"{id}""#)), "{id}");
    }
    let document = v3("apis/rbac.authorization.k8s.io/v1");
    assert!(document.contains(r#""operationId":"replaceRbacAuthorizationV1ClusterRole""#));
    assert!(document.contains(r#""name":"fieldValidation""#));
}

#[test]
fn descriptions_are_there() {
    let document = v3("api/v1");
    assert!(document.contains("Pod is a collection of containers that can run on a host."));
    assert!(document.contains("PodList is a list of Pod objects."));
}

#[test]
fn swagger_refers_to_what_it_defines() {
    let document = v2();
    let mut references = Vec::new();
    collect_references(&document, &mut references);
    assert!(references.len() > 100);
    for reference in references {
        let (map, name) = reference.strip_prefix("#/").unwrap().split_once('/').unwrap();
        assert!(document.get(map).has(name), "{reference}");
    }
    let patch = document.at(&["paths", "/api/v1/namespaces/{namespace}/pods/{name}", "patch"]);
    assert_eq!(patch.str("x-kubernetes-action"), "patch");
    assert!(patch.list("parameters").iter().any(|parameter| parameter.str("name") == "dryRun"));
    assert!(!json::to_string(document.get("definitions")).contains("\"default\":"));
}

#[test]
fn documents_are_json() {
    for path in ["api", "api/v1", "version"] {
        let document = json::parse(v3(path).as_bytes()).unwrap();
        assert_eq!(document.str("openapi"), "3.0.0");
        assert!(document.at(&["components", "securitySchemes"]).has("BearerToken"));
        assert!(!document.map("paths").is_empty());
    }
    assert_eq!(v2().str("swagger"), "2.0");
}

fn collect_references(value: &Value, out: &mut Vec<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| collect_references(item, out)),
        Value::Object(map) => {
            for (key, item) in map.iter() {
                match item {
                    Value::String(text) if key == "$ref" => out.push(text.to_string()),
                    _ => collect_references(item, out),
                }
            }
        }
        _ => {}
    }
}

#[test]
fn swagger_in_protobuf_is_what_gnostic_reads() {
    use rkube_machinery::object;
    let skeleton = object! { "swagger": "2.0", "info": object! { "title": "T", "version": "v" } };
    let paths = object! { "/a": object! { "get": object! {
        "operationId": "i",
        "responses": object! { "200": object! { "description": "OK" } },
        "x-kubernetes-action": "get",
    } } };
    let definitions = object! { "D": object! {
        "type": "object", "maximum": Value::Float(1.5), "minimum": 0i64, "exclusiveMaximum": true,
        "enum": vec![Value::Null], "externalDocs": object! { "url": "u" }, "example": false,
    } };
    let part = Part::new(Form::V2Protobuf, paths.as_map(), definitions.as_map());
    let expected: &[&[u8]] = &[
        b"\x0a\x032.0\x12\x06\x0a\x01T\x12\x01v",
        b"\x42\x3f\x12\x3d\x0a\x02/a\x12\x37\x12\x35\x2a\x01i",
        b"\x4a\x0f\x0a\x0d\x0a\x03200\x12\x06\x0a\x04\x0a\x02OK",
        b"\x6a\x1f\x0a\x13x-kubernetes-action\x12\x08\x12\x06\"get\"\n",
        b"\x4a\x38\x0a\x36\x0a\x01D\x12\x31\x39\0\0\0\0\0\0\xf8\x3f\x40\x01\xa2\x01\x07\x12\x05null\n",
        b"\xb2\x01\x08\x0a\x06object\xea\x01\x03\x12\x01u\xf2\x01\x08\x12\x06false\n",
    ];
    let bytes = protobuf_document(&skeleton, &[Arc::new(part)]).concat();
    assert_eq!(bytes.escape_ascii().to_string(), expected.concat().escape_ascii().to_string());
}
