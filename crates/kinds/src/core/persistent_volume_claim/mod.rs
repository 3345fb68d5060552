//! PersistentVolumeClaim: a wish for storage, and the volume that fulfils it.

mod data_source;
mod status;
mod update;

use crate::strategy::{Repeat, Repeats, ResetFields, Strategy};
use rkube_machinery::field::{Errors, Path};
use rkube_machinery::{Value, object};

use super::persistent_volume::{CLASS_ANNOTATION, access_modes, class, or_unset, phase, storage};
use crate::columns::{AGE, NAME};
use crate::core::pod_spec::warnings::fraction;
use crate::core::pod_spec::{amounts, default_claim_spec, validate_claim_spec};
use crate::fields::carry;
use crate::kind::{Column, Part, Row, Rules, Subresource};

pub static KIND: Row = Row {
    kind: "PersistentVolumeClaim",
    resource: "persistentvolumeclaims",
    singular: "persistentvolumeclaim",
    short_names: &["pvc"],
    type_name: "io.k8s.api.core.v1.PersistentVolumeClaim",
    storage_prefix: "persistentvolumeclaims",
    subresources: &[Subresource::STATUS],
    columns: &[
        NAME,
        Column::text("Status", "doc:io.k8s.api.core.v1.PersistentVolumeClaimStatus phase", |claim, _| phase(claim)),
        Column::text("Volume", "doc:io.k8s.api.core.v1.PersistentVolumeClaimSpec volumeName", |claim, _| {
            claim.get("spec").str("volumeName").into()
        }),
        Column::text("Capacity", "doc:io.k8s.api.core.v1.PersistentVolumeClaimStatus capacity", capacity),
        Column::text("Access Modes", "doc:io.k8s.api.core.v1.PersistentVolumeClaimStatus accessModes", |claim, _| {
            if is_bound(claim) { access_modes(claim.get("status")).into() } else { "".into() }
        }),
        Column::text("StorageClass", "StorageClass of the pvc", |claim, _| class(claim).into()),
        Column::text("VolumeAttributesClass", "VolumeAttributesClass of the pvc", |claim, _| {
            or_unset(claim.get("spec"), "volumeAttributesClassName")
        }),
        AGE,
        Column::wide("VolumeMode", "doc:io.k8s.api.core.v1.PersistentVolumeClaimSpec volumeMode", |claim, _| {
            or_unset(claim.get("spec"), "volumeMode")
        }),
    ],
    strategy: Strategy {
        repeats_meta: Repeats { main: Repeat::Nothing, status: Repeat::Update, other: Repeat::Update },
        reset_fields: ResetFields::STATUS,
        returns_deleted_object: true,
        ..Strategy::DEFAULTS
    },
    rules: &ClaimRules,
    ..Row::DEFAULTS
};

const METADATA: Path<'static> = Path::new("metadata");
const SPEC: Path<'static> = Path::new("spec");

struct ClaimRules;

impl Rules for ClaimRules {
    fn default(&self, claim: &mut Value) {
        default_claim_spec(claim.object_mut("spec"));
        let status = claim.object_mut("status");
        status.set_default("phase", "Pending");
        amounts::round_up_list(status, "capacity");
        amounts::round_up_list(status, "allocatedResources");
    }

    fn prepare_create(&self, claim: &mut Value) {
        claim.set("status", object! { "phase": "Pending" });
        data_source::prepare(claim.object_mut("spec"), &Value::Null);
    }

    fn validate_create(&self, claim: &Value, errors: &mut Errors) {
        validate_claim_spec(SPEC, claim.get("spec"), errors);
    }

    fn prepare_update(&self, part: Part, claim: &mut Value, old: &Value) {
        if part == Part::Status {
            return carry(claim, old, "spec");
        }
        carry(claim, old, "status");
        data_source::prepare(claim.object_mut("spec"), old.get("spec"));
    }

    fn validate_update(&self, part: Part, claim: &Value, old: &Value, errors: &mut Errors) {
        match part {
            Part::Status => status::validate(claim, errors),
            _ => update::validate(claim, old, errors),
        }
    }

    fn warnings(&self, claim: &Value, _old: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        if claim.get("metadata").map("annotations").contains(CLASS_ANNOTATION) {
            let path = METADATA.child("annotations");
            let path = path.key(CLASS_ANNOTATION);
            warnings.push(format!("{path}: deprecated since v1.8; use \"storageClassName\" attribute instead"));
        }
        let path = SPEC.child("resources");
        let resources = claim.get("spec").get("resources");
        for field in ["requests", "limits"] {
            fraction(path.child(field).key("storage"), resources.get(field).get("storage"), &mut warnings);
        }
        warnings
    }
}

fn is_bound(claim: &Value) -> bool {
    !claim.get("spec").str("volumeName").is_empty()
}

fn capacity(claim: &Value, _now: i64) -> Value {
    if is_bound(claim) { storage(claim.get("status").get("capacity")) } else { "".into() }
}
