//! What a hundred thousand objects of 1 kB cost in memory: their bytes, and not much more.

#![allow(clippy::unwrap_used)]

use rkube_store::{Change, Expect, Memory, Store, Write};

const OBJECTS: usize = 100_000;
const VALUE_BYTES: usize = 1024;

#[tokio::test]
async fn values_cost_little_more_than_their_bytes() {
    let store = Memory::new();
    let before = resident_bytes();
    for index in 0..OBJECTS {
        let key = format!("/registry/pods/namespace-{:03}/pod-{index:06}", index % 100);
        let change = Change::Put { value: vec![7; VALUE_BYTES].into(), lease: None, note: None };
        store.write(Write { key: key.into(), expect: Expect::Absent, change, guard: None }).await.unwrap();
    }
    let all = resident_bytes() - before;
    // Everything but the newest state is let go.
    store.compact(store.revision().await.unwrap()).await.unwrap();
    let (per_object, limit) = (all / OBJECTS, VALUE_BYTES * 3 / 2);
    assert!(per_object < limit, "{per_object} bytes for a value of {VALUE_BYTES}, with its history");
}

fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}
