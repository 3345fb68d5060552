//! SelfSubjectRulesReview: all that one may do oneself in a namespace. The server checks that there is a namespace.

use super::GROUP;
use crate::kind::{Kind, NameRule, Part, Rules, Scope};

pub static KIND: Kind = Kind {
    group: GROUP,
    kind: "SelfSubjectRulesReview",
    resource: "selfsubjectrulesreviews",
    singular: "selfsubjectrulesreview",
    scope: Scope::Cluster,
    verbs: &["create"],
    type_name: "io.k8s.api.authorization.v1.SelfSubjectRulesReview",
    rules: &RulesReviewRules,
    ..Kind::DEFAULTS
};

struct RulesReviewRules;

impl Rules for RulesReviewRules {
    fn name_rule(&self) -> NameRule {
        NameRule::Common
    }

    fn reset_fields(&self, _part: Part) -> &'static [&'static [&'static str]] {
        &[]
    }
}
