//! StorageVersionMigration: asks for all objects of a resource to be written again in the version stored today.

use crate::strategy::{Repeat, Repeats, ResetFields, Strategy};
use rkube_machinery::Value;
use rkube_machinery::field::{Errors, Path};
use rkube_machinery::names;

use crate::columns::NAME;
use crate::fields::{carry, carry_metadata};
use crate::kind::{Column, Part, Row, Rules, Scope, Subresource};
use crate::meta;

pub static KIND: Row = Row {
    group: "storagemigration.k8s.io",
    version: "v1beta1",
    kind: "StorageVersionMigration",
    resource: "storageversionmigrations",
    singular: "storageversionmigration",
    scope: Scope::Cluster,
    type_name: "io.k8s.api.storagemigration.v1beta1.StorageVersionMigration",
    storage_prefix: "storageversionmigrations",
    off_by_default: true,
    subresources: &[Subresource::STATUS],
    columns: &[
        Column { format: "", ..NAME },
        Column::text("Resource", "GroupResource to migrate", resource),
        Column::text("Status", "Status of the migration", status),
    ],
    strategy: Strategy {
        repeats_meta: Repeats { main: Repeat::New, status: Repeat::Update, other: Repeat::Update },
        unconditional_update: false,
        reset_fields: ResetFields::STATUS_ALONE,
        ..Strategy::DEFAULTS
    },
    rules: &MigrationRules,
    ..Row::DEFAULTS
};

const SPEC: Path<'static> = Path::new("spec");
const STATUS: Path<'static> = Path::new("status");

struct MigrationRules;

impl Rules for MigrationRules {
    fn prepare_create(&self, migration: &mut Value) {
        migration.remove("status");
    }

    fn validate_create(&self, migration: &Value, errors: &mut Errors) {
        validate(migration, errors);
    }

    fn prepare_update(&self, part: Part, migration: &mut Value, old: &Value) {
        if part == Part::Status {
            carry(migration, old, "spec");
            carry_metadata(migration, old);
        } else {
            carry(migration, old, "status");
        }
    }

    fn validate_update(&self, part: Part, migration: &Value, old: &Value, errors: &mut Errors) {
        if part == Part::Status {
            return validate_status(migration, old, errors);
        }
        validate(migration, errors);
        meta::validate_update_again(migration, old, errors);
        let part = |migration: &Value, field: &str| migration.at(&["spec", "resource", field]).as_str().to_owned();
        if ["group", "resource"].iter().any(|field| part(migration, field) != part(old, field)) {
            let shown = format!(
                "{{\"Resource\":{{\"group\":{},\"resource\":{}}}}}",
                rkube_machinery::field::quote(&part(migration, "group")),
                rkube_machinery::field::quote(&part(migration, "resource"))
            );
            errors.invalid(SPEC, rkube_machinery::field::BadValue::Text(shown), "field is immutable");
        }
    }
}

fn validate(migration: &Value, errors: &mut Errors) {
    let path = SPEC.child("resource");
    let reference = migration.at(&["spec", "resource"]);
    let (group, resource) = (reference.str("group"), reference.str("resource"));
    if resource.is_empty() {
        errors.required(path.child("resource"), "resource is required to be set");
    } else {
        let messages = names::dns1035_label(resource);
        if !messages.is_empty() {
            errors.invalid(path.child("resource"), resource, messages.join(","));
        }
    }
    let messages = if group.is_empty() { Vec::new() } else { names::dns1123_subdomain(group) };
    if !messages.is_empty() {
        errors.invalid(path.child("group"), group, messages.join(","));
    }
}

fn validate_status(migration: &Value, old: &Value, errors: &mut Errors) {
    let revision = migration.get("status").str("resourceVersion");
    let path = STATUS.child("resourceVersion");
    let well_formed = !revision.starts_with('0') && revision.bytes().all(|byte| byte.is_ascii_digit());
    if !well_formed {
        errors.invalid(path, revision, format!("resource version is not well formed: {revision}"));
    }
    let conditions = migration.at(&["status", "conditions"]);
    meta::validate_conditions(STATUS.child("conditions"), conditions.items(), errors);
    let before = old.get("status").str("resourceVersion");
    if !before.is_empty() && before != revision {
        errors.invalid(path, revision, "field is immutable");
    }
    let path = STATUS.child("conditions");
    if holds(migration, "Succeeded") && holds(migration, "Failed") {
        let detail = "Both success and failed conditions cannot be true at the same time";
        errors.invalid(path, conditions, detail);
    }
    for (kind, words) in [("Succeeded", "Success"), ("Failed", "Failed")] {
        if holds(old, kind) && !holds(migration, kind) {
            errors.invalid(path, conditions, format!("{words} condition cannot be set to false once it is true"));
        }
    }
}

fn holds(migration: &Value, kind: &str) -> bool {
    let mut conditions = migration.get("status").list("conditions").iter();
    conditions
        .find(|condition| condition.str("type") == kind)
        .is_some_and(|condition| condition.str("status") == "True")
}

fn resource(migration: &Value, _now: i64) -> Value {
    let reference = migration.at(&["spec", "resource"]);
    match reference.str("group") {
        "" => reference.str("resource").into(),
        group => format!("{}.{group}", reference.str("resource")).into(),
    }
}

fn status(migration: &Value, _now: i64) -> Value {
    let conditions = migration.get("status").list("conditions").iter();
    let holding =
        conditions.filter(|condition| condition.str("status") == "True").map(|condition| condition.str("type"));
    holding.rev().find(|kind| matches!(*kind, "Running" | "Failed" | "Succeeded")).unwrap_or("Unknown").into()
}
