//! Runs of seeds. What fails prints the command that repeats it.

use std::time::Duration;

use rkube_testkit::{Faults, Report, Simulation, fresh_seed};

const HOUR: Duration = Duration::from_secs(3600);

pub fn run(simulation: Simulation) -> Report {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(simulation.run())
}

/// A number that whoever runs the tests has chosen.
fn given(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")))
}

fn assert_well(report: &Report, hours: u64) {
    let Report { seed, violations, .. } = report;
    let again = format!("RKUBE_SEED={seed} RKUBE_HOURS={hours} cargo test -p rkube-testkit --test faults one_seed");
    assert!(violations.is_empty(), "seed {seed}: {violations:#?}\nonce more: {again}");
}

/// The first lines in which two runs differ, and some before.
fn difference(one: &Report, other: &Report) -> String {
    let same = one.lines.iter().zip(&other.lines).take_while(|(one, other)| one == other).count();
    let around = |report: &Report| report.lines[same.saturating_sub(5)..report.lines.len().min(same + 3)].join("\n");
    format!("line {same}\n{}\n---\n{}", around(one), around(other))
}

#[test]
fn a_seed_repeats() {
    for (seed, faults, time) in [(1, Faults::none(), HOUR / 12), (2, Faults::all(), HOUR / 3)] {
        let of = || run(Simulation::of_seed(seed).time(time).faults(faults.clone()).with_lines());
        let (one, other) = (of(), of());
        assert!(one.lines == other.lines, "{}", difference(&one, &other));
        assert_eq!(one.digest, other.digest);
        assert_well(&one, 1);
    }
}

/// A fresh one, unless somebody has chosen. `RKUBE_SEED`, `RKUBE_SEEDS` (so many from there on), `RKUBE_HOURS`.
#[test]
fn one_seed() {
    let (first, hours) = (given("RKUBE_SEED").unwrap_or_else(fresh_seed), given("RKUBE_HOURS").unwrap_or(2));
    let count = given("RKUBE_SEEDS").unwrap_or(1);
    for seed in (0..count).map(|more| first.wrapping_add(more)) {
        let time = HOUR * u32::try_from(hours).unwrap();
        let simulation = Simulation::of_seed(seed).time(time);
        let traced = std::env::var("RKUBE_TRACE").ok();
        let report = run(if traced.is_some() { simulation.with_lines() } else { simulation });
        println!("seed {seed}: {:016x}, {} writes, {} faults", report.digest, report.writes, report.faults);
        if let Some(file) = traced {
            std::fs::write(file, report.lines.join("\n")).unwrap();
        }
        if count > 1 && !report.violations.is_empty() {
            println!("{:#?}", report.violations);
        } else {
            assert_well(&report, hours);
        }
    }
}
