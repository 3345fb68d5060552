//! SelfSubjectReview: asks who one is. The server answers with `status.userInfo`; nothing is stored.

use crate::kind::{Row, Rules, Scope};
use crate::strategy::{NameRule, ResetFields, Strategy};

pub static KIND: Row = Row {
    group: "authentication.k8s.io",
    kind: "SelfSubjectReview",
    resource: "selfsubjectreviews",
    singular: "selfsubjectreview",
    scope: Scope::Cluster,
    verbs: &["create"],
    type_name: "io.k8s.api.authentication.v1.SelfSubjectReview",
    strategy: Strategy { name_rule: NameRule::Common, reset_fields: ResetFields::STATUS, ..Strategy::DEFAULTS },
    rules: &SelfSubjectReviewRules,
    ..Row::DEFAULTS
};

struct SelfSubjectReviewRules;

impl Rules for SelfSubjectReviewRules {}
