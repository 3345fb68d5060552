//! Makes volumes of directories on nodes, for claims of the class `local-path` and of others with its provisioner. Watches
//! claims, volumes, nodes and classes; makes volumes, and deletes those whose claims are gone.
//!
//! A volume is a `hostPath`, bound to its node by affinity. Where the node is the machine that this runs on, the directory
//! is made before the volume is, open to all users, since nobody knows as whom a pod will run; and removed before the volume
//! goes, which a finalizer keeps until then. On any other node the type `DirectoryOrCreate` has it made when a pod mounts
//! it, and nobody removes it. What simulated nodes have are objects only. No size is enforced.

mod plan;

use std::io;
use std::path::Path;
use std::sync::Arc;

use rkube_operator::events::Recorder;
use rkube_operator::kube::Client;
use rkube_operator::{Informer, Key, Outcome, Queue};
use serde_json::Value;

use crate::Context;
use crate::nodes::{self, Node};
use crate::owner::Error;
use crate::requests::{self, is_not_found};
use crate::volumes::{self, Claim, EXTERNAL_FINALIZER, SELECTED_NODE, StorageClass, Volume};
use plan::{ClaimPlan, VolumePlan};

pub use plan::PROVISIONER;

pub const NAME: &str = "local-path-provisioner";
/// So many claims and volumes at a time.
const WORKERS: usize = 8;

/// Where volumes are that are directories of nodes.
#[derive(Clone)]
pub struct LocalPath {
    /// Of every node: an absolute path.
    pub directory: String,
    /// The node that the machine of this process is; None: all nodes are simulated.
    pub machine: Option<LocalMachine>,
}

impl LocalPath {
    /// Where all nodes are simulated: nobody ever looks into the directory.
    pub fn simulated() -> LocalPath {
        LocalPath { directory: "/var/lib/rkube/volumes".to_owned(), machine: None }
    }
}

#[derive(Clone)]
pub struct LocalMachine {
    pub node: String,
    /// Makes a directory that every user may write to. One that is there is made.
    pub make: OnDirectory,
    /// Removes a directory with all that is in it. One that is not there is removed.
    pub remove: OnDirectory,
}

/// Something that is done to a directory, and takes a while.
pub type OnDirectory = Arc<dyn Fn(&Path) -> io::Result<()> + Send + Sync>;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Work {
    Claim(Key),
    Volume(String),
}

pub async fn run(context: Context, local_path: LocalPath) {
    let Context { client, caches, clock, .. } = context;
    let queue: Queue<Work> = Queue::new();
    let adding = queue.clone();
    let claims = volumes::claims(&caches).on_change(move |change| {
        if change.new.is_some_and(|claim| plan::is_ours(claim)) {
            adding.add(Work::Claim(change.key.clone()));
        }
    });
    let adding = queue.clone();
    let volumes = volumes::volumes(&caches).on_change(move |change| {
        if change.new.is_some_and(|volume| plan::is_made_here(volume)) {
            adding.add(Work::Volume(change.key.name.clone()));
        }
    });
    let (classes, nodes) = (volumes::classes(&caches), nodes::informer(&caches));
    claims.synced().await;
    volumes.synced().await;
    classes.synced().await;
    nodes.synced().await;
    let events = Recorder::start(client.clone(), clock, PROVISIONER);
    let provisioner = Arc::new(Provisioner { client, events, claims, volumes, classes, nodes, local_path });
    rkube_operator::run(NAME, queue, WORKERS, move |work: Work| {
        let provisioner = provisioner.clone();
        async move { provisioner.reconcile(&work).await.map_err(rkube_operator::Error::from) }
    })
    .await;
}

struct Provisioner {
    client: Client,
    events: Recorder,
    claims: Informer<Claim>,
    volumes: Informer<Volume>,
    classes: Informer<StorageClass>,
    nodes: Informer<Node>,
    local_path: LocalPath,
}

impl Provisioner {
    async fn reconcile(&self, work: &Work) -> Result<Outcome, Error> {
        let done = match work {
            Work::Claim(key) => match self.claims.get(&key.namespace, &key.name) {
                Some(claim) => self.claim(&claim).await,
                None => Ok(Outcome::Unchanged),
            },
            Work::Volume(name) => match self.volumes.get("", name) {
                Some(volume) => self.volume(&volume).await,
                None => Ok(Outcome::Unchanged),
            },
        };
        match done {
            Err(Error::Request(error)) if is_not_found(&error) => Ok(Outcome::Unchanged),
            done => done,
        }
    }

