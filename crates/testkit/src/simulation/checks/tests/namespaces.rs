//! What is in namespaces that go.

use serde_json::{Value, json};

use super::{History, terminating};

fn object(namespace: &str) -> Value {
    json!({ "metadata": { "uid": "o", "namespace": namespace } })
}

fn namespace() -> Value {
    json!({ "metadata": { "uid": "n", "name": "n" } })
}

fn start() -> History {
    History::new().put("namespaces/n", &namespace()).put("configmaps/n/m", &object("n"))
}

#[test]
fn what_is_in_a_namespace_goes_before_it() {
    let going = || start().put("namespaces/n", &terminating(namespace()));
    // What is there may change as long as it stays, and goes.
    let emptied = going().put("configmaps/n/m", &object("n")).gone("configmaps/n/m").gone("namespaces/n");
    emptied.put("namespaces/n", &namespace()).put("configmaps/n/m", &object("n")).stays_silent();
    going().gone("namespaces/n").says(&["/registry/namespaces/n: is gone, and 1 objects are left in it"]);
    start().gone("configmaps/n/m").gone("configmaps/n/m").gone("namespaces/n").stays_silent();
}

#[test]
fn nothing_is_made_in_a_namespace_that_goes() {
    let late = "/registry/configmaps/n/late: is made in n, which goes or is gone";
    let made = |history: History| history.put("configmaps/n/late", &object("n")).put("configmaps/m/late", &object("m"));
    made(start()).stays_silent();
    made(start().put("namespaces/n", &terminating(namespace()))).says(&[late]);
    made(start().gone("configmaps/n/m").gone("namespaces/n")).says(&[late]);
}
