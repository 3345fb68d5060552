//! Who asks, and in whose name: nobody acts with rights that they did not mean to use, or no longer have.

use rkube_testkit::Rkube;

use crate::client::Client;
use crate::{is_well, start};

const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";

#[test]
fn nobody_acts_as_another_without_the_right() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("tokens");
    std::fs::write(&file, "secret,mallory,1,dev\n").unwrap();
    let flag = format!("--token-auth-file={}", file.display());
    let rkube = Rkube::start_with(env!("CARGO_BIN_EXE_rkube"), &["--store=memory", &flag]);
    let client = Client::of(&rkube);
    let made = client.request("POST", SECRETS, &[], br#"{"metadata":{"name":"x"}}"#).unwrap();
    assert_eq!(made.status, 201);
    let (path, nobody) = (format!("{SECRETS}/x"), client.without_certificate());
    let known = ("Authorization", "Bearer secret");
    let cannot = |user: &str, verb: &str| {
        format!(
            r#"secrets "x" is forbidden: User "{user}" cannot {verb} resource "secrets" in API group "" in the namespace "default""#
        )
    };
    let on = |mode: &str| format!("impersonate-on:{mode}:delete");
    // Who wants it, as whom, and what they are told.
    let table: [(&[(&str, &str)], String); 6] = [
        (&[("Impersonate-User", "kubernetes-admin")], cannot("system:anonymous", &on("user-info"))),
        (&[known, ("Impersonate-User", "kubernetes-admin")], cannot("mallory", &on("user-info"))),
        (
            &[known, ("Impersonate-User", "a"), ("Impersonate-Group", "system:masters")],
            cannot("mallory", &on("user-info")),
        ),
        (&[known, ("Impersonate-User", "system:node:a")], cannot("mallory", &on("arbitrary-node"))),
        (
            &[known, ("impersonate-user", "system:serviceaccount:kube-system:b")],
            cannot("mallory", &on("serviceaccount")),
        ),
        (&[known, ("Impersonate-User", "mallory")], cannot("mallory", &on("user-info"))),
    ];
    for (headers, message) in table {
        let answer = nobody.request("DELETE", &path, headers, b"").unwrap();
        assert_eq!((answer.status, &answer.json()["message"]), (403, &message.into()), "{headers:?}");
    }
    for name in ["Impersonate-Group", "impersonate-uid", "Impersonate-Extra-scopes"] {
        let answer = client.request("DELETE", &path, &[(name, "a")], b"").unwrap();
        let message = answer.json()["message"].to_string();
        assert_eq!(answer.status, 400, "{message}");
        assert!(message.contains("without impersonating a user name"), "{message}");
    }
    // Who may has the rights of the other, and no more.
    let answer = client.request("DELETE", &path, &[("Impersonate-User", "bob")], b"").unwrap();
    assert_eq!((answer.status, &answer.json()["message"]), (403, &cannot("bob", "delete").into()));
    assert_eq!(client.get(&path).status, 200);
    assert_eq!(client.request("GET", &path, &[("Impersonation", "x")], b"").unwrap().status, 200);
    is_well(&rkube);
}

#[test]
fn who_shows_nothing_is_nobody_in_particular() {
    let mut rkube = start();
    let ask = |rkube: &Rkube, path: &str| Client::of(rkube).without_certificate().get(path);
    let message = r#"namespaces is forbidden: User "system:anonymous" cannot list resource "namespaces" in API group "" at the cluster scope"#;
    let answer = ask(&rkube, "/api/v1/namespaces");
    assert_eq!((answer.status, &answer.json()["message"]), (403, &message.into()));
    assert_eq!(ask(&rkube, "/healthz").status, 200);
    rkube.restart_with(&["--store=memory", "--anonymous-auth=false"]);
    for path in ["/api/v1/namespaces", "/healthz"] {
        let answer = ask(&rkube, path);
        assert_eq!((answer.status, &answer.json()["message"]), (401, &"Unauthorized".into()), "{path}");
    }
    is_well(&rkube);
}

#[test]
fn tokens_end_with_what_they_are_bound_to() {
    let rkube = start();
    let client = Client::of(&rkube);
    let nobody = client.without_certificate();
    let pod = r#"{"metadata":{"name":"a"},"spec":{"containers":[{"name":"a","image":"a"}],"nodeName":"b"}}"#;
    let table = [
        ("Node", "/api/v1/nodes", r#"{"metadata":{"name":"a"}}"#),
        ("Secret", SECRETS, r#"{"metadata":{"name":"a"}}"#),
        ("Pod", "/api/v1/namespaces/default/pods", pod),
    ];
    rkube_testkit::eventually("the account is there", || match client.get(&format!("{ACCOUNTS}/default")).status {
        200 => Ok(()),
        other => Err(other.to_string()),
    });
    for (kind, path, object) in table {
        let make = || client.request("POST", path, &[], object.as_bytes()).unwrap();
        assert_eq!(make().status, 201, "{kind}");
        let body = format!(r#"{{"spec":{{"boundObjectRef":{{"apiVersion":"v1","kind":"{kind}","name":"a"}}}}}}"#);
        let token = client.request("POST", &format!("{ACCOUNTS}/default/token"), &[], body.as_bytes()).unwrap().json();
        let bearer = format!("Bearer {}", token["status"]["token"].as_str().unwrap());
        let ask = || nobody.request("GET", "/api", &[("Authorization", &bearer)], b"").unwrap().status;
        // The pod's node is not there, which is nothing to its token.
        assert_eq!(ask(), 200, "{kind}");
        let gone = client.request("DELETE", &format!("{path}/a?gracePeriodSeconds=0"), &[], b"").unwrap();
        assert_eq!(gone.status, 200, "{kind}");
        assert_eq!(ask(), 401, "{kind}");
        assert_eq!(make().status, 201);
        assert_eq!(ask(), 401, "another {kind} of the same name");
    }
    is_well(&rkube);
}
