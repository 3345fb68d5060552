//! Which metrics there are, under upstream's names.

use rkube_runtime::api::{ContainerState, ContainerStats, ContainerStatus, Interface, SandboxStats};

use super::exposition::Exposition;
use super::sample::Sample;

const NANOS: f64 = 1e9;

/// `/metrics/resource`: what is needed for autoscaling. None: it could not be read.
pub fn resource(sample: Option<&Sample>) -> String {
    let mut out = Exposition::default();
    if let Some(sample) = sample {
        of_containers(&mut out, sample);
        of_node(&mut out, sample);
        of_pods(&mut out, sample);
    }
    let help = "[STABLE] 1 if there was an error while getting container metrics, 0 otherwise";
    let is_broken = if sample.is_none() { 1.0 } else { 0.0 };
    out.family("resource_scrape_error", "gauge", help).value(&[], is_broken, 0);
    out.end()
}

fn of_containers(out: &mut Exposition, sample: &Sample) {
    let help = "[STABLE] Cumulative cpu time consumed by the container in core-seconds";
    let mut family = out.family("container_cpu_usage_seconds_total", "counter", help);
    for (pod, container) in containers(sample) {
        let seconds = container.cpu.usage_core_nanos as f64 / NANOS;
        family.value(&labels(pod, &container.name), seconds, container.at_micros);
    }
    let help = "[STABLE] Current working set of the container in bytes";
    let mut family = out.family("container_memory_working_set_bytes", "gauge", help);
    for (pod, container) in containers(sample) {
        let bytes = container.memory.working_set_bytes as f64;
        family.value(&labels(pod, &container.name), bytes, container.at_micros);
    }
    let help = "[STABLE] Start time of the container since unix epoch in seconds";
    let mut family = out.family("container_start_time_seconds", "gauge", help);
    for (pod, container) in containers(sample).filter(|(_, container)| container.started_micros > 0) {
        family.value(&labels(pod, &container.name), container.started_micros as f64 / 1e6, 0);
    }
}

fn of_node(out: &mut Exposition, sample: &Sample) {
    let (machine, at) = (&sample.machine, sample.at_micros);
    let help = "[STABLE] Cumulative cpu time consumed by the node in core-seconds";
    let seconds = machine.cpu_core_nanos as f64 / NANOS;
    out.family("node_cpu_usage_seconds_total", "counter", help).value(&[], seconds, at);
    let help = "[STABLE] Current working set of the node in bytes";
    let bytes = machine.memory.working_set_bytes as f64;
    out.family("node_memory_working_set_bytes", "gauge", help).value(&[], bytes, at);
    let help = "[ALPHA] Current swap usage of the node in bytes. Reported only on non-windows systems";
    out.family("node_swap_usage_bytes", "gauge", help).value(&[], machine.memory.swap_usage_bytes as f64, at);
}

fn of_pods(out: &mut Exposition, sample: &Sample) {
    let help = "[STABLE] Cumulative cpu time consumed by the pod in core-seconds";
    let mut family = out.family("pod_cpu_usage_seconds_total", "counter", help);
    for pod in &sample.pods {
        let labels = [("namespace", pod.pod_namespace.as_str()), ("pod", pod.pod_name.as_str())];
        family.value(&labels, pod.cpu.usage_core_nanos as f64 / NANOS, pod.at_micros);
    }
    let help = "[STABLE] Current working set of the pod in bytes";
    let mut family = out.family("pod_memory_working_set_bytes", "gauge", help);
    for pod in &sample.pods {
        let labels = [("namespace", pod.pod_namespace.as_str()), ("pod", pod.pod_name.as_str())];
        family.value(&labels, pod.memory.working_set_bytes as f64, pod.at_micros);
    }
}

fn containers(sample: &Sample) -> impl Iterator<Item = (&SandboxStats, &ContainerStats)> {
    sample.pods.iter().flat_map(|pod| pod.containers.iter().map(move |container| (pod, container)))
}

fn labels<'a>(pod: &'a SandboxStats, container: &'a str) -> [(&'a str, &'a str); 3] {
    [("container", container), ("namespace", &pod.pod_namespace), ("pod", &pod.pod_name)]
}

