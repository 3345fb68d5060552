//! Who leads.

use serde_json::{Value, json};

use super::History;

fn held_by(holder: &str) -> Value {
    json!({ "metadata": { "uid": "l" }, "spec": { "holderIdentity": holder } })
}

#[test]
fn who_does_not_lead_writes_nothing() {
    let lease = "leases/kube-system/kube-controller-manager";
    let object = json!({ "metadata": { "uid": "m" } });
    let start = || History::new().by("some-controller").put(lease, &held_by("first"));
    start().put("configmaps/a/m", &object).stays_silent();
    let over = || start().of("second").put(lease, &held_by("second"));
    over().put("configmaps/a/m", &object).stays_silent();
    // It tries to have the lease, and says that it has it no more.
    over().of("first").put(lease, &held_by("second")).put("events/a/e", &object).stays_silent();
    over()
        .of("first")
        .put("configmaps/a/m", &object)
        .says(&["/registry/configmaps/a/m: is written by first, and second leads"]);
    over()
        .of("first")
        .gone("configmaps/a/m")
        .says(&["/registry/configmaps/a/m: is written by first, and second leads"]);
    // Users need no lease, nor is a lease of that name elsewhere anybody's.
    over().by_users().of("first").put("configmaps/a/m", &object).stays_silent();
    let elsewhere = start().put("leases/a/kube-controller-manager", &held_by("second"));
    elsewhere.put("configmaps/a/m", &object).stays_silent();
}
