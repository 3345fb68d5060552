//! Custom resources. What is compared is not a limit but a ConfigMap of the same size on the same server, in turn.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use tokio::time::Instant;

use super::servers::Rkube;
use super::{Suite, best, latencies, progress, round_name, value, work};
use crate::client::{Call, Connection, Protocol, Server, check};
use crate::definitions::{self, GROUP, Shape};
use crate::figures::{self, Work};
use crate::load::{self, Load, Ready};
use crate::objects::{self, EVENTS_PER_ROUND, WATCHERS};
use crate::validation;
use crate::watchers::Watchers;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// Of the requests.
const USUAL: Shape = Shape { fields: 30, rules: 2 };
/// Of what is validated without a server.
const LARGE: Shape = Shape { fields: 100, rules: 5 };
/// Of those of which there are many.
const MANY: Shape = Shape { fields: 100, rules: 0 };
const MANY_COUNT: usize = 1_000;
const MANY_IN_FLIGHT: usize = 8;
const LISTED: usize = 2_000;
const PLURAL: &str = "widgets";
/// Memory is looked at when start-up work and allocators have settled.
const SETTLED_AFTER: Duration = Duration::from_secs(3);
const TIMEOUT: Duration = Duration::from_secs(60);

pub async fn run(suite: &mut Suite) -> Result<()> {
    validate(suite)?;
    requests(suite).await?;
    usable(suite).await?;
    many(suite).await
}

fn validate(suite: &mut Suite) -> Result<()> {
    let work = &figures::VALIDATE_CUSTOM;
    if !suite.wants(work) {
        return Ok(());
    }
    let micros = validation::measure(LARGE, suite.rounds * 3)?;
    progress(&format!("{}: {}", work.name, work.unit.show(micros)));
    suite.row(work, micros, None, format!("{} fields, {} rules", LARGE.fields, LARGE.rules));
    Ok(())
}

async fn requests(suite: &mut Suite) -> Result<()> {
    let all = [&figures::CREATE_CUSTOM, &figures::GET_CUSTOM, &figures::LIST_CUSTOM, &figures::WATCH_CUSTOM];
    if !all.iter().any(|work| suite.wants(work)) {
        return Ok(());
    }
    let rkube = Rkube::start(suite, "custom", &[]).await?;
    let server = &rkube.server;
    work::prepare(server, work::NAMESPACE).await?;
    server.once(Call::post(DEFINITIONS, definitions::definition(PLURAL, USUAL))).await?;
    let mut connection = server.connect(Protocol::Http1).await?;
    established(&mut connection, PLURAL).await?;
    let bytes = definitions::object(PLURAL, "known-0", USUAL).len();
    let sides = [Side::custom(), Side::built_in(bytes)];
    for side in &sides {
        let load = Load { count: LISTED, ..Load::of(64, TIMEOUT) };
        load::drive(server, load, side.create("known")).await?;
    }
    // Managed fields name each field: an answer grows with their number, not only with its bytes.
    let answers = [sides[0].answer_bytes(server).await?, sides[1].answer_bytes(server).await?];
    let note = |more: &str| format!("{bytes} B sent; answers of {} B and {} B; {more}", answers[0], answers[1]);
    for (work, load) in [
        (&figures::CREATE_CUSTOM, Load::of(64, suite.duration)),
        (&figures::GET_CUSTOM, Load::of(64, suite.duration)),
        (&figures::LIST_CUSTOM, Load::of(2, suite.duration)),
    ] {
        if !suite.wants(work) {
            continue;
        }
        let mut measured = [Vec::new(), Vec::new()];
        for round in 0..suite.rounds {
            for (side, measured) in sides.iter().zip(&mut measured) {
                measured.push(side.drive(server, work, load, &round_name(work, round)).await?);
            }
            let [ours, other] = &measured;
            let shown = [ours, other].map(|all| work.unit.show(value(work.unit, &all[round])));
            progress(&format!("{}: {} of {}", work.name, shown[0], shown[1]));
        }
        let [ours, other] = measured.map(|all| best(work.unit, &all));
        suite.row(work, value(work.unit, &ours), Some(value(work.unit, &other)), note(&latencies(&ours)));
    }
    if suite.wants(&figures::WATCH_CUSTOM) {
        let work = &figures::WATCH_CUSTOM;
        let mut events = [0f64; 2];
        for round in 0..suite.rounds {
            for (side, events) in sides.iter().zip(&mut events) {
                *events = events.max(side.watch(server, &round_name(work, round)).await?);
            }
            progress(&format!("{}: {} of {}", work.name, work.unit.show(events[0]), work.unit.show(events[1])));
        }
        suite.row(work, events[0], Some(events[1]), note("500 watchers"));
    }
    Ok(())
}

