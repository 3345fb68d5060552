//! ValidatingAdmissionPolicyBinding: where a validating policy holds, with which parameters, and what it does then.

use super::Registered;
use super::binding::{BindingRules, COLUMNS};
use super::{CATEGORIES, GROUP};
use crate::kind::{Row, Scope};

pub static KIND: Row = Row {
    group: GROUP,
    kind: "ValidatingAdmissionPolicyBinding",
    resource: "validatingadmissionpolicybindings",
    singular: "validatingadmissionpolicybinding",
    categories: CATEGORIES,
    scope: Scope::Cluster,
    type_name: "io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicyBinding",
    storage_prefix: "validatingadmissionpolicybindings",
    columns: COLUMNS,
    strategy: super::STRATEGY,
    rules: &Registered(BindingRules { mutating: false, default_not_found: false }),
    ..Row::DEFAULTS
};
