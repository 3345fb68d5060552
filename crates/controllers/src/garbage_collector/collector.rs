//! The collector at work: takes what the graph asks for, looks the objects up in the API, and does what the plan says.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt as _, stream};
use parking_lot::Mutex;
use rkube_machinery::Text;
use rkube_operator::Queue;
use serde_json::{Value, json};

use super::graph::{Graph, Misplaced, State, Work};
use super::live::{Error, Live, PatchType};
use super::object::{Coordinates, FOREGROUND, Metadata, ORPHAN, OwnerReference};
use super::plan::{OwnerState, Plan, Policy, Situation, decide};

/// So many dependents of one owner are orphaned at a time.
const ORPHANED_AT_ONCE: usize = 32;
/// A finalizer is taken away in so many attempts, then later again.
const FINALIZER_ATTEMPTS: usize = 5;

/// How long until an owner is asked for by other coordinates.
const LATER: Duration = Duration::from_millis(50);
/// So many objects may wait for a kind before it is looked whether they are still there.
pub(super) const PARKED_MIN: usize = 1024;

pub struct Collector<L> {
    pub live: L,
    graph: Mutex<Graph>,
    /// Objects to look at, by uid.
    pub attempts: Queue<Text>,
    /// Objects whose dependents are to be orphaned, by uid.
    pub orphans: Queue<Text>,
    /// Objects that wait for a kind to be served.
    parked: Mutex<BTreeSet<Text>>,
    /// Who is told of objects that name an owner in another namespace.
    report: Box<dyn Fn(Misplaced) + Send + Sync>,
}

impl<L: Live> Collector<L> {
    pub fn new(live: L, report: impl Fn(Misplaced) + Send + Sync + 'static) -> Arc<Collector<L>> {
        Arc::new(Collector {
            live,
            graph: Mutex::default(),
            attempts: Queue::new(),
            orphans: Queue::new(),
            parked: Mutex::default(),
            report: Box::new(report),
        })
    }

    /// Changes the graph and sees to what follows from it.
    pub fn change<T>(&self, change: impl FnOnce(&mut Graph, &mut Work) -> T) -> T {
        let mut work = Work::default();
        let result = change(&mut self.graph.lock(), &mut work);
        work.attempt.into_iter().for_each(|uid| self.attempts.add(uid));
        work.orphan.into_iter().for_each(|uid| self.orphans.add(uid));
        work.attempt_later.into_iter().for_each(|uid| self.attempts.add_after(uid, LATER));
        work.misplaced.into_iter().for_each(&self.report);
        result
    }

    pub fn read<T>(&self, read: impl FnOnce(&Graph) -> T) -> T {
        read(&self.graph.lock())
    }

    /// Keeps an object until kinds change. Those that are gone by then are forgotten now and then.
    fn park(&self, uid: &Text) {
        let mut parked = self.parked.lock();
        parked.insert(uid.clone());
        self.read(|graph| {
            if parked.len() > PARKED_MIN.max(graph.len() * 2) {
                parked.retain(|uid| graph.state(uid).is_some());
            }
        });
    }

    #[cfg(test)]
    pub fn parked(&self) -> usize {
        self.parked.lock().len()
    }

    /// What waited for a kind is looked at again.
    pub fn kinds_changed(&self) {
        let parked = std::mem::take(&mut *self.parked.lock());
        parked.into_iter().for_each(|uid| self.attempts.add(uid));
    }

    /// Looks at an object: deletes it if no owner is left, or lets it go if it waits for no dependent any more. An error
    /// means that it is to be looked at again.
    pub async fn attempt(&self, uid: &Text) -> Result<(), Error> {
        let Some(node) = self.read(|graph| graph.state(uid).cloned()) else { return Ok(()) };
        // Once it is on its way only its end matters.
        if node.terminating && !node.waiting && !node.assumed {
            return Ok(());
        }
        let outcome = match self.look_at(&node.coordinates, node.serial, node.assumed, node.waiting).await {
            Err(Error::NotFound) => self.not_found(&node).await,
            other => other,
        };
        match outcome {
            Err(Error::NoKind { .. }) => {
                self.park(uid);
                Ok(())
            }
            Err(Error::NamespacedOwner) => Ok(()),
            other => other,
        }
    }

    /// There is no such object. What was only assumed may be in another namespace than its dependents are; then they are
    /// told that it is not theirs.
    async fn not_found(&self, node: &State) -> Result<(), Error> {
        let object = &node.coordinates;
        if node.assumed
            && let Some(found) = self.live.find_elsewhere(object).await?
        {
            let seen = found.seen(&object.api_version, &object.kind);
            self.change(|graph, work| graph.verified(seen, node.serial, work));
            return Ok(());
        }
        self.change(|graph, work| graph.not_found(object, work));
        Ok(())
    }

