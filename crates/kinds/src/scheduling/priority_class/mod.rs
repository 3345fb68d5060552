//! PriorityClass: a name for how much a pod matters.

use rkube_machinery::Value;
use rkube_machinery::field::{Errors, Path};

use crate::columns::{AGE, NAME};
use crate::kind::{Column, Part, Row, Rules, Scope};

pub static KIND: Row = Row {
    group: "scheduling.k8s.io",
    kind: "PriorityClass",
    resource: "priorityclasses",
    singular: "priorityclass",
    short_names: &["pc"],
    scope: Scope::Cluster,
    type_name: "io.k8s.api.scheduling.v1.PriorityClass",
    storage_prefix: "priorityclasses",
    columns: &[
        NAME,
        Column {
            kind: "integer",
            ..Column::text("Value", "doc:io.k8s.api.scheduling.v1.PriorityClass value", |class, _| {
                class.int("value").into()
            })
        },
        Column {
            kind: "boolean",
            ..Column::text("Global-Default", "doc:io.k8s.api.scheduling.v1.PriorityClass globalDefault", |class, _| {
                class.bool("globalDefault").into()
            })
        },
        AGE,
        Column::text("PreemptionPolicy", "doc:io.k8s.api.scheduling.v1.PriorityClass preemptionPolicy", |class, _| {
            class.str("preemptionPolicy").into()
        }),
    ],
    rules: &PriorityClassRules,
    ..Row::DEFAULTS
};

/// Above are the classes of the system.
const USER_MAX: i64 = 1_000_000_000;
const SYSTEM_PREFIX: &str = "system-";
/// The only classes that may have names of the system, and their values.
const SYSTEM: [(&str, i64); 2] =
    [("system-node-critical", 2 * USER_MAX + 1000), ("system-cluster-critical", 2 * USER_MAX)];
const POLICIES: &[&str] = &["PreemptLowerPriority", "Never"];

struct PriorityClassRules;

impl Rules for PriorityClassRules {
    fn default(&self, class: &mut Value) {
        class.set_if_absent("preemptionPolicy", "PreemptLowerPriority");
    }

    /// It stays at that: nothing counts changes.
    fn prepare_create(&self, class: &mut Value) {
        class.object_mut("metadata").set("generation", 1);
    }

    fn validate_create(&self, class: &Value, errors: &mut Errors) {
        let name = class.get("metadata").str("name");
        let value = class.int("value");
        if name.starts_with(SYSTEM_PREFIX) {
            if let Some(why) = unlike_system_class(name, class) {
                let meta = Path::new("metadata");
                let words = "priority class names with 'system-' prefix are reserved for system use only. error:";
                errors.forbidden(meta.child("name"), format!("{words} {why}"));
            }
        } else if value > USER_MAX {
            let words = format!("maximum allowed value of a user defined priority is {USER_MAX}");
            errors.forbidden(Path::new("value"), words);
        }
        if class.has("preemptionPolicy") {
            let path = Path::new("preemptionPolicy");
            match class.str("preemptionPolicy") {
                "" => errors.required(path, ""),
                policy if POLICIES.contains(&policy) => {}
                other => errors.not_supported(path, other, POLICIES),
            }
        }
    }

    fn validate_update(&self, _part: Part, class: &Value, old: &Value, errors: &mut Errors) {
        if class.int("value") != old.int("value") {
            errors.forbidden(Path::new("value"), "may not be changed in an update.");
        }
        if class.get("preemptionPolicy") != old.get("preemptionPolicy") {
            errors.invalid(Path::new("preemptionPolicy"), class.get("preemptionPolicy"), "field is immutable");
        }
    }
}

/// Why this is not the class of the system that its name says.
fn unlike_system_class(name: &str, class: &Value) -> Option<String> {
    let Some((_, value)) = SYSTEM.iter().find(|(known, _)| *known == name) else {
        return Some(format!("{name} is not a known system priority class"));
    };
    if class.int("value") != *value {
        return Some(format!("value of {name} PriorityClass must be {value}"));
    }
    class.bool("globalDefault").then(|| format!("globalDefault of {name} PriorityClass must be false"))
}

#[cfg(test)]
mod tests {
    use rkube_machinery::object;

    use super::*;

    #[test]
    fn names_of_the_system_are_its_own() {
        let table = [
            ("system-x", 1, false, "system-x is not a known system priority class"),
            ("system-node-critical", 1, false, "value of system-node-critical PriorityClass must be 2000001000"),
            (
                "system-cluster-critical",
                2_000_000_000,
                true,
                "globalDefault of system-cluster-critical PriorityClass must be false",
            ),
            ("system-node-critical", 2_000_001_000, false, ""),
            ("mine", 1_000_000_001, false, "maximum allowed value of a user defined priority is 1000000000"),
            ("mine", 1_000_000_000, true, ""),
        ];
        for (name, value, default, want) in table {
            let class = object! {
                "metadata": object! { "name": name }, "value": Value::Int(value), "globalDefault": default,
            };
            let mut errors = Errors::new();
            PriorityClassRules.validate_create(&class, &mut errors);
            if want.is_empty() {
                assert!(errors.is_empty(), "{name}");
            } else {
                assert!(errors.summary().ends_with(want), "{}", errors.summary());
            }
        }
    }
}
