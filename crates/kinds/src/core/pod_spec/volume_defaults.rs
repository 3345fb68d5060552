//! What the volumes of a pod spec get where their author says nothing.

use rkube_machinery::Value;

use super::defaults::{default_field_reference, default_resources};
use super::image;

/// rw-r--r--.
const FILE_MODE: i64 = 0o644;
const TOKEN_SECONDS: i64 = 3600;

/// A volume without a source is an `emptyDir`.
pub(super) fn default_volume(volume: &mut Value) {
    let has_source = volume.as_map().iter().any(|(key, source)| key != "name" && !source.is_null());
    if !has_source {
        volume.set("emptyDir", Value::object());
        return;
    }
    for (key, source) in volume.make_map().iter_mut() {
        if !source.is_null() {
            default_source(key, source);
        }
    }
}

pub(crate) fn default_source(kind: &str, source: &mut Value) {
    match kind {
        "secret" | "configMap" => {
            source.set_if_absent("defaultMode", FILE_MODE);
        }
        "downwardAPI" => {
            source.set_if_absent("defaultMode", FILE_MODE);
            default_files(source);
        }
        "projected" => {
            source.set_if_absent("defaultMode", FILE_MODE);
            for part in source.list_mut("sources") {
                default_projection(part);
            }
        }
        "hostPath" => {
            source.set_if_absent("type", "");
        }
        "image" => {
            if source.str("pullPolicy").is_empty() {
                let policy = if image::is_latest(source.str("reference")) { "Always" } else { "IfNotPresent" };
                source.set("pullPolicy", policy);
            }
        }
        "ephemeral" => {
            if let Some(template) = source.find_mut("volumeClaimTemplate") {
                default_claim_spec(template.object_mut("spec"));
            }
        }
        _ => default_network_source(kind, source),
    }
}

fn default_network_source(kind: &str, source: &mut Value) {
    match kind {
        "iscsi" => {
            source.set_default("iscsiInterface", "default");
        }
        "rbd" => {
            source.set_default("pool", "rbd");
            source.set_default("user", "admin");
            source.set_default("keyring", "/etc/ceph/keyring");
        }
        "azureDisk" => {
            source.set_if_absent("cachingMode", "ReadWrite");
            source.set_if_absent("fsType", "ext4");
            source.set_if_absent("readOnly", false);
            source.set_if_absent("kind", "Shared");
        }
        "scaleIO" => {
            source.set_default("storageMode", "ThinProvisioned");
            source.set_default("fsType", "xfs");
        }
        _ => {}
    }
}

fn default_projection(part: &mut Value) {
    if let Some(files) = part.find_mut("downwardAPI") {
        default_files(files);
    }
    if let Some(token) = part.find_mut("serviceAccountToken") {
        token.set_if_absent("expirationSeconds", TOKEN_SECONDS);
    }
}

fn default_files(files: &mut Value) {
    for item in files.list_mut("items") {
        default_field_reference(item);
    }
}

/// What the spec of a PersistentVolumeClaim gets.
pub fn default_claim_spec(spec: &mut Value) {
    spec.set_if_absent("volumeMode", "Filesystem");
    if let Some(resources) = spec.find_mut("resources") {
        default_resources(resources);
    }
}
