//! One probe of one container, again and again, until it is no longer wanted.

use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior};

use super::super::inbox::News;
use super::check::{self, Outcome};
use super::{Kind, Task};

/// How often a probe is tried that could not even be made.
const TRIES: usize = 3;

impl Task {
    pub async fn run(self) {
        let spec = self.container.get(self.kind.field()).clone();
        let seconds = |field: &str, least: u64| u64::try_from(spec.int(field)).unwrap_or(0).max(least);
        let threshold = |field: &str| u32::try_from(spec.int(field)).unwrap_or(1).max(1);
        let (successes, failures) = (threshold("successThreshold"), threshold("failureThreshold"));
        self.wait_to_begin(Duration::from_secs(seconds("initialDelaySeconds", 0))).await;
        let mut ticks = tokio::time::interval(Duration::from_secs(seconds("periodSeconds", 1)));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let (mut last, mut times) = (None, 0);
        loop {
            ticks.tick().await;
            let Some(succeeded) = self.probe(&spec).await else { continue };
            times = if last == Some(succeeded) { times + 1 } else { 1 };
            last = Some(succeeded);
            if times < if succeeded { successes } else { failures } {
                continue;
            }
            self.tell(succeeded);
            // One that decides the fate of the container has said all.
            if self.kind == Kind::Startup || self.kind == Kind::Liveness && !succeeded {
                return;
            }
        }
    }

    /// The delay counts from the start of the container.
    async fn wait_to_begin(&self, delay: Duration) {
        let age = self.kubelet.now_micros() - self.since_micros;
        let age = Duration::from_micros(u64::try_from(age).unwrap_or(0));
        tokio::time::sleep_until(Instant::now() + delay.saturating_sub(age)).await;
    }

    fn tell(&self, succeeded: bool) {
        let place = (self.container.str("name").into(), self.kind);
        let id = self.id.clone();
        self.inbox.tell(|news: &mut News| {
            news.probes.insert(place, (id, succeeded));
        });
    }

    /// None: nothing is known.
    async fn probe(&self, spec: &rkube_machinery::Value) -> Option<bool> {
        let mut outcome = Outcome::Unknown(String::new());
        for _ in 0..TRIES {
            outcome = check::check(self, spec).await;
            if !matches!(outcome, Outcome::Unknown(_)) {
                break;
            }
        }
        let kind = self.kind.shown();
        let (reason, message, verdict) = match outcome {
            Outcome::Success => return Some(true),
            Outcome::Warning(output) => ("ProbeWarning", format!("{kind} probe warning: {output}"), Some(true)),
            Outcome::Failure(output) => ("Unhealthy", format!("{kind} probe failed: {output}"), Some(false)),
            Outcome::Unknown(error) => {
                ("Unhealthy", format!("{kind} probe errored and resulted in unknown state: {error}"), None)
            }
        };
        self.kubelet.tell(&self.pod, &self.field_path, true, reason, message);
        verdict
    }
}
