//! Annotations that mean something for a pod: static pods, deletion cost, and profiles in their old form.

use rkube_machinery::field::{Errors, Path, quote};
use rkube_machinery::{Map, Value, json};

use super::checks::{any_container, local_descending_path, visit_containers};
use super::options::{self, PodOptions};
use super::scheduling;

/// Marks the mirror of a pod that a node runs on its own.
pub(crate) const MIRROR: &str = "kubernetes.io/config.mirror";
pub(crate) const APP_ARMOR_PREFIX: &str = "container.apparmor.security.beta.kubernetes.io/";
const TOLERATIONS: &str = "scheduler.alpha.kubernetes.io/tolerations";
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
pub(super) const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
pub(super) const SECCOMP_PREFIX: &str = "container.seccomp.security.alpha.kubernetes.io/";
const SECCOMP_LOCALHOST: &str = "localhost/";
const APP_ARMOR_LOCALHOST: &str = "localhost/";

/// The annotations of a pod or of a template; `path` is that of the annotations.
pub fn validate_annotations(path: Path<'_>, metadata: &Value, spec: &Value, options: &PodOptions, errors: &mut Errors) {
    let annotations = metadata.map("annotations");
    if annotations.is_empty() {
        return;
    }
    if let Some(mirror) = annotations.get(MIRROR)
        && spec.str("nodeName").is_empty()
    {
        errors.invalid(path.key(MIRROR), mirror, "must set spec.nodeName if mirror pod annotation is set");
    }
    if !annotations.str(TOLERATIONS).is_empty() {
        validate_tolerations(path, annotations.str(TOLERATIONS), options, errors);
    }
    if !options.any_deletion_cost && !options::has_good_deletion_cost(metadata) {
        errors.invalid(path.key(DELETION_COST), annotations.str(DELETION_COST), "must be a 32bit integer");
    }
    if let Some(profile) = annotations.get(SECCOMP_POD) {
        validate_seccomp(path.child(SECCOMP_POD), profile.as_str(), errors);
    }
    for (key, profile) in annotations.iter().filter(|(key, _)| key.starts_with(SECCOMP_PREFIX)) {
        validate_seccomp(path.child(key), profile.as_str(), errors);
    }
    for (key, profile) in annotations.iter() {
        if let Some(name) = key.strip_prefix(APP_ARMOR_PREFIX) {
            validate_app_armor(path.key(key), name, profile.as_str(), spec, errors);
        }
    }
}

fn validate_tolerations(path: Path<'_>, text: &str, options: &PodOptions, errors: &mut Errors) {
    match json::parse(text.as_bytes()) {
        Ok(Value::Array(list)) => {
            scheduling::validate_tolerations(path.child(TOLERATIONS), &list, options, errors);
        }
        Ok(Value::Null) => {}
        Ok(_) => {
            let words = "json: cannot unmarshal object into Go value of type []core.Toleration";
            errors.invalid(path, TOLERATIONS, words);
        }
        Err(error) => errors.invalid(path, TOLERATIONS, error.to_string()),
    }
}

fn validate_seccomp(path: Path<'_>, profile: &str, errors: &mut Errors) {
    match profile {
        "runtime/default" | "docker/default" | "unconfined" => {}
        other => match other.strip_prefix(SECCOMP_LOCALHOST) {
            Some(file) => local_descending_path(path, file, errors),
            None => errors.invalid(path, other, "must be a valid seccomp profile"),
        },
    }
}

fn validate_app_armor(path: Path<'_>, container: &str, profile: &str, spec: &Value, errors: &mut Errors) {
    if !any_container(spec, |one| one.str("name") == container) {
        errors.invalid(path, container, "container not found");
    }
    let known = matches!(profile, "" | "runtime/default" | "unconfined") || profile.starts_with(APP_ARMOR_LOCALHOST);
    if !known {
        errors.invalid(path, profile, format!("invalid AppArmor profile name: {}", quote(profile)));
    }
}

