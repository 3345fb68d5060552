//! What the CEL rules of a schema look like, whatever they say: [`crate::custom::rules`] knows what they say.

use rkube_machinery::Value;
use rkube_machinery::field::{Errors, Path};
use rkube_machinery::schema::structural::Structural;

use crate::custom::rules::resolve_field_path;

const RULES: &str = "x-kubernetes-validations";
const REASONS: [&str; 4] = ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

/// `path` is that of the schema.
pub fn validate(path: Path<'_>, schema: &Value, errors: &mut Errors) {
    let path = path.child(RULES);
    for (index, rule) in schema.list(RULES).iter().enumerate() {
        let path = path.index(index);
        validate_message(path, rule, errors);
        let expression = rule.str("messageExpression");
        if !expression.is_empty() && expression.trim().is_empty() {
            let detail = "messageExpression must be non-empty if specified";
            errors.required(path.child("messageExpression"), detail);
        }
        if rule.has("reason") && !REASONS.contains(&rule.str("reason")) {
            errors.not_supported(path.child("reason"), rule.str("reason"), &REASONS);
        }
        validate_field_path(path.child("fieldPath"), schema, rule.str("fieldPath"), errors);
    }
}

fn validate_message(path: Path<'_>, rule: &Value, errors: &mut Errors) {
    let (expression, message) = (rule.str("rule").trim(), rule.str("message"));
    let message_path = path.child("message");
    if expression.is_empty() {
        errors.required(path.child("rule"), "rule is not specified");
    } else if !message.is_empty() && message.trim().is_empty() {
        errors.invalid(message_path, message, "must be non-empty if specified");
    } else if has_line_breaks(message.trim()) {
        errors.invalid(message_path, message, "must not contain line breaks");
    } else if has_line_breaks(expression) && message.is_empty() {
        errors.required(message_path, "message must be specified if rule contains line breaks");
    }
}

fn validate_field_path(path: Path<'_>, schema: &Value, field: &str, errors: &mut Errors) {
    if field.is_empty() {
        return;
    }
    if field.trim().is_empty() {
        errors.invalid(path, field, "must be non-empty if specified");
    }
    if has_line_breaks(field) {
        errors.invalid(path, field, "must not contain line breaks");
    }
    // A schema that cannot be read has been told of.
    if Structural::read(schema).is_ok_and(|schema| resolve_field_path(field, &schema, true).is_err()) {
        errors.invalid(path, field, "must be a valid path");
    }
}

fn has_line_breaks(text: &str) -> bool {
    text.contains(['\n', '\r'])
}
