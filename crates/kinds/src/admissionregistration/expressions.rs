//! The parts of webhooks and policies that hold CEL expressions: match conditions, variables, validations, audit
//! annotations and mutations.

use rkube_cel::Type;
use rkube_machinery::field::{Errors, Path};
use rkube_machinery::{Value, names};

use super::cel::{self, Declarations, Output, Refusal};
use crate::core::pod_spec::checks::Seen;

const MATCH_CONDITIONS_MAX: usize = 64;
const AUDIT_ANNOTATIONS_MAX: usize = 20;
const VALUE_EXPRESSION_MAX_BYTES: usize = 5 * 1024;
const REASONS: &[&str] = &["Forbidden", "Invalid", "RequestEntityTooLarge"];
const PATCH_TYPES: &[&str] = &["ApplyConfiguration", "JSONPatch"];

/// The `matchConditions` of a webhook or policy; `params` says whether they may speak of parameters.
pub fn validate_match_conditions(path: Path<'_>, holder: &Value, params: bool, errors: &mut Errors) {
    let conditions = holder.list("matchConditions");
    if conditions.len() > MATCH_CONDITIONS_MAX {
        errors.too_many(path, conditions.len(), MATCH_CONDITIONS_MAX);
    }
    let declarations = Declarations { params, authorizer: true, ..Declarations::default() };
    let mut seen = Seen::new();
    for (index, condition) in conditions.iter().enumerate() {
        let path = path.index(index);
        let expression = condition.str("expression").trim();
        if expression.is_empty() {
            errors.required(path.child("expression"), "");
        } else {
            compile(path.child("expression"), expression, expression, Output::Bool, &declarations, errors);
        }
        let name = condition.str("name");
        if name.is_empty() {
            errors.required(path.child("name"), "");
            continue;
        }
        for message in names::qualified_name(name) {
            errors.invalid(path.child("name"), name, message);
        }
        if !seen.add(name) {
            errors.duplicate(path.child("name"), name);
        }
    }
}

/// The `variables` of a policy; each may speak of those before it.
pub fn validate_variables(path: Path<'_>, spec: &Value, declarations: &mut Declarations, errors: &mut Errors) {
    declarations.composed = true;
    for (index, variable) in spec.list("variables").iter().enumerate() {
        let path = path.index(index);
        let name = variable.str("name");
        if name.trim().is_empty() {
            errors.required(path.child("name"), "name is not specified");
        } else if !rkube_cel::is_identifier(name) {
            errors.invalid(path.child("name"), name, "must be a valid CEL identifier");
        }
        let expression = variable.str("expression");
        let mut found = Type::Dyn;
        if expression.trim().is_empty() {
            errors.required(path.child("expression"), "expression is not specified");
        } else {
            match cel::check(expression, Output::Any, declarations) {
                Ok(checked) => found = checked,
                Err(refusal) => refuse(path.child("expression"), expression, refusal, errors),
            }
        }
        declarations.variables.declare(name, &found);
    }
}

pub fn validate_validation(path: Path<'_>, validation: &Value, declarations: &Declarations, errors: &mut Errors) {
    let expression = validation.str("expression");
    if expression.trim().is_empty() {
        errors.required(path.child("expression"), "expression is not specified");
    } else {
        compile(path.child("expression"), expression, expression, Output::Bool, declarations, errors);
    }
    let of_message = validation.str("messageExpression");
    if !of_message.is_empty() {
        let path = path.child("messageExpression");
        if of_message.trim().is_empty() {
            errors.invalid(path, of_message, "must be non-empty if specified");
        } else {
            let declarations = Declarations { authorizer: false, ..declarations.clone() };
            compile(path, of_message, of_message, Output::String, &declarations, errors);
        }
    }
    let message = validation.str("message");
    if !message.is_empty() && message.trim().is_empty() {
        errors.invalid(path.child("message"), message, "must be non-empty if specified");
    } else if message.trim().contains(['\n', '\r']) {
        errors.invalid(path.child("message"), message, "must not contain line breaks");
    }
    let reason = validation.get("reason");
    if !reason.is_null() && !REASONS.contains(&reason.as_str()) {
        errors.not_supported(path.child("reason"), reason, REASONS);
    }
}

