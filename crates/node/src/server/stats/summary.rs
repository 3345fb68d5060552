//! The form of `/stats/summary`, which is older than any API group.

use rkube_machinery::Map;
use rkube_machinery::{Text, Value, json, object, time};
use rkube_runtime::api::{ContainerStats, FilesystemUsage, Interface, Memory, SandboxStats};

use super::sample::Sample;

/// As upstream writes it. `only_cpu_and_memory`: what somebody who asks often wants.
pub fn summary(sample: &Sample, node: &str, only_cpu_and_memory: bool) -> String {
    let pods: Vec<Value> = sample.pods.iter().map(|pod| pod_stats(sample, pod, only_cpu_and_memory)).collect();
    let summary = object! { "node": node_stats(sample, node, only_cpu_and_memory), "pods": pods };
    json::to_string(&summary)
}

/// Fields in upstream's order; what is not known is left out.
#[derive(Default)]
struct Fields(Vec<(Text, Value)>);

impl Fields {
    fn with(mut self, name: &'static str, value: impl Into<Value>) -> Fields {
        self.0.push((name.into(), value.into()));
        self
    }

    fn with_if(self, is_known: bool, name: &'static str, value: impl FnOnce() -> Value) -> Fields {
        if is_known { self.with(name, value()) } else { self }
    }

    fn amount(self, name: &'static str, amount: u64) -> Fields {
        self.with(name, i64::try_from(amount).unwrap_or(i64::MAX))
    }

    fn end(self) -> Value {
        Map::in_order(self.0).into()
    }
}

fn at(micros: i64) -> Fields {
    Fields::default().with("time", instant(micros))
}

fn instant(micros: i64) -> Value {
    match micros {
        0 => Value::Null,
        micros => time::format_seconds(micros.div_euclid(1_000_000)).into(),
    }
}

fn node_stats(sample: &Sample, node: &str, only_cpu_and_memory: bool) -> Value {
    let (machine, memory) = (&sample.machine, &sample.machine.memory);
    let moment = sample.at_micros;
    let is_all = !only_cpu_and_memory;
    Fields::default()
        .with("nodeName", node)
        .with("startTime", instant(machine.boot_seconds * 1_000_000))
        .with("cpu", cpu(moment, sample.rates.machine, machine.cpu_core_nanos))
        .with("memory", {
            at(moment)
                .amount("availableBytes", memory.total_bytes.saturating_sub(memory.working_set_bytes))
                .amount("usageBytes", memory.usage_bytes)
                .amount("workingSetBytes", memory.working_set_bytes)
                .amount("rssBytes", memory.rss_bytes)
                .amount("pageFaults", memory.page_faults)
                .amount("majorPageFaults", memory.major_page_faults)
                .end()
        })
        .with_if(is_all && !machine.interfaces.is_empty(), "network", || network(moment, &machine.interfaces))
        .with_if(is_all, "fs", || {
            let root = &machine.root;
            at(moment)
                .amount("availableBytes", root.available_bytes)
                .amount("capacityBytes", root.capacity_bytes)
                .amount("usedBytes", root.used_bytes)
                .amount("inodesFree", root.inodes_free)
                .amount("inodes", root.inodes)
                .amount("inodesUsed", root.inodes.saturating_sub(root.inodes_free))
                .end()
        })
        .with_if(is_all, "runtime", || {
            let images = filesystem(
                sample,
                FilesystemUsage { used_bytes: sample.images.used_bytes, used_inodes: sample.images.used_inodes },
            );
            object! { "imageFs": images.clone(), "containerFs": images }
        })
        .with_if(is_all, "rlimit", || {
            at(moment).amount("maxpid", machine.processes_max).amount("curproc", machine.processes).end()
        })
        .with("swap", {
            at(moment)
                .amount("swapAvailableBytes", memory.swap_total_bytes - memory.swap_usage_bytes)
                .amount("swapUsageBytes", memory.swap_usage_bytes)
                .end()
        })
        .end()
}

