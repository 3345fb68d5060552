//! The checks of a limit range: known types and resources, bounds that fit each other.

use std::collections::BTreeSet;

use rkube_machinery::field::{Errors, Path};
use rkube_machinery::quantity::{Format, Quantity};
use rkube_machinery::{Value, names};

use crate::core::pod_spec::checks::Seen;
use crate::core::pod_spec::{amounts, resources};

const SPEC: Path<'static> = Path::new("spec");
/// The largest amount whose thousandths can be counted.
const MILLI_MAX: i64 = i64::MAX / 1000;

pub(super) fn limits(items: &[Value], errors: &mut Errors) {
    let path = SPEC.child("limits");
    let mut seen = Seen::new();
    for (index, item) in items.iter().enumerate() {
        let path = path.index(index);
        let kind = item.str("type");
        validate_type(path.child("type"), kind, errors);
        if !seen.add(kind) {
            errors.duplicate(path.child("type"), kind);
        }
        validate_item(path, item, errors);
    }
}

fn validate_type(path: Path<'_>, kind: &str, errors: &mut Errors) {
    if matches!(kind, "Pod" | "Container" | "PersistentVolumeClaim") {
        return;
    }
    let messages = names::qualified_name(kind);
    if messages.is_empty() && !kind.contains('/') {
        errors.invalid(path, kind, "must be a standard limit type or fully qualified");
    }
    for message in messages {
        errors.invalid(path, kind, message);
    }
}

fn validate_item(path: Path<'_>, item: &Value, errors: &mut Errors) {
    let kind = item.str("type");
    validate_names(path, item, "max", errors);
    validate_names(path, item, "min", errors);
    let is_pod = kind == "Pod";
    for list in ["default", "defaultRequest"] {
        if !is_pod {
            validate_names(path, item, list, errors);
        } else if !item.map(list).is_empty() {
            errors.forbidden(path.child(list), "may not be specified when `type` is 'Pod'");
        }
    }
    let has_storage = item.map("min").contains("storage") || item.map("max").contains("storage");
    if kind == "PersistentVolumeClaim" && !has_storage {
        let words = "either minimum or maximum storage value is required, but neither was provided";
        errors.required(path.child("limits"), words);
    }
    validate_names(path, item, "maxLimitRequestRatio", errors);
    let lists: &[&str] = if is_pod {
        &["max", "min", "maxLimitRequestRatio"]
    } else {
        &["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"]
    };
    let resources: BTreeSet<&str> =
        lists.iter().flat_map(|list| item.map(list).keys()).map(|name| name.as_str()).collect();
    for resource in resources {
        Bounds::of(item, resource, is_pod).validate(path, resource, errors);
    }
}

fn validate_names(path: Path<'_>, item: &Value, list: &str, errors: &mut Errors) {
    let path = path.child(list);
    let of_containers = matches!(item.str("type"), "Pod" | "Container");
    for name in item.map(list).keys() {
        if of_containers {
            resources::validate_container_resource(path.key(name), name, errors);
        } else {
            resources::validate_resource(path.key(name), name, errors);
        }
    }
}

/// All that an item says of one resource.
struct Bounds<'a> {
    min: Option<Bound<'a>>,
    max: Option<Bound<'a>>,
    limit: Option<Bound<'a>>,
    request: Option<Bound<'a>>,
    ratio: Option<Bound<'a>>,
}

struct Bound<'a> {
    amount: Quantity,
    text: &'a str,
}

impl<'a> Bounds<'a> {
    fn of(item: &'a Value, resource: &str, is_pod: bool) -> Self {
        let bound = |list: &str| {
            let value = item.map(list).get(resource)?;
            Some(Bound { amount: amounts::of(value), text: value.as_str() })
        };
        Bounds {
            min: bound("min"),
            max: bound("max"),
            limit: bound("default").filter(|_| !is_pod),
            request: bound("defaultRequest").filter(|_| !is_pod),
            ratio: bound("maxLimitRequestRatio"),
        }
    }

