//! Writers at full speed, `kill -9` at a random moment, a restart: every acknowledged write is there, nothing that a
//! watcher saw is undone, revisions go forward, and watches resume or say that they cannot.
//!
//! `RKUBE_CRASH_ROUNDS` says how often, `RKUBE_CRASH_SEED` from which seed on.

use std::collections::{BTreeMap, HashSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rkube_testkit::{Process, Rkube};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::client::{Client, Connection, Watch};
use crate::{Random, start_durable};

const ROUNDS: u64 = 15;
const SEED: u64 = 0x5eed_0f0c_0a57;
const WRITERS: usize = 6;
const NAMES_PER_WRITER: u64 = 12;
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[test]
fn acknowledged_writes_outlive_the_process() {
    let number = |name: &str, default| std::env::var(name).map_or(default, |text| text.parse::<u64>().unwrap());
    let mut random = Random(number("RKUBE_CRASH_SEED", SEED));
    let mut rkube = start_durable();
    let mut world = World::default();
    for round in 0..number("RKUBE_CRASH_ROUNDS", ROUNDS) {
        let seed = random.0;
        let moment = Duration::from_micros(random.below(200_000));
        let seen = write_until_killed(&mut rkube, &mut world, &mut random, moment);
        if random.below(6) == 0 {
            kill_while_starting(&rkube, &mut random);
        }
        rkube.restart();
        let context = format!("round {round}, seed {seed}");
        world.verify(&Client::of(&rkube), &seen, &context);
        assert!(!rkube.stderr().contains("panicked"), "{context}");
    }
    println!("{} writes were acknowledged", world.acknowledged);
}

/// What the clients know of the objects.
#[derive(Default)]
struct World {
    writers: Vec<Writer>,
    acknowledged: u64,
    /// The largest revision that anybody was told.
    revision: u64,
}

/// A client that writes to names of its own, one request after the other.
#[derive(Default)]
struct Writer {
    index: usize,
    /// The number in each object that was acknowledged or found; absent ones are deleted.
    known: BTreeMap<String, u64>,
    /// What was asked for and never answered.
    in_flight: Option<(String, Option<u64>)>,
    next: u64,
    acknowledged: u64,
    revision: u64,
}

/// The last that a watcher was shown of each name before the crash.
type Seen = BTreeMap<String, Shown>;

struct Shown {
    revision: u64,
    kind: String,
    number: u64,
}

fn write_until_killed(rkube: &mut Rkube, world: &mut World, random: &mut Random, moment: Duration) -> Seen {
    if world.writers.is_empty() {
        world.writers = (0..WRITERS).map(|index| Writer { index, ..Writer::default() }).collect();
    }
    let client = Client::of(rkube);
    let seen = Mutex::new(Seen::new());
    let highest = AtomicU64::new(0);
    let start = list(&client);
    std::thread::scope(|scope| {
        for writer in &mut world.writers {
            let mut random = Random(random.below(u64::MAX) | 1);
            let (client, highest) = (&client, &highest);
            scope.spawn(move || {
                let Ok(mut connection) = client.connect() else { return };
                while writer.write(&mut connection, &mut random).is_some() {}
                highest.fetch_max(writer.revision, Ordering::Relaxed);
            });
        }
        scope.spawn(|| follow(&client, start.revision, &seen));
        std::thread::sleep(moment);
        rkube.kill9();
    });
    world.acknowledged = world.writers.iter().map(|writer| writer.acknowledged).sum();
    let seen = seen.into_inner().unwrap();
    let shown = seen.values().map(|shown| shown.revision).max().unwrap_or(0);
    world.revision = world.revision.max(highest.into_inner()).max(shown);
    seen
}

impl Writer {
    /// One write; none when the connection broke before the answer.
    fn write(&mut self, connection: &mut Connection, random: &mut Random) -> Option<()> {
        let name = format!("w{}-{}", self.index, random.below(NAMES_PER_WRITER));
        let path = format!("{MAPS}/{name}");
        self.next += 1;
        let number = self.next;
        let exists = self.known.contains_key(&name);
        let object = json!({"metadata": {"name": name}, "data": {"value": content(number)}}).to_string();
        let merge = [("Content-Type", "application/merge-patch+json")];
        let deletes = exists && random.below(4) == 0;
        self.in_flight = Some((name.clone(), (!deletes).then_some(number)));
        let answer = match (exists, deletes) {
            (_, true) => connection.request("DELETE", &path, &[], b""),
            (false, _) => connection.request("POST", MAPS, &[], object.as_bytes()),
            (true, _) if random.below(2) == 0 => connection.request("PUT", &path, &[], object.as_bytes()),
            (true, _) => connection.request("PATCH", &path, &merge, object.as_bytes()),
        };
        let answer = answer.ok()?;
        let body = answer.json();
        assert_eq!(answer.status, if exists { 200 } else { 201 }, "{body}");
        self.acknowledged += 1;
        self.in_flight = None;
        if deletes {
            self.known.remove(&name);
        } else {
            assert_eq!(body["data"]["value"], content(number));
            self.known.insert(name, number);
            self.revision = self.revision.max(revision_of(&body));
        }
        Some(())
    }

    fn verify(&mut self, found: &BTreeMap<String, Value>, context: &str) {
        let prefix = format!("w{}-", self.index);
        let names: HashSet<String> =
            found.keys().filter(|name| name.starts_with(&prefix)).chain(self.known.keys()).cloned().collect();
        for name in names {
            let number = found.get(&name).map(|object| number_of(object, context));
            let known = self.known.get(&name).copied();
            let half_way = self.in_flight.as_ref().is_some_and(|(asked, value)| *asked == name && *value == number);
            assert!(number == known || half_way, "{context}: {name} is {number:?}, acknowledged was {known:?}");
            match number {
                Some(number) => self.known.insert(name, number),
                None => self.known.remove(&name),
            };
        }
        self.in_flight = None;
    }
}

impl World {
    fn verify(&mut self, client: &Client, seen: &Seen, context: &str) {
        let listed = list(client);
        assert!(listed.revision >= self.revision, "{context}: {} after {}", listed.revision, self.revision);
        let mut revisions = HashSet::new();
        for object in listed.objects.values() {
            let revision = revision_of(object);
            assert!(revisions.insert(revision) && revision <= listed.revision, "{context}: {object}");
        }
        for (name, Shown { revision, kind, number }) in seen {
            let now = listed.objects.get(name).map(revision_of);
            // A write that only the watcher was told of; what was acknowledged is looked at below.
            let told = |writer: &Writer| writer.in_flight == Some((name.clone(), Some(*number)));
            let undone = match now {
                Some(now) => now < *revision,
                None => kind != "DELETED" && self.writers.iter().any(told),
            };
            assert!(!undone, "{context}: a watcher saw {kind} {name} at {revision}, now it is at {now:?}");
        }
        for writer in &mut self.writers {
            writer.verify(&listed.objects, context);
        }
        self.resume(client, &listed, context);
    }

    /// A watch from the last revision that anybody saw either brings all that came after, or is told to list again.
    fn resume(&mut self, client: &Client, listed: &Listed, context: &str) {
        let from = self.revision.max(1);
        let path = format!("{MAPS}?watch=true&timeoutSeconds=30&resourceVersion={from}");
        let marker = json!({"metadata": {"generateName": "marker-"}}).to_string();
        let mut watch = match Watch::start(client, &path).unwrap() {
            Ok(watch) => watch,
            Err(answer) => {
                assert_eq!(answer.json()["reason"], "Expired", "{context}");
                return;
            }
        };
        let made = client.request("POST", MAPS, &[], marker.as_bytes()).unwrap().json();
        assert!(revision_of(&made) > listed.revision, "{context}: {made}");
        let name = made["metadata"]["name"].as_str().unwrap();
        let mut missing: HashSet<u64> =
            listed.objects.values().map(revision_of).filter(|revision| *revision > from).collect();
        loop {
            let event = watch.next_event().unwrap().unwrap_or_else(|| panic!("{context}: the watch ended"));
            if event["type"] == "ERROR" {
                assert_eq!(event["object"]["code"], 410, "{context}: {event}");
                break;
            }
            let revision = revision_of(&event["object"]);
            assert!(revision > from, "{context}: {event}");
            missing.remove(&revision);
            if event["object"]["metadata"]["name"] == name {
                assert!(missing.is_empty(), "{context}: no event came for {missing:?}");
                break;
            }
        }
        let removed = client.request("DELETE", &format!("{MAPS}/{name}"), &[], b"").unwrap();
        assert_eq!(removed.status, 200, "{context}");
        self.revision = self.revision.max(revision_of(&made));
    }
}

/// Notes every event until the connection breaks.
fn follow(client: &Client, from: u64, seen: &Mutex<Seen>) {
    let path = format!("{MAPS}?watch=true&resourceVersion={from}");
    let Ok(Ok(mut watch)) = Watch::start(client, &path) else { return };
    while let Ok(Some(event)) = watch.next_event() {
        let name = event["object"]["metadata"]["name"].as_str().unwrap_or_default();
        let kind = event["type"].as_str().unwrap_or_default();
        assert_ne!(kind, "ERROR", "{event}");
        if !name.starts_with('w') {
            continue;
        }
        let (revision, number) = (revision_of(&event["object"]), number_of(&event["object"], "a watch"));
        seen.lock().unwrap().insert(name.to_owned(), Shown { revision, kind: kind.to_owned(), number });
    }
}

/// Recovery, too, is cut short now and then.
fn kill_while_starting(rkube: &Rkube, random: &mut Random) {
    let mut process = Process::spawn_with_lines(rkube.command().stderr(std::process::Stdio::null()));
    std::thread::sleep(Duration::from_micros(random.below(150_000)));
    process.signal(Signal::KILL);
    process.wait(rkube_testkit::TIMEOUT).unwrap();
}

struct Listed {
    revision: u64,
    objects: BTreeMap<String, Value>,
}

fn list(client: &Client) -> Listed {
    let list = client.get(MAPS).json();
    let items = list["items"].as_array().unwrap_or_else(|| panic!("{list}")).clone();
    let count = items.len();
    let name = |item: &Value| item["metadata"]["name"].as_str().unwrap().to_owned();
    let objects: BTreeMap<String, Value> = items.into_iter().map(|item| (name(&item), item)).collect();
    assert_eq!(objects.len(), count, "no object is there twice");
    Listed { revision: revision_of(&list), objects }
}

fn revision_of(object: &Value) -> u64 {
    let text = object["metadata"]["resourceVersion"].as_str();
    text.unwrap_or_else(|| panic!("no revision in {object}")).parse().unwrap()
}

/// What a writer's object holds: now and then more than fits a page or two.
fn content(number: u64) -> String {
    let length = if number.is_multiple_of(50) { 100_000 } else { number as usize % 500 };
    format!("{number}:{}", "x".repeat(length))
}

fn number_of(object: &Value, context: &str) -> u64 {
    let value = object["data"]["value"].as_str().unwrap_or_default();
    let number = value.split(':').next().and_then(|text| text.parse().ok()).unwrap_or_default();
    assert_eq!(value, content(number), "{context}: half a write");
    number
}
