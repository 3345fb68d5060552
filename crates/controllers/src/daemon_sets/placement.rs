//! On which nodes a DaemonSet's pods are to be: by the name of the node, selectors, affinity and taints.

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::metadata::Labels;
use crate::nodes::{Node, Taint};

/// Taints that every daemon tolerates.
const TOLERATED: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];
/// And one that has its node's network.
const NETWORK: (&str, &str) = ("node.kubernetes.io/network-unavailable", "NoSchedule");

/// What of a template says where pods may be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Placement {
    node_name: String,
    node_selector: Map<String, Value>,
    affinity: Option<Affinity>,
    tolerations: Vec<Toleration>,
    host_network: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Affinity {
    node_affinity: Option<NodeAffinity>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct NodeAffinity {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    required: Option<NodeSelector>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct NodeSelector {
    node_selector_terms: Vec<Term>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Term {
    match_expressions: Vec<Requirement>,
    match_fields: Vec<Requirement>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Requirement {
    key: String,
    operator: String,
    values: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Toleration {
    key: String,
    operator: String,
    value: String,
    effect: String,
}

/// Whether a pod is to be on a node, and whether one that is there may stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fit {
    pub runs: bool,
    pub stays: bool,
}

impl Fit {
    /// Whether a set has to look at a node that came or changed. Where only the status would be another one it does not,
    /// as upstream, unless it has pods where they should not be: those may be where they should be now.
    pub fn concerns(self, has_pod: bool, misscheduled: bool) -> bool {
        if has_pod { !self.stays || misscheduled } else { self.runs }
    }
}

impl Placement {
    pub fn fit(&self, node: &Node) -> Fit {
        let is_named = self.node_name.is_empty() || self.node_name == node.name.as_str();
        if !is_named || !self.selects(node) {
            return Fit { runs: false, stays: false };
        }
        let is_free_of = |effects: &[&str]| {
            let mut taints = node.taints.iter().filter(|taint| effects.contains(&taint.effect.as_str()));
            taints.all(|taint| self.tolerates(taint))
        };
        Fit { runs: is_free_of(&["NoExecute", "NoSchedule"]), stays: is_free_of(&["NoExecute"]) }
    }

    fn selects(&self, node: &Node) -> bool {
        let has = |(key, value): (&String, &Value)| node.labels.get(key) == value.as_str();
        let affinity = self.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref()?.required.as_ref());
        self.node_selector.iter().all(has)
            && affinity.is_none_or(|selector| selector.node_selector_terms.iter().any(|term| term.matches(node)))
    }

    fn tolerates(&self, taint: &Taint) -> bool {
        let is_default = |(key, effect): &(&str, &str)| taint.key == *key && taint.effect == *effect;
        TOLERATED.iter().any(is_default)
            || self.host_network && is_default(&NETWORK)
            || self.tolerations.iter().any(|toleration| toleration.tolerates(taint))
    }
}

impl Term {
    /// One that says nothing is met by none.
    fn matches(&self, node: &Node) -> bool {
        let name = |requirement: &Requirement| {
            let found = requirement.key == "metadata.name";
            found && requirement.is_met_by(Some(node.name.as_str()))
        };
        !(self.match_expressions.is_empty() && self.match_fields.is_empty())
            && self.match_expressions.iter().all(|requirement| requirement.is_met(&node.labels))
            && self.match_fields.iter().all(name)
    }
}

impl Requirement {
    fn is_met(&self, labels: &Labels) -> bool {
        self.is_met_by(labels.get(&self.key))
    }

    fn is_met_by(&self, value: Option<&str>) -> bool {
        let is_listed = || value.is_some_and(|value| self.values.iter().any(|one| one == value));
        let numbers = || {
            let [bound] = self.values.as_slice() else { return None };
            Some((value?.parse::<i64>().ok()?, bound.parse::<i64>().ok()?))
        };
        match self.operator.as_str() {
            "In" => is_listed(),
            "NotIn" => !is_listed(),
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            "Gt" => numbers().is_some_and(|(value, bound)| value > bound),
            "Lt" => numbers().is_some_and(|(value, bound)| value < bound),
            _ => false,
        }
    }
}

impl Toleration {
    fn tolerates(&self, taint: &Taint) -> bool {
        let fits = |own: &str, other: &str| own.is_empty() || own == other;
        fits(&self.effect, &taint.effect)
            && fits(&self.key, &taint.key)
            && match self.operator.as_str() {
                "" | "Equal" => self.value == taint.value.as_str(),
                "Exists" => true,
                _ => false,
            }
    }
}

/// Has a pod tolerate what every daemon does.
pub fn tolerate(spec: &mut Value) {
    let network = spec["hostNetwork"].as_bool().unwrap_or(false).then_some(NETWORK);
    let mut known = spec["tolerations"].as_array().cloned().unwrap_or_default();
    for (key, effect) in TOLERATED.into_iter().chain(network) {
        let new = serde_json::json!({ "key": key, "operator": "Exists", "effect": effect });
        let is_same = |one: &Value| {
            let text = |field: &str| one[field].as_str().unwrap_or_default();
            text("key") == key && text("effect") == effect && text("operator") == "Exists" && text("value").is_empty()
        };
        match known.iter_mut().find(|one| is_same(one)) {
            Some(same) => *same = new,
            None => known.push(new),
        }
    }
    spec["tolerations"] = known.into();
}

/// Has a pod be for this node and no other: the scheduler places it there.
pub fn aim(spec: &mut Value, node: &str) {
    let field = serde_json::json!({ "key": "metadata.name", "operator": "In", "values": [node] });
    let terms = serde_json::json!([{ "matchFields": [field] }]);
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    if spec["affinity"]["nodeAffinity"][required].is_object() {
        spec["affinity"]["nodeAffinity"][required]["nodeSelectorTerms"] = terms;
    } else {
        spec["affinity"]["nodeAffinity"][required] = serde_json::json!({ "nodeSelectorTerms": terms });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(labels: &[(&str, &str)], taints: &[(&str, &str, &str)]) -> Node {
        Node {
            name: "a".into(),
            labels: Labels::new(labels.iter().map(|(key, value)| ((*key).into(), (*value).into()))).shared(),
            taints: taints
                .iter()
                .map(|(key, value, effect)| Taint {
                    key: (*key).into(),
                    value: (*value).into(),
                    effect: (*effect).into(),
                })
                .collect(),
            ..Node::default()
        }
    }

    #[test]
    fn nodes_are_chosen_as_upstream_does() {
        let required = |term: Value| {
            json!({ "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{}, term] } } } })
        };
        let expression = |operator: &str, values: Value| {
            required(json!({ "matchExpressions": [{ "key": "size", "operator": operator, "values": values }] }))
        };
        let plain = node(&[("size", "5")], &[]);
        let tainted = |effect: &str| node(&[], &[("k", "v", effect)]);
        let tolerating = |toleration: Value| json!({ "tolerations": [toleration] });
        // The spec, the node, and whether a pod runs there, and stays.
        let table = [
            (json!({}), &plain, (true, true)),
            (json!({ "nodeName": "b" }), &plain, (false, false)),
            (json!({ "nodeSelector": { "size": "5" } }), &plain, (true, true)),
            (json!({ "nodeSelector": { "size": "6" } }), &plain, (false, false)),
            (required(json!({})), &plain, (false, false)),
            (expression("In", json!(["4", "5"])), &plain, (true, true)),
            (expression("NotIn", json!(["5"])), &plain, (false, false)),
            (expression("Gt", json!(["4"])), &plain, (true, true)),
            (expression("Lt", json!(["5"])), &plain, (false, false)),
            (expression("DoesNotExist", json!([])), &plain, (false, false)),
            (expression("DoesNotExist", json!([])), &node(&[], &[]), (true, true)),
            (
                required(json!({ "matchFields": [{ "key": "metadata.name", "operator": "In", "values": ["a"] }] })),
                &plain,
                { (true, true) },
            ),
            (json!({}), &tainted("NoSchedule"), (false, true)),
            (json!({}), &tainted("NoExecute"), (false, false)),
            (json!({}), &tainted("PreferNoSchedule"), (true, true)),
            (tolerating(json!({ "operator": "Exists" })), &tainted("NoExecute"), (true, true)),
            (tolerating(json!({ "key": "k", "value": "v" })), &tainted("NoExecute"), (true, true)),
            (tolerating(json!({ "key": "k", "value": "w" })), &tainted("NoExecute"), (false, false)),
            (tolerating(json!({ "key": "k", "operator": "Exists", "effect": "NoSchedule" })), &tainted("NoExecute"), {
                (false, false)
            }),
            (json!({}), &node(&[], &[("node.kubernetes.io/unschedulable", "", "NoSchedule")]), (true, true)),
            (json!({}), &node(&[], &[("node.kubernetes.io/network-unavailable", "", "NoSchedule")]), (false, true)),
            (
                json!({ "hostNetwork": true }),
                &node(&[], &[("node.kubernetes.io/network-unavailable", "", "NoSchedule")]),
                { (true, true) },
            ),
        ];
        for (spec, node, (runs, stays)) in table {
            let placement: Placement = serde_json::from_value(spec.clone()).unwrap();
            assert_eq!(placement.fit(node), Fit { runs, stays }, "{spec} {node:?}");
        }
    }

    #[test]
    fn sets_hear_of_nodes_where_there_is_something_to_do() {
        let (well, tainted, wrong) = ((true, true), (false, true), (false, false));
        // Whether a pod runs there, and stays; whether one is there, whether some are misscheduled; what comes of it.
        let table = [
            (well, false, false, true),
            (well, true, false, false),
            (well, true, true, true),
            (tainted, false, true, false),
            (tainted, true, false, false),
            (tainted, true, true, true),
            (wrong, false, true, false),
            (wrong, true, false, true),
        ];
        for ((runs, stays), has_pod, misscheduled, expected) in table {
            let fit = Fit { runs, stays };
            assert_eq!(fit.concerns(has_pod, misscheduled), expected, "{fit:?} {has_pod} {misscheduled}");
        }
    }

    #[test]
    fn a_pod_is_for_one_node_and_tolerates_its_troubles() {
        let mut spec = json!({ "tolerations": [{ "key": "node.kubernetes.io/not-ready", "operator": "Exists",
            "effect": "NoExecute", "tolerationSeconds": 5 }], "affinity": { "podAffinity": {} } });
        tolerate(&mut spec);
        aim(&mut spec, "n");
        assert_eq!(spec["tolerations"].as_array().unwrap().len(), 6);
        assert!(spec["tolerations"][0].get("tolerationSeconds").is_none());
        let terms =
            &spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"];
        assert_eq!(terms[0]["matchFields"][0]["values"], json!(["n"]));
        assert!(spec["affinity"]["podAffinity"].is_object());
    }
}
