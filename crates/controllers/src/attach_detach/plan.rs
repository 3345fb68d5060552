//! Where a volume is to be attached, and where no longer, as pure functions.

use std::collections::BTreeMap;
use std::sync::Arc;

use rkube_machinery::Text;

use super::view::{Attachment, Node};
use crate::pods::Pod;

/// How long a node that does not answer is waited for, in seconds.
pub const MAX_WAIT_FOR_UNMOUNT_SECONDS: i64 = 6 * 60;

/// What is known of a volume that a driver attaches.
pub struct Known<'a> {
    pub volume: &'a str,
    /// By this name nodes say that they have it.
    pub unique_name: &'a str,
    /// Whether several nodes may have it.
    pub of_many: bool,
    /// Its pods that have a node and have not ended, by name.
    pub pods: &'a [Arc<Pod>],
    pub attachments: &'a [Arc<Attachment>],
    /// Since when attachments are not wanted, in seconds.
    pub unwanted: &'a BTreeMap<Text, i64>,
    pub now: i64,
    pub never_force: bool,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Nodes to attach it to.
    pub attach: Vec<Text>,
    /// Attachments to delete.
    pub detach: Vec<Text>,
    /// Nodes that have to wait, and the nodes that have it.
    pub refused: Vec<Refused>,
    /// In how many seconds to look again.
    pub look_again: Option<i64>,
}

#[derive(Debug, PartialEq, Eq)]
pub struct Refused {
    pub node: Text,
    pub pod: Text,
    pub namespace: Text,
    pub message: String,
}

pub fn plan(known: &Known<'_>, node: impl Fn(&str) -> Option<Arc<Node>>) -> Plan {
    let mut plan = Plan::default();
    let is_wanted = |name: &str| known.pods.iter().any(|pod| pod.node == name);
    for attachment in known.attachments.iter().filter(|one| !one.deleting && !is_wanted(&one.node)) {
        match wait(known, attachment, node(&attachment.node).as_deref()) {
            None => plan.detach.push(attachment.name.clone()),
            Some(0) => {}
            Some(seconds) => plan.look_again = Some(plan.look_again.map_or(seconds, |sooner| sooner.min(seconds))),
        }
    }
    let mut wanted: Vec<&Text> = known.pods.iter().map(|pod| &pod.node).collect();
    wanted.sort();
    wanted.dedup();
    for name in wanted.into_iter().filter(|name| node(name).is_some_and(|node| node.managed)) {
        if known.attachments.iter().any(|one| one.node == *name) {
            continue;
        }
        let elsewhere: Vec<&Text> = known.attachments.iter().map(|one| &one.node).chain(&plan.attach).collect();
        if known.of_many || elsewhere.is_empty() {
            plan.attach.push(name.clone());
        } else {
            plan.refused.extend(refuse(known, name, &elsewhere));
        }
    }
    plan
}

/// For how long an attachment that is not wanted stays; 0: until something changes. None: it goes.
fn wait(known: &Known<'_>, attachment: &Attachment, node: Option<&Node>) -> Option<i64> {
    let is_mounted = node.is_some_and(|node| node.in_use.iter().any(|name| name == known.unique_name));
    let node = node.filter(|node| is_mounted && !node.out_of_service)?;
    if node.ready || known.never_force {
        return Some(0);
    }
    let left =
        known.unwanted.get(&attachment.name).copied().unwrap_or(known.now) + MAX_WAIT_FOR_UNMOUNT_SECONDS - known.now;
    (left >= 0).then_some(left + 1)
}

fn refuse(known: &Known<'_>, node: &Text, elsewhere: &[&Text]) -> Vec<Refused> {
    let users: Vec<&Arc<Pod>> =
        known.pods.iter().filter(|pod| pod.node != *node && elsewhere.contains(&&pod.node)).collect();
    let waiting = known.pods.iter().filter(|pod| pod.node == *node);
    waiting
        .map(|pod| Refused {
            node: node.clone(),
            pod: pod.name.clone(),
            namespace: pod.namespace.clone(),
            message: format!("Waiting for detach for volume {:?} {}", known.volume, used_by(pod, &users)),
        })
        .collect()
}

fn used_by(pod: &Pod, users: &[&Arc<Pod>]) -> String {
    let near: Vec<&str> = users.iter().filter(|user| user.namespace == pod.namespace).map(|user| &*user.name).collect();
    let far = users.len() - near.len();
    match (near.is_empty(), far) {
        (true, 0) => "Volume is already exclusively attached to one node, waiting on detach before it can be attached to another node".to_owned(),
        (true, far) => format!("Volume is already used by {far} pod(s) in different namespaces"),
        (false, 0) => format!("Volume is already used by pod(s) {}", near.join(", ")),
        (false, far) => {
            format!("Volume is already used by pod(s) {} and {far} pod(s) in different namespaces", near.join(", "))
        }
    }
}