/// Objects of one kind: where they are and what they look like.
struct Side {
    path: String,
    object: fn(&str, usize) -> bytes::Bytes,
    bytes: usize,
}

impl Side {
    fn custom() -> Side {
        let object = |name: &str, _| definitions::object(PLURAL, name, USUAL);
        Side { path: definitions::path(work::NAMESPACE, PLURAL), object, bytes: 0 }
    }

    /// ConfigMaps of so many bytes, in a namespace where nothing else is.
    fn built_in(bytes: usize) -> Side {
        Side { path: "/api/v1/namespaces/default/configmaps".to_owned(), object: objects::config_map_of, bytes }
    }

    fn create(&self, round: &str) -> impl Fn(usize, usize) -> Call + Send + Sync + use<> {
        let (path, round, object, bytes) = (self.path.clone(), round.to_owned(), self.object, self.bytes);
        move |worker, turn| Call::post(path.clone(), object(&format!("{round}-{worker}-{turn}"), bytes))
    }

    async fn answer_bytes(&self, server: &Server) -> Result<usize> {
        Ok(server.once(Call::get(format!("{}/known-0-0", self.path))).await?.len())
    }

    async fn drive(&self, server: &Server, work: &Work, load: Load, round: &str) -> Result<load::Measured> {
        let path = self.path.clone();
        if work.name == figures::CREATE_CUSTOM.name {
            load::drive(server, load, self.create(round)).await
        } else if work.name == figures::GET_CUSTOM.name {
            // The first that each worker made.
            load::drive(server, load, move |worker, _| Call::get(format!("{path}/known-{worker}-0"))).await
        } else {
            let path = format!("{path}?limit={LISTED}");
            load::drive(server, load, move |_, _| Call::get(path.clone())).await
        }
    }

    /// Events per second, from the first create to the last delivery.
    async fn watch(&self, server: &Server, round: &str) -> Result<f64> {
        let list: Value = serde_json::from_slice(&server.once(Call::get(format!("{}?limit=1", self.path))).await?)?;
        let version = list["metadata"]["resourceVersion"].as_str().context("a list without a version")?;
        let path = format!("{}?watch=1&resourceVersion={version}", self.path);
        let counting = Watchers::open(server, WATCHERS, &path).await?.count(EVENTS_PER_ROUND);
        let creates = Ready::connect(server, Load { count: EVENTS_PER_ROUND, ..Load::of(64, TIMEOUT) }).await?;
        let begun = Instant::now();
        tokio::try_join!(creates.drive(self.create(round)), counting.wait())?;
        Ok((WATCHERS * EVENTS_PER_ROUND) as f64 / begun.elapsed().as_secs_f64())
    }
}

/// From the request that makes a definition to the first object of it that is taken.
async fn usable(suite: &mut Suite) -> Result<()> {
    let work = &figures::USABLE_CUSTOM;
    if !suite.wants(work) {
        return Ok(());
    }
    let rkube = Rkube::start(suite, "usable", &[]).await?;
    work::prepare(&rkube.server, work::NAMESPACE).await?;
    let mut connection = rkube.server.connect(Protocol::Http1).await?;
    let turns = if suite.options.quick { 5 } else { 15 };
    let mut milliseconds = Vec::new();
    for turn in 0..turns {
        let plural = format!("gadgets{turn}");
        let begun = Instant::now();
        let body = definitions::definition(&plural, USUAL);
        check(connection.send(&Call::post(DEFINITIONS, body)).await?).await?;
        established(&mut connection, &plural).await?;
        let body = definitions::object(&plural, "first", USUAL);
        check(connection.send(&Call::post(definitions::path(work::NAMESPACE, &plural), body)).await?).await?;
        milliseconds.push(begun.elapsed().as_secs_f64() * 1e3);
    }
    milliseconds.sort_by(f64::total_cmp);
    let median = milliseconds[turns / 2];
    let note = format!("median of {turns}: {:.1} to {:.1} ms", milliseconds[0], milliseconds[turns - 1]);
    progress(&format!("{}: {note}", work.name));
    suite.row(work, median, None, note);
    Ok(())
}

