//! What a volume must look like, as an object of its own or inside an attachment.

use rkube_machinery::field::{Errors, Path};
use rkube_machinery::{Value, names};

use super::sources;
use crate::core::pod_spec::checks::{NOT_POSITIVE, dns_subdomain, one_of, one_of_if_set};
use crate::core::pod_spec::claim_template::validate_access_modes;
use crate::core::pod_spec::{amounts, validate_node_selector};

const INLINE: &str = "may not be specified in the context of inline volumes";
const POLICIES: &[&str] = &["Delete", "Recycle", "Retain"];

/// `name` is the volume's own; there is none where the spec stands in an attachment. `lenient` lets values pass in the
/// node affinity that no label can have.
pub(crate) fn validate_spec(path: Path<'_>, spec: &Value, name: Option<&str>, lenient: bool, errors: &mut Errors) {
    let inline = name.is_none();
    if inline {
        validate_inline(path, spec, errors);
    }
    if spec.list("accessModes").is_empty() {
        errors.required(path.child("accessModes"), "");
    }
    validate_access_modes(path.child("accessModes"), spec.list("accessModes"), errors);
    if !inline {
        validate_capacity(path.child("capacity"), spec.get("capacity"), errors);
    }
    validate_policy(path.child("persistentVolumeReclaimPolicy"), spec, inline, errors);
    if spec.has("nodeAffinity") {
        let path = path.child("nodeAffinity");
        let required = spec.get("nodeAffinity").get("required");
        if inline {
            errors.forbidden(path, INLINE);
        } else if required.is_null() {
            errors.required(path.child("required"), "must specify required node constraints");
        } else {
            validate_node_selector(path.child("required"), required, lenient, errors);
        }
    }
    sources::validate(path, spec, name, errors);
    let recycled = spec.str("persistentVolumeReclaimPolicy") == "Recycle";
    if recycled && spec.has("hostPath") && is_root(spec.get("hostPath").str("path")) {
        let words = "may not be 'recycle' for a hostPath mount of '/'";
        errors.forbidden(path.child("persistentVolumeReclaimPolicy"), words);
    }
    validate_class_and_mode(path, spec, inline, errors);
    if !inline && spec.has("volumeAttributesClassName") {
        let class = spec.str("volumeAttributesClassName");
        if class.is_empty() {
            errors.required(path.child("volumeAttributesClassName"), "an empty string is disallowed");
        } else {
            dns_subdomain(path.child("volumeAttributesClassName"), class, errors);
        }
        if !spec.has("csi") {
            errors.required(path.child("csi"), "has to be specified when using volumeAttributesClassName");
        }
    }
}

fn validate_inline(path: Path<'_>, spec: &Value, errors: &mut Errors) {
    if spec.has("claimRef") {
        errors.forbidden(path.child("claimRef"), INLINE);
    }
    if !spec.map("capacity").is_empty() {
        errors.forbidden(path.child("capacity"), INLINE);
    }
    if !spec.has("csi") {
        errors.required(path.child("csi"), "has to be specified in the context of inline volumes");
    }
}

fn validate_capacity(path: Path<'_>, capacity: &Value, errors: &mut Errors) {
    let map = capacity.as_map();
    if map.is_empty() {
        errors.required(path, "");
    }
    if map.len() != 1 || !map.contains("storage") {
        errors.not_supported(path, capacity, &["storage"]);
    }
    for (name, amount) in map.iter() {
        validate_basic(path.key(name), amount, errors);
        if !amounts::is_positive(amount) {
            errors.invalid(path.key(name), amount, NOT_POSITIVE);
        }
    }
}

/// An amount that is not negative in whole units.
pub(in crate::core) fn validate_basic(path: Path<'_>, amount: &Value, errors: &mut Errors) -> bool {
    let wrong = amounts::is_negative(amount).then(|| amounts::of(amount).value()).filter(|value| *value < 0);
    if let Some(value) = wrong {
        errors.invalid(path, value, "must be a valid resource quantity");
    }
    wrong.is_none()
}

