//! What a StatefulSet must look like, and what of it may change.

use std::borrow::Cow;

use rkube_machinery::field::{BadValue, Errors, Path};
use rkube_machinery::{Value, names, object};

use crate::apps::template::{self, SPEC, STATUS};
use crate::apps::{numbers, selector};
use crate::core::pod_spec::checks::Seen;
use crate::core::pod_spec::{self, PodOptions, annotations, go_form};
use crate::meta;

const METADATA: Path<'static> = Path::new("metadata");
const UNCHANGEABLE: &str = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', \
                            'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and \
                            'minReadySeconds' are forbidden";

/// What of a spec is looked at.
#[derive(Clone, Copy)]
struct Extent {
    service_name: bool,
    claims: bool,
    template: bool,
}

pub(super) fn new_spec(spec: &Value, options: &PodOptions, errors: &mut Errors) {
    let all = Extent { service_name: true, claims: true, template: true };
    validate_spec(spec, options, all, errors);
}

/// What cannot change is not looked at again; nor is the template of a set that was wrong before.
pub(super) fn changed_spec(spec: &Value, old: &Value, options: &PodOptions, errors: &mut Errors) {
    let extent = Extent { service_name: false, claims: false, template: true };
    let mut before = Errors::new();
    validate_spec(old, options, extent, &mut before);
    validate_spec(spec, options, Extent { template: before.is_empty(), ..extent }, errors);
    let same = |field: &str| go_form::same_plain(spec.get(field), old.get(field));
    let claims = |spec| Value::list(spec, "volumeClaimTemplates");
    if !same("selector")
        || !same("serviceName")
        || !same("podManagementPolicy")
        || !template::same_claims(claims(spec), claims(old))
    {
        errors.forbidden(SPEC, UNCHANGEABLE);
    }
}

fn validate_spec(spec: &Value, options: &PodOptions, extent: Extent, errors: &mut Errors) {
    let path = SPEC.child("podManagementPolicy");
    match spec.str("podManagementPolicy") {
        "" => errors.required(path, ""),
        "OrderedReady" | "Parallel" => {}
        other => errors.invalid(path, other, "must be 'OrderedReady' or 'Parallel'"),
    }
    validate_strategy(SPEC.child("updateStrategy"), spec.get("updateStrategy"), errors);
    let policy = "persistentVolumeClaimRetentionPolicy";
    validate_retention(SPEC.child(policy), spec.get(policy), errors);
    if extent.claims {
        let path = SPEC.child("volumeClaimTemplates");
        for (index, claim) in spec.list("volumeClaimTemplates").iter().enumerate() {
            pod_spec::validate_claim_spec(path.index(index).child("spec"), claim.get("spec"), errors);
        }
    }
    numbers::validate_not_negative(SPEC, spec, &["replicas", "minReadySeconds"], errors);
    numbers::validate_not_negative(SPEC.child("ordinals"), spec.get("ordinals"), &["start"], errors);
    let service = spec.str("serviceName");
    if extent.service_name && !service.is_empty() {
        for message in names::dns1123_label(service) {
            errors.invalid(SPEC.child("serviceName"), service, message);
        }
    }
    validate_template(spec, options, extent, errors);
}

fn validate_template(spec: &Value, options: &PodOptions, extent: Extent, errors: &mut Errors) {
    let path = SPEC.child("template");
    let found = selector::validate(SPEC.child("selector"), spec.get("selector"), "statefulset", "", errors);
    if let Some(found) = found {
        let template = run_template(spec);
        template::validate_labels(path, &template, &found, errors);
        if extent.template {
            pod_spec::validate_pod_template(path, &template, options, errors);
        }
        // Labels and annotations are looked at twice, which clients see in the causes.
        let metadata = template.get("metadata");
        meta::validate_labels(path.child("labels"), metadata.map("labels"), errors);
        meta::validate_annotations(path.child("annotations"), metadata.map("annotations"), errors);
        let path = path.child("annotations");
        annotations::validate_annotations(path, metadata, template.get("spec"), options, errors);
    }
    template::validate_lifetime(path, spec.get("template"), "StatefulSet", errors);
}

