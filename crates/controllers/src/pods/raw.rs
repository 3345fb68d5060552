//! Pods as they stand in JSON, as far as they are read.

use std::borrow::Cow;

use rkube_machinery::Text;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::metadata::RawMetadata;

#[derive(Deserialize)]
pub struct Raw<'a> {
    #[serde(borrow)]
    pub metadata: RawMetadata<'a>,
    #[serde(borrow, default)]
    pub spec: RawSpec<'a>,
    #[serde(borrow, default)]
    pub status: RawStatus<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RawSpec<'a> {
    #[serde(borrow)]
    pub node_name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub hostname: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub subdomain: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub containers: Option<Vec<RawContainer<'a>>>,
    #[serde(borrow)]
    pub init_containers: Option<Vec<RawContainer<'a>>>,
    #[serde(borrow)]
    pub volumes: Option<Vec<RawVolume<'a>>>,
    #[serde(borrow)]
    pub resource_claims: Option<Vec<RawDeviceClaim<'a>>>,
    #[serde(borrow)]
    pub resources: Option<RawResources<'a>>,
    #[serde(borrow)]
    pub overhead: Option<&'a RawValue>,
    #[serde(borrow)]
    pub tolerations: Option<Vec<RawToleration<'a>>>,
    /// Hardly anybody looks into it.
    #[serde(borrow)]
    affinity: Option<&'a RawValue>,
}

impl<'a> RawSpec<'a> {
    pub fn is_sidecar(&self, name: &str) -> bool {
        self.sidecars().any(|container| container.name == name)
    }

    /// The node that the pod is on, or the only one that it may be on; empty: there is none.
    pub fn target(&self) -> Text {
        if let Some(node) = self.node_name.as_deref().filter(|node| !node.is_empty()) {
            return Text::new(node);
        }
        let affinity = self.affinity.and_then(|raw| serde_json::from_str::<RawAffinity<'_>>(raw.get()).ok());
        let terms = affinity.and_then(|affinity| affinity.node_affinity?.required?.node_selector_terms);
        let fields = terms.iter().flatten().flat_map(|term| term.match_fields.iter().flatten());
        let named = fields.filter(|field| field.key == "metadata.name" && field.operator == "In");
        match named.map(|field| field.values.as_slice()).next() {
            Some([name]) => Text::new(&name.0),
            _ => Text::default(),
        }
    }

    pub fn claims(&self) -> impl Iterator<Item = (Text, Text)> {
        let volumes = self.volumes.iter().flatten();
        volumes.filter_map(|volume| {
            let claim = volume.persistent_volume_claim.as_ref()?;
            Some((Text::new(&volume.name), Text::new(&claim.claim_name)))
        })
    }

    /// The volumes that live as long as the pod, and get claims of their own.
    pub fn ephemeral(&self) -> impl Iterator<Item = Text> {
        let volumes = self.volumes.iter().flatten();
        volumes.filter(|volume| volume.ephemeral.is_some()).map(|volume| Text::new(&volume.name))
    }

    pub fn sidecars(&self) -> impl Iterator<Item = &RawContainer<'a>> {
        let containers = self.init_containers.iter().flatten();
        containers.filter(|container| container.restart_policy.as_deref() == Some("Always"))
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RawVolume<'a> {
    #[serde(borrow, default)]
    pub name: Cow<'a, str>,
    #[serde(borrow, default)]
    pub persistent_volume_claim: Option<RawClaim<'a>>,
    #[serde(default)]
    pub ephemeral: Option<serde::de::IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RawClaim<'a> {
    #[serde(borrow, default)]
    pub claim_name: Cow<'a, str>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RawContainer<'a> {
    #[serde(borrow)]
    pub name: Cow<'a, str>,
    #[serde(borrow, default)]
    pub restart_policy: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub ports: Option<Vec<RawPort<'a>>>,
    #[serde(borrow, default)]
    pub resources: Option<RawResources<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub struct RawResources<'a> {
    #[serde(borrow)]
    pub requests: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RawPort<'a> {
    #[serde(borrow)]
    pub name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub protocol: Option<Cow<'a, str>>,
    pub container_port: i32,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RawStatus<'a> {
    #[serde(borrow)]
    pub phase: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub reason: Option<Cow<'a, str>>,
    #[serde(borrow, rename = "podIPs")]
    pub pod_ips: Option<Vec<RawAddress<'a>>>,
    #[serde(borrow)]
    pub start_time: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub conditions: Option<Vec<RawCondition<'a>>>,
    #[serde(borrow)]
    pub container_statuses: Option<Vec<RawContainerStatus<'a>>>,
    #[serde(borrow)]
    pub init_container_statuses: Option<Vec<RawContainerStatus<'a>>>,
    #[serde(borrow)]
    pub resource_claim_statuses: Option<Vec<RawDeviceClaim<'a>>>,
    #[serde(borrow)]
    pub extended_resource_claim_status: Option<RawExtended<'a>>,
}

/// In the spec or in the status: they share their fields.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RawDeviceClaim<'a> {
    #[serde(borrow)]
    pub name: Cow<'a, str>,
    #[serde(borrow)]
    pub resource_claim_name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub resource_claim_template_name: Option<Cow<'a, str>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RawExtended<'a> {
    #[serde(borrow)]
    pub resource_claim_name: Cow<'a, str>,
}

#[derive(Deserialize)]
pub struct RawAddress<'a> {
    #[serde(borrow, default)]
    pub ip: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RawCondition<'a> {
    #[serde(borrow, rename = "type")]
    pub kind: Cow<'a, str>,
    #[serde(borrow)]
    pub status: Cow<'a, str>,
    #[serde(borrow, default)]
    pub last_transition_time: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub reason: Option<Cow<'a, str>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RawToleration<'a> {
    #[serde(borrow)]
    pub key: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub operator: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub value: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub effect: Option<Cow<'a, str>>,
    pub toleration_seconds: Option<i64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RawContainerStatus<'a> {
    #[serde(borrow)]
    pub name: Cow<'a, str>,
    #[serde(default)]
    pub restart_count: i32,
    #[serde(borrow, default)]
    pub state: Option<RawState<'a>>,
}

#[derive(Deserialize)]
pub struct RawState<'a> {
    #[serde(borrow, default)]
    pub terminated: Option<RawTerminated<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RawTerminated<'a> {
    #[serde(default)]
    pub exit_code: i32,
    #[serde(borrow, default)]
    pub finished_at: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawAffinity<'a> {
    #[serde(borrow, default)]
    node_affinity: Option<RawNodeAffinity<'a>>,
}

#[derive(Deserialize)]
struct RawNodeAffinity<'a> {
    #[serde(borrow, default, rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    required: Option<RawNodeSelector<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawNodeSelector<'a> {
    #[serde(borrow, default)]
    node_selector_terms: Option<Vec<RawTerm<'a>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawTerm<'a> {
    #[serde(borrow, default)]
    match_fields: Option<Vec<RawField<'a>>>,
}

#[derive(Deserialize)]
struct RawField<'a> {
    #[serde(borrow)]
    key: Cow<'a, str>,
    #[serde(borrow)]
    operator: Cow<'a, str>,
    #[serde(borrow, default)]
    values: Vec<Borrowed<'a>>,
}

#[derive(Deserialize)]
struct Borrowed<'a>(#[serde(borrow)] Cow<'a, str>);
