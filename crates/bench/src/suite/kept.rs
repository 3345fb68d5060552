//! Some objects of every kind that a controller looks after, as they are when there is nothing left to do about them.

use anyhow::{Context, Result};
use rkube_operator::kube::api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use rkube_operator::kube::{Api, core::GroupVersionKind};
use rkube_testkit::TestCluster;
use serde_json::{Value, json};

/// Nobody has its key.
const SIGNING_REQUEST: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlIY01JR0RBZ0VBTUNFeEVEQU9CZ05WQkFNTUIzTnZiV1Z2Ym1VeERUQUxCZ05WQkFvTUJITnZiV1V3V1RBVApCZ2NxaGtqT1BRSUJCZ2dxaGtqT1BRTUJCd05DQUFRK2NTUFhNSHQza216NkhNdkVxSTV0OVRJa1RKcFpYZXlMCjJYUVhxZC9IVWIvdkRWcThKeG9weVZ5VUNGNkVDV3hiZTh5bkp3RWdmVjg4QTRRVWtwQ2hvQUF3Q2dZSUtvWkkKemowRUF3SURTQUF3UlFJaEFKY1psYWlWaUlTQXpMODA0R2s4QjdEVGdrNHdBUDVjMk4zR08wVnV0VmZmQWlCaQpmT09KdDA3Z0RJUXdHY1g1RVdHWVJXa2tXSGlKc2QrQzFDejdRc3dyL0E9PQotLS0tLUVORCBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0K";

pub struct Kind {
    resource: ApiResource,
    namespace: Option<&'static str>,
}

impl Kind {
    pub fn new(version: &str, kind: &str, namespace: Option<&'static str>) -> Kind {
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        Kind { resource, namespace }
    }

    fn api(&self, cluster: &TestCluster) -> Api<DynamicObject> {
        match self.namespace {
            Some(namespace) => Api::namespaced_with(cluster.client(), namespace, &self.resource),
            None => Api::all_with(cluster.client(), &self.resource),
        }
    }

    /// Makes so many, each by its number; they have names, unless what is made says otherwise.
    pub async fn fill(&self, cluster: &TestCluster, count: usize, make: impl Fn(usize) -> Value) -> Result<()> {
        let api = self.api(cluster);
        for index in 0..count {
            let mut object = make(index);
            if object["metadata"]["name"].is_null() {
                object["metadata"]["name"] = json!(format!("{}-{index}", self.resource.kind.to_lowercase()));
            }
            object["apiVersion"] = json!(self.resource.api_version);
            object["kind"] = json!(self.resource.kind);
            let made = api.create(&PostParams::default(), &serde_json::from_value(object)?).await;
            made.with_context(|| format!("the {} cannot be made", self.resource.kind))?;
        }
        Ok(())
    }

    /// Changes something of all objects that is nothing to anybody.
    pub async fn touch(&self, cluster: &TestCluster, round: usize) -> Result<()> {
        // Endpoints have the labels of their Service, and ReplicaSets the annotations of their Deployment: those are work.
        let field = if self.resource.kind == "Service" { "annotations" } else { "labels" };
        let patch = Patch::Merge(json!({ "metadata": { field: { "looked-at": round.to_string() } } }));
        let api = self.api(cluster);
        for object in api.list_metadata(&ListParams::default()).await? {
            let name = object.metadata.name.context("an object without a name")?;
            api.patch_metadata(&name, &PatchParams::default(), &patch).await?;
        }
        Ok(())
    }
}

/// Makes so many of every kind, and says which they are.
pub async fn fill_all(cluster: &TestCluster, count: usize) -> Result<Vec<Kind>> {
    let mut kinds = Vec::new();
    for &(version, kind, namespace, make) in TABLE {
        let kind = Kind::new(version, kind, namespace);
        kind.fill(cluster, count, make).await?;
        // What endpoints say is mirrored, all of it: to touch them is work. Their services are touched.
        if kind.resource.kind != "Endpoints" {
            kinds.push(kind);
        }
    }
    // These are there already.
    kinds.push(Kind::new("apps/v1", "ReplicaSet", Some("default")));
    kinds.push(Kind::new("v1", "Pod", Some("default")));
    kinds.push(Kind::new("v1", "Node", None));
    Ok(kinds)
}

