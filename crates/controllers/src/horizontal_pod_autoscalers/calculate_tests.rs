//! What metrics ask for, with the numbers that upstream tries.

use std::sync::Arc;
use std::time::Duration;

use super::calculate::{Figure, Figures, Scaled, Tolerances, Wanted};
use crate::pods::{Phase, Pod};

const NOW: i64 = 1_000_000;
const MINUTE: i64 = 60;

/// Pods in a row, each with what is measured of it, or `-`; after it `!` unready since its start, `^` just started, `x`
/// failed, `~` terminating, `.` pending.
fn read(text: &str, requests_milli: &[i64]) -> (Vec<Arc<Pod>>, Figures) {
    let (mut pods, mut figures) = (Vec::new(), Figures::new());
    for (index, word) in text.split_whitespace().enumerate() {
        let name = format!("pod-{index}");
        let started = if word.contains('^') { NOW } else { NOW - 3 * MINUTE };
        let phase = match () {
            () if word.contains('x') => Phase::Failed,
            () if word.contains('.') => Phase::Pending,
            () => Phase::Running,
        };
        let request = requests_milli.get(index).or(requests_milli.last()).map(|milli| format!("{milli}m"));
        pods.push(Arc::new(Pod {
            name: name.as_str().into(),
            phase,
            deleted: word.contains('~').then_some(NOW),
            ready: !word.contains('!'),
            ready_changed: Some(started),
            started: Some(started),
            ..asking(request.as_deref())
        }));
        if let Ok(value) = word.trim_end_matches(['!', '^', 'x', '~', '.']).parse() {
            let (at_micros, window_micros) = (NOW * 1_000_000, MINUTE * 1_000_000);
            figures.insert(name.into(), Figure { value, at_micros, window_micros });
        }
    }
    (pods, figures)
}

/// A pod that asks for so much CPU.
fn asking(cpu: Option<&str>) -> Pod {
    let resources = match cpu {
        Some(cpu) => serde_json::json!({ "requests": { "cpu": cpu } }),
        None => serde_json::json!({}),
    };
    let containers = serde_json::json!([{ "name": "main", "resources": resources }]);
    let pod = serde_json::json!({ "metadata": {}, "spec": { "containers": containers } });
    let json = pod.to_string().into();
    let item = rkube_operator::Item { namespace: "n".into(), name: "p".into(), uid: "u".into(), revision: 1, json };
    Pod::read(&item).unwrap()
}

fn scaled(replicas: i32, pods: &[Arc<Pod>]) -> Scaled<'_> {
    Scaled {
        replicas,
        status_replicas: replicas,
        pods,
        tolerances: Tolerances { down: 0.1, up: 0.1 },
        cpu_initialization_period: Duration::from_secs(120),
        initial_readiness_delay: Duration::from_secs(10),
        now_micros: NOW * 1_000_000,
    }
}

fn wanted(replicas: i32, utilization: impl Into<Option<i32>>, usage: i64) -> Wanted {
    Wanted { replicas, utilization: utilization.into(), usage }
}

