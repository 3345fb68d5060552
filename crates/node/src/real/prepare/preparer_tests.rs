//! The preparer against an API that is a table.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use http::{Request, Response, StatusCode};
use parking_lot::Mutex;
use rkube_machinery::host::{Clock, Entropy};
use rkube_machinery::{Value, json, object};
use rkube_operator::kube::Client;
use rkube_operator::kube::client::Body;
use rkube_operator::kube::core::ApiResource;
use rkube_operator::{Caches, Discovered, Event, Item, Selection, Source};
use rkube_runtime::api::{Image, NamespaceMode};
use tokio::sync::broadcast;

use super::{Config, Preparer};
use crate::real::{ContainerContext, Prepare, Problem, volumes};

const UID: &str = "99999999-2222-3333-4444-555555555555";

/// Objects by path, and whoever wants to hear of changes.
struct Api {
    objects: Mutex<BTreeMap<String, Value>>,
    changes: broadcast::Sender<()>,
    tokens: AtomicU64,
    now: AtomicI64,
}

impl Api {
    fn set(&self, path: &str, text: &str) {
        self.objects.lock().insert(path.to_owned(), json::parse(text.as_bytes()).unwrap());
        let _ = self.changes.send(());
    }

    fn answer(&self, path: &str) -> (StatusCode, Value) {
        if path.ends_with("/token") {
            let number = self.tokens.fetch_add(1, Ordering::Relaxed);
            let expires = rkube_machinery::time::format_seconds(self.now.load(Ordering::Relaxed) + 3600);
            let status = object! { "token": format!("token-{number}"), "expirationTimestamp": expires };
            return (StatusCode::CREATED, object! { "spec": object! { "expirationSeconds": 3600 }, "status": status });
        }
        match self.objects.lock().get(path) {
            Some(object) => (StatusCode::OK, object.clone()),
            None => (StatusCode::NOT_FOUND, object! { "message": "none" }),
        }
    }
}

impl Clock for Api {
    fn now_micros(&self) -> i64 {
        self.now.load(Ordering::Relaxed) * 1_000_000
    }
}

#[derive(Default)]
struct Counted(AtomicU64);

impl Entropy for Counted {
    fn fill(&self, bytes: &mut [u8]) {
        let count = self.0.fetch_add(1, Ordering::Relaxed).to_le_bytes();
        bytes.iter_mut().zip(count).for_each(|(byte, count)| *byte = count);
    }
}

/// Tells of a change of anything.
struct Told(Arc<Api>);

impl Source for Told {
    fn follow(&self, resource: &ApiResource, _: &Selection) -> BoxStream<'static, Event> {
        let services =
            [("default", "kubernetes", "10.96.0.1"), ("shop", "db", "10.96.0.7"), ("other", "x", "10.96.0.8")];
        let listed = services.map(|(namespace, name, address)| Item {
            namespace: namespace.into(),
            name: name.into(),
            uid: name.into(),
            revision: 1,
            json: format!(r#"{{"spec":{{"clusterIP":"{address}","ports":[{{"port":443}}]}}}}"#).into(),
        });
        let listed = if resource.plural == "services" { listed.to_vec() } else { Vec::new() };
        let changes = stream::unfold(self.0.changes.subscribe(), |mut changes| async move {
            changes.recv().await.ok()?;
            Some((Event::Listed(Vec::new()), changes))
        });
        let changes = if resource.plural == "services" { stream::pending().boxed() } else { changes.boxed() };
        stream::once(async { Event::Listed(listed) }).chain(changes).boxed()
    }

    fn discover(&self) -> BoxStream<'static, Vec<Discovered>> {
        stream::pending().boxed()
    }

    fn resources(&self) -> BoxFuture<'static, Result<Vec<Discovered>, String>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }
}

struct World {
    api: Arc<Api>,
    preparer: Arc<Preparer>,
    root: tempfile::TempDir,
}

