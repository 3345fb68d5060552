//! One pod finds its node: filters, then scores, then the best. Nothing is allocated per node.
//!
//! With many nodes only a part of them is looked at, as upstream does: the search goes on where it stopped the last time,
//! until enough nodes were found that will do.

use rkube_machinery::Text;

use crate::diagnosis::Diagnosis;
use crate::plugins::{Cycle, Filtering, Filters, PLUGINS, PluginSet, SCORE_MAX, Scale, Score, Verdict};
use crate::preemption;
use crate::snapshot::{Node, NodeIndex, Snapshot};
use crate::view::Pod;

/// Of up to so many nodes all are looked at, and of more at least so many that will do are found.
const FEASIBLE_MIN: usize = 100;
/// And at least so many of a hundred.
const PERCENTAGE_MIN: usize = 5;

/// What upstream's plugin for claims says of a pod that was refused before its turn came: the state that it looks for is
/// not there.
const NOTHING_PREPARED: &str = "not found";

/// What one cycle comes to.
#[derive(Debug, PartialEq, Eq)]
pub enum Decision {
    Place(NodeIndex),
    Refuse(Refusal),
}

/// Why a pod cannot be placed now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub message: String,
    /// Who refused it, and so what it waits for.
    pub plugins: PluginSet,
}

/// Places pods one by one, and remembers where it was.
pub struct Placer {
    /// How many of a hundred nodes have to be found; 0: fewer of many, as upstream.
    percentage: usize,
    next_start: usize,
    random: Random,
    feasible: Vec<NodeIndex>,
    totals: Vec<i64>,
    scores: Vec<i64>,
    diagnosis: Diagnosis,
}

impl Placer {
    pub fn new(percentage: usize, seed: u64) -> Placer {
        Placer {
            percentage,
            next_start: 0,
            random: Random(seed),
            feasible: Vec::new(),
            totals: Vec::new(),
            scores: Vec::new(),
            diagnosis: Diagnosis::default(),
        }
    }

    pub fn place(&mut self, pod: &Pod, snapshot: &mut Snapshot) -> Decision {
        let count = snapshot.order().len();
        let Some(pending) = &pod.pending else {
            return Decision::Refuse(Refusal { message: "the pod has a node".to_owned(), plugins: PluginSet::NONE });
        };
        if count == 0 {
            let message = "no nodes available to schedule pods".to_owned();
            return Decision::Refuse(Refusal { message, plugins: PluginSet::NO_NODES });
        }
        let cycle = Cycle { pod, pending, snapshot };
        self.diagnosis.clear(count);
        let mut filters: Filters<'_> = Vec::with_capacity(PLUGINS.len());
        let mut named: Option<Vec<Text>> = None;
        for (place, plugin) in PLUGINS.iter().enumerate() {
            match plugin.filter(&cycle) {
                Filtering::Skip => {}
                Filtering::Each(filter) => filters.push((place, filter)),
                Filtering::Only(names, filter) => {
                    filters.push((place, filter));
                    self.diagnosis.only_by(place, plugin.name());
                    match &mut named {
                        Some(known) => known.retain(|name| names.contains(name)),
                        None => named = Some(names),
                    }
                }
                Filtering::Nowhere(reason) => {
                    self.diagnosis.nowhere(place, reason);
                    return self.refuse(Some(NOTHING_PREPARED));
                }
            }
        }
        self.find_feasible(&cycle, &filters, named.as_deref());
        match *self.feasible {
            [] => self.refuse(preemption::outlook(&cycle, &filters, self.diagnosis.resolvable()).as_deref()),
            [only] => Decision::Place(only),
            _ => Decision::Place(self.best(&cycle)),
        }
    }

