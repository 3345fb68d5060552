//! MutatingAdmissionPolicy: CEL expressions that change what is written.

use rkube_machinery::Value;
use rkube_machinery::field::Errors;

use super::policy::{self, SPEC};
use super::{CATEGORIES, GROUP, REINVOCATION_POLICIES, Registered, Registration, count, expressions};
use crate::columns::{AGE, NAME};
use crate::kind::{Column, Row, Scope, renamed};

pub static KIND: Row = ROW;

const ROW: Row = Row {
    group: GROUP,
    kind: "MutatingAdmissionPolicy",
    resource: "mutatingadmissionpolicies",
    singular: "mutatingadmissionpolicy",
    categories: CATEGORIES,
    scope: Scope::Cluster,
    type_name: "io.k8s.api.admissionregistration.v1.MutatingAdmissionPolicy",
    storage_prefix: "mutatingadmissionpolicies",
    columns: &[
        NAME,
        Column {
            kind: "integer",
            ..Column::text(
                "Mutations",
                "Mutation indicates the number of mutations rules defined in this configuration",
                |policy, _| count(policy.get("spec").list("mutations")),
            )
        },
        Column::text(
            "ParamKind",
            "ParamKind specifies the kind of resources used to parameterize this policy",
            policy::param_kind,
        ),
        AGE,
    ],
    strategy: super::STRATEGY,
    rules: &Registered(MutatingPolicyRules),
    ..Row::DEFAULTS
};

pub static BETA: Row = Row {
    version: "v1beta1",
    type_name: "io.k8s.api.admissionregistration.v1beta1.MutatingAdmissionPolicy",
    off_by_default: true,
    conversion: Some(renamed!("admissionregistration.k8s.io", "v1beta1", stored as "v1")),
    ..ROW
};

pub static ALPHA: Row = Row {
    version: "v1alpha1",
    type_name: "io.k8s.api.admissionregistration.v1alpha1.MutatingAdmissionPolicy",
    deprecation: "admissionregistration.k8s.io/v1alpha1 MutatingAdmissionPolicy is deprecated in v1.35+, unavailable in v1.38+",
    off_by_default: true,
    conversion: Some(renamed!("admissionregistration.k8s.io", "v1alpha1", stored as "v1")),
    ..ROW
};

struct MutatingPolicyRules;

impl Registration for MutatingPolicyRules {
    fn default(&self, policy: &mut Value) {
        policy::default(policy);
    }

    fn validate(&self, policy: &Value, old: Option<&Value>, errors: &mut Errors) {
        validate(policy, old, errors);
    }
}

fn validate(policy: &Value, old: Option<&Value>, errors: &mut Errors) {
    policy::validate_head(policy, old, true, errors);
    let spec = policy.get("spec");
    let mut declarations = policy::declarations(spec);
    expressions::validate_variables(SPEC.child("variables"), spec, &mut declarations, errors);
    declarations.patch_types = true;
    let mutations = SPEC.child("mutations");
    if spec.list("mutations").is_empty() {
        errors.required(mutations, "mutations must contain at least one item");
    }
    for (index, mutation) in spec.list("mutations").iter().enumerate() {
        expressions::validate_mutation(mutations.index(index), mutation, &declarations, errors);
    }
    let reinvocation = spec.str("reinvocationPolicy");
    if reinvocation.is_empty() {
        errors.required(SPEC.child("reinvocationPolicy"), "");
    } else if !REINVOCATION_POLICIES.contains(&reinvocation) {
        errors.not_supported(SPEC.child("reinvocationPolicy"), reinvocation, REINVOCATION_POLICIES);
    }
}
