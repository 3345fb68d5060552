//! What to do with a claim, and with a volume, as pure functions.

use std::sync::Arc;

use rkube_machinery::Text;

use crate::volumes::{
    self, BETA_STORAGE_PROVISIONER, Claim, ClaimPhase, Deleter, MIGRATED_TO, PROVISIONED_BY, STORAGE_PROVISIONER,
    StorageClass, Volume, VolumePhase, csi_driver,
};

/// What a plan is made of.
pub trait World {
    /// A volume that goes to the claim.
    type Found;

    fn volume(&self, name: &str) -> Option<Arc<Volume>>;
    fn class(&self, name: &str) -> Option<Arc<StorageClass>>;
    fn default_class(&self) -> Option<Text>;
    /// A volume that nobody else gets meanwhile. `only_kept`: one that names the claim, or none.
    fn find(&self, claim: &Claim, only_kept: bool) -> Option<Self::Found>;
    /// Whether a volume is about to be free that the claim could have.
    fn is_one_coming(&self, claim: &Claim) -> bool;
    /// A volume that the claim names.
    fn named(&self, volume: Arc<Volume>) -> Self::Found;
    /// The pods that use the claim, have not ended, and have no node.
    fn unscheduled_pods(&self, claim: &Claim) -> Vec<Text>;
}

/// Something to say of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    pub warning: bool,
    pub reason: &'static str,
    pub message: String,
}

impl Told {
    fn normal(reason: &'static str, message: impl Into<String>) -> Told {
        Told { warning: false, reason, message: message.into() }
    }

    fn warning(reason: &'static str, message: impl Into<String>) -> Told {
        Told { warning: true, reason, message: message.into() }
    }
}

#[derive(Debug, PartialEq, Eq)]
pub enum ClaimPlan<F> {
    Bind(F),
    /// Give it the default class.
    AssignClass(Text),
    /// It has no volume, and waits for one.
    Wait(Option<Told>),
    /// Nobody can make it a volume, or it is misused.
    Refuse(Told),
    /// Tell who is to make it a volume.
    Provision {
        provisioner: Text,
        told: Told,
    },
    /// It had a volume, and has none any more. Said once.
    Lose(Told),
}

pub fn claim<W: World>(claim: &Claim, world: &W, provisioning: bool) -> ClaimPlan<W::Found> {
    match (claim.is_bound_for_good(), claim.volume.is_empty()) {
        (true, _) => bound(claim, world),
        (false, true) => unbound(claim, world, provisioning),
        (false, false) => asks_for_volume(claim, world),
    }
}

/// A claim that was given a volume.
fn bound<W: World>(claim: &Claim, world: &W) -> ClaimPlan<W::Found> {
    let lost = |reason, message: &str| ClaimPlan::Lose(Told::warning(reason, message));
    if claim.volume.is_empty() {
        return lost("ClaimLost", "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!");
    }
    let Some(volume) = world.volume(&claim.volume) else {
        return lost("ClaimLost", "Bound claim has lost its PersistentVolume. Data on the volume is lost!");
    };
    match &volume.claimant {
        Some(claimant) if claimant.uid != claim.item.uid => {
            lost("ClaimMisbound", "Two claims are bound to the same volume, this one is bound incorrectly")
        }
        _ => ClaimPlan::Bind(world.named(volume)),
    }
}

/// A claim that takes whatever volume there is.
fn unbound<W: World>(claim: &Claim, world: &W, provisioning: bool) -> ClaimPlan<W::Found> {
    let class = Some(claim.class_name()).filter(|name| !name.is_empty());
    let known = class.and_then(|name| world.class(name));
    let waits_for_consumer = known.as_ref().is_some_and(|class| class.waits_for_consumer);
    if let Some(volume) = world.find(claim, waits_for_consumer) {
        return ClaimPlan::Bind(volume);
    }
    if claim.class.is_none()
        && let Some(default) = world.default_class()
    {
        return ClaimPlan::AssignClass(default);
    }
    if waits_for_consumer && claim.selected_node().is_none() {
        return ClaimPlan::Wait(Some(waiting(&world.unscheduled_pods(claim))));
    }
    // Made together with the claim: it hears of it.
    if !waits_for_consumer && world.is_one_coming(claim) {
        return ClaimPlan::Wait(None);
    }
    match (class, known) {
        (None, _) => ClaimPlan::Wait(Some(Told::normal(
            "FailedBinding",
            "no persistent volumes available for this claim and no storage class is set",
        ))),
        (Some(_), _) if !provisioning => ClaimPlan::Wait(None),
        (Some(name), None) => ClaimPlan::Refuse(Told::warning(
            "ProvisioningFailed",
            format!("storageclass.storage.k8s.io {name:?} not found"),
        )),
        (Some(_), Some(class)) => provision(&class),
    }
}

