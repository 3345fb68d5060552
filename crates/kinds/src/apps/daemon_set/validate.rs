//! What a DaemonSet must look like.

use rkube_machinery::field::{BadValue, Errors, Path};
use rkube_machinery::selector::labels::Selector;
use rkube_machinery::{Value, names};

use crate::apps::template::{self, SPEC, STATUS};
use crate::apps::{numbers, selector};
use crate::core::pod_spec::{PodOptions, go_form};
use crate::meta;

pub(super) fn spec(spec: &Value, options: &PodOptions, errors: &mut Errors) {
    let (path, labels) = (SPEC.child("selector"), spec.get("selector"));
    meta::validate_label_selector(path, labels, options.any_label_value_in_selectors, errors);
    // A selector that cannot be read is wrong enough: pods are not held against it.
    let found = Selector::from_label_selector(labels).unwrap_or_default();
    if !labels.is_null() {
        selector::validate_not_empty(path, labels, "daemonset", errors);
    }
    template::validate(SPEC.child("template"), spec.get("template"), &found, options, "DaemonSet", errors);
    numbers::validate_not_negative(SPEC, spec, &["minReadySeconds"], errors);
    strategy(SPEC.child("updateStrategy"), spec.get("updateStrategy"), errors);
    numbers::validate_not_negative(SPEC, spec, &["revisionHistoryLimit"], errors);
}

/// A change of the spec; `old` is the whole old object.
pub(super) fn update(new: &Value, old: &Value, errors: &mut Errors) {
    let old_selector = old.at(&["spec", "selector"]);
    selector::validate_same(SPEC.child("selector"), new.get("selector"), old_selector, errors);
    let mut options = template::options(Some(old));
    options.any_label_value_in_selectors |= has_bad_value(old_selector);
    spec(new, &options, errors);
}

fn has_bad_value(selector: &Value) -> bool {
    let values = selector.list("matchExpressions").iter().flat_map(|expression| expression.list("values"));
    values.into_iter().any(|value| !names::label_value(value.as_str()).is_empty())
}

fn strategy(path: Path<'_>, strategy: &Value, errors: &mut Errors) {
    let rolling = strategy.get("rollingUpdate");
    match strategy.str("type") {
        "OnDelete" => {}
        "RollingUpdate" if rolling.is_null() => errors.required(path.child("rollingUpdate"), ""),
        "RollingUpdate" => rolling_update(path.child("rollingUpdate"), rolling, errors),
        _ => {
            let shown = BadValue::Text(go_form::go_json("DaemonSetUpdateStrategy", strategy));
            errors.not_supported(path, shown, &["RollingUpdate", "OnDelete"]);
        }
    }
}

/// Either old pods go first or new ones come first, not both.
fn rolling_update(path: Path<'_>, rolling: &Value, errors: &mut Errors) {
    let (unavailable, surge) = (rolling.get("maxUnavailable"), rolling.get("maxSurge"));
    let (unavailable_path, surge_path) = (path.child("maxUnavailable"), path.child("maxSurge"));
    numbers::validate_count_or_percent(unavailable_path, unavailable, errors);
    numbers::validate_count_or_percent(surge_path, surge, errors);
    numbers::validate_at_most_all(unavailable_path, unavailable, errors);
    numbers::validate_at_most_all(surge_path, surge, errors);
    match (numbers::count_or_percent(unavailable) != 0, numbers::count_or_percent(surge) != 0) {
        (true, true) => errors.invalid(surge_path, surge, "may not be set when maxUnavailable is non-zero"),
        (false, false) => errors.required(unavailable_path, "cannot be 0 when maxSurge is 0"),
        _ => {}
    }
}

pub(super) fn status(status: &Value, old: &Value, errors: &mut Errors) {
    const COUNTS: &[&str] = &[
        "currentNumberScheduled",
        "numberMisscheduled",
        "desiredNumberScheduled",
        "numberReady",
        "observedGeneration",
        "updatedNumberScheduled",
        "numberAvailable",
        "numberUnavailable",
        "collisionCount",
    ];
    numbers::validate_not_negative(STATUS, status, COUNTS, errors);
    numbers::validate_collisions(STATUS, status, old, errors);
}
