//! Who is let in: client certificates, tokens, and nobody else.

use rkube_testkit::{Finished, Rkube};

#[test]
fn tokens_say_who_somebody_is() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("tokens");
    std::fs::write(&file, "secret-a,alice,1,\"system:masters\"\nsecret-b,bob,2,dev\n").unwrap();
    let flag = format!("--token-auth-file={}", file.display());
    let rkube = Rkube::start_with(env!("CARGO_BIN_EXE_rkube"), &["--store=memory", &flag]);
    let Some(kubectl) = rkube.kubectl() else { return };
    let authority = rkube.data_directory().join("pki/ca.crt").display().to_string();
    let as_token = |token: &str, arguments: &[&str]| {
        let server = ["--server", rkube.url(), "--certificate-authority", &authority, "--token", token];
        let mut command = kubectl.command(&[&server[..], arguments].concat());
        Finished::run(command.env("KUBECONFIG", "/dev/null"), "")
    };
    as_token("secret-a", &["auth", "whoami"]).expect_success().says("alice").says("system:authenticated");
    as_token("secret-a", &["get", "ns"]).expect_success().says("default");
    as_token("secret-b", &["auth", "whoami"]).expect_success().says("bob");
    let forbidden = as_token("secret-b", &["get", "ns"]).expect_failure();
    assert!(
        forbidden.stderr.contains(
            "namespaces is forbidden: User \"bob\" cannot list resource \"namespaces\" in API group \"\" at the cluster scope"
        ),
        "{}",
        forbidden.stderr
    );
    let unknown = as_token("wrong", &["get", "ns"]).expect_failure();
    assert!(
        unknown.stderr.contains("Unauthorized") || unknown.stderr.contains("must be logged in"),
        "{}",
        unknown.stderr
    );
}
