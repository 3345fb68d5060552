//! Who depends on whom, as watches tell it.
//!
//! The graph holds objects that name owners, those whom others name, and those whose deletion waits for what is done here;
//! all others come and go without a trace. An owner that is not in the graph when its first dependent comes is
//! **assumed**: whether it exists, and is what its dependents say, is found out from the API before anything follows
//! from it. From the moment that it is in the graph no event of it is missed.
//!
//! The graph does nothing by itself: what a change asks for is returned as [`Work`].

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};

use foldhash::quality::RandomState;
use rkube_machinery::Text;

use super::object::{Coordinates, Owner, Seen};

/// So many owners are remembered that are known to be gone. Who is forgotten is asked for again.
const ABSENT_MAX: usize = 8192;

/// What is to be done after a change.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// To be looked at: whether they are to be deleted, or can go.
    pub attempt: Vec<Text>,
    /// The same, but later.
    pub attempt_later: Vec<Text>,
    /// Whose dependents are to be orphaned.
    pub orphan: Vec<Text>,
    /// Objects that name an owner which is in another namespace, and the owner's uid.
    pub misplaced: Vec<Misplaced>,
}

/// An object that names an owner which is in another namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misplaced {
    pub object: Coordinates,
    pub owner: Coordinates,
}

/// What is known of an object by itself.
#[derive(Clone, Debug)]
pub struct State {
    pub coordinates: Coordinates,
    /// Nothing is known of it but what dependents say.
    pub assumed: bool,
    /// Tells this node from one that had the uid before.
    pub serial: u64,
    pub terminating: bool,
    /// Its deletion waits for its dependents to go.
    pub waiting: bool,
    orphaning: bool,
    /// As which a watch told of it last.
    revision: Option<u64>,
}

struct Node {
    state: State,
    owners: Vec<Owner>,
    dependents: BTreeSet<Text>,
}

impl std::ops::Deref for Node {
    type Target = State;

    fn deref(&self) -> &State {
        &self.state
    }
}

impl std::ops::DerefMut for Node {
    fn deref_mut(&mut self) -> &mut State {
        &mut self.state
    }
}

#[derive(Default)]
pub struct Graph {
    nodes: HashMap<Text, Node, RandomState>,
    absent: Absent,
    serials: u64,
}

impl Graph {
    /// Whether a watch has told of the object as it is at this revision.
    pub fn is_observed(&self, uid: &str, revision: u64) -> bool {
        self.state(uid).is_some_and(|state| !state.assumed && state.revision == Some(revision))
    }

    /// The object of this uid, if the graph has it.
    pub fn state(&self, uid: &str) -> Option<&State> {
        self.nodes.get(uid).map(|node| &node.state)
    }

    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether the owner is known to be gone.
    pub fn is_absent(&self, owner: &Coordinates) -> bool {
        self.absent.known.contains(owner)
    }

    /// The owner was asked for and is not there.
    pub fn note_absent(&mut self, owner: Coordinates) {
        self.absent.add(owner);
    }

    /// The uids of those who name this object as their owner.
    pub fn dependents(&self, uid: &str) -> Vec<Text> {
        self.nodes.get(uid).map(|node| node.dependents.iter().cloned().collect()).unwrap_or_default()
    }

    pub fn has_dependents(&self, uid: &str) -> bool {
        self.nodes.get(uid).is_some_and(|node| !node.dependents.is_empty())
    }

    /// Whether the second is known to depend on the first.
    pub fn is_dependent(&self, uid: &str, dependent: &Text) -> bool {
        self.nodes.get(uid).is_some_and(|node| node.dependents.contains(dependent))
    }

    pub fn has_waiting_dependent(&self, uid: &str) -> bool {
        let dependents = self.nodes.get(uid).into_iter().flat_map(|node| &node.dependents);
        dependents.filter_map(|uid| self.nodes.get(uid)).any(|dependent| dependent.waiting)
    }

