//! What definitions of custom resources may become, and what stays as it was.

use rkube_kinds::kind::Part;
use rkube_kinds::{Kind, find};
use rkube_machinery::{Value, decode, json, object};

fn kind() -> &'static Kind {
    find("apiextensions.k8s.io", "v1", "customresourcedefinitions").expect("the kind is there")
}

/// A definition of `foos.example.com` with these versions and the rest of a spec.
fn definition(versions: &str, rest: &str) -> Value {
    let text = format!(
        r#"{{"metadata":{{"name":"foos.example.com","uid":"u","resourceVersion":"1","generation":1}},
            "spec":{{"group":"example.com","scope":"Namespaced","names":{{"plural":"foos","kind":"Foo"}},
            "versions":[{versions}]{rest}}}}}"#
    );
    let raw = json::parse(text.as_bytes()).unwrap_or_else(|error| panic!("{text}: {error}"));
    let schema = kind().schema.table().expect("the type is in the table");
    let mut value = decode::decode(raw, schema).expect("the text fits the type").value;
    kind().rules.default(&mut value);
    value
}

/// The stored version `v1` with this schema.
fn version(schema: &str) -> String {
    named("v1", true, schema)
}

fn named(name: &str, storage: bool, schema: &str) -> String {
    format!(r#"{{"name":"{name}","served":true,"storage":{storage},"schema":{{"openAPIV3Schema":{schema}}}}}"#)
}

fn properties(properties: &str) -> String {
    format!(r#"{{"type":"object","properties":{{{properties}}}}}"#)
}

fn create(mut value: Value) -> Vec<String> {
    kind().rules.prepare_create(&mut value);
    kind().validate_create(&value).0.iter().map(ToString::to_string).collect()
}

fn update(part: Part, old: &Value, mut new: Value) -> Vec<String> {
    kind().rules.prepare_update(part, &mut new, old);
    kind().validate_update(part, &new, old).0.iter().map(ToString::to_string).collect()
}

fn established(mut value: Value) -> Value {
    let condition = object! { "type": "Established", "status": "True" };
    value.object_mut("status").set("conditions", vec![condition]);
    value
}

const NONE: [&str; 0] = [];
const ROOT: &str = "spec.validation.openAPIV3Schema";

#[test]
fn defaults_are_filled_in() {
    let service = r#","conversion":{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"],
        "clientConfig":{"service":{"name":"a","namespace":"b"}}}}"#;
    let value = definition(&version(&properties("")), service);
    assert_eq!(value.at(&["spec", "names"]).str("singular"), "foo");
    assert_eq!(value.at(&["spec", "names"]).str("listKind"), "FooList");
    assert_eq!(value.at(&["spec", "conversion", "webhook", "clientConfig", "service"]).int("port"), 443);
    assert_eq!(value.get("status").list("storedVersions"), ["v1".into()]);
    assert_eq!(definition("", "").at(&["spec", "conversion"]).str("strategy"), "None");
    assert!(!definition("", "").get("status").has("storedVersions"));
}

