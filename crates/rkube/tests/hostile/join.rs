//! Several control planes on one etcd: they are one, or the second does not start.

use std::process::Command;

use rkube_testkit::{Etcd, Finished, Rkube};

use crate::client::Client;
use crate::is_well;

const BINARY: &str = env!("CARGO_BIN_EXE_rkube");

#[test]
fn control_planes_on_one_etcd_are_one() {
    let Some(etcd) = Etcd::start() else { return };
    let store = format!("--store=etcd={}", etcd.url());
    let first = Rkube::start_with(BINARY, &[&store]);
    let secret = first.data_directory().join("join-secret");
    let other = tempfile::tempdir().unwrap();
    let mut alone = Command::new(BINARY);
    alone.args(["up", "--node=none", "--listen=127.0.0.1:0", &store, "--data-dir"]).arg(other.path());
    let refused = Finished::run(&mut alone, "").expect_failure();
    assert!(refused.stderr.contains("--join-secret-file"), "{}", refused.stderr);
    assert!(!other.path().join("pki/ca.crt").exists());

    let flag = format!("--join-secret-file={}", secret.display());
    let second = Rkube::start_with(BINARY, &[&store, &flag]);
    // Whoever one of them knows, the other knows too.
    let at_second = Client::at(&first.data_directory(), second.url().trim_start_matches("https://"));
    assert_eq!(at_second.get("/api/v1/namespaces/kube-system").status, 200);
    let token = Client::of(&first).request(
        "POST",
        "/api/v1/namespaces/default/serviceaccounts/default/token",
        &[],
        br#"{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{}}"#,
    );
    let token = token.unwrap().json()["status"]["token"].as_str().unwrap().to_owned();
    let review =
        format!(r#"{{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","spec":{{"token":"{token}"}}}}"#);
    let reviewed =
        Client::of(&second).request("POST", "/apis/authentication.k8s.io/v1/tokenreviews", &[], review.as_bytes());
    assert_eq!(reviewed.unwrap().json()["status"]["authenticated"], true);
    for _ in 0..2 {
        is_well(&first);
        is_well(&second);
    }
    // They agree, so there is nothing to write: far from the hundreds in a second of two that fight.
    let client = Client::of(&first);
    let revision = || -> u64 {
        let list = client.get("/api/v1/namespaces?limit=1").json();
        list["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
    };
    let before = revision();
    std::thread::sleep(std::time::Duration::from_secs(3));
    let written = revision() - before;
    assert!(written < 50, "{written} writes by idle servers");
}

#[test]
fn another_authority_is_refused_with_the_way_out() {
    let Some(etcd) = Etcd::start() else { return };
    let store = format!("--store=etcd={}", etcd.url());
    let _first = Rkube::start_with(BINARY, &[&store]);
    let mut own = Rkube::start_with(BINARY, &["--store=memory"]);
    own.terminate();
    let mut command = own.command();
    command.arg(&store);
    let mut command_with_etcd = Command::new(command.get_program());
    command_with_etcd.args(command.get_args().filter(|argument| *argument != "--store=memory"));
    let refused = Finished::run(&mut command_with_etcd, "").expect_failure();
    assert!(refused.stderr.contains("has another authority than"), "{}", refused.stderr);
    assert!(refused.stderr.contains("remove that directory"), "{}", refused.stderr);
}
