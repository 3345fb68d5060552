//! One look at a claim or a volume: reads the caches, plans, and acts through the API.
//!
//! A volume is bound in four writes, as upstream: the volume names the claim, says that it is bound, the claim names the
//! volume, says that it is bound. The first decides: of several claims that want a volume, the one whose write is not a
//! conflict has it. Whatever comes in between, the next look goes on from what is there.

use std::sync::Arc;

use rkube_machinery::Text;
use rkube_operator::events::Recorder;
use rkube_operator::kube::Client;
use rkube_operator::{Informer, Item, Outcome, Queue};
use serde_json::{Value, json};

use super::Work;
use super::plan::{self, ClaimPlan, Reclaim, Told, VolumePlan, World};
use super::pool::{Found, Pool};
use crate::owner::Error;
use crate::pods::{self, Pod};
use crate::requests::{self, is_not_found};
use crate::volumes::{
    self, BETA_STORAGE_PROVISIONER, BIND_COMPLETED, BOUND_BY_CONTROLLER, ByClaimant, Claim, ClaimPhase,
    EXTERNAL_FINALIZER, IN_TREE_FINALIZER, MIGRATED_TO, PRE_RESIZE_CAPACITY, PROVISIONED_BY, STORAGE_PROVISIONER,
    StorageClass, Volume, VolumePhase,
};

pub struct Binder {
    pub client: Client,
    pub events: Recorder,
    pub claims: Informer<Claim>,
    pub volumes: Informer<Volume>,
    pub classes: Informer<StorageClass>,
    pub pods: Informer<Pod>,
    pub pool: Arc<Pool>,
    pub queue: Queue<Work>,
    /// Whether volumes are made for claims.
    pub provisioning: bool,
}

impl Binder {
    pub async fn reconcile(&self, work: &Work) -> Result<Outcome, Error> {
        let done = match work {
            Work::Claim(key) => match self.claims.get(&key.namespace, &key.name) {
                Some(claim) => {
                    let done = self.claim(&claim).await;
                    self.pool.looked(key);
                    done
                }
                None => Ok(Outcome::Unchanged),
            },
            Work::Volume(name) => match self.volumes.get("", name) {
                Some(volume) => self.volume(&volume).await,
                None => Ok(Outcome::Unchanged),
            },
        };
        match done {
            // What is gone needs nothing.
            Err(Error::Request(error)) if is_not_found(&error) => Ok(Outcome::Unchanged),
            done => done,
        }
    }

    async fn claim(&self, claim: &Claim) -> Result<Outcome, Error> {
        if let Some(driver) = plan::claim_migration(claim) {
            let mut object = requests::whole(&claim.item)?;
            annotate(&mut object, MIGRATED_TO, driver);
            requests::replace(&self.client, &claim.url(), &object).await?;
            return Ok(Outcome::Wrote);
        }
        match plan::claim(claim, &self, self.provisioning) {
            ClaimPlan::Bind(found) => self.bind(&found.volume, claim).await,
            ClaimPlan::AssignClass(class) => {
                let mut object = requests::whole(&claim.item)?;
                object["spec"]["storageClassName"] = class.as_str().into();
                requests::replace(&self.client, &claim.url(), &object).await?;
                Ok(Outcome::Wrote)
            }
            ClaimPlan::Wait(told) => {
                self.tell_claim(claim, told.as_ref());
                if !plan::is_to_be_cleared(claim) {
                    return Ok(Outcome::Unchanged);
                }
                self.clear(claim, ClaimPhase::Pending).await
            }
            ClaimPlan::Refuse(told) => {
                self.tell_claim(claim, Some(&told));
                Ok(Outcome::Unchanged)
            }
            ClaimPlan::Provision { provisioner, told } => {
                let outcome = self.name_provisioner(claim, &provisioner).await?;
                self.tell_claim(claim, Some(&told));
                Ok(outcome)
            }
            ClaimPlan::Lose(_) if claim.phase == ClaimPhase::Lost => Ok(Outcome::Unchanged),
            ClaimPlan::Lose(told) => {
                let outcome = self.clear(claim, ClaimPhase::Lost).await?;
                self.tell_claim(claim, Some(&told));
                Ok(outcome)
            }
        }
    }

