//! The selector by which a job finds its pods, and the labels that make its pods found.

use rkube_machinery::Value;
use rkube_machinery::field::{BadValue, Errors, Path};
use rkube_machinery::selector::labels::Selector;
use rkube_machinery::{Map, json};

pub(super) const JOB_NAME: &str = "batch.kubernetes.io/job-name";
pub(super) const CONTROLLER_UID: &str = "batch.kubernetes.io/controller-uid";
const OLD_JOB_NAME: &str = "job-name";
const OLD_CONTROLLER_UID: &str = "controller-uid";

/// Labels the pods with the job's name and uid and selects by its uid, unless the job has a selector of its own.
/// Labels that are there already stay; validation says whether they are right.
pub(super) fn generate(job: &mut Value) {
    if job.get("spec").bool("manualSelector") {
        return;
    }
    let metadata = job.get("metadata");
    let (name, uid) = (metadata.str("name").to_owned(), metadata.str("uid").to_owned());
    let spec = job.object_mut("spec");
    let labels = spec.object_mut("template").object_mut("metadata").object_mut("labels");
    for key in [OLD_JOB_NAME, JOB_NAME] {
        labels.set_if_absent(key, name.as_str());
    }
    for key in [OLD_CONTROLLER_UID, CONTROLLER_UID] {
        labels.set_if_absent(key, uid.as_str());
    }
    spec.object_mut("selector").object_mut("matchLabels").set_if_absent(CONTROLLER_UID, uid.as_str());
}

/// A generated selector is the one that [`generate`] makes. `prefixed`: whether the labels with a domain must be there,
/// which old jobs do not have.
pub(super) fn validate_generated(job: &Value, prefixed: bool, errors: &mut Errors) {
    let spec = job.get("spec");
    if spec.bool("manualSelector") || !spec.has("selector") {
        return;
    }
    let metadata = job.get("metadata");
    let (name, uid) = (metadata.str("name"), metadata.str("uid"));
    if uid.is_empty() {
        let meta = Path::new("metadata");
        errors.required(meta.child("uid"), "");
    }
    let mut expected = vec![(OLD_CONTROLLER_UID, uid), (OLD_JOB_NAME, name)];
    if prefixed {
        expected.extend([(CONTROLLER_UID, uid), (JOB_NAME, name)]);
    }
    let labels = spec.at(&["template", "metadata"]).map("labels");
    for (key, value) in &expected {
        validate_label(labels, key, value, errors);
    }
    if let Ok(selector) = Selector::from_label_selector(spec.get("selector")) {
        let label = |key: &str| expected.iter().find(|(known, _)| *known == key).map(|(_, value)| *value);
        if !selector.matches_pairs(label) {
            errors.invalid(super::SPEC.child("selector"), spec.get("selector"), "`selector` not auto-generated");
        }
    }
}

fn validate_label(labels: &Map, key: &str, want: &str, errors: &mut Errors) {
    let template = super::SPEC.child("template");
    let metadata = template.child("metadata");
    let path = metadata.child("labels");
    match labels.get(key) {
        None => errors.required(path.key(key), format!("must be '{want}'")),
        Some(value) if value.as_str() == want => {}
        Some(_) => {
            let shown = BadValue::Text(json::to_string(&Value::Object(labels.clone())));
            errors.invalid(path.key(key), shown, format!("must be '{want}'"));
        }
    }
}
