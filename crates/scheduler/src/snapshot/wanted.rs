//! Terms of node selectors, compared with nodes by symbols.

use smallvec::SmallVec;

use super::{Node, Symbol, Symbols};
use crate::view::{Operator, Requirement, Term};

pub const NAME_FIELD: &str = "metadata.name";

/// A term in symbols.
pub struct Wanted<'a> {
    labels: SmallVec<[WantedLabel; 2]>,
    fields: &'a [Requirement],
}

struct WantedLabel {
    /// None: no node has such a label.
    key: Option<Symbol>,
    operator: Operator,
    /// Those that some node has.
    values: SmallVec<[Symbol; 2]>,
    number: Option<i64>,
}

impl<'a> Wanted<'a> {
    pub fn of(term: &'a Term, symbols: &Symbols) -> Wanted<'a> {
        let labels = term.labels.iter().map(|one| WantedLabel {
            key: symbols.find(&one.key),
            operator: one.operator,
            values: one.values.iter().filter_map(|value| symbols.find(value)).collect(),
            number: one.number(),
        });
        Wanted { labels: labels.collect(), fields: &term.fields }
    }

    pub fn matches(&self, node: &Node, symbols: &Symbols) -> bool {
        self.labels.iter().all(|label| label.matches(node, symbols))
            && self.fields.iter().all(|field| is_field_match(field, &node.details.name))
    }

    /// Whether the labels alone will do: as upstream asks for volumes, to which a node has no name.
    pub fn matches_labels(&self, node: &Node, symbols: &Symbols) -> bool {
        self.labels.iter().all(|label| label.matches(node, symbols))
            && self.fields.iter().all(|field| is_field_match(field, ""))
    }
}

impl WantedLabel {
    fn matches(&self, node: &Node, symbols: &Symbols) -> bool {
        let value = self.key.and_then(|key| node.label(key));
        match self.operator {
            Operator::In => value.is_some_and(|value| self.values.contains(&value)),
            Operator::NotIn => value.is_none_or(|value| !self.values.contains(&value)),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::GreaterThan | Operator::LessThan => {
                value.is_some_and(|value| self.operator.is_beyond(symbols.text(value), self.number))
            }
        }
    }
}

/// The only field is the name; others read as empty.
pub fn is_field_match(field: &Requirement, name: &str) -> bool {
    let value = if field.key == NAME_FIELD { name } else { "" };
    match (field.operator, field.values.as_slice()) {
        (Operator::In, [wanted]) => wanted == value,
        (Operator::NotIn, [unwanted]) => unwanted != value,
        _ => false,
    }
}
