//! What keeps an autoscaler from following every metric at once: what it wanted of late, how much it changed of late, and
//! between which numbers it may choose. Pure: the time is passed in.

use std::time::Duration;

use k8s_openapi::api::autoscaling::v2::{HPAScalingPolicy, HPAScalingRules, HorizontalPodAutoscalerBehavior};

/// What is remembered of an autoscaler, for as long as its windows are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// What metrics asked for, and when.
    recommendations: Vec<At>,
    /// By how many replicas it scaled up and down, and when.
    ups: Vec<At>,
    downs: Vec<At>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct At {
    replicas: i32,
    micros: i64,
}

/// A number that was brought between limits, and the words for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limited {
    pub replicas: i32,
    /// Whether it is what was asked for.
    pub is_free: bool,
    pub reason: &'static str,
    pub message: &'static str,
}

#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    pub min: i32,
    pub max: i32,
    pub current: i32,
}

const TOO_FEW: (&str, &str) = ("TooFewReplicas", "the desired replica count is less than the minimum replica count");
const TOO_MANY: (&str, &str) = ("TooManyReplicas", "the desired replica count is more than the maximum replica count");
const UP_LIMIT: (&str, &str) =
    ("ScaleUpLimit", "the desired replica count is increasing faster than the maximum scale rate");
const DOWN_LIMIT: (&str, &str) =
    ("ScaleDownLimit", "the desired replica count is decreasing faster than the maximum scale rate");
const WITHIN: (&str, &str) = ("DesiredWithinRange", "the desired count is within the acceptable range");
const READY: (&str, &str) = ("ReadyForNewScale", "recommended size matches current size");
const UP_STABILIZED: (&str, &str) = (
    "ScaleUpStabilized",
    "recent recommendations were lower than current one, applying the lowest recent recommendation",
);
const DOWN_STABILIZED: (&str, &str) = (
    "ScaleDownStabilized",
    "recent recommendations were higher than current one, applying the highest recent recommendation",
);

impl History {
    /// Before the first recommendation there is what was there.
    pub fn begin(&mut self, replicas: i32, now_micros: i64) {
        if self.recommendations.is_empty() {
            self.recommendations.push(At { replicas, micros: now_micros });
        }
    }

    /// The highest recommendation of the window.
    pub fn stabilize(&mut self, desired: i32, window: Duration, now_micros: i64) -> Limited {
        let cutoff = before(now_micros, window);
        let recent = self.recommendations.iter().filter(|at| at.micros >= cutoff);
        let highest = recent.map(|at| at.replicas).fold(desired, i32::max);
        record(&mut self.recommendations, At { replicas: desired, micros: now_micros }, cutoff);
        limited(highest, desired, if highest == desired { READY } else { DOWN_STABILIZED })
    }

    /// The current number, or what is nearest to it between the lowest recommendation of one window and the highest of
    /// the other.
    pub fn stabilize_with(&mut self, rules: &Rules<'_>, bounds: Bounds, desired: i32, now_micros: i64) -> Limited {
        let (up_cutoff, down_cutoff) = (before(now_micros, rules.up_window), before(now_micros, rules.down_window));
        let since = |cutoff: i64| self.recommendations.iter().filter(move |at| at.micros > cutoff);
        let lowest = since(up_cutoff).map(|at| at.replicas).fold(desired, i32::min);
        let highest = since(down_cutoff).map(|at| at.replicas).fold(desired, i32::max);
        let replicas = bounds.current.max(lowest).min(highest);
        record(&mut self.recommendations, At { replicas: desired, micros: now_micros }, up_cutoff.min(down_cutoff));
        let words = match replicas == desired {
            true => READY,
            false if desired >= bounds.current => UP_STABILIZED,
            false => DOWN_STABILIZED,
        };
        limited(replicas, desired, words)
    }

    /// As far as policies let it go at once.
    pub fn limit_with(&self, rules: &Rules<'_>, bounds: Bounds, desired: i32, now_micros: i64) -> Limited {
        let Bounds { min, max, current } = bounds;
        let start = |policy: &HPAScalingPolicy| {
            let cutoff = before(now_micros, seconds(policy.period_seconds));
            let changed = |all: &[At]| -> i64 {
                all.iter().filter(|at| at.micros > cutoff).map(|at| i64::from(at.replicas)).sum()
            };
            i64::from(current) - changed(&self.ups) + changed(&self.downs)
        };
        if desired > current {
            let limit = rules.up_limit(current, start).max(current);
            let (most, words) = if max > limit { (limit, UP_LIMIT) } else { (max, TOO_MANY) };
            if desired > most {
                return limited(most, desired, words);
            }
        } else if desired < current {
            let limit = rules.down_limit(current, start).min(current);
            let (least, words) = if min < limit { (limit, DOWN_LIMIT) } else { (min, TOO_FEW) };
            if desired < least {
                return limited(least, desired, words);
            }
        }
        limited(desired, desired, WITHIN)
    }

