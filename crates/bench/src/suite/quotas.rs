//! What a quota adds to a write: the same pod, which is only tried, in a namespace with a quota and in one without. What is
//! only tried is measured and compared, and not charged: the write of the quota's status is a write like others.

use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::roles::{IN_FLIGHT, SLICES, Spent};
use super::servers::Rkube;
use super::{Suite, progress, work};
use crate::client::{Call, Server};
use crate::load::{self, Load};
use crate::{figures, objects};

const LIMITED: &str = "limited";

pub async fn run(suite: &mut Suite) -> Result<()> {
    if !suite.wants(&figures::QUOTA) {
        return Ok(());
    }
    let rkube = Rkube::start(suite, "quotas", super::NO_SCHEDULER).await?;
    for namespace in [work::NAMESPACE, LIMITED] {
        work::prepare(&rkube.server, namespace).await?;
    }
    limit(&rkube.server).await?;
    let load = Load::of(IN_FLIGHT, suite.duration / SLICES);
    let (mut free, mut limited) = (Spent::default(), Spent::default());
    for _ in 0..suite.rounds * SLICES as usize {
        for (namespace, spent) in [(work::NAMESPACE, &mut free), (LIMITED, &mut limited)] {
            let ready = load::Ready::connect(&rkube.server, load).await?;
            let before = rkube.process.cpu_seconds()?;
            let path = format!("/api/v1/namespaces/{namespace}/pods?dryRun=All");
            let pod = objects::pod("tried");
            spent.requests += ready.drive(move |_, _| Call::post(path.clone(), pod.clone())).await?.requests;
            spent.seconds += rkube.process.cpu_seconds()? - before;
        }
    }
    let (free, limited) = (free.micros_each(), limited.micros_each());
    progress(&format!("{}: {limited:.1} µs beside {free:.1} µs", figures::QUOTA.name));
    let note = format!("{limited:.1} µs of CPU beside {free:.1} µs without a quota");
    suite.row(&figures::QUOTA, (limited - free).max(0.0), None, note);
    Ok(())
}

/// Makes a quota that names what people name, and waits until it counts.
async fn limit(server: &Server) -> Result<()> {
    let names = ["pods", "count/pods", "cpu", "memory", "requests.cpu", "requests.memory", "services"];
    let hard: serde_json::Map<String, Value> =
        names.iter().map(|name| ((*name).to_owned(), json!("1000000000000000"))).collect();
    let quota = json!({ "metadata": { "name": "quota" }, "spec": { "hard": hard } });
    let path = format!("/api/v1/namespaces/{LIMITED}/resourcequotas");
    server.once(Call::post(path.clone(), quota.to_string())).await?;
    let counts = async {
        loop {
            let quota = server.once(Call::get(format!("{path}/quota"))).await?;
            if serde_json::from_slice::<Value>(&quota)?["status"]["used"].is_object() {
                return anyhow::Ok(());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), counts).await.context("the quota never counts")?
}
