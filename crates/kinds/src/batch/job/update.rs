//! New jobs and changes of jobs: the template stays while the job runs.

use rkube_machinery::field::{BadValue, Errors, Path};
use rkube_machinery::selector::labels::Selector;
use rkube_machinery::{Value, names, object};

use super::selector::{CONTROLLER_UID, JOB_NAME, validate_generated};
use super::status::is_true;
use super::{SPEC, spec};
use crate::core::pod_spec::PodOptions;
use crate::core::pod_spec::go_form::{self, go_json};
use crate::meta;

const IMMUTABLE: &str = "field is immutable";

pub(super) fn validate_new(job: &Value, errors: &mut Errors) {
    validate_whole(job, true, &PodOptions::for_create(), errors);
}

pub(super) fn validate_change(job: &Value, old: &Value, errors: &mut Errors) {
    let old_spec = old.get("spec");
    let mut options = PodOptions::for_update(old_spec.get("template"));
    options.any_label_value_in_selectors |= selects_bad_value(old_spec.get("selector"));
    let labels = old_spec.at(&["template", "metadata"]).map("labels");
    let prefixed = labels.contains(JOB_NAME) && labels.contains(CONTROLLER_UID);
    validate_whole(job, prefixed, &options, errors);
    meta::validate_update_again(job, old, errors);
    // The checks of the spec are part of both, so clients read their errors twice in the causes.
    let new_spec = job.get("spec");
    validate_spec(new_spec, &options, errors);
    validate_completions(new_spec, old_spec, errors);
    stays(new_spec, old_spec, "selector", "", errors);
    validate_template(new_spec, old, errors);
    stays(new_spec, old_spec, "completionMode", "", errors);
    stays(new_spec, old_spec, "podFailurePolicy", "PodFailurePolicy", errors);
    stays(new_spec, old_spec, "backoffLimitPerIndex", "", errors);
    stays(new_spec, old_spec, "managedBy", "", errors);
    stays(new_spec, old_spec, "successPolicy", "SuccessPolicy", errors);
}

fn validate_whole(job: &Value, prefixed: bool, options: &PodOptions, errors: &mut Errors) {
    validate_generated(job, prefixed, errors);
    let spec = job.get("spec");
    validate_spec(spec, options, errors);
    let completions = spec.int("completions");
    if spec.str("completionMode") == spec::INDEXED && completions > 0 {
        let name = job.get("metadata").str("name");
        let longest = format!("{name}-{}", completions - 1);
        if !names::dns1123_label(&longest).is_empty() {
            let meta = Path::new("metadata");
            let words = format!("will not able to create pod with invalid DNS label: {longest}");
            errors.invalid(meta.child("name"), name, words);
        }
    }
}

fn validate_spec(spec: &Value, options: &PodOptions, errors: &mut Errors) {
    spec::validate(SPEC, spec, options, errors);
    let path = SPEC.child("selector");
    let selector = spec.get("selector");
    if selector.is_null() {
        errors.required(path, "");
    } else {
        meta::validate_label_selector(path, selector, options.any_label_value_in_selectors, errors);
    }
    let labels = spec.at(&["template", "metadata"]).get("labels");
    if Selector::from_label_selector(selector).is_ok_and(|selector| !selector.matches(labels.as_map())) {
        let template = SPEC.child("template");
        let metadata = template.child("metadata");
        errors.invalid(metadata.child("labels"), labels, "`selector` does not match template `labels`");
    }
}

fn selects_bad_value(selector: &Value) -> bool {
    let values = selector.list("matchExpressions").iter().flat_map(|one| one.list("values"));
    values.into_iter().any(|value| !names::label_value(value.as_str()).is_empty())
}

/// Completions stay, except that an indexed job may be scaled: completions and parallelism in step.
fn validate_completions(spec: &Value, old: &Value, errors: &mut Errors) {
    if spec.str("completionMode") != spec::INDEXED {
        return stays(spec, old, "completions", "", errors);
    }
    let completions = spec.get("completions");
    let changed = !completions.is_null() && completions != old.get("completions");
    if changed && completions.as_int() != Some(spec.int("parallelism")) {
        let words = "can only be modified in tandem with spec.parallelism";
        errors.invalid(SPEC.child("completions"), completions, words);
    }
}

/// The field is what it was. `go_type` names the struct that the message shows.
fn stays(spec: &Value, old: &Value, field: &str, go_type: &str, errors: &mut Errors) {
    let (new, old) = (spec.get(field), old.get(field));
    if new == old || (!new.is_null() && !old.is_null() && !go_type.is_empty() && go_form::same(go_type, new, old)) {
        return;
    }
    let shown = match go_type {
        _ if new.is_null() => BadValue::from(new),
        "" => BadValue::from(&go_form::without_empties(new)),
        _ => BadValue::Text(go_json(go_type, new)),
    };
    errors.invalid(SPEC.child(field), shown, IMMUTABLE);
}

/// The template stays, except that a suspended job without pods may get other places and amounts for them.
fn validate_template(spec: &Value, old: &Value, errors: &mut Errors) {
    let old_spec = old.get("spec");
    let template = internal_template(spec.get("template"));
    let mut before = internal_template(old_spec.get("template"));
    let suspended = old_spec.bool("suspend");
    let open = suspended && is_idle(old.get("status"));
    if open {
        allow_places(&template, &mut before);
    }
    if !open {
        if !go_form::same("PodTemplateSpec", &template, &before) {
            let shown = BadValue::Text(go_json("PodTemplateSpec", &template));
            errors.invalid(SPEC.child("template"), shown, IMMUTABLE);
        }
        return;
    }
    let (pods, before) = (template.get("spec"), before.object_mut("spec"));
    for list in ["containers", "initContainers"] {
        allow_amounts(pods.list(list), before.list_mut(list));
    }
    if !go_form::same("PodSpec", pods, before) {
        errors.invalid(SPEC.child("template.spec"), BadValue::Text(go_json("PodSpec", pods)), IMMUTABLE);
    }
}

/// Never started, or stopped again, and nothing runs.
fn is_idle(status: &Value) -> bool {
    (!status.has("startTime") || is_true(status, "Suspended")) && status.int("active") == 0
}

fn internal_template(template: &Value) -> Value {
    object! {
        "metadata": template.get("metadata").clone(), "spec": go_form::internal_spec(template.get("spec")),
    }
}

/// Makes `old` agree with the template in what says where pods may run.
fn allow_places(template: &Value, old: &mut Value) {
    for field in ["annotations", "labels"] {
        let value = template.get("metadata").get(field).clone();
        old.object_mut("metadata").set(field, value);
    }
    let pods = template.get("spec");
    let old = old.object_mut("spec");
    for field in ["nodeSelector", "tolerations", "schedulingGates"] {
        old.set(field, pods.get(field).clone());
    }
    let affinity = pods.get("affinity");
    match (affinity.is_null(), old.has("affinity")) {
        (true, true) => {
            let before = old.object_mut("affinity");
            before.remove("nodeAffinity");
            if before.as_map().is_empty() {
                old.remove("affinity");
            }
        }
        (false, _) => old.object_mut("affinity").set("nodeAffinity", affinity.get("nodeAffinity").clone()),
        (true, false) => {}
    }
}

/// Makes the old containers agree with those of the same place and name in what they ask for.
fn allow_amounts(containers: &[Value], old: &mut [Value]) {
    if containers.len() != old.len() {
        return;
    }
    for (container, old) in containers.iter().zip(old) {
        if container.str("name") == old.str("name") {
            old.set("resources", container.get("resources").clone());
        }
    }
}
