//! MutatingAdmissionPolicy: CEL expressions that change what is written.

use rkube_machinery::Value;
use rkube_machinery::field::Errors;

use super::policy::{self, SPEC};
use super::{CATEGORIES, GROUP, REINVOCATION_POLICIES, count, expressions};
use crate::columns::{AGE, NAME};
use crate::kind::{Column, Kind, Part, Repeat, Rules, Scope, renamed};

pub static KIND: Kind = ROW;

const ROW: Kind = Kind {
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
    rules: &MutatingPolicyRules,
    ..Kind::DEFAULTS
};

pub static BETA: Kind = Kind {
    version: "v1beta1",
    type_name: "io.k8s.api.admissionregistration.v1beta1.MutatingAdmissionPolicy",
    off_by_default: true,
    conversion: Some(renamed!("admissionregistration.k8s.io", "v1beta1", stored as "v1")),
    ..ROW
};

pub static ALPHA: Kind = Kind {
    version: "v1alpha1",
    type_name: "io.k8s.api.admissionregistration.v1alpha1.MutatingAdmissionPolicy",
    deprecation: "admissionregistration.k8s.io/v1alpha1 MutatingAdmissionPolicy is deprecated in v1.35+, unavailable in v1.38+",
    off_by_default: true,
    conversion: Some(renamed!("admissionregistration.k8s.io", "v1alpha1", stored as "v1")),
    ..ROW
};

struct MutatingPolicyRules;

impl Rules for MutatingPolicyRules {
    fn default(&self, policy: &mut Value) {
        policy::default(policy);
    }

    fn validate_create(&self, policy: &Value, errors: &mut Errors) {
        validate(policy, None, errors);
    }

    fn validate_update(&self, _part: Part, policy: &Value, old: &Value, errors: &mut Errors) {
        validate(policy, Some(old), errors);
    }

    fn warnings(&self, policy: &Value, _old: Option<&Value>) -> Vec<String> {
        super::name_warnings(policy)
    }

    fn repeats_meta(&self, _part: Part) -> Repeat {
        Repeat::New
    }

    fn checks_finalizers(&self) -> bool {
        false
    }

    fn unconditional_update(&self) -> bool {
        false
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn reset_fields(&self, _part: Part) -> &'static [&'static [&'static str]] {
        &[]
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