/// Many definitions: how long they take, what they weigh, and what they do to others' writes.
async fn many(suite: &mut Suite) -> Result<()> {
    let all = [&figures::MANY_DEFINITIONS, &figures::DEFINITION_MEMORY, &figures::CREATE_BESIDE_MANY];
    if !all.iter().any(|work| suite.wants(work)) {
        return Ok(());
    }
    let rkube = Rkube::start(suite, "many", &[]).await?;
    let server = &rkube.server;
    work::prepare(server, work::NAMESPACE).await?;
    let load = Load::of(64, suite.duration);
    let before = load::drive(server, load, work::create(work::NAMESPACE, "before")).await?;
    tokio::time::sleep(SETTLED_AFTER).await;
    let bytes_before = rkube.process.resident_bytes()?.1;
    let begun = Instant::now();
    // Workers count their own turns.
    let create = |worker: usize, turn: usize| {
        Call::post(DEFINITIONS, definitions::definition(&format!("many{worker}x{turn}"), MANY))
    };
    let load_many = Load { count: MANY_COUNT, ..Load::of(MANY_IN_FLIGHT, TIMEOUT) };
    let made = load::drive(server, load_many, create).await?;
    if made.requests < MANY_COUNT {
        bail!("only {} definitions could be made in {TIMEOUT:?}", made.requests);
    }
    all_established(server).await?;
    let milliseconds = begun.elapsed().as_secs_f64() * 1e3;
    let note = format!("{MANY_COUNT} of {} fields, {MANY_IN_FLIGHT} in flight, {}", MANY.fields, latencies(&made));
    progress(&format!("{}: {milliseconds:.0} ms", figures::MANY_DEFINITIONS.name));
    suite.row(&figures::MANY_DEFINITIONS, milliseconds, None, note);

    tokio::time::sleep(SETTLED_AFTER).await;
    let grown = rkube.process.resident_bytes()?.1.saturating_sub(bytes_before);
    let json = server.once(Call::get(format!("{DEFINITIONS}/many0x0.{GROUP}"))).await?.len();
    let kilobytes = (grown as f64 / MANY_COUNT as f64 - json as f64) / 1e3;
    let note = format!("beside {:.1} kB of JSON; {:.1} MB in all", json as f64 / 1e3, grown as f64 / 1e6);
    progress(&format!("{}: {kilobytes:.1} kB, {note}", figures::DEFINITION_MEMORY.name));
    suite.row(&figures::DEFINITION_MEMORY, kilobytes, None, note);

    let after = load::drive(server, load, work::create(work::NAMESPACE, "after")).await?;
    let note = format!("beside the rate before; {}", latencies(&after));
    suite.row(&figures::CREATE_BESIDE_MANY, after.rate(), Some(before.rate()), note);
    Ok(())
}

/// Waits until objects of it may be written.
async fn established(connection: &mut Connection, plural: &str) -> Result<()> {
    let path = format!("{DEFINITIONS}/{plural}.{GROUP}");
    let there = async {
        loop {
            let definition = check(connection.send(&Call::get(path.clone())).await?).await?;
            let definition: Value = serde_json::from_slice(&definition)?;
            if is_established(&definition) {
                return anyhow::Ok(());
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, there).await.with_context(|| format!("{plural} is not established"))?
}

async fn all_established(server: &Server) -> Result<()> {
    let there = async {
        loop {
            let list: Value = serde_json::from_slice(&server.once(Call::get(DEFINITIONS)).await?)?;
            if list["items"].as_array().is_some_and(|items| items.iter().all(is_established)) {
                return anyhow::Ok(());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, there).await.context("not all definitions are established")?
}

fn is_established(definition: &Value) -> bool {
    let conditions = definition["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|condition| condition["type"] == "Established" && condition["status"] == "True")
}