fn validate_policy(path: Path<'_>, spec: &Value, inline: bool, errors: &mut Errors) {
    let policy = spec.str("persistentVolumeReclaimPolicy");
    if policy.is_empty() {
        return;
    }
    if !inline {
        one_of(path, policy, POLICIES, errors);
    } else if policy != "Retain" {
        errors.forbidden(path, "may only be Retain in the context of inline volumes");
    }
}

fn validate_class_and_mode(path: Path<'_>, spec: &Value, inline: bool, errors: &mut Errors) {
    let class = spec.str("storageClassName");
    if !class.is_empty() {
        match inline {
            true => errors.forbidden(path.child("storageClassName"), INLINE),
            false => dns_subdomain(path.child("storageClassName"), class, errors),
        }
    }
    if !inline {
        one_of_if_set(spec, path, "volumeMode", &["Block", "Filesystem"], errors);
    } else if spec.has("volumeMode") && spec.str("volumeMode") != "Filesystem" {
        let words = "may not specify volumeMode other than Filesystem in the context of inline volumes";
        errors.forbidden(path.child("volumeMode"), words);
    }
}

/// Whether the path is `/` when its dots are resolved.
fn is_root(path: &str) -> bool {
    let mut depth = 0_usize;
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => depth = depth.saturating_sub(1),
            _ => depth += 1,
        }
    }
    path.starts_with('/') && depth == 0
}

/// Whether the node affinity has values that no label can have.
pub(super) fn has_bad_label_value(spec: &Value) -> bool {
    let terms = spec.at(&["nodeAffinity", "required", "nodeSelectorTerms"]).items();
    let mut expressions = terms.iter().flat_map(|term| term.list("matchExpressions"));
    expressions
        .any(|expression| expression.list("values").iter().any(|value| !names::label_value(value.as_str()).is_empty()))
}

#[cfg(test)]
mod tests {
    use rkube_machinery::object;

    use super::*;

    #[test]
    fn roots() {
        for (path, root) in [("/", true), ("//.", true), ("/a/..", true), ("/a", false), ("", false), (".", false)] {
            assert_eq!(is_root(path), root, "{path}");
        }
    }

    #[test]
    fn volumes_are_checked() {
        let good = object! {
            "capacity": object! { "storage": "1Gi" }, "accessModes": vec!["ReadWriteOnce".into()],
            "csi": object! { "driver": "d.example.com", "volumeHandle": "h" },
        };
        let table: &[(&str, Value, &[&str])] = &[
            ("volumeMode", "Block".into(), &[]),
            (
                "capacity",
                Value::Null,
                &[
                    "spec.capacity: Required value",
                    "spec.capacity: Unsupported value: null: supported values: \"storage\"",
                ],
            ),
            (
                "capacity",
                object! { "storage": "-1" },
                &[
                    "spec.capacity[storage]: Invalid value: -1: must be a valid resource quantity",
                    "spec.capacity[storage]: Invalid value: \"-1\": must be greater than zero",
                ],
            ),
            (
                "nfs",
                object! { "server": "s", "path": "/" },
                &["spec.csi: Forbidden: may not specify more than 1 volume type"],
            ),
            ("csi", Value::Null, &["spec: Required value: must specify a volume type"]),
            (
                "volumeAttributesClassName",
                "".into(),
                &["spec.volumeAttributesClassName: Required value: an empty string is disallowed"],
            ),
            (
                "accessModes",
                vec!["ReadWriteOncePod".into(), "ReadWriteMany".into()].into(),
                &["spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes"],
            ),
        ];
        for (field, value, expected) in table {
            let mut spec = good.clone();
            spec.set(field, value.clone());
            let mut errors = Errors::new();
            validate_spec(Path::new("spec"), &spec, Some("pv"), false, &mut errors);
            let texts: Vec<String> = errors.0.iter().map(ToString::to_string).collect();
            assert_eq!(texts, *expected, "{field}");
        }
    }
}
