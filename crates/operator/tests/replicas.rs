//! Three replicas of an operator, each in a process of its own: one works, and another takes over when it is killed, or
//! stopped for too long.

#![allow(clippy::unwrap_used)]

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rkube_operator::k8s_openapi::api::core::v1::ConfigMap;
use rkube_operator::kube::api::{Api, Patch, PatchParams, PostParams};
use rkube_operator::{Action, Context, Controller, Error, Key, LeaderElection, Operator, Watch};
use rkube_testkit::TestCluster;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

/// Says that a process is a replica, and which.
const REPLICA: &str = "RKUBE_TEST_REPLICA";
const BETWEEN_WRITES: Duration = Duration::from_millis(20);

/// What a replica is: this very program, with this test alone.
#[tokio::test]
async fn replica() {
    let Ok(name) = std::env::var(REPLICA) else { return };
    let election = LeaderElection::lease("default", "replicas")
        .identity(&name)
        .lease_duration(Duration::from_secs(3))
        .renew_deadline(Duration::from_secs(2))
        .retry_period(Duration::from_millis(400));
    let mut operator = Operator::connect(&name).await.unwrap().leader_election(election).unwrap();
    let controller = Controller::of(Watch::<ConfigMap>::objects().name("written"), "writer");
    operator.controller(controller, move |context, key| write(context, key, name.clone()));
    operator.run().await.unwrap();
}

async fn write(context: Context, key: Key, name: String) -> Result<Action, Error> {
    let maps = context.api::<ConfigMap>(&key.namespace);
    let patch = Patch::Merge(json!({ "data": { "by": name, "at": context.clock.now_micros().to_string() } }));
    maps.patch(&key.name, &PatchParams::default(), &patch).await?;
    Ok(Action::done().requeue_after(BETWEEN_WRITES))
}

struct Replica {
    name: String,
    child: Child,
}

impl Replica {
    fn start(cluster: &TestCluster, number: u32) -> Replica {
        let name = format!("replica-{number}");
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "replica"]).env(REPLICA, &name).env("KUBECONFIG", cluster.kubeconfig().unwrap());
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        Replica { name, child }
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_two_replicas_write_at_one_time() {
    let cluster = TestCluster::builder().controllers("").without_scheduler().listen().start().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client());
    let map = serde_json::from_value(json!({ "metadata": { "name": "written" } })).unwrap();
    maps.create(&PostParams::default(), &map).await.unwrap();
    // Who wrote, in the order of the server's revisions.
    let writers: Arc<Mutex<Vec<String>>> = Arc::default();
    let noted = writers.clone();
    let _seen = cluster.environment().caches.named::<ConfigMap>("written").on_change(move |change| {
        let by = change.new.and_then(|map| map.data.as_ref()?.get("by").cloned());
        noted.lock().extend(by);
    });
    let last = || writers.lock().last().cloned().unwrap_or_default();
    let another_than = async |before: &str| {
        let now = cluster.eventually("another writes", async || {
            let now = last();
            if now.is_empty() || now == before { Err(format!("{now:?}")) } else { Ok(now) }
        });
        now.await
    };

    let mut replicas: Vec<Replica> = (0..3).map(|number| Replica::start(&cluster, number)).collect();
    let first = another_than("").await;
    // Killed: what it had begun is lost, and it is not heard of again.
    replicas.retain(|replica| replica.name != first);
    let second = another_than(&first).await;
    // Stopped in the midst of its work, until another leads, and woken again: it ends, and has written nothing.
    let stopped = replicas.iter().position(|replica| replica.name == second).unwrap();
    replicas[stopped].signal(Signal::STOP);
    let third = another_than(&second).await;
    replicas[stopped].signal(Signal::CONT);
    cluster
        .eventually("a replica that lost the lease ends", async || match replicas[stopped].child.try_wait().unwrap() {
            Some(status) if !status.success() => Ok(()),
            status => Err(format!("{status:?}")),
        })
        .await;
    // A fourth one waits until the last one ends, and it is asked to: the lease is released.
    let fourth = Replica::start(&cluster, 4);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let leader = replicas.iter().find(|replica| replica.name == third).unwrap();
    leader.signal(Signal::TERM);
    assert_eq!(another_than(&third).await, fourth.name);

    let mut turns = writers.lock().clone();
    assert!(turns.len() > 20, "{turns:?}");
    turns.dedup();
    assert_eq!(turns, [first, second, third, fourth.name.clone()]);
}
