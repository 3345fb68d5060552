//! More than the server can do at a time: large bodies that wait, bodies that grow when they are read, requests beyond
//! the number that may be in flight. Others are answered meanwhile, and it ends when it is told to.

use std::sync::atomic::{AtomicBool, Ordering};

use rkube_testkit::{Etcd, Rkube, eventually};

use crate::client::Client;
use crate::{is_well, start};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const JSON: (&str, &str) = ("Content-Type", "application/json");
const YAML: (&str, &str) = ("Content-Type", "application/yaml");

/// Sends the same on so many connections at once, each open before any sends; gives the codes that came back.
fn at_once(
    client: &Client,
    count: usize,
    request: (&str, &str, (&str, &str)),
    body: &(dyn Fn(usize) -> Vec<u8> + Sync),
) -> Vec<u16> {
    let (method, path, header) = request;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..count)
            .map(|number| {
                let sending = move || {
                    let answer = client.connect()?.request(method, path, &[header], &body(number))?;
                    Ok::<u16, std::io::Error>(answer.status)
                };
                std::thread::Builder::new().stack_size(256 << 10).spawn_scoped(scope, sending).unwrap()
            })
            .collect();
        threads.into_iter().filter_map(|thread| thread.join().unwrap().ok()).collect()
    })
}

/// Asks again and again until `done`: everything is answered.
fn keep_asking(client: &Client, path: &str, done: &AtomicBool) -> usize {
    let mut answered = 0;
    while !done.load(Ordering::Relaxed) {
        let answer = client.request("GET", path, &[], b"").expect("others are answered");
        assert_eq!(answer.status, 200);
        answered += 1;
    }
    answered
}

#[test]
fn a_thousand_large_bodies_that_wait() {
    let mut rkube = start();
    let client = Client::of(&rkube);
    let done = AtomicBool::new(false);
    let path = format!("{MAPS}?labelSelector=zz%3Dy&resourceVersion=99999999&resourceVersionMatch=NotOlderThan");
    let body = format!(r#"{{"kind":"DeleteOptions","apiVersion":"v1","x":"{}"}}"#, "x".repeat(140_000)).into_bytes();
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| keep_asking(&client, MAPS, &done));
        let codes = at_once(&client, 1_000, ("DELETE", &path, JSON), &|_| body.clone());
        done.store(true, Ordering::Relaxed);
        assert!(asking.join().unwrap() > 0);
        assert_eq!(codes.len(), 1_000, "everybody gets an answer");
        assert!(codes.iter().all(|code| [504, 429].contains(code)), "{codes:?}");
        assert!(codes.contains(&504));
    });
    is_well(&rkube);
    assert!(rkube.terminate().success());
}

#[test]
fn large_bodies_on_a_store_that_stands_still() {
    let Some(etcd) = Etcd::start() else { return };
    let store = format!("--store=etcd={}", etcd.url());
    let mut rkube = Rkube::start_with(env!("CARGO_BIN_EXE_rkube"), &[&store]);
    let client = Client::of(&rkube);
    let done = AtomicBool::new(false);
    let value = "x".repeat(140_000);
    let body =
        |number: usize| format!(r#"{{"metadata":{{"name":"a{number}"}},"data":{{"a":"{value}"}}}}"#).into_bytes();
    etcd.pause();
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| keep_asking(&client, &format!("{MAPS}?resourceVersion=0"), &done));
        let posting = scope.spawn(|| at_once(&client, 900, ("POST", &format!("{MAPS}?timeout=5s"), JSON), &body));
        // Some were turned away or gave up while the store stood still.
        let codes = posting.join().unwrap();
        done.store(true, Ordering::Relaxed);
        assert!(asking.join().unwrap() > 0);
        assert_eq!(codes.len(), 900, "everybody gets an answer");
        assert!(codes.iter().all(|code| [201, 409, 429, 500, 503, 504].contains(code)), "{codes:?}");
    });
    etcd.resume();
    eventually("it writes again", || match client.request("POST", MAPS, &[JSON], &body(1_000)).unwrap().status {
        201 | 409 => Ok(()),
        other => Err(other.to_string()),
    });
    is_well(&rkube);
    assert!(rkube.terminate().success());
}

