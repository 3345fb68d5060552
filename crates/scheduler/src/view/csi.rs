//! What the scheduler knows of drivers of volumes: on which nodes they are and how many volumes they can attach there,
//! what is attached, and how much room there is for more.

use rkube_machinery::Text;
use rkube_machinery::quantity::Quantity;
use rkube_operator::Item;
use serde::Deserialize;

use super::json::Word;
use super::terms::{LabelSelectorJson, Term};

/// How many volumes of which driver a node can have; named like the node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CsiNode {
    pub name: Text,
    /// Drivers without a limit are not there.
    pub limits: Vec<(Text, i64)>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CsiDriver {
    pub name: Text,
    /// It says how much room there is: nodes without enough of it are not asked to make volumes.
    pub tells_capacity: bool,
}

/// How much room a class has somewhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capacity {
    pub namespace: Text,
    pub name: Text,
    pub class: Text,
    /// The greatest volume, in bytes. None: no room.
    pub limit: Option<i64>,
    /// The nodes that reach it; None: none.
    pub nodes: Option<Term>,
}

/// That a volume is attached to a node, or is to be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attachment {
    pub name: Text,
    pub node: Text,
    /// The driver.
    pub attacher: Text,
    /// Empty where a pod names it itself.
    pub volume: Text,
}

fn read<'a, T: Deserialize<'a>>(item: &'a Item, what: &str) -> Option<T> {
    match serde_json::from_slice(&item.json) {
        Ok(json) => Some(json),
        Err(error) => {
            tracing::error!(name = %item.name, %error, "{what} cannot be read and is left out");
            None
        }
    }
}

impl CsiNode {
    pub fn of(item: &Item) -> Option<CsiNode> {
        let json: CsiNodeJson = read(item, "a CSINode")?;
        let limits = json.spec.drivers.into_iter().flatten();
        let limits = limits.filter_map(|driver| Some((driver.name.0, driver.allocatable?.count?)));
        Some(CsiNode { name: item.name.clone(), limits: limits.collect() })
    }

    pub fn limit(&self, driver: &str) -> Option<i64> {
        self.limits.iter().find(|(known, _)| known == driver).map(|(_, limit)| *limit)
    }
}

impl CsiDriver {
    pub fn of(item: &Item) -> Option<CsiDriver> {
        let json: CsiDriverJson = read(item, "a CSIDriver")?;
        Some(CsiDriver { name: item.name.clone(), tells_capacity: json.spec.storage_capacity.unwrap_or(false) })
    }
}

impl Capacity {
    pub fn of(item: &Item) -> Option<Capacity> {
        let json: CapacityJson<'_> = read(item, "a CSIStorageCapacity")?;
        let limit = json.maximum_volume_size.or(json.capacity);
        Some(Capacity {
            namespace: item.namespace.clone(),
            name: item.name.clone(),
            class: json.storage_class_name.0,
            limit: limit.and_then(|text| Quantity::parse(&text.0).ok()).map(|amount| amount.value()),
            nodes: json.node_topology.and_then(|selector| selector.read()),
        })
    }
}

impl Attachment {
    pub fn of(item: &Item) -> Option<Attachment> {
        let json: AttachmentJson = read(item, "a VolumeAttachment")?;
        Some(Attachment {
            name: item.name.clone(),
            node: json.spec.node_name.0,
            attacher: json.spec.attacher.0,
            volume: json.spec.source.persistent_volume_name.0,
        })
    }
}

#[derive(Deserialize)]
struct CsiNodeJson {
    #[serde(default)]
    spec: CsiNodeSpec,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct CsiNodeSpec {
    /// `null` where there is none.
    drivers: Option<Vec<DriverJson>>,
}

#[derive(Deserialize)]
struct DriverJson {
    #[serde(default)]
    name: Word,
    #[serde(default)]
    allocatable: Option<Allocatable>,
}

#[derive(Deserialize)]
struct Allocatable {
    #[serde(default)]
    count: Option<i64>,
}

#[derive(Deserialize)]
struct CsiDriverJson {
    #[serde(default)]
    spec: CsiDriverSpec,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct CsiDriverSpec {
    storage_capacity: Option<bool>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CapacityJson<'a> {
    #[serde(default)]
    storage_class_name: Word,
    #[serde(default)]
    maximum_volume_size: Option<Word>,
    #[serde(default)]
    capacity: Option<Word>,
    #[serde(borrow, default)]
    node_topology: Option<LabelSelectorJson<'a>>,
}

#[derive(Deserialize)]
struct AttachmentJson {
    #[serde(default)]
    spec: AttachmentSpec,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct AttachmentSpec {
    node_name: Word,
    attacher: Word,
    source: SourceJson,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SourceJson {
    persistent_volume_name: Word,
}
