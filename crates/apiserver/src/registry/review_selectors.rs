//! The selectors that a review of access speaks of. What cannot be read is left out, and the answer says so.

use rkube_machinery::Value;
use rkube_machinery::selector::{fields, labels};

/// What is said about selectors that were left out, whole or in part; nothing where all could be read.
pub fn complaint(resource: &Value) -> String {
    let field = Reading::of(resource.get("fieldSelector"), fields_parse, field_holds);
    let label = Reading::of(resource.get("labelSelector"), labels_parse, label_holds);
    let complaints = [("fieldSelector", field), ("labelSelector", label)];
    let complaints = complaints.iter().filter_map(|(name, reading)| {
        let how = match reading {
            Reading::Whole => return None,
            Reading::Part => "partially ignored",
            Reading::Nothing => "ignored",
        };
        Some(format!("spec.resourceAttributes.{name} {how} due to parse error"))
    });
    complaints.collect::<Vec<_>>().join("; ")
}

/// The field selector that is asked about, as far as it could be read.
pub fn field_selector(resource: &Value) -> String {
    let selector = resource.get("fieldSelector");
    let requirements = selector.list("requirements");
    if requirements.is_empty() {
        return selector.str("rawSelector").to_owned();
    }
    let escape = |text: &str| text.replace('\\', "\\\\").replace(',', "\\,").replace('=', "\\=");
    let terms = requirements.iter().filter(|requirement| field_holds(requirement)).map(|requirement| {
        let operator = if requirement.str("operator") == "In" { "=" } else { "!=" };
        let value = requirement.list("values").first().map(Value::as_str).unwrap_or_default();
        format!("{}{operator}{}", requirement.str("key"), escape(value))
    });
    terms.collect::<Vec<_>>().join(",")
}

/// How much of a selector could be read.
enum Reading {
    Whole,
    Part,
    Nothing,
}

impl Reading {
    fn of(selector: &Value, parses: fn(&str) -> bool, holds: fn(&Value) -> bool) -> Reading {
        let requirements = selector.list("requirements");
        if requirements.is_empty() {
            let raw = selector.str("rawSelector");
            return if raw.is_empty() || parses(raw) { Reading::Whole } else { Reading::Nothing };
        }
        match requirements.iter().filter(|requirement| holds(requirement)).count() {
            0 => Reading::Nothing,
            count if count == requirements.len() => Reading::Whole,
            _ => Reading::Part,
        }
    }
}

fn fields_parse(text: &str) -> bool {
    fields::Selector::parse(text).is_ok()
}

fn labels_parse(text: &str) -> bool {
    labels::Selector::parse(text).is_ok()
}

/// Fields are compared with one value.
fn field_holds(requirement: &Value) -> bool {
    matches!(requirement.str("operator"), "In" | "NotIn") && requirement.list("values").len() == 1
}

/// Keys and values are right: the review's rules have looked at them.
fn label_holds(requirement: &Value) -> bool {
    matches!(requirement.str("operator"), "In" | "NotIn" | "Exists" | "DoesNotExist")
}

#[cfg(test)]
mod tests {
    use rkube_machinery::object;

    use super::*;

    #[test]
    fn requirements_are_written_as_selectors() {
        let requirement = |key: &str, operator: &str, value: &str| {
            object! { "key": key, "operator": operator, "values": vec![Value::from(value)] }
        };
        let all = vec![requirement("a", "In", "b,c"), requirement("d", "NotIn", "e"), requirement("f", "Exists", "g")];
        let resource = object! { "fieldSelector": object! { "requirements": all } };
        assert_eq!(field_selector(&resource), "a=b\\,c,d!=e");
        let resource = object! { "fieldSelector": object! { "rawSelector": "a=b" } };
        assert_eq!((field_selector(&resource).as_str(), field_selector(&Value::Null).as_str()), ("a=b", ""));
    }

    #[test]
    fn what_is_left_out_is_told() {
        let requirement = |operator: &str| {
            object! { "key": "a", "operator": operator, "values": vec![Value::from("b")] }
        };
        let requirements = |operators: &[&str]| {
            let list: Vec<Value> = operators.iter().map(|operator| requirement(operator)).collect();
            object! { "requirements": list }
        };
        let raw = |text: &str| object! { "rawSelector": text };
        let table = [
            (Value::Null, Value::Null, ""),
            (requirements(&["In"]), raw("a in (b)"), ""),
            (
                requirements(&["Exists"]),
                Value::Null,
                "spec.resourceAttributes.fieldSelector ignored due to parse error",
            ),
            (
                Value::Null,
                requirements(&["In", "Near"]),
                "spec.resourceAttributes.labelSelector partially ignored due to parse error",
            ),
            (
                raw("a!b"),
                raw("a in (b"),
                "spec.resourceAttributes.fieldSelector ignored due to parse error; \
                 spec.resourceAttributes.labelSelector ignored due to parse error",
            ),
        ];
        for (fields, labels, want) in table {
            let resource = object! { "fieldSelector": fields, "labelSelector": labels };
            assert_eq!(complaint(&resource), want);
        }
    }
}
