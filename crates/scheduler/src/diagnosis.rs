//! Why a pod found no node, in upstream's words: `0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had untolerated
//! taint(s).`

use std::borrow::Cow;
use std::fmt::{Display, Write as _};

use crate::plugins::{PluginSet, Reason, Reasons, Verdict};
use crate::snapshot::NodeIndex;

/// What is found out in a cycle about nodes that will not do. Kept between cycles for its room.
#[derive(Default)]
pub struct Diagnosis {
    nodes: usize,
    reasons: Reasons,
    counts: Vec<(Reason, usize)>,
    /// Nodes that were asked and refused.
    refused: usize,
    /// Of these, those that would do if pods went.
    resolvable: Vec<NodeIndex>,
    plugins: PluginSet,
    /// Who named the only nodes that were asked.
    named_by: Vec<&'static str>,
    nowhere: Option<Cow<'static, str>>,
}

impl Diagnosis {
    pub fn clear(&mut self, nodes: usize) {
        self.forget_nodes();
        self.nodes = nodes;
        self.plugins = PluginSet::NONE;
        self.named_by.clear();
        self.nowhere = None;
    }

    /// Only nodes that this plugin names are asked.
    pub fn only_by(&mut self, place: usize, name: &'static str) {
        self.plugins.insert(place);
        self.named_by.push(name);
    }

    /// No node needs to be asked.
    pub fn nowhere(&mut self, place: usize, reason: Cow<'static, str>) {
        self.plugins.insert(place);
        self.nowhere = Some(reason);
    }

    pub fn forget_nodes(&mut self) {
        self.reasons.clear();
        self.counts.clear();
        self.resolvable.clear();
        self.refused = 0;
    }

    /// Where a filter says why.
    pub fn reasons(&mut self) -> &mut Reasons {
        &mut self.reasons
    }

    /// A node was refused, for the reasons that were given.
    pub fn refused(&mut self, node: NodeIndex, place: usize, verdict: Verdict) {
        self.plugins.insert(place);
        self.refused += 1;
        if verdict == Verdict::Unschedulable {
            self.resolvable.push(node);
        }
        for reason in self.reasons.drain(..) {
            match self.counts.iter_mut().find(|(known, _)| *known == reason) {
                Some((_, count)) => *count += 1,
                None => self.counts.push((reason, 1)),
            }
        }
    }

    pub fn plugins(&self) -> PluginSet {
        self.plugins
    }

    pub fn resolvable(&self) -> &[NodeIndex] {
        &self.resolvable
    }

    /// `outlook`: what was found out about what could be done.
    pub fn message(&self, outlook: Option<&str>) -> String {
        let mut text = match &self.nowhere {
            Some(reason) => format!("0/{} nodes are available: {reason}.", self.nodes),
            None => {
                let unasked = self.nodes - self.refused;
                let of_unasked = || format!("node(s) didn't satisfy plugin(s) [{}]", self.named_by.join(" "));
                let unasked = (unasked > 0 && !self.named_by.is_empty()).then(|| (of_unasked(), unasked));
                let asked = self.counts.iter().map(|(reason, count)| (reason.to_string(), *count));
                unavailable(self.nodes, asked.chain(unasked))
            }
        };
        if let Some(outlook) = outlook {
            // Writing to a string does not fail.
            let _ = write!(text, " {outlook}");
        }
        text
    }
}

/// That of so many nodes none is available, and how often for which reason; in the order of the texts, as upstream.
pub fn unavailable<R: Display>(nodes: usize, counts: impl Iterator<Item = (R, usize)>) -> String {
    let mut reasons: Vec<String> = counts.map(|(reason, count)| format!("{count} {reason}")).collect();
    reasons.sort_unstable();
    let mut text = format!("0/{nodes} nodes are available:");
    if !reasons.is_empty() {
        let _ = write!(text, " {}.", reasons.join(", "));
    }
    text
}