impl World {
    fn new() -> World {
        let (changes, _) = broadcast::channel(64);
        let api = Arc::new(Api {
            objects: Mutex::default(),
            changes,
            tokens: AtomicU64::new(0),
            now: AtomicI64::new(1_800_000_000),
        });
        let root = tempfile::tempdir().unwrap();
        let served = api.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let (status, body) = served.answer(request.uri().path());
            let response = Response::builder().status(status).body(Body::from(json::to_string(&body).into_bytes()));
            async move { Ok::<_, Infallible>(response.unwrap()) }
        });
        let told: Arc<dyn Source> = Arc::new(Told(api.clone()));
        let config = Config {
            client: Client::new(service, "default"),
            caches: Caches::new(told.clone()),
            clock: api.clone(),
            entropy: Arc::new(Counted::default()),
            root: root.path().join("kubelet"),
            logs: root.path().join("logs"),
            cluster_dns: vec!["10.96.0.10".parse().unwrap()],
            cluster_domain: "cluster.local".to_owned(),
            resolv_conf: PathBuf::from("/nowhere/resolv.conf"),
            allocatable: object! { "cpu": "4", "memory": "8Gi" },
            memory_capacity_bytes: 8 << 30,
            recorder: None,
        };
        let preparer = Preparer::start_with(config, told).unwrap();
        World { api, preparer, root }
    }

    fn volume(&self, plugin: &str, name: &str) -> PathBuf {
        self.root.path().join("kubelet/pods").join(UID).join("volumes").join(plugin).join(name)
    }

    async fn wait_for(&self, path: &Path, text: &str) {
        let has = async {
            while std::fs::read_to_string(path).ok().as_deref() != Some(text) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), has).await.expect("the file is never updated");
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = volumes::tear_down(&self.root.path().join("kubelet").canonicalize().unwrap(), UID);
    }
}

fn pod(spec: &str) -> Value {
    let text = format!(
        r#"{{"metadata":{{"name":"web","namespace":"shop","uid":"{UID}","labels":{{"app":"web"}}}},"spec":{spec}}}"#
    );
    json::parse(text.as_bytes()).unwrap()
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[tokio::test]
async fn config_maps_follow_their_objects() {
    let world = World::new();
    let pod = pod(
        r#"{"volumes":[{"name":"v","configMap":{"name":"settings","defaultMode":420}},{"name":"unused","secret":{"secretName":"none"}}],
            "containers":[{"name":"c","volumeMounts":[{"name":"v","mountPath":"/v"}]}]}"#,
    );
    let missing = world.preparer.mount(&pod).await;
    let expected = "MountVolume.SetUp failed for volume \"v\" : configmap \"settings\" not found";
    assert_eq!(missing, Err(Problem::new("FailedMount", expected)));
    world.api.set("/api/v1/namespaces/shop/configmaps/settings", r#"{"data":{"color":"red"}}"#);
    world.preparer.mount(&pod).await.unwrap();
    let file = world.volume("kubernetes.io~configmap", "v").join("color");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "red");
    // Nobody asks for it.
    world.api.set("/api/v1/namespaces/shop/configmaps/settings", r#"{"data":{"color":"blue"}}"#);
    world.wait_for(&file, "blue").await;
    world.preparer.unmount(UID).await.unwrap();
    assert!(world.preparer.known_pods().is_empty());
    // What comes too late makes nothing.
    world.api.set("/api/v1/namespaces/shop/configmaps/settings", r#"{"data":{"color":"green"}}"#);
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(world.preparer.known_pods().is_empty());
}

/// Whoever asks for volumes goes away at any moment, and then somebody takes away what is there.
#[tokio::test]
async fn nothing_is_left_of_mounts_that_nobody_waits_for() {
    const ROUNDS: u64 = 60;
    if !is_root() {
        return;
    }
    let world = World::new();
    world.api.set("/api/v1/namespaces/shop/secrets/keys", r#"{"data":{"K":"dg=="}}"#);
    let pod = pod(
        r#"{"volumes":[{"name":"a","secret":{"secretName":"keys"}},{"name":"b","emptyDir":{"medium":"Memory"}}],
            "containers":[{"name":"c","volumeMounts":[{"name":"a","mountPath":"/a"},{"name":"b","mountPath":"/b","subPath":"x"}]}]}"#,
    );
    let container = &pod.get("spec").list("containers")[0];
    let image = Image::default();
    let context = ContainerContext { attempt: 0, image: &image, addresses: &[], host_addresses: &[], target: None };
    for round in 0..ROUNDS {
        let moment = Duration::from_micros(round * 50);
        let _ = tokio::time::timeout(moment, world.preparer.container(&pod, container, context)).await;
        world.preparer.unmount(UID).await.unwrap();
        // What is still on its way would come now.
        tokio::time::sleep(Duration::from_millis(5)).await;
        assert!(world.preparer.known_pods().is_empty(), "{round}");
    }
}

#[tokio::test]
async fn tokens_are_projected_and_rotated() {
    if !is_root() {
        return;
    }
    let world = World::new();
    world.api.set("/api/v1/namespaces/shop/configmaps/kube-root-ca.crt", r#"{"data":{"ca.crt":"CA"}}"#);
    let pod = pod(r#"{"serviceAccountName":"default","volumes":[{"name":"t","projected":{"defaultMode":420,"sources":[
            {"serviceAccountToken":{"path":"token","expirationSeconds":3600}},
            {"configMap":{"name":"kube-root-ca.crt","items":[{"key":"ca.crt","path":"ca.crt"}]}},
            {"downwardAPI":{"items":[{"path":"namespace","fieldRef":{"fieldPath":"metadata.namespace"}}]}}]}}],
            "containers":[{"name":"c","volumeMounts":[{"name":"t","mountPath":"/t","readOnly":true}]}]}"#);
    world.preparer.mount(&pod).await.unwrap();
    let volume = world.volume("kubernetes.io~projected", "t");
    let read = |name: &str| std::fs::read_to_string(volume.join(name)).unwrap();
    assert_eq!((read("token"), read("ca.crt"), read("namespace")), ("token-0".into(), "CA".into(), "shop".into()));
    world.preparer.refresh(&pod).await.unwrap();
    assert_eq!(read("token"), "token-0");
    world.api.now.fetch_add(2900, Ordering::Relaxed);
    world.preparer.refresh(&pod).await.unwrap();
    assert_eq!(read("token"), "token-1");
    world.preparer.unmount(UID).await.unwrap();
    assert!(!volume.exists());
}

