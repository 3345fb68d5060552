//! One look at a volume or a node: reads the caches, plans, and acts through the API.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use ring::digest;
use rkube_machinery::Text;
use rkube_machinery::host::Clock;
use rkube_operator::events::{Recorder, Reference};
use rkube_operator::kube::Client;
use rkube_operator::{Informer, Outcome, Queue};
use serde_json::{Value, json};

use super::Work;
use super::plan::{self, Known, Refused};
use super::view::{Attachment, Node, NotAttached, OfNode, OfVolume};
use crate::owner::Error;
use crate::pods::{self, Pod};
use crate::requests::{self, is_conflict, is_not_found};
use crate::volumes::{Claim, ClaimPhase, Source, Volume};

const ATTACHMENTS: &str = "/apis/storage.k8s.io/v1/volumeattachments";
/// The names of drivers' volumes begin with it.
const PREFIX: &str = "kubernetes.io/csi/";

pub struct Caches {
    pub pods: Informer<Pod>,
    pub claims: Informer<Claim>,
    pub volumes: Informer<Volume>,
    pub attachments: Informer<Attachment>,
    pub nodes: Informer<Node>,
    pub drivers: Informer<NotAttached>,
}

pub struct Manager {
    pub client: Client,
    pub clock: Arc<dyn Clock>,
    pub events: Recorder,
    pub caches: Caches,
    pub queue: Queue<Work>,
    pub never_force: bool,
    /// By volume.
    pub told: Mutex<BTreeMap<Text, Told>>,
}

/// What is remembered of a volume, for as long as it is attached or is to be.
#[derive(Default)]
pub struct Told {
    /// Attachments that are not wanted, and since when, in seconds.
    unwanted: BTreeMap<Text, i64>,
    /// Errors of drivers that pods were told of, by attachment.
    errors: BTreeMap<Text, Text>,
    /// Nodes whose pods were told that they have to wait.
    refused: BTreeSet<Text>,
}

impl Manager {
    pub async fn reconcile(&self, work: &Work) -> Result<Outcome, Error> {
        match work {
            Work::Volume(name) => self.volume(name).await,
            Work::Node(name) => self.node(name).await,
        }
    }

    async fn volume(&self, name: &Text) -> Result<Outcome, Error> {
        let Some(volume) = self.caches.volumes.get("", name) else {
            self.told.lock().remove(name);
            return Ok(Outcome::Unchanged);
        };
        let mut attachments = self.caches.attachments.by_index::<OfVolume, _>(name);
        attachments.retain(|one| is_own(&volume, one));
        let unique_name = self.unique_name(&volume).unwrap_or_default();
        if unique_name.is_empty() && attachments.is_empty() {
            self.told.lock().remove(name);
            return Ok(Outcome::Unchanged);
        }
        // One that is not to be attached is wanted nowhere.
        let pods = if unique_name.is_empty() { Vec::new() } else { self.users(&volume) };
        self.tell_of_errors(name, &pods, &attachments);
        let now = self.clock.now_seconds();
        let unwanted = self.note_unwanted(name, &pods, &attachments, now);
        let known = Known {
            volume: name,
            unique_name: &unique_name,
            of_many: volume.modes.of_many(),
            pods: &pods,
            attachments: &attachments,
            unwanted: &unwanted,
            now,
            never_force: self.never_force,
        };
        let plan = plan::plan(&known, |name| self.caches.nodes.get("", name));
        self.tell_who_waits(name, &plan.refused, &pods);
        if let Some(seconds) = plan.look_again.and_then(|seconds| u64::try_from(seconds).ok()) {
            self.queue.add_after(Work::Volume(name.clone()), Duration::from_secs(seconds));
        }
        for one in &plan.detach {
            let node = attachments.iter().find(|known| known.name == *one).map(|known| known.node.clone());
            self.detach(one, &node.unwrap_or_default(), &unique_name).await?;
        }
        for node in &plan.attach {
            self.attach(&volume, node).await?;
        }
        Ok(Outcome::Unchanged)
    }

