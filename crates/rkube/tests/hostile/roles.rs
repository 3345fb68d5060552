//! Roles and bindings in numbers that nobody means well with, and rights that nobody has.

use std::thread;

use crate::client::Client;
use crate::{is_well, start, start_durable};
use rkube_testkit::{Rkube, eventually};

const GROUP: &str = "rbac.authorization.k8s.io";
const CLUSTER_ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
const CLUSTER_BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const MANY: usize = 10_000;
const WRITERS: usize = 8;

/// A server, and the headers of two users.
fn start_with_users() -> (tempfile::TempDir, Rkube) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("tokens");
    std::fs::write(&file, "token-a,alice,1,\ntoken-b,bob,2,\n").unwrap();
    let flag = format!("--token-auth-file={}", file.display());
    let rkube = Rkube::start_with(env!("CARGO_BIN_EXE_rkube"), &["--store=memory", &flag]);
    (directory, rkube)
}

const ALICE: (&str, &str) = ("Authorization", "Bearer token-a");
const BOB: (&str, &str) = ("Authorization", "Bearer token-b");

fn role(name: &str, rules: &str) -> String {
    format!(r#"{{"metadata":{{"name":"{name}"}},"rules":[{rules}]}}"#)
}

fn binding(name: &str, role: &str, user: &str) -> String {
    format!(
        r#"{{"metadata":{{"name":"{name}"}},"roleRef":{{"apiGroup":"{GROUP}","kind":"ClusterRole","name":"{role}"}},
            "subjects":[{{"apiGroup":"{GROUP}","kind":"User","name":"{user}"}}]}}"#
    )
}

/// Makes as many as there are numbers, on several connections.
fn make_many(client: &Client, path: &'static str, object: fn(usize) -> String) {
    let writers = (0..WRITERS).map(|writer| {
        let client = client.clone();
        thread::spawn(move || {
            let mut connection = client.connect().unwrap();
            for number in (writer..MANY).step_by(WRITERS) {
                let made = connection.request("POST", path, &[], object(number).as_bytes()).unwrap();
                assert_eq!(made.status, 201, "{}", String::from_utf8_lossy(&made.body));
            }
        })
    });
    let writers: Vec<_> = writers.collect();
    writers.into_iter().for_each(|writer| writer.join().unwrap());
}

