//! MutatingAdmissionPolicyBinding: where a mutating policy holds, and with which parameters.

use super::binding::{BindingRules, COLUMNS};
use super::{CATEGORIES, GROUP, stored_as_v1};
use crate::kind::{Kind, Scope};

pub static KIND: Kind = ROW;

const ROW: Kind = Kind {
    group: GROUP,
    kind: "MutatingAdmissionPolicyBinding",
    resource: "mutatingadmissionpolicybindings",
    singular: "mutatingadmissionpolicybinding",
    categories: CATEGORIES,
    scope: Scope::Cluster,
    type_name: "io.k8s.api.admissionregistration.v1.MutatingAdmissionPolicyBinding",
    storage_prefix: "mutatingadmissionpolicybindings",
    columns: COLUMNS,
    rules: &BindingRules { mutating: true, default_not_found: false },
    ..Kind::DEFAULTS
};

pub static BETA: Kind = Kind {
    version: "v1beta1",
    type_name: "io.k8s.api.admissionregistration.v1beta1.MutatingAdmissionPolicyBinding",
    off_by_default: true,
    conversion: Some(stored_as_v1!("v1beta1")),
    ..ROW
};

pub static ALPHA: Kind = Kind {
    version: "v1alpha1",
    type_name: "io.k8s.api.admissionregistration.v1alpha1.MutatingAdmissionPolicyBinding",
    off_by_default: true,
    conversion: Some(stored_as_v1!("v1alpha1")),
    rules: &BindingRules { mutating: true, default_not_found: true },
    ..ROW
};
