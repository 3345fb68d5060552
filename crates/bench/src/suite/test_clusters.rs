//! Clusters in a test's own process: how soon one is there, and many.

use anyhow::{Context, Result};
use futures::future::join_all;
use rkube_testkit::TestCluster;
use tokio::time::Instant;

use super::{Suite, progress, reconciles};
use crate::figures;

/// One after another.
const STARTS: usize = 21;
const AT_ONCE: usize = 100;
pub async fn run(suite: &mut Suite) -> Result<()> {
    Box::pin(reconciles::run(suite)).await?;
    if suite.wants(&figures::TEST_CLUSTER) {
        let mut milliseconds = Vec::new();
        for _ in 0..STARTS {
            let begun = Instant::now();
            let cluster = TestCluster::start().await;
            milliseconds.push(begun.elapsed().as_secs_f64() * 1e3);
            cluster.shutdown().await;
        }
        let first = milliseconds[0];
        milliseconds.sort_by(f64::total_cmp);
        let median = milliseconds[STARTS / 2];
        progress(&format!("{}: {median:.1} ms", figures::TEST_CLUSTER.name));
        let note = format!("median of {STARTS}; the first, which makes keys: {first:.1} ms");
        suite.row(&figures::TEST_CLUSTER, median, None, note);
    }
    if suite.wants(&figures::TEST_CLUSTERS) {
        let before = resident_bytes()?;
        let begun = Instant::now();
        let clusters: Vec<_> = (0..AT_ONCE).map(|_| tokio::spawn(TestCluster::start())).collect();
        let clusters = join_all(clusters).await.into_iter().collect::<Result<Vec<_>, _>>()?;
        let milliseconds = begun.elapsed().as_secs_f64() * 1e3;
        let each = (resident_bytes()? - before) / 1e6 / AT_ONCE as f64;
        progress(&format!("{}: {milliseconds:.0} ms, {each:.1} MB each", figures::TEST_CLUSTERS.name));
        suite.row(&figures::TEST_CLUSTERS, milliseconds, None, format!("{each:.1} MB of resident memory each"));
        drop(clusters);
    }
    Ok(())
}

/// Of this process.
fn resident_bytes() -> Result<f64> {
    let status = std::fs::read_to_string("/proc/self/statm")?;
    let pages: f64 =
        status.split_whitespace().nth(1).context("the kernel does not say how much is resident")?.parse()?;
    Ok(pages * 4096.0)
}
