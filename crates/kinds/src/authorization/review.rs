//! What access reviews share: the attributes of a request, and who makes it.

use rkube_machinery::Value;
use rkube_machinery::field::{BadValue, Errors, Path};
use rkube_machinery::{json, names, object};

use crate::kind::Rules;

const SPEC: Path<'static> = Path::new("spec");
const METADATA: Path<'static> = Path::new("metadata");

/// The rules of one of the access reviews.
pub struct ReviewRules {
    /// The review says who the user is.
    pub names_user: bool,
    /// The review speaks of its own namespace only.
    pub local: bool,
}

impl Rules for ReviewRules {
    fn validate_create(&self, review: &Value, errors: &mut Errors) {
        let spec = review.get("spec");
        let (resource, path) = (spec.get("resourceAttributes"), spec.get("nonResourceAttributes"));
        match (resource.is_null(), path.is_null()) {
            (false, false) => errors.invalid(
                SPEC.child("nonResourceAttributes"),
                go_path_attributes(path),
                "cannot be specified in combination with resourceAttributes",
            ),
            (true, true) => errors.invalid(
                SPEC.child("resourceAttributes"),
                &Value::Null,
                "exactly one of nonResourceAttributes or resourceAttributes must be specified",
            ),
            _ => {}
        }
        if self.names_user && spec.str("user").is_empty() && spec.list("groups").is_empty() {
            errors.invalid(SPEC.child("user"), "", "at least one of user or group must be specified");
        }
        let attributes = SPEC.child("resourceAttributes");
        validate_selector(attributes.child("fieldSelector"), resource.get("fieldSelector"), false, errors);
        validate_selector(attributes.child("labelSelector"), resource.get("labelSelector"), true, errors);
        self.validate_metadata(review.get("metadata"), errors);
        if self.local {
            validate_local(review, errors);
        }
    }
}

impl ReviewRules {
    /// A review has no name and nothing else that objects have.
    fn validate_metadata(&self, metadata: &Value, errors: &mut Errors) {
        let own = |key: &str| key != "managedFields" && !(self.local && key == "namespace");
        let empty = metadata.as_map().iter().all(|(key, value)| !own(key) || value.is_empty());
        if !empty {
            let detail = if self.local { "must be empty except for namespace" } else { "must be empty" };
            errors.invalid(METADATA, metadata, detail);
        }
    }
}

fn validate_local(review: &Value, errors: &mut Errors) {
    let spec = review.get("spec");
    let resource = spec.get("resourceAttributes");
    let attributes = SPEC.child("resourceAttributes");
    if !resource.is_null() && resource.str("namespace") != review.get("metadata").str("namespace") {
        let detail = "must match metadata.namespace";
        errors.invalid(attributes.child("namespace"), resource.str("namespace"), detail);
    }
    if spec.has("nonResourceAttributes") {
        let shown = go_path_attributes(spec.get("nonResourceAttributes"));
        errors.invalid(SPEC.child("nonResourceAttributes"), shown, "disallowed on this kind of request");
    }
}

/// The selector of a request: a text, or requirements. Operators that the server does not know pass.
fn validate_selector(path: Path<'_>, selector: &Value, of_labels: bool, errors: &mut Errors) {
    if selector.is_null() {
        return;
    }
    let (raw, requirements) = (selector.str("rawSelector"), selector.list("requirements"));
    if !raw.is_empty() && !requirements.is_empty() {
        errors.invalid(path.child("rawSelector"), raw, "may not specified at the same time as requirements");
    }
    if raw.is_empty() && requirements.is_empty() {
        let detail = format!("when {path} is specified, requirements or rawSelector is required");
        errors.required(path.child("requirements"), detail);
    }
    let field = path.child("requirements");
    for (index, requirement) in requirements.iter().enumerate() {
        validate_requirement(field.index(index), requirement, of_labels, errors);
    }
}

fn validate_requirement(path: Path<'_>, requirement: &Value, of_labels: bool, errors: &mut Errors) {
    let (key, values) = (requirement.str("key"), requirement.list("values"));
    if !of_labels && key.is_empty() {
        errors.required(path.child("key"), "must be specified");
    }
    match requirement.str("operator") {
        "In" | "NotIn" if values.is_empty() => {
            errors.required(path.child("values"), "must be specified when `operator` is 'In' or 'NotIn'");
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.forbidden(path.child("values"), detail);
        }
        _ => {}
    }
    if !of_labels {
        return;
    }
    for message in names::qualified_name(key) {
        errors.invalid(path.child("key"), key, message);
    }
    for (index, value) in values.iter().enumerate() {
        for message in names::label_value(value.as_str()) {
            errors.invalid(path.child("values").index(index), value, message);
        }
    }
}

/// The attributes with Go's names of their fields, as messages show them.
fn go_path_attributes(attributes: &Value) -> BadValue {
    let shown = object! { "Path": attributes.str("path"), "Verb": attributes.str("verb") };
    BadValue::Text(json::to_string(&shown))
}
