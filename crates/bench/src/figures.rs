//! What is measured, what kube-apiserver 1.36.4 with etcd 3.6 did on a machine of two cores, and what we want to reach.

/// A kind of work, as a row of the table.
pub struct Work {
    pub name: &'static str,
    pub unit: Unit,
    /// kube-apiserver's figure, in the same unit.
    pub peer: Option<f64>,
    pub reach: &'static str,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    PerSecond,
    MegabytesPerSecond,
    EventsPerSecond,
    Milliseconds,
    Microseconds,
    Megabytes,
    Kilobytes,
    /// Of one core.
    Percent,
}

impl Unit {
    pub fn show(self, value: f64) -> String {
        match self {
            Unit::PerSecond if value < 100.0 => format!("{value:.1}/s"),
            Unit::PerSecond => format!("{}/s", grouped(value)),
            Unit::MegabytesPerSecond => format!("{} MB/s", grouped(value)),
            Unit::EventsPerSecond => format!("{} events/s", grouped(value)),
            Unit::Milliseconds => format!("{} ms", grouped(value)),
            Unit::Microseconds => format!("{value:.1} µs"),
            Unit::Megabytes => format!("{value:.1} MB"),
            Unit::Kilobytes => format!("{value:.1} kB"),
            Unit::Percent => format!("{value:.1}%"),
        }
    }

    pub fn more_is_better(self) -> bool {
        matches!(self, Unit::PerSecond | Unit::MegabytesPerSecond | Unit::EventsPerSecond)
    }
}

const fn rate(name: &'static str, peer: Option<f64>, reach: &'static str) -> Work {
    Work { name, unit: Unit::PerSecond, peer, reach }
}

/// The peer of these is containerd 1.6 by its own interface: sandbox, create, start, without an API server.
pub const POD_RUNNING: Work = Work {
    name: "a pod from its create to Running, p50",
    unit: Unit::Milliseconds,
    peer: Some(133.0),
    reach: "at most 60 ms",
};
pub const POD_GONE: Work =
    Work { name: "a pod from its delete to gone, p50", unit: Unit::Milliseconds, peer: None, reach: "at most 60 ms" };
pub const PODS_AT_ONCE: Work =
    Work { name: "100 pods at once, all Ready", unit: Unit::Milliseconds, peer: None, reach: "at most 4,000 ms" };
pub const EXEC: Work =
    Work { name: "exec to its first byte, p50", unit: Unit::Milliseconds, peer: None, reach: "at most 30 ms" };
pub const POD_OVERHEAD: Work =
    Work { name: "memory of a running pod beside its own", unit: Unit::Megabytes, peer: None, reach: "at most 3 MB" };
pub const IDLE_NODE: Work =
    Work { name: "an idle node with 50 pods", unit: Unit::Percent, peer: None, reach: "at most 1%" };
pub const NODE_READY: Work =
    Work { name: "start to ready with a node", unit: Unit::Milliseconds, peer: None, reach: "at most 150 ms" };
pub const IMAGE_LOAD: Work = Work {
    name: "load an image of 500 MB in 10 layers",
    unit: Unit::MegabytesPerSecond,
    peer: None,
    reach: "the disk's speed",
};

pub const START: Work = Work {
    name: "start to ready, new directory",
    unit: Unit::Milliseconds,
    peer: Some(2_700.0),
    reach: "at most 100 ms",
};
pub const IDLE: Work =
    Work { name: "resident memory, idle", unit: Unit::Megabytes, peer: Some(481.0), reach: "at most 40 MB" };
/// kube-apiserver's figure is the one after 10,000 objects.
pub const FILLED: Work = Work {
    name: "resident memory, filled",
    unit: Unit::Megabytes,
    peer: Some(1_117.0),
    reach: "at most 400 MB with 100,000 objects",
};
pub const BINARY: Work = Work { name: "size of the binary", unit: Unit::Megabytes, peer: None, reach: "" };
pub const DISK: Work = rate("the disk: append 1 kB, fdatasync", None, "");

