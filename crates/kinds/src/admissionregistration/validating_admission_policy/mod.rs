//! ValidatingAdmissionPolicy: CEL expressions that what is written must fulfil.

use crate::strategy::{Repeat, Repeats, ResetFields, Strategy};
use rkube_machinery::Value;
use rkube_machinery::field::{Errors, Path};

use super::policy::{self, SPEC};
use super::{CATEGORIES, GROUP, count, expressions, json_path};
use crate::columns::{AGE, NAME};
use crate::fields::{carry, carry_metadata};
use crate::kind::{Column, Part, Row, Rules, Scope, Subresource};
use crate::meta;

pub static KIND: Row = Row {
    group: GROUP,
    kind: "ValidatingAdmissionPolicy",
    resource: "validatingadmissionpolicies",
    singular: "validatingadmissionpolicy",
    categories: CATEGORIES,
    scope: Scope::Cluster,
    type_name: "io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicy",
    storage_prefix: "validatingadmissionpolicies",
    subresources: &[Subresource::STATUS],
    columns: &[
        NAME,
        Column {
            kind: "integer",
            ..Column::text(
                "Validations",
                "Validations indicates the number of validation rules defined in this configuration",
                |policy, _| count(policy.get("spec").list("validations")),
            )
        },
        Column::text(
            "ParamKind",
            "ParamKind specifies the kind of resources used to parameterize this policy",
            policy::param_kind,
        ),
        AGE,
    ],
    strategy: Strategy {
        checks_finalizers: false,
        repeats_meta: Repeats { main: Repeat::New, status: Repeat::Nothing, other: Repeat::Update },
        unconditional_update: false,
        has_generation: true,
        reset_fields: ResetFields::STATUS_ALONE,
        ..Strategy::DEFAULTS
    },
    rules: &ValidatingPolicyRules,
    ..Row::DEFAULTS
};

const STATUS: Path<'static> = Path::new("status");

struct ValidatingPolicyRules;

impl Rules for ValidatingPolicyRules {
    fn default(&self, policy: &mut Value) {
        policy::default(policy);
    }

    fn prepare_create(&self, policy: &mut Value) {
        policy.remove("status");
    }

    fn validate_create(&self, policy: &Value, errors: &mut Errors) {
        validate(policy, None, errors);
    }

    fn prepare_update(&self, part: Part, policy: &mut Value, old: &Value) {
        if part == Part::Status {
            carry(policy, old, "spec");
            carry_metadata(policy, old);
        } else {
            carry(policy, old, "status");
        }
    }

    fn validate_update(&self, part: Part, policy: &Value, old: &Value, errors: &mut Errors) {
        if part == Part::Status {
            validate_status(policy.get("status"), errors);
        } else {
            validate(policy, Some(old), errors);
        }
    }

    fn warnings(&self, policy: &Value, _old: Option<&Value>) -> Vec<String> {
        super::name_warnings(policy)
    }
}

fn validate(policy: &Value, old: Option<&Value>, errors: &mut Errors) {
    policy::validate_head(policy, old, false, errors);
    let spec = policy.get("spec");
    let mut declarations = policy::declarations(spec);
    if !spec.list("variables").is_empty() {
        expressions::validate_variables(SPEC.child("variables"), spec, &mut declarations, errors);
    }
    let (validations, annotations) = (SPEC.child("validations"), SPEC.child("auditAnnotations"));
    if spec.list("validations").is_empty() && spec.list("auditAnnotations").is_empty() {
        let detail = "validations or auditAnnotations must contain at least one item";
        errors.required(validations, detail);
        errors.required(annotations, detail);
        return;
    }
    for (index, validation) in spec.list("validations").iter().enumerate() {
        expressions::validate_validation(validations.index(index), validation, &declarations, errors);
    }
    expressions::validate_audit_annotations(annotations, policy, &declarations, errors);
}

fn validate_status(status: &Value, errors: &mut Errors) {
    let checking = STATUS.child("typeChecking");
    let warnings = checking.child("expressionWarnings");
    for (index, warning) in status.get("typeChecking").list("expressionWarnings").iter().enumerate() {
        let path = warnings.index(index);
        if warning.str("warning").is_empty() {
            errors.required(path.child("warning"), "");
        }
        let place = warning.str("fieldRef");
        if place.trim().is_empty() {
            errors.required(path.child("fieldRef"), "");
        } else if let Err(why) = json_path::check(place.trim()) {
            errors.invalid(path.child("fieldRef"), place.trim(), format!("invalid JSONPath: {why}"));
        }
    }
    meta::validate_conditions(STATUS.child("conditions"), status.list("conditions"), errors);
}
