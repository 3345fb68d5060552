//! How much of something a device has, and in which amounts claims may take it.

use std::collections::BTreeSet;

use rkube_machinery::Value;
use rkube_machinery::field::{Errors, Path};
use rkube_machinery::quantity::Quantity;

use crate::core::pod_spec::amounts;

const VALUES_MAX: usize = 10;

/// Of a device that one claim has alone.
pub(super) fn validate_exclusive(path: Path<'_>, capacity: &Value, errors: &mut Errors) {
    if capacity.has("requestPolicy") {
        errors.forbidden(path.child("requestPolicy"), "allowMultipleAllocations must be true");
    }
}

/// Of a device that claims share.
pub(super) fn validate_shared(path: Path<'_>, capacity: &Value, errors: &mut Errors) {
    let policy = capacity.get("requestPolicy");
    if policy.is_null() {
        return;
    }
    let path = path.child("requestPolicy");
    let listed = !policy.list("validValues").is_empty();
    if listed && policy.has("validRange") {
        let words = "exactly one policy can be specified, cannot specify \"validValues\" and \"validRange\" at the same \
                     time";
        return errors.forbidden(path, words);
    }
    let field = match (listed, policy.has("validRange")) {
        (true, _) => "validValues",
        (_, true) => "validRange",
        _ => return,
    };
    if !policy.has("default") {
        return errors.required(path.child("default"), format!("required when {field} is defined"));
    }
    let (most, default) = (Amount::of(capacity.get("value")), Amount::of(policy.get("default")));
    if listed {
        validate_values(path.child(field), policy.list(field), &default, &most, errors);
    } else {
        validate_range(path.child(field), policy.get(field), &default, &most, errors);
    }
}

/// An amount and how it is written.
struct Amount<'a> {
    text: &'a str,
    amount: Quantity,
}

impl Amount<'_> {
    fn of(value: &Value) -> Amount<'_> {
        let text = if value.is_null() { "0" } else { value.as_str() };
        Amount { text, amount: amounts::of(value) }
    }
}

fn validate_values(path: Path<'_>, values: &[Value], default: &Amount<'_>, most: &Amount<'_>, errors: &mut Errors) {
    let values: Vec<Amount<'_>> = values.iter().map(Amount::of).collect();
    for (index, pair) in values.windows(2).enumerate() {
        if pair[0].amount > pair[1].amount {
            errors.invalid(path.index(index + 1), pair[1].text, "values must be sorted in ascending order");
        }
    }
    let mut has_default = false;
    if values.len() > VALUES_MAX {
        errors.too_many(path, values.len(), VALUES_MAX);
    } else {
        for (index, value) in values.iter().enumerate() {
            if value.amount > most.amount {
                let words = format!("option is larger than capacity value: {}", most.text);
                errors.invalid(path.index(index), value.text, words);
            }
            has_default |= value.amount == default.amount;
        }
        let mut seen = BTreeSet::new();
        for (index, value) in values.iter().enumerate() {
            if !seen.insert(value.amount.value()) {
                errors.duplicate(path.index(index), value.amount.value().to_string());
            }
        }
    }
    if !has_default {
        errors.invalid(path, default.text, "default value is not valid according to the requestPolicy");
    }
}

fn validate_range(path: Path<'_>, range: &Value, default: &Amount<'_>, most: &Amount<'_>, errors: &mut Errors) {
    if !range.has("min") {
        return errors.required(path.child("min"), "required when validRange is defined");
    }
    let min = Amount::of(range.get("min"));
    if min.amount > most.amount {
        let words = format!("min is larger than capacity value: {}", most.text);
        errors.invalid(path.child("min"), min.text, words);
    }
    if default.amount < min.amount {
        errors.invalid(path.child("min"), default.text, format!("default is less than min: {}", min.text));
    }
    let max = range.has("max").then(|| Amount::of(range.get("max")));
    if let Some(max) = &max {
        let path = path.child("max");
        if min.amount > max.amount {
            errors.invalid(path, min.text, format!("min is larger than max: {}", max.text));
        }
        if max.amount > most.amount {
            errors.invalid(path, max.text, format!("max is larger than capacity value: {}", most.text));
        }
        if default.amount > max.amount {
            errors.invalid(path, default.text, format!("default is more than max: {}", max.text));
        }
    }
    if range.has("step") {
        let step = Amount::of(range.get("step"));
        let path = path.child("step");
        let next = min.amount.add(&step.amount);
        if next > most.amount {
            let words = format!("one step {next} is larger than capacity value: {}", most.text);
            errors.invalid(path, step.text, words);
        }
        for value in std::iter::once(default).chain(&max) {
            validate_step(path, value, &min, &step, errors);
        }
    }
}

/// The value is so many steps above the least one. Steps of nothing lead nowhere and are not looked at.
fn validate_step(path: Path<'_>, value: &Amount<'_>, min: &Amount<'_>, step: &Amount<'_>, errors: &mut Errors) {
    let above = value.amount.value().wrapping_sub(min.amount.value());
    if above.checked_rem(step.amount.value()).is_some_and(|rest| rest != 0) {
        let words = format!("value is not a multiple of a given step ({}) from ({})", step.text, min.text);
        errors.invalid(path, value.text, words);
    }
}

#[cfg(test)]
mod tests {
    use rkube_machinery::object;

    use super::*;

    fn texts(policy: Value) -> Vec<String> {
        let mut errors = Errors::new();
        validate_shared(Path::new("c"), &object! { "value": "10", "requestPolicy": policy }, &mut errors);
        errors.0.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn values() {
        let values = |values: &[&str]| values.iter().map(|value| Value::from(*value)).collect::<Vec<_>>();
        assert!(texts(object! { "default": "1", "validValues": values(&["1", "2"]) }).is_empty());
        assert_eq!(
            texts(object! { "default": "3", "validValues": values(&["2", "1", "11"]) }),
            [
                "c.requestPolicy.validValues[1]: Invalid value: \"1\": values must be sorted in ascending order",
                "c.requestPolicy.validValues[2]: Invalid value: \"11\": option is larger than capacity value: 10",
                "c.requestPolicy.validValues: Invalid value: \"3\": default value is not valid according to the \
                 requestPolicy",
            ]
        );
        assert_eq!(
            texts(object! { "validValues": values(&["1"]) }),
            ["c.requestPolicy.default: Required value: required when validValues is defined"]
        );
    }

    #[test]
    fn ranges() {
        let range = |step: &str| object! { "min": "2", "max": "8", "step": step };
        assert!(texts(object! { "default": "4", "validRange": range("2") }).is_empty());
        assert!(texts(object! { "default": "4", "validRange": range("0") }).is_empty());
        assert_eq!(
            texts(object! { "default": "3", "validRange": range("9") }),
            [
                "c.requestPolicy.validRange.step: Invalid value: \"9\": one step 11 is larger than capacity value: 10",
                "c.requestPolicy.validRange.step: Invalid value: \"3\": value is not a multiple of a given step (9) from \
                 (2)",
                "c.requestPolicy.validRange.step: Invalid value: \"8\": value is not a multiple of a given step (9) from \
                 (2)",
            ]
        );
    }
}
