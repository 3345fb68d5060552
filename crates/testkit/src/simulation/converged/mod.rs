//! Whether everything is as it should be.

mod counts;
mod others;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use http::Request;
use rkube_operator::kube::Client;
use serde_json::Value;

/// What is not as it should be, if anything.
pub(super) async fn problem(client: &Client) -> Option<String> {
    let cluster = match Cluster::read(client).await {
        Ok(cluster) => cluster,
        Err(error) => return Some(error),
    };
    cluster.problem()
}

/// What a quota says that is not so, if one does: also while it keeps others from having what they want.
pub(super) async fn miscounted_quota(client: &Client) -> Option<String> {
    match Cluster::read(client).await {
        Ok(cluster) => cluster.miscounted_quota(),
        Err(error) => Some(error),
    }
}

const KINDS: [&str; 22] = [
    "/api/v1/namespaces",
    "/api/v1/nodes",
    "/api/v1/pods",
    "/api/v1/configmaps",
    "/api/v1/services",
    "/apis/apps/v1/deployments",
    "/apis/apps/v1/replicasets",
    "/apis/apps/v1/statefulsets",
    "/apis/apps/v1/daemonsets",
    "/apis/apps/v1/controllerrevisions",
    "/apis/batch/v1/jobs",
    "/apis/batch/v1/cronjobs",
    "/apis/discovery.k8s.io/v1/endpointslices",
    "/apis/policy/v1/poddisruptionbudgets",
    "/api/v1/persistentvolumeclaims",
    "/api/v1/resourcequotas",
    "/api/v1/replicationcontrollers",
    "/api/v1/endpoints",
    "/api/v1/secrets",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "/apis/certificates.k8s.io/v1/certificatesigningrequests",
    "/apis/example.com/v2/widgets",
];

/// Whether an object of a kind is as it should be.
type IsWell = fn(&Value) -> bool;

/// All objects that matter, as the API shows them now.
struct Cluster {
    kinds: Vec<Vec<Value>>,
}

impl Cluster {
    async fn read(client: &Client) -> Result<Cluster, String> {
        let mut kinds = Vec::new();
        for path in KINDS {
            let request = Request::get(path).body(Vec::new()).expect("a path of ours is one");
            let mut list: Value = client.request(request).await.map_err(|error| format!("{path}: {error}"))?;
            kinds.push(match list["items"].take() {
                Value::Array(items) => items,
                _ => Vec::new(),
            });
        }
        Ok(Cluster { kinds })
    }

    fn of(&self, plural: &str) -> &[Value] {
        let place = KINDS.iter().position(|path| path.rsplit('/').next() == Some(plural));
        place.map_or(&[], |place| &self.kinds[place])
    }

    fn problem(&self) -> Option<String> {
        self.orphan()
            .or_else(|| self.unready())
            .or_else(|| self.unfit_endpoints())
            .or_else(|| self.miscounted())
            .or_else(|| self.other())
    }

    /// An object that is to go and does not, or whose controller is gone.
    fn orphan(&self) -> Option<String> {
        let all = || self.kinds.iter().flatten();
        let uids: BTreeSet<&str> = all().map(|object| text(&object["metadata"]["uid"])).collect();
        all().find_map(|object| {
            let metadata = &object["metadata"];
            if metadata["deletionTimestamp"].is_string() {
                return Some(format!("{} is still terminating", name(object)));
            }
            let owners = metadata["ownerReferences"].as_array()?;
            let gone =
                owners.iter().find(|owner| owner["controller"] == true && !uids.contains(text(&owner["uid"])))?;
            Some(format!("{} is owned by {} {}, which is gone", name(object), gone["kind"], gone["name"]))
        })
    }

