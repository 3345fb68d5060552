//! ResourcePoolStatusRequest: a question about the pools of a driver, and its answer.

use crate::strategy::{ResetFields, Strategy};
use rkube_machinery::Value;
use rkube_machinery::field::{BadValue, Errors, Path};
use rkube_machinery::names;

use super::GROUP;
use super::names::POOL_MAX_BYTES;
use crate::columns::{NAME, NONE, since};
use crate::core::pod_spec::checks::{Seen, each, require};
use crate::core::pod_spec::go_form;
use crate::fields::{carry, carry_metadata};
use crate::kind::{Column, Part, Row, Rules, Scope, Subresource};
use crate::meta;

pub static KIND: Row = Row {
    group: GROUP,
    version: "v1alpha3",
    kind: "ResourcePoolStatusRequest",
    resource: "resourcepoolstatusrequests",
    singular: "resourcepoolstatusrequest",
    scope: Scope::Cluster,
    type_name: "io.k8s.api.resource.v1alpha3.ResourcePoolStatusRequest",
    storage_prefix: "resourcepoolstatusrequests",
    off_by_default: true,
    subresources: &[Subresource::STATUS],
    columns: &[
        NAME,
        Column::text("Driver", "The driver to query pools for.", |request, _| request.get("spec").str("driver").into()),
        Column::text("Total", "Total number of devices across all pools.", |request, _| sum(request, "totalDevices")),
        Column::text("Available", "Number of available devices across all pools.", |request, _| {
            sum(request, "availableDevices")
        }),
        Column::text("Allocated", "Number of allocated devices across all pools.", |request, _| {
            sum(request, "allocatedDevices")
        }),
        Column::text("Unavailable", "Number of unavailable devices across all pools.", |request, _| {
            sum(request, "unavailableDevices")
        }),
        Column::text("Errors", "Number of pools with validation errors.", |request, _| {
            total(request, |pool| i64::from(pool.has("validationError")))
        }),
        Column {
            kind: "integer",
            ..Column::text("Pools", "Total number of matching pools.", |request, _| {
                request.get("status").int("poolCount").into()
            })
        },
        Column::text("Status", "Processing status.", |request, _| state(request).into()),
        Column::text("Completed", "Time since the observation completed.", completed),
    ],
    strategy: Strategy {
        unconditional_update: false,
        reset_fields: ResetFields::STATUS_ALONE,
        returns_deleted_object: true,
        ..Strategy::DEFAULTS
    },
    rules: &RequestRules,
    ..Row::DEFAULTS
};

const SPEC: Path<'static> = Path::new("spec");
const STATUS: Path<'static> = Path::new("status");
const LIMIT_DEFAULT: i64 = 100;
const LIMIT_MAX: i64 = 1000;
const POOLS_MAX: usize = 1000;
const CONDITIONS_MAX: usize = 10;
const ERROR_MAX_BYTES: usize = 256;

struct RequestRules;

impl Rules for RequestRules {
    fn default(&self, request: &mut Value) {
        request.object_mut("spec").set_if_absent("limit", LIMIT_DEFAULT);
    }

    fn prepare_create(&self, request: &mut Value) {
        request.remove("status");
    }

    fn validate_create(&self, request: &Value, errors: &mut Errors) {
        let spec = request.get("spec");
        if require(spec, SPEC, "driver", errors) {
            validate_driver(SPEC.child("driver"), spec.str("driver"), errors);
        }
        if spec.has("poolName") {
            validate_pool_name(SPEC.child("poolName"), spec.str("poolName"), errors);
        }
        let path = SPEC.child("limit");
        match spec.get("limit").as_int() {
            None => errors.required(path, ""),
            Some(limit) if limit > LIMIT_MAX => {
                errors.invalid(path, limit, format!("must be less than or equal to {LIMIT_MAX}"));
            }
            Some(limit) => at_least(path, limit, 1, errors),
        }
    }

    fn prepare_update(&self, part: Part, request: &mut Value, old: &Value) {
        if part == Part::Status {
            carry(request, old, "spec");
            carry_metadata(request, old);
        } else {
            carry(request, old, "status");
        }
    }

    fn validate_update(&self, part: Part, request: &Value, old: &Value, errors: &mut Errors) {
        if part == Part::Status {
            return validate_status(request.get("status"), old.get("status"), errors);
        }
        if !go_form::same_plain(request.get("spec"), old.get("spec")) {
            errors.invalid(SPEC, &Value::Null, "field is immutable");
        }
    }
}

