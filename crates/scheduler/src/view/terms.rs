//! What is asked of labels: by pods of nodes, by volumes of nodes, by claims of volumes.

use std::borrow::Cow;

use rkube_machinery::Text;
use serde::Deserialize;

use super::json::{Word, Words};

/// It matches what meets all requirements.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Term {
    pub labels: Vec<Requirement>,
    pub fields: Vec<Requirement>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    pub key: Text,
    pub operator: Operator,
    pub values: Vec<Text>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
    GreaterThan,
    LessThan,
}

impl Requirement {
    pub fn any_of(key: Text, values: Vec<Text>) -> Requirement {
        Requirement { key, operator: Operator::In, values }
    }

    /// Whether a label that is missing or has this value will do.
    pub fn matches(&self, value: Option<&str>) -> bool {
        let is_listed = |value: &str| self.values.iter().any(|known| known == value);
        match self.operator {
            Operator::In => value.is_some_and(is_listed),
            Operator::NotIn => value.is_none_or(|value| !is_listed(value)),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::GreaterThan | Operator::LessThan => {
                value.is_some_and(|value| self.operator.is_beyond(value, self.number()))
            }
        }
    }

    /// What values are compared with, where that is a number.
    pub fn number(&self) -> Option<i64> {
        self.values.first().and_then(|value| value.parse().ok())
    }
}

impl Operator {
    pub fn is_beyond(self, value: &str, bound: Option<i64>) -> bool {
        let (Ok(value), Some(bound)) = (value.parse::<i64>(), bound) else { return false };
        if self == Operator::GreaterThan { value > bound } else { value < bound }
    }
}

/// A `NodeSelector`.
#[derive(Deserialize)]
pub(super) struct SelectorJson<'a> {
    #[serde(borrow, default, rename = "nodeSelectorTerms")]
    terms: Vec<TermJson<'a>>,
}

impl SelectorJson<'_> {
    /// A term that asks for nothing matches nothing, and so does one that cannot be read.
    pub fn read(&self) -> Vec<Term> {
        self.terms.iter().filter(|term| !term.is_empty()).filter_map(TermJson::read).collect()
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TermJson<'a> {
    #[serde(borrow, default)]
    match_expressions: Vec<RequirementJson<'a>>,
    #[serde(borrow, default)]
    match_fields: Vec<RequirementJson<'a>>,
}

impl TermJson<'_> {
    pub fn is_empty(&self) -> bool {
        self.match_expressions.is_empty() && self.match_fields.is_empty()
    }

    /// None if one of the operators is unknown.
    pub fn read(&self) -> Option<Term> {
        Some(Term { labels: requirements(&self.match_expressions)?, fields: requirements(&self.match_fields)? })
    }
}

/// A `LabelSelector`; one that asks for nothing matches everything.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct LabelSelectorJson<'a> {
    #[serde(default)]
    match_labels: Words,
    #[serde(borrow, default)]
    match_expressions: Vec<RequirementJson<'a>>,
}

impl LabelSelectorJson<'_> {
    /// None if one of the operators is unknown.
    pub fn read(&self) -> Option<Term> {
        let exact = self.match_labels.0.iter();
        let mut labels: Vec<_> =
            exact.map(|(key, value)| Requirement::any_of(key.clone(), vec![value.clone()])).collect();
        labels.append(&mut requirements(&self.match_expressions)?);
        Some(Term { labels, fields: Vec::new() })
    }
}

fn requirements(all: &[RequirementJson<'_>]) -> Option<Vec<Requirement>> {
    all.iter().map(RequirementJson::read).collect()
}

#[derive(Deserialize)]
pub(super) struct RequirementJson<'a> {
    key: Word,
    #[serde(borrow)]
    operator: Cow<'a, str>,
    #[serde(default)]
    values: Vec<Word>,
}

impl RequirementJson<'_> {
    fn read(&self) -> Option<Requirement> {
        let operator = match self.operator.as_ref() {
            "In" => Operator::In,
            "NotIn" => Operator::NotIn,
            "Exists" => Operator::Exists,
            "DoesNotExist" => Operator::DoesNotExist,
            "Gt" => Operator::GreaterThan,
            "Lt" => Operator::LessThan,
            _ => return None,
        };
        let values = self.values.iter().map(|value| value.0.clone()).collect();
        Some(Requirement { key: self.key.0.clone(), operator, values })
    }
}
