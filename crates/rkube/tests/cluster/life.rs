//! Start, second start, end.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use rkube_testkit::{Finished, Rkube};

use crate::{start, start_durable};

#[test]
fn it_gets_ready_says_where_and_ends_in_good_order() {
    let mut rkube = start_durable();
    assert!(rkube.url().starts_with("https://127.0.0.1:"), "{}", rkube.url());
    assert!(rkube.ready_after_milliseconds() < 5000);
    assert_eq!(rkube.kubeconfig(), rkube.data_directory().join("kubeconfig"));
    let mode = |path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(rkube.kubeconfig().to_owned()), 0o600);
    assert_eq!(mode(rkube.data_directory().join("pki")), 0o700);
    assert!(rkube.terminate().success());
}

#[test]
fn a_second_one_is_told_who_holds_the_directory() {
    let mut rkube = start();
    let second = Finished::run(&mut rkube.command(), "").expect_failure();
    let holder = format!("pid {}, {}", rkube.process_id(), rkube.url());
    assert!(second.stderr.contains(&holder), "{}", second.stderr);
    assert_eq!(second.stdout, "");
    assert!(rkube.terminate().success(), "the first one goes on until it is told to end");
}

#[test]
fn it_comes_back_after_any_end_with_the_same_certificates() {
    let mut rkube = start_durable();
    let authority = |rkube: &Rkube| std::fs::read(rkube.data_directory().join("pki/ca.crt")).unwrap();
    let first = authority(&rkube);
    rkube.kill9();
    rkube.restart();
    assert_eq!(authority(&rkube), first);
    rkube.restart();
    assert_eq!(authority(&rkube), first);
}

#[test]
fn an_address_in_use_is_said() {
    let rkube = start();
    let other = tempfile::tempdir().unwrap();
    let address = rkube.url().trim_start_matches("https://");
    let mut command = Command::new(env!("CARGO_BIN_EXE_rkube"));
    command.args(["up", "--node=none", "--store=memory", "--listen", address, "--data-dir"]).arg(other.path());
    let second = Finished::run(&mut command, "").expect_failure();
    assert!(second.stderr.contains("--listen"), "{}", second.stderr);
}

#[test]
fn version_and_help_answer() {
    let run = |arguments: &[&str]| Finished::run(Command::new(env!("CARGO_BIN_EXE_rkube")).args(arguments), "");
    run(&["version"]).expect_success().says("(Kubernetes 1.36.");
    run(&["--version"]).expect_success().says("(Kubernetes 1.36.");
    run(&["--help"]).expect_success().says("Examples:").says("kubectl get namespaces");
    run(&["up", "--help"]).expect_success().says("--service-cluster-ip-range");
    run(&["up", "--store=floppy"]).expect_failure();
}
