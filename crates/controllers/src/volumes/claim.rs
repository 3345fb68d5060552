//! Claims.

use std::borrow::Cow;

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use rkube_machinery::Text;
use rkube_machinery::quantity::Quantity;
use rkube_machinery::selector::labels::Selector;
use rkube_operator::events::Reference;
use rkube_operator::kube::core::ApiResource;
use rkube_operator::{Caches, Index, Informer, Item, Key, Selection};
use serde::Deserialize;

use super::{
    BETA_CLASS, BIND_COMPLETED, BOUND_BY_CONTROLLER, Borrowed, Kind, Modes, RawAmounts, SELECTED_NODE, annotations,
    text,
};
use crate::metadata::{Labels, RawMetadata, RawSelector, read_selector};

#[derive(Clone, Debug)]
pub struct Claim {
    /// The whole object is at hand, and shared with who has it anyway.
    pub item: Item,
    pub deleting: bool,
    /// Those that controllers of volumes know.
    pub annotations: Labels,
    /// Empty until somebody says which volume it has.
    pub volume: Text,
    /// None: nobody said any. The empty one is no class, and is not to become any.
    pub class: Option<Text>,
    pub attributes_class: Text,
    pub block: bool,
    pub modes: Modes,
    pub request: Quantity,
    /// None: any volume will do.
    pub selector: Option<Selector>,
    pub phase: ClaimPhase,
    /// What it has by its status.
    pub capacity: Quantity,
    pub granted_modes: Modes,
    /// Whether the status says more than a phase.
    pub has_details: bool,
    /// The pod that it was made for.
    pub controller_uid: Option<Text>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClaimPhase {
    #[default]
    None,
    Pending,
    Bound,
    Lost,
}

impl ClaimPhase {
    pub fn as_str(self) -> &'static str {
        match self {
            ClaimPhase::None => "",
            ClaimPhase::Pending => "Pending",
            ClaimPhase::Bound => "Bound",
            ClaimPhase::Lost => "Lost",
        }
    }
}

/// All claims.
pub fn claims(caches: &Caches) -> Informer<Claim> {
    caches.view(&ApiResource::erase::<PersistentVolumeClaim>(&()), Selection::default(), Claim::read)
}

/// Claims without a volume, by their class.
pub struct Unbound;

impl Index<Claim> for Unbound {
    type Key = Text;

    fn keys(_: &Key, claim: &Claim) -> impl IntoIterator<Item = Text> {
        claim.is_unbound().then(|| Text::new(claim.class_name()))
    }
}

impl Claim {
    pub fn read(item: &Item) -> Option<Claim> {
        let json = item.lean_json();
        let raw: Raw<'_> = match serde_json::from_str(&json) {
            Ok(raw) => raw,
            Err(error) => {
                tracing::error!(name = %item.name, %error, "a claim cannot be read and is left out");
                return None;
            }
        };
        let Raw { metadata, spec, status } = raw;
        let annotations = annotations(&metadata.annotations);
        let class = annotations.get(BETA_CLASS).map(Text::new).or_else(|| spec.class.as_deref().map(Text::new));
        let phase = match status.phase.as_deref() {
            Some("Pending") => ClaimPhase::Pending,
            Some("Bound") => ClaimPhase::Bound,
            Some("Lost") => ClaimPhase::Lost,
            _ => ClaimPhase::None,
        };
        Some(Claim {
            item: item.clone(),
            deleting: metadata.deleted().is_some(),
            volume: text(spec.volume_name.as_ref()),
            class,
            attributes_class: text(spec.volume_attributes_class_name.as_ref()),
            block: spec.volume_mode.as_deref() == Some("Block"),
            modes: Modes::read(spec.access_modes.iter().flatten().map(|mode| &*mode.0)),
            request: spec.resources.unwrap_or_default().requests.unwrap_or_default().read(),
            selector: spec.selector.as_ref().map(|selector| read_selector(Some(selector))),
            phase,
            has_details: status.access_modes.is_some()
                || status.capacity.is_some()
                || status.current_volume_attributes_class_name.is_some(),
            granted_modes: Modes::read(status.access_modes.iter().flatten().map(|mode| &*mode.0)),
            capacity: status.capacity.unwrap_or_default().read(),
            controller_uid: metadata.controller().map(|owner| owner.uid.clone()),
            annotations,
        })
    }

    pub fn class_name(&self) -> &str {
        self.class.as_deref().unwrap_or_default()
    }

    pub fn kind(&self) -> Kind {
        let (class, attributes_class) = (Text::new(self.class_name()), self.attributes_class.clone());
        Kind { class, attributes_class, block: self.block }
    }

    /// Whether it was given a volume once, whatever became of that.
    pub fn is_bound_for_good(&self) -> bool {
        self.annotations.get(BIND_COMPLETED).is_some()
    }

    pub fn is_bound_by_controller(&self) -> bool {
        self.annotations.get(BOUND_BY_CONTROLLER).is_some()
    }

    /// Whether any volume may become its own.
    pub fn is_unbound(&self) -> bool {
        self.volume.is_empty() && !self.is_bound_for_good()
    }

    /// The node that the scheduler found for the pod that waits for it.
    pub fn selected_node(&self) -> Option<&str> {
        self.annotations.get(SELECTED_NODE)
    }

    pub fn key(&self) -> Key {
        super::key(&self.item.namespace, &self.item.name)
    }

    pub fn path(&self) -> Text {
        super::path(&self.item.namespace, &self.item.name)
    }

    /// Where it is served.
    pub fn url(&self) -> String {
        format!("/api/v1/namespaces/{}/persistentvolumeclaims/{}", self.item.namespace, self.item.name)
    }

    pub fn reference(&self) -> Reference {
        Reference {
            api_version: "v1".into(),
            kind: "PersistentVolumeClaim".into(),
            namespace: self.item.namespace.clone(),
            name: self.item.name.clone(),
            uid: self.item.uid.clone(),
            resource_version: self.item.revision.to_string().into(),
            ..Reference::default()
        }
    }
}

#[derive(Deserialize)]
struct Raw<'a> {
    #[serde(borrow, default)]
    metadata: RawMetadata<'a>,
    #[serde(borrow, default)]
    spec: RawSpec<'a>,
    #[serde(borrow, default)]
    status: RawStatus<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawSpec<'a> {
    #[serde(borrow)]
    volume_name: Option<Cow<'a, str>>,
    #[serde(borrow, rename = "storageClassName")]
    class: Option<Cow<'a, str>>,
    #[serde(borrow)]
    volume_attributes_class_name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    volume_mode: Option<Cow<'a, str>>,
    #[serde(borrow)]
    access_modes: Option<Vec<Borrowed<'a>>>,
    #[serde(borrow)]
    resources: Option<RawResources<'a>>,
    #[serde(borrow)]
    selector: Option<RawSelector<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawResources<'a> {
    #[serde(borrow)]
    requests: Option<RawAmounts<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawStatus<'a> {
    #[serde(borrow)]
    phase: Option<Cow<'a, str>>,
    #[serde(borrow)]
    access_modes: Option<Vec<Borrowed<'a>>>,
    #[serde(borrow)]
    capacity: Option<RawAmounts<'a>>,
    #[serde(borrow)]
    current_volume_attributes_class_name: Option<Cow<'a, str>>,
}
