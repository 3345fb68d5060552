//! SelfSubjectAccessReview: whether one may do something oneself.

use super::GROUP;
use super::review::ReviewRules;
use crate::kind::{Row, Scope};
use crate::strategy::{NameRule, Strategy};

pub static KIND: Row = Row {
    group: GROUP,
    kind: "SelfSubjectAccessReview",
    resource: "selfsubjectaccessreviews",
    singular: "selfsubjectaccessreview",
    scope: Scope::Cluster,
    verbs: &["create"],
    type_name: "io.k8s.api.authorization.v1.SelfSubjectAccessReview",
    strategy: Strategy { name_rule: NameRule::Common, ..Strategy::DEFAULTS },
    rules: &ReviewRules { names_user: false, local: false },
    ..Row::DEFAULTS
};
