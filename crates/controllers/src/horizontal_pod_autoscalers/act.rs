//! One reconcile of an autoscaler: asks for the scale and for metrics, plans, and writes the scale and the status.

use std::sync::Arc;

use rkube_machinery::host::Clock;
use rkube_machinery::selector::labels::Selector;
use rkube_machinery::time;
use rkube_operator::events::Recorder;
use rkube_operator::kube::Client;
use rkube_operator::{Informer, Key};

use crate::conditions;
use crate::horizontal_pod_autoscalers::memory::Memory;
use crate::horizontal_pod_autoscalers::metrics::Asked;
use crate::horizontal_pod_autoscalers::plan::{self, First, set_condition};
use crate::horizontal_pod_autoscalers::target::{Kinds, Scale};
use crate::horizontal_pod_autoscalers::view::{Autoscaler, Status};
use crate::owner::{Kind, Owner};
use crate::pods::{self, Pod};
use crate::settings::Settings;

pub static AUTOSCALER: Kind = Kind {
    api_version: "autoscaling/v2",
    kind: "HorizontalPodAutoscaler",
    base: "/apis/autoscaling/v2",
    plural: "horizontalpodautoscalers",
};

pub struct Manager {
    pub client: Client,
    pub clock: Arc<dyn Clock>,
    pub settings: Arc<Settings>,
    pub events: Recorder,
    pub autoscalers: Informer<Autoscaler>,
    pub pods: Informer<Pod>,
    pub kinds: Kinds,
    pub memory: Arc<Memory>,
}

/// What metrics led to, when there is something to do or to say.
struct Wanted {
    replicas: i32,
    reason: String,
}

impl Manager {
    pub async fn reconcile(&self, key: &Key) -> Result<(), String> {
        let Some(autoscaler) = self.autoscalers.get(&key.namespace, &key.name) else { return Ok(()) };
        let owner = Owner { kind: &AUTOSCALER, item: &autoscaler.item, client: &self.client, events: &self.events };
        let now = self.clock.now_micros();
        let mut status = autoscaler.status.clone();
        let scale = match self.scale(&autoscaler).await {
            Ok(scale) => scale,
            Err(error) => {
                owner.warn("FailedGetScale", error.clone());
                let message = format!("the HPA controller was unable to get the target's current scale: {error}");
                set_condition(&mut status, now, "AbleToScale", false, "FailedGetScale", message);
                self.write_status(owner, &autoscaler, &status).await?;
                return Err(error);
            }
        };
        let message = "the HPA controller was able to get the target's current scale";
        set_condition(&mut status, now, "AbleToScale", true, "SucceededGetScale", message);
        let current = scale.target().replicas;
        self.memory.with(key, |history| history.begin(current, now));
        status.observed_generation = None;
        let wanted = match plan::first(&autoscaler, current) {
            First::Disabled => {
                let message = "scaling is disabled since the replica count of the target is zero";
                set_condition(&mut status, now, "ScalingActive", false, "ScalingDisabled", message);
                conditions::remove(&mut status.conditions, "ScaledToZero");
                status.current_metrics = None;
                Wanted { replicas: 0, reason: String::new() }
            }
            First::Set { replicas, reason } => {
                status.current_metrics = None;
                Wanted { replicas, reason: reason.to_owned() }
            }
            First::Measure => match self.measure(owner, &autoscaler, key, &scale, &mut status).await {
                Ok(wanted) => wanted,
                Err(error) => {
                    status.current_replicas = current;
                    // That this is not written is less than what is to be told.
                    let _ = self.write_status(owner, &autoscaler, &status).await;
                    owner.warn("FailedComputeMetricsReplicas", error.clone());
                    return Err(error);
                }
            },
        };
        status.current_replicas = current;
        if wanted.replicas != current {
            self.rescale(owner, &autoscaler, key, &scale, &wanted, &mut status).await?;
            status.last_scale_time = Some(time::format_seconds(self.clock.now_seconds()));
        }
        status.desired_replicas = wanted.replicas;
        self.write_status(owner, &autoscaler, &status).await
    }

    async fn scale(&self, autoscaler: &Autoscaler) -> Result<Scale, String> {
        let target = &autoscaler.spec.scale_target_ref;
        let place = self.kinds.place(target.api_version.as_deref().unwrap_or_default(), &target.kind)?;
        Scale::get(&self.client, &place, &autoscaler.item.namespace, &target.name).await
    }

