//! Watches and lists where the store, the client or the clock does what they seldom do.

use std::io::{Read, Write};
use std::net::TcpStream;

use rkube_testkit::{Etcd, Rkube};
use serde_json::{Value, json};

use crate::client::{Client, Watch};
use crate::{is_well, start, start_durable};

const EVENTS: &str = "/api/v1/namespaces/default/events";

#[test]
fn no_time_limit_is_too_long_for_a_watch() {
    let rkube = start();
    let client = Client::of(&rkube);
    for seconds in ["9223372036854775807", "9223372036", "18014398509481984", "-9223372036854775808"] {
        let path = format!("/api/v1/namespaces?watch=1&timeoutSeconds={seconds}");
        let mut watch = Watch::start(&client, &path).unwrap().unwrap();
        assert_eq!(watch.next_event().unwrap().unwrap()["type"], "ADDED", "{seconds}");
    }
    is_well(&rkube);
}

/// Keys that end with one lease go at one revision, more of them than a watch writes at once.
#[test]
fn a_watch_on_etcd_sees_every_key_that_a_lease_takes_along() {
    const COUNT: usize = 900;
    let Some(etcd) = Etcd::start() else { return };
    let rkube = Rkube::start_with(env!("CARGO_BIN_EXE_rkube"), &[&format!("--store=etcd={}", etcd.url())]);
    let client = Client::of(&rkube);
    let mut connection = client.connect().unwrap();
    for index in 0..COUNT {
        let event = json!({
            "metadata": { "name": format!("event-{index:04}") },
            "involvedObject": { "namespace": "default" },
        });
        let headers = [("Content-Type", "application/json")];
        let answer = connection.request("POST", EVENTS, &headers, event.to_string().as_bytes()).unwrap();
        assert_eq!(answer.status, 201, "{}", answer.json());
    }
    let version = client.get(EVENTS).json()["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    let from = |version: &str| {
        let path = format!("{EVENTS}?watch=1&resourceVersion={version}&timeoutSeconds=60");
        Watch::start(&client, &path).unwrap().unwrap()
    };
    let mut running = from(&version);
    for lease in ask_etcd(&etcd, "leases", &json!({}))["leases"].as_array().unwrap() {
        ask_etcd(&etcd, "revoke", lease);
    }
    // One that watched, one that comes later.
    let seen = [deletions(&mut running, COUNT), deletions(&mut from(&version), COUNT)];
    for (names, versions) in seen {
        assert_eq!(names.len(), COUNT);
        assert_eq!(versions.len(), 1, "one lease, one revision: {versions:?}");
    }
    is_well(&rkube);
}

/// Revisions move on even when nobody writes, so that continue tokens expire.
#[test]
fn the_server_renews_its_identity() {
    let rkube = start();
    let path = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases?watch=1&timeoutSeconds=60";
    let mut watch = Watch::start(&Client::of(&rkube), path).unwrap().unwrap();
    let [made, renewed] = [(); 2].map(|()| watch.next_event().unwrap().unwrap());
    assert_eq!((&made["type"], &renewed["type"]), (&"ADDED".into(), &"MODIFIED".into()));
    let (before, after) = (&made["object"], &renewed["object"]);
    let name = before["metadata"]["name"].as_str().unwrap();
    assert!(name.starts_with("apiserver-") && name.len() == 36, "{name}");
    assert_eq!(before["metadata"]["labels"]["apiserver.kubernetes.io/identity"], "kube-apiserver");
    assert!(before["spec"]["holderIdentity"].as_str().unwrap().starts_with(&format!("{name}_")), "{before}");
    assert_eq!(before["spec"]["leaseDurationSeconds"], 3600);
    assert_ne!(before["spec"]["renewTime"], after["spec"]["renewTime"]);
    assert_eq!(before["metadata"]["uid"], after["metadata"]["uid"]);
}

#[test]
fn an_orderly_end_complains_of_nothing() {
    let mut servers = vec![start(), start_durable()];
    let etcd = Etcd::start();
    servers.extend(etcd.iter().map(|etcd| {
        let store = format!("--store=etcd={}", etcd.url());
        Rkube::start_with(env!("CARGO_BIN_EXE_rkube"), &[&store])
    }));
    for mut rkube in servers {
        assert!(rkube.terminate().success());
        let said = rkube.stderr();
        assert!(!said.contains("WARN") && !said.contains("ERROR"), "{said}");
    }
}

/// The names and versions of the next objects to go.
fn deletions(watch: &mut Watch, count: usize) -> (Vec<String>, Vec<String>) {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let (mut names, mut versions) = (Vec::new(), Vec::new());
    while names.len() < count {
        let event = watch.next_event().unwrap().unwrap_or_else(|| panic!("{} of {count}", names.len()));
        assert_eq!(event["type"], "DELETED", "{event}");
        names.push(text(&event["object"]["metadata"]["name"]));
        versions.push(text(&event["object"]["metadata"]["resourceVersion"]));
    }
    names.sort();
    names.dedup();
    versions.dedup();
    (names, versions)
}

/// Asks etcd's own JSON interface about leases.
fn ask_etcd(etcd: &Etcd, what: &str, body: &Value) -> Value {
    let mut socket = TcpStream::connect(etcd.url().trim_start_matches("http://")).unwrap();
    let body = body.to_string();
    let head = format!("POST /v3/lease/{what} HTTP/1.0\r\nHost: etcd\r\nContent-Length: {}\r\n\r\n", body.len());
    socket.write_all(format!("{head}{body}").as_bytes()).unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.contains(" 200 "), "{answer}");
    serde_json::from_str(body).unwrap()
}
