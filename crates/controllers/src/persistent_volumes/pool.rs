//! Which volumes are free, and which claims want one: both by what they must have in common, and by size, so that the
//! smallest volume that fits is found without a look at the others.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;
use rkube_machinery::Text;
use rkube_machinery::quantity::Quantity;
use rkube_operator::Key;

use crate::volumes::{Claim, Kind, Volume};

/// By size and name.
type BySize<T> = BTreeMap<(Quantity, Text), Arc<T>>;

#[derive(Default)]
pub struct Pool(Mutex<State>);

#[derive(Default)]
struct State {
    /// Those with fewer modes first.
    free: HashMap<Kind, BTreeMap<(u32, u8), BySize<Volume>>>,
    /// Those that are new, and will be free: nobody has said so yet. By name.
    coming: BTreeMap<Text, Arc<Volume>>,
    /// Claims that may have any volume, now.
    waiting: HashMap<Kind, BySize<Claim>>,
    /// Those of them that were told of a volume, until they have looked for it.
    woken: BTreeMap<Key, Arc<Claim>>,
    /// Claims that wait for a volume that they name.
    asking: BTreeSet<Key>,
    /// Volumes that somebody is about to bind.
    taken: HashSet<Text>,
}

/// A volume for a claim. Nobody else gets it until this is dropped.
pub struct Found<'a> {
    pub volume: Arc<Volume>,
    taken_from: Option<&'a Pool>,
}

impl Drop for Found<'_> {
    fn drop(&mut self) {
        if let Some(pool) = self.taken_from {
            pool.0.lock().taken.remove(&self.volume.item.name);
        }
    }
}

impl Pool {
    /// A volume changed, came, or went.
    pub fn volume(&self, old: Option<&Arc<Volume>>, new: Option<&Arc<Volume>>) {
        let state = &mut *self.0.lock();
        if let Some(old) = old {
            state.coming.remove(&old.item.name);
        }
        if let Some(new) = new.filter(|new| new.will_be_free()) {
            state.coming.insert(new.item.name.clone(), new.clone());
        }
        if let Some(old) = old.filter(|old| old.is_free()) {
            let (kind, rank) = (old.kind(), old.modes.rank());
            if let Some(of_kind) = state.free.get_mut(&kind) {
                if let Some(sizes) = of_kind.get_mut(&rank) {
                    sizes.remove(&(old.capacity.clone(), old.item.name.clone()));
                    if sizes.is_empty() {
                        of_kind.remove(&rank);
                    }
                }
                if of_kind.is_empty() {
                    state.free.remove(&kind);
                }
            }
        }
        if let Some(new) = new.filter(|new| new.is_free()) {
            let sizes = state.free.entry(new.kind()).or_default().entry(new.modes.rank()).or_default();
            sizes.insert((new.capacity.clone(), new.item.name.clone()), new.clone());
        }
    }

    /// A claim changed, came, or went.
    pub fn claim(&self, old: Option<&Arc<Claim>>, new: Option<&Arc<Claim>>) {
        let state = &mut *self.0.lock();
        let was_woken = old.is_some_and(|old| state.forget(old));
        match new {
            Some(new) if new.is_unbound() && was_woken => {
                state.woken.insert(new.key(), new.clone());
            }
            Some(new) if new.is_unbound() => state.wait(new.clone()),
            Some(new) if !new.is_bound_for_good() => {
                state.asking.insert(new.key());
            }
            _ => {}
        }
    }

