//! Pod: containers that run together on one node.
//!
//! What it shares with templates of pods is in [`super::pod_spec`].

mod create;
mod defaults;
mod ephemeral;
mod printer;
mod qos;
mod resize;
mod status;
mod update;

use crate::strategy::{Repeat, Repeats, ResetFields, Strategy};
use rkube_machinery::Value;
use rkube_machinery::field::{Errors, Path};
use rkube_machinery::managed::Reset;
use rkube_machinery::names;
use rkube_machinery::names::address;

use super::pod_spec::{self, PodOptions};
use crate::fields::{carry, carry_metadata};
use crate::kind::{Part, Row, RowCondition, Rules, Selectable, Subresource};

const fn connection(name: &'static str, kind: &'static str, verbs: &'static [&'static str]) -> Subresource {
    Subresource { name, verbs, kind: Some(kind), group_version: None }
}

const UPDATE_VERBS: &[&str] = &["get", "patch", "update"];

pub static KIND: Row = Row {
    kind: "Pod",
    resource: "pods",
    singular: "pod",
    short_names: &["po"],
    categories: &["all"],
    type_name: "io.k8s.api.core.v1.Pod",
    storage_prefix: "pods",
    subresources: &[
        connection("attach", "PodAttachOptions", &["create", "get"]),
        connection("binding", "Binding", &["create"]),
        Subresource { name: "ephemeralcontainers", verbs: UPDATE_VERBS, kind: None, group_version: None },
        Subresource { group_version: Some(("policy", "v1")), ..connection("eviction", "Eviction", &["create"]) },
        connection("exec", "PodExecOptions", &["create", "get"]),
        connection("log", "Pod", &["get"]),
        connection("portforward", "PodPortForwardOptions", &["create", "get"]),
        connection("proxy", "PodProxyOptions", &["create", "delete", "get", "patch", "update"]),
        Subresource { name: "resize", verbs: UPDATE_VERBS, kind: None, group_version: None },
        Subresource::STATUS,
    ],
    columns: printer::COLUMNS,
    selectable: SELECTABLE,
    strategy: Strategy {
        repeats_meta: Repeats { main: Repeat::UpdateFirst, status: Repeat::Update, other: Repeat::UpdateFirst },
        reset_fields: ResetFields {
            status: Reset::Fields(&[&["spec"], &["metadata", "deletionTimestamp"], &["metadata", "ownerReferences"]]),
            ..ResetFields::STATUS
        },
        returns_deleted_object: true,
        ..Strategy::DEFAULTS
    },
    rules: &PodRules,
    ..Row::DEFAULTS
};

const SELECTABLE: &[Selectable] = &[
    Selectable { label: "spec.nodeName", value: |pod| pod.get("spec").str("nodeName").to_owned() },
    // The same by the name that the oldest clients use.
    Selectable { label: "spec.host", value: |pod| pod.get("spec").str("nodeName").to_owned() },
    Selectable { label: "spec.restartPolicy", value: |pod| pod.get("spec").str("restartPolicy").to_owned() },
    Selectable { label: "spec.schedulerName", value: |pod| pod.get("spec").str("schedulerName").to_owned() },
    Selectable { label: "spec.serviceAccountName", value: |pod| pod.get("spec").str("serviceAccountName").to_owned() },
    Selectable { label: "spec.hostNetwork", value: |pod| pod.get("spec").bool("hostNetwork").to_string() },
    Selectable { label: "status.phase", value: |pod| pod.get("status").str("phase").to_owned() },
    // Accepted, but matches only nothing.
    Selectable { label: "status.podIPs", value: |_| String::new() },
    Selectable { label: "status.podIP", value: |pod| printer::pod_ip(pod).to_owned() },
    Selectable {
        label: "status.nominatedNodeName",
        value: |pod| pod.get("status").str("nominatedNodeName").to_owned(),
    },
];

struct PodRules;

impl Rules for PodRules {
    fn default(&self, pod: &mut Value) {
        defaults::default_pod(pod);
    }

    fn prepare_create(&self, pod: &mut Value) {
        create::prepare(pod);
    }