pub const CREATE_ONE: Work = rate("create ConfigMap, 1 in flight", Some(433.0), "");
pub const CREATE: Work = rate("create ConfigMap, 64 in flight", Some(1_197.0), "35% of the limit, 10 times the peer");
pub const PATCH: Work = rate("merge-patch ConfigMap, 64 in flight", Some(1_092.0), "");
pub const GET: Work = rate("get ConfigMap, 64 in flight", Some(4_287.0), "60% of the limit");
pub const CREATE_POD: Work = rate("create Pod, 64 in flight", Some(795.0), "30% of the limit");
pub const LIST: Work = Work {
    name: "list 5,000 pods, 2 in flight",
    unit: Unit::MegabytesPerSecond,
    peer: Some(110.0),
    reach: "60% of the limit",
};
pub const LIST_PROTOBUF: Work = rate("the same as protobuf", Some(13.2), "");
pub const LIST_PAGE: Work = rate("list with limit=100, 8 in flight", Some(315.0), "");
pub const WATCH: Work = Work {
    name: "500 watchers, 400 creates of 1 kB",
    unit: Unit::EventsPerSecond,
    peer: Some(175_000.0),
    reach: "500,000 events/s and 50% of the limit",
};
pub const WATCH_SMALL: Work = Work { name: "500 watchers, 400 creates of small ConfigMaps", ..WATCH };
pub const CREATE_HTTP2: Work = rate("create ConfigMap, 64 in flight, HTTP/2", None, "");
pub const GET_HTTP2: Work = rate("get ConfigMap, 64 in flight, HTTP/2", None, "");
pub const CREATE_ETCD: Work = rate("create ConfigMap, 64 in flight, etcd", Some(1_197.0), "");
pub const GET_ETCD: Work = rate("get ConfigMap, 64 in flight, etcd", Some(4_287.0), "");

/// What is asked of a server with the limit beside it.
pub const REQUESTS: &[&Work] = &[
    &CREATE_ONE,
    &CREATE,
    &CREATE_HTTP2,
    &PATCH,
    &GET,
    &GET_HTTP2,
    &LIST,
    &LIST_PROTOBUF,
    &LIST_PAGE,
    &WATCH,
    &WATCH_SMALL,
    &CREATE_POD,
];

/// Beside the same request of a member of `system:masters`.
pub const ROLES: Work = Work {
    name: "get ConfigMap, what 1,000 roles and bindings add",
    unit: Unit::Microseconds,
    peer: None,
    reach: "at most 15 µs of CPU",
};

/// Beside the same request in a namespace without a quota.
pub const QUOTA: Work = Work {
    name: "create Pod (dry run), what a quota of seven resources adds",
    unit: Unit::Microseconds,
    peer: None,
    reach: "at most 10 µs of CPU",
};

/// For custom resources the limit is what a ConfigMap of that size does on the same server.
pub const CREATE_CUSTOM: Work =
    rate("create custom resource, 30 fields, 2 rules, 64 in flight", None, "70% of a ConfigMap; the peer: 56%");
pub const GET_CUSTOM: Work = rate("get custom resource, 64 in flight", None, "as a ConfigMap");
pub const LIST_CUSTOM: Work = Work {
    name: "list 2,000 custom resources, 2 in flight",
    unit: Unit::MegabytesPerSecond,
    peer: None,
    reach: "as ConfigMaps",
};
pub const WATCH_CUSTOM: Work = Work {
    name: "500 watchers, 400 creates of custom resources",
    unit: Unit::EventsPerSecond,
    peer: None,
    reach: "as ConfigMaps",
};
pub const VALIDATE_CUSTOM: Work =
    Work { name: "validate custom resource", unit: Unit::Microseconds, peer: None, reach: "at most 100 µs" };
pub const USABLE_CUSTOM: Work = Work {
    name: "definition to its first custom resource",
    unit: Unit::Milliseconds,
    peer: Some(2_100.0),
    reach: "at most 20 ms",
};
pub const MANY_DEFINITIONS: Work =
    Work { name: "1,000 definitions established", unit: Unit::Milliseconds, peer: None, reach: "at most 5,000 ms" };
pub const DEFINITION_MEMORY: Work = Work {
    name: "resident memory, a definition of 100 fields",
    unit: Unit::Kilobytes,
    peer: Some(2_100.0),
    reach: "at most 100 kB beside its JSON",
};
pub const CREATE_BESIDE_MANY: Work = rate("create ConfigMap, 64 in flight, 1,000 definitions", None, "as without them");

pub const DEPENDENTS: Work = Work {
    name: "10,000 dependents of one owner collected",
    unit: Unit::Milliseconds,
    peer: None,
    reach: "at most 3,000 ms; the peer: 3,000 of them in 6,500 ms",
};
pub const NAMESPACE: Work = Work {
    name: "a namespace of 2,000 objects gone",
    unit: Unit::Milliseconds,
    peer: Some(11_000.0),
    reach: "at most 1,000 ms",
};
/// For a webhook the limit is the same question over a kept connection, without a server in between.
pub const WEBHOOK: Work = Work {
    name: "what a webhook on loopback adds to a create",
    unit: Unit::Microseconds,
    peer: None,
    reach: "at most 2 bare round trips",
};
pub const CREATE_BESIDE_WEBHOOKS: Work =
    rate("create ConfigMap, 64 in flight, 100 webhooks for others", None, "as without them");