/// The template as pods are made of it: names are the set's to give, and volumes come from its claims.
fn run_template(spec: &Value) -> Cow<'_, Value> {
    let (template, claims) = (spec.get("template"), spec.list("volumeClaimTemplates"));
    let pod = template.get("spec");
    if pod.str("subdomain").is_empty() && pod.str("hostname").is_empty() && claims.is_empty() {
        return Cow::Borrowed(template);
    }
    let mut template = template.clone();
    let pod = template.object_mut("spec");
    pod.remove("subdomain");
    pod.remove("hostname");
    if !claims.is_empty() {
        let mut volumes: Vec<Value> = Vec::new();
        let mut claimed = Seen::new();
        for claim in claims {
            let name = claim.get("metadata").str("name");
            if claimed.add(name) {
                volumes.push(object! { "name": name, "persistentVolumeClaim": object! { "claimName": name } });
            }
        }
        volumes.extend(pod.list("volumes").iter().filter(|volume| !claimed.has(volume.str("name"))).cloned());
        pod.set("volumes", volumes);
    }
    Cow::Owned(template)
}

fn validate_strategy(path: Path<'_>, strategy: &Value, errors: &mut Errors) {
    let rolling = strategy.get("rollingUpdate");
    let rolling_path = path.child("rollingUpdate");
    match strategy.str("type") {
        "" => errors.required(path, ""),
        "OnDelete" | "RollingUpdate" if rolling.is_null() => {}
        "OnDelete" => {
            let shown = BadValue::Text(go_form::go_json("RollingUpdateStatefulSetStrategy", rolling));
            errors.invalid(rolling_path, shown, "only allowed for updateStrategy 'RollingUpdate'");
        }
        "RollingUpdate" => validate_rolling_update(rolling_path, rolling, errors),
        _ => {
            let shown = BadValue::Text(go_form::go_json("StatefulSetUpdateStrategy", strategy));
            errors.invalid(path, shown, "must be 'RollingUpdate' or 'OnDelete'");
        }
    }
}

fn validate_rolling_update(path: Path<'_>, rolling: &Value, errors: &mut Errors) {
    numbers::validate_not_negative(path, rolling, &["partition"], errors);
    let unavailable = rolling.get("maxUnavailable");
    if unavailable.is_null() {
        return;
    }
    let path = path.child("maxUnavailable");
    numbers::validate_count_or_percent(path, unavailable, errors);
    if numbers::count_or_percent(unavailable) == 0 {
        errors.invalid(path, unavailable, "cannot be 0");
    }
    numbers::validate_at_most_all(path, unavailable, errors);
}

fn validate_retention(path: Path<'_>, policy: &Value, errors: &mut Errors) {
    if policy.is_null() {
        return;
    }
    for field in ["whenDeleted", "whenScaled"] {
        let value = policy.str(field);
        if !matches!(value, "Retain" | "Delete") {
            errors.not_supported(path.child(field), value, &["Retain", "Delete"]);
        }
    }
}

pub(super) fn status(set: &Value, old: &Value, errors: &mut Errors) {
    const PARTS: &[&str] = &["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"];
    let status = set.get("status");
    numbers::validate_not_negative(STATUS, status, &["replicas"], errors);
    numbers::validate_not_negative(STATUS, status, PARTS, errors);
    numbers::validate_not_negative(STATUS, status, &["observedGeneration", "collisionCount"], errors);
    numbers::validate_parts(STATUS, status, PARTS, errors);
    numbers::validate_available(STATUS, status, "cannot be greater than status.readyReplicas", errors);
    meta::validate_update(METADATA, set.get("metadata"), old.get("metadata"), errors);
    meta::validate_known_finalizers(METADATA, set.get("metadata"), errors);
    numbers::validate_collisions(STATUS, status, old.get("status"), errors);
}