    /// How nodes call a volume that is attached; None: it is not to be.
    fn unique_name(&self, volume: &Volume) -> Option<Text> {
        let Source::Csi { driver, handle } = &volume.source else { return None };
        self.caches.drivers.get("", driver).is_none().then(|| Text::from(format!("{PREFIX}{driver}^{handle}")))
    }

    /// Pods on nodes that use a volume and have not ended.
    fn users(&self, volume: &Volume) -> Vec<Arc<Pod>> {
        let Some(claimant) = &volume.claimant else { return Vec::new() };
        let claim = self.caches.claims.get(&claimant.namespace, &claimant.name);
        let is_bound = |claim: &Arc<Claim>| {
            claim.phase == ClaimPhase::Bound && claim.volume == volume.item.name && claim.item.uid == claimant.uid
        };
        let Some(claim) = claim.filter(is_bound) else { return Vec::new() };
        let mut pods = self.caches.pods.by_index::<pods::ByClaim, _>(&claim.path());
        pods.retain(|pod| !pod.node.is_empty() && !pod.is_terminal());
        pods
    }

    async fn attach(&self, volume: &Volume, node: &Text) -> Result<(), Error> {
        let Source::Csi { driver, handle } = &volume.source else { return Ok(()) };
        let attachment = json!({
            "apiVersion": "storage.k8s.io/v1",
            "kind": "VolumeAttachment",
            "metadata": { "name": attachment_name(handle, driver, node) },
            "spec": {
                "attacher": driver.as_str(),
                "nodeName": node.as_str(),
                "source": { "persistentVolumeName": volume.item.name.as_str() },
            },
        });
        match requests::create(&self.client, ATTACHMENTS, attachment.to_string().into_bytes()).await {
            Err(error) if is_conflict(&error) => Ok(()),
            made => Ok(made.map(drop)?),
        }
    }

