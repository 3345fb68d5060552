//! PersistentVolume: a piece of storage, and the claim that has it.

mod sources;
mod spec;
mod update;

use crate::strategy::{NameRule, Repeat, Repeats, ResetFields, Strategy};
use rkube_machinery::field::{Errors, Path};
use rkube_machinery::{Value, object};

pub(in crate::core) use spec::validate_basic;
pub(crate) use spec::validate_spec;

use crate::columns::{AGE, NAME};
use crate::core::pod_spec::volume_defaults::default_source;
use crate::core::pod_spec::{amounts, warnings::term_warnings};
use crate::fields::{carry, texts, written_at};
use crate::kind::{Column, Part, Row, Rules, Scope, Subresource};
use crate::meta;

pub static KIND: Row = Row {
    kind: "PersistentVolume",
    resource: "persistentvolumes",
    singular: "persistentvolume",
    short_names: &["pv"],
    scope: Scope::Cluster,
    type_name: "io.k8s.api.core.v1.PersistentVolume",
    storage_prefix: "persistentvolumes",
    subresources: &[Subresource::STATUS],
    columns: &[
        NAME,
        Column::text("Capacity", "doc:io.k8s.api.core.v1.PersistentVolumeSpec capacity", |volume, _| {
            storage(volume.get("spec").get("capacity"))
        }),
        Column::text("Access Modes", "doc:io.k8s.api.core.v1.PersistentVolumeSpec accessModes", |volume, _| {
            access_modes(volume.get("spec")).into()
        }),
        Column::text(
            "Reclaim Policy",
            "doc:io.k8s.api.core.v1.PersistentVolumeSpec persistentVolumeReclaimPolicy",
            |volume, _| volume.get("spec").str("persistentVolumeReclaimPolicy").into(),
        ),
        Column::text("Status", "doc:io.k8s.api.core.v1.PersistentVolumeStatus phase", |volume, _| phase(volume)),
        Column::text("Claim", "doc:io.k8s.api.core.v1.PersistentVolumeSpec claimRef", claim),
        Column::text("StorageClass", "StorageClass of the pv", |volume, _| class(volume).into()),
        Column::text("VolumeAttributesClass", "VolumeAttributesClass of the pv", |volume, _| {
            or_unset(volume.get("spec"), "volumeAttributesClassName")
        }),
        Column::text("Reason", "doc:io.k8s.api.core.v1.PersistentVolumeStatus reason", |volume, _| {
            volume.get("status").str("reason").into()
        }),
        AGE,
        Column::wide("VolumeMode", "doc:io.k8s.api.core.v1.PersistentVolumeSpec volumeMode", |volume, _| {
            or_unset(volume.get("spec"), "volumeMode")
        }),
    ],
    strategy: Strategy {
        repeats_meta: Repeats { main: Repeat::Nothing, status: Repeat::Update, other: Repeat::Update },
        reset_fields: ResetFields::STATUS,
        returns_deleted_object: true,
        ..Strategy::DEFAULTS
    },
    rules: &VolumeRules,
    ..Row::DEFAULTS
};

pub(super) const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";
const OPTIONS_ANNOTATION: &str = "volume.beta.kubernetes.io/mount-options";
const METADATA: Path<'static> = Path::new("metadata");
const SPEC: Path<'static> = Path::new("spec");

struct VolumeRules;

impl Rules for VolumeRules {
    fn default(&self, volume: &mut Value) {
        let spec = volume.object_mut("spec");
        spec.set_default("persistentVolumeReclaimPolicy", "Retain");
        spec.set_if_absent("volumeMode", "Filesystem");
        amounts::round_up_list(spec, "capacity");
        for (key, source) in spec.make_map().iter_mut() {
            if !source.is_null() {
                default_source(key, source);
            }
        }
        volume.object_mut("status").set_default("phase", "Pending");
    }

    fn prepare_create(&self, volume: &mut Value) {
        let mut status = object! { "phase": "Pending" };
        // A volume is pending since it is there.
        if volume.get("metadata").has("creationTimestamp") {
            status.set("lastPhaseTransitionTime", volume.get("metadata").get("creationTimestamp").clone());
        }
        volume.set("status", status);
    }

    fn validate_create(&self, volume: &Value, errors: &mut Errors) {
        validate(volume, false, errors);
        validate_mount_options(volume, errors);
    }

    fn prepare_update(&self, part: Part, volume: &mut Value, old: &Value) {
        if part != Part::Status {
            return carry(volume, old, "status");
        }
        carry(volume, old, "spec");
        note_transition(volume, old);
    }

    /// Upstream runs the whole validation twice, and clients read its errors twice in the causes.
    fn validate_update(&self, part: Part, volume: &Value, old: &Value, errors: &mut Errors) {
        if part == Part::Status {
            return;
        }
        let lenient = spec::has_bad_label_value(old.get("spec"));
        meta::validate_again(volume, false, NameRule::Subdomain, errors);
        validate(volume, lenient, errors);
        validate_mount_options(volume, errors);
        if !errors.is_empty() {
            meta::validate_again(volume, false, NameRule::Subdomain, errors);
            validate(volume, lenient, errors);
        }
        update::validate(volume.get("spec"), old.get("spec"), errors);
    }

    fn warnings(&self, volume: &Value, _old: Option<&Value>) -> Vec<String> {
        warnings(volume)
    }
}

