//! What the scheduler knows of a PersistentVolumeClaim.

use rkube_machinery::Text;
use rkube_machinery::quantity::Quantity;
use rkube_operator::Item;
use serde::Deserialize;

use super::json::{Word, Words};
use super::terms::{LabelSelectorJson, Term};
use super::volume::{AccessModes, Storage};

/// Says that a claim has its volume, whatever its phase says.
pub const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// For which node a volume is to be made.
pub const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// How a class was named before there was a field for it; it still comes first.
pub(super) const CLASS_BEFORE: &str = "volume.beta.kubernetes.io/storage-class";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claim {
    pub namespace: Text,
    pub name: Text,
    pub uid: Text,
    /// At which it was like this.
    pub revision: u64,
    /// The object that it was made for.
    pub controller: Text,
    pub is_terminating: bool,
    pub is_lost: bool,
    pub is_bind_completed: bool,
    pub selected_node: Option<Text>,
    /// Empty: none.
    pub class: Text,
    /// Empty: none yet.
    pub volume: Text,
    /// In bytes.
    pub request: Option<i64>,
    pub access_modes: AccessModes,
    pub is_block: bool,
    /// Empty: none.
    pub attributes_class: Text,
    pub selector: Option<Selector>,
}

/// What a claim asks of a volume's labels; None: it cannot be read and nothing matches it.
pub type Selector = Option<Term>;

impl Claim {
    pub fn of(item: &Item) -> Option<Claim> {
        let json: ClaimJson<'_> = match serde_json::from_slice(&item.json) {
            Ok(json) => json,
            Err(error) => {
                tracing::error!(namespace = %item.namespace, name = %item.name, %error, "a claim cannot be read and is left out");
                return None;
            }
        };
        let annotation = |key: &str| json.metadata.annotations.get(key);
        let controller = json.metadata.owner_references.iter().find(|owner| owner.controller);
        let spec = &json.spec;
        let request = spec.resources.requests.storage.as_ref().and_then(|text| Quantity::parse(&text.0).ok());
        Some(Claim {
            namespace: item.namespace.clone(),
            name: item.name.clone(),
            uid: item.uid.clone(),
            revision: item.revision,
            controller: controller.map(|owner| owner.uid.0.clone()).unwrap_or_default(),
            is_terminating: json.metadata.deletion_timestamp.is_some(),
            is_lost: json.status.phase.0 == "Lost",
            is_bind_completed: annotation(BIND_COMPLETED).is_some(),
            selected_node: annotation(SELECTED_NODE).cloned(),
            class: annotation(CLASS_BEFORE).unwrap_or(&spec.storage_class_name.0).clone(),
            volume: spec.volume_name.0.clone(),
            request: request.map(|amount| amount.value()),
            access_modes: AccessModes::read(&spec.access_modes),
            is_block: spec.volume_mode.0 == "Block",
            attributes_class: spec.volume_attributes_class_name.0.clone(),
            selector: spec.selector.as_ref().map(LabelSelectorJson::read),
        })
    }

    /// Whether it has its volume, and both know.
    pub fn is_bound(&self) -> bool {
        self.is_bind_completed && !self.volume.is_empty()
    }
}

#[derive(Deserialize)]
struct ClaimJson<'a> {
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
    deletion_timestamp: Option<serde::de::IgnoredAny>,
    owner_references: Vec<Owner>,
}

#[derive(Deserialize)]
struct Owner {
    #[serde(default)]
    uid: Word,
    #[serde(default)]
    controller: bool,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec<'a> {
    storage_class_name: Word,
    volume_name: Word,
    volume_mode: Word,
    volume_attributes_class_name: Word,
    access_modes: Vec<Word>,
    resources: Resources,
    #[serde(borrow)]
    selector: Option<LabelSelectorJson<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Resources {
    requests: Storage,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    phase: Word,
}
