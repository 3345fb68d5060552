//! Which volumes the claims of a pod get on a node: those that they have, the smallest that will do, or new ones.
//!
//! What does not depend on the node is found out once; then each node costs what its volumes' affinity costs.

use std::sync::Arc;

use smallvec::SmallVec;

use super::{Storage, VolumeEntry};
use crate::snapshot::{Node, Symbols, Wanted};
use crate::view::{Claim, ClaimReference, Pod, StorageClass, Term, Volume};

/// Volumes of such a class are made by nobody.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// The claims of a pod, all of which can be bound or are.
pub struct Needs<'a> {
    bound: Vec<BoundClaim<'a>>,
    /// By size, so that each gets the smallest that fits.
    unbound: Vec<UnboundClaim<'a>>,
    symbols: &'a Symbols,
}

struct BoundClaim<'a> {
    /// None: there is no such volume.
    volume: Option<Candidate<'a>>,
}

struct UnboundClaim<'a> {
    claim: &'a Arc<Claim>,
    /// The only node that will do: a volume is being made for it.
    selected: Option<&'a str>,
    /// By size; one that is for this claim is the only one.
    candidates: Vec<Candidate<'a>>,
    provision: Provision<'a>,
}

struct Candidate<'a> {
    volume: &'a Arc<Volume>,
    nodes: Places<'a>,
}

/// How a volume could be made.
enum Provision<'a> {
    Nobody,
    On {
        nodes: Places<'a>,
        /// Where there is enough room; None: nobody knows how much there is.
        room: Option<Vec<Wanted<'a>>>,
    },
}

/// The nodes that will do.
struct Places<'a>(Option<Vec<Wanted<'a>>>);

impl<'a> Places<'a> {
    fn of(terms: Option<&'a Vec<Term>>, symbols: &Symbols) -> Places<'a> {
        Places(terms.map(|terms| terms.iter().map(|term| Wanted::of(term, symbols)).collect()))
    }

    fn contains(&self, node: &Node, symbols: &Symbols) -> bool {
        self.0.as_ref().is_none_or(|terms| terms.iter().any(|term| term.matches_labels(node, symbols)))
    }
}

/// Whether a node can reach a volume.
pub fn is_reached(volume: &Volume, node: &Node, symbols: &Symbols) -> bool {
    Places::of(volume.node_affinity.as_ref(), symbols).contains(node, symbols)
}

/// What is wrong with a node; nothing if all is false.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lacks {
    pub affinity: bool,
    pub volumes: bool,
    pub room: bool,
    /// A volume that is not there at all.
    pub existence: bool,
}

/// What a claim gets: a volume, or a new one.
pub struct Pick<'a> {
    pub claim: &'a Arc<Claim>,
    pub volume: Option<&'a Arc<Volume>>,
}

pub type Picks<'a> = SmallVec<[Pick<'a>; 4]>;

impl Storage {
    /// What a pod's claims need. None if one is not there, or is to be bound without the scheduler and is not yet.
    pub fn needs<'a>(&'a self, pod: &Pod, symbols: &'a Symbols) -> Option<Needs<'a>> {
        let mut needs = Needs { bound: Vec::new(), unbound: Vec::new(), symbols };
        let names = pod.volumes.as_ref().map_or(&[][..], |volumes| &volumes.claims);
        for (place, name) in names.iter().enumerate() {
            if names[..place].iter().any(|before| before.name == name.name) {
                continue;
            }
            let claim = self.claim(&pod.namespace, &name.name)?;
            if claim.is_bound() {
                let volume = self.volume(&claim.volume).map(|volume| Candidate::of(volume, symbols));
                needs.bound.push(BoundClaim { volume });
            } else {
                let class = self.class(&claim.class).filter(|class| class.waits_for_consumer)?;
                if !claim.volume.is_empty() {
                    return None;
                }
                needs.unbound.push(self.unbound(claim, class, symbols));
            }
        }
        needs.unbound.sort_by_key(|one| one.claim.request);
        Some(needs)
    }

