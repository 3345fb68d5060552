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

#[test]
fn who_may_acts_as_somebody_else() {
    let rkube = Rkube::start_with(env!("CARGO_BIN_EXE_rkube"), &["--store=memory"]);
    let Some(kubectl) = rkube.kubectl() else { return };
    let whoami = ["auth", "whoami", "-o", "jsonpath={.status.userInfo}"];
    let acting = |flags: &[&str]| kubectl.run(&[&whoami[..], flags].concat()).stdout;
    let shown = acting(&["--as=bob", "--as-group=dev", "--as-group=ops", "--as-uid=7"]);
    assert_eq!(shown, r#"{"groups":["dev","ops","system:authenticated"],"uid":"7","username":"bob"}"#);
    let shown = acting(&["--as=system:serviceaccount:kube-system:x"]);
    assert!(shown.contains("system:serviceaccounts:kube-system"), "{shown}");
    let refused = kubectl.attempt(&["get", "pods", "--as=bob"]).expect_failure();
    let words =
        "pods is forbidden: User \"bob\" cannot list resource \"pods\" in API group \"\" in the namespace \"default\"";
    assert!(refused.stderr.contains(words), "{}", refused.stderr);
    kubectl.run(&["get", "pods", "--as=bob", "--as-group=system:masters"]);
    let refused = kubectl.attempt(&["get", "pods", "--as-group=dev"]).expect_failure();
    assert!(refused.stderr.contains("without impersonating a user"), "{}", refused.stderr);
}

#[test]
fn service_accounts_have_tokens() {
    let rkube = Rkube::start_with(env!("CARGO_BIN_EXE_rkube"), &["--store=memory"]);
    let Some(kubectl) = rkube.kubectl() else { return };
    let authority = rkube.data_directory().join("pki/ca.crt").display().to_string();
    let whoami = |token: &str| {
        let flags =
            ["--server", rkube.url(), "--certificate-authority", &authority, "--token", token, "auth", "whoami"];
        Finished::run(kubectl.command(&flags).env("KUBECONFIG", "/dev/null"), "")
    };
    kubectl.run(&["create", "serviceaccount", "robot"]);
    let token = kubectl.run(&["create", "token", "robot", "--duration=1h"]).stdout;
    whoami(token.trim()).expect_success().says("system:serviceaccount:default:robot").says("JTI=");
    let secret = r#"{"apiVersion":"v1","kind":"Secret","type":"kubernetes.io/service-account-token",
        "metadata":{"name":"kept","annotations":{"kubernetes.io/service-account.name":"robot"}}}"#;
    kubectl.run_with_input(&["apply", "-f", "-"], secret);
    kubectl.run(&["wait", "secret/kept", "--for=jsonpath={.data.token}", "--timeout=60s"]);
    kubectl.run(&["describe", "secret", "kept"]).says("kubernetes.io/service-account.uid").says("ca.crt:");
    let token = kubectl.run(&["get", "secret", "kept", "-o", "go-template={{.data.token | base64decode}}"]).stdout;
    whoami(&token).expect_success().says("system:serviceaccount:default:robot");
    kubectl.run(&["delete", "serviceaccount", "robot"]);
    kubectl.run(&["wait", "secret/kept", "--for=delete", "--timeout=60s"]);
    whoami(&token).expect_failure();
}