    async fn volume(&self, volume: &Volume) -> Result<Outcome, Error> {
        let provisioner = volume.annotations.get(PROVISIONED_BY);
        let driver = plan::migration(provisioner, volume.annotations.get(MIGRATED_TO));
        let finalizers = plan::finalizers(volume);
        if driver.is_some() || finalizers.is_some() {
            let mut object = requests::whole(&volume.item)?;
            if let Some(driver) = driver {
                annotate(&mut object, MIGRATED_TO, driver);
            }
            if let Some((in_tree, external)) = finalizers {
                set_finalizer(&mut object, IN_TREE_FINALIZER, in_tree);
                set_finalizer(&mut object, EXTERNAL_FINALIZER, external);
            }
            requests::replace(&self.client, &volume.url(), &object).await?;
            return Ok(Outcome::Wrote);
        }
        let claimant = volume.claimant.as_ref();
        let cached = claimant.and_then(|claimant| self.claims.get(&claimant.namespace, &claimant.name));
        let users = claimant.map(|claimant| self.users(&claimant.path())).unwrap_or_default();
        let mut plan = plan::volume(volume, cached.as_deref(), false, &users);
        let mut claim = cached;
        if plan == VolumePlan::AskForClaim {
            claim = self.ask(volume).await?.map(Arc::new);
            plan = plan::volume(volume, claim.as_deref(), true, &users);
        }
        match plan {
            VolumePlan::Phase(phase) => self.set_phase(volume, phase, "").await,
            VolumePlan::WakeClaim | VolumePlan::AskForClaim => {
                claim.iter().for_each(|claim| self.queue.add(Work::Claim(claim.key())));
                Ok(Outcome::Unchanged)
            }
            VolumePlan::Mismatch { volume: of_volume, claim: of_claim } => {
                self.tell_volume(volume, &of_volume);
                claim.iter().for_each(|claim| self.tell_claim(claim, Some(&of_claim)));
                Ok(Outcome::Unchanged)
            }
            VolumePlan::Unbind => self.unbind(volume).await,
            VolumePlan::Reclaim { release, how } => self.reclaim(volume, release, how).await,
        }
    }

    /// The claim that a volume names, as the server has it.
    async fn ask(&self, volume: &Volume) -> Result<Option<Claim>, Error> {
        let Some(claimant) = &volume.claimant else { return Ok(None) };
        let (namespace, name) = (&claimant.namespace, &claimant.name);
        let path = format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims/{name}");
        let object = match requests::get_value(&self.client, &path).await {
            Err(error) if is_not_found(&error) => return Ok(None),
            object => object?,
        };
        let metadata = &object["metadata"];
        let text = |field: &str| Text::new(metadata[field].as_str().unwrap_or_default());
        let item = Item {
            namespace: namespace.clone(),
            name: name.clone(),
            uid: text("uid"),
            revision: text("resourceVersion").parse().unwrap_or(0),
            json: object.to_string().into(),
        };
        Ok(Claim::read(&item))
    }

    async fn bind(&self, volume: &Volume, claim: &Claim) -> Result<Outcome, Error> {
        if plan::is_bound(volume, claim) {
            return Ok(Outcome::Unchanged);
        }
        let (mut wrote, mut object) = (false, requests::whole(&volume.item)?);
        let is_claimant = volume.claimant.as_ref().is_some_and(|claimant| claimant.uid == claim.item.uid);
        let is_marked = volume.is_for(claim) || volume.is_bound_by_controller();
        if !(is_claimant && volume.is_for(claim) && is_marked) {
            object["spec"]["claimRef"] = json!({
                "kind": "PersistentVolumeClaim",
                "apiVersion": "v1",
                "namespace": claim.item.namespace.as_str(),
                "name": claim.item.name.as_str(),
                "uid": claim.item.uid.as_str(),
                "resourceVersion": claim.item.revision.to_string(),
            });
            if !is_marked {
                annotate(&mut object, BOUND_BY_CONTROLLER, Some("yes"));
            }
            self.put(&volume.url(), "", &mut object).await?;
            wrote = true;
        }
        if volume.phase != VolumePhase::Bound {
            set_volume_phase(&mut object, VolumePhase::Bound, "");
            self.put(&volume.url(), "/status", &mut object).await?;
            wrote = true;
        }
        let volume_object = object;
        let mut object = requests::whole(&claim.item)?;
        if claim.volume != volume.item.name || !claim.is_bound_for_good() {
            if claim.volume != volume.item.name {
                object["spec"]["volumeName"] = volume.item.name.as_str().into();
                if !claim.is_bound_by_controller() {
                    annotate(&mut object, BOUND_BY_CONTROLLER, Some("yes"));
                }
            }
            annotate(&mut object, BIND_COMPLETED, Some("yes"));
            self.put(&claim.url(), "", &mut object).await?;
            wrote = true;
        }
        if describe_bound(&mut object, claim.phase, volume, &volume_object)? {
            self.put(&claim.url(), "/status", &mut object).await?;
            wrote = true;
        }
        Ok(if wrote { Outcome::Wrote } else { Outcome::Unchanged })
    }

