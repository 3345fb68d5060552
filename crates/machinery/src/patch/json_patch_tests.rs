use proptest::prelude::*;

use super::*;
use crate::object;
use crate::patch::generators::{any_object, any_value};

fn operation(op: &str, path: &str) -> Value {
    object! { "op": op, "path": path }
}

fn with_value(op: &str, path: &str, value: impl Into<Value>) -> Value {
    let mut operation = operation(op, path);
    operation.set("value", value);
    operation
}

fn with_from(op: &str, from: &str, path: &str) -> Value {
    let mut operation = operation(op, path);
    operation.set("from", from);
    operation
}

fn document() -> Value {
    let list = vec![Value::Int(1), Value::Int(2), Value::Int(3)];
    object! { "a": object! { "b": 1, "c/d~": "x" }, "l": list, "n": Value::Null }
}

fn patched(operations: Vec<Value>) -> Result<String, String> {
    let mut document = document();
    apply(&Value::Array(operations), &mut document).map_err(|error| error.to_string())?;
    Ok(json::to_string(&document))
}

#[test]
fn operations_do_what_they_say() {
    for (operation, result) in [
        (with_value("add", "/a/e", 5), r#"{"a":{"b":1,"c/d~":"x","e":5},"l":[1,2,3],"n":null}"#),
        (with_value("add", "/l/-", 5), r#"{"a":{"b":1,"c/d~":"x"},"l":[1,2,3,5],"n":null}"#),
        (with_value("add", "/l/1", 5), r#"{"a":{"b":1,"c/d~":"x"},"l":[1,5,2,3],"n":null}"#),
        (with_value("add", "/l/-1", 5), r#"{"a":{"b":1,"c/d~":"x"},"l":[1,2,3,5],"n":null}"#),
        (operation("remove", "/a/c~1d~0"), r#"{"a":{"b":1},"l":[1,2,3],"n":null}"#),
        (operation("remove", "/l/-1"), r#"{"a":{"b":1,"c/d~":"x"},"l":[1,2],"n":null}"#),
        (with_value("replace", "/a", 1), r#"{"a":1,"l":[1,2,3],"n":null}"#),
        (with_value("replace", "/new", 1), r#"{"a":{"b":1,"c/d~":"x"},"l":[1,2,3],"n":null,"new":1}"#),
        (with_value("replace", "", Value::object()), "{}"),
        (with_from("move", "/a", "/n"), r#"{"l":[1,2,3],"n":{"b":1,"c/d~":"x"}}"#),
        (with_from("copy", "/l", "/a"), r#"{"a":[1,2,3],"l":[1,2,3],"n":null}"#),
        (with_from("copy", "/no", "/a"), r#"{"a":null,"l":[1,2,3],"n":null}"#),
    ] {
        assert_eq!(patched(vec![operation.clone()]), Ok(result.to_owned()), "{operation:?}");
    }
    for test in [
        with_value("test", "/l", vec![1.into(), 2.into(), 3.into()]),
        with_value("test", "/no", Value::Null),
        with_value("test", "/n", Value::Null),
        with_value("test", "ignored/a/b", 1),
        with_value("test", "", document()),
    ] {
        assert!(patched(vec![test.clone()]).is_ok(), "{test:?}");
    }
}

#[test]
fn what_does_not_apply_is_refused() {
    for (operation, error) in [
        (operation("bogus", "/x"), "Unexpected kind: bogus"),
        (
            operation("remove", "/no"),
            "error in remove for path: '/no': Unable to remove nonexistent key: no: missing value",
        ),
        (operation("remove", "/n/x"), "remove operation does not apply: doc is missing path: \"/n/x\": missing value"),
        (with_value("add", "x", 1), "add operation does not apply: doc is missing path: \"x\": missing value"),
        (
            with_value("add", "/l/9", 1),
            "error in add for path: '/l/9': Unable to access invalid index: 9: invalid index referenced",
        ),
        (
            with_value("add", "/l/x", 1),
            "error in add for path: '/l/x': value was not a proper array index: 'x': strconv.Atoi: parsing \"x\": \
             invalid syntax",
        ),
        (with_value("replace", "/l/3", 1), "replace operation does not apply: doc is missing key: /l/3: missing value"),
        (with_value("test", "/a/b", 2), "testing value /a/b failed: test failed"),
        (object! { "op": "add" }, "add operation failed to decode path: missing value"),
        (operation("move", "/a"), "move operation failed to decode from: operation, missing from field: missing value"),
    ] {
        let error = PatchError::Unprocessable(error.to_owned());
        let patch = Value::Array(vec![operation]);
        assert_eq!(apply(&patch, &mut document()), Err(error), "{patch:?}");
    }
}

#[test]
fn the_form_is_checked() {
    let refused = |patch: &Value, decoding| apply_as(patch, &mut document(), decoding).unwrap_err().to_string();
    assert_eq!(
        refused(&object! {}, Decoding::Checked),
        "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"
    );
    assert_eq!(
        refused(&"x".into(), Decoding::Lenient),
        "json: cannot unmarshal string into Go value of type jsonpatch.Patch"
    );
    assert_eq!(
        refused(&vec![Value::Int(1)].into(), Decoding::Checked),
        "error decoding patch: json: cannot unmarshal number into Go value of type handlers.jsonPatchOp"
    );
    assert_eq!(
        refused(&vec![object! { "op": 1 }].into(), Decoding::Checked),
        "error decoding patch: json: cannot unmarshal number into Go struct field jsonPatchOp.op of type string"
    );
    assert_eq!(apply(&Value::Null, &mut document()), Ok(()));
    assert_eq!(unknown_fields(&vec![object! { "op": "test", "x": 1 }].into()), ["json patch unknown field \"[0].x\""]);
}

#[test]
fn limits_hold() {
    let many = vec![with_value("test", "/a/b", 1); OPERATIONS_MAX + 1];
    assert!(matches!(apply(&many.into(), &mut document()), Err(PatchError::TooLarge(_))));
    let mut large = object! { "a": "x".repeat(COPIED_BYTES_MAX / 4), "l": vec![] };
    let copies = vec![with_from("copy", "/a", "/l/-"); 4];
    assert!(matches!(apply(&copies.into(), &mut large), Err(PatchError::Unprocessable(_))));
}

/// Operation, path, from and value.
fn any_step() -> impl Strategy<Value = (String, String, String, Value)> {
    let operation = "add|remove|replace|move|copy|test";
    (operation, "(/(a|b|name|-|-1|0|1|9)){0,3}", "(/(a|b|0)){0,2}", any_value())
}

proptest! {
    #[test]
    fn replaced_values_test_equal(document in any_object(), value in any_value()) {
        let mut document = document;
        let operations = vec![with_value("add", "/a", value.clone()), with_value("test", "/a", value)];
        prop_assert_eq!(apply(&operations.into(), &mut document), Ok(()));
    }

    #[test]
    fn moving_there_and_back_changes_nothing(document in any_object(), value in any_value()) {
        let mut document = document;
        document.set("a", value);
        document.remove("fresh");
        let mut patched = document.clone();
        let operations = vec![with_from("move", "/a", "/fresh"), with_from("move", "/fresh", "/a")];
        apply(&operations.into(), &mut patched).unwrap();
        prop_assert_eq!(patched, document);
    }

    #[test]
    fn any_patch_is_applied_or_refused(
        document in any_value(),
        patch in any_value(),
        steps in prop::collection::vec(any_step(), 0..4),
    ) {
        let _ = apply(&patch, &mut document.clone());
        let operations = steps.into_iter().map(|(op, path, from, value)| {
            object! { "op": op, "path": path, "from": from, "value": value }
        });
        let _ = apply(&Value::Array(operations.collect()), &mut document.clone());
    }
}