    async fn claim(&self, claim: &Claim) -> Result<Outcome, Error> {
        let name = plan::volume_name(claim);
        if !plan::is_ours(claim) || self.volumes.get("", &name).is_some() {
            return Ok(Outcome::Unchanged);
        }
        let class = self.classes.get("", claim.class_name());
        let node = |name: &str| self.nodes.get("", name);
        match plan::claim(claim, class.as_deref(), node, &self.local_path.directory)? {
            ClaimPlan::Nothing => Ok(Outcome::Unchanged),
            ClaimPlan::Refuse(why) => {
                self.events.warn(&claim.reference(), "ProvisioningFailed", why);
                Ok(Outcome::Unchanged)
            }
            ClaimPlan::Reschedule(why) => {
                self.events.warn(&claim.reference(), "ProvisioningFailed", why);
                let mut object = requests::whole(&claim.item)?;
                if let Some(annotations) = object["metadata"]["annotations"].as_object_mut() {
                    annotations.remove(SELECTED_NODE);
                }
                requests::replace(&self.client, &claim.url(), &object).await?;
                Ok(Outcome::Wrote)
            }
            ClaimPlan::Make(volume) => {
                let begun = format!("External provisioner is provisioning volume for claim \"{}\"", claim.path());
                self.events.normal(&claim.reference(), "Provisioning", begun);
                if let Err(why) = self.on_machine(&volume, |machine| machine.make.clone()).await {
                    let why = format!("failed to provision volume with StorageClass {:?}: {why}", claim.class_name());
                    self.events.warn(&claim.reference(), "ProvisioningFailed", why.as_str());
                    return Err(Error::Wait(why));
                }
                let body = volume.to_string().into_bytes();
                match requests::create(&self.client, "/api/v1/persistentvolumes", body).await {
                    Err(error) if requests::is_conflict(&error) => return Ok(Outcome::Unchanged),
                    made => made?,
                };
                let made = format!("Successfully provisioned volume {name}");
                self.events.normal(&claim.reference(), "ProvisioningSucceeded", made);
                Ok(Outcome::Wrote)
            }
        }
    }

    async fn volume(&self, volume: &Volume) -> Result<Outcome, Error> {
        let plan = plan::volume(volume, &self.local_path.directory);
        match &plan {
            VolumePlan::Nothing => return Ok(Outcome::Unchanged),
            VolumePlan::Refuse(why) => {
                self.events.warn(&volume.reference(), "VolumeFailedDelete", why.as_str());
                return Ok(Outcome::Unchanged);
            }
            VolumePlan::Remove => {
                let whole: Value = volume.item.parse()?;
                if let Err(why) = self.on_machine(&whole, |machine| machine.remove.clone()).await {
                    self.events.warn(&volume.reference(), "VolumeFailedDelete", why.as_str());
                    return Err(Error::Wait(why));
                }
            }
            VolumePlan::LetGo => {}
        }
        if volume.external_finalizer {
            let mut object = requests::whole(&volume.item)?;
            if let Some(finalizers) = object["metadata"]["finalizers"].as_array_mut() {
                finalizers.retain(|finalizer| finalizer != EXTERNAL_FINALIZER);
            }
            requests::replace(&self.client, &volume.url(), &object).await?;
        }
        if !volume.deleting {
            requests::delete(&self.client, &volume.url()).await?;
        }
        Ok(Outcome::Wrote)
    }

    /// Does something to the directory of a volume, if it is one of this machine.
    async fn on_machine(&self, volume: &Value, what: impl Fn(&LocalMachine) -> OnDirectory) -> Result<(), String> {
        let Some(machine) = &self.local_path.machine else { return Ok(()) };
        let own = self.nodes.get("", &machine.node).map(|node| plan::host_name(&node));
        let path = volume["spec"]["hostPath"]["path"].as_str().unwrap_or_default().to_owned();
        if own.is_none() || plan::node_of(volume) != own.as_deref() || path.is_empty() {
            return Ok(());
        }
        let act = what(machine);
        let done =
            tokio::task::spawn_blocking(move || act(Path::new(&path)).map_err(|error| format!("{path}: {error}")));
        done.await.unwrap_or_else(|error| Err(error.to_string()))
    }
}
