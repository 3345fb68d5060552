//! Label selectors: `app=web,tier in (front,back),!canary`.
//!
//! A selector is the conjunction of its requirements, kept sorted by key. [`Selector::nothing`] matches no object at
//! all; it is what an absent selector in a spec means, whereas an empty one matches everything.

use std::fmt;

use super::{parser, syntax};
use crate::field::{BadValue, Errors, Path, quote};
use crate::json;
use crate::value::{Map, Text, Value};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    requirements: Vec<Requirement>,
    nothing: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    key: Text,
    operator: Operator,
    values: Vec<Text>,
    /// The value as a number, where the operator compares numbers.
    bound: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operator {
    In,
    NotIn,
    Equals,
    DoubleEquals,
    NotEquals,
    GreaterThan,
    LessThan,
    Exists,
    DoesNotExist,
}

/// Why a text or an object is not a selector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    #[error("{0}")]
    Syntax(String),
    #[error("{}", .0.summary())]
    Requirement(Errors),
    #[error("{} is not a valid label selector operator", quote(.0))]
    Operator(String),
}

impl Selector {
    /// The selector that matches every object.
    pub const fn everything() -> Self {
        Selector { requirements: Vec::new(), nothing: false }
    }

    /// The selector that matches no object.
    pub const fn nothing() -> Self {
        Selector { requirements: Vec::new(), nothing: true }
    }

    /// Reads the text form; an empty text matches everything.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        parser::parse(text).map(Selector::from_requirements)
    }

    pub fn from_requirements(mut requirements: Vec<Requirement>) -> Self {
        requirements.sort_by(|left, right| left.key.cmp(&right.key));
        Selector { requirements, nothing: false }
    }

    /// The selector that asks for exactly these labels (as in a Service's spec); nothing is checked.
    pub fn from_labels(labels: &Map) -> Self {
        let exact = labels.iter().map(|(key, value)| Requirement::exact(key.clone(), Text::new(value.as_str())));
        Selector::from_requirements(exact.collect())
    }

    /// Reads a `LabelSelector` object. Null selects nothing, an empty object everything.
    pub fn from_label_selector(selector: &Value) -> Result<Self, ParseError> {
        if selector.is_null() {
            return Ok(Selector::nothing());
        }
        let mut requirements = Vec::new();
        for (key, value) in selector.map("matchLabels").iter() {
            requirements.push(Requirement::new(key, Operator::Equals, vec![Text::new(value.as_str())])?);
        }
        for expression in selector.list("matchExpressions") {
            let operator = match expression.str("operator") {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                other => return Err(ParseError::Operator(other.to_owned())),
            };
            let values = expression.list("values").iter().map(|value| Text::new(value.as_str())).collect();
            requirements.push(Requirement::new(expression.str("key"), operator, values)?);
        }
        Ok(Selector::from_requirements(requirements))
    }

    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }

    /// Whether every object matches.
    pub fn is_everything(&self) -> bool {
        !self.nothing && self.requirements.is_empty()
    }

    /// Whether this is [`Selector::nothing`].
    pub fn is_nothing(&self) -> bool {
        self.nothing
    }

    /// Whether an object with these labels is selected.
    pub fn matches(&self, labels: &Map) -> bool {
        self.matches_pairs(|key| labels.get(key).map(Value::as_str))
    }

    /// As [`Selector::matches`], with the labels looked up by `label`.
    pub fn matches_pairs<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        !self.nothing && self.requirements.iter().all(|requirement| requirement.matches(label(&requirement.key)))
    }

    /// The one value that the label must have, where the selector asks for one.
    pub fn exact(&self, key: &str) -> Option<&str> {
        self.requirements.iter().find(|requirement| requirement.key == key)?.only_value()
    }
}

