//! What containers and pods may use, as the kernel is told.

use std::collections::BTreeMap;
use std::path::Path;

use rkube_machinery::quantity::Quantity;
use rkube_machinery::{Value, object};
use rkube_runtime::api::Resources;

use super::fields::quantity;
use crate::pod::spec::Role;
use crate::resources as sums;

const SHARES_MIN: i64 = 2;
const SHARES_MAX: i64 = 262_144;
const SHARES_PER_CPU: i64 = 1024;
const PERIOD_MICROS: i64 = 100_000;
const QUOTA_MIN_MICROS: i64 = 1000;

const OOM_GUARANTEED: i64 = -997;
const OOM_BEST_EFFORT: i64 = 1000;
const NODE_CRITICAL: i64 = 2_000_001_000;

/// What is to be known of the machine.
#[derive(Clone, Debug, Default)]
pub struct Machine {
    pub memory_capacity_bytes: u64,
    /// As `2MB`.
    pub huge_page_sizes: Vec<String>,
}

impl Machine {
    /// With the sizes of pages that the kernel says that it has; `directory` is `/sys/kernel/mm/hugepages`.
    pub fn read(memory_capacity_bytes: u64, directory: &Path) -> Machine {
        let names = std::fs::read_dir(directory).into_iter().flatten().flatten();
        let sizes = names.filter_map(|entry| {
            let name = entry.file_name();
            let kilobytes: u64 = name.to_str()?.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
            page_size(kilobytes << 10)
        });
        Machine { memory_capacity_bytes, huge_page_sizes: sizes.collect() }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QosClass {
    Guaranteed,
    Burstable,
    BestEffort,
}

pub fn qos_class(pod: &Value) -> QosClass {
    match pod.get("status").str("qosClass") {
        "Guaranteed" => QosClass::Guaranteed,
        "Burstable" => QosClass::Burstable,
        "BestEffort" => QosClass::BestEffort,
        // Static pods come without.
        _ => compute_qos_class(pod),
    }
}

fn compute_qos_class(pod: &Value) -> QosClass {
    const COMPUTE: [&str; 2] = ["cpu", "memory"];
    let spec = pod.get("spec");
    let lists: Vec<&Value> = if spec.has("resources") {
        vec![spec.get("resources")]
    } else {
        let containers = spec.list("containers").iter().chain(spec.list("initContainers"));
        containers.map(|container| container.get("resources")).collect()
    };
    let amount = |list: &Value, name: &str| quantity(list.get(name));
    let is_given = |resources: &&Value| {
        COMPUTE.iter().any(|name| {
            !amount(resources.get("requests"), name).is_zero() || !amount(resources.get("limits"), name).is_zero()
        })
    };
    if !lists.iter().any(is_given) {
        return QosClass::BestEffort;
    }
    let is_fixed = |resources: &&Value| {
        COMPUTE.iter().all(|name| {
            let limit = amount(resources.get("limits"), name);
            !limit.is_zero() && amount(resources.get("requests"), name) == limit
        })
    };
    if lists.iter().all(is_fixed) { QosClass::Guaranteed } else { QosClass::Burstable }
}

/// Below where all pods are.
pub fn cgroup_parent(pod: &Value) -> String {
    let uid = pod.get("metadata").str("uid");
    match qos_class(pod) {
        QosClass::Guaranteed => format!("pod{uid}"),
        QosClass::Burstable => format!("burstable/pod{uid}"),
        QosClass::BestEffort => format!("besteffort/pod{uid}"),
    }
}

/// Of a container.
pub fn of_container(pod: &Value, container: &Value, role: Role, machine: &Machine) -> Resources {
    let own = container.get("resources");
    let of_pod = pod.get("spec").get("resources");
    let limit = |name: &str| {
        let limit = quantity(own.get("limits").get(name));
        if limit.is_zero() { quantity(of_pod.get("limits").get(name)) } else { limit }
    };
    let request = own.get("requests").get("cpu");
    let cpu_limit = limit("cpu");
    let cpu_request = if request.is_null() { cpu_limit.clone() } else { quantity(request) };
    Resources {
        oom_score_adjust: oom_score(pod, container, role, machine.memory_capacity_bytes) as i32,
        huge_pages: huge_pages(of_pod, own, machine),
        ..of_amounts(&cpu_request, &cpu_limit, &limit("memory"))
    }
}

/// Of all containers of a pod together: its cgroup. No limit where one of them has none.
pub fn of_pod(pod: &Value) -> Resources {
    let requests = sums::of_pod(pod, "requests");
    let limits = sums::of_pod(pod, "limits");
    let amount = |amounts: &sums::Amounts, name: &str| amounts.get(name).cloned().unwrap_or(Quantity::ZERO);
    let all_limited = |name: &str| is_limited(pod, name);
    let (cpu, memory) = (amount(&requests, "cpu"), amount(&limits, "memory"));
    let cpu_limit = if all_limited("cpu") { amount(&limits, "cpu") } else { Quantity::ZERO };
    let memory = if all_limited("memory") { memory } else { Quantity::ZERO };
    match qos_class(pod) {
        QosClass::BestEffort => Resources { cpu_shares: Some(SHARES_MIN as u64), ..Resources::default() },
        _ => Resources {
            huge_pages: huge_pages_of(limits.iter().map(|(name, amount)| (name.as_str(), amount.clone()))),
            ..of_amounts(&cpu, &cpu_limit, &memory)
        },
    }
}

/// Whether the pod itself or each of its containers has such a limit.
fn is_limited(pod: &Value, name: &str) -> bool {
    let spec = pod.get("spec");
    let has = |resources: &Value| !quantity(resources.get("limits").get(name)).is_zero();
    has(spec.get("resources"))
        || spec
            .list("containers")
            .iter()
            .chain(spec.list("initContainers"))
            .all(|container| has(container.get("resources")))
}

fn of_amounts(cpu_request: &Quantity, cpu_limit: &Quantity, memory_limit: &Quantity) -> Resources {
    Resources {
        cpu_shares: Some(shares(cpu_request.milli_value()) as u64),
        cpu_quota_micros: quota(cpu_limit.milli_value()),
        cpu_period_micros: Some(PERIOD_MICROS as u64),
        memory_limit_bytes: u64::try_from(memory_limit.value()).ok().filter(|bytes| *bytes > 0),
        ..Resources::default()
    }
}

fn shares(milli: i64) -> i64 {
    (milli.saturating_mul(SHARES_PER_CPU) / 1000).clamp(SHARES_MIN, SHARES_MAX)
}

fn quota(milli: i64) -> Option<i64> {
    (milli > 0).then(|| (milli.saturating_mul(PERIOD_MICROS) / 1000).max(QUOTA_MIN_MICROS))
}

/// None of those sizes that nobody asks for.
fn huge_pages(of_pod: &Value, own: &Value, machine: &Machine) -> BTreeMap<String, u64> {
    let listed = |resources: &Value| {
        let entries = resources.map("limits").iter().map(|(name, amount)| (name.to_string(), quantity(amount)));
        entries.collect::<Vec<_>>()
    };
    let all = [listed(of_pod), listed(own)].concat();
    let mut limits: BTreeMap<String, u64> = machine.huge_page_sizes.iter().map(|size| (size.clone(), 0)).collect();
    limits.extend(huge_pages_of(all.iter().map(|(name, amount)| (name.as_str(), amount.clone()))));
    limits
}

/// Later ones count.
fn huge_pages_of<'a>(limits: impl Iterator<Item = (&'a str, Quantity)>) -> BTreeMap<String, u64> {
    let sizes = limits.filter_map(|(name, amount)| {
        let size = Quantity::parse(name.strip_prefix("hugepages-")?).ok()?;
        Some((page_size(u64::try_from(size.value()).ok()?)?, u64::try_from(amount.value()).ok()?))
    });
    sizes.collect()
}