    fn unbound<'a>(&'a self, claim: &'a Arc<Claim>, class: &'a StorageClass, symbols: &Symbols) -> UnboundClaim<'a> {
        let assumed = self.claims.get(&claim.namespace).and_then(|names| names.get(&claim.name)?.assumed.as_ref());
        let selected = assumed.map(|(node, _)| node).or(claim.selected_node.as_ref());
        let provision = self.provision(claim, class, symbols);
        let mut one =
            UnboundClaim { claim, selected: selected.map(|node| node.as_str()), candidates: Vec::new(), provision };
        if one.selected.is_some() {
            return one;
        }
        let prebound = self.by_claim.get(&claim.namespace).and_then(|names| names.get(&claim.name));
        let prebound = prebound.into_iter().flatten().filter_map(|name| self.volumes.get(name));
        let mut prebound = prebound.filter(|entry| is_for(entry, claim) && is_suitable(&entry.volume, claim));
        if let Some(entry) = prebound.next() {
            one.candidates.push(Candidate::of(&entry.volume, symbols));
            return one;
        }
        let open = self.open.get(&claim.class);
        let large_enough = open.into_iter().flat_map(|all| all.range((claim.request.unwrap_or(0), "".into())..));
        let volumes = large_enough.filter_map(|(_, name)| Some(&self.volumes.get(name)?.volume));
        let volumes = volumes.filter(|volume| is_suitable(volume, claim) && is_selected(volume, claim));
        one.candidates.extend(volumes.map(|volume| Candidate::of(volume, symbols)));
        one
    }

    fn provision<'a>(&'a self, claim: &Claim, class: &'a StorageClass, symbols: &Symbols) -> Provision<'a> {
        if class.provisioner.is_empty() || class.provisioner == NO_PROVISIONER {
            return Provision::Nobody;
        }
        let nodes = Places::of(class.topologies.as_ref(), symbols);
        let tells = self.drivers.get(&class.provisioner).is_some_and(|driver| driver.tells_capacity);
        let room = claim.request.filter(|_| tells).map(|request| {
            let all = self.capacities.get(&class.name).into_iter().flat_map(|all| all.values());
            let enough = all.filter(|capacity| capacity.limit.is_some_and(|limit| limit >= request));
            enough.filter_map(|capacity| Some(Wanted::of(capacity.nodes.as_ref()?, symbols))).collect()
        });
        Provision::On { nodes, room }
    }
}

/// Whether a volume is for this claim, by name at least.
fn is_for(entry: &VolumeEntry, claim: &Claim) -> bool {
    let ClaimReference { uid, .. } = match entry.claim() {
        Some(reference) => reference,
        None => return false,
    };
    entry.volume.class == claim.class && (uid.is_empty() || *uid == claim.uid)
}

/// Whether a volume has what the claim needs, whoever it is for.
fn is_suitable(volume: &Volume, claim: &Claim) -> bool {
    volume.capacity >= claim.request.unwrap_or(0)
        && volume.is_block == claim.is_block
        && volume.attributes_class == claim.attributes_class
        && !volume.is_terminating
}

/// What is asked of a volume that is nobody's.
fn is_selected(volume: &Volume, claim: &Claim) -> bool {
    let is_labelled = |selector: &Option<Term>| {
        let term = selector.as_ref();
        term.is_some_and(|term| term.labels.iter().all(|one| one.matches(volume.label(&one.key))))
    };
    volume.access_modes.contains(claim.access_modes) && claim.selector.as_ref().is_none_or(is_labelled)
}

impl<'a> Candidate<'a> {
    fn of(volume: &'a Arc<Volume>, symbols: &Symbols) -> Candidate<'a> {
        Candidate { volume, nodes: Places::of(volume.node_affinity.as_ref(), symbols) }
    }
}

impl<'a> Needs<'a> {
    /// Whether all claims have their volumes already.
    pub fn is_bound(&self) -> bool {
        self.unbound.is_empty()
    }

    /// What the node lacks; if nothing, what the claims get there that have none yet.
    pub fn look(&self, node: &Node, picks: &mut Picks<'a>) -> Lacks {
        let mut lacks = Lacks::default();
        for one in &self.bound {
            match &one.volume {
                None => lacks.existence = true,
                Some(volume) if !volume.nodes.contains(node, self.symbols) => lacks.affinity = true,
                Some(_) => continue,
            }
            break;
        }
        let is_elsewhere = |one: &UnboundClaim<'_>| one.selected.is_some_and(|selected| node.details.name != selected);
        if self.unbound.iter().any(is_elsewhere) {
            lacks.volumes = true;
            return lacks;
        }
        for one in &self.unbound {
            let is_taken = |volume: &Arc<Volume>| {
                picks.iter().any(|pick| pick.volume.is_some_and(|taken| Arc::ptr_eq(taken, volume)))
            };
            let mut fitting = one
                .candidates
                .iter()
                .filter(|candidate| !is_taken(candidate.volume) && candidate.nodes.contains(node, self.symbols));
            let volume = fitting.next().map(|candidate| candidate.volume);
            picks.push(Pick { claim: one.claim, volume });
        }
        // Those for which volumes are being made come first.
        let (selected, others) = (self.unbound.iter().zip(&*picks), self.unbound.iter().zip(&*picks));
        let selected = selected.filter(|(one, _)| one.selected.is_some());
        let others = others.filter(|(one, pick)| one.selected.is_none() && pick.volume.is_none());
        for (one, _) in selected.chain(others) {
            match &one.provision {
                Provision::On { nodes, room } if nodes.contains(node, self.symbols) => {
                    let is_near = |place: &Wanted<'_>| place.matches_labels(node, self.symbols);
                    lacks.room = room.as_ref().is_some_and(|places| !places.iter().any(is_near));
                }
                _ => lacks.volumes = true,
            }
            if lacks.room || lacks.volumes {
                break;
            }
        }
        lacks
    }
}
