//! How long controllers work on what they have nothing to do about: a label of an object is changed, and whoever sees that
//! finds everything as it should be. What they wait for is no work of theirs; what the server does for them in this
//! process is.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use rkube_testkit::TestCluster;

use super::kept::{self, Kind};
use super::{Suite, progress};
use crate::figures;

const DEPLOYMENTS: usize = 1_000;
const OF_EACH: usize = 200;
const NODES: usize = 10;
/// Everything is looked at so often, and the best time counts.
const ROUNDS: usize = 5;
/// Of a controller that was asked less often in a round nothing can be said.
const ASKED_MIN: f64 = NODES as f64;
/// Who does nothing for so long has nothing to do.
const QUIET: Duration = Duration::from_secs(1);
/// Autoscalers are looked at when they are due, and not before: once in so long, and a little more.
const PERIOD: Duration = Duration::from_secs(16);
const LIMIT_MICROS: f64 = 50.0;

/// How often each controller looked, and how long it worked on average.
type Times = BTreeMap<String, (f64, f64)>;

pub async fn run(suite: &mut Suite) -> Result<()> {
    if suite.wants(&figures::RECONCILE) {
        let times = alone(|| async {
            let cluster = TestCluster::start().await;
            let deployments = Kind::new("apps/v1", "Deployment", Some("default"));
            deployments.fill(&cluster, DEPLOYMENTS, |index| kept::workload("deployment", index)).await?;
            let before = settle(&cluster).await?;
            touched(&cluster, &[deployments], 0, before).await
        });
        let (times, _) = times.await?;
        let (count, micros) = times.get("deployment-controller").context("no controller of Deployments")?;
        progress(&format!("{}: {micros:.1} µs", figures::RECONCILE.name));
        let note = format!("the mean of {count}, one replica each, waiting left out");
        suite.row(&figures::RECONCILE, *micros, None, note);
    }
    if suite.wants(&figures::RECONCILES) {
        let (times, others) = alone(best).await?;
        let mut times: Vec<_> = times.into_iter().collect();
        times.sort_by(|(_, one), (_, other)| other.total_cmp(one));
        let (slowest, micros) = times.first().context("nothing was reconciled")?;
        let all: Vec<String> = times.iter().map(|(name, micros)| format!("{name} {micros:.1}")).collect();
        progress(&format!("{}: {}", figures::RECONCILES.name, all.join(", ")));
        progress(&format!("not asked, or hardly ever: {}", others.join(", ")));
        let note = format!("{slowest}, of {} controllers, waiting left out", times.len());
        suite.row(&figures::RECONCILES, *micros, Some(LIMIT_MICROS), note);
    }
    Ok(())
}

/// Runs this on one thread of its own, so that nothing else of this process goes on while somebody looks at an object.
async fn alone<T: Send + 'static, F: Future<Output = Result<T>>>(
    work: impl FnOnce() -> F + Send + 'static,
) -> Result<T> {
    let running = tokio::task::spawn_blocking(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(work())
    });
    running.await?
}

/// The best time of each controller, and those of whom nothing can be said.
async fn best() -> Result<(BTreeMap<String, f64>, Vec<String>)> {
    let cluster = TestCluster::builder().nodes(NODES).start().await;
    let kinds = kept::fill_all(&cluster, OF_EACH).await?;
    settle(&cluster).await?;
    // The first look finds something to say of what is new.
    tokio::time::sleep(PERIOD).await;
    let mut before = settle(&cluster).await?;
    let mut best: BTreeMap<String, f64> = BTreeMap::new();
    for round in 0..=ROUNDS {
        let (times, after) = if round < ROUNDS {
            touched(&cluster, &kinds, round, before).await?
        } else {
            tokio::time::sleep(PERIOD).await;
            let after = settle(&cluster).await?;
            (means(&before, &after), after)
        };
        for (name, (_, micros)) in times.into_iter().filter(|(_, (count, _))| *count >= ASKED_MIN) {
            let known = best.entry(name).or_insert(f64::INFINITY);
            *known = known.min(micros);
        }
        before = after;
    }
    let others = before.into_keys().filter(|name| !best.contains_key(name)).collect();
    Ok((best, others))
}

/// Changes all objects of these kinds a little. How often each controller then looked, and how long it worked on average;
/// and how often and how long in all.
async fn touched(cluster: &TestCluster, kinds: &[Kind], round: usize, before: Times) -> Result<(Times, Times)> {
    for kind in kinds {
        kind.touch(cluster, round).await?;
    }
    let after = settle(cluster).await?;
    Ok((means(&before, &after), after))
}

/// How often each looked between two moments, and how many microseconds it worked on average.
fn means(before: &Times, after: &Times) -> Times {
    let mut means = Times::new();
    for (name, (count, seconds)) in after {
        let (count_before, seconds_before) = before.get(name).copied().unwrap_or_default();
        let count = count - count_before;
        if count > 0.0 {
            means.insert(name.clone(), (count, (seconds - seconds_before) * 1e6 / count));
        }
    }
    means
}

/// How often each controller has reconciled so far, and how many seconds it worked on that.
fn reconciles(cluster: &TestCluster) -> Result<Times> {
    let mut all = Times::new();
    for line in cluster.metrics().lines() {
        let Some((metric, rest)) = line.split_once("{controller=\"") else { continue };
        let Some((name, value)) = rest.split_once("\"} ") else { continue };
        match metric {
            "controller_runtime_reconcile_time_seconds_count" => {
                all.entry(name.to_owned()).or_default().0 = value.parse()?;
            }
            "rkube_operator_reconcile_busy_seconds_total" => {
                all.entry(name.to_owned()).or_default().1 = value.parse()?;
            }
            _ => {}
        }
    }
    Ok(all)
}

/// Waits until nothing is reconciled any more.
async fn settle(cluster: &TestCluster) -> Result<Times> {
    let mut last = Times::new();
    // Some look again and again, at all times.
    for _ in 0..30 {
        let now = reconciles(cluster)?;
        let counts = |all: &Times| all.values().map(|(count, _)| count).sum::<f64>();
        if counts(&now) - counts(&last) < 10.0 {
            return Ok(now);
        }
        last = now;
        tokio::time::sleep(QUIET).await;
    }
    Ok(last)
}
