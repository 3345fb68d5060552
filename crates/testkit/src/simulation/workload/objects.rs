//! What users make.

use serde_json::{Value, json};

use super::others::request;
use super::{Made, Workload};

/// Somebody has to take it off before the object goes.
const FINALIZER: &str = "example.com/held";

/// Kinds that users make, by plural, and where they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Deployment,
    StatefulSet,
    DaemonSet,
    Job,
    CronJob,
    Service,
    Budget,
    Quota,
    Autoscaler,
    Widget,
    Namespace,
    ReplicationController,
    /// A Service whose Endpoints somebody writes by hand.
    Mirrored,
    /// A ClusterRole: a sum of others, or one of those.
    Role,
    /// A CertificateSigningRequest.
    Request,
    /// A Secret by which nodes could join.
    Token,
}

/// What most users have.
pub(super) const KINDS: [Kind; 11] = [
    Kind::Deployment,
    Kind::StatefulSet,
    Kind::DaemonSet,
    Kind::Job,
    Kind::CronJob,
    Kind::Service,
    Kind::Budget,
    Kind::Quota,
    Kind::Autoscaler,
    Kind::Widget,
    Kind::Namespace,
];

/// What some have, too.
pub(super) const OTHERS: [Kind; 5] =
    [Kind::ReplicationController, Kind::Mirrored, Kind::Role, Kind::Request, Kind::Token];

impl Kind {
    /// Where one of them is, if that is not the user's to say.
    pub fn namespace(self) -> Option<&'static str> {
        match self {
            Kind::Namespace | Kind::Role | Kind::Request => Some(""),
            Kind::Token => Some("kube-system"),
            _ => None,
        }
    }

    pub fn name(self, number: u64) -> String {
        match self {
            Kind::Token => format!("bootstrap-token-{number:06}"),
            _ => format!("{}-{number}", self.prefix()),
        }
    }

    pub fn collection(self, namespace: &str) -> String {
        let (group, plural) = match self {
            Kind::Deployment => ("apis/apps/v1", "deployments"),
            Kind::StatefulSet => ("apis/apps/v1", "statefulsets"),
            Kind::DaemonSet => ("apis/apps/v1", "daemonsets"),
            Kind::Job => ("apis/batch/v1", "jobs"),
            Kind::CronJob => ("apis/batch/v1", "cronjobs"),
            Kind::Service | Kind::Mirrored => ("api/v1", "services"),
            Kind::ReplicationController => ("api/v1", "replicationcontrollers"),
            Kind::Token => ("api/v1", "secrets"),
            Kind::Budget => ("apis/policy/v1", "poddisruptionbudgets"),
            Kind::Quota => ("api/v1", "resourcequotas"),
            Kind::Autoscaler => ("apis/autoscaling/v2", "horizontalpodautoscalers"),
            Kind::Widget => ("apis/example.com/v1", "widgets"),
            Kind::Namespace => return "/api/v1/namespaces".to_owned(),
            Kind::Role => return "/apis/rbac.authorization.k8s.io/v1/clusterroles".to_owned(),
            Kind::Request => return "/apis/certificates.k8s.io/v1/certificatesigningrequests".to_owned(),
        };
        format!("/{group}/namespaces/{namespace}/{plural}")
    }

    fn prefix(self) -> &'static str {
        match self {
            Kind::Deployment => "web",
            Kind::StatefulSet => "db",
            Kind::DaemonSet => "agent",
            Kind::Job => "job",
            Kind::CronJob => "cron",
            Kind::Service => "svc",
            Kind::Budget => "pdb",
            Kind::Quota => "quota",
            Kind::Autoscaler => "hpa",
            Kind::Widget => "widget",
            Kind::Namespace => "ns",
            Kind::ReplicationController => "rc",
            Kind::Mirrored => "ext",
            Kind::Role => "role",
            Kind::Request => "csr",
            Kind::Token => "token",
        }
    }
}

