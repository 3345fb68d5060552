//! A run finds what is wrong: with one safeguard taken out, something that has to hold does not.

use std::time::Duration;

use rkube_testkit::{Faults, Safeguard, Simulation};

use crate::seeds::run;

const MINUTE: Duration = Duration::from_secs(60);
/// One of so many seeds finds it.
const SEEDS: u64 = 12;

/// What is found first, and by which seed. A run has this time; the first seed is one that is known to find it: the others are
/// there for when something else has changed.
fn found(faults: &Faults, without: Safeguard, time: Duration, first: u64) -> Option<String> {
    let faults = Faults { without: Some(without), ..faults.clone() };
    (first..first + SEEDS).find_map(|seed| {
        let report = run(Simulation::of_seed(seed).time(time).faults(faults.clone()));
        report.violations.into_iter().next().map(|first| format!("seed {seed}: {first}"))
    })
}

#[test]
fn who_does_not_read_own_writes_is_found() {
    let faults = Faults { delayed_watches: 100, ..Faults::none() };
    let found = found(&faults, Safeguard::ReadYourWrites, 30 * MINUTE, 2).expect("pods are made twice");
    println!("{found}");
}

#[test]
fn who_takes_a_conflict_for_a_success_is_found() {
    let faults = Faults { conflicts: 200, ..Faults::none() };
    let found = found(&faults, Safeguard::ConflictRetry, 30 * MINUTE, 1).expect("something is never done");
    println!("{found}");
}

/// A leader stands still while another takes over, and goes on with what it was about to do.
#[test]
fn who_writes_and_does_not_lead_is_found() {
    let faults = Faults { pauses: Some(MINUTE), pause_max: 2 * MINUTE, slow_requests: 500, ..Faults::none() };
    let found = found(&faults, Safeguard::Fencing, 15 * MINUTE, 2).expect("two write at once");
    println!("{found}");
    assert!(found.contains("leads"), "{found}");
}