type Row = (&'static str, &'static str, Option<&'static str>, fn(usize) -> Value);

const HERE: Option<&str> = Some("default");

const TABLE: &[Row] = &[
    ("apps/v1", "Deployment", HERE, |index| workload("deployment", index)),
    ("apps/v1", "StatefulSet", HERE, |index| workload("statefulset", index)),
    ("apps/v1", "DaemonSet", HERE, daemon_set),
    ("v1", "ReplicationController", HERE, replication_controller),
    ("batch/v1", "Job", HERE, job),
    ("batch/v1", "CronJob", HERE, cron_job),
    ("v1", "Service", HERE, service),
    ("v1", "Endpoints", HERE, endpoints),
    ("v1", "PersistentVolumeClaim", HERE, claim),
    ("v1", "PersistentVolume", None, volume),
    ("v1", "ServiceAccount", HERE, |_| json!({})),
    ("v1", "Secret", Some("kube-system"), bootstrap_token),
    ("policy/v1", "PodDisruptionBudget", HERE, budget),
    ("autoscaling/v2", "HorizontalPodAutoscaler", HERE, scaler),
    ("v1", "ResourceQuota", HERE, |_| json!({ "spec": { "hard": { "count/secrets": "1000" } } })),
    ("v1", "Namespace", None, |_| json!({})),
    ("rbac.authorization.k8s.io/v1", "ClusterRole", None, aggregated_role),
    ("certificates.k8s.io/v1", "CertificateSigningRequest", None, signing_request),
    ("networking.k8s.io/v1", "ServiceCIDR", None, service_range),
    ("storage.k8s.io/v1", "VolumeAttributesClass", None, attributes_class),
    ("storage.k8s.io/v1", "VolumeAttachment", None, attachment),
    ("resource.k8s.io/v1", "ResourceClaim", HERE, device_claim),
    ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", None, policy),
];

/// One with a replica of its own.
pub fn workload(kind: &str, index: usize) -> Value {
    let labels = json!({ "app": format!("{kind}-{index}") });
    json!({ "spec": { "replicas": 1, "selector": { "matchLabels": labels }, "template": pods(&labels, "Always") } })
}

fn daemon_set(index: usize) -> Value {
    let mut set = workload("daemonset", index);
    set["spec"]["replicas"] = Value::Null;
    set["spec"]["template"]["spec"]["nodeSelector"] = json!({ "no": "where" });
    set
}

fn replication_controller(index: usize) -> Value {
    let mut controller = workload("replicationcontroller", index);
    controller["spec"]["selector"] = controller["spec"]["selector"]["matchLabels"].take();
    controller
}

/// Every other one has ended, and stays for long.
fn job(index: usize) -> Value {
    let mut template = pods(&json!({}), "Never");
    template["spec"]["containers"][0]["command"] = json!(["true"]);
    json!({ "spec": { "template": template, "suspend": index.is_multiple_of(2), "ttlSecondsAfterFinished": 100_000 } })
}

fn cron_job(_: usize) -> Value {
    json!({ "spec": { "schedule": "0 0 1 1 *", "jobTemplate": { "spec": { "template": pods(&json!({}), "Never") } } } })
}

/// Every other one has no selector: its endpoints are somebody's own.
fn service(index: usize) -> Value {
    let selector = (index.is_multiple_of(2)).then(|| json!({ "app": format!("deployment-{index}") }));
    json!({ "spec": { "selector": selector, "ports": [{ "port": 80 }] } })
}

fn endpoints(index: usize) -> Value {
    let name = if index % 2 == 1 { format!("service-{index}") } else { format!("endpoints-{index}") };
    let subset = json!({ "addresses": [{ "ip": "192.0.2.1" }, { "ip": "192.0.2.2" }], "ports": [{ "port": 80 }] });
    json!({ "metadata": { "name": name }, "subsets": [subset] })
}

/// Every other one has its volume.
fn claim(index: usize) -> Value {
    let class = if index.is_multiple_of(2) { "none" } else { "local-path" };
    json!({ "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } },
                      "storageClassName": class } })
}

fn volume(_: usize) -> Value {
    json!({ "spec": { "accessModes": ["ReadWriteOnce"], "capacity": { "storage": "1Gi" }, "storageClassName": "none",
                      "hostPath": { "path": "/x" } } })
}

fn bootstrap_token(index: usize) -> Value {
    let id = format!("{index:06}");
    let data = json!({ "token-id": id, "token-secret": "0123456789abcdef", "expiration": "2999-01-01T00:00:00Z",
                       "usage-bootstrap-authentication": "true" });
    json!({ "metadata": { "name": format!("bootstrap-token-{id}") }, "type": "bootstrap.kubernetes.io/token",
            "stringData": data })
}

fn budget(index: usize) -> Value {
    let selector = json!({ "matchLabels": { "app": format!("deployment-{index}") } });
    json!({ "spec": { "minAvailable": 1, "selector": selector } })
}

fn scaler(index: usize) -> Value {
    let target = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "name": format!("deployment-{index}") });
    json!({ "spec": { "scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 1 } })
}

fn aggregated_role(index: usize) -> Value {
    let selector = json!({ "matchLabels": { "aggregate": format!("{index}") } });
    json!({ "aggregationRule": { "clusterRoleSelectors": [selector] } })
}

fn signing_request(_: usize) -> Value {
    json!({ "spec": { "request": SIGNING_REQUEST, "signerName": "kubernetes.io/kube-apiserver-client",
                      "usages": ["client auth"] } })
}

fn service_range(index: usize) -> Value {
    json!({ "spec": { "cidrs": [format!("10.{}.{}.0/24", 200 + index / 256, index % 256)] } })
}

fn attachment(index: usize) -> Value {
    let source = json!({ "persistentVolumeName": format!("persistentvolume-{index}") });
    json!({ "spec": { "attacher": "example.com", "nodeName": "elsewhere", "source": source } })
}

fn attributes_class(_: usize) -> Value {
    json!({ "driverName": "example.com", "parameters": { "speed": "high" } })
}

fn device_claim(_: usize) -> Value {
    let request = json!({ "name": "one", "exactly": { "deviceClassName": "example.com" } });
    json!({ "spec": { "devices": { "requests": [request] } } })
}

fn policy(_: usize) -> Value {
    let rule = json!({ "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["secrets"] });
    json!({ "spec": { "matchConstraints": { "resourceRules": [rule] },
                      "validations": [{ "expression": "object.metadata.name != 'x'" }] } })
}

fn pods(labels: &Value, restart_policy: &str) -> Value {
    // Autoscalers have something to measure by.
    let resources = json!({ "requests": { "cpu": "10m" } });
    let containers = json!([{ "name": "main", "image": "registry.k8s.io/pause:3.10", "resources": resources }]);
    json!({ "metadata": { "labels": labels }, "spec": { "restartPolicy": restart_policy, "containers": containers } })
}