    /// Those dependents without which the owner is not to go, and whether each waits for its own.
    pub fn blocking_dependents(&self, uid: &str) -> impl Iterator<Item = (&Text, bool)> {
        let dependents = self.nodes.get(uid).into_iter().flat_map(|node| &node.dependents);
        // One that names itself would wait for ever.
        let found = dependents.filter(move |dependent| *dependent != uid).filter_map(|uid| self.nodes.get(uid));
        let blocking = found.filter(move |found| found.owners.iter().any(|owner| owner.uid == uid && owner.blocks));
        blocking.map(|found| (&found.coordinates.uid, found.waiting))
    }

    /// A watch says that the object is there, and like this.
    pub fn observe(&mut self, seen: Seen, work: &mut Work) {
        let (uid, revision) = (seen.coordinates.uid.clone(), seen.revision);
        if self.nodes.contains_key(&uid) {
            self.confirm(&seen.coordinates, work);
            self.update(seen, work);
        } else if !seen.owners.is_empty() || seen.is_orphaning() || seen.is_waiting() {
            let owners = seen.owners.clone();
            self.insert(seen.coordinates.clone(), false, owners.clone());
            self.add_to_owners(&uid, &owners, work);
            self.note_transitions(&seen, work);
        }
        if let Some(node) = self.nodes.get_mut(&uid) {
            node.revision = revision;
        }
        self.forget_if_free(&uid);
    }

    /// The API says that an object which was assumed is there, and like this.
    pub fn verified(&mut self, seen: Seen, serial: u64, work: &mut Work) {
        let known = self.nodes.get(&seen.coordinates.uid);
        if known.is_some_and(|node| node.serial == serial && node.assumed) {
            self.observe(seen, work);
        }
    }

    /// A watch says that the object is gone.
    pub fn removed(&mut self, coordinates: &Coordinates, work: &mut Work) {
        if self.nodes.contains_key(&coordinates.uid) {
            self.remove(coordinates, work);
        }
    }

    /// The API says that there is no object with these coordinates.
    pub fn not_found(&mut self, gone: &Coordinates, work: &mut Work) {
        let Some(node) = self.nodes.get(&gone.uid) else { return };
        let (assumed, same) = (node.assumed, node.coordinates == *gone);
        let (matching, others) = self.partition_dependents(gone);
        let is_gone = if assumed { others.is_empty() } else { same };
        if is_gone {
            return self.remove(gone, work);
        }
        // What dependents with other ideas of this owner refer to may be there.
        if !matching.is_empty() {
            self.absent.add(gone.clone());
            work.attempt.extend(matching);
        }
        if assumed
            && same
            && let Some(other) = self.another_identity(&others, gone)
        {
            let serial = self.next_serial();
            if let Some(node) = self.nodes.get_mut(&gone.uid) {
                (node.coordinates, node.serial) = (other, serial);
                work.attempt_later.push(gone.uid.clone());
            }
        }
    }

    /// All objects of a kind were listed: those that are not among them may be gone. The API is asked.
    pub fn listed(&mut self, api_version: &str, kind: &str, uids: &BTreeSet<Text>, work: &mut Work) {
        for node in self.nodes.values_mut() {
            let State { coordinates, assumed, .. } = &mut node.state;
            // It may have been seen in another version of the group.
            let is_of_kind = coordinates.kind == kind && group(&coordinates.api_version) == group(api_version);
            if is_of_kind && !*assumed && !uids.contains(&coordinates.uid) {
                *assumed = true;
                work.attempt.push(coordinates.uid.clone());
            }
        }
        work.attempt.sort_unstable();
    }

    /// What was assumed of an object is replaced by what it is.
    fn confirm(&mut self, coordinates: &Coordinates, work: &mut Work) {
        let Some(node) = self.nodes.get(&coordinates.uid) else { return };
        if node.assumed && node.coordinates != *coordinates {
            for uid in self.partition_dependents(coordinates).1 {
                let is_elsewhere = |dependent: &Node| {
                    !coordinates.namespace.is_empty() && dependent.coordinates.namespace != coordinates.namespace
                };
                if self.nodes.get(&uid).is_some_and(is_elsewhere) {
                    self.report_misplaced(&uid, &coordinates.uid, work);
                }
                work.attempt.push(uid);
            }
        }
        if let Some(node) = self.nodes.get_mut(&coordinates.uid) {
            node.coordinates = coordinates.clone();
            node.assumed = false;
        }
    }

