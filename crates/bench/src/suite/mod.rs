//! The run: what is measured, in which order. The two servers take turns, so that what else the machine does
//! in these minutes meets both; of several short rounds the best counts.

mod controllers;
mod custom;
mod garbage;
mod kept;
mod node;
mod quotas;
mod reconciles;
mod roles;
mod servers;
mod single;
mod test_clusters;
mod webhooks;
mod week;
mod work;
mod workloads;

use std::io::Write;
use std::time::Duration;

use anyhow::{Result, bail};
use tempfile::TempDir;
use tokio::time::Instant;

use crate::arguments::{Group, LoadOptions, RunOptions};
use crate::client::{Call, Protocol, Server};
use crate::figures::{self, Unit, Work};
use crate::load::{self, Load, Measured};
use crate::objects::{self, EVENTS_PER_ROUND, WATCHERS};
use crate::table::{self, Row};
use crate::watchers::Watchers;
use servers::{Limit, Rkube};

/// Of pods without nodes it would say that they have none: these rows are the API server's alone, as the peer's are.
const NO_SCHEDULER: &[&str] = &["--no-scheduler"];

/// The whole table.
pub async fn run(options: RunOptions) -> Result<()> {
    let begun = Instant::now();
    std::fs::create_dir_all(&options.directory)?;
    let directory = tempfile::tempdir_in(&options.directory)?;
    let mut suite = Suite::new(options, directory);
    if suite.options.group == Some(Group::Controllers) {
        single::start_and_idle(&mut suite).await?;
        of_controllers(&mut suite).await?;
        return suite.print(begun);
    }
    if suite.options.group == Some(Group::Node) {
        node::run(&mut suite).await?;
        return suite.print(begun);
    }
    single::start_and_idle(&mut suite).await?;
    requests(&mut suite).await?;
    roles::run(&mut suite).await?;
    custom::run(&mut suite).await?;
    garbage::run(&mut suite).await?;
    webhooks::run(&mut suite).await?;
    of_controllers(&mut suite).await?;
    single::filled(&mut suite).await?;
    single::etcd(&mut suite).await?;
    single::files(&mut suite)?;
    suite.print(begun)
}

/// What the cluster does by itself.
async fn of_controllers(suite: &mut Suite) -> Result<()> {
    controllers::run(suite).await?;
    workloads::run(suite).await?;
    quotas::run(suite).await?;
    week::run(suite).await?;
    Box::pin(test_clusters::run(suite)).await
}

/// One kind of load on a server that already runs.
pub async fn load_only(options: LoadOptions) -> Result<()> {
    let server = Server::of_kubeconfig(&options.kubeconfig)?;
    let duration = Duration::from_secs(options.seconds);
    let run = format!("load{}", std::process::id());
    work::prepare(&server, &run).await?;
    if options.work == "watch" {
        let begun = Instant::now();
        while begun.elapsed() < duration {
            let round = format!("{run}-{}", begun.elapsed().as_micros());
            let events = watch_ours(&server, &run, &round, false).await?;
            progress(&Unit::EventsPerSecond.show(events));
        }
        return Ok(());
    }
    if matches!(options.work.as_str(), "list" | "page" | "protobuf") {
        work::fill_with_pods(&server, &run).await?;
    }
    progress("load begins");
    let load = |in_flight| Load::of(in_flight, duration);
    let measured = match options.work.as_str() {
        "create" => load::drive(&server, load(64), work::create(&run, &run)).await?,
        "patch" => load::drive(&server, load(64), work::patch(&run)).await?,
        "get" => load::drive(&server, load(64), work::get(&run)).await?,
        "pods" => load::drive(&server, load(64), work::create_pod(&run, &run)).await?,
        "list" => load::drive(&server, load(2), work::list(&run)).await?,
        "page" => load::drive(&server, load(8), work::list_page(&run)).await?,
        "protobuf" => load::drive(&server, load(2), work::list_protobuf(&run)).await?,
        other => bail!("there is no work {other:?}"),
    };
    progress(&format!("{}: {}", options.work, describe(&measured)));
    Ok(())
}

pub(crate) struct Suite {
    options: RunOptions,
    directory: TempDir,
    rows: Vec<Row>,
    rounds: usize,
    duration: Duration,
}

impl Suite {
    fn new(options: RunOptions, directory: TempDir) -> Suite {
        let (rounds, duration) =
            if options.quick { (2, Duration::from_millis(800)) } else { (3, Duration::from_millis(2_500)) };
        Suite { options, directory, rows: Vec::new(), rounds, duration }
    }

    fn wants(&self, work: &Work) -> bool {
        work.name.contains(&self.options.only)
    }

