//! Definitions as kinds, and their objects by the kinds' rules.

use rkube_machinery::json;

use super::*;
use crate::kind::Part;

fn definition() -> Definition {
    let text = r#"{
        "spec": {
            "group": "stable.example.com", "scope": "Namespaced", "names": {"kind": "CronTab"},
            "versions": [
                {"name": "v1beta1", "served": true, "storage": false, "deprecated": true,
                 "schema": {"openAPIV3Schema": {"type": "object"}}},
                {"name": "v1", "served": true, "storage": true,
                 "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": {
                        "cron": {"type": "string"}, "replicas": {"type": "integer", "default": 1, "maximum": 9}},
                        "x-kubernetes-validations": [{"rule": "self.replicas != 5", "message": "never five"}]},
                    "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}},
                 "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas",
                    "statusReplicasPath": ".status.replicas", "labelSelectorPath": ".status.selector"}},
                 "selectableFields": [{"jsonPath": ".spec.cron"}],
                 "additionalPrinterColumns": [
                    {"name": "Cron", "type": "string", "jsonPath": ".spec.cron"},
                    {"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"},
                    {"name": "Replicas", "type": "integer", "jsonPath": ".spec.replicas"},
                    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}]}
            ]
        },
        "status": {"acceptedNames": {"plural": "crontabs", "singular": "crontab", "kind": "CronTab",
            "listKind": "CronTabList", "shortNames": ["ct"], "categories": ["all"]}}
    }"#;
    Definition::read(&json::parse(text.as_bytes()).unwrap()).unwrap()
}

fn object(text: &str) -> Value {
    json::parse(text.as_bytes()).unwrap()
}

#[test]
fn versions_become_kinds() {
    let definition = definition();
    let [old, new] = definition.versions.as_slice() else { panic!("two versions are served") };
    assert!(Arc::ptr_eq(new, &definition.stored));
    assert_eq!(
        (new.api_version().as_str(), new.storage_prefix.as_str()),
        ("stable.example.com/v1", "stable.example.com/crontabs")
    );
    assert_eq!(new.type_name, "com.example.stable.v1.CronTab");
    assert_eq!(new.subresources.len(), 2);
    assert_eq!(old.deprecation, "stable.example.com/v1beta1 CronTab is deprecated; use stable.example.com/v1 CronTab");
    assert!(old.has_api_version("stable.example.com/v1beta1") && !old.has_api_version("stable.example.com/v1"));
    assert_eq!((definition.all().count(), definition.unserved.len()), (2, 0));
}

