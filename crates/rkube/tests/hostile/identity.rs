//! Who asks, and in whose name: nobody acts with rights that they did not mean to use, or no longer have.

use crate::client::Client;
use crate::{is_well, start};

const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";

#[test]
fn requests_in_the_name_of_others_are_refused() {
    let rkube = start();
    let client = Client::of(&rkube);
    let made = client.request("POST", SECRETS, &[], br#"{"metadata":{"name":"x"}}"#).unwrap();
    assert_eq!(made.status, 201);
    let path = format!("{SECRETS}/x");
    for name in ["Impersonate-User", "impersonate-group", "Impersonate-Uid", "Impersonate-Extra-scopes"] {
        for (method, path) in [("DELETE", path.as_str()), ("GET", path.as_str()), ("GET", "/version")] {
            let answer = client.request(method, path, &[(name, "nobody")], b"").unwrap();
            let body = answer.json();
            assert_eq!((answer.status, &body["reason"]), (403, &"Forbidden".into()), "{name}: {body}");
            assert_eq!(body["message"], "forbidden: impersonation is not supported yet");
        }
    }
    assert_eq!(client.request("GET", &path, &[("Impersonation", "x")], b"").unwrap().status, 200);
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
