//! `rkube store save` and `rkube store restore`.

use std::process::Command;

use rkube_testkit::{Finished, Rkube};

use crate::start_durable;

fn store(arguments: &[&str]) -> Finished {
    Finished::run(Command::new(env!("CARGO_BIN_EXE_rkube")).arg("store").args(arguments), "")
}

#[test]
fn what_was_saved_is_there_after_a_restore() {
    let mut rkube = start_durable();
    let Some(kubectl) = rkube.kubectl() else { return };
    kubectl.run(&["create", "configmap", "kept", "--from-literal=a=1"]);
    let data = rkube.data_directory().display().to_string();
    let scratch = |name: &str| rkube.scratch_directory().join(name).display().to_string();
    let (while_running, when_ended) = (scratch("running.backup"), scratch("ended.backup"));
    store(&["save", &while_running, "--data-dir", &data]).expect_success().says("saved revision");
    kubectl.run(&["create", "configmap", "later", "--from-literal=a=1"]);
    rkube.terminate();
    store(&["save", &when_ended, "--data-dir", &data]).expect_success();
    let taken = store(&["restore", &when_ended, "--data-dir", &data]).expect_failure();
    assert!(taken.stderr.contains("empty"), "{}", taken.stderr);

    std::fs::remove_dir_all(rkube.data_directory()).unwrap();
    store(&["restore", &while_running, "--data-dir", &data]).expect_success();
    rkube.restart();
    let kubectl = rkube.kubectl().unwrap();
    kubectl.run(&["get", "configmap", "kept", "-o", "jsonpath={.data.a}"]).says("1");
    kubectl.attempt(&["get", "configmap", "later"]).expect_failure();
}

#[test]
fn a_file_that_is_no_backup_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    std::fs::write(path("file"), "not a backup").unwrap();
    store(&["restore", &path("file"), "--data-dir", &path("data")]).expect_failure();
    store(&["restore", &path("absent"), "--data-dir", &path("data")]).expect_failure();
    store(&["save", &path("backup"), "--data-dir", &path("nowhere")]).expect_failure();
}

#[test]
fn objects_survive_a_kill() {
    let mut rkube: Rkube = start_durable();
    let Some(kubectl) = rkube.kubectl() else { return };
    kubectl.run(&["create", "configmap", "kept", "--from-literal=a=1"]);
    let revision = ["get", "configmap", "kept", "-o", "jsonpath={.metadata.resourceVersion}"];
    let before = kubectl.run(&revision).stdout;
    rkube.kill9();
    rkube.restart();
    assert_eq!(rkube.kubectl().unwrap().run(&revision).stdout, before);
}