pub fn validate_audit_annotations(path: Path<'_>, policy: &Value, declarations: &Declarations, errors: &mut Errors) {
    let annotations = policy.get("spec").list("auditAnnotations");
    if annotations.len() > AUDIT_ANNOTATIONS_MAX {
        let shown = cel::go_audit_annotations(annotations);
        errors.invalid(path, shown, format!("must not have more than {AUDIT_ANNOTATIONS_MAX} auditAnnotations"));
    }
    let policy_name = policy.get("metadata").str("name");
    let mut seen = Seen::new();
    for (index, annotation) in annotations.iter().enumerate() {
        let path = path.index(index);
        validate_audit_annotation(path, policy_name, annotation, declarations, errors);
        let key = annotation.str("key");
        if !seen.add(key) {
            errors.duplicate(path.child("key"), key);
        }
    }
}

fn validate_audit_annotation(
    path: Path<'_>,
    policy_name: &str,
    annotation: &Value,
    declarations: &Declarations,
    errors: &mut Errors,
) {
    let key = annotation.str("key");
    if policy_name.is_empty() {
        errors.invalid(path.child("key"), key, "requires metadata.name be non-empty");
    } else {
        let qualified = format!("{policy_name}/{key}");
        for message in names::qualified_name(&qualified) {
            errors.invalid(path.child("key"), qualified.as_str(), message);
        }
    }
    let path = path.child("valueExpression");
    let expression = annotation.str("valueExpression");
    match expression.trim() {
        "" => errors.required(path, "valueExpression is not specified"),
        trimmed if trimmed.len() > VALUE_EXPRESSION_MAX_BYTES => {
            errors.required(path, format!("must not exceed {VALUE_EXPRESSION_MAX_BYTES} bytes in length"));
        }
        trimmed => compile(path, expression, trimmed, Output::StringOrNull, declarations, errors),
    }
}

pub fn validate_mutation(path: Path<'_>, mutation: &Value, declarations: &Declarations, errors: &mut Errors) {
    let (right, other, output) = match mutation.str("patchType") {
        "" => return errors.required(path.child("patchType"), ""),
        "JSONPatch" => ("jsonPatch", "applyConfiguration", Output::JsonPatches),
        "ApplyConfiguration" => ("applyConfiguration", "jsonPatch", Output::Object),
        unknown => return errors.not_supported(path.child("patchType"), unknown, PATCH_TYPES),
    };
    let kind = mutation.str("patchType");
    if mutation.has(right) {
        let path = path.child(right);
        let expression = mutation.get(right).str("expression").trim();
        if expression.is_empty() {
            errors.required(path.child("expression"), "");
        } else {
            compile(path.child("expression"), expression, expression, output, declarations, errors);
        }
    } else {
        errors.required(path.child(right), format!("must be specified when patchType is {kind}"));
    }
    if mutation.has(other) {
        let detail = format!("must not be specified when patchType is {kind}");
        errors.invalid(path.child(other), format!("{{{other}}}"), detail);
    }
}

/// Says what is wrong with the expression; `shown` stands in the message.
fn compile(
    path: Path<'_>,
    shown: &str,
    expression: &str,
    output: Output,
    declarations: &Declarations,
    errors: &mut Errors,
) {
    if let Err(refusal) = cel::check(expression, output, declarations) {
        refuse(path, shown, refusal, errors);
    }
}

fn refuse(path: Path<'_>, shown: &str, refusal: Refusal, errors: &mut Errors) {
    match refusal {
        Refusal::Invalid(detail) => errors.invalid(path, shown, detail),
        Refusal::Internal(detail) => errors.internal(path, detail),
    }
}
