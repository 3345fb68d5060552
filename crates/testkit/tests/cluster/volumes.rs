//! The volumes of a real node against a real API server, under the node's identity.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use rkube_machinery::Value;
use rkube_node::real::Prepare as _;
use rkube_node::real::prepare::{Config, Preparer};
use rkube_operator::Caches;
use rkube_operator::kube::api::{Api, Patch, PatchParams, PostParams};
use rkube_testkit::TestCluster;
use serde_json::json;

const NODE: &str = "n1";

struct Node {
    cluster: TestCluster,
    preparer: Arc<Preparer>,
    root: tempfile::TempDir,
}

impl Node {
    async fn start() -> Node {
        let cluster = TestCluster::start().await;
        let root = tempfile::tempdir().unwrap();
        let config = Config {
            client: cluster.client_as(&format!("system:node:{NODE}"), &["system:nodes"]),
            caches: Caches::new(cluster.source()),
            clock: cluster.clock().clone(),
            entropy: cluster.host().entropy().clone(),
            root: root.path().join("kubelet"),
            logs: root.path().join("logs"),
            cluster_dns: Vec::new(),
            cluster_domain: "cluster.local".to_owned(),
            resolv_conf: PathBuf::from("/etc/resolv.conf"),
            allocatable: rkube_machinery::object! { "cpu": "4", "memory": "1Gi" },
            memory_capacity_bytes: 1 << 30,
            recorder: None,
        };
        Node { preparer: Preparer::start(config).unwrap(), cluster, root }
    }

    fn api<K>(&self) -> Api<K>
    where
        K: rkube_operator::kube::Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.cluster.client(), "default")
    }

    async fn pod(&self, spec: serde_json::Value) -> (Value, String) {
        let pod: Pod = serde_json::from_value(json!({ "metadata": { "name": "p" }, "spec": spec })).unwrap();
        let made = self
            .cluster
            .eventually("the pod is admitted", async || {
                self.api().create(&PostParams::default(), &pod).await.map_err(|error| error.to_string())
            })
            .await;
        let uid = made.metadata.uid.clone().unwrap();
        (rkube_machinery::json::parse(serde_json::to_string(&made).unwrap().as_bytes()).unwrap(), uid)
    }

    async fn reads(&self, path: &Path, text: &str) {
        let found = async {
            while std::fs::read_to_string(path).ok().as_deref() != Some(text) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), found).await.expect("it is never updated");
    }
}

#[tokio::test]
async fn volumes_follow_their_objects_and_tokens_are_the_pods() {
    let node = Node::start().await;
    let map = |text: &str| json!({ "metadata": { "name": "settings" }, "data": { "color": text } });
    let created: ConfigMap = serde_json::from_value(map("red")).unwrap();
    node.api().create(&PostParams::default(), &created).await.unwrap();
    let secret: Secret =
        serde_json::from_value(json!({ "metadata": { "name": "keys" }, "stringData": { "key": "k" } })).unwrap();
    node.api().create(&PostParams::default(), &secret).await.unwrap();
    let (pod, uid) = node
        .pod(json!({
            "nodeName": NODE,
            "volumes": [
                { "name": "v", "configMap": { "name": "settings" } },
                { "name": "s", "secret": { "secretName": "keys" } },
            ],
            "containers": [{ "name": "c", "image": "i", "volumeMounts": [
                { "name": "v", "mountPath": "/v" }, { "name": "s", "mountPath": "/s" },
            ] }],
        }))
        .await;
    if !rustix::process::geteuid().is_root() {
        return;
    }
    node.preparer.mount(&pod).await.unwrap();
    let volumes = node.root.path().join("kubelet/pods").join(&uid).join("volumes");
    let color = volumes.join("kubernetes.io~configmap/v/color");
    node.reads(&color, "red").await;
    node.reads(&volumes.join("kubernetes.io~secret/s/key"), "k").await;
    // What every pod has: a token, the authority of the server, its namespace.
    let name = pod.get("spec").list("volumes").iter().map(|volume| volume.str("name"));
    let name = name.into_iter().find(|name| name.starts_with("kube-api-access-")).unwrap().to_owned();
    let access = volumes.join("kubernetes.io~projected").join(&name);
    assert_eq!(std::fs::read_to_string(access.join("token")).unwrap().split('.').count(), 3);
    assert!(std::fs::read_to_string(access.join("ca.crt")).unwrap().starts_with("-----BEGIN CERTIFICATE-----"));
    node.reads(&access.join("namespace"), "default").await;
    // A change is seen without anybody asking.
    let changes = Patch::Merge(map("blue"));
    node.api::<ConfigMap>().patch("settings", &PatchParams::default(), &changes).await.unwrap();
    node.reads(&color, "blue").await;
    node.preparer.unmount(&uid).await.unwrap();
    assert!(!volumes.exists());
    node.cluster.shutdown().await;
}
