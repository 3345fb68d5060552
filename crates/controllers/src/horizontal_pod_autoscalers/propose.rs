//! One metric of an autoscaler: how many replicas it asks for, what its status says, and the words for what went wrong.

use k8s_openapi::api::autoscaling::v2::{MetricIdentifier, MetricSpec, MetricTarget};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use rkube_machinery::quantity::{Format, Quantity};
use serde_json::{Value, json};

use crate::horizontal_pod_autoscalers::calculate::{Figures, Scaled, Wanted};
use crate::horizontal_pod_autoscalers::view::milli;

/// What was measured for a metric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Measured {
    Pods(Figures),
    /// In thousandths; several are added.
    Values(Vec<i64>),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Proposed {
    pub replicas: i32,
    pub name: String,
    pub status: Value,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub reason: &'static str,
    /// As it stands in the event and the condition.
    pub told: String,
    /// The same, with what it was for.
    pub error: String,
}

/// The metric, whatever could be measured of it, and the namespace of all.
pub fn propose(
    metric: &MetricSpec,
    measured: Result<Measured, String>,
    namespace: &str,
    scaled: &Scaled<'_>,
) -> Result<Proposed, Failure> {
    match metric.type_.as_str() {
        "Resource" => {
            let of = metric.resource.as_ref();
            let source = of.map(|of| Resource { name: &of.name, container: None, target: &of.target });
            source.map_or_else(|| Err(unknown(metric)), |source| source.propose(measured, scaled))
        }
        "ContainerResource" => {
            let of = metric.container_resource.as_ref();
            let source = of.map(|of| Resource { name: &of.name, container: Some(&of.container), target: &of.target });
            source.map_or_else(|| Err(unknown(metric)), |source| source.propose(measured, scaled))
        }
        "Pods" => pods(metric, measured, scaled),
        "Object" => object(metric, measured, namespace, scaled),
        "External" => external(metric, measured, namespace, scaled),
        _ => Err(unknown(metric)),
    }
}

/// Validation lets none of these through.
fn unknown(metric: &MetricSpec) -> Failure {
    let error = format!("unknown metric source type {:?}", metric.type_);
    Failure { reason: "InvalidMetricSourceType", told: error.clone(), error }
}

struct Resource<'a> {
    name: &'a str,
    /// None: of all containers together.
    container: Option<&'a str>,
    target: &'a MetricTarget,
}

impl Resource<'_> {
    fn propose(&self, measured: Result<Measured, String>, scaled: &Scaled<'_>) -> Result<Proposed, Failure> {
        let Resource { name, container, target } = self;
        let fail = |told: String| match container {
            None => Failure {
                reason: "FailedGetResourceMetric",
                error: format!("failed to get {name} resource metric value: {told}"),
                told,
            },
            Some(container) => Failure {
                reason: "FailedGetContainerResourceMetric",
                error: format!("failed to get {container} container metric value: {told}"),
                told,
            },
        };
        let unable = |error: String| format!("unable to get metrics for resource {name}: {error}");
        let figures = measured.map_err(unable).map(figures);
        let (wanted, described) = if let Some(average) = &target.average_value {
            let wanted = figures.and_then(|figures| scaled.by_average(figures, name, milli(average)));
            let wanted = wanted.map_err(|error| fail(format!("failed to get {name} usage: {error}")))?;
            (wanted, format!("{name} resource"))
        } else if let Some(percent) = target.average_utilization {
            let wanted = figures.and_then(|figures| scaled.by_utilization(figures, name, *container, percent));
            let wanted = wanted.map_err(|error| fail(format!("failed to get {name} utilization: {error}")))?;
            let of = if container.is_some() { "container resource" } else { "resource" };
            (wanted, format!("{name} {of} utilization (percentage of request)"))
        } else {
            let neither = "neither an average utilization target nor an average value (usage) target was set";
            return Err(fail(format!("invalid resource metric source: {neither}")));
        };
        Ok(Proposed { replicas: wanted.replicas, name: described, status: self.status(&wanted) })
    }

    fn status(&self, wanted: &Wanted) -> Value {
        let format = if self.name == "memory" { Format::BinarySi } else { Format::DecimalSi };
        let mut current = json!({ "averageValue": quantity(wanted.usage, format) });
        if let Some(percent) = wanted.utilization {
            current["averageUtilization"] = percent.into();
        }
        match self.container {
            None => json!({ "type": "Resource", "resource": { "name": self.name, "current": current } }),
            Some(container) => json!({
                "type": "ContainerResource",
                "containerResource": { "name": self.name, "container": container, "current": current },
            }),
        }
    }
}

fn pods(metric: &MetricSpec, measured: Result<Measured, String>, scaled: &Scaled<'_>) -> Result<Proposed, Failure> {
    let Some(source) = &metric.pods else { return Err(unknown(metric)) };
    let name = &source.metric.name;
    let fail = |told: String| Failure {
        reason: "FailedGetPodsMetric",
        error: format!("failed to get pods metric value: {told}"),
        told,
    };
    let target = source.target.average_value.as_ref().map_or(0, milli);
    let figures = measured.map_err(|error| format!("unable to get metric {name}: {error}")).map(figures);
    let wanted = figures.and_then(|figures| scaled.by_average(figures, "", target)).map_err(fail)?;
    let current = json!({ "averageValue": quantity(wanted.usage, Format::DecimalSi) });
    let status = json!({ "type": "Pods", "pods": { "metric": identifier(&source.metric), "current": current } });
    Ok(Proposed { replicas: wanted.replicas, name: format!("pods metric {name}"), status })
}

