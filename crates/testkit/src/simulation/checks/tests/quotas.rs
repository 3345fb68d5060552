//! ResourceQuotas.

use serde_json::{Value, json};

use super::{A_WHILE, History, over, terminating};

fn quota(hard: &str, used: &str) -> Value {
    json!({ "status": { "hard": { "pods": hard }, "used": { "pods": used } } })
}

fn pod() -> Value {
    json!({ "metadata": { "uid": "p" } })
}

/// Two pods are allowed, and there are two.
fn two() -> History {
    let start = History::new().put("resourcequotas/a/q", &quota("2", "0"));
    start.put("pods/a/1", &pod()).put("pods/a/2", &pod())
}

#[test]
fn no_more_pods_are_made_than_are_allowed() {
    two().put("pods/b/3", &pod()).stays_silent();
    two().put("pods/a/1", &over(pod(), "Failed")).put("pods/a/3", &pod()).stays_silent();
    two().gone("pods/a/1").put("pods/a/3", &pod()).stays_silent();
    // Its node is lost, and nobody ends it.
    two().put("pods/a/1", &terminating(pod())).after(A_WHILE).put("pods/a/3", &pod()).stays_silent();
    let third = "/registry/pods/a/3: is the 3. pod of its namespace, and 2 are allowed";
    two().put("pods/a/3", &pod()).says(&[third]);
    // The least of all quotas counts.
    two().put("resourcequotas/a/r", &quota("5", "0")).put("pods/a/3", &pod()).says(&[third]);
    two().gone("resourcequotas/a/q").put("pods/a/3", &pod()).stays_silent();
    // It was lowered, below what is there.
    let lowered = |seconds: u64| two().put("resourcequotas/a/q", &quota("1", "0")).after(seconds);
    lowered(10).gone("pods/a/1").put("pods/a/3", &pod()).stays_silent();
    lowered(A_WHILE)
        .gone("pods/a/1")
        .put("pods/a/3", &pod())
        .says(&["/registry/pods/a/3: is the 2. pod of its namespace, and 1 are allowed"]);
}

#[test]
fn no_more_is_charged_than_is_allowed() {
    let start = || History::new().put("resourcequotas/a/q", &quota("2", "1"));
    start().put("resourcequotas/a/q", &quota("2", "2")).stays_silent();
    start()
        .put("resourcequotas/a/q", &quota("2", "3"))
        .says(&["/registry/resourcequotas/a/q: pods: 3 are charged for, and 2 allowed"]);
    // What is there is counted, however much it is; and it may become less.
    let counted = || start().by("resourcequota-controller").put("resourcequotas/a/q", &quota("2", "5"));
    counted().stays_silent();
    counted().by_users().put("resourcequotas/a/q", &quota("2", "4")).stays_silent();
    counted()
        .by_users()
        .put("resourcequotas/a/q", &quota("2", "6"))
        .says(&["/registry/resourcequotas/a/q: pods: 6 are charged for, and 2 allowed"]);
}
