//! What is measured of pods and other objects, from the three APIs for it: `metrics.k8s.io`, `custom.metrics.k8s.io` and
//! `external.metrics.k8s.io`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use k8s_openapi::api::autoscaling::v2::{MetricIdentifier, MetricSpec, ObjectMetricSource};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use rkube_machinery::quantity::Quantity;
use rkube_machinery::{Text, time};
use rkube_operator::kube::{self, Client};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::horizontal_pod_autoscalers::calculate::{Figure, Figures};
use crate::horizontal_pod_autoscalers::propose::Measured;
use crate::horizontal_pod_autoscalers::target::Kinds;
use crate::requests;

const CUSTOM: &str = "custom.metrics.k8s.io";
const EXTERNAL: &str = "external.metrics.k8s.io/v1beta1";
/// Over which time a custom metric was measured that does not say so.
const WINDOW_SECONDS: i64 = 60;

/// Asks for metrics of a namespace.
pub struct Asked<'a> {
    pub client: &'a Client,
    pub kinds: &'a Kinds,
    pub namespace: &'a str,
    /// Which pods are meant, as text.
    pub selector: &'a str,
}

impl Asked<'_> {
    pub async fn measure(&self, metric: &MetricSpec) -> Result<Measured, String> {
        if let Some(source) = &metric.resource {
            self.resource(&source.name, None).await
        } else if let Some(source) = &metric.container_resource {
            self.resource(&source.name, Some(&source.container)).await
        } else if let Some(source) = &metric.pods {
            self.pods(&source.metric).await.map_err(custom)
        } else if let Some(source) = &metric.object {
            self.object(source).await.map_err(custom)
        } else if let Some(source) = &metric.external {
            self.external(&source.metric).await
        } else {
            Ok(Measured::Values(Vec::new()))
        }
    }

    async fn resource(&self, resource: &str, container: Option<&str>) -> Result<Measured, String> {
        let path = format!("/apis/metrics.k8s.io/v1beta1/namespaces/{}/pods", self.namespace);
        let list: Result<List<PodMetrics>, String> =
            self.get(&path, &[("labelSelector", self.selector)], "pods.metrics.k8s.io").await;
        let list = list.map_err(|error| format!("unable to fetch metrics from resource metrics API: {error}"))?;
        if list.items.is_empty() {
            return Err("no metrics returned from resource metrics API".to_owned());
        }
        let figures = list.items.iter().filter_map(|pod| {
            let value = match container {
                Some(name) => *pod.containers.iter().find(|one| one.name == name)?.milli().get(resource)?,
                None => pod.sum(resource)?,
            };
            Some((Text::new(&pod.metadata.name), pod.figure(value)))
        });
        Ok(Measured::Pods(figures.collect()))
    }

    async fn pods(&self, metric: &MetricIdentifier) -> Result<Measured, String> {
        let version = self.version().await?;
        let list = self.custom(&version, ("pods", "*"), metric, &[("labelSelector", self.selector)]).await?;
        if list.items.is_empty() {
            return Err("no metrics returned from custom metrics API".to_owned());
        }
        let figures: Figures = list.items.iter().map(MetricValue::figure).collect();
        Ok(Measured::Pods(figures))
    }

    async fn object(&self, source: &ObjectMetricSource) -> Result<Measured, String> {
        let about = &source.described_object;
        let group =
            about.api_version.as_deref().and_then(|version| version.split_once('/')).map_or("", |(group, _)| group);
        // That nobody serves metrics is told first.
        let version = self.version().await?;
        let list = if group.is_empty() && about.kind == "Namespace" {
            self.custom(&version, ("metrics", ""), &source.metric, &[]).await?
        } else {
            let place = self.kinds.of_kind(group, &about.kind).map_err(|error| {
                let kind = if group.is_empty() { about.kind.clone() } else { format!("{}.{group}", about.kind) };
                format!("unable to map kind {kind} to resource: {error}")
            })?;
            let resource = match place.group.as_str() {
                "" => place.plural,
                group => format!("{}.{group}", place.plural),
            };
            self.custom(&version, (&resource, &about.name), &source.metric, &[]).await?
        };
        match list.items.as_slice() {
            [value] => Ok(Measured::Values(vec![milli(&value.value)])),
            all => Err(format!(
                "the custom metrics API server returned {} results when we asked for exactly one",
                all.len()
            )),
        }
    }

    /// The version that whoever serves custom metrics prefers.
    async fn version(&self) -> Result<String, String> {
        let group = requests::get_value(self.client, &format!("/apis/{CUSTOM}")).await;
        match group.as_ref().map(|group| group["preferredVersion"]["version"].as_str()) {
            Ok(Some(version)) => Ok(version.to_owned()),
            Err(error) if !requests::is_not_found(error) => Err(requests::message_for(error, &format!("get {CUSTOM}"))),
            _ => Err(format!("no custom metrics API ({CUSTOM}) registered")),
        }
    }

    /// A metric of an object, or of all that are selected; of the namespace itself without a name.
    async fn custom(
        &self,
        version: &str,
        (resource, name): (&str, &str),
        metric: &MetricIdentifier,
        query: &[(&str, &str)],
    ) -> Result<List<MetricValue>, String> {
        let metric_path = if name.is_empty() { metric.name.clone() } else { format!("{name}/{}", metric.name) };
        let path = format!("/apis/{CUSTOM}/{version}/namespaces/{}/{resource}/{metric_path}", self.namespace);
        let selector = text(metric.selector.as_ref())?;
        let query: Vec<(&str, &str)> =
            query.iter().copied().chain([("metricLabelSelector", selector.as_str())]).collect();
        let asked = format!("{resource}.{CUSTOM} {}", if name.is_empty() { &metric.name } else { name });
        self.get(&path, &query, &asked).await
    }

    async fn external(&self, metric: &MetricIdentifier) -> Result<Measured, String> {
        let path = format!("/apis/{EXTERNAL}/namespaces/{}/{}", self.namespace, metric.name);
        let selector = text(metric.selector.as_ref())?;
        let asked = format!("{}.external.metrics.k8s.io", metric.name);
        let list: Result<List<ExternalValue>, String> = self.get(&path, &[("labelSelector", &selector)], &asked).await;
        let list = list.map_err(|error| format!("unable to fetch metrics from external metrics API: {error}"))?;
        if list.items.is_empty() {
            return Err("no metrics returned from external metrics API".to_owned());
        }
        Ok(Measured::Values(list.items.iter().map(|value| milli(&value.value)).collect()))
    }

    async fn get<T: DeserializeOwned>(&self, path: &str, query: &[(&str, &str)], asked: &str) -> Result<T, String> {
        let query = query.iter().filter(|(_, value)| !value.is_empty());
        let query: Vec<String> = query.map(|(name, value)| format!("{name}={}", encoded(value))).collect();
        let uri = if query.is_empty() { path.to_owned() } else { format!("{path}?{}", query.join("&")) };
        let request = http::Request::get(uri).body(Vec::new()).map_err(|error| error.to_string())?;
        let answer: Result<T, kube::Error> = self.client.request(request).await;
        answer.map_err(|error| requests::message_for(&error, &format!("get {asked}")))
    }
}

