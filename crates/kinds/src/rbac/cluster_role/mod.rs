//! ClusterRole: what its holders may do everywhere, or in a namespace where a RoleBinding names it. It may be the sum
//! of other roles that carry labels.

use crate::strategy::{NameRule, Repeat, Repeats, Strategy};
use rkube_machinery::Value;
use rkube_machinery::field::{Errors, Path};
use rkube_machinery::selector::labels::Selector;

use super::{GROUP, RbacRules, policy_rule};
use crate::columns::{CREATED_AT, NAME};
use crate::kind::{Row, Scope};
use crate::meta;

pub static KIND: Row = Row {
    group: GROUP,
    kind: "ClusterRole",
    resource: "clusterroles",
    singular: "clusterrole",
    scope: Scope::Cluster,
    type_name: "io.k8s.api.rbac.v1.ClusterRole",
    storage_prefix: "clusterroles",
    columns: &[NAME, CREATED_AT],
    strategy: Strategy {
        name_rule: NameRule::PathSegment,
        repeats_meta: Repeats::all(Repeat::New),
        create_on_update: true,
        ..Strategy::DEFAULTS
    },
    rules: &RbacRules { default: |_| {}, validate, change: |_, _, _| {} },
    ..Row::DEFAULTS
};

const AGGREGATION: Path<'static> = Path::new("aggregationRule");

fn validate(role: &Value, old: Option<&Value>, errors: &mut Errors) {
    policy_rule::validate_all(role, false, errors);
    validate_aggregation(role, old.is_some_and(has_wrong_selector), errors);
}

fn validate_aggregation(role: &Value, lenient: bool, errors: &mut Errors) {
    if !role.has("aggregationRule") {
        return;
    }
    let path = AGGREGATION.child("clusterRoleSelectors");
    let selectors = role.get("aggregationRule").list("clusterRoleSelectors");
    if selectors.is_empty() {
        errors.required(path, "at least one clusterRoleSelector required if aggregationRule is non-nil");
    }
    for (index, selector) in selectors.iter().enumerate() {
        let path = path.index(index);
        meta::validate_label_selector(path, selector, lenient, errors);
        if Selector::from_label_selector(selector).is_err() {
            errors.invalid(path, &Value::Null, "invalid label selector.");
        }
    }
}

/// An old role may have selectors that a new one may not.
fn has_wrong_selector(role: &Value) -> bool {
    let mut errors = Errors::new();
    for selector in role.get("aggregationRule").list("clusterRoleSelectors") {
        meta::validate_label_selector(Path::ROOT, selector, false, &mut errors);
    }
    !errors.is_empty()
}