#[test]
fn the_status_of_a_new_definition_says_what_is_stored() {
    let mut value = established(definition(&version(&properties("")), ""));
    value.object_mut("status").set("storedVersions", vec!["v7".into()]);
    kind().rules.prepare_create(&mut value);
    assert_eq!(json::to_string(value.get("status")), r#"{"storedVersions":["v1"]}"#);
}

#[test]
fn storage_versions_are_remembered() {
    let old = definition(&named("v1", true, &properties("")), "");
    let both = [named("v1", false, &properties("")), named("v2", true, &properties(""))].join(",");
    let mut new = definition(&both, "");
    kind().rules.prepare_update(Part::Main, &mut new, &old);
    assert_eq!(new.get("status").list("storedVersions"), ["v1".into(), "v2".into()]);
    let only = definition(&named("v2", true, &properties("")), "");
    let wanted = "status.storedVersions[0]: Invalid value: \"v1\": missing from spec.versions; v1 was previously a \
                  storage version, and must remain in spec.versions until a storage migration ensures no data remains \
                  persisted in v1 and removes v1 from status.storedVersions";
    assert_eq!(update(Part::Main, &new, only.clone()), [wanted]);
    new.object_mut("status").set("storedVersions", vec!["v2".into()]);
    assert_eq!(update(Part::Main, &new, only), NONE);
}

#[test]
fn names_of_an_established_kind_stay() {
    let old = definition(&version(&properties("")), "");
    let mut new = old.clone();
    new.object_mut("spec").set("scope", "Cluster");
    new.object_mut("spec").object_mut("names").set("kind", "Goo");
    assert_eq!(update(Part::Main, &old, new.clone()), NONE);
    let wanted = [
        "spec.scope: Invalid value: \"Cluster\": field is immutable",
        "spec.names.kind: Invalid value: \"Goo\": field is immutable",
    ];
    assert_eq!(update(Part::Main, &established(old), new), wanted);
}

#[test]
fn what_versions_share_stands_beside_them() {
    let (wrong, other) = (properties(r#""a":{}"#), properties(r#""b":{"type":"string"}"#));
    let detail = "type: Required value: must not be empty for specified object fields";
    let both = |first: &str, second: &str| [named("v1", true, first), named("v2", false, second)].join(",");
    assert_eq!(create(definition(&both(&wrong, &wrong), "")), [format!("{ROOT}.properties[a].{detail}")]);
    let own = "spec.versions[1].schema.openAPIV3Schema";
    assert_eq!(create(definition(&both(&other, &wrong), "")), [format!("{own}.properties[a].{detail}")]);
    // An empty list says as much as none.
    let empty = r#"{"type":"object","required":[],"properties":{"a":{}}}"#;
    assert_eq!(create(definition(&both(&wrong, empty), "")), [format!("{ROOT}.properties[a].{detail}")]);
}

#[test]
fn old_mistakes_may_stay() {
    let table = [
        // A type that there is not, in a schema that is not structural.
        (r#""a":{"type":"text"}"#, r#""a":{"type":"text"},"b":{"type":"string"}"#),
        // Items of a set that have parts.
        (
            r#""a":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"object"}}"#,
            r#""b":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"object"}}"#,
        ),
        // Items of a set that may be null.
        (
            r#""a":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string","nullable":true}}"#,
            r#""b":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string","nullable":true}}"#,
        ),
        // A default with fields that are pruned.
        (
            r#""a":{"type":"object","properties":{"x":{"type":"string"}},"default":{"y":1}}"#,
            r#""b":{"type":"object","properties":{"x":{"type":"string"}},"default":{"y":1}}"#,
        ),
    ];
    let right = definition(&version(&properties("")), "");
    for (before, after) in table {
        let new = definition(&version(&properties(after)), "");
        assert_eq!(update(Part::Main, &right, new.clone()).len(), 1, "{after}");
        let old = definition(&version(&properties(before)), "");
        assert_eq!(update(Part::Main, &old, new), NONE, "{before}");
    }
}

#[test]
fn unknown_fields_once_preserved_may_stay_so() {
    let preserved = |schema: &str| definition(&version(schema), r#","preserveUnknownFields":true"#);
    let untyped = r#"{"properties":{"a":{}}}"#;
    let path = "spec.preserveUnknownFields: Invalid value: true: ";
    let refused = format!(
        "{path}cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
    );
    let pruned = definition(&version(&properties("")), "");
    assert_eq!(update(Part::Main, &pruned, preserved(&properties(""))), [refused]);
    assert_eq!(update(Part::Main, &preserved(untyped), preserved(untyped)), NONE);
    // Once fields are pruned, or have defaults, or extensions say more of them, the schema must be structural.
    let wanted = [
        format!("{ROOT}.properties[a].type: Required value: must not be empty for specified object fields"),
        format!("{ROOT}.type: Required value: must not be empty at the root"),
    ];
    assert_eq!(update(Part::Main, &preserved(untyped), definition(&version(untyped), "")), wanted);
    let extended = r#"{"properties":{"a":{"x-kubernetes-int-or-string":true}}}"#;
    let wanted = [format!("{ROOT}.type: Required value: must not be empty at the root")];
    assert_eq!(update(Part::Main, &preserved(untyped), preserved(extended)), wanted);
    let default = properties(r#""a":{"type":"string","default":"x"}"#);
    let wanted = [format!("{path}must be false in order to use defaults in the schema")];
    assert_eq!(update(Part::Main, &preserved(untyped), preserved(&default)), wanted);
}

#[test]
fn a_schema_that_was_not_there_may_stay_away() {
    let without = r#"{"name":"v1","served":true,"storage":true}"#;
    let unserved = r#"{"name":"v1","served":false,"storage":true}"#;
    let old = definition(without, r#","preserveUnknownFields":true"#);
    assert_eq!(update(Part::Main, &old, definition(without, r#","preserveUnknownFields":true"#)), NONE);
    let path = "spec.versions[0].schema.openAPIV3Schema: Required value";
    assert_eq!(
        update(Part::Main, &old, definition(without, "")),
        [format!("{path}: because otherwise all fields are pruned")]
    );
    assert_eq!(update(Part::Main, &old, definition(unserved, "")), NONE);
    assert_eq!(create(definition(unserved, "")), [path]);
}

#[test]
fn many_selectable_fields_may_stay() {
    let names: Vec<String> = (0..9).map(|index| format!("f{index}")).collect();
    let schema =
        properties(&names.iter().map(|name| format!(r#""{name}":{{"type":"string"}}"#)).collect::<Vec<_>>().join(","));
    let selectable = |count: usize| {
        let fields = names[..count].iter().map(|name| format!(r#"{{"jsonPath":".{name}"}}"#)).collect::<Vec<_>>();
        let version = version(&schema);
        definition(&format!(r#"{},"selectableFields":[{}]}}"#, &version[..version.len() - 1], fields.join(",")), "")
    };
    let wanted = ["spec.selectableFields: Too many: 9: must have at most 8 items"];
    assert_eq!(create(selectable(9)), wanted);
    assert_eq!(create(selectable(8)), NONE);
    assert_eq!(update(Part::Main, &selectable(8), selectable(9)), wanted);
    assert_eq!(update(Part::Main, &selectable(9), selectable(9)), NONE);
}

#[test]
fn a_bundle_is_looked_at_once_the_kind_is_established() {
    let webhook = |bundle: &str| {
        let rest = format!(
            r#","conversion":{{"strategy":"Webhook","webhook":{{"conversionReviewVersions":["v1"],
            "clientConfig":{{"url":"https://a.example.com","caBundle":"{bundle}"}}}}}}"#
        );
        definition(&version(&properties("")), &rest)
    };
    let path = "spec.conversion.webhookClientConfig.caBundle: Invalid value: ";
    let failed = "unable to load root certificates: unable to parse bytes as PEM block";
    assert_eq!(create(webhook("bm9uZQ==")), NONE);
    assert_eq!(update(Part::Main, &webhook(""), webhook("bm9uZQ==")), NONE);
    let wanted = [format!("{path}\"bm9uZQ==\": {failed}")];
    assert_eq!(update(Part::Main, &established(webhook("")), webhook("bm9uZQ==")), wanted);
    assert_eq!(update(Part::Main, &established(webhook("b3RoZXI=")), webhook("bm9uZQ==")), NONE);
}

#[test]
fn unknown_review_versions_may_stay() {
    let webhook = |versions: &str| {
        let rest = format!(
            r#","conversion":{{"strategy":"Webhook","webhook":{{"conversionReviewVersions":{versions},
            "clientConfig":{{"url":"https://a.example.com"}}}}}}"#
        );
        definition(&version(&properties("")), &rest)
    };
    let path = "spec.conversion.conversionReviewVersions: ";
    let wanted = format!("{path}Invalid value: [\"v7\"]: must include at least one of v1, v1beta1");
    assert_eq!(create(webhook(r#"["v7"]"#)), [wanted.as_str()]);
    assert_eq!(update(Part::Main, &webhook(r#"["v1"]"#), webhook(r#"["v7"]"#)), [wanted.as_str()]);
    assert_eq!(update(Part::Main, &webhook(r#"["v8"]"#), webhook(r#"["v7"]"#)), NONE);
    assert_eq!(create(webhook("[]")), [format!("{path}Required value")]);
}

#[test]
fn a_write_of_the_status_leaves_the_spec() {
    let old = definition(&version(&properties("")), "");
    let mut new = established(definition("", ""));
    new.object_mut("metadata").object_mut("labels").set("a", "b");
    new.object_mut("status").set("acceptedNames", object! { "plural": "foos", "kind": "Foo_", "listKind": "FooList" });
    let errors = update(Part::Status, &old, new.clone());
    assert_eq!(errors.len(), 1);
    assert!(errors[0].starts_with("status.acceptedNames.kind: Invalid value: \"Foo_\": may have mixed case, but"));
    kind().rules.prepare_update(Part::Status, &mut new, &old);
    assert_eq!(new.get("spec"), old.get("spec"));
    assert_eq!(new.get("metadata").get("labels").str("a"), "b");
}

#[test]
fn the_first_deletion_waits_for_the_objects() {
    let rules = &kind().rules;
    let mut value = definition(&version(&properties("")), "");
    assert!(rules.keep_until_finalized(&value));
    let metadata = value.object_mut("metadata");
    metadata.set("deletionTimestamp", "2026-01-01T00:00:00Z");
    metadata.set("deletionGracePeriodSeconds", 0);
    metadata.set("generation", 2);
    rules.prepare_deletion(&mut value);
    let metadata = value.get("metadata");
    assert_eq!(metadata.list("finalizers"), ["customresourcecleanup.apiextensions.k8s.io".into()]);
    assert_eq!(metadata.int("generation"), 1);
    assert!(!metadata.has("deletionGracePeriodSeconds"));
    let condition = &value.get("status").list("conditions")[0];
    assert_eq!(condition.str("type"), "Terminating");
    assert_eq!(condition.str("lastTransitionTime"), "2026-01-01T00:00:00Z");
    // The finalizer is gone, another one holds the definition.
    value.object_mut("metadata").set("finalizers", vec!["example.com/a".into()]);
    let before = value.clone();
    assert!(!rules.keep_until_finalized(&value));
    rules.prepare_deletion(&mut value);
    assert_eq!(value, before);
}

#[test]
fn unknown_formats_are_warned_of_once() {
    let schema = properties(
        r#""a":{"type":"string","format":"date-time"},"b":{"type":"string","format":"colour"},
        "c":{"type":"array","items":{"type":"integer","format":"int31"}},"d":{"type":"string","format":"colour"}"#,
    );
    let new = definition(&version(&schema), "");
    let warnings = ["unrecognized format \"colour\"", "unrecognized format \"int31\""];
    assert_eq!(kind().rules.warnings(&new, None), warnings);
    let old = definition(&version(&properties(r#""x":{"type":"string","format":"colour"}"#)), "");
    assert_eq!(kind().rules.warnings(&new, Some(&old)), warnings[1..]);
}
