//! What some users have: Endpoints by hand, roles that are sums, certificates, tokens.

use std::collections::BTreeSet;

use rkube_machinery::decode::base64;
use serde_json::Value;

use super::{Cluster, has_condition, name, text};

const SERVICE: &str = "kubernetes.io/service-name";
const MANAGER: &str = "endpointslice.kubernetes.io/managed-by";
const SKIPPED: &str = "endpointslice.kubernetes.io/skip-mirror";
const SIGNATURE: &str = "jws-kubeconfig-";

impl Cluster {
    pub(super) fn other(&self) -> Option<String> {
        let endpoints = || self.of("endpoints").iter().find_map(|endpoints| self.unlike_its_mirror(endpoints));
        let roles = || self.of("clusterroles").iter().find_map(|role| self.no_sum(role));
        let requests = || self.of("certificatesigningrequests").iter().find_map(unanswered);
        endpoints().or_else(roles).or_else(requests).or_else(|| self.unfit_tokens())
    }

    /// The slices of a service without a selector have what its Endpoints have.
    fn unlike_its_mirror(&self, endpoints: &Value) -> Option<String> {
        let is_same = |one: &Value, field: &str| one["metadata"][field] == endpoints["metadata"][field];
        let mut services = self.of("services").iter();
        let service = services.find(|service| is_same(service, "namespace") && is_same(service, "name"))?;
        if service["spec"]["selector"].is_object() || endpoints["metadata"]["labels"][SKIPPED] == "true" {
            return None;
        }
        let mut written = BTreeSet::new();
        for subset in items(&endpoints["subsets"]) {
            for (field, is_ready) in [("addresses", true), ("notReadyAddresses", false)] {
                let addresses = items(&subset[field]).iter().map(|address| text(&address["ip"]));
                written.extend(addresses.map(|ip| (ip, is_ready, ports(subset))));
            }
        }
        let mut mirrored = BTreeSet::new();
        let slices = self.of("endpointslices").iter().filter(|slice| {
            let labels = &slice["metadata"]["labels"];
            is_same(slice, "namespace")
                && labels[SERVICE] == endpoints["metadata"]["name"]
                && labels[MANAGER] == "endpointslicemirroring-controller.k8s.io"
        });
        for slice in slices {
            let all = items(&slice["endpoints"]).iter();
            mirrored
                .extend(all.map(|one| (text(&one["addresses"][0]), one["conditions"]["ready"] == true, ports(slice))));
        }
        // One that is ready and is not is ready.
        let ready: BTreeSet<_> = written.iter().filter(|it| it.1).map(|it| (it.0, it.2.clone())).collect();
        written.retain(|it| it.1 || !ready.contains(&(it.0, it.2.clone())));
        (written != mirrored).then(|| format!("{} are {written:?}, and mirrored as {mirrored:?}", name(endpoints)))
    }

    /// The rules of a role that is a sum are those of its parts.
    fn no_sum(&self, role: &Value) -> Option<String> {
        let selectors = role["aggregationRule"]["clusterRoleSelectors"].as_array()?;
        let is_part = |other: &Value| {
            let labels = &other["metadata"]["labels"];
            let fits = |selector: &Value| {
                let wanted = selector["matchLabels"].as_object().into_iter().flatten();
                wanted.into_iter().all(|(key, value)| labels[key] == *value)
            };
            other["metadata"]["name"] != role["metadata"]["name"] && selectors.iter().any(fits)
        };
        let rules = |role: &Value| items(&role["rules"]).iter().map(Value::to_string).collect::<BTreeSet<_>>();
        let sum: BTreeSet<String> =
            self.of("clusterroles").iter().filter(|other| is_part(other)).flat_map(rules).collect();
        let own = rules(role);
        (own != sum).then(|| format!("{} has the rules {own:?}, and its parts have {sum:?}", name(role)))
    }

    /// No token is left that ends, and with all others it is signed where the cluster is.
    fn unfit_tokens(&self) -> Option<String> {
        let tokens = self.of("secrets").iter().filter(|secret| secret["type"] == "bootstrap.kubernetes.io/token");
        let (ending, lasting): (Vec<&Value>, Vec<&Value>) =
            tokens.partition(|token| token["data"]["expiration"].is_string());
        if let Some(token) = ending.first() {
            return Some(format!("{} has ended, and is there", name(token)));
        }
        let info = self.of("configmaps").iter().find(|map| map["metadata"]["name"] == "cluster-info")?;
        let keys = info["data"].as_object().into_iter().flatten().map(|(key, _)| key.as_str());
        let signed: BTreeSet<String> = keys.filter_map(|key| key.strip_prefix(SIGNATURE)).map(str::to_owned).collect();
        let id = |token: &&Value| base64::decode(text(&token["data"]["token-id"]).as_bytes()).unwrap_or_default();
        let ids: BTreeSet<String> =
            lasting.iter().map(|token| String::from_utf8_lossy(&id(token)).into_owned()).collect();
        (signed != ids).then(|| format!("{} is signed by {signed:?}, and there are {ids:?}", name(info)))
    }
}