fn waiting(pods: &[Text]) -> Told {
    match pods {
        [] => Told::normal("WaitForFirstConsumer", "waiting for first consumer to be created before binding"),
        [pod] => Told::normal("WaitForPodScheduled", format!("waiting for pod {pod} to be scheduled")),
        pods => Told::normal("WaitForPodScheduled", format!("waiting for pods {} to be scheduled", pods.join(","))),
    }
}

fn provision<F>(class: &StorageClass) -> ClaimPlan<F> {
    let provisioner = match volumes::provisioner(&class.provisioner) {
        Ok(provisioner) => Text::new(provisioner),
        Err(why) => return ClaimPlan::Refuse(Told::warning("ProvisioningFailed", why)),
    };
    let message = format!(
        "Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually by the \
         system administrator. If volume creation is delayed, please verify that the provisioner is running and \
         correctly registered."
    );
    ClaimPlan::Provision { provisioner, told: Told::normal("ExternalProvisioning", message) }
}

/// A claim that names a volume, and does not have it yet.
fn asks_for_volume<W: World>(claim: &Claim, world: &W) -> ClaimPlan<W::Found> {
    let Some(volume) = world.volume(&claim.volume) else { return ClaimPlan::Wait(None) };
    let name = &volume.item.name;
    if volume.claimant.is_none() {
        return match unfit(claim, &volume) {
            None => ClaimPlan::Bind(world.named(volume)),
            Some(why) => ClaimPlan::Wait(Some(Told::warning(
                "VolumeMismatch",
                format!("Cannot bind to requested volume {name:?}: {why}"),
            ))),
        };
    }
    if volume.is_for(claim) {
        return ClaimPlan::Bind(world.named(volume));
    }
    let told = Told::warning("FailedBinding", format!("volume {name:?} already bound to a different claim."));
    // Somebody took away the mark that it was bound.
    if claim.is_bound_by_controller() { ClaimPlan::Refuse(told) } else { ClaimPlan::Wait(Some(told)) }
}

/// Why a volume is nothing for a claim that names it.
fn unfit(claim: &Claim, volume: &Volume) -> Option<String> {
    let fixed = |text: &str| Some(text.to_owned());
    match () {
        () if volume.deleting => Some(format!("the volume is marked for deletion {:?}", volume.item.name)),
        () if volume.capacity.value() < claim.request.value() => fixed("requested PV is too small"),
        () if volume.class != claim.class_name() => fixed("storageClassName does not match"),
        () if volume.attributes_class != claim.attributes_class => fixed("volumeAttributesClassName does not match"),
        () if volume.block != claim.block => fixed("incompatible volumeMode"),
        () if !volume.modes.has_all(claim.modes) => fixed("incompatible accessMode"),
        () => None,
    }
}

#[derive(Debug, PartialEq, Eq)]
pub enum VolumePlan {
    Phase(VolumePhase),
    /// Ask the server for the claim: the cache may be behind.
    AskForClaim,
    /// Its claim has to look for it.
    WakeClaim,
    /// It is not of the mode that its claim wants: what both are told.
    Mismatch {
        volume: Told,
        claim: Told,
    },
    /// Its claim has another one.
    Unbind,
    /// Its claim is gone. `release`: say so.
    Reclaim {
        release: bool,
        how: Reclaim,
    },
}

#[derive(Debug, PartialEq, Eq)]
pub enum Reclaim {
    /// It stays as it is, or others see to it.
    Leave,
    /// Only something to say.
    Tell(Told),
    /// It cannot be done. Said once.
    Fail(Told),
    /// The object goes.
    Delete,
}

/// `claim`: the one whose name the volume has. `is_certain`: the server said so. `users`: pods that use the claim and have
/// not ended.
pub fn volume(volume: &Volume, claim: Option<&Claim>, is_certain: bool, users: &[Text]) -> VolumePlan {
    let Some(claimant) = volume.claimant.as_ref().filter(|claimant| !claimant.uid.is_empty()) else {
        return VolumePlan::Phase(VolumePhase::Available);
    };
    let is_given_up = matches!(volume.phase, VolumePhase::Released | VolumePhase::Failed);
    let released = |claim_is_known: bool| VolumePlan::Reclaim {
        release: !is_given_up,
        how: reclaim(volume, users, claim_is_known),
    };
    let claim = match claim {
        None if !is_certain && !is_given_up => return VolumePlan::AskForClaim,
        None => return released(false),
        Some(claim) if claim.item.uid == claimant.uid => claim,
        Some(_) if !is_certain => return VolumePlan::AskForClaim,
        // Another one of the same name.
        Some(_) => return released(true),
    };
    if claim.volume.is_empty() {
        return if claim.block == volume.block { VolumePlan::WakeClaim } else { mismatch(volume, claim) };
    }
    if claim.volume == volume.item.name {
        return VolumePlan::Phase(VolumePhase::Bound);
    }
    if volume.annotations.get(PROVISIONED_BY).is_some() && volume.reclaim_policy == "Delete" {
        return released(true);
    }
    VolumePlan::Unbind
}