fn custom(error: String) -> String {
    match error.as_str() {
        "no metrics returned from custom metrics API" => error,
        _ => format!("unable to fetch metrics from custom metrics API: {error}"),
    }
}

#[derive(Deserialize)]
struct List<T> {
    #[serde(default = "Vec::new")]
    items: Vec<T>,
}

#[derive(Deserialize)]
struct PodMetrics {
    metadata: Named,
    #[serde(default)]
    timestamp: Option<String>,
    #[serde(default)]
    window: String,
    #[serde(default)]
    containers: Vec<ContainerMetrics>,
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

#[derive(Deserialize)]
struct ContainerMetrics {
    name: String,
    #[serde(default)]
    usage: BTreeMap<String, String>,
}

impl ContainerMetrics {
    fn milli(&self) -> BTreeMap<&str, i64> {
        self.usage.iter().map(|(resource, amount)| (resource.as_str(), milli(amount))).collect()
    }
}

impl PodMetrics {
    /// None where one of its containers does not say.
    fn sum(&self, resource: &str) -> Option<i64> {
        let amounts = self.containers.iter().map(|one| one.usage.get(resource).map(|amount| milli(amount)));
        let sum = amounts.sum::<Option<i64>>();
        sum.filter(|_| !self.containers.is_empty())
    }

    fn figure(&self, value: i64) -> Figure {
        let window_micros = time::parse_duration(&self.window).map_or(0, |nanos| nanos / 1000);
        Figure { value, at_micros: micros(self.timestamp.as_deref()), window_micros }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MetricValue {
    described_object: Named,
    #[serde(default)]
    timestamp: Option<String>,
    /// The first version of the API calls it otherwise.
    #[serde(default, alias = "window")]
    window_seconds: Option<i64>,
    value: String,
}

impl MetricValue {
    fn figure(&self) -> (Text, Figure) {
        let window_micros = self.window_seconds.unwrap_or(WINDOW_SECONDS).saturating_mul(1_000_000);
        let figure = Figure { value: milli(&self.value), at_micros: micros(self.timestamp.as_deref()), window_micros };
        (Text::new(&self.described_object.name), figure)
    }
}

#[derive(Deserialize)]
struct ExternalValue {
    value: String,
}

fn milli(quantity: &str) -> i64 {
    Quantity::parse(quantity).map_or(0, |quantity| quantity.milli_value())
}

fn micros(time: Option<&str>) -> i64 {
    let (seconds, nanos) = time.and_then(|text| time::parse(text).ok()).unwrap_or_default();
    seconds.saturating_mul(1_000_000).saturating_add(i64::from(nanos / 1000))
}

/// A selector in its usual text form. No selector asks for nothing in particular.
fn text(selector: Option<&LabelSelector>) -> Result<String, String> {
    use rkube_machinery::selector::labels::Selector;
    let Some(selector) = selector else { return Ok(String::new()) };
    let json = serde_json::to_vec(selector).map_err(|error| error.to_string())?;
    let value = rkube_machinery::json::parse(&json).map_err(|error| error.to_string())?;
    Selector::from_label_selector(&value).map(|selector| selector.to_string()).map_err(|error| error.to_string())
}

/// As it may stand in a query.
fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(byte.into());
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}
