//! Lease: who holds something, and since when. Heartbeats of nodes and leader election are writes of it.

use crate::strategy::Strategy;
use rkube_machinery::Value;
use rkube_machinery::field::{Errors, Path};

use crate::columns::{AGE, NAME};
use crate::fields::remove_inner;
use crate::kind::{Column, Part, Row, Rules};

pub static KIND: Row = Row {
    group: "coordination.k8s.io",
    kind: "Lease",
    resource: "leases",
    singular: "lease",
    type_name: "io.k8s.api.coordination.v1.Lease",
    storage_prefix: "leases",
    columns: &[NAME, Column::text("Holder", "doc:io.k8s.api.coordination.v1.LeaseSpec holderIdentity", holder), AGE],
    strategy: Strategy {
        checks_finalizers: false,
        create_on_update: true,
        unconditional_update: false,
        ..Strategy::DEFAULTS
    },
    rules: &LeaseRules,
    ..Row::DEFAULTS
};

struct LeaseRules;

impl Rules for LeaseRules {
    /// Coordinated leader election is off.
    fn prepare_create(&self, object: &mut Value) {
        remove_inner(object, "spec", "strategy");
        remove_inner(object, "spec", "preferredHolder");
    }

    fn validate_create(&self, object: &Value, errors: &mut Errors) {
        let spec = object.get("spec");
        let path = Path::new("spec");
        if spec.has("leaseDurationSeconds") && spec.int("leaseDurationSeconds") <= 0 {
            let value = spec.int("leaseDurationSeconds");
            errors.invalid(path.child("leaseDurationSeconds"), value, "must be greater than 0");
        }
        if spec.int("leaseTransitions") < 0 {
            let value = spec.int("leaseTransitions");
            errors.invalid(path.child("leaseTransitions"), value, "must be greater than or equal to 0");
        }
    }

    fn prepare_update(&self, _part: Part, object: &mut Value, old: &Value) {
        for field in ["strategy", "preferredHolder"] {
            if !old.get("spec").has(field) {
                remove_inner(object, "spec", field);
            }
        }
    }

    fn validate_update(&self, _part: Part, object: &Value, _old: &Value, errors: &mut Errors) {
        self.validate_create(object, errors);
    }
}

fn holder(object: &Value, _now: i64) -> Value {
    object.get("spec").str("holderIdentity").into()
}
