//! Keeps pods away from nodes that have not enough left, and prefers those that have most left.

use rkube_machinery::Text;

use super::{ClusterEvent, Cycle, Filter, Filtering, Kinds, Plugin, Reason, Reasons, SCORE_MAX, Score, Verdict};
use crate::snapshot::{Amount, Node};
use crate::view::{self, Pod, Resources};

pub struct NodeResourcesFit;

impl Plugin for NodeResourcesFit {
    fn name(&self) -> &'static str {
        "NodeResourcesFit"
    }

    fn filter<'a>(&self, cycle: &Cycle<'a>) -> Filtering<'a> {
        Filtering::Each(Box::new(Fit::of(cycle.pod)))
    }

    fn score<'a>(&self, cycle: &Cycle<'a>) -> Option<Box<dyn Score + 'a>> {
        let pod = cycle.pod;
        Some(Box::new(LeastAllocated { cpu_milli: pod.nominal_cpu_milli, memory: pod.nominal_memory }))
    }

    fn interest(&self) -> Kinds {
        Kinds::NODE_ADDED.or(Kinds::NODE_ALLOCATABLE).or(Kinds::POD_REMOVED).or(Kinds::POD_SCALED_DOWN)
    }

    fn is_helped(&self, pod: &Pod, event: &ClusterEvent<'_>) -> bool {
        match event {
            ClusterEvent::NodeAdded(node) => would_fit(pod, &node.allocatable),
            ClusterEvent::NodeUpdated { old, new } => would_fit(pod, &new.allocatable) && has_grown(pod, old, new),
            ClusterEvent::PodRemoved(_) => true,
            ClusterEvent::PodUpdated { old, new } => frees(pod, &old.requests, &new.requests),
            ClusterEvent::WaitingPodUpdated { new, .. } => new.uid == pod.uid,
            _ => false,
        }
    }
}

/// What the pod takes; a resource of which it takes none is not looked at.
struct Fit<'a> {
    cpu_milli: i64,
    memory: i64,
    ephemeral: i64,
    scalars: &'a [(Text, i64)],
}

impl<'a> Fit<'a> {
    fn of(pod: &'a Pod) -> Fit<'a> {
        let Resources { cpu_milli, memory, ephemeral, scalars, .. } = &pod.requests;
        Fit {
            cpu_milli: cpu_milli.unwrap_or(0),
            memory: memory.unwrap_or(0),
            ephemeral: ephemeral.unwrap_or(0),
            scalars,
        }
    }

    /// Why it does not fit. Unless the node is too small for it altogether, it would if other pods went.
    #[cold]
    fn explain(&self, node: &Node, reasons: &mut Reasons) -> Verdict {
        if node.pod_count >= node.pods_max {
            reasons.push(Reason::Text("Too many pods"));
        }
        let mut verdict = Verdict::Unschedulable;
        let mut refuse = |wanted: i64, amount: Amount, reason: Reason| {
            if wanted > 0 && wanted > amount.free() {
                reasons.push(reason);
                if wanted > amount.allocatable {
                    verdict = Verdict::Unresolvable;
                }
            }
        };
        refuse(self.cpu_milli, node.cpu_milli, Reason::Text("Insufficient cpu"));
        refuse(self.memory, node.memory, Reason::Text("Insufficient memory"));
        refuse(self.ephemeral, node.ephemeral, Reason::Text("Insufficient ephemeral-storage"));
        for (name, wanted) in self.scalars {
            refuse(*wanted, node.scalar(name), Reason::Insufficient(name.clone()));
        }
        verdict
    }
}

impl Filter for Fit<'_> {
    fn check(&self, node: &Node, reasons: &mut Reasons) -> Verdict {
        let fits = |wanted: i64, amount: Amount| wanted <= 0 || wanted <= amount.free();
        let is_fit = node.pod_count < node.pods_max
            && fits(self.cpu_milli, node.cpu_milli)
            && fits(self.memory, node.memory)
            && fits(self.ephemeral, node.ephemeral)
            && self.scalars.iter().all(|(name, wanted)| fits(*wanted, node.scalar(name)));
        if is_fit { Verdict::Fits } else { self.explain(node, reasons) }
    }
}

/// The more is left of CPU and memory, the better.
struct LeastAllocated {
    cpu_milli: i64,
    memory: i64,
}

impl Score for LeastAllocated {
    fn score(&self, node: &Node) -> i64 {
        let left = |allocatable: i64, requested: i64| {
            if allocatable == 0 {
                return (0, 0);
            }
            (percentage(allocatable.wrapping_sub(requested).max(0), allocatable), 1)
        };
        let cpu = left(node.cpu_milli.allocatable, node.nominal_cpu_milli.wrapping_add(self.cpu_milli));
        let memory = left(node.memory.allocatable, node.nominal_memory.wrapping_add(self.memory));
        match cpu.1 + memory.1 {
            0 => 0,
            weights => (cpu.0 + memory.0) / weights,
        }
    }
}

/// `SCORE_MAX * part / whole`, rounded down. A division of large integers takes longer than all the rest of a score.
fn percentage(part: i64, whole: i64) -> i64 {
    let scaled = part.saturating_mul(SCORE_MAX);
    let near = (scaled as f64 / whole as f64) as i64;
    if near.saturating_mul(whole) > scaled {
        near - 1
    } else if (near + 1).saturating_mul(whole) <= scaled {
        near + 1
    } else {
        near
    }
}

/// Whether the pod would fit on a node that is empty.
fn would_fit(pod: &Pod, has: &Resources) -> bool {
    let scalar = |name: &Text| has.scalars.iter().find(|(known, _)| known == name).map_or(0, |(_, amount)| *amount);
    let Fit { cpu_milli, memory, ephemeral, scalars } = Fit::of(pod);
    has.pods.unwrap_or(0) > 0
        && cpu_milli <= has.cpu_milli.unwrap_or(0)
        && memory <= has.memory.unwrap_or(0)
        && ephemeral <= has.ephemeral.unwrap_or(0)
        && scalars.iter().all(|(name, wanted)| *wanted <= scalar(name))
}

/// Whether the node has more of what the pod takes.
fn has_grown(pod: &Pod, old: &view::Node, new: &view::Node) -> bool {
    let (old, new) = (&old.allocatable, &new.allocatable);
    new.pods.unwrap_or(0) > old.pods.unwrap_or(0) || frees(pod, new, old)
}

/// Whether of something that the pod takes there is less in the second.
fn frees(pod: &Pod, before: &Resources, after: &Resources) -> bool {
    let Fit { cpu_milli, memory, ephemeral, scalars } = Fit::of(pod);
    let less = |before: Option<i64>, after: Option<i64>| before.unwrap_or(0) > after.unwrap_or(0);
    let of = |list: &Resources, name: &Text| list.scalars.iter().find(|one| one.0 == *name).map(|one| one.1);
    cpu_milli > 0 && less(before.cpu_milli, after.cpu_milli)
        || memory > 0 && less(before.memory, after.memory)
        || ephemeral > 0 && less(before.ephemeral, after.ephemeral)
        || scalars.iter().any(|(name, wanted)| *wanted > 0 && less(of(before, name), of(after, name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentage_is_rounded_down() {
        let numbers = [1, 2, 3, 7, 99, 100, 101, 3999, 4000, 1 << 30, (1 << 40) - 1, (1 << 55) - 1, 1 << 55];
        for whole in numbers {
            for part in numbers.into_iter().filter(|part| *part <= whole) {
                assert_eq!(percentage(part, whole), part * SCORE_MAX / whole, "{part} of {whole}");
            }
        }
    }
}
