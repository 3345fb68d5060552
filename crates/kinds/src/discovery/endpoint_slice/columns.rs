//! What a table says of an endpoint slice.

use rkube_machinery::Value;

use crate::fields::texts;

/// So many ports or addresses are named; the rest are counted.
const SHOWN_MAX: usize = 3;

pub fn ports(slice: &Value, _now: i64) -> Value {
    listed(slice.list("ports").iter().map(|port| match port.get("port").as_int() {
        Some(number) => number.to_string(),
        None if port.has("name") => port.str("name").to_owned(),
        None => "*".to_owned(),
    }))
}

pub fn endpoints(slice: &Value, _now: i64) -> Value {
    listed(slice.list("endpoints").iter().flat_map(|endpoint| texts(endpoint, "addresses")).map(str::to_owned))
}

fn listed(items: impl Iterator<Item = String>) -> Value {
    let items: Vec<String> = items.collect();
    let text = items[..items.len().min(SHOWN_MAX)].join(",");
    if items.len() > SHOWN_MAX {
        return format!("{text} + {} more...", items.len() - SHOWN_MAX).into();
    }
    if text.is_empty() { "<unset>".into() } else { text.into() }
}
