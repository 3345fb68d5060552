//! What becomes of an autoscaler, as pure functions: from what it says, the scale of its target and what was measured to
//! the number of replicas, the conditions and the events.

use std::sync::Arc;

use k8s_openapi::api::autoscaling::v2;
use rkube_machinery::time;

use crate::conditions::Condition;
use crate::horizontal_pod_autoscalers::calculate::{Scaled, Tolerances};
use crate::horizontal_pod_autoscalers::limits::{self, Bounds, History, Rules};
use crate::horizontal_pod_autoscalers::propose::{self, Measured, Proposed};
use crate::horizontal_pod_autoscalers::view::{Autoscaler, Status};
use crate::pods::Pod;
use crate::settings::Settings;

/// What has to be known before more is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum First {
    /// Nobody wants any.
    Disabled,
    /// It is out of bounds: no metric changes that.
    Set {
        replicas: i32,
        reason: &'static str,
    },
    Measure,
}

pub fn first(autoscaler: &Autoscaler, current: i32) -> First {
    let (min, max) = (autoscaler.min_replicas(), autoscaler.spec.max_replicas);
    if current == 0 {
        First::Disabled
    } else if current > max {
        First::Set { replicas: max, reason: "Current number of replicas above Spec.MaxReplicas" }
    } else if current < min {
        First::Set { replicas: min, reason: "Current number of replicas below Spec.MinReplicas" }
    } else {
        First::Measure
    }
}

/// The scale of a target, as far as it is read.
#[derive(Clone, Debug, Default)]
pub struct Target {
    pub replicas: i32,
    pub status_replicas: i32,
}

/// What is told of it, as a warning: reason and message.
pub type Told = (&'static str, String);

/// What metrics led to.
#[derive(Debug)]
pub struct Outcome {
    /// None: nothing can be said.
    pub replicas: Option<(i32, String)>,
    pub metrics: Vec<serde_json::Value>,
    pub told: Vec<Told>,
    /// Why some or all of them could not be used.
    pub error: Option<String>,
}

/// Looks at what was measured for each metric. The highest number wins; when something could not be measured there are
/// no fewer than now.
pub fn measure(
    autoscaler: &Autoscaler,
    target: &Target,
    pods: &[Arc<Pod>],
    measured: Vec<Result<Measured, String>>,
    settings: &Settings,
    now_micros: i64,
    status: &mut Status,
) -> Outcome {
    let scaled = Scaled {
        replicas: target.replicas,
        status_replicas: target.status_replicas,
        pods,
        tolerances: tolerances(autoscaler, settings),
        cpu_initialization_period: settings.horizontal_pod_autoscaler_cpu_initialization_period,
        initial_readiness_delay: settings.horizontal_pod_autoscaler_initial_readiness_delay,
        now_micros,
    };
    let total = measured.len();
    let mut best: Option<(i32, String)> = None;
    let (mut metrics, mut told, mut first_failure, mut failures) = (Vec::new(), Vec::new(), None, 0);
    for (metric, measured) in autoscaler.metrics().iter().zip(measured) {
        match propose::propose(metric, measured, &autoscaler.item.namespace, &scaled) {
            Ok(Proposed { replicas, name, status }) => {
                metrics.push(status);
                if best.as_ref().is_none_or(|(most, _)| *most == 0 || replicas > *most) {
                    best = Some((replicas, name));
                }
            }
            Err(failure) => {
                failures += 1;
                metrics.push(serde_json::json!({ "type": "" }));
                told.push((failure.reason, failure.told.clone()));
                first_failure.get_or_insert(failure);
            }
        }
    }
    let is_down = best.as_ref().is_none_or(|(replicas, _)| *replicas < target.replicas);
    let error = first_failure.as_ref().map(|failure| {
        format!("invalid metrics ({failures} invalid out of {total}), first error is: {}", failure.error)
    });
    if let Some(failure) = first_failure.filter(|_| failures == total || is_down) {
        let message = format!("the HPA was unable to compute the replica count: {}", failure.told);
        set_condition(status, now_micros, "ScalingActive", false, failure.reason, message);
        return Outcome { replicas: None, metrics, told, error };
    }
    let (replicas, name) = best.unwrap_or_default();
    let message = format!("the HPA was able to successfully calculate a replica count from {name}");
    set_condition(status, now_micros, "ScalingActive", true, "ValidMetricFound", message);
    Outcome { replicas: Some((replicas, name)), metrics, told, error }
}

/// Brings what metrics ask for between all limits; and why there will be more or fewer.
pub fn limit(
    autoscaler: &Autoscaler,
    current: i32,
    (wanted, metric): (i32, &str),
    history: &mut History,
    settings: &Settings,
    now_micros: i64,
    status: &mut Status,
) -> (i32, String) {
    let wanted = wanted.max(0);
    let reason = match wanted.cmp(&current) {
        std::cmp::Ordering::Greater => format!("{metric} above target"),
        std::cmp::Ordering::Less => "All metrics below target".to_owned(),
        std::cmp::Ordering::Equal => String::new(),
    };
    let bounds = Bounds { min: autoscaler.min_replicas(), max: autoscaler.spec.max_replicas, current };
    let window = settings.horizontal_pod_autoscaler_downscale_stabilization;
    let (stable, limited) = match &autoscaler.spec.behavior {
        None => {
            let stable = history.stabilize(wanted, window, now_micros);
            let limited = limits::limit(bounds, stable.replicas);
            (stable, limited)
        }
        Some(behavior) => {
            let rules = Rules::of(behavior, window);
            let stable = history.stabilize_with(&rules, bounds, wanted, now_micros);
            let limited = history.limit_with(&rules, bounds, stable.replicas, now_micros);
            (stable, limited)
        }
    };
    set_condition(status, now_micros, "AbleToScale", true, stable.reason, stable.message);
    set_condition(status, now_micros, "ScalingLimited", !limited.is_free, limited.reason, limited.message);
    (limited.replicas, reason)
}

fn tolerances(autoscaler: &Autoscaler, settings: &Settings) -> Tolerances {
    let own = |rules: &Option<v2::HPAScalingRules>| {
        let text = rules.as_ref()?.tolerance.as_ref()?;
        rkube_machinery::quantity::Quantity::parse(&text.0).ok().map(|tolerance| tolerance.as_f64())
    };
    let all = settings.horizontal_pod_autoscaler_tolerance;
    let behavior = autoscaler.spec.behavior.as_ref();
    Tolerances {
        down: behavior.and_then(|behavior| own(&behavior.scale_down)).unwrap_or(all),
        up: behavior.and_then(|behavior| own(&behavior.scale_up)).unwrap_or(all),
    }
}

/// Conditions keep their places.
pub fn set_condition(
    status: &mut Status,
    now_micros: i64,
    kind: &str,
    is_true: bool,
    reason: &str,
    message: impl Into<String>,
) {
    let place = status.conditions.iter().position(|condition| condition.kind == kind).unwrap_or_else(|| {
        status.conditions.push(Condition { kind: kind.to_owned(), ..Condition::default() });
        status.conditions.len() - 1
    });
    let condition = &mut status.conditions[place];
    let state = if is_true { "True" } else { "False" };
    if condition.status != state {
        state.clone_into(&mut condition.status);
        condition.last_transition_time = Some(time::format_seconds(now_micros.div_euclid(1_000_000)));
    }
    reason.clone_into(&mut condition.reason);
    condition.message = message.into();
}
