//! A pod's node selector and node affinity.

use std::collections::BTreeSet;

use rkube_machinery::Text;
use smallvec::SmallVec;

use super::{ClusterEvent, Cycle, Filter, Filtering, Kinds, Plugin, Reason, Reasons, Scale, Score, Verdict};
use crate::snapshot::{NAME_FIELD, Node, Symbol, Symbols, Wanted, is_field_match};
use crate::view::{self, Operator, Pending, Pod, Requirement, Term};

pub struct NodeAffinity;

impl Plugin for NodeAffinity {
    fn name(&self) -> &'static str {
        "NodeAffinity"
    }

    fn filter<'a>(&self, cycle: &Cycle<'a>) -> Filtering<'a> {
        let Pending { node_selector, affinity, .. } = cycle.pending;
        if node_selector.is_empty() && affinity.required.is_none() {
            return Filtering::Skip;
        }
        let symbols = cycle.snapshot.symbols();
        let terms =
            affinity.required.as_ref().map(|terms| terms.iter().map(|term| Wanted::of(term, symbols)).collect());
        let selector = node_selector.iter().map(|(key, value)| Some((symbols.find(key)?, symbols.find(value)?)));
        let filter = Box::new(Required { selector: selector.collect(), terms, symbols });
        match affinity.required.as_deref().and_then(named_nodes) {
            None => Filtering::Each(filter),
            Some(names) if names.is_empty() => Filtering::Nowhere("pod affinity terms conflict".into()),
            Some(names) => Filtering::Only(names.into_iter().collect(), filter),
        }
    }

    fn weight(&self) -> i64 {
        2
    }

    fn score<'a>(&self, cycle: &Cycle<'a>) -> Option<Box<dyn Score + 'a>> {
        let preferred = &cycle.pending.affinity.preferred;
        if preferred.is_empty() {
            return None;
        }
        let symbols = cycle.snapshot.symbols();
        let terms = preferred.iter().map(|one| (one.weight, Wanted::of(&one.term, symbols))).collect();
        Some(Box::new(Preferred { terms, symbols }))
    }

    fn interest(&self) -> Kinds {
        Kinds::NODE_ADDED.or(Kinds::NODE_LABELS)
    }

    fn is_helped(&self, pod: &Pod, event: &ClusterEvent<'_>) -> bool {
        let Some(pending) = &pod.pending else { return true };
        match event {
            ClusterEvent::NodeAdded(node) => is_match(pending, node),
            ClusterEvent::NodeUpdated { old, new } => is_match(pending, new) && !is_match(pending, old),
            _ => false,
        }
    }
}

/// The nodes that are named by every term; None if one names none.
fn named_nodes(terms: &[Term]) -> Option<BTreeSet<Text>> {
    if terms.is_empty() {
        return None;
    }
    let mut all = BTreeSet::new();
    for term in terms {
        let mut named = term.fields.iter().filter(|one| one.key == NAME_FIELD && one.operator == Operator::In);
        let mut of_term: BTreeSet<Text> = named.next()?.values.iter().cloned().collect();
        named.for_each(|one| of_term.retain(|name| one.values.contains(name)));
        all.append(&mut of_term);
    }
    Some(all)
}

struct Required<'a> {
    /// None if no node has one of the labels.
    selector: Option<SmallVec<[(Symbol, Symbol); 4]>>,
    terms: Option<Vec<Wanted<'a>>>,
    symbols: &'a Symbols,
}

impl Filter for Required<'_> {
    fn check(&self, node: &Node, reasons: &mut Reasons) -> Verdict {
        let is_selected =
            self.selector.as_ref().is_some_and(|all| all.iter().all(|(key, value)| node.label(*key) == Some(*value)));
        let matches = |terms: &Vec<Wanted<'_>>| terms.iter().any(|term| term.matches(node, self.symbols));
        if is_selected && self.terms.as_ref().is_none_or(matches) {
            return Verdict::Fits;
        }
        reasons.push(Reason::Text("node(s) didn't match Pod's node affinity/selector"));
        Verdict::Unresolvable
    }
}

struct Preferred<'a> {
    terms: Vec<(i64, Wanted<'a>)>,
    symbols: &'a Symbols,
}

impl Score for Preferred<'_> {
    fn score(&self, node: &Node) -> i64 {
        self.terms.iter().filter(|(_, term)| term.matches(node, self.symbols)).map(|(weight, _)| weight).sum()
    }

    fn scale(&self) -> Scale {
        Scale::ByHighest
    }
}

/// The same of a node that is not in the snapshot, or as it was before.
fn is_match(pending: &Pending, node: &view::Node) -> bool {
    let is_selected = pending.node_selector.iter().all(|(key, value)| node.label(key) == Some(value));
    let label = |one: &Requirement| one.matches(node.label(&one.key).map(Text::as_str));
    let matches = |term: &Term| {
        term.labels.iter().all(label) && term.fields.iter().all(|field| is_field_match(field, &node.name))
    };
    is_selected && pending.affinity.required.as_ref().is_none_or(|terms| terms.iter().any(matches))
}