/// Annotations that may not change once a pod is made.
pub(crate) fn validate_annotation_updates(path: Path<'_>, new: &Map, old: &Map, errors: &mut Errors) {
    let named = |key: &str| {
        if key.starts_with(APP_ARMOR_PREFIX) {
            Some("AppArmor annotations")
        } else {
            (key == MIRROR).then_some("mirror pod annotation")
        }
    };
    for (key, value) in old.iter() {
        if new.get(key) != Some(value)
            && let Some(what) = named(key)
        {
            errors.forbidden(path.key(key), format!("may not remove or update {what}"));
        }
    }
    for key in new.keys().filter(|key| !old.contains(key)) {
        if let Some(what) = named(key) {
            errors.forbidden(path.key(key), format!("may not add {what}"));
        }
    }
}

/// Profiles in annotations say the same as those in fields, where both are given.
pub(crate) fn validate_profiles_match(path: Path<'_>, metadata: &Value, spec: &Value, errors: &mut Errors) {
    let annotations = metadata.map("annotations");
    if annotations.is_empty() {
        return;
    }
    let pod_context = spec.get("securityContext");
    if let Some(annotation) = annotations.get(SECCOMP_POD) {
        let path = path.child("securityContext");
        match_seccomp(path.child("seccompProfile"), annotation.as_str(), pod_context.get("seccompProfile"), errors);
    }
    visit_containers(spec, path, |container, path| {
        let key = format!("{SECCOMP_PREFIX}{}", container.str("name"));
        if let Some(annotation) = annotations.get(&key) {
            let path = path.child("securityContext");
            let profile = container.get("securityContext").get("seccompProfile");
            match_seccomp(path.child("seccompProfile"), annotation.as_str(), profile, errors);
        }
    });
    if spec.get("os").str("name") == "windows" {
        return;
    }
    visit_containers(spec, path, |container, path| {
        let own = container.get("securityContext").get("appArmorProfile");
        let profile = if own.is_null() { pod_context.get("appArmorProfile") } else { own };
        let key = format!("{APP_ARMOR_PREFIX}{}", container.str("name"));
        if let Some(annotation) = annotations.get(&key) {
            let path = path.child("securityContext");
            match_app_armor(path.child("appArmorProfile"), annotation.as_str(), profile, errors);
        }
    });
}

fn match_seccomp(path: Path<'_>, annotation: &str, profile: &Value, errors: &mut Errors) {
    let same = match profile.str("type") {
        "Unconfined" => annotation == "unconfined",
        "RuntimeDefault" => annotation == "runtime/default" || annotation == "docker/default",
        "Localhost" => match annotation.strip_prefix(SECCOMP_LOCALHOST) {
            Some(file) => {
                if profile.get("localhostProfile") != &Value::from(file) {
                    let words = "seccomp profile in annotation and field must match";
                    errors.forbidden(path.child("localhostProfile"), words);
                }
                true
            }
            None => false,
        },
        _ => true,
    };
    if !same {
        errors.forbidden(path.child("type"), "seccomp type in annotation and field must match");
    }
}

fn match_app_armor(path: Path<'_>, annotation: &str, profile: &Value, errors: &mut Errors) {
    let same = match profile.str("type") {
        "Unconfined" => annotation == "unconfined",
        "RuntimeDefault" => annotation == "runtime/default",
        "Localhost" => match annotation.strip_prefix(APP_ARMOR_LOCALHOST) {
            Some(file) => {
                if profile.get("localhostProfile") != &Value::from(file) {
                    let words = "apparmor profile in annotation and field must match";
                    errors.forbidden(path.child("localhostProfile"), words);
                }
                true
            }
            None => false,
        },
        _ => true,
    };
    if !same {
        errors.forbidden(path.child("type"), "apparmor type in annotation and field must match");
    }
}

/// The field that says what an annotation of old says.
pub(crate) fn app_armor_field(annotation: &str) -> Option<Value> {
    let mut profile = Value::object();
    match annotation {
        "unconfined" => profile.set("type", "Unconfined"),
        "runtime/default" => profile.set("type", "RuntimeDefault"),
        other => {
            let file = other.strip_prefix(APP_ARMOR_LOCALHOST).filter(|file| !file.is_empty())?;
            profile.set("type", "Localhost");
            profile.set("localhostProfile", file);
        }
    }
    Some(profile)
}