    /// The node is not to mount it any more before the driver takes it away.
    async fn detach(&self, attachment: &str, node: &Text, unique_name: &str) -> Result<(), Error> {
        if let Some(node) = self.caches.nodes.get("", node)
            && node.attached.iter().any(|(name, _)| name == unique_name)
        {
            let left = node.attached.iter().filter(|(name, _)| name != unique_name).cloned();
            self.write(&node, left.collect()).await?;
        }
        match requests::delete(&self.client, &format!("{ATTACHMENTS}/{attachment}")).await {
            Err(error) if !is_not_found(&error) => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Says in a node's status what is attached to it.
    async fn node(&self, name: &Text) -> Result<Outcome, Error> {
        let Some(node) = self.caches.nodes.get("", name) else { return Ok(Outcome::Unchanged) };
        let attachments = self.caches.attachments.by_index::<OfNode, _>(name);
        let attached = attachments.iter().filter(|one| one.attached && !one.deleting).filter_map(|one| {
            // One that is about to go was taken out of the status before.
            let is_unwanted =
                self.told.lock().get(&one.volume).is_some_and(|told| told.unwanted.contains_key(&one.name));
            let volume = self.caches.volumes.get("", &one.volume).filter(|volume| is_own(volume, one))?;
            let name = self.unique_name(&volume)?;
            let is_known = node.attached.iter().any(|(known, _)| *known == name);
            (is_known || !is_unwanted).then_some((name, volume))
        });
        let attached: Vec<(Text, Arc<Volume>)> = attached.collect();
        let Some(wanted) = plan::attached(&node, attached.iter().map(|(name, _)| name.clone()), PREFIX) else {
            return Ok(Outcome::Unchanged);
        };
        self.write(&node, wanted).await?;
        for (name, volume) in attached {
            if !node.attached.iter().any(|(known, _)| *known == name) {
                let message = format!("AttachVolume.Attach succeeded for volume {:?} ", volume.item.name);
                let pods = self.users(&volume).into_iter().filter(|pod| pod.node == node.name);
                pods.for_each(|pod| self.events.normal(&about(&pod), "SuccessfulAttachVolume", message.as_str()));
            }
        }
        // Pods wait for this, however many volumes come and go.
        Ok(Outcome::Unchanged)
    }

    async fn write(&self, node: &Node, attached: Vec<(Text, Text)>) -> Result<(), Error> {
        let attached: Vec<Value> =
            attached.iter().map(|(name, path)| json!({ "name": name.as_str(), "devicePath": path.as_str() })).collect();
        let attached = if attached.is_empty() { Value::Null } else { attached.into() };
        let patch = json!({ "status": { "volumesAttached": attached } });
        match requests::patch(&self.client, &format!("/api/v1/nodes/{}/status", node.name), &patch).await {
            Err(error) if !is_not_found(&error) => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Since when attachments are not wanted.
    fn note_unwanted(
        &self,
        volume: &Text,
        pods: &[Arc<Pod>],
        attachments: &[Arc<Attachment>],
        now: i64,
    ) -> BTreeMap<Text, i64> {
        let mut all = self.told.lock();
        let told = all.entry(volume.clone()).or_default();
        let is_unwanted = |one: &&Arc<Attachment>| !pods.iter().any(|pod| pod.node == one.node);
        let since = |name: &Text| told.unwanted.get(name).copied().unwrap_or(now);
        told.unwanted =
            attachments.iter().filter(is_unwanted).map(|one| (one.name.clone(), since(&one.name))).collect();
        told.unwanted.clone()
    }

    /// Tells the pods of a node once what its driver says.
    fn tell_of_errors(&self, volume: &Text, pods: &[Arc<Pod>], attachments: &[Arc<Attachment>]) {
        let mut all = self.told.lock();
        let told = all.entry(volume.clone()).or_default();
        let before = std::mem::take(&mut told.errors);
        for one in attachments.iter().filter(|one| !one.attached) {
            let Some(error) = &one.error else { continue };
            told.errors.insert(one.name.clone(), error.clone());
            if before.get(&one.name) == Some(error) {
                continue;
            }
            let message = format!("AttachVolume.Attach failed for volume {volume:?} : {error}");
            let concerned = pods.iter().filter(|pod| pod.node == one.node);
            concerned.for_each(|pod| self.events.warn(&about(pod), "FailedAttachVolume", message.as_str()));
        }
    }

    fn tell_who_waits(&self, volume: &Text, refused: &[Refused], pods: &[Arc<Pod>]) {
        let mut all = self.told.lock();
        let told = all.entry(volume.clone()).or_default();
        let before = std::mem::take(&mut told.refused);
        for one in refused {
            told.refused.insert(one.node.clone());
            if before.contains(&one.node) {
                continue;
            }
            let pod = pods.iter().find(|pod| pod.name == one.pod && pod.namespace == one.namespace);
            if let Some(pod) = pod {
                self.events.warn(&about(pod), "FailedAttachVolume", one.message.as_str());
            }
        }
    }
}

/// Whether the attachment is one that is made here: those of others are theirs, whatever they are for.
fn is_own(volume: &Volume, attachment: &Attachment) -> bool {
    let Source::Csi { driver, handle } = &volume.source else { return false };
    attachment.name == attachment_name(handle, driver, &attachment.node).as_str()
}

/// Upstream's name, by which kubelets find it.
fn attachment_name(handle: &str, driver: &str, node: &str) -> String {
    let hash = digest::digest(&digest::SHA256, format!("{handle}{driver}{node}").as_bytes());
    hash.as_ref().iter().fold("csi-".to_owned(), |name, byte| format!("{name}{byte:02x}"))
}

fn about(pod: &Pod) -> Reference {
    Reference {
        api_version: "v1".into(),
        kind: "Pod".into(),
        namespace: pod.namespace.clone(),
        name: pod.name.clone(),
        uid: pod.uid.clone(),
        resource_version: pod.revision.to_string().into(),
        ..Reference::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attachments_have_upstreams_names() {
        let expected = "csi-fdef298eb16db6fa42906ef1ff09a93a7f3028f8290cc9d71628ff91c237bfa7";
        assert_eq!(attachment_name("handle", "driver", "node"), expected);
    }
}
