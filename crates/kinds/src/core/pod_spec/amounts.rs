//! Amounts of resources.
//!
//! Their texts are canonical when they get here, so most questions are answered by looking at the text.

use rkube_machinery::Value;
use rkube_machinery::quantity::Quantity;

/// The amount; zero where there is none.
pub(crate) fn of(value: &Value) -> Quantity {
    Quantity::parse(value.as_str()).unwrap_or(Quantity::ZERO)
}

pub(crate) fn is_negative(value: &Value) -> bool {
    value.as_str().starts_with('-')
}

pub(crate) fn is_positive(value: &Value) -> bool {
    !matches!(value.as_str(), "" | "0") && !is_negative(value)
}

/// Amounts finer than a thousandth are rounded up to one.
pub(crate) fn round_up_list(parent: &mut Value, field: &str) {
    let Some(Value::Object(list)) = parent.find_mut(field) else { return };
    for (_, amount) in list.iter_mut() {
        let text = amount.as_str();
        if text.ends_with(['n', 'u']) || text.contains("e-") {
            let exact = of(amount);
            *amount = Value::from(Quantity::from_milli(exact.milli_value(), exact.format()).to_string());
        }
    }
}

pub(crate) fn is_huge_page(resource: &str) -> bool {
    resource.starts_with("hugepages-")
}

/// Whether the amount is made of whole pages of the size that the resource's name says.
pub(crate) fn divides(resource: &str, amount: &Value) -> bool {
    let Some(size) = resource.strip_prefix("hugepages-").and_then(|size| Quantity::parse(size).ok()) else {
        return false;
    };
    let bytes = size.value();
    bytes > 0 && size.milli_value() % 1000 == 0 && of(amount).value() % bytes == 0
}

/// Whether the amount is a whole number. What does not fit into 64 bits of thousandths counts as one.
pub(crate) fn is_whole(amount: &Value) -> bool {
    let text = amount.as_str();
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return true;
    }
    let thousandths = of(amount).milli_value();
    matches!(thousandths, i64::MAX | i64::MIN) || thousandths % 1000 == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_amounts() {
        let table = [("1", true), ("1500m", false), ("2000m", true), ("1e30", true), ("1Ki", true), ("0.5", false)];
        for (text, want) in table {
            assert_eq!(is_whole(&Value::from(text)), want, "{text}");
        }
    }
}
