//! Binding: a pod gets its node. Nothing is stored; it is the pod that changes.

use crate::kind::{Kind, NameRule, Part, Rules};

pub static KIND: Kind = Kind {
    kind: "Binding",
    resource: "bindings",
    singular: "binding",
    verbs: &["create"],
    type_name: "io.k8s.api.core.v1.Binding",
    rules: &BindingRules,
    ..Kind::DEFAULTS
};

struct BindingRules;

impl Rules for BindingRules {
    fn name_rule(&self) -> NameRule {
        NameRule::Common
    }

    fn reset_fields(&self, _part: Part) -> &'static [&'static [&'static str]] {
        &[]
    }
}
