//! Which pods nobody will ever clean up, as pure functions.

use std::collections::HashMap;
use std::sync::Arc;

use rkube_machinery::Text;

use crate::nodes::Node;
use crate::pods::{Phase, Pod};

/// How long a node may be missing before its pods go, in seconds: the cache of nodes may be behind that of pods.
pub const QUARANTINE_SECONDS: i64 = 40;

/// Why a pod goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// More pods came to an end than are kept.
    Terminated,
    /// Its node is out of service, and will not end it.
    OutOfService,
    /// Its node is gone.
    Orphaned,
    /// It is terminating, and never had a node.
    Unscheduled,
}

/// When nodes were first missed, in seconds since 1970.
#[derive(Debug, Default)]
pub struct Missing(HashMap<Text, i64>);

impl Missing {
    /// Of the nodes that pods name, those that have been missing for long enough: ask the server, then look at their pods.
    pub fn long_gone(&mut self, named: &[Text], node: impl Fn(&str) -> Option<Arc<Node>>, now: i64) -> Vec<Text> {
        let missing = named.iter().filter(|name| node(name).is_none());
        self.0 = missing.map(|name| (name.clone(), self.0.get(name).copied().unwrap_or(now))).collect();
        let long_gone = self.0.iter().filter(|(_, since)| now - **since >= QUARANTINE_SECONDS);
        let mut names: Vec<Text> = long_gone.map(|(name, _)| name.clone()).collect();
        names.sort();
        names
    }
}

/// Of these pods those that go, and why. They are at least all that are terminating, all of nodes that are gone, and, if
/// there are more of them than the threshold, all that came to an end. `gone` are the nodes that are no more, in order; `threshold` is how many pods that came to
/// an end are kept, all of them if it is 0.
pub fn plan(
    pods: &[Arc<Pod>],
    node: impl Fn(&str) -> Option<Arc<Node>>,
    gone: &[Text],
    threshold: usize,
) -> Vec<(Arc<Pod>, Why)> {
    let mut plan = Vec::new();
    let mut ended: Vec<&Arc<Pod>> = pods.iter().filter(|pod| pod.is_terminal()).collect();
    if threshold > 0 && ended.len() > threshold {
        // Those that were evicted first, then the oldest.
        ended.sort_by_key(|pod| (!pod.evicted, pod.created, &pod.name));
        plan.extend(ended[..ended.len() - threshold].iter().map(|pod| (Arc::clone(pod), Why::Terminated)));
    }
    for pod in pods {
        let why = match (pod.deleted.is_some(), pod.node.is_empty()) {
            (true, true) => Some(Why::Unscheduled),
            (_, false) if gone.binary_search(&pod.node).is_ok() => Some(Why::Orphaned),
            (true, false) => {
                node(&pod.node).filter(|node| !node.ready && node.out_of_service).map(|_| Why::OutOfService)
            }
            _ => None,
        };
        plan.extend(why.map(|why| (pod.clone(), why)));
    }
    plan
}

/// Whether the pod is to be marked as failed before it goes.
pub fn fails(pod: &Pod) -> bool {
    !matches!(pod.phase, Phase::Succeeded | Phase::Failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `name@node`, with `!` terminating, `.` succeeded, `^` evicted.
    fn pod(text: &str) -> Arc<Pod> {
        let (name, node) = text.split_once('@').unwrap_or((text, ""));
        let bare = node.trim_end_matches(['!', '.', '^']);
        Arc::new(Pod {
            name: name.trim_end_matches(['!', '.', '^']).into(),
            node: bare.into(),
            deleted: text.contains('!').then_some(1),
            phase: if text.contains('.') { Phase::Succeeded } else { Phase::Running },
            evicted: text.contains('^'),
            created: Some(1),
            ..Pod::default()
        })
    }

    fn pods(text: &str) -> Vec<Arc<Pod>> {
        text.split_whitespace().map(pod).collect()
    }

    fn node(name: &str) -> Option<Arc<Node>> {
        let (ready, out_of_service) = match name {
            "up" => (true, false),
            "out" => (false, true),
            "back" => (true, true),
            "down" => (false, false),
            _ => return None,
        };
        Some(Arc::new(Node { name: name.into(), ready, out_of_service, ..Node::default() }))
    }

    #[test]
    fn pods_that_nobody_cleans_up_go() {
        // Pods, nodes that are gone, how many that ended are kept, and who goes.
        type Going<'a> = &'a [(&'a str, Why)];
        let table: [(&str, &str, usize, Going<'_>); 8] = [
            ("a@up b@down c@out d", "", 0, &[]),
            ("a@up! b@down! c@out! d@back!", "", 0, &[("c", Why::OutOfService)]),
            ("a! b", "", 0, &[("a", Why::Unscheduled)]),
            ("a@gone b@lost c@gone!", "gone", 0, &[("a", Why::Orphaned), ("c", Why::Orphaned)]),
            ("a@up. b@up. c@up.", "", 0, &[]),
            ("a@up. b@up. c@up.", "", 3, &[]),
            ("c@up. b@up. a@up. d@up", "", 1, &[("a", Why::Terminated), ("b", Why::Terminated)]),
            ("a@up. b@up. c@up.^", "", 2, &[("c", Why::Terminated)]),
        ];
        for (text, gone, threshold, expected) in table {
            let gone: Vec<Text> = gone.split_whitespace().map(Into::into).collect();
            let plan = plan(&pods(text), node, &gone, threshold);
            let got: Vec<_> = plan.iter().map(|(pod, why)| (pod.name.as_str(), *why)).collect();
            assert_eq!(got, expected, "{text}");
        }
    }

    #[test]
    fn nodes_are_gone_after_a_while_and_not_if_they_come_back() {
        let mut missing = Missing::default();
        let all = ["gone", "lost", "up"].map(Text::new);
        let none: [&str; 0] = [];
        assert_eq!(missing.long_gone(&all, node, 100), none);
        assert_eq!(missing.long_gone(&all, node, 139), none);
        assert_eq!(missing.long_gone(&all, node, 140), ["gone", "lost"]);
        let back = |name: &str| if name == "lost" { node("up") } else { node(name) };
        assert_eq!(missing.long_gone(&all, back, 141), ["gone"]);
        assert_eq!(missing.long_gone(&all, node, 142), ["gone"], "it counts from when it went again");
        assert_eq!(missing.long_gone(&[], node, 143), none);
        assert!(missing.0.is_empty());
    }
}