/// As the kernel names it: `2MB`, `1GB`.
fn page_size(bytes: u64) -> Option<String> {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB")];
    let (unit, name) = UNITS.iter().find(|(unit, _)| bytes >= *unit && bytes.is_multiple_of(*unit))?;
    Some(format!("{}{name}", bytes / unit))
}

/// How ready the kernel is to end its processes when memory runs out, from -1000 (never) to 1000.
fn oom_score(pod: &Value, container: &Value, role: Role, memory_capacity_bytes: u64) -> i64 {
    let spec = pod.get("spec");
    if spec.int("priority") >= NODE_CRITICAL {
        return OOM_GUARANTEED;
    }
    match qos_class(pod) {
        QosClass::Guaranteed => return OOM_GUARANTEED,
        QosClass::BestEffort => return OOM_BEST_EFFORT,
        QosClass::Burstable => {}
    }
    let capacity = i64::try_from(memory_capacity_bytes).unwrap_or(i64::MAX).max(1);
    let request = |container: &Value| quantity(container.get("resources").get("requests").get("memory")).value();
    let spare = spare_memory(pod);
    let score = |bytes: i64| 1000 - bytes.saturating_mul(1000) / capacity;
    let mut adjusted = score(request(container).saturating_add(spare));
    if role == Role::Sidecar {
        // It is not to be ended before the smallest of those that it serves.
        let least = spec.list("containers").iter().map(request).min().unwrap_or(0);
        adjusted = adjusted.min(score(least.saturating_add(spare)));
    }
    match adjusted {
        adjusted if adjusted < 1000 + OOM_GUARANTEED => 1000 + OOM_GUARANTEED,
        OOM_BEST_EFFORT => OOM_BEST_EFFORT - 1,
        adjusted => adjusted,
    }
}

