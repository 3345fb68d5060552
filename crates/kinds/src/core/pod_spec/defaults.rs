//! What a pod spec gets where its author says nothing. Shared by pods and by every template of pods.

use rkube_machinery::{Text, Value};

use super::{amounts, image, volume_defaults};

const CONTAINER_LISTS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];
/// Annotations of old that said what `initContainers` says now.
const INIT_ANNOTATIONS: [&str; 4] = [
    "pod.beta.kubernetes.io/init-containers",
    "pod.alpha.kubernetes.io/init-containers",
    "pod.beta.kubernetes.io/init-container-statuses",
    "pod.alpha.kubernetes.io/init-container-statuses",
];

/// Fills in a template of pods: an object with `metadata` and `spec`.
pub fn default_pod_template(template: &mut Value) {
    drop_init_annotations(template);
    default_pod_spec(template.object_mut("spec"));
}

/// Fills in a pod spec. What only pods get, not templates, is in the pod's own rules.
pub fn default_pod_spec(spec: &mut Value) {
    spec.make_map();
    sync_service_account(spec);
    spec.set_default("dnsPolicy", "ClusterFirst");
    spec.set_default("restartPolicy", "Always");
    spec.set_if_absent("securityContext", Value::object());
    spec.set_if_absent("terminationGracePeriodSeconds", 30);
    spec.set_default("schedulerName", "default-scheduler");
    for volume in spec.list_mut("volumes") {
        volume_defaults::default_volume(volume);
    }
    for list in CONTAINER_LISTS {
        for container in spec.list_mut(list) {
            default_container(container);
        }
    }
    amounts::round_up_list(spec, "overhead");
    if let Some(resources) = spec.find_mut("resources") {
        default_resources(resources);
    }
}

/// Takes those annotations from a pod or a template of pods.
pub(crate) fn drop_init_annotations(pod: &mut Value) {
    if let Some(annotations) = pod.find_mut("metadata").and_then(|metadata| metadata.find_mut("annotations")) {
        for key in INIT_ANNOTATIONS {
            annotations.remove(key);
        }
    }
}

/// `serviceAccount` is an old name for `serviceAccountName`; the new one wins, and both are shown.
pub fn sync_service_account(spec: &mut Value) {
    let name = match (spec.str("serviceAccountName"), spec.str("serviceAccount")) {
        ("", "") => return,
        ("", old) => Text::new(old),
        (new, old) if new == old => return,
        (new, _) => Text::new(new),
    };
    spec.set("serviceAccountName", name.clone());
    spec.set("serviceAccount", name);
}

fn default_container(container: &mut Value) {
    container.make_map();
    if container.str("imagePullPolicy").is_empty() {
        let policy = if image::is_latest(container.str("image")) { "Always" } else { "IfNotPresent" };
        container.set("imagePullPolicy", policy);
    }
    container.set_default("terminationMessagePath", "/dev/termination-log");
    container.set_default("terminationMessagePolicy", "File");
    for port in container.list_mut("ports") {
        port.set_default("protocol", "TCP");
    }
    for variable in container.list_mut("env") {
        if let Some(source) = variable.find_mut("valueFrom") {
            default_field_reference(source);
            if let Some(file) = source.find_mut("fileKeyRef") {
                file.set_if_absent("optional", false);
            }
        }
    }
    if let Some(resources) = container.find_mut("resources") {
        default_resources(resources);
    }
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = container.find_mut(probe) {
            default_probe(probe);
        }
    }
    if let Some(lifecycle) = container.find_mut("lifecycle") {
        for hook in ["postStart", "preStop"] {
            if let Some(hook) = lifecycle.find_mut(hook) {
                default_http_get(hook);
            }
        }
    }
}

/// `fieldRef` of the parent speaks of `v1` where it does not say.
pub(super) fn default_field_reference(parent: &mut Value) {
    if let Some(reference) = parent.find_mut("fieldRef") {
        reference.set_default("apiVersion", "v1");
    }
}

fn default_probe(probe: &mut Value) {
    for (field, number) in
        [("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)]
    {
        probe.set_default(field, number);
    }
    default_http_get(probe);
    if let Some(grpc) = probe.find_mut("grpc") {
        grpc.set_if_absent("service", "");
    }
}

fn default_http_get(handler: &mut Value) {
    if let Some(get) = handler.find_mut("httpGet") {
        get.set_default("path", "/");
        get.set_default("scheme", "HTTP");
    }
}

pub(super) fn default_resources(resources: &mut Value) {
    amounts::round_up_list(resources, "limits");
    amounts::round_up_list(resources, "requests");
}
