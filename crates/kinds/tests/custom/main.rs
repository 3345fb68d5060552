//! Objects of custom resources against their schemas, with the words that Kubernetes 1.36 has for what is wrong.
//!
//! `cases.json` has a schema and an object per line, an old object where it is about a change, and what is wrong: with
//! the values (`errors`), with repeated items (`lists`) and with embedded objects (`embedded`), each as `reason|error`.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use rkube_kinds::custom::{Validator, check_structural};
use rkube_machinery::field::{Errors, Path};
use rkube_machinery::schema::structural::{Structural, sort};
use rkube_machinery::{Value, json, object};

const CASES: &str = include_str!("cases.json");

#[test]
fn objects_are_validated_in_kubernetes_words() {
    let cases = json::parse(CASES.as_bytes()).unwrap();
    assert!(cases.items().len() >= 90);
    for case in cases.items() {
        let name = case.str("name");
        let schema = case.get("schema");
        assert_eq!(check_structural(schema, Path::ROOT), Errors::new(), "{name}");
        let schema = Arc::new(Structural::read(schema).unwrap());
        let object = sorted(case.get("object"));
        let old = case.has("old").then(|| sorted(case.get("old")));
        let found = |check: &dyn Fn(&mut Errors)| {
            let mut errors = Errors::new();
            check(&mut errors);
            let mut texts: Vec<String> = errors.0.iter().map(|it| format!("{}|{it}", it.kind.reason())).collect();
            texts.sort();
            texts
        };
        let wanted =
            |field: &str| -> Vec<String> { case.list(field).iter().map(|it| it.as_str().to_owned()).collect() };
        let validator = Validator::new(schema);
        let values = found(&|errors| validator.validate(&object, old.as_ref(), errors));
        assert_eq!(values, wanted("errors"), "{name}");
        assert_eq!(found(&|errors| validator.validate_lists(&object, None, errors)), wanted("lists"), "{name}");
        let repeated_before = found(&|errors| validator.validate_lists(&object, Some(&object), errors));
        assert_eq!(repeated_before, Vec::<String>::new(), "{name}");
        assert_eq!(found(&|errors| validator.validate_embedded(&object, errors)), wanted("embedded"), "{name}");
    }
}

#[test]
fn a_status_is_validated_on_its_own() {
    let schema = br#"{"type":"object","required":["spec"],"properties":{
        "status":{"type":"object","properties":{"n":{"type":"integer","maximum":3},"m":{"type":"string"}},
                  "required":["m"]}}}"#;
    let validator = Validator::new(Arc::new(Structural::read(&json::parse(schema).unwrap()).unwrap()));
    let validate = |object: &str, old: Option<&str>| {
        let read = |text: &str| json::parse(text.as_bytes()).unwrap();
        let mut errors = Errors::new();
        validator.validate_status(&read(object), old.map(read).as_ref(), &mut errors);
        errors.0.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let wrong = ["status.n: Invalid value: 5: n in body should be less than or equal to 3", "status.m: Required value"];
    assert_eq!(validate(r#"{"status":{"n":5}}"#, None), wrong);
    assert_eq!(validate(r#"{"status":{"n":5}}"#, Some(r#"{"status":{"n":5,"m":""}}"#)), wrong[1..]);
    assert_eq!(
        validate(r#"{"status":"x"}"#, None),
        ["status: Invalid value: \"string\":  in body must be of type object: \"string\""]
    );
    assert_eq!(validate("{}", None), Vec::<String>::new());
}

#[test]
fn patterns_that_are_wrong_are_told_in_gos_words() {
    let schema = json::parse(br#"{"type":"object","properties":{"a":{"type":"string","pattern":"a(b"}}}"#).unwrap();
    let errors = check_structural(&schema, Path::new("s"));
    assert_eq!(
        errors.summary(),
        "s.properties[a].pattern: Invalid value: \"a(b\": must be a valid regular expression, but isn't: error parsing regexp: missing closing ): `a(b`"
    );
}

/// Work that grew with the square of the number of failures would make this take minutes.
#[test]
fn a_large_object_that_is_all_wrong_is_answered() {
    let schema = br#"{"type":"object","properties":{
        "list":{"type":"array","items":{"type":"string"}},
        "map":{"type":"object","additionalProperties":{"type":"string"}},
        "keyed":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"],
                 "items":{"type":"object","properties":{"k":{"type":"string"},"v":{"type":"integer","maximum":0}}}}}}"#;
    let validator = Validator::new(Arc::new(Structural::read(&json::parse(schema).unwrap()).unwrap()));
    let object = |number: i64| {
        let keyed = (0..50_000).map(|key| object! { "k": format!("{key}"), "v": number });
        let map = (0..50_000).map(|key| (format!("{key}"), key));
        sorted(&object! {
            "list": (0..200_000).map(Value::Int).collect::<Vec<_>>(),
            "map": Value::Object(map.collect()),
            "keyed": keyed.collect::<Vec<_>>(),
        })
    };
    let mut errors = Errors::new();
    validator.validate(&object(1), Some(&object(2)), &mut errors);
    assert_eq!(errors.len(), 1_000);
    errors = Errors::new();
    validator.validate_lists(&object(1), None, &mut errors);
    assert_eq!(errors.len(), 0);
}

fn sorted(value: &Value) -> Value {
    let mut value = value.clone();
    sort(&mut value);
    value
}
