//! Objects whose owners are gone.

use serde_json::{Value, json};

use super::{History, terminating};

/// Until then somebody has seen to it.
const LONG: u64 = 20 * 60;

fn object(uid: &str, owners: &[&str]) -> Value {
    let owners: Vec<Value> = owners.iter().map(|uid| json!({ "kind": "ConfigMap", "uid": uid })).collect();
    json!({ "metadata": { "uid": uid, "ownerReferences": owners } })
}

/// Something else is written, so that it is looked at.
fn later(history: History) -> History {
    history.put("configmaps/a/other", &object("other", &[]))
}

fn start() -> History {
    History::new().put("configmaps/a/o", &object("o", &[])).put("configmaps/a/d", &object("d", &["o"]))
}

#[test]
fn what_nobody_owns_any_more_goes() {
    let left = "/registry/configmaps/a/other: /registry/configmaps/a/d is there, and its owners are long gone";
    later(start().after(2 * LONG)).stays_silent();
    later(start().gone("configmaps/a/o").after(LONG)).says(&[left]);
    later(start().gone("configmaps/a/o").after(LONG - 1)).stays_silent();
    later(start().gone("configmaps/a/o").after(10).gone("configmaps/a/d").after(LONG)).stays_silent();
    // It is about to go, and somebody holds it.
    later(start().gone("configmaps/a/o").put("configmaps/a/d", &terminating(object("d", &["o"]))).after(LONG))
        .stays_silent();
    // Its owner is another one of the same name now.
    later(start().put("configmaps/a/o", &object("again", &[])).after(LONG)).says(&[left]);
    // It was let go, or was adopted by somebody who is there.
    later(start().gone("configmaps/a/o").put("configmaps/a/d", &object("d", &[])).after(LONG)).stays_silent();
    let adopted = start().put("configmaps/a/p", &object("p", &[])).gone("configmaps/a/o");
    later(adopted.put("configmaps/a/d", &object("d", &["p"])).after(LONG)).stays_silent();
    // One of two is gone, or both.
    let two = || start().put("configmaps/a/p", &object("p", &[])).put("configmaps/a/d", &object("d", &["o", "p"]));
    later(two().gone("configmaps/a/o").after(LONG)).stays_silent();
    later(two().gone("configmaps/a/o").after(LONG).gone("configmaps/a/p").after(LONG)).says(&[left]);
    // It was made for an owner that was gone already.
    later(History::new().put("configmaps/a/d", &object("d", &["o"])).after(LONG)).says(&[left]);
}