/// The custom resource that users have: two versions, so that one of them is made of the other.
pub(super) fn definition() -> Value {
    let schema = json!({ "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } });
    let version =
        |name: &str, stored: bool| json!({ "name": name, "served": true, "storage": stored, "schema": schema });
    let names = json!({ "plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList" });
    json!({
        "metadata": { "name": "widgets.example.com" },
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": names,
            "versions": [version("v1", true), version("v2", false)],
        },
    })
}

/// Claims of this class may ask for more later.
const GROWS: &str = "grows";

pub(super) fn growing_class() -> Value {
    json!({
        "metadata": { "name": GROWS }, "provisioner": "rkube.io/local-path", "allowVolumeExpansion": true,
        "volumeBindingMode": "WaitForFirstConsumer",
    })
}

impl Workload {
    pub(super) fn object(&self, made: &Made) -> Value {
        let name = made.name.as_str();
        let metadata = json!({ "name": name, "labels": { "app": name } });
        let selector = json!({ "matchLabels": { "app": name } });
        let spec = match made.kind {
            Kind::Deployment => json!({
                "replicas": self.below(6), "selector": selector, "template": self.template(name),
                "strategy": self.strategy(), "minReadySeconds": self.below(2) * 5,
            }),
            Kind::StatefulSet => json!({
                "replicas": self.below(4), "selector": selector, "template": self.template(name), "serviceName": name,
                "podManagementPolicy": if self.below(3) == 0 { "Parallel" } else { "OrderedReady" },
                "volumeClaimTemplates": self.claims(), "ordinals": { "start": self.below(2) * self.below(4) },
                "updateStrategy": { "rollingUpdate": { "partition": self.below(2) * self.below(3) } },
                "persistentVolumeClaimRetentionPolicy": {
                    "whenDeleted": self.pick(&["Retain", "Delete"]), "whenScaled": self.pick(&["Retain", "Delete"]),
                },
            }),
            Kind::DaemonSet => json!({
                "selector": selector, "template": self.template(name), "updateStrategy": self.daemon_strategy(),
            }),
            Kind::Job => self.job(),
            Kind::CronJob => json!({
                "schedule": self.pick(&["*/2 * * * *", "*/15 * * * *", "0 * * * *", "0 0 31 2 *"]),
                "concurrencyPolicy": self.pick(&["Allow", "Forbid", "Replace"]),
                "jobTemplate": { "spec": self.job() },
            }),
            Kind::Service => {
                let app = self.app(&[Kind::Deployment, Kind::ReplicationController]);
                json!({ "selector": { "app": app }, "ports": [{ "port": 80 }] })
            }
            Kind::Budget => self.budget(self.app(&[Kind::Deployment, Kind::StatefulSet, Kind::ReplicationController])),
            Kind::Quota => json!({ "hard": { "pods": (self.below(12) + 4).to_string(), "count/jobs.batch": "3" } }),
            Kind::Autoscaler => {
                let target = json!({ "type": "Utilization", "averageUtilization": 50 });
                let metric = json!({ "type": "Resource", "resource": { "name": "cpu", "target": target } });
                let scaled = self.one_of(&[Kind::Deployment]).map(|made| made.name);
                let scaled = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "name": scaled });
                json!({ "scaleTargetRef": scaled, "minReplicas": 1, "maxReplicas": 5, "metrics": [metric] })
            }
            Kind::Widget => return self.widget(name),
            Kind::Namespace => return json!({ "metadata": metadata }),
            Kind::ReplicationController => json!({
                "replicas": self.below(4), "selector": { "app": name }, "template": self.template(name),
            }),
            Kind::Mirrored => json!({ "ports": [{ "port": 80 }] }),
            Kind::Role => return self.role(name),
            Kind::Request => return request(name),
            Kind::Token => return self.token(name),
        };
        json!({ "metadata": metadata, "spec": spec })
    }

    fn template(&self, app: &str) -> Value {
        let requests = json!({ "cpu": format!("{}m", 50 + 50 * self.below(5)), "memory": "128Mi" });
        let container = json!({ "name": "main", "image": "web:1", "resources": { "requests": requests } });
        let usage = json!({ "sim.rkube.io/cpu-usage": format!("{}m", 20 + 20 * self.below(8)) });
        let mut spec = json!({ "containers": [container] });
        if self.below(6) == 0 {
            let template = json!({ "spec": self.claim() });
            spec["volumes"] = json!([{ "name": "scratch", "ephemeral": { "volumeClaimTemplate": template } }]);
        }
        json!({ "metadata": { "labels": { "app": app }, "annotations": usage }, "spec": spec })
    }

    /// Some want a volume.
    fn claims(&self) -> Value {
        if self.below(3) > 0 {
            return json!([]);
        }
        json!([{ "metadata": { "name": "data" }, "spec": self.claim() }])
    }

    fn claim(&self) -> Value {
        let resources = json!({ "requests": { "storage": "1Gi" } });
        let mut spec = json!({ "accessModes": ["ReadWriteOnce"], "resources": resources });
        if self.below(2) == 0 {
            spec["storageClassName"] = json!(GROWS);
        }
        spec
    }

    /// A custom resource, some of which somebody has to let go.
    fn widget(&self, name: &str) -> Value {
        let mut widget = json!({ "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": name } });
        widget["spec"] = json!({ "size": self.below(9) });
        if self.below(2) == 0 {
            widget["metadata"]["finalizers"] = json!([FINALIZER]);
        }
        widget
    }

    /// The label of the pods of one of these.
    fn app(&self, kinds: &[Kind]) -> Option<String> {
        self.one_of(kinds).map(|made| made.name)
    }

    fn budget(&self, app: Option<String>) -> Value {
        let mut spec = match self.below(4) {
            0 => json!({ "minAvailable": self.below(3) }),
            1 => json!({ "minAvailable": "50%" }),
            2 => json!({ "maxUnavailable": "30%" }),
            _ => json!({ "maxUnavailable": 1 }),
        };
        spec["selector"] = json!({ "matchLabels": { "app": app } });
        spec["unhealthyPodEvictionPolicy"] = json!(self.pick(&["IfHealthyBudget", "AlwaysAllow"]));
        spec
    }

    fn strategy(&self) -> Value {
        match self.below(4) {
            0 => json!({ "type": "Recreate" }),
            1 => json!({ "type": "RollingUpdate", "rollingUpdate": { "maxSurge": 0, "maxUnavailable": 1 } }),
            2 => json!({ "type": "RollingUpdate", "rollingUpdate": { "maxSurge": 2, "maxUnavailable": 0 } }),
            _ => json!({ "type": "RollingUpdate" }),
        }
    }

    fn daemon_strategy(&self) -> Value {
        let bounds = match self.below(4) {
            0 => json!({ "maxUnavailable": 2 }),
            1 => json!({ "maxUnavailable": "25%" }),
            2 => json!({ "maxSurge": 1, "maxUnavailable": 0 }),
            _ => return json!({ "type": "RollingUpdate" }),
        };
        json!({ "type": "RollingUpdate", "rollingUpdate": bounds })
    }
}