/// What a pod asks for beyond what its containers do, for each of them.
fn spare_memory(pod: &Value) -> i64 {
    let spec = pod.get("spec");
    let of_pod = quantity(spec.get("resources").get("requests").get("memory")).value();
    if of_pod == 0 {
        return 0;
    }
    let (main, init) = (spec.get("containers"), spec.get("initContainers"));
    let of_containers = object! { "spec": object! { "containers": main.clone(), "initContainers": init.clone() } };
    let taken = sums::of_pod(&of_containers, "requests").get("memory").map_or(0, Quantity::value);
    let count = main.items().len() + init.items().len();
    (of_pod - taken) / (count as i64).max(1)
}

#[cfg(test)]
mod tests {
    use rkube_machinery::json;

    use super::*;

    const GIB: u64 = 1 << 30;

    fn pod(spec: &str) -> Value {
        json::parse(format!(r#"{{"metadata":{{"uid":"u"}},"spec":{spec}}}"#).as_bytes()).unwrap()
    }

    fn machine() -> Machine {
        Machine { memory_capacity_bytes: 4 * GIB, huge_page_sizes: vec!["2MB".to_owned()] }
    }

    #[test]
    fn amounts_become_what_the_kernel_takes() {
        let table = [
            (0, 2, None),
            (1, 2, Some(1000)),
            (10, 10, Some(1000)),
            (250, 256, Some(25_000)),
            (1500, 1536, Some(150_000)),
            (i64::MAX, SHARES_MAX, Some(i64::MAX / 1000)),
        ];
        for (milli, expected_shares, expected_quota) in table {
            assert_eq!((shares(milli), quota(milli)), (expected_shares, expected_quota), "{milli}");
        }
        assert_eq!(page_size(2 << 20).as_deref(), Some("2MB"));
        assert_eq!(page_size(1 << 30).as_deref(), Some("1GB"));
        assert_eq!(page_size(64 << 10).as_deref(), Some("64KB"));
    }

    #[test]
    fn classes_decide_where_a_pod_is_and_who_goes_first() {
        let guaranteed = r#"{"requests":{"cpu":"1","memory":"1Gi"},"limits":{"cpu":"1","memory":"1Gi"}}"#;
        let table = [
            (guaranteed, "podu", -997),
            (r#"{}"#, "besteffort/podu", 1000),
            (r#"{"requests":{"cpu":"1"}}"#, "burstable/podu", 999),
            (r#"{"requests":{"memory":"1Gi"}}"#, "burstable/podu", 750),
            (r#"{"requests":{"memory":"4Gi"}}"#, "burstable/podu", 3),
        ];
        for (resources, parent, score) in table {
            let pod = pod(&format!(r#"{{"containers":[{{"name":"c","resources":{resources}}}]}}"#));
            let container = &pod.get("spec").list("containers")[0];
            assert_eq!(cgroup_parent(&pod), parent, "{resources}");
            let found = of_container(&pod, container, Role::Main, &machine());
            assert_eq!(i64::from(found.oom_score_adjust), score, "{resources}");
            assert_eq!(found.huge_pages, BTreeMap::from([("2MB".to_owned(), 0)]));
        }
        let critical = pod(r#"{"priority":2000001000,"containers":[{"name":"c"}]}"#);
        let container = &critical.get("spec").list("containers")[0];
        assert_eq!(of_container(&critical, container, Role::Main, &machine()).oom_score_adjust, -997);
    }

    #[test]
    fn limits_of_a_pod_count_where_containers_have_none() {
        let pod = pod(r#"{"resources":{"limits":{"cpu":"2","memory":"1Gi"},"requests":{"cpu":"1","memory":"1Gi"}},
                "containers":[{"name":"a","resources":{"limits":{"cpu":"500m"}}},{"name":"b"}]}"#);
        let containers = pod.get("spec").list("containers");
        let of = |index: usize| of_container(&pod, &containers[index], Role::Main, &machine());
        assert_eq!((of(0).cpu_quota_micros, of(0).memory_limit_bytes), (Some(50_000), Some(GIB)));
        assert_eq!((of(1).cpu_quota_micros, of(1).cpu_shares), (Some(200_000), Some(2048)));
        assert_eq!(of_pod(&pod).memory_limit_bytes, Some(GIB));
        assert_eq!(of_pod(&pod).cpu_shares, Some(1024));
        // Half of what the pod asks for is each container's.
        assert_eq!(of(0).oom_score_adjust, 875);
    }

    #[test]
    fn a_pod_is_limited_where_all_containers_are() {
        let all = pod(
            r#"{"containers":[{"resources":{"limits":{"memory":"1Gi"}}},{"resources":{"limits":{"memory":"1Gi"}}}]}"#,
        );
        assert_eq!(of_pod(&all).memory_limit_bytes, Some(2 * GIB));
        let one = pod(r#"{"containers":[{"resources":{"limits":{"memory":"1Gi"}}},{}]}"#);
        assert_eq!(of_pod(&one).memory_limit_bytes, None);
    }
}