/// When the phase changed last.
fn note_transition(volume: &mut Value, old: &Value) {
    const FIELD: &str = "lastPhaseTransitionTime";
    let (status, before) = (volume.get("status"), old.get("status"));
    if status.str("phase") == before.str("phase") {
        if !status.has(FIELD) && before.has(FIELD) {
            volume.object_mut("status").set(FIELD, before.get(FIELD).clone());
        }
        return;
    }
    if status.has(FIELD) && status.str(FIELD) != before.str(FIELD) {
        return;
    }
    if let Some(now) = written_at(volume) {
        volume.object_mut("status").set(FIELD, now);
    }
}

fn validate(volume: &Value, lenient: bool, errors: &mut Errors) {
    let name = volume.get("metadata").str("name");
    validate_spec(SPEC, volume.get("spec"), Some(name), lenient, errors);
}

/// Mount options as an annotation work only for some sources.
fn validate_mount_options(volume: &Value, errors: &mut Errors) {
    const MOUNTABLE: [&str; 13] = [
        "gcePersistentDisk",
        "awsElasticBlockStore",
        "glusterfs",
        "nfs",
        "rbd",
        "quobyte",
        "iscsi",
        "cinder",
        "cephfs",
        "azureFile",
        "vsphereVolume",
        "azureDisk",
        "photonPersistentDisk",
    ];
    let has_options = volume.get("metadata").map("annotations").contains(OPTIONS_ANNOTATION);
    if has_options && !MOUNTABLE.iter().any(|source| volume.get("spec").has(source)) {
        let path = METADATA.child("annotations");
        errors.forbidden(path.child(OPTIONS_ANNOTATION), "may not specify mount options for this volume type");
    }
}

fn warnings(volume: &Value) -> Vec<String> {
    const OLD_ANNOTATIONS: [(&str, &str); 2] = [
        (CLASS_ANNOTATION, "deprecated since v1.8; use \"storageClassName\" attribute instead"),
        (OPTIONS_ANNOTATION, "deprecated since v1.31; use \"mountOptions\" attribute instead"),
    ];
    /// Field, name in the warning, since when.
    const OLD_SOURCES: [(&str, &str, &str); 6] = [
        ("cephfs", "cephfs", "deprecated in v1.28, non-functional in v1.31+"),
        ("photonPersistentDisk", "photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
        ("scaleIO", "scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
        ("storageos", "storageOS", "deprecated in v1.22, non-functional in v1.25+"),
        ("glusterfs", "glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
        ("rbd", "rbd", "deprecated in v1.28, non-functional in v1.31+"),
    ];
    let spec = volume.get("spec");
    let mut warnings = Vec::new();
    for (key, words) in OLD_ANNOTATIONS {
        if volume.get("metadata").map("annotations").contains(key) {
            warnings.push(format!("metadata.annotations[{key}]: {words}"));
        }
    }
    if spec.str("persistentVolumeReclaimPolicy") == "Recycle" {
        warnings.push(
            "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended \
             approach is to use dynamic provisioning."
                .to_owned(),
        );
    }
    let path = SPEC.child("nodeAffinity");
    let path = path.child("required");
    let path = path.child("nodeSelectorTerms");
    let terms = spec.at(&["nodeAffinity", "required", "nodeSelectorTerms"]).items();
    for (index, term) in terms.iter().enumerate() {
        term_warnings(path.index(index), term, false, &mut warnings);
    }
    for (field, shown, words) in OLD_SOURCES {
        if spec.has(field) {
            warnings.push(format!("spec.{shown}: {words}"));
        }
    }
    warnings
}

/// The amount of storage, as a cell.
pub(super) fn storage(amounts: &Value) -> Value {
    let amount = amounts.get("storage"); // tidy: key
    if amount.is_null() { "0".into() } else { amount.clone() }
}

/// Each mode once, in short: `RWO,ROX`.
pub(super) fn access_modes(parent: &Value) -> String {
    const SHORT: [(&str, &str); 4] =
        [("ReadWriteOnce", "RWO"), ("ReadOnlyMany", "ROX"), ("ReadWriteMany", "RWX"), ("ReadWriteOncePod", "RWOP")];
    let there = |mode: &str| texts(parent, "accessModes").any(|other| other == mode);
    let modes: Vec<&str> = SHORT.into_iter().filter(|(mode, _)| there(mode)).map(|(_, short)| short).collect();
    modes.join(",")
}

pub(super) fn phase(object: &Value) -> Value {
    match object.get("metadata").has("deletionTimestamp") {
        true => "Terminating".into(),
        false => object.get("status").str("phase").into(),
    }
}

/// The class of a volume or claim; the annotation of old comes first.
pub(super) fn class(object: &Value) -> &str {
    match object.get("metadata").map("annotations").get(CLASS_ANNOTATION) {
        Some(class) => class.as_str(),
        None => object.get("spec").str("storageClassName"),
    }
}

pub(super) fn or_unset(spec: &Value, field: &str) -> Value {
    if spec.has(field) { spec.get(field).clone() } else { "<unset>".into() }
}

fn claim(volume: &Value, _now: i64) -> Value {
    let claim = volume.get("spec").get("claimRef");
    match claim.is_null() {
        true => "".into(),
        false => format!("{}/{}", claim.str("namespace"), claim.str("name")).into(),
    }
}