    async fn look_at(&self, object: &Coordinates, serial: u64, assumed: bool, waiting: bool) -> Result<(), Error> {
        let latest = self.live.get(object).await?;
        if latest.uid != object.uid {
            return Err(Error::NotFound);
        }
        let seen = latest.seen(&object.api_version, &object.kind);
        if assumed {
            // Events of it tell what comes next: the graph has it since before it was asked for.
            self.change(|graph, work| graph.verified(seen.clone(), serial, work));
        }
        if waiting || assumed && seen.is_waiting() {
            return self.let_go_of_waiting(object).await;
        }
        if latest.owners().is_empty() || assumed && seen.terminating {
            return Ok(());
        }
        let situation = self.situation(object, &latest).await?;
        match decide(&situation) {
            Plan::Keep => Ok(()),
            Plan::Detach(owners) => self.detach(object, &owners).await,
            Plan::Delete { policy, unblock } => {
                if unblock {
                    self.unblock(object, &latest).await?;
                    // The object is another version now.
                    return self.delete(object, None, &latest, policy).await;
                }
                self.delete(object, Some(&latest.resource_version), &latest, policy).await
            }
        }
    }

    async fn situation(&self, object: &Coordinates, latest: &Metadata) -> Result<Situation, Error> {
        let mut owners = Vec::with_capacity(latest.owners().len());
        for owner in latest.owners() {
            owners.push((owner.uid.as_str().into(), self.owner_state(object, owner).await?));
        }
        let (has_dependents, has_waiting_dependent) = self.read(|graph| {
            // What the API just said of an owner may be news to the graph; in a circle the owner is a dependent, too.
            let waits = |(uid, state): &(Text, OwnerState)| {
                *state == OwnerState::Waiting && graph.is_dependent(&object.uid, uid)
            };
            let any_waits = graph.has_waiting_dependent(&object.uid) || owners.iter().any(waits);
            (graph.has_dependents(&object.uid), any_waits)
        });
        Ok(Situation {
            owners,
            has_dependents,
            has_waiting_dependent,
            has_orphan_finalizer: latest.has_finalizer(ORPHAN),
            has_foreground_finalizer: latest.has_finalizer(FOREGROUND),
        })
    }

    /// How an owner is, by what is known of owners that are gone, and else by the API.
    async fn owner_state(&self, object: &Coordinates, owner: &OwnerReference) -> Result<OwnerState, Error> {
        let mut wanted = Coordinates {
            kind: owner.kind.as_str().into(),
            api_version: owner.api_version.as_str().into(),
            namespace: Text::default(),
            name: owner.name.as_str().into(),
            uid: owner.uid.as_str().into(),
        };
        if self.read(|graph| graph.is_absent(&wanted)) {
            return Ok(OwnerState::Absent);
        }
        wanted.namespace = object.namespace.clone();
        if self.read(|graph| graph.is_absent(&wanted)) {
            return Ok(OwnerState::Absent);
        }
        if !self.live.is_namespaced(&wanted.api_version, &wanted.kind)? {
            wanted.namespace = Text::default();
        } else if object.namespace.is_empty() {
            return Err(Error::NamespacedOwner);
        }
        match self.live.get(&wanted).await {
            Ok(found) if found.uid == owner.uid => {
                let is_waiting = found.deletion_timestamp.is_some() && found.has_finalizer(FOREGROUND);
                Ok(if is_waiting { OwnerState::Waiting } else { OwnerState::Solid })
            }
            Ok(_) | Err(Error::NotFound) => {
                self.change(|graph, _| graph.note_absent(wanted));
                Ok(OwnerState::Absent)
            }
            Err(error) => Err(error),
        }
    }

    async fn delete(
        &self,
        object: &Coordinates,
        version: Option<&str>,
        seen: &Metadata,
        policy: Policy,
    ) -> Result<(), Error> {
        match self.live.delete(object, version, policy).await {
            Err(Error::Conflict) if version.is_some() => {}
            other => return other,
        }
        // Who is changed all the time must not escape for that: as long as the owners are the same it goes.
        let latest = self.live.get(object).await?;
        let is_same = latest.uid == object.uid && latest.owners() == seen.owners();
        if is_same { self.live.delete(object, None, policy).await } else { Err(Error::Conflict) }
    }

