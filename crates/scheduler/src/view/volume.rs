//! What the scheduler knows of a PersistentVolume, and of a StorageClass.

use rkube_machinery::Text;
use rkube_machinery::quantity::Quantity;
use rkube_operator::Item;
use serde::Deserialize;

use super::claim::CLASS_BEFORE;
use super::json::{Word, Words};
use super::terms::{Requirement, SelectorJson, Term};

/// Says that it was not a person who bound a volume.
pub const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Volume {
    pub name: Text,
    pub uid: Text,
    /// At which it was like this.
    pub revision: u64,
    /// By name.
    pub labels: Vec<(Text, Text)>,
    pub is_terminating: bool,
    pub is_available: bool,
    pub is_bound_by_controller: bool,
    /// Empty: none.
    pub class: Text,
    /// In bytes.
    pub capacity: i64,
    pub access_modes: AccessModes,
    pub is_block: bool,
    /// Empty: none.
    pub attributes_class: Text,
    /// None: any node can reach it. An empty list: none can.
    pub node_affinity: Option<Vec<Term>>,
    pub claim: Option<ClaimReference>,
    pub csi: Option<CsiVolume>,
}

/// For which claim a volume is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimReference {
    pub namespace: Text,
    pub name: Text,
    /// Empty where a person has said which claim is to have it.
    pub uid: Text,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsiVolume {
    pub driver: Text,
    pub handle: Text,
}

/// A set of access modes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccessModes(u8);

impl AccessModes {
    pub const READ_WRITE_ONCE_POD: AccessModes = AccessModes(1 << 3);

    pub(super) fn read(modes: &[Word]) -> AccessModes {
        let one = |mode: &Word| match mode.0.as_str() {
            "ReadWriteOnce" => 1,
            "ReadOnlyMany" => 1 << 1,
            "ReadWriteMany" => 1 << 2,
            "ReadWriteOncePod" => AccessModes::READ_WRITE_ONCE_POD.0,
            _ => 1 << 7,
        };
        AccessModes(modes.iter().map(one).fold(0, |all, one| all | one))
    }

    /// Whether all of the others are among them.
    pub fn contains(self, others: AccessModes) -> bool {
        self.0 & others.0 == others.0
    }
}

impl Volume {
    pub fn of(item: &Item) -> Option<Volume> {
        let json: VolumeJson<'_> = match serde_json::from_slice(&item.json) {
            Ok(json) => json,
            Err(error) => {
                tracing::error!(name = %item.name, %error, "a volume cannot be read and is left out");
                return None;
            }
        };
        let VolumeJson { metadata, spec, status } = json;
        let annotation = |key: &str| metadata.annotations.get(key);
        let capacity = spec.capacity.storage.as_ref().and_then(|text| Quantity::parse(&text.0).ok());
        let required = spec.node_affinity.and_then(|affinity| affinity.required);
        Some(Volume {
            name: item.name.clone(),
            uid: item.uid.clone(),
            revision: item.revision,
            is_terminating: metadata.deletion_timestamp.is_some(),
            is_available: status.phase.0 == "Available",
            is_bound_by_controller: annotation(BOUND_BY_CONTROLLER).is_some(),
            class: annotation(CLASS_BEFORE).unwrap_or(&spec.storage_class_name.0).clone(),
            capacity: capacity.map_or(0, |amount| amount.value()),
            access_modes: AccessModes::read(&spec.access_modes),
            is_block: spec.volume_mode.0 == "Block",
            attributes_class: spec.volume_attributes_class_name.0,
            node_affinity: required.as_ref().map(SelectorJson::read),
            claim: spec.claim_ref.map(|claim| ClaimReference {
                namespace: claim.namespace.0,
                name: claim.name.0,
                uid: claim.uid.0,
            }),
            csi: spec.csi.map(|csi| CsiVolume { driver: csi.driver.0, handle: csi.volume_handle.0 }),
            labels: metadata.labels.0,
        })
    }

    pub fn label(&self, key: &str) -> Option<&str> {
        let place = self.labels.binary_search_by(|(known, _)| known.as_str().cmp(key)).ok()?;
        Some(&self.labels[place].1)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StorageClass {
    pub name: Text,
    pub provisioner: Text,
    /// Volumes are bound when the first pod that uses them is scheduled.
    pub waits_for_consumer: bool,
    /// None: volumes can be made for any node.
    pub topologies: Option<Vec<Term>>,
}

impl StorageClass {
    pub fn of(item: &Item) -> Option<StorageClass> {
        let json: ClassJson = match serde_json::from_slice(&item.json) {
            Ok(json) => json,
            Err(error) => {
                tracing::error!(name = %item.name, %error, "a storage class cannot be read and is left out");
                return None;
            }
        };
        let term = |term: &TopologyJson| {
            let one = |label: &TopologyLabel| {
                let values = label.values.iter().map(|value| value.0.clone()).collect();
                Requirement::any_of(label.key.0.clone(), values)
            };
            Term { labels: term.match_label_expressions.iter().map(one).collect(), fields: Vec::new() }
        };
        // A term that asks for nothing matches nothing.
        let terms = json.allowed_topologies.iter().filter(|term| !term.match_label_expressions.is_empty());
        Some(StorageClass {
            name: item.name.clone(),
            provisioner: json.provisioner.0,
            waits_for_consumer: json.volume_binding_mode.0 == "WaitForFirstConsumer",
            topologies: (!json.allowed_topologies.is_empty()).then(|| terms.map(term).collect()),
        })
    }
}

impl Words {
    pub(super) fn get(&self, key: &str) -> Option<&Text> {
        let place = self.0.binary_search_by(|(known, _)| known.as_str().cmp(key)).ok()?;
        Some(&self.0[place].1)
    }
}

/// An amount of storage.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Storage {
    pub storage: Option<Word>,
}

#[derive(Deserialize)]
struct VolumeJson<'a> {
    #[serde(default)]
    metadata: Metadata,
    #[serde(borrow, default)]
    spec: Spec<'a>,
    #[serde(default)]
    status: Status,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    annotations: Words,
    labels: Words,
    deletion_timestamp: Option<serde::de::IgnoredAny>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec<'a> {
    storage_class_name: Word,
    volume_mode: Word,
    volume_attributes_class_name: Word,
    capacity: Storage,
    access_modes: Vec<Word>,
    #[serde(borrow)]
    node_affinity: Option<NodeAffinity<'a>>,
    claim_ref: Option<ClaimRefJson>,
    csi: Option<CsiJson>,
}

#[derive(Deserialize)]
struct NodeAffinity<'a> {
    #[serde(borrow, default)]
    required: Option<SelectorJson<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ClaimRefJson {
    namespace: Word,
    name: Word,
    uid: Word,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct CsiJson {
    driver: Word,
    volume_handle: Word,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    phase: Word,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ClassJson {
    #[serde(default)]
    provisioner: Word,
    #[serde(default)]
    volume_binding_mode: Word,
    #[serde(default)]
    allowed_topologies: Vec<TopologyJson>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TopologyJson {
    #[serde(default)]
    match_label_expressions: Vec<TopologyLabel>,
}

#[derive(Deserialize)]
struct TopologyLabel {
    #[serde(default)]
    key: Word,
    #[serde(default)]
    values: Vec<Word>,
}
