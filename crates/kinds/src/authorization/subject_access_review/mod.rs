//! SubjectAccessReview: whether some user may do something.

use super::GROUP;
use super::review::ReviewRules;
use crate::kind::{Row, Scope};
use crate::strategy::{NameRule, Strategy};

pub static KIND: Row = Row {
    group: GROUP,
    kind: "SubjectAccessReview",
    resource: "subjectaccessreviews",
    singular: "subjectaccessreview",
    scope: Scope::Cluster,
    verbs: &["create"],
    type_name: "io.k8s.api.authorization.v1.SubjectAccessReview",
    strategy: Strategy { name_rule: NameRule::Common, ..Strategy::DEFAULTS },
    rules: &ReviewRules { names_user: true, local: false },
    ..Row::DEFAULTS
};