    /// The volume that a claim gets: one that is kept for it, or else the smallest that fits; whichever has fewer modes.
    /// `kept`: those that name the claim. `only_kept`: the scheduler chooses among the others.
    pub fn find(&self, claim: &Claim, kept: &[Arc<Volume>], only_kept: bool) -> Option<Found<'_>> {
        let kept = kept.iter().filter(|volume| volume.is_for(claim) && can_have(claim, volume));
        let kept = kept.min_by_key(|volume| (volume.modes.rank(), &volume.item.name));
        let state = &mut *self.0.lock();
        let free = if only_kept { None } else { state.smallest(claim) };
        let volume = match (kept, free) {
            (Some(kept), Some(free)) if free.modes.rank() < kept.modes.rank() => free,
            (Some(kept), _) => return Some(Found { volume: kept.clone(), taken_from: None }),
            (None, free) => free?,
        };
        state.taken.insert(volume.item.name.clone());
        Some(Found { volume, taken_from: Some(self) })
    }

    /// Whether a volume will be free that the claim could have: it is worth a moment.
    pub fn is_one_coming(&self, claim: &Claim) -> bool {
        let kind = claim.kind();
        let could_have =
            |volume: &Volume| volume.kind() == kind && volume.capacity >= claim.request && fits(claim, volume);
        self.0.lock().coming.values().any(|volume| could_have(volume))
    }

    /// The claim that wants most of what a free volume has, and was not told of another one.
    pub fn wake(&self, volume: &Volume) -> Option<Key> {
        let state = &mut *self.0.lock();
        let above = (volume.capacity.clone(), Text::from("\u{10ffff}"));
        let mut fitting = state.waiting.get(&volume.kind())?.range(..=above).rev().map(|(_, claim)| claim);
        let claim = fitting.find(|claim| fits(claim, volume))?.clone();
        state.forget(&claim);
        let key = claim.key();
        state.woken.insert(key.clone(), claim);
        Some(key)
    }

    /// A claim has looked for a volume.
    pub fn looked(&self, key: &Key) {
        let state = &mut *self.0.lock();
        if let Some(claim) = state.woken.remove(key) {
            state.wait(claim);
        }
    }

    /// All claims that have no volume, in order.
    pub fn waiting(&self) -> Vec<Key> {
        let state = self.0.lock();
        let claims = state.waiting.values().flat_map(BTreeMap::values).map(|claim| claim.key());
        let mut keys: Vec<Key> =
            claims.chain(state.woken.keys().cloned()).chain(state.asking.iter().cloned()).collect();
        keys.sort();
        keys
    }
}

impl State {
    fn wait(&mut self, claim: Arc<Claim>) {
        let sizes = self.waiting.entry(claim.kind()).or_default();
        sizes.insert((claim.request.clone(), claim.path()), claim);
    }

    /// Whether it was told of a volume.
    fn forget(&mut self, claim: &Claim) -> bool {
        let (key, kind) = (claim.key(), claim.kind());
        self.asking.remove(&key);
        if let Some(sizes) = self.waiting.get_mut(&kind) {
            sizes.remove(&(claim.request.clone(), claim.path()));
            if sizes.is_empty() {
                self.waiting.remove(&kind);
            }
        }
        self.woken.remove(&key).is_some()
    }

    fn smallest(&self, claim: &Claim) -> Option<Arc<Volume>> {
        let of_kind = self.free.get(&claim.kind())?;
        let least = (claim.request.clone(), Text::default());
        of_kind.values().find_map(|sizes| {
            // All of one rank have the same modes.
            if !sizes.values().next().is_some_and(|volume| volume.modes.has_all(claim.modes)) {
                return None;
            }
            let mut large_enough = sizes.range(least.clone()..).map(|(_, volume)| volume);
            large_enough.find(|volume| fits(claim, volume) && !self.taken.contains(&volume.item.name)).cloned()
        })
    }
}

/// Whether a volume that is kept for the claim can become its own.
fn can_have(claim: &Claim, volume: &Volume) -> bool {
    volume.capacity >= claim.request
        && volume.block == claim.block
        && volume.attributes_class == claim.attributes_class
        && volume.modes.has_all(claim.modes)
        && !volume.deleting
}

/// Whether a free volume of the claim's kind and large enough is as it wants it.
fn fits(claim: &Claim, volume: &Volume) -> bool {
    volume.modes.has_all(claim.modes)
        && claim.selector.as_ref().is_none_or(|selector| selector.matches_pairs(|key| volume.labels.get(key)))
}
