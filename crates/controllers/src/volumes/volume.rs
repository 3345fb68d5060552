//! Volumes.

use std::borrow::Cow;
use std::sync::Arc;

use k8s_openapi::api::core::v1::PersistentVolume;
use rkube_machinery::Text;
use rkube_machinery::quantity::Quantity;
use rkube_operator::events::Reference;
use rkube_operator::kube::core::ApiResource;
use rkube_operator::{Caches, Index, Informer, Item, Key, Selection};
use serde::Deserialize;

use super::{BETA_CLASS, BOUND_BY_CONTROLLER, Borrowed, Claim, Kind, Modes, RawAmounts, annotations, text};
use crate::metadata::{Labels, RawMetadata};

/// Keeps a volume of a plugin of Kubernetes' own until what it stands for is gone.
pub const IN_TREE_FINALIZER: &str = "kubernetes.io/pv-controller";
/// The same for one of somebody else's.
pub const EXTERNAL_FINALIZER: &str = "external-provisioner.volume.kubernetes.io/finalizer";

#[derive(Clone, Debug)]
pub struct Volume {
    /// The whole object is at hand, and shared with who has it anyway.
    pub item: Item,
    pub deleting: bool,
    pub labels: Arc<Labels>,
    /// Those that controllers of volumes know.
    pub annotations: Labels,
    pub claimant: Option<Claimant>,
    pub class: Text,
    pub attributes_class: Text,
    pub block: bool,
    pub modes: Modes,
    pub capacity: Quantity,
    pub phase: VolumePhase,
    pub reclaim_policy: Text,
    pub source: Source,
    pub in_tree_finalizer: bool,
    pub external_finalizer: bool,
}

/// The claim that a volume is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claimant {
    pub namespace: Text,
    pub name: Text,
    /// Empty: whichever has the name.
    pub uid: Text,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VolumePhase {
    #[default]
    None,
    Pending,
    Available,
    Bound,
    Released,
    Failed,
}

impl VolumePhase {
    pub fn as_str(self) -> &'static str {
        match self {
            VolumePhase::None => "",
            VolumePhase::Pending => "Pending",
            VolumePhase::Available => "Available",
            VolumePhase::Bound => "Bound",
            VolumePhase::Released => "Released",
            VolumePhase::Failed => "Failed",
        }
    }
}

/// What a volume stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    HostPath { path: Text },
    Nfs,
    Csi { driver: Text, handle: Text },
    Other,
}

/// All volumes.
pub fn volumes(caches: &Caches) -> Informer<Volume> {
    caches.view(&ApiResource::erase::<PersistentVolume>(&()), Selection::default(), Volume::read)
}

/// Volumes by the claim that they are for, whatever its uid.
pub struct ByClaimant;

impl Index<Volume> for ByClaimant {
    type Key = Text;

    fn keys(_: &Key, volume: &Volume) -> impl IntoIterator<Item = Text> {
        volume.claimant.as_ref().map(Claimant::path)
    }
}

impl Claimant {
    pub fn path(&self) -> Text {
        super::path(&self.namespace, &self.name)
    }

    pub fn key(&self) -> Key {
        super::key(&self.namespace, &self.name)
    }
}

