//! What is left of a StorageVersion without some servers, as pure functions.

use rkube_machinery::time;
use serde_json::{Value, json};

const EQUAL: &str = "AllEncodingVersionsEqual";

#[derive(Debug, PartialEq)]
pub enum Change {
    None,
    /// No server is left.
    Delete,
    Status(Value),
}

/// The servers that have written something.
pub fn servers(version: &Value) -> Vec<String> {
    let all = version["status"]["storageVersions"].as_array().into_iter().flatten();
    all.filter_map(|server| server["apiServerID"].as_str().map(str::to_owned)).collect()
}

/// A whole StorageVersion without what these servers have written.
pub fn without(mut version: Value, gone: &[String], now_seconds: i64) -> Change {
    let generation = version["metadata"]["generation"].as_i64().unwrap_or(0);
    let status = &mut version["status"];
    let Some(all) = status["storageVersions"].as_array_mut().filter(|_| !gone.is_empty()) else { return Change::None };
    all.retain(|server| !gone.iter().any(|gone| server["apiServerID"] == gone.as_str()));
    let Some(first) = all.first().map(|server| server["encodingVersion"].clone()) else { return Change::Delete };
    let is_common = all.iter().all(|server| server["encodingVersion"] == first);
    let before = status["commonEncodingVersion"].take();
    if let Some(status) = status.as_object_mut() {
        status.remove("commonEncodingVersion");
    }
    let (state, reason, message) = if is_common {
        status["commonEncodingVersion"] = first.clone();
        ("True", "CommonEncodingVersionSet", "Common encoding version set")
    } else {
        ("False", "CommonEncodingVersionUnset", "Common encoding version unset")
    };
    let moved = is_common && !before.is_null() && before != first;
    let mut condition = json!({
        "type": EQUAL, "status": state, "reason": reason, "message": message,
        "lastTransitionTime": time::format_seconds(now_seconds),
    });
    if generation != 0 {
        condition["observedGeneration"] = generation.into();
    }
    set_condition(status, condition, moved);
    Change::Status(version)
}

/// A condition that says the same keeps its time, unless it is about another version now.
fn set_condition(status: &mut Value, mut condition: Value, moved: bool) {
    if status["conditions"].is_null() {
        status["conditions"] = json!([]);
    }
    let Some(conditions) = status["conditions"].as_array_mut() else { return };
    match conditions.iter_mut().find(|known| known["type"] == EQUAL) {
        Some(known) => {
            if known["status"] == condition["status"] && !moved {
                condition["lastTransitionTime"] = known["lastTransitionTime"].take();
            }
            *known = condition;
        }
        None => conditions.push(condition),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Servers as `a=v1`.
    fn version(servers: &[&str], common: Option<&str>) -> Value {
        let server = |text: &&str| {
            let (name, encoding) = text.split_once('=').unwrap();
            json!({ "apiServerID": name, "encodingVersion": encoding })
        };
        let status = if common.is_some() { "True" } else { "False" };
        let condition = json!({ "type": EQUAL, "status": status, "lastTransitionTime": "before" });
        let servers: Vec<Value> = servers.iter().map(server).collect();
        let mut version =
            json!({ "metadata": {}, "status": { "storageVersions": servers, "conditions": [condition] } });
        if let Some(common) = common {
            version["status"]["commonEncodingVersion"] = common.into();
        }
        version
    }

    #[test]
    fn what_is_left_says_whether_all_agree() {
        let now = "1970-01-01T00:00:09Z";
        // What is there, who is gone, and what is left: servers, the version of all, and since when.
        type Left<'a> = Option<(&'a str, Option<&'a str>, &'a str)>;
        let table: [(&[&str], Option<&str>, &str, Left<'_>); 6] = [
            (&["a=v1", "b=v1"], Some("v1"), "a", Some(("b", Some("v1"), "before"))),
            (&["a=v1", "b=v2"], None, "a", Some(("b", Some("v2"), now))),
            (&["a=v1", "b=v2", "c=v3"], None, "a", Some(("b c", None, "before"))),
            // It said what was not so.
            (&["a=v1", "b=v2"], Some("v1"), "a", Some(("b", Some("v2"), now))),
            (&["a=v1"], Some("v1"), "a", None),
            (&["a=v1"], Some("v1"), "", Some(("a", Some("v1"), "before"))),
        ];
        for (servers, common, gone, left) in table {
            let before = version(servers, common);
            let gone: Vec<String> = gone.split_whitespace().map(str::to_owned).collect();
            let found = without(before.clone(), &gone, 9);
            match (found, left) {
                (Change::Delete, None) => {}
                (Change::None, Some(_)) => assert!(gone.is_empty()),
                (Change::Status(after), Some((left, common, since))) => {
                    assert_eq!(super::servers(&after).join(" "), left);
                    assert_eq!(after["status"]["commonEncodingVersion"].as_str(), common, "{servers:?}");
                    assert_eq!(after["status"]["conditions"][0]["lastTransitionTime"], since, "{servers:?}");
                }
                (found, _) => panic!("{servers:?}: {found:?}"),
            }
        }
    }
}
