//! What it costs to be an ordinary user: the same request by one who is bound to a thousand roles, and by a master.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::json;

use super::servers::Rkube;
use super::{Suite, progress, work};
use crate::client::{Call, Server};
use crate::figures;
use crate::load::{self, Load};

const ROLES: usize = 1_000;
/// Into so many turns a round is cut.
pub const SLICES: u32 = 8;
/// Enough to keep the server busy: then nobody is put to sleep and woken for each request.
pub const IN_FLIGHT: usize = 16;
const GROUP: &str = "rbac.authorization.k8s.io";
const USER: &str = "ordinary";

pub async fn run(suite: &mut Suite) -> Result<()> {
    if !suite.wants(&figures::ROLES) {
        return Ok(());
    }
    let tokens = suite.directory.path().join("tokens.csv");
    std::fs::write(&tokens, format!("master-token,master,1,system:masters\nuser-token,{USER},2,people\n"))?;
    let rkube = Rkube::start(suite, "roles", &["--token-auth-file", &tokens.display().to_string()]).await?;
    work::prepare(&rkube.server, work::NAMESPACE).await?;
    make(&rkube.server, "roles", role).await?;
    make(&rkube.server, "rolebindings", binding).await?;
    let master = Server::with_token(&rkube.kubeconfig, "master-token")?;
    let user = Server::with_token(&rkube.kubeconfig, "user-token")?;
    // What the server computes, not how long it takes: that depends on which thread wakes which, and comes out in one of
    // two ways for a whole run. The two in short turns, so that what else the machine does meets both.
    let load = Load::of(IN_FLIGHT, suite.duration / SLICES);
    let (mut masters, mut users) = (Spent::default(), Spent::default());
    for _ in 0..suite.rounds * SLICES as usize {
        for (server, spent) in [(&master, &mut masters), (&user, &mut users)] {
            let ready = load::Ready::connect(server, load).await?;
            let before = rkube.process.cpu_seconds()?;
            spent.requests += ready.drive(work::get(work::NAMESPACE)).await?.requests;
            spent.seconds += rkube.process.cpu_seconds()? - before;
        }
    }
    let (masters, users) = (masters.micros_each(), users.micros_each());
    progress(&format!("{}: {users:.1} µs beside {masters:.1} µs", figures::ROLES.name));
    let note = format!("{users:.1} µs of CPU beside {masters:.1} µs of system:masters");
    suite.row(&figures::ROLES, (users - masters).max(0.0), None, note);
    Ok(())
}

/// What a server has computed for somebody.
#[derive(Default)]
pub struct Spent {
    pub seconds: f64,
    pub requests: usize,
}

impl Spent {
    pub fn micros_each(&self) -> f64 {
        self.seconds * 1e6 / self.requests.max(1) as f64
    }
}

async fn make(server: &Server, resource: &str, object: fn(usize) -> serde_json::Value) -> Result<()> {
    let path = format!("/apis/{GROUP}/v1/namespaces/{}/{resource}", work::NAMESPACE);
    let load = Load { count: ROLES, ..Load::of(64, Duration::from_secs(60)) };
    let next = std::sync::atomic::AtomicUsize::new(0);
    let made = load::drive(server, load, move |_, _| {
        let index = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Call::post(path.clone(), object(index).to_string())
    });
    ensure!(made.await?.requests == ROLES, "not all {resource} could be made");
    Ok(())
}

/// Each is for some objects of its own and one of those that are asked for.
fn role(index: usize) -> serde_json::Value {
    let names = [format!("known-{}", index % 64), format!("other-{index}")];
    let objects = json!({ "verbs": ["get"], "apiGroups": [""], "resources": ["configmaps"], "resourceNames": names });
    let others =
        json!({ "verbs": ["get", "list"], "apiGroups": ["apps"], "resources": ["deployments", "replicasets"] });
    json!({ "metadata": { "name": format!("role-{index}") }, "rules": [others, objects] })
}

fn binding(index: usize) -> serde_json::Value {
    json!({
        "metadata": { "name": format!("role-{index}") },
        "roleRef": { "apiGroup": GROUP, "kind": "Role", "name": format!("role-{index}") },
        "subjects": [{ "apiGroup": GROUP, "kind": "User", "name": USER }],
    })
}
