//! What a change of a volume may not do.

use rkube_machinery::Value;
use rkube_machinery::field::{BadValue, Errors, Path};

use super::SPEC;
use crate::core::pod_spec::{diff, go_form};
use crate::meta;

pub(super) fn validate(spec: &Value, old: &Value, errors: &mut Errors) {
    validate_source(spec, old, errors);
    meta::validate_immutable(Path::new("volumeMode"), spec.get("volumeMode"), old.get("volumeMode"), errors);
    let (affinity, before) = (spec.get("nodeAffinity"), old.get("nodeAffinity"));
    if !before.is_null() && !same_affinity(affinity, before) {
        let shown = match affinity.is_null() {
            true => "null".to_owned(),
            false => go_form::go_json("VolumeNodeAffinity", affinity),
        };
        let words = "field is immutable, except for updating from beta label to GA";
        errors.invalid(Path::new("nodeAffinity"), BadValue::Text(shown), words);
    }
    if old.has("volumeAttributesClassName") && !spec.has("volumeAttributesClassName") {
        let path = SPEC.child("volumeAttributesClassName");
        errors.forbidden(path, "update from non-nil value to nil is forbidden");
    }
}

/// The source stays, but for a secret that a CSI driver did not have before.
fn validate_source(spec: &Value, old: &Value, errors: &mut Errors) {
    const TYPE: &str = "PersistentVolumeSource";
    const SECRET: &str = "controllerExpandSecretRef";
    let given;
    let mut spec = spec;
    if old.has("csi") && !old.get("csi").has(SECRET) && spec.get("csi").has(SECRET) {
        let mut without = spec.clone();
        without.object_mut("csi").remove(SECRET);
        given = without;
        spec = &given;
    }
    if go_form::same(TYPE, spec, old) {
        return;
    }
    let diff = diff::unified(&go_form::go_json_indented(TYPE, old), &go_form::go_json_indented(TYPE, spec));
    let words = format!("spec.persistentvolumesource is immutable after creation\n{diff}");
    errors.forbidden(SPEC.child("persistentvolumesource"), words);
}

/// Alike, or alike when labels of old have the names that replaced them.
fn same_affinity(affinity: &Value, old: &Value) -> bool {
    const TYPE: &str = "VolumeNodeAffinity";
    if affinity.is_null() {
        return false;
    }
    if go_form::same(TYPE, affinity, old) {
        return true;
    }
    let mut renamed = old.clone();
    let terms = affinity.at(&["required", "nodeSelectorTerms"]).items();
    let Some(required) = renamed.find_mut("required") else { return false };
    for (old_term, term) in required.list_mut("nodeSelectorTerms").iter_mut().zip(terms) {
        for field in ["matchExpressions", "matchFields"] {
            for (old_one, one) in old_term.list_mut(field).iter_mut().zip(term.list(field)) {
                if new_name(old_one.str("key")) == one.str("key") {
                    old_one.set("key", one.get("key").clone());
                }
            }
        }
    }
    go_form::same(TYPE, affinity, &renamed)
}

/// Empty for a label that has no new name: a key that is emptied is wrong, but no change.
fn new_name(label: &str) -> &'static str {
    match label {
        "beta.kubernetes.io/arch" => "kubernetes.io/arch",
        "beta.kubernetes.io/os" => "kubernetes.io/os",
        "failure-domain.beta.kubernetes.io/zone" => "topology.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region" => "topology.kubernetes.io/region",
        "beta.kubernetes.io/instance-type" => "node.kubernetes.io/instance-type",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use rkube_machinery::object;

    use super::*;

    #[test]
    fn labels_may_get_their_new_names() {
        let affinity = |key: &str| {
            let expression = object! { "key": key, "operator": "In", "values": vec!["a".into()] };
            let term = object! { "matchExpressions": vec![expression] };
            object! { "required": object! { "nodeSelectorTerms": vec![term] } }
        };
        let old = affinity("failure-domain.beta.kubernetes.io/zone");
        assert!(same_affinity(&affinity("topology.kubernetes.io/zone"), &old));
        assert!(!same_affinity(&affinity("topology.kubernetes.io/region"), &old));
        assert!(!same_affinity(&affinity(""), &old));
        assert!(same_affinity(&affinity(""), &affinity("other")));
        assert!(!same_affinity(&Value::Null, &old));
    }

    #[test]
    fn sources_stay() {
        let old = object! { "hostPath": object! { "path": "/a", "type": "" }, "volumeMode": "Filesystem" };
        let new = object! { "hostPath": object! { "path": "/b", "type": "" }, "volumeMode": "Filesystem" };
        let mut errors = Errors::new();
        validate(&new, &old, &mut errors);
        assert_eq!(errors.len(), 1);
        let text = errors.0[0].to_string();
        assert!(text.starts_with(
            "spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation\n@@ -2,7 \
             +2,7 @@\n"
        ), "{text}");
        assert!(text.contains("-  \"Path\": \"/a\",\n+  \"Path\": \"/b\",\n"), "{text}");
    }
}
