//! Keeps pods away from nodes with taints that they do not tolerate, and prefers nodes with few taints that would rather
//! not have them.

use smallvec::SmallVec;

use super::{ClusterEvent, Cycle, Filter, Filtering, Kinds, Plugin, Reason, Reasons, Scale, Score, Verdict};
use crate::snapshot::{Node, Symbol, Symbols, Taint};
use crate::view::{self, Effect, Pod, Toleration, TolerationOperator};

pub type Tolerations = [Toleration];

pub struct TaintToleration;

impl Plugin for TaintToleration {
    fn name(&self) -> &'static str {
        "TaintToleration"
    }

    fn filter<'a>(&self, cycle: &Cycle<'a>) -> Filtering<'a> {
        if cycle.snapshot.counts().with_hard_taints == 0 {
            return Filtering::Skip;
        }
        Filtering::Each(Box::new(Tolerated::of(cycle, |_| true)))
    }

    fn weight(&self) -> i64 {
        3
    }

    fn score<'a>(&self, cycle: &Cycle<'a>) -> Option<Box<dyn Score + 'a>> {
        let soft = |effect: Option<Effect>| matches!(effect, None | Some(Effect::PreferNoSchedule));
        (cycle.snapshot.counts().with_soft_taints > 0).then(|| Box::new(Tolerated::of(cycle, soft)) as Box<dyn Score>)
    }

    fn interest(&self) -> Kinds {
        Kinds::NODE_ADDED.or(Kinds::NODE_TAINTS).or(Kinds::POD_TOLERATIONS)
    }

    fn is_helped(&self, pod: &Pod, event: &ClusterEvent<'_>) -> bool {
        let Some(pending) = &pod.pending else { return true };
        let is_kept_away = |node: &view::Node| {
            let hard = node.taints.iter().filter(|taint| taint.effect != Effect::PreferNoSchedule);
            let one = |taint: &view::Taint| {
                pending.tolerations.iter().any(|known| tolerates(known, &taint.key, &taint.value, taint.effect))
            };
            !hard.into_iter().all(one)
        };
        match event {
            ClusterEvent::NodeAdded(node) => !is_kept_away(node),
            ClusterEvent::NodeUpdated { old, new } => is_kept_away(old) && !is_kept_away(new),
            ClusterEvent::WaitingPodUpdated { new, .. } => new.uid == pod.uid,
            _ => false,
        }
    }
}

/// Whether a toleration covers a taint.
pub fn tolerates(toleration: &Toleration, key: &str, value: &str, effect: Effect) -> bool {
    let is_of_key = toleration.key.is_empty() || toleration.key == key;
    let is_of_effect = toleration.effect.is_none_or(|known| known == effect);
    is_of_key
        && is_of_effect
        && match toleration.operator {
            TolerationOperator::Exists => true,
            TolerationOperator::Equal => toleration.value == value,
            TolerationOperator::Other => false,
        }
}

/// The pod's tolerations in symbols; what no node knows is left out.
struct Tolerated(SmallVec<[Covers; 4]>);

struct Covers {
    key: Option<Symbol>,
    value: Option<Symbol>,
    effect: Option<Effect>,
}

impl Tolerated {
    fn of(cycle: &Cycle<'_>, is_wanted: fn(Option<Effect>) -> bool) -> Tolerated {
        let wanted = cycle.pending.tolerations.iter().filter(|toleration| is_wanted(toleration.effect));
        Tolerated(wanted.filter_map(|toleration| Covers::of(toleration, cycle.snapshot.symbols())).collect())
    }

    fn covers(&self, taint: &Taint) -> bool {
        self.0.iter().any(|covers| {
            covers.key.is_none_or(|key| key == taint.key)
                && covers.value.is_none_or(|value| value == taint.value)
                && covers.effect.is_none_or(|effect| effect == taint.effect)
        })
    }
}

impl Covers {
    fn of(toleration: &Toleration, symbols: &Symbols) -> Option<Covers> {
        let key = if toleration.key.is_empty() { None } else { Some(symbols.find(&toleration.key)?) };
        let value = match toleration.operator {
            TolerationOperator::Exists => None,
            TolerationOperator::Equal => Some(symbols.find(&toleration.value)?),
            TolerationOperator::Other => return None,
        };
        Some(Covers { key, value, effect: toleration.effect })
    }
}

impl Filter for Tolerated {
    fn check(&self, node: &Node, reasons: &mut Reasons) -> Verdict {
        let is_hard = |taint: &&Taint| taint.effect != Effect::PreferNoSchedule;
        if !node.has_hard_taints || node.details.taints.iter().filter(is_hard).all(|taint| self.covers(taint)) {
            return Verdict::Fits;
        }
        reasons.push(Reason::Text("node(s) had untolerated taint(s)"));
        Verdict::Unresolvable
    }
}

impl Score for Tolerated {
    /// How many taints would rather not have the pod.
    fn score(&self, node: &Node) -> i64 {
        if !node.has_soft_taints {
            return 0;
        }
        let is_soft = |taint: &&Taint| taint.effect == Effect::PreferNoSchedule;
        node.details.taints.iter().filter(is_soft).filter(|taint| !self.covers(taint)).count() as i64
    }

    fn scale(&self) -> Scale {
        Scale::Reversed
    }
}