    fn print(&self, begun: Instant) -> Result<()> {
        let mut stdout = std::io::stdout().lock();
        let cores = std::thread::available_parallelism().map_or(0, usize::from);
        writeln!(
            stdout,
            "Client and servers share {cores} cores. TLS, fsync, HTTP/1.1 where not said otherwise, one request"
        )?;
        writeln!(
            stdout,
            "at a time on a connection. The best of {} rounds of {:?}, the two servers in turn.\n",
            self.rounds, self.duration
        )?;
        write!(stdout, "{}", table::render(&self.rows))?;
        progress(&format!("done in {:.0} s", begun.elapsed().as_secs_f64()));
        Ok(())
    }

    fn row(&mut self, work: &'static Work, ours: f64, limit: Option<f64>, note: String) {
        self.rows.push(Row::new(work, ours, limit, note));
    }
}

/// Everything that is asked of one server with both at hand.
async fn requests(suite: &mut Suite) -> Result<()> {
    if !figures::REQUESTS.iter().any(|work| suite.wants(work)) {
        return Ok(());
    }
    progress("preparing 5,000 pods");
    let rkube = Rkube::start(suite, "main", NO_SCHEDULER).await?;
    let ours = rkube.server.clone();
    work::prepare(&ours, work::NAMESPACE).await?;
    work::fill_with_pods(&ours, work::NAMESPACE).await?;
    let sizes = work::sizes(&ours).await?;
    let limit = Limit::start(suite, &sizes).await?;
    let pair = Pair { ours, limit: limit.server.clone() };
    let load = |in_flight| Load::of(in_flight, suite.duration);
    let (one, two, eight, many) = (load(1), load(2), load(8), load(64));
    let many_http2 = Load { protocol: Protocol::Http2, ..many };
    let space = work::NAMESPACE;

    pair.compare(suite, &figures::CREATE_ONE, one, |round| work::create(space, round)).await?;
    pair.compare(suite, &figures::CREATE, many, |round| work::create(space, round)).await?;
    pair.compare(suite, &figures::CREATE_HTTP2, many_http2, |round| work::create(space, round)).await?;
    pair.compare(suite, &figures::PATCH, many, |_| work::patch(space)).await?;
    pair.compare(suite, &figures::GET, many, |_| work::get(space)).await?;
    pair.compare(suite, &figures::GET_HTTP2, many_http2, |_| work::get(space)).await?;
    pair.compare(suite, &figures::LIST, two, |_| work::list(space)).await?;
    if suite.wants(&figures::LIST_PROTOBUF) {
        let best = measure(suite, &figures::LIST_PROTOBUF, &pair.ours, two, |_| work::list_protobuf(space)).await?;
        let note = format!("{:.1} MB each", best.bytes as f64 / best.requests as f64 / 1e6);
        suite.row(&figures::LIST_PROTOBUF, best.rate(), None, note);
    }
    pair.compare(suite, &figures::LIST_PAGE, eight, |_| work::list_page(space)).await?;
    pair.compare_watches(suite, &figures::WATCH, sizes.event).await?;
    pair.compare_watches(suite, &figures::WATCH_SMALL, sizes.small_event).await?;
    drop(rkube);
    create_pods(suite, limit.server.clone(), many).await
}

/// Pods, on a server of their own: the hundreds of thousands of ConfigMaps that the other rows made are not part of it.
async fn create_pods(suite: &mut Suite, limit: Server, load: Load) -> Result<()> {
    if !suite.wants(&figures::CREATE_POD) {
        return Ok(());
    }
    let rkube = Rkube::start(suite, "pods", NO_SCHEDULER).await?;
    work::prepare(&rkube.server, work::NAMESPACE).await?;
    let pair = Pair { ours: rkube.server.clone(), limit };
    pair.compare(suite, &figures::CREATE_POD, load, |round| work::create_pod("default", round)).await
}

struct Pair {
    ours: Server,
    limit: Server,
}

