//! CSIDriver: a storage driver in the cluster, and how nodes are to work with it.

mod validate;

use crate::strategy::Strategy;
use rkube_machinery::Value;
use rkube_machinery::field::Errors;

use crate::columns::{AGE, NAME, NONE, or};
use crate::core::pod_spec::go_form;
use crate::fields::{remove_inner, texts};
use crate::kind::{Column, Part, Row, Rules, Scope};

pub static KIND: Row = Row {
    group: "storage.k8s.io",
    kind: "CSIDriver",
    resource: "csidrivers",
    singular: "csidriver",
    scope: Scope::Cluster,
    type_name: "io.k8s.api.storage.v1.CSIDriver",
    storage_prefix: "csidrivers",
    columns: &[
        NAME,
        flag("AttachRequired", "doc:io.k8s.api.storage.v1.CSIDriverSpec attachRequired", |driver, _| {
            driver.get("spec").get("attachRequired").as_bool().unwrap_or(true).into()
        }),
        flag("PodInfoOnMount", "doc:io.k8s.api.storage.v1.CSIDriverSpec podInfoOnMount", |driver, _| {
            driver.get("spec").bool("podInfoOnMount").into()
        }),
        flag("StorageCapacity", "doc:io.k8s.api.storage.v1.CSIDriverSpec storageCapacity", |driver, _| {
            driver.get("spec").bool("storageCapacity").into()
        }),
        Column::text("TokenRequests", "doc:io.k8s.api.storage.v1.CSIDriverSpec tokenRequests", audiences),
        flag("RequiresRepublish", "doc:io.k8s.api.storage.v1.CSIDriverSpec requiresRepublish", |driver, _| {
            driver.get("spec").bool("requiresRepublish").into()
        }),
        Column::text("Modes", "doc:io.k8s.api.storage.v1.CSIDriverSpec volumeLifecycleModes", modes),
        AGE,
    ],
    strategy: Strategy { unconditional_update: false, returns_deleted_object: true, ..Strategy::DEFAULTS },
    rules: &DriverRules,
    ..Row::DEFAULTS
};

const fn flag(name: &'static str, description: &'static str, cell: fn(&Value, i64) -> Value) -> Column {
    Column { kind: "boolean", ..Column::text(name, description, cell) }
}

/// Limits by volume are not served: the feature is off.
const DISABLED: &str = "preventPodSchedulingIfMissing";

const TOKENS_WARNING: &str = "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true \
                              to prevent possible logging of tokens in volume attributes";

struct DriverRules;

impl Rules for DriverRules {
    fn default(&self, driver: &mut Value) {
        let spec = driver.object_mut("spec");
        spec.set_if_absent("attachRequired", true);
        for field in ["podInfoOnMount", "storageCapacity", "requiresRepublish", "seLinuxMount"] {
            spec.set_if_absent(field, false);
        }
        spec.set_if_absent("fsGroupPolicy", "ReadWriteOnceWithFSType");
        if spec.list("volumeLifecycleModes").is_empty() {
            spec.set("volumeLifecycleModes", vec!["Persistent".into()]);
        }
    }

    fn prepare_create(&self, driver: &mut Value) {
        remove_inner(driver, "spec", DISABLED);
    }

    fn validate_create(&self, driver: &Value, errors: &mut Errors) {
        validate::spec(driver.get("spec"), errors);
    }

    /// The generation counts changes, from none.
    fn prepare_update(&self, _part: Part, driver: &mut Value, old: &Value) {
        if !old.get("spec").has(DISABLED) {
            remove_inner(driver, "spec", DISABLED);
        }
        if !go_form::same_plain(driver.get("spec"), old.get("spec")) {
            let generation = old.get("metadata").int("generation").wrapping_add(1);
            driver.object_mut("metadata").set("generation", generation);
        }
    }

    fn validate_update(&self, _part: Part, driver: &Value, old: &Value, errors: &mut Errors) {
        validate::spec(driver.get("spec"), errors);
        validate::update(driver.get("spec"), old.get("spec"), errors);
    }

    fn warnings(&self, driver: &Value, old: Option<&Value>) -> Vec<String> {
        let spec = driver.get("spec");
        let tokens = spec.list("tokenRequests");
        let kept = old.is_some_and(|old| old.get("spec").list("tokenRequests") == tokens);
        if tokens.is_empty() || kept || spec.has("serviceAccountTokenInSecrets") {
            return Vec::new();
        }
        vec![TOKENS_WARNING.to_owned()]
    }
}

fn audiences(driver: &Value, _now: i64) -> Value {
    let spec = driver.get("spec");
    if !spec.has("tokenRequests") {
        return "<unset>".into();
    }
    let audiences: Vec<&str> = spec.list("tokenRequests").iter().map(|request| request.str("audience")).collect();
    audiences.join(",").into()
}

fn modes(driver: &Value, _now: i64) -> Value {
    let modes: Vec<&str> = texts(driver.get("spec"), "volumeLifecycleModes").collect();
    or(&modes.join(","), NONE).into()
}

#[cfg(test)]
mod tests {
    use rkube_machinery::object;

    use super::*;

    #[test]
    fn the_generation_counts_changes_and_turns_over() {
        for (before, after) in [(0, 1), (i64::MAX, i64::MIN)] {
            let old = object! { "metadata": object! { "generation": before }, "spec": object! {} };
            let mut driver = object! { "spec": object! { "podInfoOnMount": true } };
            DriverRules.prepare_update(Part::Main, &mut driver, &old);
            assert_eq!(driver.get("metadata").int("generation"), after);
        }
    }
}