#[test]
fn utilization_asks_for_replicas() {
    // Replicas, what pods use and ask for, the target; then replicas, utilization and usage.
    let table: [(i32, &str, &[i64], i32, Wanted); 27] = [
        (3, "80 80 80", &[100], 50, wanted(5, 80, 80)),
        (3, "300 500 700", &[1000], 30, wanted(5, 50, 500)),
        (3, "300! 500 700", &[1000], 30, wanted(4, 60, 600)),
        (3, "300^ 500 700", &[1000], 30, wanted(4, 60, 600)),
        (3, "400 500! 700!", &[1000], 30, wanted(3, 40, 400)),
        (3, "400 500!^ 700!^", &[1000], 30, wanted(3, 40, 400)),
        (2, "500 700 -!x -!x", &[1000], 30, wanted(4, 60, 600)),
        (2, "500 700 900x 900x", &[1000], 30, wanted(4, 60, 600)),
        (2, "500 700 -!~ -!~", &[1000], 30, wanted(4, 60, 600)),
        (5, "100 300 500 250 250", &[1000], 50, wanted(3, 28, 280)),
        (5, "100! 300 500 250 250", &[1000], 50, wanted(3, 32, 325)),
        (5, "100 300 500 250 250 -!x -!x", &[1000], 50, wanted(3, 28, 280)),
        (3, "1010 1030 1020", &[900, 1000, 1100], 100, wanted(3, 102, 1020)),
        (4, "400 95 - -", &[1000], 100, wanted(3, 24, 247)),
        (2, "1000 -", &[1000], 100, wanted(2, 100, 1000)),
        (2, "1900 -", &[1000], 100, wanted(2, 190, 1900)),
        (2, "600 -", &[1000], 100, wanted(2, 60, 600)),
        (3, "100! 450 -", &[1000], 50, wanted(3, 45, 450)),
        (3, "100^ 450 -", &[1000], 50, wanted(3, 45, 450)),
        (3, "100! 2000 -", &[1000], 50, wanted(4, 200, 2000)),
        (3, "100!^ 2000 -", &[1000], 50, wanted(4, 200, 2000)),
        (4, "100! 100 100 -", &[1000], 50, wanted(3, 10, 100)),
        (4, "200! 100 100 -", &[1000, 1000, 2000, 2000], 300, wanted(2, 6, 100)),
        (2, "100 100 -", &[1000], 50, wanted(2, 10, 100)),
        (3, "800 800 -.", &[1000], 50, wanted(3, 80, 800)),
        (
            3,
            "9223372036854775807 9223372036854775807 1",
            &[1],
            50,
            wanted(128_849_019, i32::MAX, 6_148_914_691_236_517_205),
        ),
        (3, "0 0 0", &[1000], 50, wanted(0, 0, 0)),
    ];
    for (replicas, text, requests, target, expected) in table {
        let (pods, figures) = read(text, requests);
        let found = scaled(replicas, &pods).by_utilization(figures, "cpu", None, target);
        assert_eq!(found, Ok(expected), "{replicas} {text}");
    }
}

#[test]
fn utilization_that_cannot_be_told_says_why() {
    let (pods, figures) = read("100 100!", &[]);
    let of = |figures: Figures, container| scaled(2, &pods).by_utilization(figures, "cpu", container, 50);
    let missing = "missing request for cpu in container main of Pod pod-0";
    assert_eq!(of(figures.clone(), None), Err(missing.to_owned()));
    assert_eq!(of(figures.clone(), Some("side")), Err("container side not found in Pod pod-0".to_owned()));
    let none = "did not receive metrics for targeted pods (pods might be unready)";
    assert_eq!(of(Figures::new(), None), Err(none.to_owned()));
    let (pods, _) = read("-", &[1000]);
    let other = Figures::from([("an-older-pod".into(), Figure { value: 100, ..Figure::default() })]);
    let disjoint = scaled(1, &pods).by_utilization(other.clone(), "cpu", None, 100);
    assert_eq!(disjoint, Err("no metrics returned matched known pods".to_owned()));
    let empty = "no pods returned by selector while calculating replica count";
    assert_eq!(scaled(1, &[]).by_utilization(other, "cpu", None, 100), Err(empty.to_owned()));
}

#[test]
fn averages_ask_for_replicas() {
    // Replicas, what pods measure, the target; then replicas and usage.
    let table = [
        (3, "20000 10000 30000", 15000, wanted(4, None, 20000)),
        (3, "50000 10000 30000!^", 15000, wanted(6, None, 30000)),
        (3, "50000!^ 15000 30000!^", 15000, wanted(7, None, 31666)),
        (5, "12000 12000 12000 12000 12000", 20000, wanted(3, None, 12000)),
        (3, "20000 21000 21000", 20000, wanted(3, None, 20666)),
        (5, "20000 19000 21000 - -", 20000, wanted(5, None, 20000)),
        (2, "10000 10000 -", 17000, wanted(2, None, 10000)),
        (1, "9223372036854775807", 1, wanted(i32::MAX, None, i64::MAX)),
    ];
    for (replicas, text, target, expected) in table {
        let (pods, figures) = read(text, &[1000]);
        assert_eq!(scaled(replicas, &pods).by_average(figures, "", target), Ok(expected), "{replicas} {text}");
    }
}