/// What the peer did is in the text where it was measured with other numbers: its controller manager, with the limits of
/// its client lifted, makes the pods of a Deployment, and nothing runs them.
pub const DEPLOYMENT: Work = Work {
    name: "Deployment of 5,000 on 100 nodes Available",
    unit: Unit::Milliseconds,
    peer: None,
    reach: "at most 5,000 ms; the peer: 1,000 made in 2,400 ms",
};
pub const DEPLOYMENT_GONE: Work = Work {
    name: "the same gone, after the grace",
    unit: Unit::Milliseconds,
    peer: None,
    reach: "at most 3,000 ms; the peer: 1,000 in 5,800 ms",
};
pub const POD_MEMORY: Work = Work {
    name: "resident memory, a pod beyond the API server",
    unit: Unit::Kilobytes,
    peer: None,
    reach: "at most 8 kB",
};
/// kube-scheduler's figure is for 3,000 of them.
pub const SCHEDULE: Work = rate("schedule 10,000 pods on 1,000 nodes", Some(312.0), "at least 5,000/s");
pub const IDLE_CLUSTER: Work = Work {
    name: "a core for 1,000 idle Deployments, 1,000 nodes",
    unit: Unit::Percent,
    peer: None,
    reach: "at most 5%",
};
pub const RECONCILE: Work =
    Work { name: "reconcile an unchanged Deployment", unit: Unit::Microseconds, peer: None, reach: "at most 30 µs" };
/// For what follows the limit is what we want to reach.
pub const JOB: Work = Work {
    name: "Job of 10,000 completions, 500 at a time, on 100 nodes",
    unit: Unit::Milliseconds,
    peer: None,
    reach: "at most 30,000 ms",
};
pub const STATEFUL_SET: Work = Work {
    name: "StatefulSet of 1,000, parallel, Ready",
    unit: Unit::Milliseconds,
    peer: None,
    reach: "at most 5,000 ms",
};
pub const LOST_NODE: Work = Work {
    name: "500 pods of a lost node running elsewhere",
    unit: Unit::Milliseconds,
    peer: None,
    reach: "at most 3,000 ms after the toleration",
};
pub const IDLE_CONTROLLERS: Work = Work {
    name: "resident memory, all controllers idle",
    unit: Unit::Megabytes,
    peer: None,
    reach: "at most 10 MB, no measurable CPU",
};
pub const RECONCILES: Work = Work {
    name: "reconcile an unchanged object, the slowest kind",
    unit: Unit::Microseconds,
    peer: None,
    reach: "at most 50 µs",
};
pub const WEEK: Work = Work {
    name: "a virtual week of 1,000 CronJobs, every six hours",
    unit: Unit::Milliseconds,
    peer: None,
    reach: "at most 30,000 ms",
};
pub const WEEK_OF_FAULTS: Work = Work {
    name: "the same with faults of all kinds",
    unit: Unit::Milliseconds,
    peer: None,
    reach: "at most 120,000 ms",
};
pub const TEST_CLUSTER: Work =
    Work { name: "a cluster in a test", unit: Unit::Milliseconds, peer: Some(3_400.0), reach: "at most 50 ms" };
pub const TEST_CLUSTERS: Work =
    Work { name: "100 of them at once in a process", unit: Unit::Milliseconds, peer: None, reach: "" };

/// `12345.6` as `12,346`.
fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_readable() {
        let table = [
            (Unit::PerSecond, 7.23, "7.2/s"),
            (Unit::PerSecond, 433.0, "433/s"),
            (Unit::PerSecond, 34_500.4, "34,500/s"),
            (Unit::EventsPerSecond, 1_234_567.0, "1,234,567 events/s"),
            (Unit::Milliseconds, 99.6, "100 ms"),
            (Unit::Megabytes, 29.96, "30.0 MB"),
            (Unit::Microseconds, 31.27, "31.3 µs"),
            (Unit::Kilobytes, 55.0, "55.0 kB"),
        ];
        for (unit, value, expected) in table {
            assert_eq!(unit.show(value), expected);
        }
    }
}
