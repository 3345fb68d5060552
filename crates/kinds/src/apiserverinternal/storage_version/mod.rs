//! StorageVersion: in which versions the API servers write and read a resource.

mod validate;

use crate::strategy::{NameRule, Repeat, Repeats, ResetFields, Strategy};
use rkube_machinery::Value;
use rkube_machinery::field::Errors;

use crate::columns::{AGE, NAME, NONE};
use crate::fields::{carry, carry_metadata};
use crate::kind::{Column, Part, Row, Rules, Scope, Subresource};

pub static KIND: Row = Row {
    group: "internal.apiserver.k8s.io",
    version: "v1alpha1",
    kind: "StorageVersion",
    resource: "storageversions",
    singular: "storageversion",
    scope: Scope::Cluster,
    type_name: "io.k8s.api.apiserverinternal.v1alpha1.StorageVersion",
    storage_prefix: "storageversions",
    off_by_default: true,
    subresources: &[Subresource::STATUS],
    columns: &[
        NAME,
        Column::text(
            "CommonEncodingVersion",
            "doc:io.k8s.api.apiserverinternal.v1alpha1.StorageVersionStatus commonEncodingVersion",
            common,
        ),
        Column::text(
            "StorageVersions",
            "doc:io.k8s.api.apiserverinternal.v1alpha1.StorageVersionStatus storageVersions",
            servers,
        ),
        AGE,
    ],
    strategy: Strategy {
        name_rule: NameRule::Own,
        repeats_meta: Repeats::all(Repeat::Nothing),
        unconditional_update: false,
        reset_fields: ResetFields::STATUS_ALONE,
        ..Strategy::DEFAULTS
    },
    rules: &StorageVersionRules,
    ..Row::DEFAULTS
};

/// As many servers as a cell names.
const SHOWN_MAX: usize = 3;

struct StorageVersionRules;

impl Rules for StorageVersionRules {
    fn prepare_create(&self, version: &mut Value) {
        version.remove("status");
    }

    fn validate_create(&self, version: &Value, errors: &mut Errors) {
        validate::name(version.get("metadata").str("name"), errors);
        validate::status(version.get("status"), errors);
    }

    fn prepare_update(&self, part: Part, version: &mut Value, old: &Value) {
        if part == Part::Status {
            carry(version, old, "spec");
            carry_metadata(version, old);
        } else {
            carry(version, old, "status");
        }
    }

    fn validate_update(&self, part: Part, version: &Value, _old: &Value, errors: &mut Errors) {
        if part == Part::Status {
            validate::status(version.get("status"), errors);
        }
    }
}

fn common(version: &Value, _now: i64) -> Value {
    match version.at(&["status", "commonEncodingVersion"]) {
        Value::String(text) => text.clone().into(),
        _ => "<unset>".into(),
    }
}

fn servers(version: &Value, _now: i64) -> Value {
    let servers = version.get("status").list("storageVersions");
    let shown = servers.iter().take(SHOWN_MAX);
    let shown: Vec<String> =
        shown.map(|server| format!("{}={}", server.str("apiServerID"), server.str("encodingVersion"))).collect();
    match servers.len() {
        0 => NONE.into(),
        count if count > SHOWN_MAX => format!("{} + {} more...", shown.join(","), count - SHOWN_MAX).into(),
        _ => shown.join(",").into(),
    }
}