    /// Takes over what is new of an object that is in the graph.
    fn update(&mut self, seen: Seen, work: &mut Work) {
        let uid = &seen.coordinates.uid;
        let Some(node) = self.nodes.get_mut(uid) else { return };
        if node.owners != seen.owners {
            let before = std::mem::replace(&mut node.owners, seen.owners.clone());
            let (old, new) = (by_uid(&before), by_uid(&seen.owners));
            // Owners that were blocked and are no more may go now.
            for owner in before.iter().filter(|owner| owner.blocks) {
                let still = new.get(&owner.uid).is_some_and(|owner| owner.blocks);
                if !still && self.nodes.contains_key(&owner.uid) {
                    work.attempt.push(owner.uid.clone());
                }
            }
            let added = seen.owners.iter().filter(|owner| !old.contains_key(&owner.uid));
            self.add_to_owners(uid, &added.cloned().collect::<Vec<_>>(), work);
            for owner in before.iter().filter(|owner| !new.contains_key(&owner.uid)) {
                self.remove_from_owner(uid, &owner.uid);
            }
        }
        self.note_transitions(&seen, work);
    }

    /// What the beginning of a deletion asks for.
    fn note_transitions(&mut self, seen: &Seen, work: &mut Work) {
        let uid = &seen.coordinates.uid;
        let Some(node) = self.nodes.get_mut(uid) else { return };
        node.terminating |= seen.terminating;
        let starts_orphaning = seen.is_orphaning() && !node.orphaning;
        let starts_waiting = seen.is_waiting() && !node.waiting;
        (node.orphaning, node.waiting) = (seen.is_orphaning(), seen.is_waiting());
        if starts_orphaning {
            work.orphan.push(uid.clone());
        } else if starts_waiting {
            work.attempt.extend(node.dependents.iter().cloned());
            work.attempt.push(uid.clone());
        }
    }

    fn add_to_owners(&mut self, uid: &Text, owners: &[Owner], work: &mut Work) {
        let Some(namespace) = self.nodes.get(uid).map(|node| node.coordinates.namespace.clone()) else { return };
        let mut is_doubtful = false;
        for owner in owners {
            let Some(node) = self.nodes.get_mut(&owner.uid) else {
                self.insert(owner.seen_from(&namespace), true, Vec::new());
                if let Some(node) = self.nodes.get_mut(&owner.uid) {
                    node.dependents.insert(uid.clone());
                }
                work.attempt.push(owner.uid.clone());
                continue;
            };
            node.dependents.insert(uid.clone());
            if is_doubtful {
                continue;
            }
            // Nobody else would look at one that comes when the owner is waiting already.
            is_doubtful = node.waiting;
            let owner_namespace = &node.coordinates.namespace;
            let is_elsewhere = *owner_namespace != namespace;
            if !owner_namespace.is_empty() && is_elsewhere {
                is_doubtful = true;
                if !node.assumed {
                    self.report_misplaced(uid, &owner.uid, work);
                }
            } else {
                // An owner without a namespace that is only assumed may be of a kind that has one.
                is_doubtful |= !owner.refers_to(&node.coordinates) || is_elsewhere && node.assumed;
            }
        }
        if is_doubtful {
            work.attempt.push(uid.clone());
        }
    }

    fn report_misplaced(&self, uid: &Text, owner: &Text, work: &mut Work) {
        let Some(node) = self.nodes.get(uid) else { return };
        if let Some(owner) = node.owners.iter().find(|reference| reference.uid == *owner) {
            let owner = owner.seen_from(&node.coordinates.namespace);
            work.misplaced.push(Misplaced { object: node.coordinates.clone(), owner });
        }
    }

