//! Whether it would help if pods of lower priority went. They are not made to go yet; but the message says what upstream
//! says where it would not help, and nothing where it would.

use crate::diagnosis::unavailable;
use crate::plugins::{Cycle, Filters, Reason, Reasons, Verdict};
use crate::snapshot::{Node, NodeIndex};

/// What upstream's plugin for claims says of a pod without any, before it comes to preemption.
const NO_CLAIMS: &str = "no new claims to deallocate";
const NO_VICTIMS: &str = "No preemption victims found for incoming pod";
const NOT_HELPFUL: &str = "Preemption is not helpful for scheduling";

/// None if on one of these nodes it would help.
pub fn outlook(cycle: &Cycle<'_>, filters: &Filters<'_>, resolvable: &[NodeIndex]) -> Option<String> {
    if !cycle.pending.may_preempt {
        return Some(format!("{NO_CLAIMS}, preemption: not eligible due to preemptionPolicy=Never."));
    }
    let mut counts: Vec<(Reason, usize)> = Vec::new();
    let mut count = |reason: Reason, more: usize| match counts.iter_mut().find(|(known, _)| *known == reason) {
        Some((_, known)) => *known += more,
        None => counts.push((reason, more)),
    };
    let mut reasons = Reasons::new();
    for index in resolvable {
        let node = cycle.snapshot.node(*index);
        if !node.has_below(cycle.pod.priority) {
            count(Reason::Text(NO_VICTIMS), 1);
            continue;
        }
        if would_fit(&without_below(node, cycle.pod.priority), filters, &mut reasons) {
            return None;
        }
        reasons.drain(..).for_each(|reason| count(reason, 1));
    }
    let nodes = cycle.snapshot.ordered().len();
    let others = nodes - resolvable.len();
    if others > 0 {
        count(Reason::Text(NOT_HELPFUL), others);
    }
    Some(format!("{NO_CLAIMS}, preemption: {}", unavailable(nodes, counts.into_iter())))
}

fn would_fit(node: &Node, filters: &Filters<'_>, reasons: &mut Reasons) -> bool {
    filters.iter().all(|(_, filter)| filter.check(node, reasons) == Verdict::Fits)
}

/// The node without the pods of lower priority.
fn without_below(node: &Node, priority: i32) -> Node {
    let mut rest = node.clone();
    let lower = node.details.pods.iter().filter(|pod| pod.priority < priority);
    lower.for_each(|pod| {
        rest.remove_pod(&pod.uid);
    });
    rest
}
