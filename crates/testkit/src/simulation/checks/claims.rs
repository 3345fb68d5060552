//! A claim keeps its volume, and no other has it. Those without one are heard of again and again.

use std::collections::HashMap;

use super::view::{Claim, Event};

#[derive(Default)]
pub(super) struct Claims {
    /// Uid and volume of those that have one.
    bound: HashMap<String, (String, String)>,
    /// The key of the claim that has it.
    by_volume: HashMap<String, String>,
    /// The uids of those without a volume, by key.
    without: HashMap<String, String>,
}

impl Claims {
    pub fn claim(&mut self, key: &str, claim: Option<Claim>) -> Option<String> {
        let old = self.bound.remove(key);
        self.without.remove(key);
        if let Some((_, volume)) = &old {
            self.by_volume.remove(volume);
        }
        let claim = claim?;
        let (uid, volume) = (claim.metadata.uid, claim.spec.volume_name);
        if let Some((_, before)) = old.filter(|(known, before)| *known == uid && *before != volume) {
            return Some(format!("had {before}, and now has {volume:?}"));
        }
        if volume.is_empty() {
            self.without.insert(key.to_owned(), uid);
            return None;
        }
        if let Some(other) = self.by_volume.insert(volume.clone(), key.to_owned()) {
            return Some(format!("has {volume}, and {other} has it, too"));
        }
        self.bound.insert(key.to_owned(), (uid, volume));
        None
    }

    /// It is told whenever all claims are looked at, which happens for ever, of each that nobody has used yet.
    pub fn is_told_again(&self, event: &Event) -> bool {
        let about = &event.involved_object;
        let key = || format!("/registry/persistentvolumeclaims/{}/{}", about.namespace, about.name);
        event.reason == "WaitForFirstConsumer"
            && about.kind == "PersistentVolumeClaim"
            && self.without.get(&key()) == Some(&about.uid)
    }
}
