//! How many replicas a metric asks for, as pure functions. Pods whose figures are missing, or do not count yet, hold back:
//! with them the others have to be further off before anything changes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use rkube_machinery::Text;

use crate::pods::{Missing, Phase, Pod};

/// What was measured of a pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figure {
    /// In thousandths.
    pub value: i64,
    /// When, and over which time before.
    pub at_micros: i64,
    pub window_micros: i64,
}

/// By the names of pods.
pub type Figures = BTreeMap<Text, Figure>;

/// How far from 1 a ratio may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerances {
    pub down: f64,
    pub up: f64,
}

impl Tolerances {
    fn allow(&self, ratio: f64) -> bool {
        (1.0 - self.down..=1.0 + self.up).contains(&ratio)
    }
}

/// What is known of those who are scaled.
#[derive(Clone, Copy, Debug)]
pub struct Scaled<'a> {
    /// How many there should be.
    pub replicas: i32,
    /// How many there are.
    pub status_replicas: i32,
    pub pods: &'a [Arc<Pod>],
    pub tolerances: Tolerances,
    pub cpu_initialization_period: Duration,
    pub initial_readiness_delay: Duration,
    pub now_micros: i64,
}

/// How many replicas there should be, and what was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    pub replicas: i32,
    /// In percent of what pods ask for.
    pub utilization: Option<i32>,
    /// In thousandths: of each pod, or of all.
    pub usage: i64,
}