impl Volume {
    pub fn read(item: &Item) -> Option<Volume> {
        let json = item.lean_json();
        let raw: Raw<'_> = match serde_json::from_str(&json) {
            Ok(raw) => raw,
            Err(error) => {
                tracing::error!(name = %item.name, %error, "a volume cannot be read and is left out");
                return None;
            }
        };
        let Raw { metadata, spec, status } = raw;
        let annotations = annotations(&metadata.annotations);
        let class = annotations.get(BETA_CLASS).map_or_else(|| text(spec.class.as_ref()), Text::new);
        let phase = match status.phase.as_deref() {
            Some("Pending") => VolumePhase::Pending,
            Some("Available") => VolumePhase::Available,
            Some("Bound") => VolumePhase::Bound,
            Some("Released") => VolumePhase::Released,
            Some("Failed") => VolumePhase::Failed,
            _ => VolumePhase::None,
        };
        Some(Volume {
            item: item.clone(),
            deleting: metadata.deleted().is_some(),
            class,
            attributes_class: text(spec.volume_attributes_class_name.as_ref()),
            block: spec.volume_mode.as_deref() == Some("Block"),
            modes: Modes::read(spec.access_modes.iter().flatten().map(|mode| &*mode.0)),
            capacity: spec.capacity.as_ref().map_or(Quantity::ZERO, RawAmounts::read),
            phase,
            reclaim_policy: text(spec.reclaim_policy.as_ref()),
            source: spec.source(),
            claimant: spec.claim_ref.map(RawClaimant::read),
            in_tree_finalizer: metadata.has_finalizer(IN_TREE_FINALIZER),
            external_finalizer: metadata.has_finalizer(EXTERNAL_FINALIZER),
            labels: metadata.labels.to_labels().shared(),
            annotations,
        })
    }

    pub fn kind(&self) -> Kind {
        let (class, attributes_class) = (self.class.clone(), self.attributes_class.clone());
        Kind { class, attributes_class, block: self.block }
    }

    /// Whether anybody may have it.
    pub fn is_free(&self) -> bool {
        self.claimant.is_none() && self.phase == VolumePhase::Available && !self.deleting
    }

    /// Whether anybody may have it once its first phase is written.
    pub fn will_be_free(&self) -> bool {
        self.claimant.is_none() && matches!(self.phase, VolumePhase::None | VolumePhase::Pending) && !self.deleting
    }

    /// Whether it is this claim's, or kept for it.
    pub fn is_for(&self, claim: &Claim) -> bool {
        self.claimant.as_ref().is_some_and(|claimant| {
            claimant.name == claim.item.name
                && claimant.namespace == claim.item.namespace
                && (claimant.uid.is_empty() || claimant.uid == claim.item.uid)
        })
    }

    pub fn is_bound_by_controller(&self) -> bool {
        self.annotations.get(BOUND_BY_CONTROLLER).is_some()
    }

    pub fn url(&self) -> String {
        format!("/api/v1/persistentvolumes/{}", self.item.name)
    }

    pub fn reference(&self) -> Reference {
        Reference {
            api_version: "v1".into(),
            kind: "PersistentVolume".into(),
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
    claim_ref: Option<RawClaimant<'a>>,
    #[serde(borrow, rename = "storageClassName")]
    class: Option<Cow<'a, str>>,
    #[serde(borrow)]
    volume_attributes_class_name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    volume_mode: Option<Cow<'a, str>>,
    #[serde(borrow)]
    access_modes: Option<Vec<Borrowed<'a>>>,
    #[serde(borrow)]
    capacity: Option<RawAmounts<'a>>,
    #[serde(borrow, rename = "persistentVolumeReclaimPolicy")]
    reclaim_policy: Option<Cow<'a, str>>,
    #[serde(borrow)]
    host_path: Option<RawHostPath<'a>>,
    nfs: Option<serde::de::IgnoredAny>,
    #[serde(borrow)]
    csi: Option<RawCsi<'a>>,
}

impl RawSpec<'_> {
    fn source(&self) -> Source {
        match (&self.host_path, &self.nfs, &self.csi) {
            (Some(host_path), ..) => Source::HostPath { path: Text::new(&host_path.path) },
            (_, Some(_), _) => Source::Nfs,
            (.., Some(csi)) => Source::Csi { driver: Text::new(&csi.driver), handle: Text::new(&csi.volume_handle) },
            _ => Source::Other,
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawClaimant<'a> {
    #[serde(borrow)]
    namespace: Option<Cow<'a, str>>,
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    uid: Option<Cow<'a, str>>,
}

impl RawClaimant<'_> {
    fn read(self) -> Claimant {
        Claimant {
            namespace: text(self.namespace.as_ref()),
            name: text(self.name.as_ref()),
            uid: text(self.uid.as_ref()),
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawHostPath<'a> {
    #[serde(borrow)]
    path: Cow<'a, str>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawCsi<'a> {
    #[serde(borrow)]
    driver: Cow<'a, str>,
    #[serde(borrow)]
    volume_handle: Cow<'a, str>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawStatus<'a> {
    #[serde(borrow)]
    phase: Option<Cow<'a, str>>,
}