    /// Fills `feasible`; of the nodes that will not do, why.
    fn find_feasible(&mut self, cycle: &Cycle<'_>, filters: &Filters<'_>, named: Option<&[Text]>) {
        self.feasible.clear();
        let snapshot = cycle.snapshot;
        if let Some(nominated) = snapshot.find(&cycle.pending.nominated_node) {
            self.examine(nominated, snapshot.node(nominated), filters);
            if !self.feasible.is_empty() {
                return;
            }
            self.diagnosis.forget_nodes();
        }
        if let Some(names) = named {
            for index in names.iter().filter_map(|name| snapshot.find(name)) {
                self.examine(index, snapshot.node(index), filters);
            }
            return;
        }
        let order = snapshot.ordered();
        let enough = feasible_enough(order.len(), self.percentage);
        let start = self.next_start % order.len();
        let mut looked_at = 0;
        for index in order[start..].iter().chain(&order[..start]) {
            looked_at += 1;
            self.examine(*index, snapshot.node(*index), filters);
            if self.feasible.len() >= enough {
                break;
            }
        }
        self.next_start = (start + looked_at) % order.len();
    }

    fn examine(&mut self, index: NodeIndex, node: &Node, filters: &Filters<'_>) {
        for (place, filter) in filters {
            let verdict = filter.check(node, self.diagnosis.reasons());
            if verdict != Verdict::Fits {
                self.diagnosis.refused(index, *place, verdict);
                return;
            }
        }
        self.feasible.push(index);
    }

    /// `outlook`: what was found out about what could be done.
    fn refuse(&self, outlook: Option<&str>) -> Decision {
        let message = self.diagnosis.message(outlook);
        Decision::Refuse(Refusal { message, plugins: self.diagnosis.plugins() })
    }

    /// Of nodes with the same score one is taken by chance.
    fn best(&mut self, cycle: &Cycle<'_>) -> NodeIndex {
        self.totals.clear();
        self.totals.resize(self.feasible.len(), 0);
        for plugin in PLUGINS {
            if let Some(score) = plugin.score(cycle) {
                self.add_scores(cycle.snapshot, &*score, plugin.weight());
            }
        }
        let (mut best, mut ties) = (0, 1);
        for (place, total) in self.totals.iter().enumerate().skip(1) {
            if *total > self.totals[best] {
                (best, ties) = (place, 1);
            } else if *total == self.totals[best] {
                ties += 1;
                if self.random.below(ties) == 0 {
                    best = place;
                }
            }
        }
        self.feasible[best]
    }

    fn add_scores(&mut self, snapshot: &Snapshot, score: &dyn Score, weight: i64) {
        let scale = score.scale();
        let nodes = self.feasible.iter().map(|index| snapshot.node(*index));
        if scale == Scale::AsIs {
            self.totals.iter_mut().zip(nodes).for_each(|(total, node)| *total += weight * score.score(node));
            return;
        }
        self.scores.clear();
        self.scores.extend(nodes.map(|node| score.score(node)));
        let highest = self.scores.iter().copied().max().unwrap_or(0);
        for (total, score) in self.totals.iter_mut().zip(&self.scores) {
            let scaled = if highest == 0 { 0 } else { SCORE_MAX * score / highest };
            *total += weight * if scale == Scale::Reversed { SCORE_MAX - scaled } else { scaled };
        }
    }
}

/// After how many nodes that will do no more are looked for.
fn feasible_enough(nodes: usize, percentage: usize) -> usize {
    if nodes < FEASIBLE_MIN {
        return nodes;
    }
    let percentage = match percentage {
        0 => 50_usize.saturating_sub(nodes / 125).max(PERCENTAGE_MIN),
        given => given,
    };
    (nodes * percentage / 100).max(FEASIBLE_MIN)
}

/// A small generator (splitmix64): which of equal nodes is taken need not be unforeseeable, only even.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        // A product instead of a remainder: it is drawn for every one of many equal nodes.
        ((u128::from(mixed ^ mixed >> 31) * u128::from(bound)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fewer_of_many_nodes_are_enough() {
        let table = [(3, 3), (99, 99), (100, 100), (200, 100), (1000, 420), (5000, 500), (10_000, 500)];
        for (nodes, enough) in table {
            assert_eq!(feasible_enough(nodes, 0), enough, "{nodes}");
        }
        assert_eq!(feasible_enough(1000, 100), 1000);
    }
}
