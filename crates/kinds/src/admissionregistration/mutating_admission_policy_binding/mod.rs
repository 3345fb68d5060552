//! MutatingAdmissionPolicyBinding: where a mutating policy holds, and with which parameters.

use super::Registered;
use super::binding::{BindingRules, COLUMNS};
use super::{CATEGORIES, GROUP};
use crate::kind::{Row, Scope, renamed};

pub static KIND: Row = ROW;

const ROW: Row = Row {
    group: GROUP,
    kind: "MutatingAdmissionPolicyBinding",
    resource: "mutatingadmissionpolicybindings",
    singular: "mutatingadmissionpolicybinding",
    categories: CATEGORIES,
    scope: Scope::Cluster,
    type_name: "io.k8s.api.admissionregistration.v1.MutatingAdmissionPolicyBinding",
    storage_prefix: "mutatingadmissionpolicybindings",
    columns: COLUMNS,
    strategy: super::STRATEGY,
    rules: &Registered(BindingRules { mutating: true, default_not_found: false }),
    ..Row::DEFAULTS
};

pub static BETA: Row = Row {
    version: "v1beta1",
    type_name: "io.k8s.api.admissionregistration.v1beta1.MutatingAdmissionPolicyBinding",
    off_by_default: true,
    conversion: Some(renamed!("admissionregistration.k8s.io", "v1beta1", stored as "v1")),
    ..ROW
};

pub static ALPHA: Row = Row {
    version: "v1alpha1",
    type_name: "io.k8s.api.admissionregistration.v1alpha1.MutatingAdmissionPolicyBinding",
    deprecation: "admissionregistration.k8s.io/v1alpha1 MutatingAdmissionPolicyBinding is deprecated in v1.35+, unavailable in v1.38+",
    off_by_default: true,
    conversion: Some(renamed!("admissionregistration.k8s.io", "v1alpha1", stored as "v1")),
    rules: &Registered(BindingRules { mutating: true, default_not_found: true }),
    ..ROW
};
