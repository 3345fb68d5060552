//! SelfSubjectRulesReview: all that one may do oneself in a namespace. The server checks that there is a namespace.

use super::GROUP;
use crate::kind::{Row, Rules, Scope};
use crate::strategy::{NameRule, Strategy};

pub static KIND: Row = Row {
    group: GROUP,
    kind: "SelfSubjectRulesReview",
    resource: "selfsubjectrulesreviews",
    singular: "selfsubjectrulesreview",
    scope: Scope::Cluster,
    verbs: &["create"],
    type_name: "io.k8s.api.authorization.v1.SelfSubjectRulesReview",
    strategy: Strategy { name_rule: NameRule::Common, ..Strategy::DEFAULTS },
    rules: &RulesReviewRules,
    ..Row::DEFAULTS
};

struct RulesReviewRules;

impl Rules for RulesReviewRules {}