#[tokio::test]
async fn trust_bundles_are_found_by_name_and_by_signer() {
    if !is_root() {
        return;
    }
    let world = World::new();
    let pem = |text: &str| format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n");
    let bundle = |label: &str, text: &str| {
        object! {
            "metadata": object! { "labels": object! { "live": label } },
            "spec": object! { "signerName": "example.com/a", "trustBundle": text.to_owned() },
        }
    };
    let bundles = "/apis/certificates.k8s.io/v1beta1/clustertrustbundles";
    let (one, two) = (pem("one"), pem("two"));
    world.api.set(&format!("{bundles}/b"), &json::to_string(&bundle("yes", &format!("note\n{two}{one}{one}"))));
    let list = object! { "items": vec![bundle("yes", &two), bundle("no", &one)] };
    world.api.set(bundles, &json::to_string(&list));
    let with = |source: &str| {
        pod(&format!(
            r#"{{"volumes":[{{"name":"t","projected":{{"sources":[{{"clusterTrustBundle":{{"path":"ca.pem",{source}}}}}]}}}}],
                "containers":[{{"name":"c","volumeMounts":[{{"name":"t","mountPath":"/t"}}]}}]}}"#
        ))
    };
    let selected = r#""signerName":"example.com/a","labelSelector":{"matchLabels":{"live":"yes"}}"#;
    let table = [
        (r#""name":"b""#, Ok(format!("{one}{two}"))),
        (selected, Ok(two.clone())),
        (r#""name":"none","optional":true"#, Ok(String::new())),
        (
            r#""name":"none""#,
            Err("while getting ClusterTrustBundle: clustertrustbundle.certificates.k8s.io \"none\" not found"),
        ),
        (
            r#""signerName":"example.com/a""#,
            Err("combination of signerName and labelSelector matched zero ClusterTrustBundles"),
        ),
    ];
    for (source, expected) in table {
        let done = world.preparer.mount(&with(source)).await;
        let expected = expected.map_err(|why| format!("MountVolume.SetUp failed for volume \"t\" : {why}"));
        let file = world.volume("kubernetes.io~projected", "t").join("ca.pem");
        let found = done.map(|()| std::fs::read_to_string(file).unwrap()).map_err(|problem| problem.message);
        assert_eq!(found, expected, "{source}");
    }
}

#[tokio::test]
async fn claims_must_be_bound() {
    let world = World::new();
    let pod = pod(r#"{"volumes":[{"name":"v","persistentVolumeClaim":{"claimName":"data"}}],
            "containers":[{"name":"c","volumeMounts":[{"name":"v","mountPath":"/v"}]}]}"#);
    let claim = "/api/v1/namespaces/shop/persistentvolumeclaims/data";
    world.api.set(claim, r#"{"metadata":{"uid":"c"},"status":{"phase":"Pending"}}"#);
    let problem = world.preparer.mount(&pod).await.unwrap_err();
    assert_eq!(
        problem.message,
        "Unable to attach or mount volumes: unmounted volumes=[v], unattached volumes=[], failed to process volumes=[v]: \
         error processing PVC shop/data: PVC is not bound"
    );
    world.api.set(claim, r#"{"metadata":{"uid":"c"},"spec":{"volumeName":"pv"},"status":{"phase":"Bound"}}"#);
    let path = world.root.path().join("disk");
    let volume = format!(
        r#"{{"metadata":{{"name":"pv"}},"spec":{{"claimRef":{{"uid":"c"}},"hostPath":{{"path":"{}","type":"DirectoryOrCreate"}}}}}}"#,
        path.display()
    );
    world.api.set("/api/v1/persistentvolumes/pv", &volume);
    world.preparer.mount(&pod).await.unwrap();
    assert!(path.is_dir());
    world.preparer.unmount(UID).await.unwrap();
    assert!(path.is_dir());
}

#[tokio::test]
async fn containers_are_made_of_the_pod_and_its_objects() {
    let world = World::new();
    world.api.set("/api/v1/namespaces/shop/secrets/keys", r#"{"data":{"K":"dg=="}}"#);
    let pod = pod(
        r#"{"enableServiceLinks":true,"subdomain":"s","volumes":[{"name":"e","emptyDir":{}}],"containers":[{"name":"c","image":"web:1",
            "command":["run","$(KEY)","$(DB_SERVICE_HOST)"],"terminationMessagePath":"/dev/termination-log",
            "env":[{"name":"KEY","valueFrom":{"secretKeyRef":{"name":"keys","key":"K"}}}],
            "volumeMounts":[{"name":"e","mountPath":"/e"}]}]}"#,
    );
    let container = &pod.get("spec").list("containers")[0];
    let image = Image { id: "sha256:1".to_owned(), ..Image::default() };
    let context = ContainerContext {
        attempt: 3,
        image: &image,
        addresses: &["10.1.0.5".parse().unwrap()],
        host_addresses: &[],
        target: Some("other"),
    };
    let made = world.preparer.container(&pod, container, context).await.unwrap();
    assert_eq!(made.command, ["run", "v", "10.96.0.7"]);
    let names: Vec<&str> = made.environment.iter().map(|(name, _)| name.as_str()).collect();
    assert!(names.contains(&"KUBERNETES_SERVICE_HOST") && !names.contains(&"X_SERVICE_HOST"), "{names:?}");
    let paths: Vec<&str> = made.mounts.iter().map(|mount| mount.container_path.as_str()).collect();
    assert_eq!(paths, ["/e", "/etc/hosts", "/dev/termination-log"]);
    assert_eq!(made.mounts[2].host_path, world.preparer.termination_log(UID, "c", 3));
    let hosts = std::fs::read_to_string(&made.mounts[1].host_path).unwrap();
    assert!(hosts.ends_with("10.1.0.5\tweb.s.shop.svc.cluster.local\tweb\n"), "{hosts}");
    assert_eq!((made.namespaces.pid, made.target.as_deref()), (NamespaceMode::Target, Some("other")));
    assert_eq!(made.log_path, Path::new("c/3.log"));
    assert!(world.root.path().join(format!("logs/shop_web_{UID}/c")).is_dir());
    let sandbox = world.preparer.sandbox(&pod, 0).await.unwrap();
    assert_eq!(sandbox.dns.servers, ["10.96.0.10"]);
    let gone = json::parse(br#"{"name":"c","envFrom":[{"secretRef":{"name":"none"}}]}"#).unwrap();
    let problem = world.preparer.container(&pod, &gone, context).await.unwrap_err();
    assert_eq!(problem, Problem::new("CreateContainerConfigError", "secret \"none\" not found"));
}

#[tokio::test]
async fn what_is_not_known_is_refused() {
    let world = World::new();
    let table = [
        (r#""csi":{"driver":"x"}"#, Some("volume \"v\" is of kind csi, which this node does not have")),
        (r#""ephemeral":{}"#, Some("volume \"v\" is of kind ephemeral, which this node does not have")),
        (
            r#""projected":{"sources":[{"podCertificate":{}}]}"#,
            Some("volume \"v\" projects a podCertificate, which this node does not have"),
        ),
        (r#""emptyDir":{}"#, None),
    ];
    for (source, expected) in table {
        let text = format!(
            r#"{{"volumes":[{{"name":"v",{source}}}],"containers":[{{"name":"c","volumeMounts":[{{"name":"v","mountPath":"/v"}}]}}]}}"#
        );
        let found = world.preparer.admit(&pod(&text)).err().map(|problem| problem.message);
        assert_eq!(found.as_deref(), expected);
    }
}