/// One that is approved has its certificate, or is told why not.
fn unanswered(request: &Value) -> Option<String> {
    let waits = has_condition(request, "Approved")
        && !has_condition(request, "Denied")
        && !has_condition(request, "Failed")
        && text(&request["status"]["certificate"]).is_empty();
    waits.then(|| format!("{} is approved, and has no certificate", name(request)))
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn ports(of: &Value) -> Vec<String> {
    items(&of["ports"]).iter().map(|port| format!("{}:{}", text(&port["name"]), port["port"])).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::cluster;
    use super::*;

    fn other(objects: &[(&str, Value)]) -> String {
        cluster(objects).other().unwrap_or_default()
    }

    #[test]
    fn endpoints_are_mirrored() {
        let ports = json!([{ "name": "p", "port": 80 }]);
        // A service of the same name: the names here follow from the kinds.
        let with = |service: Value, labels: Value, endpoints: &[(&str, bool)], manager: &str| {
            let subset = json!({
                "addresses": [{ "ip": "192.0.2.1" }], "notReadyAddresses": [{ "ip": "192.0.2.2" }, { "ip": "192.0.2.1" }],
                "ports": ports,
            });
            let endpoints: Vec<Value> = endpoints
                .iter()
                .map(|(ip, ready)| json!({ "addresses": [ip], "conditions": { "ready": ready } }))
                .collect();
            let slice_labels = json!({ (SERVICE): "same", (MANAGER): manager });
            let mut cluster = cluster(&[
                ("services", json!({ "spec": service })),
                ("endpoints", json!({ "metadata": { "labels": labels }, "subsets": [subset] })),
                (
                    "endpointslices",
                    json!({ "metadata": { "labels": slice_labels }, "endpoints": endpoints, "ports": ports }),
                ),
            ]);
            cluster.kinds.iter_mut().flatten().for_each(|object| object["metadata"]["name"] = json!("same"));
            cluster.other().unwrap_or_default()
        };
        let ours = "endpointslicemirroring-controller.k8s.io";
        let both = [("192.0.2.1", true), ("192.0.2.2", false)];
        assert_eq!(with(json!({}), json!({}), &both, ours), "");
        let wrong: [&[(&str, bool)]; 4] = [
            &[],
            &[("192.0.2.1", true)],
            &[("192.0.2.1", true), ("192.0.2.2", true)],
            &[("192.0.2.1", true), ("192.0.2.2", false), ("192.0.2.3", true)],
        ];
        for endpoints in wrong {
            let said = with(json!({}), json!({}), endpoints, ours);
            assert!(said.starts_with("/same are {"), "{said}");
        }
        assert!(!with(json!({}), json!({}), &both, "somebody").is_empty());
        assert_eq!(with(json!({ "selector": { "a": "b" } }), json!({}), &[], ours), "");
        assert_eq!(with(json!({}), json!({ (SKIPPED): "true" }), &[], ours), "");
    }

    #[test]
    fn sums_are_sums() {
        let rule = |verb: &str| json!({ "verbs": [verb] });
        let part = |label: &str, verb: &str| {
            ("clusterroles", json!({ "metadata": { "labels": { "to": label } }, "rules": [rule(verb)] }))
        };
        let of = |verbs: &[&str]| {
            let rules: Vec<Value> = verbs.iter().map(|verb| rule(verb)).collect();
            let selectors = json!([{ "matchLabels": { "to": "a" } }, { "matchLabels": { "to": "b" } }]);
            let sum = json!({ "aggregationRule": { "clusterRoleSelectors": selectors }, "rules": rules });
            let parts = [part("a", "get"), part("b", "list"), part("b", "get"), part("c", "watch")];
            other(&[parts.as_slice(), &[("clusterroles", sum)]].concat())
        };
        assert_eq!(of(&["list", "get"]), "");
        for wrong in [[].as_slice(), &["get"], &["get", "list", "watch"]] {
            assert!(of(wrong).starts_with("/clusterroles-4 has the rules {"), "{}", of(wrong));
        }
    }

    #[test]
    fn who_is_approved_has_a_certificate() {
        let of = |answers: &[&str], certificate: &str| {
            let conditions: Vec<Value> = answers.iter().map(|kind| json!({ "type": kind, "status": "True" })).collect();
            let status = json!({ "conditions": conditions, "certificate": certificate });
            other(&[("certificatesigningrequests", json!({ "status": status }))])
        };
        assert_eq!(of(&[], ""), "");
        assert_eq!(of(&["Approved"], "c"), "");
        assert_eq!(of(&["Denied"], ""), "");
        assert_eq!(of(&["Approved", "Failed"], ""), "");
        assert_eq!(of(&["Approved"], ""), "/certificatesigningrequests-0 is approved, and has no certificate");
    }

    #[test]
    fn tokens_end_and_sign() {
        let token = |data: Value| ("secrets", json!({ "type": "bootstrap.kubernetes.io/token", "data": data }));
        // YWJjZGVm: abcdef
        let lasting = || token(json!({ "token-id": "YWJjZGVm" }));
        let of = |token: (&'static str, Value), signed: Value| {
            let mut cluster = cluster(&[token, ("configmaps", json!({ "data": signed }))]);
            cluster.kinds.iter_mut().flatten().for_each(|object| {
                if object["type"].is_null() {
                    object["metadata"]["name"] = json!("cluster-info");
                }
            });
            cluster.other().unwrap_or_default()
        };
        assert_eq!(of(lasting(), json!({ "kubeconfig": "", "jws-kubeconfig-abcdef": "x" })), "");
        assert_eq!(of(lasting(), json!({})), r#"/cluster-info is signed by {}, and there are {"abcdef"}"#);
        let gone = json!({ "jws-kubeconfig-abcdef": "x", "jws-kubeconfig-bcdefg": "x" });
        assert!(!of(lasting(), gone).is_empty());
        let ending = token(json!({ "token-id": "YWJjZGVm", "expiration": "" }));
        assert_eq!(of(ending, json!({})), "/secrets-0 has ended, and is there");
    }
}
