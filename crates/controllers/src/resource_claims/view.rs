//! ResourceClaims as controllers see them.

use k8s_openapi::api::resource::v1::{self as resource, DeviceToleration};
use rkube_machinery::Text;
use rkube_operator::kube::core::ApiResource;
use rkube_operator::{Caches, Index, Informer, Item, Key, Selection};
use serde::Deserialize;

use crate::metadata::RawMetadata;
use crate::pods::Pod;

/// Keeps a claim for as long as it is allocated.
pub const FINALIZER: &str = "resource.kubernetes.io/delete-protection";
/// Names the claim of a pod that an object was made for.
pub const POD_CLAIM: &str = "resource.kubernetes.io/pod-claim-name";

#[derive(Clone, Debug)]
pub struct Claim {
    /// The whole object is at hand, and shared with who has it anyway.
    pub item: Item,
    pub deleted: bool,
    pub finalized: bool,
    /// Name and uid of the pod that controls it.
    pub pod: Option<(Text, Text)>,
    /// What the pod calls it that it was made for.
    pub pod_claim: Option<Text>,
    pub reserved_for: Box<[Consumer]>,
    /// The devices; None: it is not allocated.
    pub allocation: Option<Box<[Allocated]>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Consumer {
    pub api_group: Text,
    pub resource: Text,
    pub name: Text,
    pub uid: Text,
}

impl Consumer {
    pub fn is_pod(&self) -> bool {
        self.api_group.is_empty() && self.resource == "pods"
    }
}

/// A device that a claim got.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Allocated {
    pub driver: Text,
    pub pool: Text,
    pub device: Text,
    pub tolerations: Vec<DeviceToleration>,
}

impl Claim {
    pub fn is_of(&self, pod: &Pod) -> bool {
        self.item.namespace == pod.namespace && self.pod.as_ref().is_some_and(|(_, uid)| *uid == pod.uid)
    }

    pub fn is_reserved_for(&self, pod: &Pod) -> bool {
        self.reserved_for.iter().any(|consumer| consumer.uid == pod.uid)
    }

    pub fn read(item: &Item) -> Option<Claim> {
        let json = item.lean_json();
        let raw: Raw<'_> = match serde_json::from_str(&json) {
            Ok(raw) => raw,
            Err(error) => {
                tracing::error!(name = %item.name, %error, "a ResourceClaim cannot be read and is left out");
                return None;
            }
        };
        let Raw { metadata, status } = raw;
        let controller = metadata.controller();
        let pod = controller.as_ref().filter(|owner| owner.kind == "Pod" && owner.api_version == "v1");
        Some(Claim {
            item: item.clone(),
            deleted: metadata.deleted().is_some(),
            finalized: metadata.has_finalizer(FINALIZER),
            pod: pod.map(|owner| (owner.name.clone(), owner.uid.clone())),
            pod_claim: metadata.annotations.get(POD_CLAIM).map(Text::new),
            reserved_for: status.reserved_for.unwrap_or_default().into(),
            allocation: status.allocation.map(|allocation| allocation.devices.results.unwrap_or_default().into()),
        })
    }
}

/// Claims by the uid of the pod that controls them.
pub struct ByPod;

impl Index<Claim> for ByPod {
    type Key = Text;

    fn keys(_: &Key, claim: &Claim) -> impl IntoIterator<Item = Text> {
        claim.pod.as_ref().map(|(_, uid)| uid.clone())
    }
}

/// All claims.
pub fn claims(caches: &Caches) -> Informer<Claim> {
    caches.view(&ApiResource::erase::<resource::ResourceClaim>(&()), Selection::default(), Claim::read)
}

/// All templates, as they are.
pub fn templates(caches: &Caches) -> Informer<Item> {
    let resource = ApiResource::erase::<resource::ResourceClaimTemplate>(&());
    caches.view(&resource, Selection::default(), |item: &Item| Some(item.clone()))
}

#[derive(Deserialize)]
struct Raw<'a> {
    #[serde(borrow)]
    metadata: RawMetadata<'a>,
    #[serde(default)]
    status: RawStatus,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawStatus {
    reserved_for: Option<Vec<Consumer>>,
    allocation: Option<RawAllocation>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawAllocation {
    devices: RawResults,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawResults {
    results: Option<Vec<Allocated>>,
}