impl Scaled<'_> {
    /// By how much of what they ask for pods use, in percent.
    pub fn by_utilization(
        &self,
        figures: Figures,
        resource: &str,
        container: Option<&str>,
        target_percent: i32,
    ) -> Result<Wanted, String> {
        let grouped = self.group(figures, resource)?;
        let requests = self.requests(resource, container)?;
        let ratio = |figures: &Figures| {
            let asked = figures.iter().filter_map(|(name, figure)| Some((figure.value, *requests.get(name)?)));
            let (mut used, mut requested, mut count) = (0i128, 0i128, 0i128);
            for (value, request) in asked {
                used += i128::from(value);
                requested += i128::from(request);
                count += 1;
            }
            if requested == 0 {
                return Err("no metrics returned matched known pods".to_owned());
            }
            let utilization = clamp_i32(used * 100 / requested);
            let wanted = Wanted { replicas: 0, utilization: Some(utilization), usage: clamp_i64(used / count) };
            Ok((f64::from(utilization) / f64::from(target_percent), wanted))
        };
        let fallback_percent = i128::from(target_percent.max(100));
        let all_of_it =
            |name: &Text| clamp_i64(i128::from(requests.get(name).copied().unwrap_or(0)) * fallback_percent / 100);
        self.settle(grouped, ratio, all_of_it)
    }

    /// By what pods use each, or measure.
    pub fn by_average(&self, figures: Figures, resource: &str, target: i64) -> Result<Wanted, String> {
        let grouped = self.group(figures, resource)?;
        let ratio = |figures: &Figures| {
            let sum: i128 = figures.values().map(|figure| i128::from(figure.value)).sum();
            let usage = clamp_i64(sum / figures.len().max(1) as i128);
            Ok((usage as f64 / target as f64, Wanted { replicas: 0, utilization: None, usage }))
        };
        self.settle(grouped, ratio, |_| target)
    }

    /// By one value for all.
    pub fn by_value(&self, usage: i64, target: i64) -> Result<Wanted, String> {
        let ratio = usage as f64 / target as f64;
        let wanted = |replicas| Wanted { replicas, utilization: None, usage };
        if self.replicas == 0 {
            return Ok(wanted(ceil(ratio)));
        }
        if self.tolerances.allow(ratio) {
            return Ok(wanted(self.replicas));
        }
        if self.pods.is_empty() {
            return Err(format!("unable to calculate ready pods: {NO_PODS}"));
        }
        let ready = self.pods.iter().filter(|pod| pod.phase == Phase::Running && pod.ready).count();
        Ok(wanted(ceil(ratio * ready as f64)))
    }

    /// By one value that is divided among all.
    pub fn by_value_per_pod(&self, usage: i64, target: i64) -> Wanted {
        let there = f64::from(self.status_replicas);
        let ratio = usage as f64 / (target as f64 * there);
        let replicas =
            if self.tolerances.allow(ratio) { self.status_replicas } else { ceil(usage as f64 / target as f64) };
        let each = if usage == i64::MAX { usage } else { (usage as f64 / there).ceil() as i64 };
        Wanted { replicas, utilization: None, usage: each }
    }

    fn group(&self, mut figures: Figures, resource: &str) -> Result<Grouped, String> {
        if self.pods.is_empty() {
            return Err(NO_PODS.to_owned());
        }
        let (mut ready, mut unready, mut missing) = (0, BTreeSet::new(), BTreeSet::new());
        for pod in self.pods {
            if pod.deleted.is_some() || pod.phase == Phase::Failed {
                figures.remove(&pod.name);
            } else if pod.phase == Phase::Pending {
                unready.insert(pod.name.clone());
            } else if let Some(figure) = figures.get(&pod.name) {
                if resource == "cpu" && !self.counts(pod, figure) {
                    unready.insert(pod.name.clone());
                } else {
                    ready += 1;
                }
            } else {
                missing.insert(pod.name.clone());
            }
        }
        figures.retain(|name, _| !unready.contains(name));
        if figures.is_empty() {
            return Err("did not receive metrics for targeted pods (pods might be unready)".to_owned());
        }
        Ok(Grouped { figures, ready, unready, missing })
    }

    /// Whether what a pod uses of CPU says something of what it does when it works.
    fn counts(&self, pod: &Pod, figure: &Figure) -> bool {
        let Some(started) = pod.started.map(micros) else { return false };
        // Without a time it has been so for ever, if it is so.
        let Some(changed) = pod.ready_changed.map(micros).or(pod.ready.then_some(0)) else { return false };
        if started.saturating_add(of(self.cpu_initialization_period)) > self.now_micros {
            return pod.ready && figure.at_micros >= changed.saturating_add(figure.window_micros);
        }
        pod.ready || started.saturating_add(of(self.initial_readiness_delay)) <= changed
    }

    fn requests(&self, resource: &str, container: Option<&str>) -> Result<BTreeMap<Text, i64>, String> {
        let request = |pod: &Arc<Pod>| {
            let name = &pod.name;
            let amount = pod.requests.milli(container, resource).map_err(|missing| match missing {
                Missing::OfPod => format!("missing pod-level request for {resource} in Pod {name}"),
                Missing::OfContainer(own) => format!("missing request for {resource} in container {own} of Pod {name}"),
                Missing::NoSuchContainer => format!("container {} not found in Pod {name}", container.unwrap_or("")),
            })?;
            Ok((name.clone(), amount))
        };
        self.pods.iter().map(request).collect()
    }

    /// What the ratio leads to. Missing pods count as if all were well with them when there would be fewer, and as idle
    /// when there would be more; unready ones as idle when there would be more.
    fn settle(
        &self,
        grouped: Grouped,
        ratio: impl Fn(&Figures) -> Result<(f64, Wanted), String>,
        fallback: impl Fn(&Text) -> i64,
    ) -> Result<Wanted, String> {
        let Grouped { mut figures, ready, unready, missing } = grouped;
        let (first, wanted) = ratio(&figures)?;
        let unchanged = Wanted { replicas: self.replicas, ..wanted };
        let up_with_unready = !unready.is_empty() && first > 1.0;
        if !up_with_unready && missing.is_empty() {
            let replicas = ceil(first * ready as f64);
            return Ok(if self.tolerances.allow(first) { unchanged } else { Wanted { replicas, ..wanted } });
        }
        for name in missing {
            if first < 1.0 {
                let value = fallback(&name);
                figures.insert(name, Figure { value, ..Figure::default() });
            } else if first > 1.0 {
                figures.insert(name, Figure::default());
            }
        }
        if up_with_unready {
            figures.extend(unready.into_iter().map(|name| (name, Figure::default())));
        }
        let (second, _) = ratio(&figures)?;
        let turns = (first < 1.0 && second > 1.0) || (first > 1.0 && second < 1.0);
        if self.tolerances.allow(second) || turns {
            return Ok(unchanged);
        }
        let replicas = ceil(second * figures.len() as f64);
        let turns = (second < 1.0 && replicas > self.replicas) || (second > 1.0 && replicas < self.replicas);
        Ok(if turns { unchanged } else { Wanted { replicas, ..wanted } })
    }
}

const NO_PODS: &str = "no pods returned by selector while calculating replica count";

struct Grouped {
    figures: Figures,
    ready: usize,
    unready: BTreeSet<Text>,
    missing: BTreeSet<Text>,
}

/// What is beyond the range is at its edge.
fn ceil(number: f64) -> i32 {
    number.ceil() as i32
}

fn clamp_i32(number: i128) -> i32 {
    number.clamp(i32::MIN.into(), i32::MAX.into()) as i32
}

fn clamp_i64(number: i128) -> i64 {
    number.clamp(i64::MIN.into(), i64::MAX.into()) as i64
}

fn micros(seconds: i64) -> i64 {
    seconds.saturating_mul(1_000_000)
}

fn of(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}
