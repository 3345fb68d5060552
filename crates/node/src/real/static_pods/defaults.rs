//! What the API server would add to a pod, of that which a node looks at.

use rkube_machinery::{Value, object};

pub fn set(spec: &mut Value) {
    default(spec, "restartPolicy", "Always");
    default(spec, "dnsPolicy", "ClusterFirst");
    default(spec, "schedulerName", "default-scheduler");
    default(spec, "terminationGracePeriodSeconds", 30);
    default(spec, "enableServiceLinks", true);
    default(spec, "securityContext", Value::object());
    let host_network = spec.bool("hostNetwork");
    for list in ["initContainers", "containers"] {
        spec.list_mut(list).iter_mut().for_each(|container| set_container(container, host_network));
    }
    spec.list_mut("volumes").iter_mut().for_each(set_volume);
}

fn default(value: &mut Value, field: &str, to: impl Into<Value>) {
    if !value.has(field) {
        value.set(field, to);
    }
}

fn set_container(container: &mut Value, host_network: bool) {
    let image = container.str("image");
    let tag = image.rsplit('/').next().and_then(|name| name.split_once([':', '@'])).map_or("latest", |(_, tag)| tag);
    let policy = if tag == "latest" { "Always" } else { "IfNotPresent" };
    default(container, "imagePullPolicy", policy);
    default(container, "terminationMessagePath", "/dev/termination-log");
    default(container, "terminationMessagePolicy", "File");
    for port in container.list_mut("ports") {
        default(port, "protocol", "TCP");
        if host_network {
            let number = port.int("containerPort");
            default(port, "hostPort", number);
        }
    }
    if let Some(resources) = container.find_mut("resources") {
        let limits = resources.get("limits").clone();
        for (name, amount) in limits.as_map().iter() {
            default(resources.object_mut("requests"), name, amount.clone());
        }
    }
    for name in ["startupProbe", "livenessProbe", "readinessProbe"] {
        let Some(probe) = container.find_mut(name) else { continue };
        for (field, number) in
            [("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)]
        {
            if probe.int(field) == 0 {
                probe.set(field, number);
            }
        }
        if let Some(get) = probe.find_mut("httpGet") {
            default(get, "path", "/");
            default(get, "scheme", "HTTP");
        }
    }
    for variable in container.list_mut("env") {
        if let Some(field) = variable.find_mut("valueFrom").and_then(|from| from.find_mut("fieldRef")) {
            default(field, "apiVersion", "v1");
        }
    }
}

fn set_volume(volume: &mut Value) {
    const MODE: i64 = 0o644;
    for kind in ["configMap", "secret", "downwardAPI", "projected"] {
        if let Some(source) = volume.find_mut(kind) {
            default(source, "defaultMode", MODE);
        }
    }
    if let Some(source) = volume.find_mut("hostPath") {
        default(source, "type", "");
    }
    // A volume of no kind is an empty directory.
    if volume.as_map().len() == 1 {
        volume.set("emptyDir", object! {});
    }
}
