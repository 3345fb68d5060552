//! Several candidates for one lease: one works, others take over from it, and who does not lead writes nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Event, ServiceAccount};
use rkube_cluster::parts::{Election, Selection, Settings, Timing};
use rkube_cluster::{Controllers, Part};
use rkube_operator::kube::api::{Api, DeleteParams, ListParams, PostParams};
use rkube_operator::kube::{Client, ResourceExt as _};
use rkube_operator::{Action, Caches, Context, Controller, Environment, Error, Fence, Key, LeaderElection};
use rkube_operator::{Manager, Operator};
use rkube_testkit::TestCluster;
use serde_json::json;
use tokio::sync::Notify;
use tower::Layer as _;

const SYSTEM: &str = "kube-system";
const MANAGER: &str = "kube-controller-manager";

async fn cluster() -> TestCluster {
    TestCluster::builder().controllers("").without_scheduler().virtual_time().start().await
}

/// All controllers, as one of several candidates.
fn controllers(cluster: &TestCluster, identity: &str) -> Manager {
    let election = Election::new("host", Some(identity.to_owned()), Timing::default()).unwrap();
    let options = Controllers {
        signing: BTreeMap::new(),
        root_ca: "authority".to_owned(),
        selection: Selection::default(),
        settings: Settings::default(),
        node_ranges: None,
        election: Some(election),
        local_path: None,
    };
    (Part::from(options).start)(cluster.host())
}

async fn holder(client: &Client) -> (String, i32) {
    let leases: Api<Lease> = Api::namespaced(client.clone(), SYSTEM);
    let spec = leases.get_opt(MANAGER).await.unwrap().and_then(|lease| lease.spec).unwrap_or_default();
    (spec.holder_identity.unwrap_or_default(), spec.lease_transitions.unwrap_or_default())
}

/// Whether controllers work: a namespace gets its service account within this time.
async fn works(cluster: &TestCluster, namespace: &str, within: Duration) -> bool {
    let made = serde_json::from_value(json!({ "metadata": { "name": namespace } })).unwrap();
    let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(cluster.client());
    namespaces.create(&PostParams::default(), &made).await.unwrap();
    cluster.advance(within).await;
    let accounts: Api<ServiceAccount> = Api::namespaced(cluster.client(), namespace);
    accounts.get_opt("default").await.unwrap().is_some()
}

const AT_ONCE: Duration = Duration::from_millis(100);

#[tokio::test]
async fn controllers_go_on_when_their_leader_is_gone() {
    let cluster = cluster().await;
    let client = cluster.client();
    let mut first = controllers(&cluster, "first");
    assert!(works(&cluster, "a", AT_ONCE).await);
    let mut second = controllers(&cluster, "second");
    cluster.advance(Duration::from_secs(60)).await;
    assert_eq!(holder(&client).await, ("first".to_owned(), 0));
    assert_eq!((first.health().check(), second.health().check()), (Ok(()), Ok(())));
    assert!(second.metrics().text().contains("leader_election_master_status{name=\"kube-controller-manager\"} 0\n"));
    assert!(first.metrics().text().contains("leader_election_master_status{name=\"kube-controller-manager\"} 1\n"));

    // An orderly end hands over at once.
    first.shutdown().await;
    assert!(works(&cluster, "b", AT_ONCE).await);
    assert_eq!(holder(&client).await, ("second".to_owned(), 1));

    // A crash does so when the lease has run out, and not before.
    let third = controllers(&cluster, "third");
    cluster.advance(Duration::from_secs(60)).await;
    drop(second);
    assert!(!works(&cluster, "c", Duration::from_secs(12)).await);
    assert!(works(&cluster, "d", Duration::from_secs(13)).await);
    assert_eq!(holder(&client).await, ("third".to_owned(), 2));
    // Whoever comes back under the same identity has it at once.
    drop(third);
    let third = controllers(&cluster, "third");
    assert!(works(&cluster, "e", AT_ONCE).await);
    assert_eq!(holder(&client).await, ("third".to_owned(), 2));
    second = controllers(&cluster, "second");
    cluster.advance(Duration::from_secs(60)).await;
    assert!(!second.leadership().leads() && third.leadership().leads());

    let events: Api<Event> = Api::namespaced(client, SYSTEM);
    let events = events.list(&ListParams::default()).await.unwrap().items;
    let mut said: Vec<String> = events
        .iter()
        .filter(|event| {
            event.reason.as_deref() == Some("LeaderElection") && event.involved_object.kind.as_deref() == Some("Lease")
        })
        .map(|event| event.message.clone().unwrap_or_default())
        .collect();
    said.sort_unstable();
    said.dedup();
    let expected = ["first became leader", "first stopped leading", "second became leader", "third became leader"];
    assert_eq!(said, expected);
}

#[tokio::test]
async fn a_lease_that_is_deleted_changes_nothing() {
    let cluster = cluster().await;
    let (first, second) = (controllers(&cluster, "first"), controllers(&cluster, "second"));
    cluster.advance(Duration::from_secs(10)).await;
    let leases: Api<Lease> = Api::namespaced(cluster.client(), SYSTEM);
    leases.delete(MANAGER, &DeleteParams::default()).await.unwrap();
    cluster.advance(Duration::from_secs(10)).await;
    assert_eq!(holder(&cluster.client()).await, ("first".to_owned(), 0));
    assert!(first.leadership().leads() && !second.leadership().leads());
}

