//! The volumes of a pod that decide where it can go: those by claims, and disks of which a node can have one only.

use std::borrow::Cow;

use rkube_machinery::Text;
use serde::Deserialize;

use super::json::Word;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodVolumes {
    /// In the order of the volumes.
    pub claims: Vec<ClaimName>,
    pub disks: Vec<Disk>,
}

/// The name of a claim in the pod's namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimName {
    pub name: Text,
    /// The claim is made for this pod, of a template in it.
    pub is_ephemeral: bool,
}

/// A disk that is named in the pod itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Disk {
    Gce { name: Text, is_read_only: bool },
    Aws { id: Text },
    Iscsi { iqn: Text, is_read_only: bool },
    Rbd { monitors: Vec<Text>, pool: Text, image: Text, is_read_only: bool },
}

impl PodVolumes {
    pub(super) fn of(pod: &str, volumes: &[VolumeJson<'_>]) -> Option<Box<PodVolumes>> {
        let mut known = PodVolumes::default();
        for volume in volumes {
            if let Some(claim) = &volume.persistent_volume_claim {
                known.claims.push(ClaimName { name: claim.claim_name.0.clone(), is_ephemeral: false });
            } else if volume.ephemeral.is_some() {
                let name = Text::from(format!("{pod}-{}", volume.name));
                known.claims.push(ClaimName { name, is_ephemeral: true });
            }
            known.disks.extend(volume.disk());
        }
        (known != PodVolumes::default()).then(|| Box::new(known))
    }

    /// Whether a claim of the pod's namespace is one of its.
    pub fn claims(&self, name: &str) -> bool {
        self.claims.iter().any(|claim| claim.name == name)
    }

    /// The claims that the pod names itself.
    pub fn named_claims(&self) -> impl Iterator<Item = &Text> {
        self.claims.iter().filter(|claim| !claim.is_ephemeral).map(|claim| &claim.name)
    }
}

impl Disk {
    /// Whether one node cannot have both.
    pub fn conflicts(&self, other: &Disk) -> bool {
        match (self, other) {
            (Disk::Gce { name, is_read_only }, Disk::Gce { name: other, is_read_only: other_too })
            | (Disk::Iscsi { iqn: name, is_read_only }, Disk::Iscsi { iqn: other, is_read_only: other_too }) => {
                name == other && !(*is_read_only && *other_too)
            }
            (Disk::Aws { id }, Disk::Aws { id: other }) => id == other,
            (
                Disk::Rbd { monitors, pool, image, is_read_only },
                Disk::Rbd { monitors: other_monitors, pool: other_pool, image: other_image, is_read_only: other_too },
            ) => {
                let is_same = (pool, image) == (other_pool, other_image);
                is_same
                    && !(*is_read_only && *other_too)
                    && monitors.iter().any(|monitor| other_monitors.contains(monitor))
            }
            _ => false,
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct VolumeJson<'a> {
    #[serde(borrow, default)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    image: Option<ImageJson<'a>>,
    #[serde(default)]
    persistent_volume_claim: Option<ClaimJson>,
    #[serde(default)]
    ephemeral: Option<serde::de::IgnoredAny>,
    #[serde(default)]
    gce_persistent_disk: Option<GceJson>,
    #[serde(default)]
    aws_elastic_block_store: Option<AwsJson>,
    #[serde(default)]
    iscsi: Option<IscsiJson>,
    #[serde(default)]
    rbd: Option<RbdJson>,
}

impl VolumeJson<'_> {
    /// The image that the volume is made of.
    pub fn image(&self) -> Option<&str> {
        self.image.as_ref().map(|image| image.reference.as_ref())
    }

    fn disk(&self) -> Option<Disk> {
        let gce = self.gce_persistent_disk.as_ref();
        let gce = gce.map(|disk| Disk::Gce { name: disk.pd_name.0.clone(), is_read_only: disk.read_only });
        let aws = self.aws_elastic_block_store.as_ref().map(|disk| Disk::Aws { id: disk.volume_id.0.clone() });
        let iscsi = self.iscsi.as_ref();
        let iscsi = iscsi.map(|disk| Disk::Iscsi { iqn: disk.iqn.0.clone(), is_read_only: disk.read_only });
        let rbd = self.rbd.as_ref().map(|disk| Disk::Rbd {
            monitors: disk.monitors.iter().map(|monitor| monitor.0.clone()).collect(),
            pool: disk.pool.0.clone(),
            image: disk.image.0.clone(),
            is_read_only: disk.read_only,
        });
        gce.or(aws).or(iscsi).or(rbd)
    }
}

#[derive(Deserialize)]
struct ImageJson<'a> {
    #[serde(borrow, default)]
    reference: Cow<'a, str>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ClaimJson {
    claim_name: Word,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GceJson {
    #[serde(default)]
    pd_name: Word,
    #[serde(default)]
    read_only: bool,
}

#[derive(Deserialize)]
struct AwsJson {
    #[serde(default, rename = "volumeID")]
    volume_id: Word,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct IscsiJson {
    #[serde(default)]
    iqn: Word,
    #[serde(default)]
    read_only: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RbdJson {
    #[serde(default)]
    monitors: Vec<Word>,
    #[serde(default)]
    pool: Word,
    #[serde(default)]
    image: Word,
    #[serde(default)]
    read_only: bool,
}
