//! `kill -9` at any moment: what was acknowledged is there at the next start, and the revision goes forward.
//!
//! The test runs its own binary again as a child that writes at full speed and prints what was acknowledged.
//! RKUBE_CRASH_ROUNDS says how often it is killed, RKUBE_CRASH_SEED where the moments begin.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rkube_store::embedded::OpenOptions;
use rkube_store::{Change, Embedded, Expect, RangeQuery, Revision, Store, Write};

const DIRECTORY: &str = "RKUBE_CRASH_DIRECTORY";
const WRITERS: usize = 16;

#[test]
fn what_was_acknowledged_survives() {
    let number =
        |name: &str, default| std::env::var(name).map_or(default, |text| text.parse::<u64>().expect("a number"));
    let (rounds, mut seed) = (number("RKUBE_CRASH_ROUNDS", 20), number("RKUBE_CRASH_SEED", 1));
    let directory = tempfile::tempdir().unwrap();
    let mut acknowledged = HashMap::new();
    let mut revision = 1;
    for round in 0..rounds {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let moment = Duration::from_micros((seed >> 33) % 150_000);
        write_and_kill(directory.path(), moment, &mut acknowledged);
        revision = check(directory.path(), &mut acknowledged, revision, round);
    }
    assert!(rounds < 20 || acknowledged.len() > WRITERS, "hardly anything was written");
}

/// Lets a child write for a moment, kills it, and notes what it acknowledged.
fn write_and_kill(directory: &Path, moment: Duration, acknowledged: &mut HashMap<String, u64>) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_that_writes", "--ignored", "--nocapture"])
        .env(DIRECTORY, directory)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let reader = std::thread::spawn(move || {
        let mut seen = Vec::new();
        while let Some(Ok(line)) = lines.next() {
            seen.push(line);
        }
        seen
    });
    std::thread::sleep(Duration::from_millis(30) + moment);
    child.kill().unwrap();
    child.wait().unwrap();
    for line in reader.join().unwrap() {
        let words: Vec<_> = line.split(' ').collect();
        // The last line may be cut short; a whole one ends with a full stop.
        if let ["acknowledged", key, count, "."] = words[..] {
            acknowledged.insert(key.to_owned(), count.parse().unwrap());
        }
    }
}

/// Each key holds the count that was acknowledged, or the one that was under way.
fn check(directory: &Path, acknowledged: &mut HashMap<String, u64>, before: Revision, round: u64) -> Revision {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let store = Embedded::open(directory, OpenOptions::default()).await.unwrap();
        let revision = store.revision().await.unwrap();
        assert!(revision >= before, "round {round}: from {before} back to {revision}");
        let all = store.range(RangeQuery::default()).await.unwrap();
        let found: HashMap<_, _> = all.items.iter().map(|item| (item.key.to_string(), count_in(&item.value))).collect();
        for (key, count) in acknowledged.iter() {
            let now = found.get(key).copied().unwrap_or(0);
            assert!(now == *count || now == count + 1, "round {round}: {key} is at {now}, {count} was acknowledged");
        }
        // What was under way and arrived counts from now on.
        *acknowledged = found;
        revision
    })
}

/// A value is its count, as text, over and over; anything else is a torn one.
fn count_in(value: &[u8]) -> u64 {
    let text = std::str::from_utf8(value).unwrap();
    let mut words = text.split_whitespace();
    let first = words.next().unwrap();
    assert!(words.all(|word| word == first) && value.len() > 500, "a torn value");
    first.parse().unwrap()
}

#[test]
#[ignore = "is run, and killed, by the other test"]
fn child_that_writes() {
    let Ok(directory) = std::env::var(DIRECTORY) else {
        return;
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap();
    runtime.block_on(async {
        let options = OpenOptions { snapshot_dead_bytes_min: 1 << 18, ..OpenOptions::default() };
        let store = Arc::new(Embedded::open(directory, options).await.unwrap());
        let writers = (0..WRITERS).map(|writer| {
            let store = store.clone();
            tokio::spawn(async move {
                for round in 0.. {
                    count_up(&*store, &format!("writer{writer}/key{}", round % 3)).await;
                }
            })
        });
        futures::future::join_all(writers).await;
    });
}

async fn count_up(store: &dyn Store, key: &str) {
    let (found, _) = store.get(key).await.unwrap();
    let count = found.as_ref().map_or(0, |found| count_in(&found.value)) + 1;
    let expect = found.map_or(Expect::Absent, |found| Expect::Revision(found.mod_revision));
    let value = format!("{count} ").repeat(1000).into();
    let change = Change::Put { value, lease: None, note: None };
    store.write(Write { key: key.into(), expect, change, guard: None }).await.unwrap();
    // One write call per line, and the parent takes only whole ones.
    std::io::stdout().write_all(format!("acknowledged {key} {count} .\n").as_bytes()).unwrap();
}