#[test]
fn one_value_asks_for_replicas() {
    // Replicas, pods, the value, the target; then replicas.
    let table = [
        (3, "- - -", 20000, 15000, Ok(4)),
        (3, "-! - -!", 50000, 10000, Ok(5)),
        (3, "-! - -!", 8600, 4400, Ok(2)),
        (5, "- - - - -", 12000, 20000, Ok(3)),
        (3, "- - -", 20666, 20000, Ok(3)),
        (3, "- - -", i64::MAX, 1, Ok(i32::MAX)),
        (0, "", 50000, 10000, Ok(5)),
        (0, "", 0, 10000, Ok(0)),
        (3, "", 10000, 10000, Ok(3)),
        (
            3,
            "",
            50000,
            10000,
            Err("unable to calculate ready pods: no pods returned by selector while calculating replica count"),
        ),
    ];
    for (replicas, text, value, target, expected) in table {
        let (pods, _) = read(text, &[1000]);
        let found = scaled(replicas, &pods).by_value(value, target);
        let expected = expected.map(|replicas| wanted(replicas, None, value)).map_err(str::to_owned);
        assert_eq!(found, expected, "{replicas} {text} {value} {target}");
    }
    // Replicas, the value, the target for each; then replicas and what each has.
    let table = [
        (3, 20000, 5000, wanted(4, None, 6667)),
        (5, 6000, 2000, wanted(3, None, 1200)),
        (4, 20166, 5000, wanted(4, None, 5042)),
        (3, 8600, 2150, wanted(4, None, 2867)),
        (1, i64::MAX, 1, wanted(i32::MAX, None, i64::MAX)),
        (1, i64::MAX, i64::MAX, wanted(1, None, i64::MAX)),
        (0, 5000, 1000, wanted(5, None, i64::MAX)),
        (0, 0, 1000, wanted(0, None, 0)),
    ];
    for (replicas, value, target, expected) in table {
        assert_eq!(scaled(replicas, &[]).by_value_per_pod(value, target), expected, "{replicas} {value} {target}");
    }
}

#[test]
fn tolerances_differ_for_up_and_down() {
    let (pods, figures) = read("909 1010 1111", &[900, 1000, 1100]);
    for (down, up, expected) in [(0.0, 0.0, 4), (0.1, 0.02, 3), (0.0, 0.01, 3)] {
        let scaled = Scaled { tolerances: Tolerances { down, up }, ..scaled(3, &pods) };
        let found = scaled.by_utilization(figures.clone(), "cpu", None, 100).unwrap();
        assert_eq!((found.replicas, found.utilization), (expected, Some(101)), "{down} {up}");
    }
}

/// A pod's CPU usage counts once it was ready for as long as was measured, or is ready later.
#[test]
fn cpu_usage_counts_when_it_says_something() {
    // When it started and became ready or unready, in seconds before now; whether it is; and whether it counts.
    let table = [
        (200, 190, true, true),
        (200, 195, false, false),
        (200, 180, false, true),
        (100, 30, true, false),
        (100, 60, true, true),
        (100, 60, false, false),
    ];
    for (started, changed, ready, expected) in table {
        let (pods, figures) = read("100", &[1000]);
        let pod =
            Pod { started: Some(NOW - started), ready_changed: Some(NOW - changed), ready, ..Pod::clone(&pods[0]) };
        let pods = [Arc::new(pod)];
        let found = scaled(1, &pods).by_utilization(figures, "cpu", None, 10);
        assert_eq!(found.is_ok(), expected, "{started} {changed} {ready}");
    }
}
