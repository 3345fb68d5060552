//! Has volumes of drivers attached to the nodes where pods need them, and detached where no pod does. Watches pods, claims,
//! volumes, nodes, drivers and attachments; owns VolumeAttachments, which drivers act on, and `status.volumesAttached` of
//! nodes, by which their kubelets know what they may mount. What needs no attaching is left alone.
//!
//! Everything is read from objects: which nodes have a volume is what attachments say. Only since when a volume is not
//! wanted is kept in memory, so that after a restart a node that does not answer is waited for anew.

mod act;
mod plan;
mod view;

use std::sync::Arc;

use parking_lot::Mutex;
use rkube_machinery::Text;
use rkube_operator::events::Recorder;
use rkube_operator::{Change, Informer, Queue};

use crate::Context;
use crate::pods::{self, Pod};
use crate::volumes::{self, Claim, Volume};
use act::Manager;
use view::{Attachment, OfNode, OfVolume};

const NAME: &str = "persistentvolume-attach-detach-controller";
/// What events say who it is, as upstream.
const COMPONENT: &str = "attachdetach-controller";
const WORKERS: usize = 8;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Work {
    /// Where a volume is to be attached.
    Volume(Text),
    /// What a node says that is attached to it.
    Node(Text),
}

pub async fn run(context: Context) {
    let Context { client, caches, clock, settings } = context;
    let queue: Queue<Work> = Queue::new();
    let claims = volumes::claims(&caches);
    claims.synced().await;
    let adding = queue.clone();
    let claims = claims.on_change(move |change| claim_changed(&adding, change));
    let (adding, known) = (queue.clone(), volumes::claims(&caches));
    let pods = pods::informer(&caches).indexed::<pods::ByClaim>();
    let pods = pods.on_change(move |change| pod_changed(&adding, &known, change));
    let adding = queue.clone();
    let volumes = volumes::volumes(&caches).on_change(move |change| {
        let is_other =
            |old: &Arc<Volume>, new: &Arc<Volume>| (&old.claimant, &old.source) != (&new.claimant, &new.source);
        if change.old.zip(change.new).is_none_or(|(old, new)| is_other(old, new)) {
            adding.add(Work::Volume(change.key.name.as_str().into()));
        }
    });
    let adding = queue.clone();
    let attachments = view::attachments(&caches).indexed::<OfVolume>().indexed::<OfNode>();
    let attachments = attachments.on_change(move |change| attachment_changed(&adding, change));
    let (adding, known) = (queue.clone(), view::attachments(&caches));
    let nodes = view::nodes(&caches).on_change(move |change| node_changed(&adding, &known, change));
    let drivers = view::drivers(&caches);
    pods.synced().await;
    volumes.synced().await;
    attachments.synced().await;
    nodes.synced().await;
    drivers.synced().await;
    let events = Recorder::start(client.clone(), clock.clone(), COMPONENT);
    let never_force = settings.disable_force_detach_on_timeout;
    let (adding, told) = (queue.clone(), Mutex::default());
    let caches = act::Caches { pods, claims, volumes, attachments, nodes, drivers };
    let manager = Arc::new(Manager { client, clock, events, caches, queue: adding, never_force, told });
    rkube_operator::run(NAME, queue, WORKERS, move |work: Work| {
        let manager = manager.clone();
        async move { manager.reconcile(&work).await.map_err(rkube_operator::Error::from) }
    })
    .await;
}

fn claim_changed(queue: &Queue<Work>, change: &Change<'_, Claim>) {
    let volume = |claim: Option<&Arc<Claim>>| claim.map(|claim| (claim.volume.clone(), claim.phase));
    let (before, now) = (volume(change.old), volume(change.new));
    if before != now {
        let names = [before, now].into_iter().flatten().map(|(name, _)| name).filter(|name| !name.is_empty());
        names.for_each(|name| queue.add(Work::Volume(name)));
    }
}

/// Most pods have no claims, and cost nothing.
fn pod_changed(queue: &Queue<Work>, claims: &Informer<Claim>, change: &Change<'_, Pod>) {
    let place = |pod: Option<&Arc<Pod>>| pod.map(|pod| (pod.node.clone(), pod.is_terminal(), pod.uid.clone()));
    if place(change.old) == place(change.new) {
        return;
    }
    for pod in [change.new, change.old].into_iter().flatten() {
        let own = pod.ephemeral.iter().map(|volume| Text::from(format!("{}-{volume}", pod.name)));
        let names = pod.claims.iter().map(|(_, claim)| claim.clone()).chain(own);
        for claim in names.filter_map(|name| claims.get(&pod.namespace, &name)) {
            if !claim.volume.is_empty() {
                queue.add(Work::Volume(claim.volume.clone()));
            }
        }
    }
}

fn attachment_changed(queue: &Queue<Work>, change: &Change<'_, Attachment>) {
    if change.old == change.new {
        return;
    }
    if let Some(attachment) = change.new.or(change.old) {
        queue.add(Work::Node(attachment.node.clone()));
        if !attachment.volume.is_empty() {
            queue.add(Work::Volume(attachment.volume.clone()));
        }
    }
}

/// Nodes change often; what matters here seldom does.
fn node_changed(queue: &Queue<Work>, attachments: &Informer<Attachment>, change: &Change<'_, view::Node>) {
    if change.old == change.new {
        return;
    }
    let name = Text::from(change.key.name.as_str());
    for attachment in attachments.by_index::<OfNode, _>(&name) {
        if !attachment.volume.is_empty() {
            queue.add(Work::Volume(attachment.volume.clone()));
        }
    }
    if change.new.is_some_and(|node| !node.attached.is_empty()) || change.old.is_none() {
        queue.add(Work::Node(name));
    }
}