/// An answer stays. Of one that changes, what differs is looked at all the same.
fn validate_status(status: &Value, old: &Value, errors: &mut Errors) {
    const TYPE: &str = "ResourcePoolStatusRequestStatus";
    if status == old {
        return;
    }
    if !old.is_null() {
        if status.is_null() || !go_form::same(TYPE, status, old) {
            let shown = if status.is_null() { "null".to_owned() } else { go_form::go_json(TYPE, status) };
            errors.invalid(STATUS, BadValue::Text(shown), "field is immutable");
        }
    } else {
        meta::validate_conditions(STATUS.child("conditions"), status.list("conditions"), errors);
    }
    if status.is_null() {
        return;
    }
    match status.get("poolCount").as_int() {
        None => errors.required(STATUS.child("poolCount"), ""),
        Some(count) if status.get("poolCount") != old.get("poolCount") => {
            at_least(STATUS.child("poolCount"), count, 0, errors);
        }
        Some(_) => {}
    }
    let pools = status.list("pools");
    if !meta::same(status.get("pools"), old.get("pools")) {
        super::lists::slice(STATUS.child("pools"), pools, POOLS_MAX, errors, validate_pool);
    }
    if !meta::same(status.get("conditions"), old.get("conditions")) {
        validate_condition_types(STATUS.child("conditions"), status.list("conditions"), errors);
    }
}

fn validate_condition_types(path: Path<'_>, list: &[Value], errors: &mut Errors) {
    if list.len() > CONDITIONS_MAX {
        return errors.too_many(path, list.len(), CONDITIONS_MAX);
    }
    let mut types = Seen::new();
    for (index, condition) in list.iter().enumerate() {
        if !types.add(condition.str("type")) {
            errors.duplicate(path.index(index), condition);
        }
    }
}

fn validate_pool(path: Path<'_>, pool: &Value, errors: &mut Errors) {
    if require(pool, path, "driver", errors) {
        validate_driver(path.child("driver"), pool.str("driver"), errors);
    }
    if require(pool, path, "poolName", errors) {
        validate_pool_name(path.child("poolName"), pool.str("poolName"), errors);
    }
    // None and zero are the same here.
    match pool.int("generation") {
        0 => errors.required(path.child("generation"), ""),
        generation => at_least(path.child("generation"), generation, 0, errors),
    }
    let counts = [
        ("resourceSliceCount", 1),
        ("totalDevices", 0),
        ("allocatedDevices", 0),
        ("availableDevices", 0),
        ("unavailableDevices", 0),
    ];
    for (field, least) in counts {
        if let Some(count) = pool.get(field).as_int() {
            at_least(path.child(field), count, least, errors);
        }
    }
    if pool.has("nodeName") {
        each(path.child("nodeName"), pool.str("nodeName"), names::long_name(pool.str("nodeName")), errors);
    }
    if pool.str("validationError").len() > ERROR_MAX_BYTES {
        errors.too_long(path.child("validationError"), ERROR_MAX_BYTES);
    }
}

fn at_least(path: Path<'_>, number: i64, least: i64, errors: &mut Errors) {
    if number < least {
        errors.invalid(path, number, format!("must be greater than or equal to {least}"));
    }
}

fn validate_driver(path: Path<'_>, driver: &str, errors: &mut Errors) {
    each(path, driver, names::long_name_caseless(driver), errors);
}

fn validate_pool_name(path: Path<'_>, name: &str, errors: &mut Errors) {
    if name.len() > POOL_MAX_BYTES {
        errors.too_long(path, POOL_MAX_BYTES);
    }
    for (index, part) in name.split('/').enumerate() {
        if part.is_empty() {
            errors.invalid(path, name, format!("segment {index}: must not be empty"));
            continue;
        }
        for message in names::long_name(part) {
            errors.invalid(path, part, format!("segment {index}: {message}"));
        }
    }
}

/// The condition that says how it ended: the first of the two that holds.
fn end(request: &Value) -> Option<&Value> {
    let ends = |condition: &&Value| {
        matches!(condition.str("type"), "Complete" | "Failed") && condition.str("status") == "True"
    };
    request.get("status").list("conditions").iter().find(ends)
}

fn state(request: &Value) -> String {
    let pools = i64::try_from(request.get("status").list("pools").len()).unwrap_or(i64::MAX);
    let count = request.get("status").int("poolCount");
    match end(request).map(|condition| condition.str("type")) {
        Some("Complete") if count > pools => format!("Complete ({pools}/{count} pools)"),
        Some(end) => end.to_owned(),
        None => "Pending".to_owned(),
    }
}

fn sum(request: &Value, field: &str) -> Value {
    total(request, |pool| pool.int(field))
}

fn total(request: &Value, count: impl Fn(&Value) -> i64) -> Value {
    let failed = end(request).is_some_and(|condition| condition.str("type") == "Failed");
    if failed || !request.has("status") {
        return "-".into();
    }
    request.get("status").list("pools").iter().map(count).sum::<i64>().to_string().into()
}

fn completed(request: &Value, now: i64) -> Value {
    match end(request).filter(|condition| condition.str("type") == "Complete") {
        Some(condition) => since(condition.str("lastTransitionTime"), now).into(),
        None => NONE.into(),
    }
}
