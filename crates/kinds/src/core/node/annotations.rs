//! Annotations of old that mean something for a node: its taints, and pods that it would rather not run.
//!
//! Their values are JSON. What is wrong with it is said in the words of the decoder that reads it upstream.

use rkube_machinery::field::{Errors, Path};
use rkube_machinery::{Map, Value, json, time};

const TAINTS: &str = "scheduler.alpha.kubernetes.io/taints";
const AVOID_PODS: &str = "scheduler.alpha.kubernetes.io/preferAvoidPods";

/// `taints` checks a list of taints.
pub(super) fn validate(
    path: Path<'_>,
    annotations: &Map,
    taints: fn(Path<'_>, &[Value], &mut Errors),
    errors: &mut Errors,
) {
    let text = annotations.str(TAINTS);
    if !text.is_empty() {
        match read(text, &TAINT_LIST) {
            Ok(list) => taints(path.child(TAINTS), list.items(), errors),
            Err(problem) => errors.invalid(path, TAINTS, problem),
        }
    }
    let text = annotations.str(AVOID_PODS);
    if !text.is_empty() {
        match read(text, &AVOID) {
            Ok(avoid) => validate_avoided(path.child(AVOID_PODS), avoid.list("preferAvoidPods"), errors), // tidy: key
            Err(problem) => errors.invalid(path.child("AvoidPods"), AVOID_PODS, problem),
        }
    }
}

fn validate_avoided(path: Path<'_>, entries: &[Value], errors: &mut Errors) {
    for (index, entry) in entries.iter().enumerate() {
        let path = path.index(index);
        let path = path.child("PodSignature");
        let controller = entry.at(&["podSignature", "podController"]); // tidy: key
        if controller.is_null() {
            errors.required(path, "");
        } else if !controller.bool("controller") {
            let path = path.child("PodController");
            errors.invalid(path.child("Controller"), false, "must point to a controller");
        }
    }
}

/// A Go type, as far as these values need one.
enum Shape {
    Text,
    Bool,
    Time,
    List(&'static str, &'static Shape),
    Struct { name: &'static str, full_name: &'static str, fields: &'static [Field] },
}

struct Field {
    /// As errors name it.
    shown: &'static str,
    name: &'static str,
    shape: &'static Shape,
}

const fn field(name: &'static str, shape: &'static Shape) -> Field {
    Field { shown: name, name, shape }
}

static TAINT_LIST: Shape = Shape::List(
    "[]core.Taint",
    &Shape::Struct {
        name: "Taint",
        full_name: "core.Taint",
        fields: &[
            Field { shown: "Key", name: "key", shape: &Shape::Text },
            Field { shown: "Value", name: "value", shape: &Shape::Text },
            Field { shown: "Effect", name: "effect", shape: &Shape::Text },
            Field { shown: "TimeAdded", name: "timeAdded", shape: &Shape::Time },
        ],
    },
);

static AVOID: Shape = Shape::Struct {
    name: "AvoidPods",
    full_name: "v1.AvoidPods",
    fields: &[field("preferAvoidPods", &Shape::List("[]v1.PreferAvoidPodsEntry", &AVOID_ENTRY))],
};

static AVOID_ENTRY: Shape = Shape::Struct {
    name: "PreferAvoidPodsEntry",
    full_name: "v1.PreferAvoidPodsEntry",
    fields: &[
        field("podSignature", &SIGNATURE),
        field("evictionTime", &Shape::Time),
        field("reason", &Shape::Text),
        field("message", &Shape::Text),
    ],
};

static SIGNATURE: Shape =
    Shape::Struct { name: "PodSignature", full_name: "v1.PodSignature", fields: &[field("podController", &OWNER)] };

static OWNER: Shape = Shape::Struct {
    name: "OwnerReference",
    full_name: "v1.OwnerReference",
    fields: &[
        field("apiVersion", &Shape::Text),
        field("kind", &Shape::Text),
        field("name", &Shape::Text),
        field("uid", &Shape::Text),
        field("controller", &Shape::Bool),
        field("blockOwnerDeletion", &Shape::Bool),
    ],
};

/// The JSON text as a value of this shape.
fn read(text: &str, shape: &Shape) -> Result<Value, String> {
    let value = json::parse(text.as_bytes()).map_err(|error| error.to_string())?;
    fit(&value, shape, None)
}

/// The value with the fields that the shape has, whatever the case of their letters. `place`: the struct that the
/// value is in, and the way to it.
fn fit(value: &Value, shape: &Shape, place: Option<(&str, &str)>) -> Result<Value, String> {
    match (shape, value) {
        (_, Value::Null) => Ok(Value::Null),
        (Shape::Time, Value::String(text)) => match time::canonical_seconds(text) {
            Ok(time) => Ok(time.map_or(Value::Null, Value::from)),
            Err(problem) => Err(problem),
        },
        (Shape::Text, value @ Value::String(_)) | (Shape::Bool, value @ Value::Bool(_)) => Ok(value.clone()),
        (Shape::List(_, inner), Value::Array(items)) => {
            let items: Result<Vec<Value>, String> = items.iter().map(|item| fit(item, inner, place)).collect();
            Ok(Value::Array(items?))
        }
        (Shape::Struct { name, fields, .. }, Value::Object(map)) => {
            let mut result = Value::object();
            for (key, value) in map.iter() {
                let Some(field) = fields.iter().find(|field| field.name.eq_ignore_ascii_case(key)) else { continue };
                let way = match place {
                    Some((_, way)) => format!("{way}.{}", field.shown),
                    None => field.shown.to_owned(),
                };
                result.set(field.name, fit(value, field.shape, Some((name, &way)))?);
            }
            Ok(result)
        }
        (shape, value) => Err(mismatch(value, shape, place)),
    }
}

fn mismatch(value: &Value, shape: &Shape, place: Option<(&str, &str)>) -> String {
    let given = match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
        _ => "number",
    };
    let wanted = match shape {
        Shape::Text | Shape::Time => "string",
        Shape::Bool => "bool",
        Shape::List(name, _) | Shape::Struct { full_name: name, .. } => name,
    };
    match place {
        Some((name, way)) => {
            format!("json: cannot unmarshal {given} into Go struct field {name}.{way} of type {wanted}")
        }
        None => format!("json: cannot unmarshal {given} into Go value of type {wanted}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BAD: &str =
        "metadata.annotations.AvoidPods: Invalid value: \"scheduler.alpha.kubernetes.io/preferAvoidPods\"";
    const TAINTS_BAD: &str = "metadata.annotations: Invalid value: \"scheduler.alpha.kubernetes.io/taints\"";

    fn wrong(key: &str, text: &str) -> Vec<String> {
        let mut errors = Errors::new();
        let mut annotations = Value::object();
        annotations.set(key, text);
        let count = |path: Path<'_>, taints: &[Value], errors: &mut Errors| {
            for (index, taint) in taints.iter().enumerate().filter(|(_, taint)| taint.str("key").is_empty()) {
                errors.invalid(path.index(index), taint.str("key"), "no key");
            }
        };
        validate(Path::new("metadata.annotations"), annotations.as_map(), count, &mut errors);
        errors.0.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn pods_to_avoid() {
        for fine in
            ["", "{}", "null", r#"{"PreferAvoidPods":[{"podSignature":{"podController":{"controller":true}}}]}"#]
        {
            assert_eq!(wrong(AVOID_PODS, fine), Vec::<String>::new(), "{fine}");
        }
        let entry = "metadata.annotations.scheduler.alpha.kubernetes.io/preferAvoidPods[0].PodSignature";
        let table = [
            ("x", format!("{BAD}: invalid character 'x' looking for beginning of value")),
            ("[]", format!("{BAD}: json: cannot unmarshal array into Go value of type v1.AvoidPods")),
            (
                r#"{"preferAvoidPods":1}"#,
                format!(
                    "{BAD}: json: cannot unmarshal number into Go struct field AvoidPods.preferAvoidPods of type \
                     []v1.PreferAvoidPodsEntry"
                ),
            ),
            (
                r#"{"preferAvoidPods":[1]}"#,
                format!(
                    "{BAD}: json: cannot unmarshal number into Go struct field AvoidPods.preferAvoidPods of type \
                     v1.PreferAvoidPodsEntry"
                ),
            ),
            (
                r#"{"preferAvoidPods":[{"podSignature":{"podController":{"controller":"x"}}}]}"#,
                format!(
                    "{BAD}: json: cannot unmarshal string into Go struct field \
                     OwnerReference.preferAvoidPods.podSignature.podController.controller of type bool"
                ),
            ),
            (r#"{"preferAvoidPods":[{}]}"#, format!("{entry}: Required value")),
            (
                r#"{"preferAvoidPods":[{"podSignature":{"podController":{"controller":false}}}]}"#,
                format!("{entry}.PodController.Controller: Invalid value: false: must point to a controller"),
            ),
        ];
        for (text, want) in table {
            assert_eq!(wrong(AVOID_PODS, text), [want], "{text}");
        }
    }

    #[test]
    fn taints_of_old() {
        assert_eq!(wrong(TAINTS, r#"[{"key":"a","effect":"NoSchedule"}]"#), Vec::<String>::new());
        let table = [
            ("{}", format!("{TAINTS_BAD}: json: cannot unmarshal object into Go value of type []core.Taint")),
            ("[1]", format!("{TAINTS_BAD}: json: cannot unmarshal number into Go value of type core.Taint")),
            (
                r#"[{"key":1}]"#,
                format!("{TAINTS_BAD}: json: cannot unmarshal number into Go struct field Taint.Key of type string"),
            ),
            (
                "[{}]",
                "metadata.annotations.scheduler.alpha.kubernetes.io/taints[0]: Invalid value: \"\": no key".to_owned(),
            ),
        ];
        for (text, want) in table {
            assert_eq!(wrong(TAINTS, text), [want], "{text}");
        }
    }
}
