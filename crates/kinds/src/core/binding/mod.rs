//! Binding: a pod gets its node. Nothing is stored; it is the pod that changes.

use crate::kind::{Row, Rules};
use crate::strategy::{NameRule, Strategy};

pub static KIND: Row = Row {
    kind: "Binding",
    resource: "bindings",
    singular: "binding",
    verbs: &["create"],
    type_name: "io.k8s.api.core.v1.Binding",
    strategy: Strategy { name_rule: NameRule::Common, ..Strategy::DEFAULTS },
    rules: &BindingRules,
    ..Row::DEFAULTS
};

struct BindingRules;

impl Rules for BindingRules {}
