//! Figures of one moment, and what they are compared with.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use rkube_machinery::host::Clock;
use rkube_runtime::api::{Error, ImageFilesystem, Runtime, SandboxStats};

use super::machine::Machine;

/// A sample that is younger than this is told again instead of taking another one.
const FRESH_MICROS: i64 = 1_000_000;
/// Rates are counted from a sample that is at least so old, if there is one: over less they say little.
const RATE_MICROS: i64 = 10_000_000;

/// All figures of one moment.
#[derive(Debug, Default)]
pub struct Sample {
    pub at_micros: i64,
    pub machine: Machine,
    pub pods: Vec<SandboxStats>,
    pub images: ImageFilesystem,
    pub rates: Rates,
}

/// Used CPU, in billionths of a core. What began after the sample that is compared with counts from when it began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rates {
    pub machine: u64,
    /// By the ids of sandboxes and containers.
    pub by_id: HashMap<String, u64>,
}

/// Takes samples, no more often than makes sense.
pub struct Figures {
    runtime: Arc<dyn Runtime>,
    clock: Arc<dyn Clock>,
    root: PathBuf,
    state: Mutex<State>,
    /// One sample at a time; who waits gets the same one.
    taking: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct State {
    /// The two last samples that are far enough apart to be compared with.
    bases: [Option<Arc<Sample>>; 2],
    latest: Option<Arc<Sample>>,
}

impl Figures {
    pub fn new(runtime: Arc<dyn Runtime>, clock: Arc<dyn Clock>) -> Figures {
        Figures { runtime, clock, root: "/".into(), state: Mutex::default(), taking: tokio::sync::Mutex::default() }
    }

    pub async fn sample(&self) -> Result<Arc<Sample>, Error> {
        if let Some(sample) = self.fresh() {
            return Ok(sample);
        }
        let _taking = self.taking.lock().await;
        if let Some(sample) = self.fresh() {
            return Ok(sample);
        }
        let pods = self.runtime.sandbox_stats().await?;
        let images = self.runtime.image_filesystem().await.unwrap_or_default();
        let root = self.root.clone();
        let machine = tokio::task::spawn_blocking(move || Machine::read(&root)).await.unwrap_or_default();
        let at_micros = self.clock.now_micros();
        let sample = Sample { at_micros, machine, pods, images, rates: Rates::default() };
        Ok(self.state.lock().add(sample))
    }

    fn fresh(&self) -> Option<Arc<Sample>> {
        let age = |sample: &Arc<Sample>| self.clock.now_micros() - sample.at_micros;
        self.state.lock().latest.clone().filter(|sample| (0..FRESH_MICROS).contains(&age(sample)))
    }
}

impl State {
    fn add(&mut self, mut sample: Sample) -> Arc<Sample> {
        let is_old = |base: &&Arc<Sample>| sample.at_micros - base.at_micros >= RATE_MICROS;
        let bases = self.bases.iter().flatten();
        let base = bases.clone().rev().find(is_old).or_else(|| bases.clone().next()).or(self.latest.as_ref());
        sample.rates = rates(base.map(|base| &**base), &sample);
        let sample = Arc::new(sample);
        let last_base = self.bases[1].as_ref().or(self.bases[0].as_ref());
        if last_base.is_none_or(|base| sample.at_micros - base.at_micros >= RATE_MICROS) {
            let before = self.bases[1].take();
            self.bases = [before.or(self.bases[0].take()), Some(sample.clone())];
        }
        self.latest = Some(sample.clone());
        sample
    }
}

fn rates(base: Option<&Sample>, sample: &Sample) -> Rates {
    let mut before: HashMap<&str, (u64, i64)> = HashMap::new();
    for pod in base.iter().flat_map(|base| &base.pods) {
        before.insert(&pod.id, (pod.cpu.usage_core_nanos, pod.at_micros));
        for container in &pod.containers {
            before.insert(&container.id, (container.cpu.usage_core_nanos, container.at_micros));
        }
    }
    let mut by_id = HashMap::new();
    for pod in &sample.pods {
        // A sandbox is as old as the first of its containers.
        let began = pod.containers.iter().map(|container| container.started_micros).min().unwrap_or(pod.at_micros);
        let (then, since) = before.get(pod.id.as_str()).copied().unwrap_or((0, began));
        by_id.insert(pod.id.clone(), rate(pod.cpu.usage_core_nanos, then, pod.at_micros - since));
        for container in &pod.containers {
            let began = (0, container.started_micros);
            let (then, since) = before.get(container.id.as_str()).copied().unwrap_or(began);
            let used = rate(container.cpu.usage_core_nanos, then, container.at_micros - since);
            by_id.insert(container.id.clone(), used);
        }
    }
    let (then, since) = match base {
        Some(base) => (base.machine.cpu_core_nanos, base.at_micros),
        None => (0, sample.machine.boot_seconds * 1_000_000),
    };
    Rates { machine: rate(sample.machine.cpu_core_nanos, then, sample.at_micros - since), by_id }
}

fn rate(now: u64, then: u64, micros: i64) -> u64 {
    let nanos = u128::from(now.saturating_sub(then));
    let micros = u128::try_from(micros.max(1)).unwrap_or(1);
    u64::try_from(nanos * 1_000_000 / micros).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use rkube_runtime::api::{ContainerStats, Cpu};

    use super::*;

    /// Half a core is used from second 0 on, a whole one from second 100 on.
    fn at(seconds: i64) -> Sample {
        let used = seconds * 500_000_000 + (seconds - 100).max(0) * 500_000_000;
        let at_micros = seconds * 1_000_000;
        let cpu = Cpu { usage_core_nanos: used.try_into().unwrap() };
        let container = ContainerStats { id: "c".into(), at_micros, cpu, ..ContainerStats::default() };
        let pod =
            SandboxStats { id: "p".into(), at_micros, cpu, containers: vec![container], ..SandboxStats::default() };
        let machine = Machine { cpu_core_nanos: cpu.usage_core_nanos, ..Machine::default() };
        Sample { at_micros, machine, pods: vec![pod], ..Sample::default() }
    }

    #[test]
    fn rates_are_counted_from_what_is_old_enough() {
        let mut state = State::default();
        let mut rate_at = |seconds: i64| {
            let rates = state.add(at(seconds)).rates.clone();
            assert_eq!(rates.by_id["c"], rates.machine);
            assert_eq!(rates.by_id["p"], rates.machine);
            rates.machine / 1_000_000
        };
        assert_eq!(rate_at(50), 500, "since it began");
        assert_eq!(rate_at(90), 500);
        assert_eq!(rate_at(100), 500);
        assert_eq!(rate_at(105), 666, "since 90: the last one is too young");
        assert_eq!(rate_at(110), 1000, "since 100");
        assert_eq!(rate_at(200), 1000);
    }
}