fn object(
    metric: &MetricSpec,
    measured: Result<Measured, String>,
    namespace: &str,
    scaled: &Scaled<'_>,
) -> Result<Proposed, Failure> {
    let Some(source) = &metric.object else { return Err(unknown(metric)) };
    let (name, about) = (&source.metric.name, &source.described_object);
    let fail = |told: String, error: String| Failure {
        reason: "FailedGetObjectMetric",
        error: format!("failed to get object metric value: {error}"),
        told,
    };
    // The words stand in upstream's order.
    let unable =
        |error: String| format!("unable to get metric {name}: {} on {namespace} {}/{error}", about.kind, about.name);
    let usage = measured.map_err(unable).map(sum);
    let (wanted, field, described) = match (source.target.type_.as_str(), &source.target) {
        ("Value", MetricTarget { value: Some(target), .. }) => {
            let wanted = usage.and_then(|usage| scaled.by_value(usage, milli(target)));
            let wanted = wanted.map_err(|told| fail(told.clone(), told))?;
            (wanted, "value", format!("{} metric {name}", about.kind))
        }
        ("AverageValue", MetricTarget { average_value: Some(target), .. }) => {
            let wanted = usage.map(|usage| scaled.by_value_per_pod(usage, milli(target)));
            let wrap = |told: String| fail(told.clone(), format!("failed to get {name} object metric: {told}"));
            (wanted.map_err(wrap)?, "averageValue", external_name(&source.metric))
        }
        _ => {
            let told = "invalid object metric source: neither a value target nor an average value target was set";
            return Err(fail(told.to_owned(), told.to_owned()));
        }
    };
    let status = json!({
        "type": "Object",
        "object": {
            "describedObject": about,
            "metric": identifier(&source.metric),
            "current": { field: quantity(wanted.usage, Format::DecimalSi) },
        },
    });
    Ok(Proposed { replicas: wanted.replicas, name: described, status })
}

fn external(
    metric: &MetricSpec,
    measured: Result<Measured, String>,
    namespace: &str,
    scaled: &Scaled<'_>,
) -> Result<Proposed, Failure> {
    let Some(source) = &metric.external else { return Err(unknown(metric)) };
    let name = &source.metric.name;
    let fail = |told: String, error: String| Failure {
        reason: "FailedGetExternalMetric",
        error: format!("failed to get {name} external metric value: {error}"),
        told,
    };
    let unable = |error: String| {
        format!(
            "unable to get external metric {namespace}/{name}/{}: {error}",
            go_text(source.metric.selector.as_ref())
        )
    };
    let usage = measured.map_err(unable).map(sum);
    let (wanted, field) = if let Some(target) = &source.target.average_value {
        let wanted = usage.map(|usage| scaled.by_value_per_pod(usage, milli(target)));
        let wrap = |told: String| fail(told.clone(), format!("failed to get {name} external metric: {told}"));
        (wanted.map_err(wrap)?, "averageValue")
    } else if let Some(target) = &source.target.value {
        let wanted = usage.and_then(|usage| scaled.by_value(usage, milli(target)));
        let wrap = |told: String| fail(told.clone(), format!("failed to get external metric {name}: {told}"));
        (wanted.map_err(wrap)?, "value")
    } else {
        let told = "invalid external metric source: neither a value target nor an average value target was set";
        return Err(fail(told.to_owned(), told.to_owned()));
    };
    let current = json!({ field: quantity(wanted.usage, Format::DecimalSi) });
    let status =
        json!({ "type": "External", "external": { "metric": identifier(&source.metric), "current": current } });
    Ok(Proposed { replicas: wanted.replicas, name: external_name(&source.metric), status })
}

fn figures(measured: Measured) -> Figures {
    match measured {
        Measured::Pods(figures) => figures,
        Measured::Values(_) => Figures::new(),
    }
}

fn sum(measured: Measured) -> i64 {
    match measured {
        Measured::Pods(_) => 0,
        Measured::Values(values) => values.into_iter().fold(0, i64::saturating_add),
    }
}

fn quantity(milli: i64, format: Format) -> String {
    Quantity::from_milli(milli, format).to_text().to_string()
}

fn identifier(metric: &MetricIdentifier) -> Value {
    let mut identifier = json!({ "name": metric.name });
    if let Some(selector) = &metric.selector {
        identifier["selector"] = serde_json::to_value(selector).unwrap_or_default();
    }
    identifier
}

fn external_name(metric: &MetricIdentifier) -> String {
    format!("external metric {}({})", metric.name, go_text(metric.selector.as_ref()))
}

/// A selector as Go prints it: it stands in messages.
fn go_text(selector: Option<&LabelSelector>) -> String {
    let Some(selector) = selector else { return "nil".to_owned() };
    let labels = selector.match_labels.iter().flatten();
    let labels: String = labels.map(|(key, value)| format!("{key}: {value},")).collect();
    let expressions = selector.match_expressions.iter().flatten().map(|one| {
        let values = one.values.as_deref().unwrap_or_default().join(" ");
        format!("LabelSelectorRequirement{{Key:{},Operator:{},Values:[{values}],}},", one.key, one.operator)
    });
    let expressions: String = expressions.collect();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},\
         MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
}
