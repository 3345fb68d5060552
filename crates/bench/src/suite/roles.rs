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
const SLICES: u32 = 8;
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
    // One at a time, so that what is seen is what one request takes.
    let load = Load::of(1, suite.duration / SLICES);
    let (mut masters, mut users) = (f64::MAX, f64::MAX);
    // The two in short turns, and the best median of each: what else the machine does is no part of it.
    for _ in 0..suite.rounds * SLICES as usize {
        for (server, best) in [(&master, &mut masters), (&user, &mut users)] {
            let measured = load::drive(server, load, work::get(work::NAMESPACE)).await?;
            *best = best.min(f64::from(measured.median_micros));
        }
    }
    progress(&format!("{}: {users:.1} µs beside {masters:.1} µs", figures::ROLES.name));
    let note = format!("{users:.1} µs beside {masters:.1} µs of system:masters, 1 in flight");
    suite.row(&figures::ROLES, (users - masters).max(0.0), None, note);
    Ok(())
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
