//! What is to be written before a pod whose claims have no volumes yet can be bound, and whether others have done what
//! then is theirs to do.

use std::sync::Arc;

use rkube_machinery::Text;

use super::Storage;
use super::matching::{Needs, Picks, is_reached};
use crate::snapshot::{Node, Symbols};
use crate::view::{Claim, ClaimReference, Volume};

/// What a pod's claims get on the node that was chosen.
#[derive(Debug, Default)]
pub struct Work {
    pub node: Text,
    /// Volumes that there are, and the claims that get them.
    pub bindings: Vec<(Arc<Volume>, Arc<Claim>)>,
    /// Claims for which volumes are to be made.
    pub provisions: Vec<Arc<Claim>>,
}

/// At which revisions what had to be written was, in the order of the work.
#[derive(Clone, Debug, Default)]
pub struct Written {
    pub bindings: Vec<u64>,
    pub provisions: Vec<u64>,
}

impl Work {
    /// None if all claims have their volumes.
    pub fn of(needs: &Needs<'_>, node: &Node) -> Option<Work> {
        if needs.is_bound() {
            return None;
        }
        let mut picks = Picks::new();
        needs.look(node, &mut picks);
        let mut work = Work { node: node.details.name.clone(), ..Work::default() };
        for pick in picks {
            match pick.volume {
                Some(volume) => work.bindings.push((volume.clone(), pick.claim.clone())),
                None => work.provisions.push(pick.claim.clone()),
            }
        }
        Some(work)
    }

    pub fn claims(&self) -> impl Iterator<Item = &Arc<Claim>> {
        self.bindings.iter().map(|(_, claim)| claim).chain(&self.provisions)
    }
}

impl Storage {
    /// From now on nobody else gets what this pod is to have.
    pub fn assume(&mut self, work: &Work, pod: &Text) {
        for (volume, claim) in &work.bindings {
            let reference =
                ClaimReference { namespace: claim.namespace.clone(), name: claim.name.clone(), uid: claim.uid.clone() };
            if let Some(mut entry) = self.unlist(&volume.name) {
                entry.assumed.get_or_insert((reference, pod.clone()));
                self.list(entry);
            }
        }
        for claim in &work.provisions {
            let entry = self.claims.get_mut(&claim.namespace).and_then(|names| names.get_mut(&claim.name));
            if let Some(entry) = entry {
                entry.assumed.get_or_insert((work.node.clone(), pod.clone()));
            }
        }
    }

    /// What the API does not show by now did not come to be.
    pub fn release(&mut self, work: &Work, pod: &Text) {
        for (volume, _) in &work.bindings {
            if let Some(mut entry) = self.unlist(&volume.name) {
                entry.assumed.take_if(|(_, owner)| owner == pod);
                self.list(entry);
            }
        }
        for claim in &work.provisions {
            let entry = self.claims.get_mut(&claim.namespace).and_then(|names| names.get_mut(&claim.name));
            if let Some(entry) = entry {
                entry.assumed.take_if(|(_, owner)| owner == pod);
            }
        }
    }

    /// Whether all claims have their volumes; what went wrong, in upstream's words, if they will not get them.
    pub fn progress(&self, work: &Work, written: &Written, node: &Node, symbols: &Symbols) -> Result<bool, String> {
        let is_reached = |volume: &Volume| {
            let mismatch = || {
                let (volume, node) = (&volume.name, &node.details.name);
                format!("pv \"{volume}\" node affinity doesn't match node \"{node}\": no matching NodeSelectorTerms")
            };
            is_reached(volume, node, symbols).then_some(()).ok_or_else(mismatch)
        };
        let find_claim = |claim: &Claim, doing: &str| {
            let missing = || {
                format!(
                    "failed to check {doing}: persistentvolumeclaims \"{}/{}\" not found",
                    claim.namespace, claim.name
                )
            };
            self.claim(&claim.namespace, &claim.name).ok_or_else(missing)
        };
        for ((volume, claim), revision) in work.bindings.iter().zip(&written.bindings) {
            let missing = || format!("failed to check binding: persistentvolumes \"{}\" not found", volume.name);
            let volume = self.volume(&volume.name).ok_or_else(missing)?;
            let claim = find_claim(claim, "binding")?;
            if volume.revision < *revision {
                return Ok(false);
            }
            is_reached(volume)?;
            if volume.claim.as_ref().is_none_or(|claim| claim.uid.is_empty()) {
                return Err(format!("ClaimRef got reset for pv \"{}\"", volume.name));
            }
            if !claim.is_bound() {
                return Ok(false);
            }
        }
        for (claim, revision) in work.provisions.iter().zip(&written.provisions) {
            let claim = find_claim(claim, "provisioning pvc")?;
            if claim.revision < *revision {
                return Ok(false);
            }
            // Whoever cannot make the volume takes the node back.
            if claim.selected_node.as_ref() != Some(&work.node) {
                return Err(format!("provisioning failed for PVC \"{}\"", claim.name));
            }
            if !claim.volume.is_empty() {
                match self.volume(&claim.volume) {
                    Some(volume) => is_reached(volume)?,
                    None => return Ok(false),
                }
            }
            if !claim.is_bound() {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
