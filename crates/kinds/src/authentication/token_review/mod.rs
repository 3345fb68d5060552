//! TokenReview: whose token this is. The server answers in its status, and checks that there is a token; nothing is
//! stored.

use crate::kind::{Kind, NameRule, Part, Rules, Scope};

pub static KIND: Kind = Kind {
    group: "authentication.k8s.io",
    kind: "TokenReview",
    resource: "tokenreviews",
    singular: "tokenreview",
    scope: Scope::Cluster,
    verbs: &["create"],
    type_name: "io.k8s.api.authentication.v1.TokenReview",
    rules: &TokenReviewRules,
    ..Kind::DEFAULTS
};

struct TokenReviewRules;

impl Rules for TokenReviewRules {
    fn name_rule(&self) -> NameRule {
        NameRule::Common
    }

    fn reset_fields(&self, _part: Part) -> &'static [&'static [&'static str]] {
        &[]
    }
}
