//! TokenReview: whose token this is. The server answers in its status, and checks that there is a token; nothing is
//! stored.

use crate::kind::{Row, Rules, Scope};
use crate::strategy::{NameRule, Strategy};

pub static KIND: Row = Row {
    group: "authentication.k8s.io",
    kind: "TokenReview",
    resource: "tokenreviews",
    singular: "tokenreview",
    scope: Scope::Cluster,
    verbs: &["create"],
    type_name: "io.k8s.api.authentication.v1.TokenReview",
    strategy: Strategy { name_rule: NameRule::Common, ..Strategy::DEFAULTS },
    rules: &TokenReviewRules,
    ..Row::DEFAULTS
};

struct TokenReviewRules;

impl Rules for TokenReviewRules {}
