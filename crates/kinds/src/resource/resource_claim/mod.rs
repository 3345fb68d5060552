//! ResourceClaim: devices that pods ask for, and those they got.
//!
//! Who may write which part of the status depends on permissions of their own, which is not checked here.

mod status;

use crate::strategy::{NameRule, Repeat, Repeats, ResetFields, Strategy};
use rkube_machinery::Value;
use rkube_machinery::field::{BadValue, Errors, Path};

use super::conversion::{claim_from_stored, claim_to_stored};
use super::{GROUP, admin, claim_spec, defaults};
use crate::columns::{AGE, NAME};
use crate::core::pod_spec::go_form;
use crate::fields::{carry, carry_metadata};
use crate::kind::{Column, Part, Row, RowConversion, Rules, Subresource, renamed};
use crate::meta;

pub static KIND: Row = Row {
    group: GROUP,
    kind: "ResourceClaim",
    resource: "resourceclaims",
    singular: "resourceclaim",
    type_name: "io.k8s.api.resource.v1.ResourceClaim",
    storage_prefix: "resourceclaims",
    subresources: &[Subresource::STATUS],
    columns: &[
        NAME,
        Column::text("State", "A summary of the current state (allocated, pending, reserved, etc.).", state),
        AGE,
    ],
    strategy: Strategy {
        repeats_meta: Repeats { main: Repeat::Nothing, status: Repeat::Update, other: Repeat::Update },
        reset_fields: ResetFields::STATUS_ALONE,
        returns_deleted_object: true,
        ..Strategy::DEFAULTS
    },
    rules: &ClaimRules { default_spec: defaults::claim_spec },
    ..Row::DEFAULTS
};

pub static BETA2: Row = Row {
    version: "v1beta2",
    type_name: "io.k8s.api.resource.v1beta2.ResourceClaim",
    deprecation: "resource.k8s.io/v1beta2 ResourceClaim is deprecated in v1.36+, unavailable in v1.39+",
    off_by_default: true,
    conversion: Some(renamed!("resource.k8s.io", "v1beta2", stored as "v1")),
    ..KIND
};

pub static BETA1: Row = Row {
    version: "v1beta1",
    type_name: "io.k8s.api.resource.v1beta1.ResourceClaim",
    deprecation: "resource.k8s.io/v1beta1 ResourceClaim is deprecated in v1.35+, unavailable in v1.38+",
    off_by_default: true,
    conversion: Some(RowConversion { group: GROUP, to_stored: claim_to_stored, from_stored: claim_from_stored }),
    rules: &ClaimRules { default_spec: defaults::old_claim_spec },
    ..KIND
};

const SPEC: Path<'static> = Path::new("spec");

struct ClaimRules {
    default_spec: fn(&mut Value),
}

impl Rules for ClaimRules {
    fn default(&self, claim: &mut Value) {
        (self.default_spec)(claim.object_mut("spec"));
        defaults::claim_status(claim);
    }

    fn prepare_create(&self, claim: &mut Value) {
        claim.remove("status");
    }

    fn validate_create(&self, claim: &Value, errors: &mut Errors) {
        claim_spec::validate(SPEC, claim.get("spec"), errors);
    }

    fn validate_in_namespace(
        &self,
        part: Part,
        claim: &Value,
        old: Option<&Value>,
        namespace: &dyn Fn() -> Value,
        errors: &mut Errors,
    ) {
        match (part, old) {
            (Part::Status, Some(old)) => {
                admin::validate_results(claim.get("status"), old.get("status"), namespace, errors);
            }
            (_, None) => admin::validate_requests(claim.get("spec"), namespace, errors),
            // The spec stays, so it is not looked at again.
            _ => {}
        }
    }

    fn prepare_update(&self, part: Part, claim: &mut Value, old: &Value) {
        if part == Part::Status {
            carry(claim, old, "spec");
            carry_metadata(claim, old);
            status::drop_freed_devices(claim, old);
        } else {
            carry(claim, old, "status");
        }
    }

    /// The spec stays, so it is not looked at again.
    fn validate_update(&self, part: Part, claim: &Value, old: &Value, errors: &mut Errors) {
        if part == Part::Status {
            return status::validate(claim, old, errors);
        }
        meta::validate_again(claim, true, NameRule::Subdomain, errors);
        meta::validate_update_again(claim, old, errors);
        let spec = claim.get("spec");
        if !go_form::same("ResourceClaimSpec", spec, old.get("spec")) {
            let shown = BadValue::Text(go_form::go_json("ResourceClaimSpec", spec));
            errors.invalid(SPEC, shown, "field is immutable");
        }
    }
}

fn state(claim: &Value, _now: i64) -> Value {
    let deleted = claim.get("metadata").has("deletionTimestamp");
    let allocated = claim.get("status").has("allocation");
    let reserved = allocated && !claim.get("status").list("reservedFor").is_empty();
    let states =
        [("deleted", deleted), ("pending", !allocated && !deleted), ("allocated", allocated), ("reserved", reserved)];
    let states: Vec<&str> = states.into_iter().filter(|(_, holds)| *holds).map(|(state, _)| state).collect();
    states.join(",").into()
}
