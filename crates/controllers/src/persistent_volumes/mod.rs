//! Binds claims to volumes. Watches claims, volumes, storage classes and pods; writes claims and volumes and what they say
//! of themselves; gives claims the default class; names who is to make a volume; takes care of volumes whose claims are
//! gone.
//!
//! A claim looks for a volume when it changes, when its class does, and when a volume comes free that it could have; those
//! that wait look again from time to time, as upstream (`--pvclaimbinder-sync-period`), and say so.

mod act;
mod plan;
#[cfg(test)]
mod plan_tests;
mod pool;

use std::sync::Arc;

use rkube_machinery::Text;
use rkube_operator::events::Recorder;
use rkube_operator::{Change, Index, Informer, Key, Priority, Queue};

use crate::Context;
use crate::pods;
use crate::settings;
use crate::volumes::{self, ByClaimant, Claim, Claimant, StorageClass, Unbound, Volume, VolumePhase};
use act::Binder;
use pool::Pool;

const NAME: &str = "persistentvolume-binder-controller";
/// What events say who it is, as upstream.
const COMPONENT: &str = "persistentvolume-controller";
/// Upstream has one for claims and one for volumes. Here no two of them find the same volume.
const WORKERS: usize = 16;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Work {
    Claim(Key),
    Volume(String),
}

/// Claims by the volume that they name.
struct ByVolume;

impl Index<Claim> for ByVolume {
    type Key = Text;

    fn keys(_: &Key, claim: &Claim) -> impl IntoIterator<Item = Text> {
        Some(claim.volume.clone()).filter(|volume| !volume.is_empty())
    }
}

/// Volumes whose claims are gone, and with which something is still to be done.
struct ToReclaim;

impl Index<Volume> for ToReclaim {
    type Key = ();

    fn keys(_: &Key, volume: &Volume) -> impl IntoIterator<Item = ()> {
        let is_given_up = matches!(volume.phase, VolumePhase::Released | VolumePhase::Failed);
        (is_given_up && volume.reclaim_policy != "Retain").then_some(())
    }
}

pub async fn run(context: Context) {
    let Context { client, caches, clock, settings } = context;
    let (queue, pool): (Queue<Work>, Arc<Pool>) = (Queue::new(), Arc::default());
    let claims = volumes::claims(&caches).indexed::<Unbound>().indexed::<ByVolume>();
    let volumes = volumes::volumes(&caches).indexed::<ByClaimant>().indexed::<ToReclaim>();
    // Claims are known before the volumes that they could have.
    let (adding, changed, known) = (queue.clone(), pool.clone(), volumes::volumes(&caches));
    let claims = claims.on_change(move |change| {
        changed.claim(change.old, change.new);
        claim_changed(&adding, &known, change);
    });
    claims.synced().await;
    let (adding, changed, known) = (queue.clone(), pool.clone(), volumes::claims(&caches));
    let volumes = volumes.on_change(move |change| {
        changed.volume(change.old, change.new);
        volume_changed(&adding, &known, &changed, change);
    });
    let (adding, known) = (queue.clone(), volumes::claims(&caches));
    let classes = volumes::classes(&caches).on_change(move |change| class_changed(&adding, &known, change));
    let pods = pods::informer(&caches).indexed::<pods::ByClaim>();
    volumes.synced().await;
    classes.synced().await;
    pods.synced().await;
    let events = Recorder::start(client.clone(), clock.clone(), COMPONENT);
    let provisioning = settings.enable_dynamic_provisioning;
    let (adding, period) = (queue.clone(), settings.pvclaimbinder_sync_period);
    let binder = Arc::new(Binder { client, events, claims, volumes, classes, pods, pool, queue: adding, provisioning });
    let looking_again = look_again(binder.clone(), period);
    let running = rkube_operator::run(NAME, queue, WORKERS, move |work: Work| {
        let binder = binder.clone();
        async move { binder.reconcile(&work).await.map_err(rkube_operator::Error::from) }
    });
    futures::future::join(looking_again, running).await;
}

/// Now and then all claims that have no volume, and all volumes that cannot be got rid of.
async fn look_again(binder: Arc<Binder>, period: std::time::Duration) {
    loop {
        settings::pause(period).await;
        for key in binder.pool.waiting() {
            binder.queue.add_as(Work::Claim(key), Priority::Background);
        }
        for volume in binder.volumes.by_index::<ToReclaim, _>(&()) {
            binder.queue.add_as(Work::Volume(volume.item.name.to_string()), Priority::Background);
        }
    }
}

fn claim_changed(queue: &Queue<Work>, volumes: &Informer<Volume>, change: &Change<'_, Claim>) {
    if change.new.is_some() {
        queue.add(Work::Claim(change.key.clone()));
    }
    let named = |claim: Option<&Arc<Claim>>| claim.map(|claim| (claim.item.uid.clone(), claim.volume.clone()));
    let (before, now) = (named(change.old), named(change.new));
    if before.is_none() || before == now {
        return;
    }
    // Volumes that have it, or had it.
    let path = volumes::path(&change.key.namespace, &change.key.name);
    let mut names: Vec<Text> =
        volumes.by_index::<ByClaimant, _>(&path).iter().map(|volume| volume.item.name.clone()).collect();
    names.extend(before.map(|(_, volume)| volume).filter(|name| !name.is_empty() && !names.contains(name)));
    names.into_iter().for_each(|name| queue.add(Work::Volume(name.to_string())));
}

fn volume_changed(queue: &Queue<Work>, claims: &Informer<Claim>, pool: &Pool, change: &Change<'_, Volume>) {
    if change.new.is_some() {
        queue.add(Work::Volume(change.key.name.clone()));
    }
    let claimant = |volume: Option<&Arc<Volume>>| volume.and_then(|volume| volume.claimant.clone());
    let (before, now) = (claimant(change.old), claimant(change.new));
    let is_other = change.old.is_none() || change.new.is_none() || before != now;
    if is_other {
        let mut keys: Vec<Key> = [before, now].iter().flatten().map(Claimant::key).collect();
        keys.extend(claims.by_index::<ByVolume, _>(change.key.name.as_str()).iter().map(|claim| claim.key()));
        keys.dedup();
        keys.into_iter().for_each(|key| queue.add(Work::Claim(key)));
    }
    let was_free = change.old.is_some_and(|volume| volume.is_free());
    if let Some(volume) = change.new.filter(|volume| volume.is_free() && !was_free)
        && let Some(key) = pool.wake(volume)
    {
        queue.add(Work::Claim(key));
    }
}

fn class_changed(queue: &Queue<Work>, claims: &Informer<Claim>, change: &Change<'_, StorageClass>) {
    let Some(class) = change.new.filter(|class| change.old != Some(class)) else { return };
    let mut waiting = claims.by_index::<Unbound, _>(class.name.as_str());
    if class.is_default {
        waiting.extend(claims.by_index::<Unbound, _>("").into_iter().filter(|claim| claim.class.is_none()));
    }
    waiting.iter().for_each(|claim| queue.add(Work::Claim(claim.key())));
}