    fn validate(&self, path: Path<'_>, resource: &str, errors: &mut Errors) {
        // The field, the two bounds of which the first may not be greater, and which of them is shown.
        let orders = [
            ("min", &self.min, &self.max, 0, ["min value", "max value"]),
            ("defaultRequest", &self.min, &self.request, 1, ["min value", "default request value"]),
            ("defaultRequest", &self.request, &self.max, 0, ["default request value", "max value"]),
            ("defaultRequest", &self.request, &self.limit, 0, ["default request value", "default limit value"]),
            ("default", &self.min, &self.limit, 0, ["min value", "default value"]),
            ("default", &self.limit, &self.max, 1, ["default value", "max value"]),
        ];
        for (field, low, high, shown, words) in orders {
            let (Some(low), Some(high)) = (low, high) else { continue };
            if low.amount > high.amount {
                let detail = format!("{} {} is greater than {} {}", words[0], low.text, words[1], high.text);
                let path = path.child(field);
                errors.invalid(path.key(resource), [low.text, high.text][shown], detail);
            }
        }
        self.validate_ratio(path, resource, errors);
        if let (Some(limit), Some(request)) = (&self.limit, &self.request)
            && limit.amount != request.amount
            && !resources::is_overcommit_allowed(resource)
        {
            let detail = format!(
                "default value {} must equal to defaultRequest value {} in {resource}",
                limit.text, request.text
            );
            let path = path.child("defaultRequest");
            errors.invalid(path.key(resource), request.text, detail);
        }
    }

    fn validate_ratio(&self, path: Path<'_>, resource: &str, errors: &mut Errors) {
        let Some(ratio) = &self.ratio else { return };
        let path = path.child("maxLimitRequestRatio");
        if ratio.amount < Quantity::new(1, Format::DecimalSi) {
            errors.invalid(path.key(resource), ratio.text, format!("ratio {} is less than 1", ratio.text));
        }
        let (Some(min), Some(max)) = (&self.min, &self.max) else { return };
        let (mut value, mut low, mut high) = (ratio.amount.value() as f64, min.amount.value(), max.amount.value());
        if [ratio, min, max].into_iter().all(|bound| bound.amount.value() < MILLI_MAX) {
            value = ratio.amount.milli_value() as f64 / 1000.0;
            (low, high) = (min.amount.milli_value(), max.amount.milli_value());
        }
        let most = high as f64 / low as f64;
        if value > most {
            let detail = format!("ratio {} is greater than max/min = {most:.6}", ratio.text);
            errors.invalid(path.key(resource), ratio.text, detail);
        }
    }
}

#[cfg(test)]
mod tests {
    use rkube_machinery::object;

    use super::*;

    fn check(item: Value) -> Vec<String> {
        let mut errors = Errors::new();
        limits(&[item], &mut errors);
        errors.0.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn bounds_fit_each_other() {
        let item = object! {
            "type": "Container", "min": object! { "cpu": "3" }, "max": object! { "cpu": "2" },
            "default": object! { "cpu": "1" }, "maxLimitRequestRatio": object! { "cpu": "500m" },
        };
        assert_eq!(
            check(item),
            [
                "spec.limits[0].min[cpu]: Invalid value: \"3\": min value 3 is greater than max value 2",
                "spec.limits[0].default[cpu]: Invalid value: \"3\": min value 3 is greater than default value 1",
                "spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: \"500m\": ratio 500m is less than 1",
            ]
        );
        let item = object! {
            "type": "Pod", "min": object! { "cpu": "1" }, "max": object! { "cpu": "2" },
            "maxLimitRequestRatio": object! { "cpu": "3" }, "default": object! { "cpu": "1" },
        };
        assert_eq!(
            check(item),
            [
                "spec.limits[0].default: Forbidden: may not be specified when `type` is 'Pod'",
                "spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: \"3\": ratio 3 is greater than max/min = \
                 2.000000",
            ]
        );
    }

    #[test]
    fn types_and_resources_are_known() {
        assert_eq!(
            check(object! { "type": "PersistentVolumeClaim" }),
            [
                "spec.limits[0].limits: Required value: either minimum or maximum storage value is required, but neither \
              was provided"
            ]
        );
        assert_eq!(
            check(object! { "type": "Node", "max": object! { "x": "1" } }),
            [
                "spec.limits[0].type: Invalid value: \"Node\": must be a standard limit type or fully qualified",
                "spec.limits[0].max[x]: Invalid value: \"x\": must be a standard resource type or fully qualified",
            ]
        );
        let item = object! {
            "type": "Container", "default": object! { "a.b/c": "1" }, "defaultRequest": object! { "a.b/c": "2" },
        };
        assert_eq!(check(item).len(), 2);
    }
}
