//! Versions of a kind differ in form and not in content.

use rkube_kinds::{Kind, all};
use rkube_machinery::{Map, Value, decode, json};

use crate::property::{for_every_kind, same};
use crate::{road, rules};

#[test]
fn every_version_says_the_same() {
    for_every_kind(
        "versions",
        8,
        |random, kind| if versions(kind).len() > 1 { vec![rules::valid(random, kind)] } else { Vec::new() },
        |kind, objects| {
            let [document] = objects else { return Ok(()) };
            let Ok(stored) = road::create(kind, road::decoded(kind, document.clone())?) else { return Ok(()) };
            for version in versions(kind) {
                let served = in_version(version, stored.clone());
                let mut back = road::stored(version, road::decoded(version, served)?);
                decode::complete(&mut back, road::stored_schema(kind));
                same(&format!("through {}", version.api_version()), &unordered(&stored), &unordered(&back))?;
            }
            Ok(())
        },
    );
}

/// Metrics in one order: the first version of autoscalers has a field for one of them and annotations for the others.
fn unordered(value: &Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(Map::in_order(
            map.iter()
                .map(|(key, child)| {
                    let mut child = unordered(child);
                    if let Value::Array(items) = &mut child
                        && matches!(key.as_str(), "metrics" | "currentMetrics")
                    {
                        items.sort_by_key(json::to_string);
                    }
                    (key.clone(), child)
                })
                .collect(),
        )),
        other => other.clone(),
    }
}

fn in_version(version: &Kind, stored: Value) -> Value {
    let mut served = road::served(version, stored);
    decode::complete(&mut served, version.schema.table().unwrap());
    served
}

/// The versions in which objects of this storage are served.
fn versions(kind: &Kind) -> Vec<&'static Kind> {
    let same = |row: &&'static Kind| !kind.storage_prefix.is_empty() && row.storage_prefix == kind.storage_prefix;
    all().iter().map(|row| &**row).filter(same).collect()
}

#[test]
fn some_kinds_have_several_versions() {
    let several = all().iter().filter(|kind| versions(kind).len() > 1).count();
    assert!(several > 20, "{several} kinds share a storage with another version");
}