    /// Writes a claim's status without a volume.
    async fn clear(&self, claim: &Claim, phase: ClaimPhase) -> Result<Outcome, Error> {
        let mut object = requests::whole(&claim.item)?;
        object["status"]["phase"] = phase.as_str().into();
        if let Some(status) = object["status"].as_object_mut() {
            for field in ["accessModes", "capacity", "currentVolumeAttributesClassName"] {
                status.remove(field);
            }
        }
        self.put(&claim.url(), "/status", &mut object).await?;
        Ok(Outcome::Wrote)
    }

    /// So that provisioners know whose turn it is.
    async fn name_provisioner(&self, claim: &Claim, provisioner: &str) -> Result<Outcome, Error> {
        if claim.annotations.get(STORAGE_PROVISIONER) == Some(provisioner) {
            return Ok(Outcome::Unchanged);
        }
        let mut object = requests::whole(&claim.item)?;
        annotate(&mut object, BETA_STORAGE_PROVISIONER, Some(provisioner));
        annotate(&mut object, STORAGE_PROVISIONER, Some(provisioner));
        match requests::replace(&self.client, &claim.url(), &object).await {
            Ok(_) => Ok(Outcome::Wrote),
            Err(error) => {
                let message = format!("Error saving claim: {}", requests::message(&error));
                self.events.warn(&claim.reference(), "ProvisioningFailed", message);
                Err(error.into())
            }
        }
    }

    async fn set_phase(&self, volume: &Volume, phase: VolumePhase, message: &str) -> Result<Outcome, Error> {
        if volume.phase == phase {
            return Ok(Outcome::Unchanged);
        }
        let mut object = requests::whole(&volume.item)?;
        set_volume_phase(&mut object, phase, message);
        self.put(&volume.url(), "/status", &mut object).await?;
        Ok(Outcome::Wrote)
    }

    async fn unbind(&self, volume: &Volume) -> Result<Outcome, Error> {
        let mut object = requests::whole(&volume.item)?;
        if volume.is_bound_by_controller() {
            remove(&mut object["spec"], "claimRef");
            annotate(&mut object, BOUND_BY_CONTROLLER, None);
        } else {
            // Somebody keeps it for this claim.
            remove(&mut object["spec"]["claimRef"], "uid");
        }
        self.put(&volume.url(), "", &mut object).await?;
        if volume.phase != VolumePhase::Available {
            set_volume_phase(&mut object, VolumePhase::Available, "");
            self.put(&volume.url(), "/status", &mut object).await?;
        }
        Ok(Outcome::Wrote)
    }

    async fn reclaim(&self, volume: &Volume, release: bool, how: Reclaim) -> Result<Outcome, Error> {
        let mut object = requests::whole(&volume.item)?;
        let mut outcome = Outcome::Unchanged;
        if release {
            set_volume_phase(&mut object, VolumePhase::Released, "");
            self.put(&volume.url(), "/status", &mut object).await?;
            outcome = Outcome::Wrote;
        }
        match how {
            Reclaim::Leave => Ok(outcome),
            Reclaim::Tell(told) => {
                self.tell_volume(volume, &told);
                Ok(outcome)
            }
            Reclaim::Fail(_) if volume.phase == VolumePhase::Failed => Ok(outcome),
            Reclaim::Fail(told) => {
                set_volume_phase(&mut object, VolumePhase::Failed, &told.message);
                self.put(&volume.url(), "/status", &mut object).await?;
                self.tell_volume(volume, &told);
                Ok(Outcome::Wrote)
            }
            Reclaim::Delete => {
                if volume.in_tree_finalizer {
                    set_finalizer(&mut object, IN_TREE_FINALIZER, false);
                    self.put(&volume.url(), "", &mut object).await?;
                }
                if !volume.deleting {
                    requests::delete(&self.client, &volume.url()).await?;
                }
                Ok(Outcome::Wrote)
            }
        }
    }

    /// Writes an object, whose resource version is the new one then.
    async fn put(&self, url: &str, subresource: &str, object: &mut Value) -> Result<(), Error> {
        let written = requests::replace(&self.client, &format!("{url}{subresource}"), object).await?;
        object["metadata"]["resourceVersion"] = written.metadata.resource_version.into();
        Ok(())
    }

    /// The pods that use a claim and have not ended.
    fn users(&self, claim: &Text) -> Vec<Text> {
        let pods = self.pods.by_index::<pods::ByClaim, _>(claim);
        let active = pods.iter().filter(|pod| !pod.is_terminal());
        active.map(|pod| volumes::path(&pod.namespace, &pod.name)).collect()
    }