    /// The object waits for dependents: without any that hold it, it may go.
    async fn let_go_of_waiting(&self, object: &Coordinates) -> Result<(), Error> {
        let is_blocked = self.read(|graph| {
            let mut blocking = graph.blocking_dependents(&object.uid).peekable();
            let is_blocked = blocking.peek().is_some();
            blocking.filter(|(_, waiting)| !waiting).for_each(|(uid, _)| self.attempts.add(uid.clone()));
            is_blocked
        });
        if is_blocked { Ok(()) } else { self.remove_finalizer(object, FOREGROUND).await }
    }

    /// Takes the dependents of an object from it, then the finalizer that asked for it.
    pub async fn orphan(&self, uid: &Text) -> Result<(), Error> {
        let found = self.read(|graph| {
            let owner = graph.state(uid)?.coordinates.clone();
            let dependents = graph.dependents(uid);
            let dependents = dependents.iter().filter_map(|uid| Some(graph.state(uid)?.coordinates.clone()));
            Some((owner, dependents.collect::<Vec<_>>()))
        });
        let Some((owner, dependents)) = found else { return Ok(()) };
        let detached = stream::iter(dependents).map(|dependent| {
            let owner = owner.uid.clone();
            async move {
                match self.detach(&dependent, &[owner]).await {
                    Err(Error::NotFound) => Ok(()),
                    other => other,
                }
            }
        });
        let outcomes: Vec<_> = detached.buffer_unordered(ORPHANED_AT_ONCE).collect().await;
        outcomes.into_iter().collect::<Result<(), Error>>()?;
        self.remove_finalizer(&owner, ORPHAN).await
    }

    /// Takes references to these owners from an object.
    async fn detach(&self, object: &Coordinates, owners: &[Text]) -> Result<(), Error> {
        let deleted = owners.iter().map(|uid| json!({ "$patch": "delete", "uid": uid.as_str() }));
        let patch = json!({ "metadata": {
            "ownerReferences": deleted.collect::<Vec<_>>(), "uid": object.uid.as_str(),
        } });
        self.patch(object, patch, |latest| {
            let kept = latest.owners().iter().filter(|owner| owners.iter().all(|uid| *uid != owner.uid));
            kept.cloned().collect()
        })
        .await
    }

    /// Makes an object's references block no owner.
    async fn unblock(&self, object: &Coordinates, latest: &Metadata) -> Result<(), Error> {
        let unblocked = |owner: &OwnerReference| OwnerReference { block_owner_deletion: Some(false), ..owner.clone() };
        let blocking = latest.owners().iter().filter(|owner| owner.block_owner_deletion == Some(true));
        let patch = json!({ "metadata": {
            "ownerReferences": blocking.map(unblocked).collect::<Vec<_>>(), "uid": object.uid.as_str(),
        } });
        self.patch(object, patch, |latest| latest.owners().iter().map(unblocked).collect()).await
    }

    /// A strategic merge patch, or where there is none for the kind, all owners anew.
    async fn patch(
        &self,
        object: &Coordinates,
        patch: Value,
        owners: impl Fn(&Metadata) -> Vec<OwnerReference>,
    ) -> Result<(), Error> {
        match self.live.patch(object, PatchType::Strategic, &patch).await {
            Err(Error::UnsupportedPatch) => {}
            other => return other,
        }
        let latest = self.live.get(object).await?;
        let patch = json!({ "metadata": {
            "ownerReferences": owners(&latest), "resourceVersion": latest.resource_version, "uid": object.uid.as_str(),
        } });
        self.live.patch(object, PatchType::Merge, &patch).await
    }

    async fn remove_finalizer(&self, object: &Coordinates, finalizer: &str) -> Result<(), Error> {
        for _ in 0..FINALIZER_ATTEMPTS {
            let latest = match self.live.get(object).await {
                Ok(latest) if latest.uid == object.uid => latest,
                Ok(_) | Err(Error::NotFound) => return Ok(()),
                Err(error) => return Err(error),
            };
            if !latest.has_finalizer(finalizer) {
                return Ok(());
            }
            let kept = latest.finalizers.iter().flatten().filter(|one| *one != finalizer);
            let patch = json!({ "metadata": {
                "finalizers": kept.collect::<Vec<_>>(), "resourceVersion": latest.resource_version,
            } });
            match self.live.patch(object, PatchType::Merge, &patch).await {
                Err(Error::Conflict) => {}
                Err(Error::NotFound) => return Ok(()),
                other => return other,
            }
        }
        Err(Error::Conflict)
    }
}
