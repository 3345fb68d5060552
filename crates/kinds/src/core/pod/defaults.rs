//! What a pod gets where its author says nothing, beyond what templates get.

use rkube_machinery::{Value, object};

use super::super::pod_spec::{self, amounts, pod_resources};

pub(super) fn default_pod(pod: &mut Value) {
    pod_spec::drop_init_annotations(pod);
    let spec = pod.object_mut("spec");
    pod_spec::default_pod_spec(spec);
    if spec.int("terminationGracePeriodSeconds") < 0 {
        spec.set("terminationGracePeriodSeconds", 1);
    }
    for list in ["containers", "initContainers"] {
        for container in spec.list_mut(list) {
            default_requests(container);
        }
    }
    pod_resources::default_pod_resources(spec);
    spec.set_if_absent("enableServiceLinks", true);
    if spec.bool("hostNetwork") {
        for list in ["containers", "initContainers"] {
            for container in spec.list_mut(list) {
                default_host_ports(container);
            }
        }
    }
    if let Some(status) = pod.find_mut("status") {
        default_status(status);
    }
}

/// A container asks for what it is limited to, where it does not say.
fn default_requests(container: &mut Value) {
    let Some(resources) = container.find_mut("resources") else { return };
    let missing = |resources: &Value| {
        let requests = resources.map("requests");
        resources.map("limits").keys().any(|name| !requests.contains(name))
    };
    if !missing(resources) && (!resources.has("limits") || resources.has("requests")) {
        return;
    }
    let limits = resources.map("limits").clone();
    let requests = resources.object_mut("requests");
    for (name, amount) in limits.iter() {
        if !requests.has(name) {
            requests.set(name, amount.clone());
        }
    }
}

fn default_host_ports(container: &mut Value) {
    for port in container.list_mut("ports") {
        if port.int("hostPort") == 0 && port.int("containerPort") != 0 {
            let number = port.int("containerPort");
            port.set("hostPort", number);
        }
    }
}

fn default_status(status: &mut Value) {
    sync_addresses(status);
    for list in pod_spec::disabled::STATUS_LISTS {
        for container in status.list_mut(list) {
            amounts::round_up_list(container, "allocatedResources");
            if let Some(resources) = container.find_mut("resources") {
                amounts::round_up_list(resources, "limits");
                amounts::round_up_list(resources, "requests");
            }
        }
    }
}

/// `podIP` is the first of `podIPs`; an old node that writes only the former counts.
fn sync_addresses(status: &mut Value) {
    let (single, first) = (status.str("podIP"), status.list("podIPs").first().map_or("", |entry| entry.str("ip")));
    if single == first {
        return;
    }
    if single.is_empty() {
        let first = first.to_owned();
        status.set("podIP", first);
    } else {
        let single = single.to_owned();
        status.set("podIPs", vec![object! { "ip": single }]);
    }
}
