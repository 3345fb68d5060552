//! LimitRange: what a single object of a namespace may ask for, and what it gets where it does not ask.

mod validate;

use crate::strategy::{Repeat, Repeats, Strategy};
use rkube_machinery::Value;
use rkube_machinery::field::Errors;

use crate::columns::{CREATED_AT, NAME};
use crate::core::pod_spec::amounts;
use crate::kind::{Part, Row, Rules};

pub static KIND: Row = Row {
    kind: "LimitRange",
    resource: "limitranges",
    singular: "limitrange",
    short_names: &["limits"],
    type_name: "io.k8s.api.core.v1.LimitRange",
    storage_prefix: "limitranges",
    columns: &[NAME, CREATED_AT],
    strategy: Strategy { repeats_meta: Repeats::all(Repeat::New), create_on_update: true, ..Strategy::DEFAULTS },
    rules: &LimitRangeRules,
    ..Row::DEFAULTS
};

const LISTS: [&str; 5] = ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"];

struct LimitRangeRules;

impl Rules for LimitRangeRules {
    fn default(&self, range: &mut Value) {
        let Some(spec) = range.find_mut("spec") else { return };
        for item in spec.list_mut("limits") {
            if item.str("type") == "Container" {
                // A limit is the largest where it is not said; a request is the limit, or else the smallest.
                fill(item, "default", "max");
                fill(item, "defaultRequest", "default");
                fill(item, "defaultRequest", "min");
            }
            for list in LISTS {
                amounts::round_up_list(item, list);
            }
        }
    }

    /// One without a name gets one that nothing else has.
    fn prepare_create(&self, range: &mut Value) {
        let metadata = range.object_mut("metadata");
        if metadata.str("name").is_empty() {
            let name = metadata.get("uid").clone();
            metadata.set("name", name);
        }
    }

    fn validate_create(&self, range: &Value, errors: &mut Errors) {
        validate::limits(range.get("spec").list("limits"), errors);
    }

    fn validate_update(&self, _part: Part, range: &Value, _old: &Value, errors: &mut Errors) {
        self.validate_create(range, errors);
    }
}

/// What `from` says and `list` does not.
fn fill(item: &mut Value, list: &str, from: &str) {
    if item.map(from).is_empty() {
        return;
    }
    let from = item.map(from).clone();
    let list = item.object_mut(list).make_map();
    for (name, amount) in from.iter() {
        if !list.contains(name) {
            list.insert(name, amount.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use rkube_machinery::{json, object};

    use super::*;

    #[test]
    fn containers_get_what_they_may_have() {
        let item = object! {
            "type": "Container", "max": object! { "cpu": "2" }, "min": object! { "memory": "1Mi" },
            "default": object! { "storage": "1u" },
        };
        let mut range = object! { "spec": object! { "limits": vec![item] } };
        LimitRangeRules.default(&mut range);
        let once = json::to_string(&range);
        assert_eq!(
            once,
            "{\"spec\":{\"limits\":[{\"type\":\"Container\",\"max\":{\"cpu\":\"2\"},\"min\":{\"memory\":\"1Mi\"},\
             \"default\":{\"cpu\":\"2\",\"storage\":\"1m\"},\
             \"defaultRequest\":{\"cpu\":\"2\",\"memory\":\"1Mi\",\"storage\":\"1m\"}}]}}"
        );
        LimitRangeRules.default(&mut range);
        assert_eq!(json::to_string(&range), once);
    }
}
