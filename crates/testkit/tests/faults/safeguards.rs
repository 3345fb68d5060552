//! A run finds what is wrong: with one safeguard taken out, something that has to hold does not.

use std::time::Duration;

use rkube_testkit::{Faults, Safeguard, Simulation};

use crate::seeds::run;

const TIME: Duration = Duration::from_secs(3600);
/// One of so many seeds finds it.
const SEEDS: u64 = 8;

fn found(faults: &Faults, without: Safeguard) -> Option<String> {
    let faults = Faults { without: Some(without), ..faults.clone() };
    (1..=SEEDS).find_map(|seed| {
        let report = run(Simulation::of_seed(seed).time(TIME).faults(faults.clone()));
        report.violations.into_iter().next().map(|first| format!("seed {seed}: {first}"))
    })
}

#[test]
fn who_does_not_read_own_writes_is_found() {
    let faults = Faults { delayed_watches: 100, ..Faults::none() };
    let found = found(&faults, Safeguard::ReadYourWrites).expect("pods are made twice");
    println!("{found}");
}

#[test]
fn who_takes_a_conflict_for_a_success_is_found() {
    let faults = Faults { conflicts: 200, ..Faults::none() };
    let found = found(&faults, Safeguard::ConflictRetry).expect("something is never done");
    println!("{found}");
}

/// A leader stands still while another takes over, and goes on with what it was about to do.
#[test]
fn who_writes_and_does_not_lead_is_found() {
    let minute = Duration::from_secs(60);
    let faults = Faults { pauses: Some(5 * minute), pause_max: 2 * minute, slow_requests: 50, ..Faults::none() };
    let found = found(&faults, Safeguard::Fencing).expect("two write at once");
    println!("{found}");
    assert!(found.contains("leads"), "{found}");
}