#[test]
fn objects_are_defaulted_prepared_and_checked() {
    let kind = definition().stored;
    let mut made = object(r#"{"metadata":{"name":"a","namespace":"b"},"spec":{"cron":"*"},"status":{"x":1}}"#);
    kind.rules.default(&mut made);
    kind.rules.prepare_create(&mut made);
    assert_eq!(made.get("spec").int("replicas"), 1);
    assert_eq!((made.has("status"), made.get("metadata").int("generation")), (false, 1));
    assert!(kind.validate_create(&made).is_empty());

    for (replicas, wrong) in [
        ("10", "spec.replicas: Invalid value: 10: spec.replicas in body should be less than or equal to 9"),
        ("5", "spec: Invalid value: never five"),
        ("-1", ".spec.replicas: Invalid value: -1: should be a non-negative integer"),
        (
            r#""three""#,
            ".spec.replicas: Invalid value: 0: .spec.replicas accessor error: three is of the type string, expected int64",
        ),
        (
            r#"{"a":[1]}"#,
            ".spec.replicas: Invalid value: 0: .spec.replicas accessor error: map[a:[1]] is of the type \
             map[string]interface {}, expected int64",
        ),
    ] {
        let mut broken = made.clone();
        broken.object_mut("spec").set("replicas", json::parse(replicas.as_bytes()).unwrap());
        let errors = kind.validate_create(&broken);
        let texts: Vec<String> = errors.0.iter().map(ToString::to_string).collect();
        assert!(texts.iter().any(|text| text.starts_with(wrong)), "{texts:?}");
    }
}

#[test]
fn what_a_scale_reads_is_checked_on_the_way_to_it() {
    let kind = definition().stored;
    let old = object(r#"{"metadata":{"name":"a","namespace":"b"},"spec":{"cron":"*"}}"#);
    let mut new = old.clone();
    new.set("status", 5);
    let errors = kind.validate_update(Part::Status, &new, &old);
    let texts: Vec<String> = errors.0.iter().map(ToString::to_string).collect();
    for path in [".status.replicas", ".status.selector"] {
        let ending = format!("{path} accessor error: 5 is of the type int64, expected map[string]interface{{}}");
        assert!(texts.iter().any(|text| text.starts_with(path) && text.ends_with(&ending)), "{texts:?}");
    }
}

#[test]
fn generations_count_what_is_not_metadata() {
    let kind = definition().stored;
    let old = object(r#"{"metadata":{"name":"a","generation":3},"spec":{"cron":"*"},"status":{"ready":true}}"#);
    for (part, sent, generation, ready) in [
        (Part::Main, r#"{"metadata":{"name":"a","generation":3,"labels":{}},"spec":{"cron":"*"}}"#, 3, true),
        (Part::Main, r#"{"metadata":{"name":"a","generation":3},"spec":{"cron":"?"},"status":{}}"#, 4, true),
        (Part::Status, r#"{"metadata":{"name":"a"},"spec":{"cron":"?"},"status":{"ready":false}}"#, 3, false),
    ] {
        let mut new = object(sent);
        kind.rules.prepare_update(part, &mut new, &old);
        assert_eq!(new.get("metadata").int("generation"), generation, "{sent}");
        assert_eq!(new.get("status").bool("ready"), ready, "{sent}");
        if part == Part::Status {
            assert_eq!(new.get("spec").str("cron"), "*");
        }
    }
}

#[test]
fn cells_are_found() {
    let kind = definition().stored;
    let object = object(
        r#"{"metadata":{"name":"a","creationTimestamp":"1970-01-01T00:00:00Z"},"spec":{"cron":"*","replicas":2},
            "status":{"conditions":[{"type":"Other","status":"No"},{"type":"Ready","status":"True"}]}}"#,
    );
    let cells: Vec<String> = kind.columns.iter().map(|column| json::to_string(&column.cell(&object, 90))).collect();
    assert_eq!(cells, [r#""a""#, r#""*""#, r#""True""#, "2", r#""90s""#]);
    assert_eq!(kind.selectable.values(&object)[..], ["*"]);
    let empty: Vec<Value> = kind.columns.iter().skip(1).map(|column| column.cell(&Value::object(), 0)).collect();
    assert!(empty.iter().all(Value::is_null));
}

#[test]
fn paths_are_read() {
    let value = object(r#"{"a":{"b.c":[1,2,3],"d":[{"n":1,"v":"x"},{"n":2,"v":"y"}]}}"#);
    for (path, found) in [
        (r".a.b\.c[0]", Some("1")),
        (".a['b.c'][-1]", Some("3")),
        (".a['b.c'][1:]", Some("2")),
        (".a['b.c'][-1:]", Some("3")),
        (".a['b.c'][9]", None),
        (".a.d[*].v", Some(r#""x""#)),
        (".a.d[?(@.n>1)].v", Some(r#""y""#)),
        (".a.d[?(@.v=='y')].n", Some("2")),
        (".a.d[?(@.missing)].n", None),
        (".missing.x", None),
    ] {
        let parsed = json_path::JsonPath::parse(path).unwrap_or_else(|| panic!("{path}"));
        assert_eq!(parsed.first(&value).map(json::to_string).as_deref(), found, "{path}");
    }
    for broken in ["a", ".a[", ".a[?(x)]", ".a[b]", "{.a}"] {
        assert!(json_path::JsonPath::parse(broken).is_none(), "{broken}");
    }
}
