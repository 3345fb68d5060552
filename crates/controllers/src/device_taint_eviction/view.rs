//! ResourceSlices as far as their devices have taints that pods do not survive.

use k8s_openapi::api::resource::v1 as resource;
use rkube_machinery::Text;
use rkube_operator::kube::core::ApiResource;
use rkube_operator::{Caches, Index, Informer, Item, Key, Selection};
use serde::Deserialize;

use crate::metadata::seconds;
use crate::resource_claims::view::Claim;

/// Driver and pool.
pub type Pool = (Text, Text);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slice {
    pub pool: Pool,
    /// Of a pool only the slices of the last generation count.
    pub generation: i64,
    /// Devices with taints of the effect `NoExecute`.
    pub tainted: Box<[(Text, Box<[Taint]>)]>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taint {
    pub key: Text,
    pub value: Text,
    /// Seconds since 1970.
    pub added: Option<i64>,
}

pub fn slices(caches: &Caches) -> Informer<Slice> {
    let resource = ApiResource::erase::<resource::ResourceSlice>(&());
    caches.view(&resource, Selection::default(), Slice::read).indexed::<ByPool>()
}

/// Slices by their pool.
pub struct ByPool;

impl Index<Slice> for ByPool {
    type Key = Pool;

    fn keys(_: &Key, slice: &Slice) -> impl IntoIterator<Item = Pool> {
        Some(slice.pool.clone())
    }
}

/// Claims by the pools that they have devices of.
pub struct ByAllocation;

impl Index<Claim> for ByAllocation {
    type Key = Pool;

    fn keys(_: &Key, claim: &Claim) -> impl IntoIterator<Item = Pool> {
        let devices = claim.allocation.iter().flatten();
        let mut pools: Vec<Pool> = devices.map(|device| (device.driver.clone(), device.pool.clone())).collect();
        pools.sort();
        pools.dedup();
        pools
    }
}

impl Slice {
    pub fn read(item: &Item) -> Option<Slice> {
        let Raw { spec } = match item.parse() {
            Ok(raw) => raw,
            Err(error) => {
                tracing::error!(name = %item.name, %error, "a ResourceSlice cannot be read and is left out");
                return None;
            }
        };
        let tainted = spec.devices.unwrap_or_default().into_iter().filter_map(|device| {
            let evicting = device.taints.unwrap_or_default().into_iter().filter(|taint| taint.effect == "NoExecute");
            let taints: Box<[Taint]> = evicting
                .map(|taint| Taint { key: taint.key, value: taint.value, added: seconds(taint.time_added.as_deref()) })
                .collect();
            (!taints.is_empty()).then_some((device.name, taints))
        });
        let tainted = tainted.collect();
        Some(Slice { pool: (spec.driver, spec.pool.name), generation: spec.pool.generation, tainted })
    }
}

#[derive(Deserialize)]
struct Raw {
    #[serde(default)]
    spec: RawSpec,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawSpec {
    driver: Text,
    pool: RawPool,
    devices: Option<Vec<RawDevice>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawPool {
    name: Text,
    generation: i64,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawDevice {
    name: Text,
    taints: Option<Vec<RawTaint>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawTaint {
    key: Text,
    value: Text,
    effect: Text,
    time_added: Option<String>,
}
