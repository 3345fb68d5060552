//! Claims and their volumes.

use serde_json::{Value, json};

use super::History;

fn claim(uid: &str, volume: &str) -> Value {
    json!({ "metadata": { "uid": uid }, "spec": { "volumeName": volume } })
}

fn start() -> History {
    let key = "persistentvolumeclaims/a/c";
    History::new().put(key, &claim("c", "")).put(key, &claim("c", "v"))
}

#[test]
fn a_claim_keeps_its_volume() {
    let key = "persistentvolumeclaims/a/c";
    start().put(key, &claim("c", "v")).stays_silent();
    start().put(key, &claim("c", "w")).says(&["/registry/persistentvolumeclaims/a/c: had v, and now has \"w\""]);
    start().put(key, &claim("c", "")).says(&["/registry/persistentvolumeclaims/a/c: had v, and now has \"\""]);
    start().gone(key).put(key, &claim("d", "w")).stays_silent();
}

#[test]
fn a_volume_has_one_claim() {
    let other = "persistentvolumeclaims/b/d";
    start().put(other, &claim("d", "w")).stays_silent();
    start().gone("persistentvolumeclaims/a/c").put(other, &claim("d", "v")).stays_silent();
    start()
        .put(other, &claim("d", "v"))
        .says(&["/registry/persistentvolumeclaims/b/d: has v, and /registry/persistentvolumeclaims/a/c has it, too"]);
}