/// Everything that a process sends stops here while the process does.
#[derive(Clone, Default)]
struct Pause {
    is_stopped: Arc<AtomicBool>,
    woken: Arc<Notify>,
}

impl Pause {
    fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
    }

    fn wake(&self) {
        self.is_stopped.store(false, Ordering::Relaxed);
        self.woken.notify_waiters();
    }

    async fn passed(&self) {
        while self.is_stopped.load(Ordering::Relaxed) {
            self.woken.notified().await;
        }
    }
}

/// An operator that writes its name into a map, again and again, each time after a while.
struct Candidate {
    operator: Operator,
    pause: Pause,
    /// How many of its requests that are not about leases have reached the server.
    writes: Arc<AtomicU32>,
}

fn candidate(cluster: &TestCluster, name: &'static str) -> Candidate {
    let (pause, writes, fence) = (Pause::default(), Arc::new(AtomicU32::new(0)), Fence::default());
    let (server, counted) = (cluster.client(), writes.clone());
    let transport = tower::service_fn(move |request: http::Request<rkube_operator::kube::client::Body>| {
        let (server, counted) = (server.clone(), counted.clone());
        async move {
            let path = request.uri().path();
            if !path.contains("/leases") && !path.contains("/events") {
                counted.fetch_add(1, Ordering::Relaxed);
            }
            server.send(request).await
        }
    });
    // Above the fence: a process is stopped with what it was about to send.
    let (gate, mut fenced) = (pause.clone(), fence.layer(transport));
    let held = tower::service_fn(move |request| {
        let (gate, sending) = (gate.clone(), tower::Service::call(&mut fenced, request));
        async move {
            gate.passed().await;
            sending.await
        }
    });
    let caches = Caches::new(cluster.source());
    let client = caches.client(held, "default");
    let environment = Environment { client, caches, fence, ..cluster.environment() };
    let election = LeaderElection::lease("default", "writers").identity(name);
    let mut operator = Operator::new(environment).leader_election(election).unwrap();
    let controller = Controller::<ConfigMap>::new(name);
    operator.controller(controller, move |context, key| write(context, key, name));
    Candidate { operator, pause, writes }
}

async fn write(context: Context, key: Key, name: &str) -> Result<Action, Error> {
    if key.name != "written" {
        return Ok(Action::done());
    }
    let patch = json!({ "data": { "by": name, "at": context.clock.now_micros().to_string() } });
    let patch = rkube_operator::kube::api::Patch::Merge(patch);
    context.api::<ConfigMap>(&key.namespace).patch(&key.name, &Default::default(), &patch).await?;
    Ok(Action::done().requeue_after(Duration::from_secs(1)))
}

#[tokio::test]
async fn a_leader_that_was_stopped_and_woken_again_sends_nothing() {
    let cluster = cluster().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client());
    let map = serde_json::from_value(json!({ "metadata": { "name": "written" } })).unwrap();
    maps.create(&PostParams::default(), &map).await.unwrap();
    let by = async || maps.get("written").await.unwrap().data.unwrap_or_default().remove("by").unwrap_or_default();

    let first = candidate(&cluster, "first");
    cluster.advance(Duration::from_secs(1)).await;
    let second = candidate(&cluster, "second");
    cluster.advance(Duration::from_secs(30)).await;
    assert_eq!((by().await.as_str(), second.writes.load(Ordering::Relaxed)), ("first", 0));
    first.operator.status().ready().unwrap();
    second.operator.status().ready().expect("a standby is well, and has its caches");
    assert!(first.writes.load(Ordering::Relaxed) > 10);

    first.pause.stop();
    cluster.advance(Duration::from_secs(60)).await;
    let sent = first.writes.load(Ordering::Relaxed);
    let (second_sent, mut leadership) = (second.writes.load(Ordering::Relaxed), first.operator.leadership());
    assert_eq!(by().await, "second");
    assert!(second_sent > 10);
    first.pause.wake();
    cluster.advance(Duration::from_secs(60)).await;
    assert_eq!(first.writes.load(Ordering::Relaxed), sent, "what it was about to send was sent");
    assert!(second.writes.load(Ordering::Relaxed) > second_sent + 30);
    // Its time is over: whoever runs the process starts it again.
    leadership.lost().await;
    first.operator.shutdown().await;
    // One that ends in good order hands over.
    let third = candidate(&cluster, "third");
    cluster.advance(Duration::from_secs(10)).await;
    assert_eq!(third.writes.load(Ordering::Relaxed), 0);
    second.operator.shutdown().await;
    cluster.advance(Duration::from_secs(1)).await;
    assert_eq!(by().await, "third");
    assert_eq!(maps.get("written").await.unwrap().name_any(), "written");
}

#[tokio::test]
async fn an_election_comes_before_controllers_and_its_times_go_together() {
    let cluster = cluster().await;
    let election = || LeaderElection::lease("default", "writers");
    let refused = |election| Operator::new(cluster.environment()).leader_election(election).err().unwrap().to_string();
    assert!(refused(election().renew_deadline(Duration::from_secs(15))).contains("greater than the renew deadline"));
    assert!(refused(election().identity("")).contains("identity"));
    assert!(refused(LeaderElection::lease("", "writers")).contains("namespace"));
    let mut operator = Operator::new(cluster.environment());
    operator.controller(Controller::<ConfigMap>::new("early"), |_, _| async { Ok(Action::done()) });
    assert!(operator.leader_election(election()).is_err());
}