fn pod_stats(sample: &Sample, pod: &SandboxStats, only_cpu_and_memory: bool) -> Value {
    let began = pod.containers.iter().map(|container| container.started_micros).min().unwrap_or(0);
    let is_all = !only_cpu_and_memory;
    let containers: Vec<Value> =
        pod.containers.iter().map(|container| container_stats(sample, container, is_all)).collect();
    let rate = sample.rates.by_id.get(&pod.id).copied().unwrap_or(0);
    let reference = object! {
        "name": pod.pod_name.as_str(), "namespace": pod.pod_namespace.as_str(), "uid": pod.pod_uid.as_str(),
    };
    Fields::default()
        .with("podRef", reference)
        .with("startTime", instant(began))
        .with("containers", containers)
        .with("cpu", cpu(pod.at_micros, rate, pod.cpu.usage_core_nanos))
        .with("memory", memory(pod.at_micros, &pod.memory))
        .with_if(is_all && !pod.interfaces.is_empty(), "network", || network(pod.at_micros, &pod.interfaces))
        .with_if(is_all, "ephemeral-storage", || {
            let mut used = FilesystemUsage::default();
            for part in pod.containers.iter().flat_map(|container| [container.root, container.logs]) {
                used.used_bytes += part.used_bytes;
                used.used_inodes += part.used_inodes;
            }
            filesystem(sample, used)
        })
        .with_if(is_all, "process_stats", || Fields::default().amount("process_count", pod.processes).end())
        .end()
}

fn container_stats(sample: &Sample, container: &ContainerStats, is_all: bool) -> Value {
    let rate = sample.rates.by_id.get(&container.id).copied().unwrap_or(0);
    Fields::default()
        .with("name", container.name.as_str())
        .with("startTime", instant(container.started_micros))
        .with("cpu", cpu(container.at_micros, rate, container.cpu.usage_core_nanos))
        .with("memory", memory(container.at_micros, &container.memory))
        .with_if(is_all, "rootfs", || filesystem(sample, container.root))
        .with_if(is_all, "logs", || filesystem(sample, container.logs))
        .end()
}

fn cpu(moment: i64, rate: u64, total: u64) -> Value {
    at(moment).amount("usageNanoCores", rate).amount("usageCoreNanoSeconds", total).end()
}

fn memory(moment: i64, memory: &Memory) -> Value {
    let fields = at(moment);
    let fields = match memory.limit_bytes {
        0 => fields,
        limit => fields.amount("availableBytes", limit.saturating_sub(memory.working_set_bytes)),
    };
    fields
        .amount("usageBytes", memory.usage_bytes)
        .amount("workingSetBytes", memory.working_set_bytes)
        .amount("rssBytes", memory.rss_bytes)
        .amount("pageFaults", memory.page_faults)
        .amount("majorPageFaults", memory.major_page_faults)
        .end()
}

/// The first one is the pod's own.
fn network(moment: i64, interfaces: &[Interface]) -> Value {
    let of = |fields: Fields, interface: &Interface| {
        fields
            .with("name", interface.name.as_str())
            .amount("rxBytes", interface.received_bytes)
            .amount("rxErrors", interface.received_errors)
            .amount("txBytes", interface.sent_bytes)
            .amount("txErrors", interface.sent_errors)
    };
    let all: Vec<Value> = interfaces.iter().map(|interface| of(Fields::default(), interface).end()).collect();
    let mut fields = at(moment);
    if let Some(first) = interfaces.first() {
        fields = of(fields, first);
    }
    fields.with("interfaces", all).end()
}

/// What somebody uses of where images and containers are.
fn filesystem(sample: &Sample, used: FilesystemUsage) -> Value {
    let (images, root) = (&sample.images, &sample.machine.root);
    at(sample.at_micros)
        .amount("availableBytes", images.available_bytes)
        .amount("capacityBytes", images.capacity_bytes)
        .amount("usedBytes", used.used_bytes)
        .amount("inodesFree", root.inodes_free)
        .amount("inodes", root.inodes)
        .amount("inodesUsed", used.used_inodes)
        .end()
}
