//! VolumeAttachment: a volume is to be attached to a node by a driver.

use crate::strategy::{NameRule, Repeat, Repeats, ResetFields, Strategy};
use rkube_machinery::Value;
use rkube_machinery::field::{BadValue, Errors, Path};

use crate::columns::{AGE, NAME};
use crate::core::persistent_volume::validate_spec;
use crate::core::pod_spec::checks::dns_subdomain;
use crate::core::pod_spec::volume_defaults::default_source;
use crate::core::pod_spec::{amounts, go_form, validate_driver_name};
use crate::fields::{carry, carry_metadata};
use crate::kind::{Column, Part, Row, Rules, Scope, Subresource};
use crate::meta;

pub static KIND: Row = Row {
    group: "storage.k8s.io",
    kind: "VolumeAttachment",
    resource: "volumeattachments",
    singular: "volumeattachment",
    scope: Scope::Cluster,
    type_name: "io.k8s.api.storage.v1.VolumeAttachment",
    storage_prefix: "volumeattachments",
    subresources: &[Subresource::STATUS],
    columns: &[
        NAME,
        Column {
            format: "name",
            ..Column::text("Attacher", "doc:io.k8s.api.storage.v1.VolumeAttachmentSpec attacher", |attachment, _| {
                attachment.get("spec").str("attacher").into()
            })
        },
        Column::text("PV", "doc:io.k8s.api.storage.v1.VolumeAttachmentSource persistentVolumeName", |attachment, _| {
            attachment.at(&["spec", "source"]).str("persistentVolumeName").into()
        }),
        Column::text("Node", "doc:io.k8s.api.storage.v1.VolumeAttachmentSpec nodeName", |attachment, _| {
            attachment.get("spec").str("nodeName").into()
        }),
        Column {
            kind: "boolean",
            ..Column::text("Attached", "doc:io.k8s.api.storage.v1.VolumeAttachmentStatus attached", |attachment, _| {
                attachment.get("status").bool("attached").into()
            })
        },
        AGE,
    ],
    strategy: Strategy {
        repeats_meta: Repeats::all(Repeat::Nothing),
        unconditional_update: false,
        reset_fields: ResetFields::STATUS_ALONE,
        returns_deleted_object: true,
        ..Strategy::DEFAULTS
    },
    rules: &AttachmentRules,
    ..Row::DEFAULTS
};

const SPEC: Path<'static> = Path::new("spec");
const STATUS: Path<'static> = Path::new("status");
const METADATA_MAX_BYTES: usize = 256 * 1024;
const MESSAGE_MAX_BYTES: usize = 1024;

struct AttachmentRules;

impl Rules for AttachmentRules {
    fn default(&self, attachment: &mut Value) {
        let spec = attachment.find_mut("spec").and_then(|spec| spec.find_mut("source"));
        let Some(spec) = spec.and_then(|source| source.find_mut("inlineVolumeSpec")) else { return };
        amounts::round_up_list(spec, "capacity");
        for (key, source) in spec.make_map().iter_mut() {
            if !source.is_null() {
                default_source(key, source);
            }
        }
    }

    fn prepare_create(&self, attachment: &mut Value) {
        attachment.remove("status");
    }

    fn validate_create(&self, attachment: &Value, errors: &mut Errors) {
        let spec = attachment.get("spec");
        validate_driver_name(SPEC.child("attacher"), spec.str("attacher"), errors);
        validate_source(SPEC.child("source"), spec.get("source"), errors);
        dns_subdomain(SPEC.child("nodeName"), spec.str("nodeName"), errors);
        validate_status(attachment.get("status"), errors);
        let source = spec.get("source");
        if source.has("persistentVolumeName") {
            let path = Path::new("spec.source.persistentVolumeName");
            dns_subdomain(path, source.str("persistentVolumeName"), errors);
        }
    }

    fn prepare_update(&self, part: Part, attachment: &mut Value, old: &Value) {
        if part == Part::Status {
            carry(attachment, old, "spec");
            carry_metadata(attachment, old);
        } else {
            carry(attachment, old, "status");
        }
    }

    fn validate_update(&self, _part: Part, attachment: &Value, old: &Value, errors: &mut Errors) {
        meta::validate_again(attachment, false, NameRule::Subdomain, errors);
        self.validate_create(attachment, errors);
        let spec = attachment.get("spec");
        if !go_form::same("VolumeAttachmentSpec", spec, old.get("spec")) {
            let shown = BadValue::Text(go_form::go_json("VolumeAttachmentSpec", spec));
            errors.invalid(SPEC, shown, "field is immutable");
        }
    }
}

fn validate_source(path: Path<'_>, source: &Value, errors: &mut Errors) {
    const ONE: &str = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    match (source.has("inlineVolumeSpec"), source.has("persistentVolumeName")) {
        (false, false) => errors.required(path, ONE),
        (true, true) => errors.forbidden(path, ONE),
        (false, true) if source.str("persistentVolumeName").is_empty() => {
            errors.required(path.child("persistentVolumeName"), "must specify non empty persistentVolumeName");
        }
        (false, true) => {}
        (true, false) => {
            validate_spec(path.child("inlineVolumeSpec"), source.get("inlineVolumeSpec"), None, false, errors);
        }
    }
}

fn validate_status(status: &Value, errors: &mut Errors) {
    let metadata = status.map("attachmentMetadata").iter();
    let size: usize = metadata.map(|(key, value)| key.len() + value.as_str().len()).sum();
    if size > METADATA_MAX_BYTES {
        errors.too_long(STATUS.child("attachmentMetadata"), METADATA_MAX_BYTES);
    }
    for field in ["attachError", "detachError"] {
        let path = STATUS.child(field);
        let error = status.get(field);
        if error.str("message").len() > MESSAGE_MAX_BYTES {
            // The message names the wrong limit, as clients know it.
            errors.too_long(path.child("message"), METADATA_MAX_BYTES);
        }
        let code = error.int("errorCode");
        if code < 0 {
            errors.invalid(path.child("errorCode"), code, "must be between 0 and 2147483647, inclusive");
        }
    }
}

#[cfg(test)]
mod tests {
    use rkube_machinery::object;

    use super::*;

    #[test]
    fn sources_are_checked() {
        let inline = |mode: &str| {
            let csi = object! { "driver": "d.example.com", "volumeHandle": "h" };
            object! { "accessModes": vec!["ReadWriteOnce".into()], "csi": csi, "volumeMode": mode }
        };
        let table: &[(Value, &[&str])] = &[
            (object! { "persistentVolumeName": "pv" }, &[]),
            (object! { "inlineVolumeSpec": inline("Filesystem") }, &[]),
            (
                object! { "inlineVolumeSpec": inline("Block") },
                &[
                    "spec.source.inlineVolumeSpec.volumeMode: Forbidden: may not specify volumeMode other than Filesystem \
                   in the context of inline volumes",
                ],
            ),
            (
                Value::Null,
                &["spec.source: Required value: must specify exactly one of inlineVolumeSpec and persistentVolumeName"],
            ),
        ];
        for (source, expected) in table {
            let spec = object! { "attacher": "d.example.com", "source": source.clone(), "nodeName": "n" };
            let mut errors = Errors::new();
            AttachmentRules.validate_create(&object! { "spec": spec }, &mut errors);
            let texts: Vec<String> = errors.0.iter().map(ToString::to_string).collect();
            assert_eq!(texts, *expected);
        }
    }
}