    /// Remembers that it was scaled.
    pub fn scaled(&mut self, behavior: Option<&HorizontalPodAutoscalerBehavior>, from: i32, to: i32, now_micros: i64) {
        let Some(behavior) = behavior else { return };
        let (all, rules) =
            if to > from { (&mut self.ups, &behavior.scale_up) } else { (&mut self.downs, &behavior.scale_down) };
        let policies = rules.iter().flat_map(|rules| rules.policies.iter().flatten());
        let longest = policies.map(|policy| policy.period_seconds).max().unwrap_or(0);
        let cutoff = before(now_micros, seconds(longest));
        record(all, At { replicas: to.abs_diff(from).try_into().unwrap_or(i32::MAX), micros: now_micros }, cutoff);
    }
}

/// Between the least and the most, and no more than twice as many as there are.
pub fn limit(bounds: Bounds, desired: i32) -> Limited {
    let Bounds { min, max, current } = bounds;
    let doubled = current.saturating_mul(2).max(4);
    let (most, words) = if max > doubled { (doubled, UP_LIMIT) } else { (max, TOO_MANY) };
    if desired < min {
        limited(min, desired, TOO_FEW)
    } else if desired > most {
        limited(most, desired, words)
    } else {
        limited(desired, desired, WITHIN)
    }
}

/// What an autoscaler says of its behaviour.
#[derive(Debug)]
pub struct Rules<'a> {
    up: Option<&'a HPAScalingRules>,
    down: Option<&'a HPAScalingRules>,
    up_window: Duration,
    down_window: Duration,
}

impl<'a> Rules<'a> {
    pub fn of(behavior: &'a HorizontalPodAutoscalerBehavior, down_window: Duration) -> Rules<'a> {
        let (up, down) = (behavior.scale_up.as_ref(), behavior.scale_down.as_ref());
        let window = |rules: Option<&HPAScalingRules>| rules.and_then(|rules| rules.stabilization_window_seconds);
        Rules {
            up,
            down,
            up_window: seconds(window(up).unwrap_or(0)),
            // Whole seconds, as where it is given.
            down_window: window(down).map_or(Duration::from_secs(down_window.as_secs()), seconds),
        }
    }

    fn up_limit(&self, current: i32, start: impl Fn(&HPAScalingPolicy) -> i64) -> i32 {
        let limits = |policy: &HPAScalingPolicy| match policy.type_.as_str() {
            "Pods" => Some(clamp(start(policy) + i64::from(policy.value))),
            // Rounded up: else a few would never become more.
            "Percent" => Some((start(policy) as f64 * (1.0 + f64::from(policy.value) / 100.0)).ceil() as i32),
            _ => None,
        };
        select(self.up, current, limits, i32::min, i32::max)
    }

    fn down_limit(&self, current: i32, start: impl Fn(&HPAScalingPolicy) -> i64) -> i32 {
        let limits = |policy: &HPAScalingPolicy| match policy.type_.as_str() {
            "Pods" => Some(clamp(start(policy) - i64::from(policy.value))),
            "Percent" => Some((start(policy) as f64 * (1.0 - f64::from(policy.value) / 100.0)) as i32),
            _ => None,
        };
        select(self.down, current, limits, i32::max, i32::min)
    }
}

/// Of what policies allow the one that is selected. Where they say nothing nothing changes.
fn select(
    rules: Option<&HPAScalingRules>,
    current: i32,
    limit: impl Fn(&HPAScalingPolicy) -> Option<i32>,
    least_change: fn(i32, i32) -> i32,
    most_change: fn(i32, i32) -> i32,
) -> i32 {
    let Some(rules) = rules else { return current };
    let choose = match rules.select_policy.as_deref() {
        Some("Disabled") => return current,
        Some("Min") => least_change,
        _ => most_change,
    };
    rules.policies.iter().flatten().filter_map(limit).reduce(choose).unwrap_or(current)
}

fn limited(replicas: i32, desired: i32, (reason, message): (&'static str, &'static str)) -> Limited {
    Limited { replicas, is_free: replicas == desired, reason, message }
}

/// Adds one, in the place of another that is out of every window if there is one.
fn record(all: &mut Vec<At>, new: At, cutoff: i64) {
    match all.iter_mut().rfind(|at| at.micros < cutoff) {
        Some(old) => *old = new,
        None => all.push(new),
    }
}

fn before(now_micros: i64, window: Duration) -> i64 {
    now_micros.saturating_sub(i64::try_from(window.as_micros()).unwrap_or(i64::MAX))
}

fn seconds(seconds: i32) -> Duration {
    Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
}

fn clamp(number: i64) -> i32 {
    number.clamp(i32::MIN.into(), i32::MAX.into()) as i32
}
