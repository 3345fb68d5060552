//! CSINode: which storage drivers a node has, and what they call the node.

use std::collections::BTreeMap;

use crate::strategy::{NameRule, Repeat, Repeats, Strategy};
use rkube_machinery::Value;
use rkube_machinery::field::{BadValue, Errors, Path};

use crate::columns::{AGE, NAME};
use crate::core::pod_spec::checks::{Seen, qualified_name};
use crate::core::pod_spec::{go_form, validate_driver_name};
use crate::fields::texts;
use crate::kind::{Column, Part, Row, Rules, Scope};
use crate::meta;

pub static KIND: Row = Row {
    group: "storage.k8s.io",
    kind: "CSINode",
    resource: "csinodes",
    singular: "csinode",
    scope: Scope::Cluster,
    type_name: "io.k8s.api.storage.v1.CSINode",
    storage_prefix: "csinodes",
    columns: &[
        NAME,
        Column {
            kind: "integer",
            ..Column::text("Drivers", "Drivers indicates the number of CSI drivers registered on the node", count)
        },
        AGE,
    ],
    strategy: Strategy {
        repeats_meta: Repeats::all(Repeat::Nothing),
        unconditional_update: false,
        returns_deleted_object: true,
        ..Strategy::DEFAULTS
    },
    rules: &CsiNodeRules,
    ..Row::DEFAULTS
};

const SPEC: Path<'static> = Path::new("spec");
const NODE_ID_MAX_BYTES: usize = 256;

struct CsiNodeRules;

impl Rules for CsiNodeRules {
    fn validate_create(&self, node: &Value, errors: &mut Errors) {
        let path = SPEC.child("drivers");
        let mut names = Seen::new();
        for (index, driver) in node.get("spec").list("drivers").iter().enumerate() {
            validate_driver(path.index(index), driver, &mut names, errors);
        }
    }

    fn validate_update(&self, _part: Part, node: &Value, old: &Value, errors: &mut Errors) {
        meta::validate_again(node, false, NameRule::Subdomain, errors);
        self.validate_create(node, errors);
        let mut drivers: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
        for driver in node.get("spec").list("drivers") {
            drivers.entry(driver.str("name")).or_default().push(driver);
        }
        for before in old.get("spec").list("drivers") {
            for driver in drivers.get(before.str("name")).into_iter().flatten() {
                validate_stays(driver, before, errors);
            }
        }
    }
}

fn validate_driver<'a>(path: Path<'_>, driver: &'a Value, names: &mut Seen<&'a str>, errors: &mut Errors) {
    let name = driver.str("name");
    validate_driver_name(path.child("name"), name, errors);
    let id = driver.str("nodeID");
    if id.is_empty() {
        errors.required(path.child("nodeID"), "");
    }
    if id.len() > NODE_ID_MAX_BYTES {
        errors.invalid(path.child("nodeID"), id, format!("must be {NODE_ID_MAX_BYTES} characters or less"));
    }
    let count = driver.get("allocatable").int("count");
    if count < 0 {
        let path = path.child("allocatable");
        errors.invalid(path.child("count"), count, "must be greater than or equal to 0");
    }
    if !names.add(name) {
        errors.duplicate(path.child("name"), name);
    }
    let mut keys = Seen::new();
    for key in texts(driver, "topologyKeys") {
        if key.is_empty() {
            errors.required(path, "");
        }
        if !keys.add(key) {
            errors.duplicate(path, key);
        }
        qualified_name(path, key, errors);
    }
}

/// A driver that is there stays as it is, but for how many volumes it can attach.
fn validate_stays(driver: &Value, old: &Value, errors: &mut Errors) {
    let same_keys = meta::same(driver.get("topologyKeys"), old.get("topologyKeys"));
    if driver.str("nodeID") != old.str("nodeID") || !same_keys {
        let mut shown = driver.clone();
        shown.remove("allocatable");
        let shown = BadValue::Text(go_form::go_json("CSINodeDriver", &shown));
        errors.invalid(SPEC.child("drivers"), shown, "field is immutable");
    }
}

fn count(node: &Value, _now: i64) -> Value {
    i64::try_from(node.get("spec").list("drivers").len()).unwrap_or(i64::MAX).into()
}
