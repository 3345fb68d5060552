//! SelfSubjectAccessReview: whether one may do something oneself.

use super::GROUP;
use super::review::ReviewRules;
use crate::kind::{Kind, Scope};
use crate::strategy::{NameRule, Strategy};

pub static KIND: Kind = Kind {
    group: GROUP,
    kind: "SelfSubjectAccessReview",
    resource: "selfsubjectaccessreviews",
    singular: "selfsubjectaccessreview",
    scope: Scope::Cluster,
    verbs: &["create"],
    type_name: "io.k8s.api.authorization.v1.SelfSubjectAccessReview",
    strategy: Strategy { name_rule: NameRule::Common, ..Strategy::DEFAULTS },
    rules: &ReviewRules { names_user: false, local: false },
    ..Kind::DEFAULTS
};