    fn tell_claim(&self, claim: &Claim, told: Option<&Told>) {
        if let Some(told) = told {
            self.tell(&claim.reference(), told);
        }
    }

    fn tell_volume(&self, volume: &Volume, told: &Told) {
        self.tell(&volume.reference(), told);
    }

    fn tell(&self, about: &rkube_operator::events::Reference, told: &Told) {
        if told.warning {
            self.events.warn(about, told.reason, told.message.as_str());
        } else {
            self.events.normal(about, told.reason, told.message.as_str());
        }
    }
}

/// Either a volume out of the pool, or one that the claim names.
pub struct Match<'a> {
    pub volume: Arc<Volume>,
    _held: Option<Found<'a>>,
}

impl<'a> World for &'a Binder {
    type Found = Match<'a>;

    fn volume(&self, name: &str) -> Option<Arc<Volume>> {
        self.volumes.get("", name)
    }

    fn class(&self, name: &str) -> Option<Arc<StorageClass>> {
        self.classes.get("", name)
    }

    fn default_class(&self) -> Option<Text> {
        volumes::default_class(&self.classes.all()).map(|class| class.name.clone())
    }

    fn find(&self, claim: &Claim, only_kept: bool) -> Option<Match<'a>> {
        let kept = self.volumes.by_index::<ByClaimant, _>(&claim.path());
        let found = self.pool.find(claim, &kept, only_kept)?;
        Some(Match { volume: found.volume.clone(), _held: Some(found) })
    }

    fn is_one_coming(&self, claim: &Claim) -> bool {
        self.pool.is_one_coming(claim)
    }

    fn named(&self, volume: Arc<Volume>) -> Match<'a> {
        Match { volume, _held: None }
    }

    fn unscheduled_pods(&self, claim: &Claim) -> Vec<Text> {
        let pods = self.pods.by_index::<pods::ByClaim, _>(&claim.path());
        let waiting = pods.iter().filter(|pod| !pod.is_terminal() && pod.node.is_empty());
        waiting.map(|pod| pod.name.clone()).collect()
    }
}

/// Says in a claim's status what it has. Whether that is anything new.
fn describe_bound(claim: &mut Value, phase: ClaimPhase, volume: &Volume, object: &Value) -> Result<bool, Error> {
    let before = claim["status"].clone();
    let (spec, status) = (&object["spec"], &mut claim["status"]);
    status["phase"] = ClaimPhase::Bound.as_str().into();
    status["accessModes"] = spec["accessModes"].clone();
    if phase != ClaimPhase::Bound {
        let Some(capacity) = spec["capacity"].get("storage") else {
            return Err(Error::Wait(format!("PersistentVolume {:?} is without a storage capacity", volume.item.name)));
        };
        match volume.annotations.get(PRE_RESIZE_CAPACITY) {
            Some(text) => {
                let is_amount = text.parse::<rkube_machinery::quantity::Quantity>().is_ok();
                status["capacity"]["storage"] = if is_amount { text.into() } else { capacity.clone() };
            }
            None if status["capacity"].get("storage") != Some(capacity) => {
                status["capacity"] = spec["capacity"].clone();
            }
            None => {}
        }
    }
    if phase == ClaimPhase::Pending {
        match spec.get("volumeAttributesClassName") {
            Some(class) => status["currentVolumeAttributesClassName"] = class.clone(),
            None => remove(status, "currentVolumeAttributesClassName"),
        }
    }
    Ok(*status != before)
}

fn set_volume_phase(volume: &mut Value, phase: VolumePhase, message: &str) {
    volume["status"]["phase"] = phase.as_str().into();
    match message {
        "" => remove(&mut volume["status"], "message"),
        message => volume["status"]["message"] = message.into(),
    }
}

fn annotate(object: &mut Value, name: &str, value: Option<&str>) {
    match value {
        Some(value) => object["metadata"]["annotations"][name] = value.into(),
        None => remove(&mut object["metadata"]["annotations"], name),
    }
}

fn set_finalizer(object: &mut Value, name: &str, wanted: bool) {
    let finalizers = &mut object["metadata"]["finalizers"];
    if !finalizers.is_array() {
        *finalizers = json!([]);
    }
    let Some(all) = finalizers.as_array_mut() else { return };
    all.retain(|one| wanted || one != name);
    if wanted && !all.iter().any(|one| one == name) {
        all.push(name.into());
    }
}

fn remove(object: &mut Value, field: &str) {
    if let Some(fields) = object.as_object_mut() {
        fields.remove(field);
    }
}