fn mismatch(volume: &Volume, claim: &Claim) -> VolumePlan {
    let (volume, claim) = (&volume.item.name, &claim.item.name);
    let of_volume = format!(
        "Cannot bind PersistentVolume to requested PersistentVolumeClaim {claim:?} due to incompatible volumeMode."
    );
    let of_claim = format!(
        "Cannot bind PersistentVolume {volume:?} to requested PersistentVolumeClaim due to incompatible volumeMode."
    );
    VolumePlan::Mismatch {
        volume: Told::warning("VolumeMismatch", of_volume),
        claim: Told::warning("VolumeMismatch", of_claim),
    }
}

fn reclaim(volume: &Volume, users: &[Text], claim_is_known: bool) -> Reclaim {
    if volume.annotations.get(MIGRATED_TO).is_some_and(|driver| !driver.is_empty()) {
        return Reclaim::Leave;
    }
    match volume.reclaim_policy.as_str() {
        "Retain" => Reclaim::Leave,
        "Recycle" if !users.is_empty() && !claim_is_known => {
            Reclaim::Tell(Told::normal("VolumeFailedRecycle", format!("Volume is used by pods: {}", users.join(","))))
        }
        "Recycle" => Reclaim::Fail(Told::warning("VolumeFailedRecycle", "No recycler plugin found for the volume!")),
        "Delete" => match volumes::deleter(volume) {
            Deleter::External => Reclaim::Leave,
            Deleter::Own => Reclaim::Delete,
            Deleter::None(why) => Reclaim::Fail(Told::warning("VolumeFailedDelete", why)),
        },
        _ => Reclaim::Fail(Told::warning(
            "VolumeUnknownReclaimPolicy",
            "Volume has unrecognized PersistentVolumeReclaimPolicy",
        )),
    }
}

/// The annotation of which driver took over: Some(None) if it is to go, None if it is as it should be.
pub fn migration(provisioner: Option<&str>, migrated_to: Option<&str>) -> Option<Option<&'static str>> {
    let driver = csi_driver(provisioner?);
    let now = migrated_to.filter(|driver| !driver.is_empty());
    (driver != now).then_some(driver)
}

/// The same for a claim.
pub fn claim_migration(claim: &Claim) -> Option<Option<&'static str>> {
    let stable = claim.annotations.get(STORAGE_PROVISIONER);
    let provisioner = stable.or_else(|| claim.annotations.get(BETA_STORAGE_PROVISIONER));
    migration(provisioner, claim.annotations.get(MIGRATED_TO))
}

/// Whether a volume is to have the finalizer of plugins of Kubernetes' own, and whether it may keep the one of
/// provisioners of others; None: as it is.
pub fn finalizers(volume: &Volume) -> Option<(bool, bool)> {
    let provisioner = volume.annotations.get(PROVISIONED_BY)?;
    let now = (volume.in_tree_finalizer, volume.external_finalizer);
    let wanted = if csi_driver(provisioner).is_some() {
        (false, now.1)
    } else if !volumes::is_in_tree(provisioner) {
        now
    } else {
        match volume.reclaim_policy.as_str() {
            "Delete" => (true, false),
            "Retain" | "Recycle" => (false, false),
            _ => (now.0, false),
        }
    };
    (wanted != now).then_some(wanted)
}

/// Whether both say all that there is to say of a claim and the volume that it has.
pub fn is_bound(volume: &Volume, claim: &Claim) -> bool {
    let is_claimant = volume.claimant.as_ref().is_some_and(|claimant| claimant.uid == claim.item.uid);
    is_claimant
        && volume.is_for(claim)
        && volume.phase == VolumePhase::Bound
        && claim.volume == volume.item.name
        && claim.is_bound_for_good()
        && claim.phase == ClaimPhase::Bound
        && claim.granted_modes == volume.modes
}

/// Whether the status of a claim without a volume has to be written.
pub fn is_to_be_cleared(claim: &Claim) -> bool {
    claim.phase != ClaimPhase::Pending || claim.has_details
}