/// One user has 10,000 bindings of 10,000 roles, half of which are not there; the other has one.
#[test]
fn ten_thousand_bindings_of_one_user_are_nothing_to_others() {
    let (_directory, rkube) = start_with_users();
    let client = Client::of(&rkube);
    let nobody = client.without_certificate();
    let get = |user, path: &str| nobody.request("GET", path, &[user], b"").unwrap();
    let reader = r#"{"verbs":["list"],"apiGroups":[""],"resources":["configmaps"]}"#;
    assert_eq!(client.request("POST", CLUSTER_ROLES, &[], role("reader", reader).as_bytes()).unwrap().status, 201);
    let bound = client.request("POST", BINDINGS, &[], binding("bob", "reader", "bob").as_bytes()).unwrap();
    assert_eq!(bound.status, 201);
    make_many(&client, CLUSTER_ROLES, |number| {
        let rule =
            format!(r#"{{"verbs":["get"],"apiGroups":[""],"resources":["configmaps"],"resourceNames":["m{number}"]}}"#);
        // Of every other one only the binding is there.
        role(&format!("role-{number}{}", if number % 2 == 0 { "" } else { "x" }), &rule)
    });
    make_many(&client, BINDINGS, |number| binding(&format!("b-{number}"), &format!("role-{number}"), "alice"));

    assert_eq!(get(BOB, CONFIG_MAPS).status, 200);
    assert_eq!(get(BOB, &format!("{CONFIG_MAPS}/m2")).status, 403);
    assert_eq!(get(ALICE, &format!("{CONFIG_MAPS}/m2")).status, 404, "she may, and it is not there");
    let refused = get(ALICE, &format!("{CONFIG_MAPS}/m3"));
    assert_eq!(refused.status, 403);
    // She is told of roles that are not there, but not of all.
    let message = refused.json()["message"].as_str().unwrap().to_owned();
    assert_eq!(message.matches(" not found").count(), 1_000);
    assert!(message.contains(r#": RBAC: [clusterrole.rbac.authorization.k8s.io "role-1" not found, "#));
    let review = br#"{"spec":{"namespace":"default"}}"#;
    let path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
    let rules = nobody.request("POST", path, &[ALICE], review).unwrap().json();
    assert!(rules["status"]["resourceRules"].as_array().unwrap().len() >= MANY / 2);

    // What is added and taken away counts at once.
    let added = r#"{"verbs":["get"],"apiGroups":[""],"resources":["configmaps"],"resourceNames":["m3"]}"#;
    assert_eq!(client.request("POST", CLUSTER_ROLES, &[], role("role-3", added).as_bytes()).unwrap().status, 201);
    assert_eq!(get(ALICE, &format!("{CONFIG_MAPS}/m3")).status, 404);
    client.request("DELETE", &format!("{CLUSTER_ROLES}/role-2"), &[], b"").unwrap();
    assert_eq!(get(ALICE, &format!("{CONFIG_MAPS}/m2")).status, 403);
    client.request("DELETE", &format!("{BINDINGS}/b-4"), &[], b"").unwrap();
    assert_eq!(get(ALICE, &format!("{CONFIG_MAPS}/m4")).status, 403);
    assert_eq!(get(BOB, CONFIG_MAPS).status, 200);
    is_well(&rkube);
}

#[test]
fn nobody_gives_what_they_do_not_have() {
    let (_directory, rkube) = start_with_users();
    let client = Client::of(&rkube);
    let nobody = client.without_certificate();
    let writer = format!(
        r#"{{"verbs":["*"],"apiGroups":["{GROUP}"],"resources":["clusterroles","clusterrolebindings"],
        "resourceNames":["x"]}},{{"verbs":["create"],"apiGroups":["{GROUP}"],"resources":["*"]}}"#
    );
    assert_eq!(client.request("POST", CLUSTER_ROLES, &[], role("writer", &writer).as_bytes()).unwrap().status, 201);
    let bound = client.request("POST", CLUSTER_BINDINGS, &[], binding("w", "writer", "alice").as_bytes()).unwrap();
    assert_eq!(bound.status, 201);
    let all = r#"{"verbs":["*"],"apiGroups":["*"],"resources":["*"]},{"verbs":["*"],"nonResourceURLs":["*"]}"#;
    let texts = |prefix: &str, count: usize| {
        (0..count).map(|number| format!("\"{prefix}{number}\"")).collect::<Vec<_>>().join(",")
    };
    // More combinations than anybody would look at.
    let huge = format!(
        r#"{{"verbs":[{}],"apiGroups":[{}],"resources":[{}],"resourceNames":[{}]}}"#,
        texts("v", 9_000),
        texts("g", 9_000),
        texts("r", 9_000),
        texts("n", 9_000)
    );
    let table = [
        ("POST", CLUSTER_ROLES.to_owned(), role("y", all)),
        ("POST", CLUSTER_ROLES.to_owned(), role("y", &huge)),
        ("POST", CLUSTER_BINDINGS.to_owned(), binding("y", "cluster-admin", "alice")),
        (
            "POST",
            "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles".to_owned(),
            role("y", r#"{"verbs":["get"],"apiGroups":[""],"resources":["secrets"]}"#),
        ),
        ("POST", BINDINGS.to_owned(), binding("y", "cluster-admin", "alice")),
    ];
    for (method, path, body) in &table {
        let answer = nobody.request(method, path, &[ALICE], body.as_bytes()).unwrap();
        let said = answer.json();
        let message = said["message"].as_str().unwrap();
        assert_eq!(answer.status, 403, "{message}");
        assert!(message.contains("is attempting to grant RBAC permissions not currently held:\n"), "{message}");
    }
    // Those who may do everything may write even that.
    assert_eq!(client.request("POST", CLUSTER_ROLES, &[], role("y", &huge).as_bytes()).unwrap().status, 201);
    let path = format!("{CLUSTER_ROLES}/x");
    for (method, content) in [("PUT", "application/json"), ("PATCH", "application/apply-patch+yaml")] {
        let body =
            format!(r#"{{"apiVersion":"{GROUP}/v1","kind":"ClusterRole","metadata":{{"name":"x"}},"rules":[{all}]}}"#);
        let headers = [ALICE, ("Content-Type", content)];
        let answer = nobody.request(method, &format!("{path}?fieldManager=m"), &headers, body.as_bytes()).unwrap();
        // `*` on the one of this name includes to escalate it.
        assert!(answer.status < 300, "{}", answer.json());
    }
    is_well(&rkube);
}

/// Everything of the defaults is taken away while the server runs: masters can make good for it, and a start does.
#[test]
fn default_roles_come_back() {
    let mut rkube = start_durable();
    let client = Client::of(&rkube);
    let nobody = client.without_certificate();
    assert_eq!(nobody.get("/version").status, 200);
    for path in [CLUSTER_ROLES, CLUSTER_BINDINGS] {
        assert_eq!(client.request("DELETE", path, &[], b"").unwrap().status, 200);
    }
    assert_eq!(nobody.get("/version").status, 403);
    assert_eq!(client.get("/version").status, 200);
    rkube.restart();
    let client = Client::of(&rkube);
    assert_eq!(client.without_certificate().get("/version").status, 200);
    assert_eq!(client.get(CLUSTER_ROLES).json()["items"].as_array().unwrap().len(), 69);
    is_well(&rkube);
}

/// What sums up roles has not seen yet that a role goes when it writes the sum: the role must not come back by that.
#[test]
fn a_sum_that_is_deleted_stays_deleted() {
    const ROUNDS: usize = 60;
    let rkube = start();
    let client = Client::of(&rkube);
    let mut connection = client.connect().unwrap();
    let mut send = |method: &str, path: &str, body: String, code: u16| {
        let answer = connection.request(method, path, &[], body.as_bytes()).unwrap();
        assert_eq!(answer.status, code, "{}", String::from_utf8_lossy(&answer.body));
    };
    let rule = r#"{"verbs":["get"],"apiGroups":[""],"resources":["pods"]}"#;
    for round in 0..ROUNDS {
        let sum = format!(
            r#"{{"metadata":{{"name":"sum-{round}"}},
                "aggregationRule":{{"clusterRoleSelectors":[{{"matchLabels":{{"round":"{round}"}}}}]}}}}"#
        );
        let part =
            format!(r#"{{"metadata":{{"name":"part-{round}","labels":{{"round":"{round}"}}}},"rules":[{rule}]}}"#);
        send("POST", CLUSTER_ROLES, sum, 201);
        send("POST", CLUSTER_ROLES, part, 201);
        send("DELETE", &format!("{CLUSTER_ROLES}/sum-{round}"), String::new(), 200);
        send("DELETE", &format!("{CLUSTER_ROLES}/part-{round}"), String::new(), 200);
    }
    // Whatever was begun has been written when the sum of a last one is.
    let last = r#"{"metadata":{"name":"last"},"aggregationRule":{"clusterRoleSelectors":[{"matchLabels":{"a":"b"}}]}}"#;
    let part = format!(r#"{{"metadata":{{"name":"last-part","labels":{{"a":"b"}}}},"rules":[{rule}]}}"#);
    send("POST", CLUSTER_ROLES, last.to_owned(), 201);
    send("POST", CLUSTER_ROLES, part, 201);
    eventually("the last sum", || {
        let found = client.get(&format!("{CLUSTER_ROLES}/last")).json();
        if found["rules"].is_array() { Ok(()) } else { Err(found.to_string()) }
    });
    let all = client.get(CLUSTER_ROLES).json();
    let names = all["items"].as_array().unwrap().iter().map(|role| role["metadata"]["name"].as_str().unwrap());
    let left: Vec<&str> = names.filter(|name| name.starts_with("sum-")).collect();
    assert!(left.is_empty(), "{left:?} came back");
}