#[test]
fn bodies_that_grow_when_they_are_read() {
    let rkube = start();
    let client = Client::of(&rkube);
    let nested = "- ".repeat(1_500_000).into_bytes();
    let codes = at_once(&client, 20, ("POST", MAPS, YAML), &|_| nested.clone());
    // On a machine that is busy with other things some wait too long for their turn.
    assert!(codes.iter().all(|code| [400, 429].contains(code)) && codes.contains(&400), "{codes:?}");
    // Lists in lists, as many as a body can say: the worst that a reader has to hold.
    let wide = format!("[{}1]", "[1],".repeat(750_000)).into_bytes();
    let codes = at_once(&client, 20, ("POST", MAPS, JSON), &|_| wide.clone());
    assert!(codes.iter().all(|code| [400, 429].contains(code)), "{codes:?}");
    // And what the reader of YAML reads ahead.
    let ahead = format!("[{}a]", "[a],".repeat(750_000)).into_bytes();
    let codes = at_once(&client, 4, ("POST", MAPS, YAML), &|_| ahead.clone());
    assert!(codes.iter().all(|code| [400, 429].contains(code)), "{codes:?}");
    let peak = memory_peak(&rkube);
    assert!(peak < 1 << 30, "{} MiB at most", peak >> 20);
    is_well(&rkube);
}

/// The most bytes that the process ever had in memory.
fn memory_peak(rkube: &Rkube) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", rkube.process_id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024
}

#[test]
fn more_requests_than_may_be_in_flight() {
    let tokens = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(tokens.path(), "secret,jane,1\n").unwrap();
    let tokens = format!("--token-auth-file={}", tokens.path().display());
    let flags = ["--store=memory", "--max-requests-inflight=1", "--max-mutating-requests-inflight=1", &tokens];
    let rkube = Rkube::start_with(env!("CARGO_BIN_EXE_rkube"), &flags);
    let (client, jane) = (Client::of(&rkube), Client::of(&rkube).without_certificate());
    // Waits three seconds for a revision that does not come, in the only place that there is.
    let waiting = "/api/v1/namespaces/default/configmaps?resourceVersion=99999999";
    let ask = |_: usize| {
        let bearer = ("Authorization", "Bearer secret");
        jane.request("GET", "/api", &[bearer], b"").unwrap()
    };
    assert_eq!(ask(0).status, 200);
    let seen = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Masters are answered without a place where somebody else has it just then, so this is asked again.
        let held = scope.spawn(|| {
            loop {
                let status = client.request("GET", waiting, &[], b"").unwrap().status;
                if seen.load(Ordering::Relaxed) {
                    return status;
                }
            }
        });
        let refused = eventually("the place is taken", || {
            let answer = ask(0);
            if answer.status == 429 { Ok(answer) } else { Err(answer.status.to_string()) }
        });
        seen.store(true, Ordering::Relaxed);
        assert_eq!(refused.header("retry-after"), Some("1"));
        assert_eq!(refused.body, b"Too many requests, please try again later.\n");
        assert_eq!(client.get(MAPS).status, 200, "masters are always answered");
        assert_eq!(held.join().unwrap(), 504);
    });
    assert_eq!(ask(0).status, 200);
    is_well(&rkube);

    // A large answer that nobody reads keeps its place, until its client is gone.
    let text = "x".repeat(900_000);
    for number in 0..30 {
        let map = format!(r#"{{"metadata":{{"name":"large-{number}"}},"data":{{"a":"{text}"}}}}"#);
        assert_eq!(client.request("POST", MAPS, &[], map.as_bytes()).unwrap().status, 201);
    }
    let mut slow = client.connect().unwrap();
    slow.write(&crate::client::request("GET", MAPS, &[], b"")).unwrap();
    let ask_until = |status: u16| {
        eventually("who is answered", || match ask(0).status {
            found if found == status => Ok(()),
            other => Err(other.to_string()),
        });
    };
    ask_until(429);
    assert_eq!(ask(0).status, 429, "it stays so");
    drop(slow);
    ask_until(200);
}