/// What a node is to say that is attached to it: what drivers attached, and what others did. None: as it is.
pub fn attached(node: &Node, ours: impl Iterator<Item = Text>, prefix: &str) -> Option<Vec<(Text, Text)>> {
    let mut ours: Vec<Text> = ours.collect();
    ours.sort();
    ours.dedup();
    let kept = node.attached.iter().filter(|(name, _)| !name.starts_with(prefix) || ours.binary_search(name).is_ok());
    let mut wanted: Vec<(Text, Text)> = kept.cloned().collect();
    let known: Vec<Text> = wanted.iter().map(|(name, _)| name.clone()).collect();
    wanted.extend(ours.into_iter().filter(|name| !known.contains(name)).map(|name| (name, Text::default())));
    (wanted != node.attached).then_some(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = "kubernetes.io/csi/d^h";

    /// `name@node`, all of one namespace but those with a `~`.
    fn pod(text: &str) -> Arc<Pod> {
        let (name, node) = text.split_once('@').unwrap();
        let namespace = if text.contains('~') { "far" } else { "ns" };
        Arc::new(Pod {
            namespace: namespace.into(),
            name: name.trim_matches('~').into(),
            node: node.into(),
            ..Pod::default()
        })
    }

    fn attachment(node: &str) -> Arc<Attachment> {
        Arc::new(Attachment {
            name: format!("csi-{node}").into(),
            volume: "v".into(),
            node: node.into(),
            ..Attachment::default()
        })
    }

    /// `busy` has the volume mounted, `down` the same and does not answer, `out` is out of service, `own` sees to itself.
    fn node(name: &str) -> Option<Arc<Node>> {
        let mounted = matches!(name, "busy" | "down" | "out");
        (name != "gone").then(|| {
            Arc::new(Node {
                name: name.into(),
                managed: name != "own",
                ready: !matches!(name, "down" | "out"),
                out_of_service: name == "out",
                in_use: if mounted { vec![NAME.into()] } else { Vec::new() },
                ..Node::default()
            })
        })
    }

    fn planned(pods: &str, attachments: &str, of_many: bool, now: i64) -> Plan {
        let pods: Vec<Arc<Pod>> = pods.split_whitespace().map(pod).collect();
        let attachments: Vec<Arc<Attachment>> = attachments.split_whitespace().map(attachment).collect();
        let unwanted = attachments.iter().map(|one| (one.name.clone(), 0)).collect();
        let known = Known {
            volume: "v",
            unique_name: NAME,
            of_many,
            pods: &pods,
            attachments: &attachments,
            unwanted: &unwanted,
            now,
            never_force: false,
        };
        plan(&known, node)
    }

    #[test]
    fn volumes_are_attached_where_pods_are() {
        let names = |all: &[Text]| all.join(" ");
        for (pods, attachments, of_many, attach, detach, refused) in [
            ("p@a", "", false, "a", "", 0),
            ("p@a q@a", "", false, "a", "", 0),
            ("p@a", "a", false, "", "", 0),
            ("p@own", "", false, "", "", 0),
            ("p@gone", "", false, "", "", 0),
            ("p@a q@b", "", false, "a", "", 1),
            ("p@a q@b", "", true, "a b", "", 0),
            ("", "a", false, "", "csi-a", 0),
            ("", "gone", false, "", "csi-gone", 0),
            ("", "busy", false, "", "", 0),
            ("", "out", false, "", "csi-out", 0),
            ("q@b", "a", false, "", "csi-a", 1),
            ("q@b", "busy", false, "", "", 1),
        ] {
            let plan = planned(pods, attachments, of_many, 10);
            let got = (names(&plan.attach), names(&plan.detach), plan.refused.len());
            assert_eq!(got, (attach.to_owned(), detach.to_owned(), refused), "{pods} | {attachments}");
        }
    }

    #[test]
    fn a_node_that_does_not_answer_is_waited_for() {
        let waiting = planned("", "down", false, 60);
        assert_eq!((waiting.detach.len(), waiting.look_again), (0, Some(301)));
        assert_eq!(planned("", "down", false, 361).detach, ["csi-down"]);
        assert_eq!(planned("", "busy", false, 361).look_again, None, "one that answers will say so");
    }

    #[test]
    fn who_has_to_wait_is_told_for_whom() {
        let told = |pods: &str, attachments: &str| planned(pods, attachments, false, 10).refused.remove(0).message;
        let prefix = "Waiting for detach for volume \"v\" Volume is already";
        let nobody = "exclusively attached to one node, waiting on detach before it can be attached to another node";
        assert_eq!(told("p@b", "a"), format!("{prefix} {nobody}"));
        assert_eq!(told("p@b x@a y@a", "a"), format!("{prefix} used by pod(s) x, y"));
        assert_eq!(told("p@b ~x@a", "a"), format!("{prefix} used by 1 pod(s) in different namespaces"));
        let both = format!("{prefix} used by pod(s) y and 1 pod(s) in different namespaces");
        assert_eq!(told("p@b ~x@a y@a", "a"), both);
    }

    #[test]
    fn a_node_says_what_is_attached_to_it() {
        let node = |names: &[&str]| Node {
            attached: names.iter().map(|name| (Text::from(*name), Text::from("/dev"))).collect(),
            ..Node::default()
        };
        let wanted = |names: &[&str], ours: &[&str]| {
            let found = attached(&node(names), ours.iter().map(|name| Text::from(*name)), "kubernetes.io/csi/");
            found.map(|all| all.into_iter().map(|(name, _)| name.to_string()).collect::<Vec<_>>().join(" "))
        };
        assert_eq!(wanted(&[], &[]), None);
        assert_eq!(wanted(&["kubernetes.io/csi/a"], &["kubernetes.io/csi/a"]), None);
        assert_eq!(wanted(&["kubernetes.io/csi/a"], &[]).as_deref(), Some(""));
        assert_eq!(wanted(&["kubernetes.io/fc/a"], &[]), None, "what others attached stays");
        let both = Some("kubernetes.io/fc/a kubernetes.io/csi/b");
        assert_eq!(wanted(&["kubernetes.io/fc/a"], &["kubernetes.io/csi/b"]).as_deref(), both);
    }
}
