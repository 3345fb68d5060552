//! The rules for events, on their stored form: the lenient ones of old, and what `events.k8s.io` asks on top.

use crate::strategy::NameRule;
use rkube_machinery::field::{BadValue, Errors, Path};
use rkube_machinery::value::{Map, Text};
use rkube_machinery::{Value, json, names};

use crate::kind::{Part, Rules};
use crate::meta;

/// As written in the core group.
pub struct Legacy;

/// As written in `events.k8s.io`.
pub struct New;

const WORD_MAX_BYTES: usize = 128;
const MESSAGE_MAX_BYTES: usize = 1024;

impl Rules for Legacy {
    fn validate_create(&self, event: &Value, errors: &mut Errors) {
        validate_legacy(event, "reportingComponent", errors);
    }

    fn validate_update(&self, _part: Part, event: &Value, _old: &Value, errors: &mut Errors) {
        validate_legacy(event, "reportingComponent", errors);
    }
}

impl Rules for New {
    fn validate_create(&self, event: &Value, errors: &mut Errors) {
        validate_legacy(event, "reportingController", errors);
        meta::validate(Path::new("metadata"), event.get("metadata"), true, NameRule::Subdomain, errors);
        meta::validate_known_finalizers(Path::new("metadata"), event.get("metadata"), errors);
        validate_series(event, errors);
        if !event.has("eventTime") {
            errors.required(Path::new("eventTime"), "");
        }
        let kind = event.str("type");
        if kind != "Normal" && kind != "Warning" {
            errors.invalid(Path::new("type"), "", format!("has invalid value: {kind}"));
        }
        let source = event.get("source");
        let set = [
            ("firstTimestamp", event.has("firstTimestamp")),
            ("lastTimestamp", event.has("lastTimestamp")),
            ("count", event.int("count") != 0),
            ("source", !source.str("component").is_empty() || !source.str("host").is_empty()),
        ];
        for (field, _) in set.into_iter().filter(|(_, set)| *set) {
            errors.invalid(Path::new(field), "", "needs to be unset");
        }
    }

    fn validate_update(&self, _part: Part, event: &Value, old: &Value, errors: &mut Errors) {
        validate_legacy(event, "reportingController", errors);
        meta::validate_update(Path::new("metadata"), event.get("metadata"), old.get("metadata"), errors);
        meta::validate_known_finalizers(Path::new("metadata"), event.get("metadata"), errors);
        if event.get("series") != old.get("series") {
            validate_series(event, errors);
        }
        validate_unchanged(event, old, errors);
    }
}

/// `reporter` is what the request's version calls the reporting controller.
fn validate_legacy(event: &Value, reporter: &str, errors: &mut Errors) {
    let namespace = event.get("metadata").str("namespace");
    let involved = event.get("involvedObject").str("namespace");
    let reported = event.has("eventTime");
    let fits = match (reported, involved.is_empty()) {
        (false, true) => namespace.is_empty() || namespace == "default",
        (false, false) => namespace == involved,
        (true, true) => namespace == "default" || namespace == "kube-system",
        (true, false) => true,
    };
    if !fits {
        let path = Path::new("involvedObject");
        errors.invalid(path.child("namespace"), involved, "does not match event.namespace");
    }
    if reported {
        validate_report(event, reporter, errors);
    }
    for message in names::dns1123_subdomain(namespace) {
        errors.invalid(Path::new("namespace"), namespace, message);
    }
}

fn validate_report(event: &Value, reporter: &str, errors: &mut Errors) {
    let controller = event.str("reportingComponent");
    if controller.is_empty() {
        errors.required(Path::new(reporter), "");
    }
    for message in names::qualified_name(controller) {
        errors.invalid(Path::new(reporter), controller, message);
    }
    for field in ["reportingInstance", "action", "reason"] {
        if event.str(field).is_empty() {
            errors.required(Path::new(field), "");
        }
        validate_length(event, field, WORD_MAX_BYTES, errors);
    }
    validate_length(event, "message", MESSAGE_MAX_BYTES, errors);
}

fn validate_length(event: &Value, field: &str, max: usize, errors: &mut Errors) {
    if event.str(field).len() > max {
        errors.invalid(Path::new(field), "", format!("can have at most {max} characters"));
    }
}

fn validate_series(event: &Value, errors: &mut Errors) {
    let series = event.get("series");
    if series.is_null() {
        return;
    }
    if series.int("count") < 2 {
        errors.invalid(Path::new("series.count"), "", "should be at least 2");
    }
    if !series.has("lastObservedTime") {
        errors.required(Path::new("series.lastObservedTime"), "");
    }
}

/// An event says what happened: only its series may change.
fn validate_unchanged(event: &Value, old: &Value, errors: &mut Errors) {
    let mut check = |field: &'static str, shown: &'static str, value: fn(&Value) -> BadValue| {
        let (new, old) = (event.get(field), old.get(field));
        let differs = if holds_texts(new) || holds_texts(old) { !same_texts(new, old) } else { !meta::same(new, old) };
        if differs {
            errors.invalid(Path::new(shown), value(new), "field is immutable");
        }
    };
    check("involvedObject", "involvedObject", reference);
    check("reason", "reason", text);
    check("message", "message", text);
    check("source", "source", |source| internal(source, &[("Component", "component"), ("Host", "host")]));
    check("firstTimestamp", "firstTimestamp", |value| value.into());
    check("lastTimestamp", "lastTimestamp", |value| value.into());
    check("count", "count", |value| value.as_int().unwrap_or(0).into());
    check("reason", "reason", text);
    check("type", "type", text);
    check("eventTime", "eventTime", |value| value.into());
    check("action", "action", text);
    check("related", "related", |value| if value.is_null() { value.into() } else { reference(value) });
    check("reportingComponent", "reportingController", text);
    check("reportingInstance", "reportingInstance", text);
}

fn holds_texts(value: &Value) -> bool {
    matches!(value, Value::Object(_) | Value::String(_) | Value::Int(_))
}

/// Whether two values are alike where an absent text, number or field is an empty one.
fn same_texts(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Object(left), Value::Object(right)) => {
            let covers = |one: &Map, other: &Map| {
                one.iter().all(|(key, value)| same_texts(value, other.get(key).unwrap_or(&Value::Null)))
            };
            covers(left, right) && covers(right, left)
        }
        _ => left == right || (left.is_empty() && right.is_empty()),
    }
}

fn text(value: &Value) -> BadValue {
    value.as_str().into()
}

fn reference(value: &Value) -> BadValue {
    const FIELDS: [(&str, &str); 7] = [
        ("Kind", "kind"),
        ("Namespace", "namespace"),
        ("Name", "name"),
        ("UID", "uid"),
        ("APIVersion", "apiVersion"),
        ("ResourceVersion", "resourceVersion"),
        ("FieldPath", "fieldPath"),
    ];
    internal(value, &FIELDS)
}

/// A struct of texts as messages show those that have no form on the wire: under the names of Go's fields, all of them.
fn internal(value: &Value, fields: &[(&'static str, &str)]) -> BadValue {
    let shown = fields.iter().map(|(shown, field)| (Text::new_static(shown), Value::from(value.str(field))));
    BadValue::Text(json::to_string(&Value::Object(Map::in_order(shown.collect()))))
}