impl Requirement {
    /// A requirement whose key, operator and values go together.
    pub fn new(key: &str, operator: Operator, values: Vec<Text>) -> Result<Self, ParseError> {
        let mut errors = Errors::new();
        check_key(key, Path::new("key"), &mut errors);
        let path = Path::new("values");
        let complaint = match operator {
            Operator::In | Operator::NotIn if values.is_empty() => {
                "for 'in', 'notin' operators, values set can't be empty"
            }
            Operator::Equals | Operator::DoubleEquals | Operator::NotEquals if values.len() != 1 => {
                "exact-match compatibility requires one single value"
            }
            Operator::Exists | Operator::DoesNotExist if !values.is_empty() => {
                "values set must be empty for exists and does not exist"
            }
            Operator::GreaterThan | Operator::LessThan if values.len() != 1 => {
                "for 'Gt', 'Lt' operators, exactly one value is required"
            }
            _ => "",
        };
        if !complaint.is_empty() {
            errors.invalid(path, BadValue::Text(list_text(&values)), complaint);
        }
        let mut bound = 0;
        if matches!(operator, Operator::GreaterThan | Operator::LessThan) {
            for (index, value) in values.iter().enumerate() {
                match value.parse() {
                    Ok(number) => bound = number,
                    Err(_) => errors.invalid(
                        path.index(index),
                        value.as_str(),
                        "for 'Gt', 'Lt' operators, the value must be an integer",
                    ),
                }
            }
        }
        for (index, value) in values.iter().enumerate() {
            let wrong = syntax::label_value_errors(value);
            if !wrong.is_empty() {
                errors.invalid(path.index(index).key(key), value.as_str(), wrong.join("; "));
            }
        }
        if errors.is_empty() {
            Ok(Requirement { key: Text::new(key), operator, values, bound })
        } else {
            Err(ParseError::Requirement(errors))
        }
    }

    fn exact(key: Text, value: Text) -> Self {
        Requirement { key, operator: Operator::Equals, values: vec![value], bound: 0 }
    }

    /// The one value that the label must have, if it asks for one.
    pub fn only_value(&self) -> Option<&str> {
        match (self.operator, self.values.as_slice()) {
            (Operator::Equals | Operator::DoubleEquals | Operator::In, [value]) => Some(value),
            _ => None,
        }
    }

    pub fn key(&self) -> &str {
        &self.key
    }

    pub fn operator(&self) -> Operator {
        self.operator
    }

    pub fn values(&self) -> &[Text] {
        &self.values
    }

    /// Whether the label, absent or of this value, is as required.
    pub fn matches(&self, label: Option<&str>) -> bool {
        let listed = |value: &str| self.values.iter().any(|candidate| candidate == value);
        let number = || label.and_then(|value| value.parse::<i64>().ok());
        match self.operator {
            Operator::In | Operator::Equals | Operator::DoubleEquals => label.is_some_and(listed),
            Operator::NotIn | Operator::NotEquals => !label.is_some_and(listed),
            Operator::Exists => label.is_some(),
            Operator::DoesNotExist => label.is_none(),
            Operator::GreaterThan => number().is_some_and(|number| number > self.bound),
            Operator::LessThan => number().is_some_and(|number| number < self.bound),
        }
    }
}

/// Notes what is wrong with a label's key.
pub(super) fn check_key(key: &str, path: Path<'_>, errors: &mut Errors) {
    let wrong = syntax::label_key_errors(key);
    if !wrong.is_empty() {
        errors.invalid(path, key, wrong.join("; "));
    }
}

/// The list as an error message shows it; an absent one reads as null.
fn list_text(values: &[Text]) -> String {
    if values.is_empty() {
        return "null".to_owned();
    }
    json::to_string(&Value::Array(values.iter().cloned().map(Value::from).collect()))
}

impl fmt::Display for Selector {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements.iter().enumerate() {
            if index > 0 {
                formatter.write_str(",")?;
            }
            requirement.fmt(formatter)?;
        }
        Ok(())
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut sorted: Vec<&str> = self.values.iter().map(Text::as_str).collect();
        sorted.sort_unstable();
        let values = sorted.join(",");
        let key = &self.key;
        match self.operator {
            Operator::In => write!(formatter, "{key} in ({values})"),
            Operator::NotIn => write!(formatter, "{key} notin ({values})"),
            Operator::Equals => write!(formatter, "{key}={values}"),
            Operator::DoubleEquals => write!(formatter, "{key}=={values}"),
            Operator::NotEquals => write!(formatter, "{key}!={values}"),
            Operator::GreaterThan => write!(formatter, "{key}>{values}"),
            Operator::LessThan => write!(formatter, "{key}<{values}"),
            Operator::Exists => write!(formatter, "{key}"),
            Operator::DoesNotExist => write!(formatter, "!{key}"),
        }
    }
}

#[cfg(test)]
#[path = "labels_tests.rs"]
mod tests;
