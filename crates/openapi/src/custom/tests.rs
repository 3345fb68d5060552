//! Definitions in the documents. What is expected of schemas is what upstream's builder has in its own tests.

use std::sync::Arc;

use rkube_kinds::Kind;
use rkube_kinds::custom::Definition;
use rkube_machinery::{Value, json};

use super::*;
use crate::{Frame, document, mark};

fn read(text: &str) -> Value {
    json::parse(text.as_bytes()).unwrap()
}

/// A definition of `foos.bar.k8s.io` with one version, and what else stands in that.
fn definition(schema: &str, more: &str) -> Value {
    read(&format!(
        r#"{{"spec":{{"group":"bar.k8s.io","scope":"Namespaced","versions":[{{"name":"v1","served":true,"storage":true,
            "schema":{{"openAPIV3Schema":{schema}}}{more}}}]}},
            "status":{{"acceptedNames":{{"plural":"foos","singular":"foo","kind":"Foo","listKind":"FooList"}}}}}}"#
    ))
}

/// A kind whose schema says nothing: documents are made of definitions.
fn kind(more: &str) -> Arc<Kind> {
    Definition::read(&definition(r#"{"type":"object"}"#, more)).unwrap().stored
}

fn whole(definition: &Value, kind: &Kind, form: Form) -> Value {
    let custom = Custom::new();
    let part = Arc::new(custom.part(kind, definition, form));
    let chunks = match form {
        Form::V3 => document(Frame::V3Custom, &[Arc::new(custom.types_part(kind.scale.is_some())), part]),
        _ => document(Frame::V2Json, &[part]),
    };
    json::parse(&chunks.concat()).unwrap()
}

/// The published schema without the parts that all have, where these are as expected.
fn schema(schema: &str, more: &str, form: Form) -> String {
    let document = whole(&definition(schema, more), &kind(""), form);
    let definitions =
        if form == Form::V3 { document.at(&["components", "schemas"]) } else { document.get("definitions") };
    let mut schema = definitions.get("io.k8s.bar.v1.Foo").clone();
    let own = schema.remove("x-kubernetes-group-version-kind").unwrap();
    assert_eq!(own, read(r#"[{"group":"bar.k8s.io","kind":"Foo","version":"v1"}]"#));
    if schema.has("properties") {
        let properties = schema.object_mut("properties");
        let [api_version, kind, metadata] =
            ["apiVersion", "kind", "metadata"].map(|name| properties.remove(name).unwrap());
        assert!(api_version.str("description").starts_with("APIVersion defines the versioned schema"));
        assert!(kind.str("description").starts_with("Kind is a string value representing the REST resource"));
        assert_eq!((api_version.str("type"), kind.str("type")), ("string", "string"));
        assert_eq!(metadata, metadata_of(form));
    }
    json::to_string(&schema)
}

fn metadata_of(form: Form) -> Value {
    let text = "Standard object's metadata. More info: \
                https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";
    read(&match form {
        Form::V3 => format!(
            r##"{{"allOf":[{{"$ref":"#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}}],
                 "description":"{text}"}}"##
        ),
        _ => format!(
            r##"{{"$ref":"#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta","description":"{text}"}}"##
        ),
    })
}

const UNKNOWN: &str = r#"{"type":"object"}"#;

#[test]
fn schemas_are_published_where_they_are_structural() {
    for form in [Form::V2Json, Form::V3] {
        for not_structural in [
            "null",
            r#"{"type":"object","properties":{"spec":{"type":"bug"},"status":{"type":"object"}}}"#,
            r#"{"type":"object","properties":{"foo":{"type":"array"}}}"#,
        ] {
            assert_eq!(schema(not_structural, "", form), UNKNOWN, "{not_structural}");
        }
        let plain = r#"{"properties":{"spec":{"type":"object"},"status":{"type":"object"}},"type":"object"}"#;
        assert_eq!(schema(plain, "", form), plain);
        assert_eq!(schema(UNKNOWN, "", form), r#"{"properties":{},"type":"object"}"#);
        let selectable = schema(UNKNOWN, r#","selectableFields":[{"jsonPath":".spec.a"}]"#, form);
        assert_eq!(
            selectable,
            r#"{"properties":{},"type":"object","x-kubernetes-selectable-fields":[{"fieldPath":"spec.a"}]}"#
        );
    }
    let deep = format!("{}{UNKNOWN}{}", r#"{"type":"array","items":"#.repeat(200), "}".repeat(200));
    assert_eq!(schema(&deep, "", Form::V3), UNKNOWN);
}

#[test]
fn unknown_fields_at_the_root() {
    let keeps = r#"{"properties":{"a":{"type":"string"}},"type":"object","x-kubernetes-preserve-unknown-fields":true}"#;
    assert_eq!(schema(keeps, "", Form::V2Json), UNKNOWN);
    assert_eq!(schema(keeps, "", Form::V3), keeps);
}

/// In v3 everything that is said of values is published, in v2 what kubectl understands.
#[test]
fn each_version_has_its_words() {
    let either = r#"[{"type":"integer"},{"type":"string"}]"#;
    let cases = [
        (r#"{"nullable":true,"type":"object"}"#, "{}", None),
        (r#"{"items":{"type":"string"},"nullable":true,"type":"array"}"#, "{}", None),
        (r#"{"default":"x","type":"string"}"#, r#"{"type":"string"}"#, None),
        (r#"{"oneOf":[{"pattern":"a"},{"pattern":"b"}],"type":"string"}"#, r#"{"type":"string"}"#, None),
        (r#"{"allOf":[{"minimum":1}],"not":{"maximum":3},"type":"integer"}"#, r#"{"type":"integer"}"#, None),
        (
            r#"{"items":{"default":1,"type":"integer"},"type":"array","x-kubernetes-list-type":"set"}"#,
            r#"{"items":{"type":"integer"},"type":"array","x-kubernetes-list-type":"set"}"#,
            None,
        ),
        (
            r#"{"properties":{"a":{"type":"string"}},"type":"object","x-kubernetes-preserve-unknown-fields":true}"#,
            r#"{"x-kubernetes-preserve-unknown-fields":true}"#,
            None,
        ),
        (
            r#"{"properties":{"a":{"nullable":true,"type":"string"},"b":{"type":"string"}},"required":["a","b"],"type":"object"}"#,
            r#"{"properties":{"a":{},"b":{"type":"string"}},"required":["b"],"type":"object"}"#,
            None,
        ),
        (
            r#"{"additionalProperties":{"nullable":true,"type":"string"},"required":["a"],"type":"object"}"#,
            r#"{"additionalProperties":{},"type":"object"}"#,
            None,
        ),
        (r#"{"additionalProperties":true,"type":"object"}"#, r#"{"additionalProperties":true,"type":"object"}"#, None),
        (
            r#"{"x-kubernetes-int-or-string":true}"#,
            r#"{"x-kubernetes-int-or-string":true}"#,
            Some(format!(r#"{{"anyOf":{either},"x-kubernetes-int-or-string":true}}"#)),
        ),
        (
            r#"{"allOf":[{"minimum":42}],"anyOf":[{"minimum":42}],"x-kubernetes-int-or-string":true}"#,
            r#"{"x-kubernetes-int-or-string":true}"#,
            Some(format!(
                r#"{{"allOf":[{{"anyOf":{either}}},{{"minimum":42}}],"anyOf":[{{"minimum":42}}],"x-kubernetes-int-or-string":true}}"#
            )),
        ),
    ];
    for (given, in_v2, in_v3) in cases {
        let wrap = |field: &str| format!(r#"{{"properties":{{"a":{field}}},"type":"object"}}"#);
        assert_eq!(schema(&wrap(given), "", Form::V2Json), wrap(in_v2), "{given}");
        assert_eq!(schema(&wrap(given), "", Form::V3), wrap(in_v3.as_deref().unwrap_or(given)), "{given}");
    }
    for said in [
        format!(r#"{{"anyOf":{either},"x-kubernetes-int-or-string":true}}"#),
        format!(r#"{{"allOf":[{{"anyOf":{either}}},{{"anyOf":[{{"minimum":42}}]}}],"x-kubernetes-int-or-string":true}}"#),
        r#"{"description":"d","enum":["a",null],"example":0,"externalDocs":{"url":"u"},"format":"f","maxLength":0,"minimum":0,"multipleOf":1.5,"title":"t","type":"string","uniqueItems":true,"x-kubernetes-validations":[{"rule":"self != ''"}]}"#.to_owned(),
    ] {
        let wrapped = format!(r#"{{"properties":{{"a":{said}}},"type":"object"}}"#);
        assert_eq!(schema(&wrapped, "", Form::V3), wrapped);
    }
    let blank = r#"{"properties":{"a":{"description":"","enum":[],"example":{},"properties":{},"required":[],"type":"object","uniqueItems":false}},"type":"object"}"#;
    assert_eq!(schema(blank, "", Form::V3), r#"{"properties":{"a":{"type":"object"}},"type":"object"}"#);
}

#[test]
fn embedded_resources_have_type_and_metadata() {
    let given = |more: &str| {
        format!(
            r#"{{"type":"object","properties":{{"a":{{"type":"array","items":{{"type":"object","required":["kind"],"x-kubernetes-embedded-resource":true{more}}}}}}}}}"#
        )
    };
    for form in [Form::V2Json, Form::V3] {
        let published = read(&schema(&given(r#","properties":{"x":{"type":"string"}}"#), "", form));
        let inner = published.at(&["properties", "a", "items"]);
        assert_eq!(json::to_string(inner.get("required")), r#"["kind","apiVersion"]"#);
        let text = "kind is a string value representing the type of this object. In CamelCase. More info: \
                    https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds";
        assert_eq!(inner.at(&["properties", "kind", "description"]).as_str(), text);
        assert_eq!(*inner.at(&["properties", "metadata"]), metadata_of(form));
        assert_eq!(inner.map("properties").len(), 4);
    }
    let open = given(r#","x-kubernetes-preserve-unknown-fields":true"#);
    let inner =
        r#"{"required":["kind"],"x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true}"#;
    assert_eq!(json::to_string(read(&schema(&open, "", Form::V2Json)).at(&["properties", "a", "items"])), inner);
    assert!(schema(&open, "", Form::V3).contains(r#""required":["kind","apiVersion"]"#));
}

#[test]
fn lists_are_described() {
    let more = r#","selectableFields":[{"jsonPath":".spec.a"}]"#;
    let document = whole(&definition(UNKNOWN, more), &kind(more), Form::V3);
    let mut list = document.at(&["components", "schemas", "io.k8s.bar.v1.FooList"]).clone();
    list.object_mut("properties").remove("apiVersion").unwrap();
    list.object_mut("properties").remove("kind").unwrap();
    let conventions = "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md";
    let expected = format!(
        r##"{{"description":"FooList is a list of Foo","properties":{{
            "items":{{"description":"List of foos. More info: {conventions}",
                "items":{{"$ref":"#/components/schemas/io.k8s.bar.v1.Foo"}},"type":"array"}},
            "metadata":{{"allOf":[{{"$ref":"#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta"}}],
                "description":"Standard list metadata. More info: {conventions}#types-kinds"}}}},
            "required":["items"],"type":"object",
            "x-kubernetes-group-version-kind":[{{"group":"bar.k8s.io","kind":"FooList","version":"v1"}}],
            "x-kubernetes-selectable-fields":[{{"fieldPath":"spec.a"}}]}}"##
    );
    assert_eq!(list, read(&expected));
}

/// Paths with their actions, as upstream has them.
#[test]
fn operations_are_those_of_custom_resources() {
    let more =
        r#","subresources":{"status":{},"scale":{"specReplicasPath":".spec.a","statusReplicasPath":".status.a"}}"#;
    let definition = definition(UNKNOWN, more);
    let mut document = whole(&definition, &kind(more), Form::V3);
    assert_eq!(document.get("info"), &read(r#"{"title":"Kubernetes CRD Swagger","version":"v0.1.0"}"#));
    let collection = "/apis/bar.k8s.io/v1/namespaces/{namespace}/foos";
    let object = format!("{collection}/{{name}}");
    let expected = [
        ("/apis/bar.k8s.io/v1/foos".to_owned(), "list:listBarV1FooForAllNamespaces"),
        (
            collection.to_owned(),
            "deletecollection:deleteBarV1CollectionNamespacedFoo list:listBarV1NamespacedFoo post:createBarV1NamespacedFoo",
        ),
        (
            object.clone(),
            "delete:deleteBarV1NamespacedFoo get:readBarV1NamespacedFoo patch:patchBarV1NamespacedFoo put:replaceBarV1NamespacedFoo",
        ),
        (
            format!("{object}/scale"),
            "get:readBarV1NamespacedFooScale patch:patchBarV1NamespacedFooScale put:replaceBarV1NamespacedFooScale",
        ),
        (
            format!("{object}/status"),
            "get:readBarV1NamespacedFooStatus patch:patchBarV1NamespacedFooStatus put:replaceBarV1NamespacedFooStatus",
        ),
    ];
    assert_eq!(document.map("paths").len(), expected.len());
    for (path, actions) in &expected {
        let item = document.get("paths").get(path);
        let operations = item.as_map().iter().filter(|(_, operation)| operation.has("operationId"));
        let found: Vec<String> = operations
            .map(|(_, one)| format!("{}:{}", one.str("x-kubernetes-action"), one.str("operationId")))
            .collect();
        assert_eq!(found.join(" "), *actions, "{path}");
    }
    let scale = document.get("paths").get(&format!("{object}/scale")).get("put").clone();
    let own = read(r#"{"group":"bar.k8s.io","kind":"Foo","version":"v1"}"#);
    assert_eq!(*scale.get("x-kubernetes-group-version-kind"), own);
    assert_eq!(scale.str("description"), "replace scale of the specified Foo");
    let body = scale.at(&["requestBody", "content", "application/yaml", "schema", "$ref"]);
    assert_eq!(body.as_str(), "#/components/schemas/io.k8s.api.autoscaling.v1.Scale");
    assert!(document.at(&["components", "schemas"]).has("io.k8s.api.autoscaling.v1.ScaleSpec"));
    let item = document.object_mut("paths").get_mut(&object).clone();
    let names = |value: &Value| -> Vec<String> {
        value.list("parameters").iter().map(|parameter| parameter.str("name").to_owned()).collect()
    };
    assert_eq!(names(&item), ["name", "namespace", "pretty"]);
    assert_eq!(names(item.get("get")), ["resourceVersion"]);
    assert_eq!(names(item.get("put")), ["dryRun", "fieldManager", "fieldValidation"]);
    let patches: Vec<&str> =
        item.at(&["patch", "requestBody", "content"]).as_map().keys().map(|name| name.as_str()).collect();
    assert_eq!(
        patches,
        ["application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json"]
    );
    let given: Vec<&str> =
        item.at(&["get", "responses", "200", "content"]).as_map().keys().map(|name| name.as_str()).collect();
    assert_eq!(given, ["application/json", "application/yaml"]);
    assert!(!item.at(&["delete", "requestBody"]).has("required"));
    assert_eq!(item.get("patch").map("responses").keys().map(|code| code.as_str()).collect::<Vec<_>>(), ["200", "401"]);
    let collection = document.get("paths").get(collection);
    assert!(!collection.get("delete").has("requestBody"));
    assert!(names(collection.get("delete")).contains(&"watch".to_owned()));
}

#[test]
fn swagger_refers_to_shared_parameters() {
    let document = whole(&definition(UNKNOWN, ""), &kind(""), Form::V2Json);
    let item = document.get("paths").get("/apis/bar.k8s.io/v1/namespaces/{namespace}/foos/{name}");
    let [name, namespace, pretty] = item.list("parameters") else { panic!("{item:?}") };
    assert_eq!(name.str("name"), "name");
    for reference in [namespace, pretty] {
        let target = reference.str("$ref").strip_prefix("#/parameters/").unwrap();
        assert!(document.get("parameters").has(target), "{target}");
    }
    let patch = item.get("patch");
    let consumed = r#"["application/json-patch+json","application/merge-patch+json","application/apply-patch+yaml"]"#;
    assert_eq!(json::to_string(patch.get("consumes")), consumed);
    assert_eq!(json::to_string(item.at(&["get", "consumes"])), r#"["application/json","application/yaml"]"#);
    assert_eq!(json::to_string(patch.get("produces")), r#"["application/json","application/yaml"]"#);
    assert!(patch.list("parameters").iter().any(|parameter| parameter.str("name") == "fieldValidation"));
}

#[test]
fn a_definition_that_is_gone_leaves_the_kind() {
    let document = whole(&Value::Null, &kind(""), Form::V3);
    let schema = document.at(&["components", "schemas", "io.k8s.bar.v1.Foo"]);
    assert_eq!((schema.str("type"), schema.has("properties")), ("object", false));
    assert_eq!(document.map("paths").len(), 3);
}

#[test]
fn marks_and_hashes_change_with_the_definition() {
    let custom = Custom::new();
    let kind = kind("");
    let mark_of = |schema: &str| {
        let part = Arc::new(custom.part(&kind, &definition(schema, ""), Form::V3));
        mark(Frame::V3Custom, &[part])
    };
    assert_eq!(mark_of(UNKNOWN), mark_of(UNKNOWN));
    assert_ne!(mark_of(UNKNOWN), mark_of(r#"{"description":"d","type":"object"}"#));
    assert_eq!(custom_hash([(&*kind, "1")]), custom_hash([(&*kind, "1")]));
    assert_ne!(custom_hash([(&*kind, "1")]), custom_hash([(&*kind, "2")]));
    assert_ne!(custom_hash([(&*kind, "1")]), custom_hash([(&*kind, "1"), (&*kind, "1")]));
}

/// Large definitions and many versions: the work grows with the text.
#[test]
fn large_definitions_are_written_in_every_form() {
    let field = |number: usize| format!(r#""field{number}":{{"type":"string","nullable":true}}"#);
    let names: Vec<String> = (0..20_000).map(|number| format!("\"field{number}\"")).collect();
    let fields: Vec<String> = (0..20_000).map(field).collect();
    let large =
        format!(r#"{{"type":"object","properties":{{{}}},"required":[{}]}}"#, fields.join(","), names.join(","));
    let definition = definition(&large, "");
    let custom = Custom::new();
    for form in [Form::V3, Form::V2Json, Form::V2Protobuf] {
        assert!(custom.part(&kind(""), &definition, form).size() > 300_000, "{form:?}");
    }
}
