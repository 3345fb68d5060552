//! HorizontalPodAutoscalers as their controller sees them.

use k8s_openapi::api::autoscaling::v2;
use rkube_machinery::quantity::Quantity;
use rkube_operator::kube::core::ApiResource;
use rkube_operator::{Caches, Informer, Item, Selection};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::conditions::Condition;

#[derive(Clone, Debug)]
pub struct Autoscaler {
    /// The whole object is at hand, and shared with who has it anyway.
    pub item: Item,
    pub spec: v2::HorizontalPodAutoscalerSpec,
    pub status: Status,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Status {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_scale_time: Option<String>,
    #[serde(skip_serializing_if = "is_zero")]
    pub current_replicas: i32,
    pub desired_replicas: i32,
    #[serde(deserialize_with = "metrics")]
    pub current_metrics: Option<Vec<Value>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_zero(number: &i32) -> bool {
    *number == 0
}

/// None and an empty list are the same, and so are an empty type and none.
fn metrics<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<Value>>, D::Error> {
    let mut metrics = Option::<Vec<Value>>::deserialize(deserializer)?.filter(|metrics| !metrics.is_empty());
    for metric in metrics.iter_mut().flatten().filter_map(Value::as_object_mut) {
        metric.entry("type").or_insert_with(|| "".into());
    }
    Ok(metrics)
}

/// All autoscalers.
pub fn autoscalers(caches: &Caches) -> Informer<Autoscaler> {
    let resource = ApiResource::erase::<v2::HorizontalPodAutoscaler>(&());
    caches.view(&resource, Selection::default(), Autoscaler::read)
}

impl Autoscaler {
    pub fn read(item: &Item) -> Option<Autoscaler> {
        #[derive(Deserialize)]
        struct Raw {
            #[serde(default)]
            spec: v2::HorizontalPodAutoscalerSpec,
            #[serde(default)]
            status: Status,
        }
        match item.parse::<Raw>() {
            Ok(Raw { spec, status }) => Some(Autoscaler { item: item.clone(), spec, status }),
            Err(error) => {
                tracing::error!(name = %item.name, %error, "an autoscaler cannot be read and is left out");
                None
            }
        }
    }

    pub fn min_replicas(&self) -> i32 {
        self.spec.min_replicas.unwrap_or(1)
    }

    pub fn metrics(&self) -> &[v2::MetricSpec] {
        self.spec.metrics.as_deref().unwrap_or_default()
    }
}

/// In thousandths. What cannot be read was not stored.
pub fn milli(quantity: &k8s_openapi::apimachinery::pkg::api::resource::Quantity) -> i64 {
    Quantity::parse(&quantity.0).map_or(0, |quantity| quantity.milli_value())
}