impl Pair {
    async fn compare<M, F>(&self, suite: &mut Suite, work: &'static Work, load: Load, make: M) -> Result<()>
    where
        M: Fn(&str) -> F,
        F: Fn(usize, usize) -> Call + Send + Sync + 'static,
    {
        if !suite.wants(work) {
            return Ok(());
        }
        let (mut ours, mut limits) = (Vec::new(), Vec::new());
        for round in 0..suite.rounds {
            let name = round_name(work, round);
            ours.push(load::drive(&self.ours, load, make(&name)).await?);
            limits.push(load::drive(&self.limit, load, make(&name)).await?);
            let (one, other) = (value(work.unit, &ours[round]), value(work.unit, &limits[round]));
            progress(&format!("{}: {} of {}", work.name, work.unit.show(one), work.unit.show(other)));
        }
        let (ours, limit) = (best(work.unit, &ours), best(work.unit, &limits));
        let note = match work.unit {
            Unit::MegabytesPerSecond => {
                let each = ours.bytes as f64 / ours.requests as f64 / 1e6;
                format!("{:.1}/s of {each:.1} MB; limit {:.1}/s", ours.rate(), limit.rate())
            }
            _ => latencies(&ours),
        };
        suite.row(work, value(work.unit, &ours), Some(value(work.unit, &limit)), note);
        Ok(())
    }

    async fn compare_watches(&self, suite: &mut Suite, work: &'static Work, event_bytes: usize) -> Result<()> {
        let small = work.name == figures::WATCH_SMALL.name;
        if !suite.wants(work) {
            return Ok(());
        }
        let (mut ours, mut limit) = (0f64, 0f64);
        for round in 0..suite.rounds {
            let one = watch_ours(&self.ours, work::NAMESPACE, &round_name(work, round), small).await?;
            let other = watch_limit(&self.limit, small).await?;
            progress(&format!("{}: {} of {}", work.name, work.unit.show(one), work.unit.show(other)));
            (ours, limit) = (ours.max(one), limit.max(other));
        }
        suite.row(work, ours, Some(limit), format!("{event_bytes} B each"));
        Ok(())
    }
}

/// The best round on one server.
async fn measure<M, F>(suite: &Suite, work: &Work, server: &Server, load: Load, make: M) -> Result<Measured>
where
    M: Fn(&str) -> F,
    F: Fn(usize, usize) -> Call + Send + Sync + 'static,
{
    let mut all = Vec::new();
    for round in 0..suite.rounds {
        let measured = load::drive(server, load, make(&round_name(work, round))).await?;
        progress(&format!("{}: {}", work.name, work.unit.show(value(work.unit, &measured))));
        all.push(measured);
    }
    Ok(best(work.unit, &all))
}

/// Events per second, from the first create to the last delivery.
async fn watch_ours(server: &Server, namespace: &str, round: &str, small: bool) -> Result<f64> {
    let version = work::resource_version(server, namespace).await?;
    let path = format!("/api/v1/namespaces/{namespace}/configmaps?watch=1&resourceVersion={version}");
    let counting = Watchers::open(server, WATCHERS, &path).await?.count(EVENTS_PER_ROUND);
    let load = Load { count: EVENTS_PER_ROUND, ..Load::of(64, Duration::from_secs(60)) };
    let creates = load::Ready::connect(server, load).await?;
    let begun = Instant::now();
    if small {
        tokio::try_join!(creates.drive(work::create_small(namespace, round)), counting.wait())?;
    } else {
        tokio::try_join!(creates.drive(work::create(namespace, round)), counting.wait())?;
    }
    Ok((WATCHERS * EVENTS_PER_ROUND) as f64 / begun.elapsed().as_secs_f64())
}

async fn watch_limit(server: &Server, small: bool) -> Result<f64> {
    let path = if small { "/watch?watch=small" } else { "/watch?watch=1" };
    let counting = Watchers::open(server, WATCHERS, path).await?.count(EVENTS_PER_ROUND);
    let start = load::Ready::connect(server, Load { count: 1, ..Load::of(1, Duration::from_secs(60)) }).await?;
    let begun = Instant::now();
    tokio::try_join!(start.drive(|_, _| Call::post("/start", objects::namespace("x"))), counting.wait())?;
    Ok((WATCHERS * EVENTS_PER_ROUND) as f64 / begun.elapsed().as_secs_f64())
}

fn value(unit: Unit, measured: &Measured) -> f64 {
    match unit {
        Unit::MegabytesPerSecond => measured.megabytes_per_second(),
        _ => measured.rate(),
    }
}

fn best(unit: Unit, all: &[Measured]) -> Measured {
    let best = all.iter().max_by(|one, other| value(unit, one).total_cmp(&value(unit, other)));
    best.copied().unwrap_or_default()
}

/// A part of object names that no other round has.
fn round_name(work: &Work, round: usize) -> String {
    let letters: String = work.name.chars().filter(char::is_ascii_alphanumeric).collect();
    format!("{}-{round}", letters.to_ascii_lowercase())
}

fn latencies(measured: &Measured) -> String {
    let milliseconds = |micros: u32| f64::from(micros) / 1e3;
    format!("p50 {:.2} ms, p99 {:.2} ms", milliseconds(measured.median_micros), milliseconds(measured.tail_micros))
}

fn describe(measured: &Measured) -> String {
    let (rate, megabytes) = (measured.rate(), measured.megabytes_per_second());
    format!("{rate:.1}/s, {megabytes:.1} MB/s, {}", latencies(measured))
}

fn progress(text: &str) {
    eprintln!("bench: {text}");
}