    fn remove(&mut self, gone: &Coordinates, work: &mut Work) {
        let Some(node) = self.nodes.remove(&gone.uid) else { return };
        if !node.dependents.is_empty() {
            self.absent.add(gone.clone());
        }
        work.attempt.extend(node.dependents);
        for owner in &node.owners {
            self.remove_from_owner(&gone.uid, &owner.uid);
            // It may go now if it waited for this one last.
            let is_waiting = self.nodes.get(&owner.uid).is_some_and(|found| found.waiting);
            if is_waiting && self.blocking_dependents(&owner.uid).next().is_none() {
                work.attempt.push(owner.uid.clone());
            }
        }
    }

    fn remove_from_owner(&mut self, uid: &Text, owner: &Text) {
        if let Some(node) = self.nodes.get_mut(owner) {
            node.dependents.remove(uid);
            self.forget_if_free(owner);
        }
    }

    /// An object that has neither owners nor dependents, and does not wait for us, is none of the graph's.
    fn forget_if_free(&mut self, uid: &Text) {
        let is_free =
            |node: &Node| node.owners.is_empty() && node.dependents.is_empty() && !node.waiting && !node.orphaning;
        if self.nodes.get(uid).is_some_and(is_free) {
            self.nodes.remove(uid);
        }
    }

    fn insert(&mut self, coordinates: Coordinates, assumed: bool, owners: Vec<Owner>) {
        let uid = coordinates.uid.clone();
        let serial = self.next_serial();
        let state = State {
            coordinates,
            assumed,
            serial,
            terminating: false,
            waiting: false,
            orphaning: false,
            revision: None,
        };
        self.nodes.insert(uid, Node { state, owners, dependents: BTreeSet::new() });
    }

    fn next_serial(&mut self) -> u64 {
        self.serials += 1;
        self.serials
    }

    /// The dependents of an object whose references fit these coordinates, and those of which one does not.
    fn partition_dependents(&self, of: &Coordinates) -> (Vec<Text>, Vec<Text>) {
        let (mut matching, mut others) = (Vec::new(), Vec::new());
        let dependents = self.nodes.get(&of.uid).into_iter().flat_map(|node| &node.dependents);
        for dependent in dependents.filter_map(|uid| self.nodes.get(uid)) {
            let is_elsewhere = !of.namespace.is_empty() && of.namespace != dependent.coordinates.namespace;
            let references = || dependent.owners.iter().filter(|owner| owner.uid == of.uid);
            let uid = &dependent.coordinates.uid;
            if !is_elsewhere && references().any(|owner| owner.refers_to(of)) {
                matching.push(uid.clone());
            }
            if is_elsewhere || references().any(|owner| !owner.refers_to(of)) {
                others.push(uid.clone());
            }
        }
        (matching, others)
    }

    /// Other coordinates by which these dependents refer to an owner: the first behind those that are known to be wrong,
    /// or else the first of all, so that each gets its turn.
    fn another_identity(&self, dependents: &[Text], wrong: &Coordinates) -> Option<Coordinates> {
        let mut found: BTreeSet<Coordinates> = BTreeSet::new();
        for dependent in dependents.iter().filter_map(|uid| self.nodes.get(uid)) {
            let namespace = &dependent.coordinates.namespace;
            for owner in dependent.owners.iter().filter(|owner| owner.uid == wrong.uid) {
                let mut other = owner.seen_from(namespace);
                // The kind has no namespaces, as is known from what was asked for.
                if wrong.namespace.is_empty() && other.kind == wrong.kind && other.api_version == wrong.api_version {
                    other.namespace = Text::default();
                }
                found.insert(other);
            }
        }
        found.remove(wrong);
        let behind = found.range(wrong.clone()..).next();
        behind.or_else(|| found.first()).cloned()
    }
}

fn group(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

/// An object may have thousands of owners.
fn by_uid(owners: &[Owner]) -> HashMap<&Text, &Owner, RandomState> {
    owners.iter().map(|owner| (&owner.uid, owner)).collect()
}

/// Owners that are known to be gone, the last ones.
#[derive(Default)]
struct Absent {
    known: HashSet<Coordinates, RandomState>,
    order: VecDeque<Coordinates>,
}

impl Absent {
    fn add(&mut self, owner: Coordinates) {
        if !self.known.insert(owner.clone()) {
            return;
        }
        self.order.push_back(owner);
        if self.order.len() > ABSENT_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }
}
