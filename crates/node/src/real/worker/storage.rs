//! A pod that uses more of the disk than it may is evicted.

use std::time::Duration;

use rkube_machinery::{Text, Value};

use super::super::kubelet::Kubelet;
use super::super::prepare::limits_storage;
use super::super::prepare_api::Problem;
use super::{Done, Origin, Worker};
use crate::pod::backoff::micros;
use crate::pod::spec;
use crate::pod::state::Verdict;

/// As often as upstream looks.
const MEASURE_PERIOD: Duration = Duration::from_secs(10);
pub(super) const EVICTED: &str = "Evicted";
/// Pods from this priority on are never evicted.
const SYSTEM_CRITICAL: i64 = 2_000_000_000;

impl Worker {
    /// Looks at it from time to time; costs nothing for pods without a limit.
    pub(super) fn measure(&mut self, now: i64) {
        let is_kept = self.origin == Origin::File || self.pod.get("spec").int("priority") >= SYSTEM_CRITICAL;
        if is_kept || self.volumes.measuring || !limits_storage(&self.pod) {
            return;
        }
        if self.volumes.measured_micros == 0 {
            self.volumes.measured_micros = now;
        }
        let due = self.volumes.measured_micros + micros(MEASURE_PERIOD);
        if due > now {
            return self.wake_at(due);
        }
        (self.volumes.measuring, self.volumes.measured_micros) = (true, now);
        let (kubelet, pod) = (self.kubelet.clone(), self.pod.clone());
        self.operations.spawn(async move {
            let used = used_by_containers(&kubelet, &pod).await;
            Done::Measured(kubelet.config.prepare.check_storage(&pod, &used).await)
        });
    }

    pub(super) fn take_measured(&mut self, result: Result<(), Problem>) {
        self.volumes.measuring = false;
        let Err(problem) = result else { return };
        if self.state.verdict.is_some() || spec::is_deleted(&self.pod) {
            return;
        }
        self.tell("", true, &problem.reason, problem.message.clone());
        self.state.verdict = Some(Verdict { reason: problem.reason, message: problem.message, rejected: false });
    }
}

/// By name: their writable layers and logs. What nobody can tell counts as nothing.
async fn used_by_containers(kubelet: &Kubelet, pod: &Value) -> Vec<(Text, u64)> {
    let uid = pod.get("metadata").str("uid");
    let stats = kubelet.runtime().sandbox_stats().await.unwrap_or_default();
    let containers = stats.iter().filter(|sandbox| sandbox.pod_uid == uid).flat_map(|sandbox| &sandbox.containers);
    containers
        .map(|container| (container.name.as_str().into(), container.root.used_bytes + container.logs.used_bytes))
        .collect()
}