/// A figure of a container or an interface: name, type, help, value.
type Figure<T> = (&'static str, &'static str, &'static str, fn(&T) -> f64);

/// Of what cAdvisor counts, what dashboards ask for.
const OF_CONTAINERS: [Figure<ContainerStats>; 7] = [
    ("container_cpu_usage_seconds_total", "counter", "Cumulative cpu time consumed in seconds.", |it| {
        it.cpu.usage_core_nanos as f64 / NANOS
    }),
    (
        "container_fs_usage_bytes",
        "gauge",
        "Number of bytes that are consumed by the container on this filesystem.",
        |it| it.root.used_bytes as f64,
    ),
    ("container_memory_rss", "gauge", "Size of RSS in bytes.", |it| it.memory.rss_bytes as f64),
    (
        "container_memory_usage_bytes",
        "gauge",
        "Current memory usage in bytes, including all memory regardless of when it was accessed",
        |it| it.memory.usage_bytes as f64,
    ),
    ("container_memory_working_set_bytes", "gauge", "Current working set in bytes.", |it| {
        it.memory.working_set_bytes as f64
    }),
    ("container_spec_memory_limit_bytes", "gauge", "Memory limit for the container.", |it| {
        it.memory.limit_bytes as f64
    }),
    ("container_start_time_seconds", "gauge", "Start time of the container since unix epoch in seconds.", |it| {
        it.started_micros as f64 / 1e6
    }),
];

const OF_INTERFACES: [Figure<Interface>; 4] = [
    ("container_network_receive_bytes_total", "counter", "Cumulative count of bytes received", |it| {
        it.received_bytes as f64
    }),
    (
        "container_network_receive_errors_total",
        "counter",
        "Cumulative count of errors encountered while receiving",
        |it| it.received_errors as f64,
    ),
    ("container_network_transmit_bytes_total", "counter", "Cumulative count of bytes transmitted", |it| {
        it.sent_bytes as f64
    }),
    (
        "container_network_transmit_errors_total",
        "counter",
        "Cumulative count of errors encountered while transmitting",
        |it| it.sent_errors as f64,
    ),
];

/// `/metrics/cadvisor`.
pub fn cadvisor(sample: &Sample) -> String {
    let mut out = Exposition::default();
    for (name, kind, help, value) in OF_CONTAINERS {
        let mut family = out.family(name, kind, help);
        for (pod, container) in containers(sample) {
            let mut labels = vec![("container", container.name.as_str())];
            if name == "container_cpu_usage_seconds_total" {
                labels.push(("cpu", "total"));
            }
            labels.extend([("id", container.id.as_str()), ("namespace", &pod.pod_namespace), ("pod", &pod.pod_name)]);
            family.value(&labels, value(container), container.at_micros);
        }
    }
    for (name, kind, help, value) in OF_INTERFACES {
        let mut family = out.family(name, kind, help);
        for (pod, interface) in sample.pods.iter().flat_map(|pod| pod.interfaces.iter().map(move |it| (pod, it))) {
            let labels = [
                ("id", pod.id.as_str()),
                ("interface", &interface.name),
                ("namespace", &pod.pod_namespace),
                ("pod", &pod.pod_name),
            ];
            family.value(&labels, value(interface), pod.at_micros);
        }
    }
    let machine = &sample.machine;
    out.family("machine_cpu_cores", "gauge", "Number of logical CPU cores.").value(&[], machine.cpus as f64, 0);
    let bytes = machine.memory.total_bytes as f64;
    out.family("machine_memory_bytes", "gauge", "Amount of memory installed on the machine.").value(&[], bytes, 0);
    out.end()
}

/// `/metrics`: of the node itself.
pub fn kubelet(node: &str, pods: usize, containers: &[ContainerStatus]) -> String {
    let mut out = Exposition::default();
    let help = "[ALPHA] The node's name. The count is always 1.";
    out.family("kubelet_node_name", "gauge", help).value(&[("node", node)], 1.0, 0);
    let help = "[ALPHA] Number of containers currently running";
    let mut family = out.family("kubelet_running_containers", "gauge", help);
    let states = [
        ("created", ContainerState::Created),
        ("exited", ContainerState::Exited),
        ("running", ContainerState::Running),
        ("unknown", ContainerState::Unknown),
    ];
    for (name, state) in states {
        let count = containers.iter().filter(|container| container.state == state).count();
        family.value(&[("container_state", name)], count as f64, 0);
    }
    let help = "[ALPHA] Number of pods that have a running pod sandbox";
    out.family("kubelet_running_pods", "gauge", help).value(&[], pods as f64, 0);
    out.end()
}

/// `/metrics/probes`: nothing is counted of them yet.
pub fn probes() -> String {
    String::new()
}