    fn unready(&self) -> Option<String> {
        let rules: [(&str, IsWell); 8] = [
            ("nodes", |node| has_condition(node, "Ready") && node["spec"]["unschedulable"] != true),
            ("pods", |pod| {
                let phase = text(&pod["status"]["phase"]);
                matches!(phase, "Succeeded" | "Failed") || (phase == "Running" && has_condition(pod, "Ready"))
            }),
            ("deployments", |it| {
                let fields = ["replicas", "updatedReplicas", "availableReplicas", "readyReplicas"];
                is_observed(it)
                    && fields.iter().all(|field| number(&it["status"][field]) == number(&it["spec"]["replicas"]))
            }),
            ("replicasets", has_its_pods),
            ("replicationcontrollers", has_its_pods),
            ("statefulsets", |it| {
                let fields = ["replicas", "availableReplicas", "readyReplicas"];
                let wanted = number(&it["spec"]["replicas"]);
                // Those below the partition may have any template.
                let updated = wanted - number(&it["spec"]["updateStrategy"]["rollingUpdate"]["partition"]);
                is_observed(it)
                    && fields.iter().all(|field| number(&it["status"][field]) == wanted)
                    && (updated..=wanted).contains(&number(&it["status"]["updatedReplicas"]))
            }),
            ("daemonsets", |it| {
                let fields = ["currentNumberScheduled", "updatedNumberScheduled", "numberAvailable", "numberReady"];
                let desired = number(&it["status"]["desiredNumberScheduled"]);
                is_observed(it) && fields.iter().all(|field| number(&it["status"][field]) == desired)
            }),
            ("jobs", |job| has_condition(job, "Complete") || has_condition(job, "Failed")),
        ];
        let unready = rules.iter().find_map(|(plural, is_well)| {
            let object = self.of(plural).iter().find(|object| !is_well(object))?;
            Some(format!("{plural}: {} is not well: {}", name(object), object["status"]))
        });
        unready.or_else(|| self.of("daemonsets").iter().find_map(|set| self.missing_daemons(set)))
    }

    fn missing_daemons(&self, set: &Value) -> Option<String> {
        let desired = number(&set["status"]["desiredNumberScheduled"]);
        (desired != self.of("nodes").len() as i64).then(|| format!("{} is to be on {desired} nodes", name(set)))
    }

    /// The addresses of a service's slices are those of its pods that are ready.
    fn unfit_endpoints(&self) -> Option<String> {
        self.of("services").iter().find_map(|service| {
            let metadata = &service["metadata"];
            let app = service["spec"]["selector"]["app"].as_str()?;
            let selected = self.of("pods").iter().filter(|pod| {
                pod["metadata"]["labels"]["app"] == app
                    && pod["metadata"]["namespace"] == metadata["namespace"]
                    && pod["status"]["phase"] == "Running"
            });
            let pods: BTreeSet<&str> = selected.map(|pod| text(&pod["status"]["podIP"])).collect();
            let slices = self.of("endpointslices").iter().filter(|slice| {
                slice["metadata"]["labels"]["kubernetes.io/service-name"] == metadata["name"]
                    && slice["metadata"]["namespace"] == metadata["namespace"]
            });
            let endpoints = slices.flat_map(|slice| slice["endpoints"].as_array().into_iter().flatten());
            let addresses: BTreeSet<&str> = endpoints.map(|endpoint| text(&endpoint["addresses"][0])).collect();
            (pods != addresses)
                .then(|| format!("{}: its endpoints are {addresses:?}, its pods {pods:?}", name(service)))
        })
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or(0)
}

fn name(object: &Value) -> String {
    let metadata = &object["metadata"];
    format!("{}/{}", text(&metadata["namespace"]), text(&metadata["name"]))
}

fn is_observed(object: &Value) -> bool {
    object["status"]["observedGeneration"] == object["metadata"]["generation"]
}

fn has_condition(object: &Value, kind: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|condition| condition["type"] == kind && condition["status"] == "True")
}

fn has_its_pods(set: &Value) -> bool {
    let fields = ["replicas", "availableReplicas", "readyReplicas"];
    is_observed(set) && fields.iter().all(|field| number(&set["status"][field]) == number(&set["spec"]["replicas"]))
}