    fn validate_create(&self, pod: &Value, errors: &mut Errors) {
        create::validate(pod, errors);
    }

    fn prepare_update(&self, part: Part, pod: &mut Value, old: &Value) {
        match part {
            Part::Main => update::prepare(pod, old),
            Part::Status => status::prepare(pod, old),
            Part::Other("ephemeralcontainers") => ephemeral::prepare(pod, old),
            Part::Other("resize") => resize::prepare(pod, old),
            Part::Other(_) => {}
        }
    }

    fn validate_update(&self, part: Part, pod: &Value, old: &Value, errors: &mut Errors) {
        let options = PodOptions::for_update(old).of_pod();
        match part {
            Part::Main => update::validate(pod, old, &options, errors),
            Part::Status => status::validate(pod, old, &options, errors),
            Part::Other("ephemeralcontainers") => ephemeral::validate(pod, old, &options, errors),
            Part::Other("resize") => resize::validate(pod, old, &options, errors),
            Part::Other(_) => {}
        }
    }

    fn warnings(&self, pod: &Value, old: Option<&Value>) -> Vec<String> {
        match old {
            None => create_warnings(pod),
            Some(old) => address_warnings(pod, old),
        }
    }

    fn row_completed(&self, pod: &Value) -> Option<RowCondition> {
        printer::completed(pod)
    }

    fn grace_period_seconds(&self, pod: &Value, asked: Option<i64>) -> Option<i64> {
        let ended = matches!(pod.get("status").str("phase"), "Failed" | "Succeeded");
        if ended || pod.get("spec").str("nodeName").is_empty() {
            return Some(0);
        }
        let seconds = asked.unwrap_or_else(|| pod.get("spec").int("terminationGracePeriodSeconds"));
        Some(if seconds < 0 { 1 } else { seconds })
    }
}

fn create_warnings(pod: &Value) -> Vec<String> {
    let mut warnings = create::app_armor_warnings(pod);
    let messages = names::dns1123_label(pod.get("metadata").str("name"));
    if !messages.is_empty() {
        warnings.push(format!(
            "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label \
             is recommended: [{}]",
            messages.join(" ")
        ));
    }
    warnings.extend(pod_spec::pod_warnings(pod));
    warnings
}

/// Addresses that are written in an odd way, where a change of status brings them.
fn address_warnings(pod: &Value, old: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    let status = Path::new("status");
    if pod.get("status") == old.get("status") {
        return warnings;
    }
    for field in ["podIPs", "hostIPs"] {
        let path = status.child(field);
        for (index, entry) in pod.get("status").list(field).iter().enumerate() {
            warnings.extend(address::ip_warning(path.index(index).child("ip"), entry.str("ip")));
        }
    }
    warnings
}

/// The generation counts changes of the spec.
fn count_generation(pod: &mut Value, old: &Value) {
    let mut generation = old.get("metadata").int("generation");
    if !pod_spec::go_form::same_spec(pod.get("spec"), old.get("spec")) {
        generation += 1;
    }
    if generation != 0 || pod.get("metadata").has("generation") {
        pod.object_mut("metadata").set("generation", generation);
    }
}

/// The errors that pods have on each write: those of annotations and spec.
fn validate_annotations_and_spec(pod: &Value, options: &PodOptions, errors: &mut Errors) {
    let (metadata, spec) = (pod.get("metadata"), pod.get("spec"));
    let (meta_path, path) = (Path::new("metadata"), Path::new("spec"));
    let annotations_path = meta_path.child("annotations");
    pod_spec::annotations::validate_annotations(annotations_path, metadata, spec, options, errors);
    pod_spec::validate_pod_spec(path, spec, metadata, options, errors);
    if spec.str("serviceAccountName").is_empty() {
        pod_spec::projected::validate_tokens_have_account(path, spec, errors);
    }
    for list in ["containers", "initContainers"] {
        let path = path.child(list);
        for (index, container) in spec.list(list).iter().enumerate() {
            pod_spec::containers::validate_image_padding(path.index(index), container, errors);
        }
    }
}
