//! What has no limit to be compared with: times, sizes, and the other store.

use std::io::Write;
use std::time::Duration;

use anyhow::Result;
use tokio::time::Instant;

use super::servers::{Etcd, Rkube};
use super::{Suite, measure, progress, work};
use crate::figures;
use crate::load::{self, Load};

/// What comes before memory is called idle memory: start-up work is over, allocators have settled.
const IDLE_AFTER: Duration = Duration::from_secs(3);
const OBJECTS: usize = 100_000;

pub async fn start_and_idle(suite: &mut Suite) -> Result<()> {
    if !suite.wants(&figures::START) && !suite.wants(&figures::IDLE) {
        return Ok(());
    }
    let starts = if suite.options.quick { 3 } else { 7 };
    let mut milliseconds = Vec::new();
    for turn in 0..starts {
        let rkube = Rkube::start(suite, &format!("start-{turn}"), &[]).await?;
        milliseconds.push(rkube.ready_after.as_secs_f64() * 1e3);
        if turn + 1 == starts {
            tokio::time::sleep(IDLE_AFTER).await;
            let (all, own) = rkube.process.resident_bytes()?;
            milliseconds.sort_by(f64::total_cmp);
            let median = milliseconds[starts / 2];
            let spread = format!("median of {starts}: {:.0} to {:.0} ms", milliseconds[0], milliseconds[starts - 1]);
            suite.row(&figures::START, median, None, spread);
            suite.row(
                &figures::IDLE,
                megabytes(all),
                None,
                format!("{:.1} MB without the binary's pages", megabytes(own)),
            );
            progress(&format!("ready after {median:.0} ms, idle {:.1} MB", megabytes(all)));
        }
    }
    Ok(())
}

pub async fn filled(suite: &mut Suite) -> Result<()> {
    if !suite.wants(&figures::FILLED) {
        return Ok(());
    }
    let rkube = Rkube::start(suite, "filled", &[]).await?;
    let seconds = if suite.options.quick { 12 } else { 60 };
    let load = Load { count: OBJECTS, ..Load::of(64, Duration::from_secs(seconds)) };
    let made = load::drive(&rkube.server, load, work::create("default", "filled")).await?;
    tokio::time::sleep(IDLE_AFTER).await;
    let (all, own) = rkube.process.resident_bytes()?;
    let note = format!(
        "{} ConfigMaps of 1 kB, made at {:.0}/s; {:.1} MB without the binary's pages",
        made.requests,
        made.rate(),
        megabytes(own)
    );
    progress(&format!("filled {:.1} MB: {note}", megabytes(all)));
    suite.row(&figures::FILLED, megabytes(all), None, note);
    Ok(())
}

pub async fn etcd(suite: &mut Suite) -> Result<()> {
    if !suite.wants(&figures::CREATE_ETCD) && !suite.wants(&figures::GET_ETCD) {
        return Ok(());
    }
    let Some(etcd) = Etcd::start(suite).await? else {
        progress("no etcd on the path: its rows are left out");
        return Ok(());
    };
    let store = format!("etcd={}", etcd.url);
    let rkube = Rkube::start(suite, "etcd", &["--store", &store]).await?;
    work::prepare(&rkube.server, work::NAMESPACE).await?;
    let load = Load::of(64, suite.duration);
    let create = |round: &str| work::create(work::NAMESPACE, round);
    let best = measure(suite, &figures::CREATE_ETCD, &rkube.server, load, create).await?;
    suite.row(&figures::CREATE_ETCD, best.rate(), None, super::latencies(&best));
    let best = measure(suite, &figures::GET_ETCD, &rkube.server, load, |_| work::get(work::NAMESPACE)).await?;
    suite.row(&figures::GET_ETCD, best.rate(), None, super::latencies(&best));
    Ok(())
}

pub fn files(suite: &mut Suite) -> Result<()> {
    let size = std::fs::metadata(&suite.options.rkube)?.len();
    suite.row(&figures::BINARY, megabytes(size), None, String::new());
    let mut file = tempfile::tempfile_in(suite.directory.path())?;
    let (begun, mut count) = (Instant::now(), 0);
    while begun.elapsed() < Duration::from_millis(500) {
        file.write_all(&[0; 1024])?;
        file.sync_data()?;
        count += 1;
    }
    let rate = f64::from(count) / begun.elapsed().as_secs_f64();
    suite.row(&figures::DISK, rate, None, "what bounds one create at a time".to_owned());
    Ok(())
}

fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}