    /// How many there should be by all metrics.
    async fn measure(
        &self,
        owner: Owner<'_>,
        autoscaler: &Autoscaler,
        key: &Key,
        scale: &Scale,
        status: &mut Status,
    ) -> Result<Wanted, String> {
        let (namespace, target) = (&key.namespace, scale.target());
        status.current_metrics = None;
        let pods = self.selected(owner, key, scale.selector(), status)?;
        let asked = Asked { client: &self.client, kinds: &self.kinds, namespace, selector: scale.selector() };
        let mut measured = Vec::new();
        for metric in autoscaler.metrics() {
            measured.push(asked.measure(metric).await);
        }
        let now = self.clock.now_micros();
        let outcome = plan::measure(autoscaler, &target, &pods, measured, &self.settings, now, status);
        for (reason, message) in outcome.told {
            owner.warn(reason, message);
        }
        status.current_metrics = Some(outcome.metrics).filter(|metrics| !metrics.is_empty());
        let Some((replicas, metric)) = outcome.replicas else { return Err(outcome.error.unwrap_or_default()) };
        if let Some(error) = outcome.error {
            tracing::debug!(autoscaler = ?key, error, "some metrics cannot be used");
        }
        let (replicas, reason) = self.memory.with(key, |history| {
            let wanted = (replicas, metric.as_str());
            plan::limit(autoscaler, target.replicas, wanted, history, &self.settings, now, status)
        });
        Ok(Wanted { replicas, reason })
    }

    /// The pods that are scaled, if nobody else scales them.
    fn selected(
        &self,
        owner: Owner<'_>,
        key: &Key,
        selector: &str,
        status: &mut Status,
    ) -> Result<Vec<Arc<Pod>>, String> {
        let now = self.clock.now_micros();
        let mut refuse = |told: &str, reason: &str, message: &str, error: String| {
            owner.warn(told, error.clone());
            set_condition(status, now, "ScalingActive", false, reason, message);
            error
        };
        if selector.is_empty() {
            let message = "the HPA target's scale is missing a selector";
            return Err(refuse("SelectorRequired", "InvalidSelector", message, "selector is required".to_owned()));
        }
        let parsed = Selector::parse(selector).map_err(|error| {
            let error = format!("couldn't convert selector into a corresponding internal selector object: {error}");
            refuse("InvalidSelector", "InvalidSelector", &error.clone(), error)
        })?;
        let pods = pods::selected(&self.pods, &key.namespace, &parsed);
        self.memory.select(key, parsed);
        let scaling = self.memory.scaling(&key.namespace, &pods);
        if scaling.len() > 1 {
            let all = scaling.join(" ");
            let error = format!("pods by selector {selector} are controlled by multiple HPAs: [{all}]");
            return Err(refuse("AmbiguousSelector", "AmbiguousSelector", &error.clone(), error));
        }
        Ok(pods)
    }

    async fn rescale(
        &self,
        owner: Owner<'_>,
        autoscaler: &Autoscaler,
        key: &Key,
        scale: &Scale,
        wanted: &Wanted,
        status: &mut Status,
    ) -> Result<(), String> {
        let (Wanted { replicas, reason }, current) = (wanted, scale.target().replicas);
        let now = self.clock.now_micros();
        if let Err(error) = scale.set(&self.client, *replicas).await {
            owner.warn("FailedRescale", format!("New size: {replicas}; reason: {reason}; error: {error}"));
            let message = format!("the HPA controller was unable to update the target scale: {error}");
            set_condition(status, now, "AbleToScale", false, "FailedUpdateScale", message);
            self.write_status(owner, autoscaler, status).await?;
            return Err(error);
        }
        let message = format!("the HPA controller was able to update the target scale to {replicas}");
        set_condition(status, now, "AbleToScale", true, "SucceededRescale", message);
        owner.tell("SuccessfulRescale", format!("New size: {replicas}; reason: {reason}"));
        let behavior = autoscaler.spec.behavior.as_ref();
        self.memory.with(key, |history| history.scaled(behavior, current, *replicas, now));
        conditions::remove(&mut status.conditions, "ScaledToZero");
        Ok(())
    }

    async fn write_status(&self, owner: Owner<'_>, autoscaler: &Autoscaler, status: &Status) -> Result<(), String> {
        if *status == autoscaler.status {
            return Ok(());
        }
        match owner.write_status(status).await {
            Ok(_) => Ok(()),
            Err(error) => {
                owner.warn("FailedUpdateStatus", error.told());
                Err(error.told())
            }
        }
    }
}
