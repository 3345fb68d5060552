//! LocalSubjectAccessReview: whether some user may do something in this namespace.

use super::GROUP;
use super::review::ReviewRules;
use crate::kind::Row;
use crate::strategy::{NameRule, Strategy};

pub static KIND: Row = Row {
    group: GROUP,
    kind: "LocalSubjectAccessReview",
    resource: "localsubjectaccessreviews",
    singular: "localsubjectaccessreview",
    verbs: &["create"],
    type_name: "io.k8s.api.authorization.v1.LocalSubjectAccessReview",
    strategy: Strategy { name_rule: NameRule::Common, ..Strategy::DEFAULTS },
    rules: &ReviewRules { names_user: true, local: true },
    ..Row::DEFAULTS
};
