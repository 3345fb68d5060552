//! Follows the kinds that quotas name, for as long as they do and the kinds are there, and adds up what their objects take.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use parking_lot::Mutex;
use rkube_machinery::host::Clock;
use rkube_operator::kube::core::ApiResource;
use rkube_operator::process::held;
use rkube_operator::{Caches, Change, Discovered, Informer, Key, Queue, Revision, Selection, Source};
use rkube_quota::{Amounts, Evaluator, Measure};
use tokio::sync::Notify;
use tokio::task::{AbortHandle, JoinError, JoinSet};
use tokio::time::Instant;

use super::ledger::Ledger;
use super::view::{Kind, MEASURED, Present, Quota, Taken};

/// So long quotas wait for the first list of a kind; then they are written without it.
const PATIENCE: Duration = Duration::from_secs(5);

/// What is known of the kinds that quotas name.
#[derive(Default)]
pub struct Kinds {
    /// How many quotas name them.
    named: Mutex<BTreeMap<Kind, usize>>,
    /// Others are named than before.
    changed: Notify,
    counted: Mutex<HashMap<Kind, Counted>>,
}

/// A kind that is or was there, and that a quota names.
struct Counted {
    evaluator: Evaluator,
    ledger: Arc<Mutex<Ledger>>,
    state: State,
}

enum State {
    /// Its first list has not come yet.
    Waiting {
        since: Instant,
    },
    Known(Freshness),
    /// There are no objects of it.
    Gone,
}

/// Until when all that was there is in the ledger. A cache may hear of changes late, and in a busy cluster there is always
/// one that it has not heard of: what is asked is how far it has come.
struct Freshness {
    resource: ApiResource,
    seen: Revision,
    /// None: nothing is known yet. Others may have had the cache for long.
    as_of: Option<Instant>,
    /// There was a change at this revision, at this time, that was not in the ledger.
    ahead: Option<(u64, Instant)>,
}

impl Freshness {
    fn as_of(&mut self, source: &dyn Source) -> Option<Instant> {
        // Before the ledger is looked at, which then has at least that.
        let (seen, now) = (self.seen.now(), Instant::now());
        if let Some((_, then)) = self.ahead.filter(|(revision, _)| *revision <= seen) {
            (self.as_of, self.ahead) = (Some(then), None);
        }
        if self.ahead.is_none() {
            match source.last_change(&self.resource) {
                Some(revision) if revision > seen => self.ahead = Some((revision, now)),
                _ => self.as_of = Some(now),
            }
        }
        self.as_of
    }
}

/// What is used of a quota.
pub struct Count {
    pub used: Amounts,
    /// Everything that was there at this time is counted. None: nobody knows.
    pub as_of: Option<Instant>,
}

impl Kinds {
    /// A quota came, changed or went.
    pub fn quota_changed(&self, old: Option<&Quota>, new: Option<&Quota>) {
        let mut named = self.named.lock();
        let mut is_changed = false;
        for kind in new.iter().flat_map(|quota| &quota.kinds) {
            let quotas = named.entry(kind.clone()).or_default();
            is_changed |= *quotas == 0;
            *quotas += 1;
        }
        for kind in old.iter().flat_map(|quota| &quota.kinds) {
            let Some(quotas) = named.get_mut(kind) else { continue };
            *quotas = quotas.saturating_sub(1);
            if *quotas == 0 {
                named.remove(kind);
                is_changed = true;
            }
        }
        if is_changed {
            self.changed.notify_one();
        }
    }

    /// What is used of a quota, of the resources that can be counted. `Err`: a kind is not known yet, for so long at most.
    pub fn used(&self, quota: &Quota, source: &dyn Source, now_micros: i64) -> Result<Count, Duration> {
        let mut counted = self.counted.lock();
        let (mut used, mut as_of) = (Amounts::new(), Some(Instant::now()));
        for kind in &quota.kinds {
            let Some(counted) = counted.get_mut(kind) else { continue };
            match &mut counted.state {
                State::Waiting { since } => {
                    match PATIENCE.checked_sub(since.elapsed()).filter(|left| !left.is_zero()) {
                        Some(left) => return Err(left),
                        None => continue,
                    }
                }
                State::Known(freshness) => as_of = freshness.as_of(source).and_then(|at| Some(at.min(as_of?))),
                State::Gone => {}
            }
            let sum = counted.ledger.lock().used(&quota.item.namespace, &quota.said.requirements, now_micros);
            for name in quota.said.wanted.keys().filter(|name| counted.evaluator.counts(name)) {
                let amount = sum.get(name).cloned().unwrap_or_else(|| rkube_quota::amounts::count(0));
                rkube_quota::amounts::add_one(&mut used, name, &amount);
            }
        }
        Ok(Count { used, as_of })
    }
}

/// What following a kind needs.
#[derive(Clone)]
pub struct Follower {
    pub kinds: Arc<Kinds>,
    pub caches: Caches,
    pub quotas: Arc<Informer<Quota>>,
    pub queue: Queue<Key>,
    pub clock: Arc<dyn Clock>,
}

/// A kind that is followed.
struct Following {
    version: String,
    task: AbortHandle,
}

impl Follower {
    /// Follows kinds as they are named, come and go.
    pub async fn run(self) {
        let mut tasks = JoinSet::new();
        let mut followed: HashMap<Kind, Following> = HashMap::new();
        let mut served: HashMap<Kind, ApiResource> = HashMap::new();
        let mut discovered = self.caches.source().discover();
        loop {
            tokio::select! {
                biased;
                Some(ended) = tasks.join_next() => match ended.map_err(JoinError::try_into_panic) {
                    Err(Ok(panic)) => std::panic::resume_unwind(panic),
                    Ok(()) | Err(Err(_)) => continue,
                },
                found = discovered.next() => {
                    let Some(found) = found else { return };
                    served = quotable(found);
                }
                () = self.kinds.changed.notified() => {}
            }
            let named: Vec<Kind> = self.kinds.named.lock().keys().cloned().collect();
            self.let_go(&named, &served, &mut followed);
            for kind in named {
                let Some(resource) = served.get(&kind).filter(|_| !followed.contains_key(&kind)) else { continue };
                let Some(evaluator) = Evaluator::of(&kind.0, &kind.1) else { continue };
                let ledger: Arc<Mutex<Ledger>> = Arc::default();
                let counted = Counted {
                    evaluator: evaluator.clone(),
                    ledger: ledger.clone(),
                    state: State::Waiting { since: Instant::now() },
                };
                self.kinds.counted.lock().insert(kind.clone(), counted);
                let task = tasks.spawn(held(self.clone().follow(kind.clone(), resource.clone(), evaluator, ledger)));
                followed.insert(kind, Following { version: resource.version.clone(), task });
            }
        }
    }

    /// Ends with kinds that nobody names, that are gone, or that are served in another version now.
    fn let_go(&self, named: &[Kind], served: &HashMap<Kind, ApiResource>, followed: &mut HashMap<Kind, Following>) {
        let mut gone = Vec::new();
        followed.retain(|kind, following| {
            let is_named = named.binary_search(kind).is_ok();
            let resource = served.get(kind);
            let stays = is_named && resource.is_some_and(|resource| resource.version == following.version);
            if !stays {
                following.task.abort();
                let mut counted = self.kinds.counted.lock();
                if !is_named {
                    counted.remove(kind);
                } else if resource.is_none() {
                    // It has no objects any more.
                    if let Some(counted) = counted.get_mut(kind) {
                        *counted = Counted {
                            evaluator: counted.evaluator.clone(),
                            ledger: Arc::default(),
                            state: State::Gone,
                        };
                    }
                    gone.push(kind.clone());
                }
            }
            stays
        });
        gone.iter().for_each(|kind| self.look_at_all(kind));
    }

    /// Quotas that name the kind are looked at.
    fn look_at_all(&self, kind: &Kind) {
        for quota in self.quotas.all().iter().filter(|quota| quota.counts(kind)) {
            self.queue.add(quota_key(quota));
        }
    }

    async fn follow(self, kind: Kind, resource: ApiResource, evaluator: Evaluator, ledger: Arc<Mutex<Ledger>>) {
        let observer = Observer { follower: self, kind, ledger, one: Arc::new(evaluator.measure(&Default::default())) };
        let measured = MEASURED.iter().position(|measured| *measured == evaluator);
        match measured {
            Some(0) => observer.measure::<0>(&resource).await,
            Some(1) => observer.measure::<1>(&resource).await,
            Some(2) => observer.measure::<2>(&resource).await,
            Some(3) => observer.measure::<3>(&resource).await,
            _ => observer.count(&resource).await,
        }
    }
}

/// Hears of the objects of a kind.
struct Observer {
    follower: Follower,
    kind: Kind,
    ledger: Arc<Mutex<Ledger>>,
    /// What an object takes that is only counted.
    one: Arc<Measure>,
}

impl Observer {
    async fn count(self, resource: &ApiResource) {
        let selection = Selection { metadata_only: true, ..Selection::default() };
        let informer = self.follower.caches.view(resource, selection, Present::read);
        self.observe(informer, resource, |_, one| one.clone()).await;
    }

    async fn measure<const EVALUATOR: usize>(self, resource: &ApiResource) {
        let informer = self.follower.caches.view(resource, Selection::default(), Taken::<EVALUATOR>::read);
        self.observe(informer, resource, |taken, _| taken.0.clone()).await;
    }

    /// Keeps the ledger, to the end of the task.
    async fn observe<V: Send + Sync + 'static>(
        self,
        informer: Informer<V>,
        resource: &ApiResource,
        measure: fn(&V, &Arc<Measure>) -> Arc<Measure>,
    ) {
        let observer = Arc::new(self);
        let told = observer.clone();
        let informer = informer.on_change(move |change| told.changed(change, measure));
        informer.synced().await;
        if let Some(counted) = observer.follower.kinds.counted.lock().get_mut(&observer.kind) {
            let (resource, seen) = (resource.clone(), informer.seen());
            counted.state = State::Known(Freshness { resource, seen, as_of: None, ahead: None });
        }
        observer.follower.look_at_all(&observer.kind);
        std::future::pending::<()>().await;
    }

    fn changed<V>(&self, change: &Change<'_, V>, measure: fn(&V, &Arc<Measure>) -> Arc<Measure>) {
        let of = |object: &Arc<V>| measure(object, &self.one);
        let (old, new) = (change.old.map(of), change.new.map(of));
        if old == new {
            return;
        }
        let Key { namespace, name } = change.key;
        self.ledger.lock().change(namespace, name, old.as_ref(), new.as_ref());
        // What comes was charged when it was admitted.
        if old.is_none() {
            return;
        }
        let expires = new.as_ref().and_then(|new| new.expires);
        for quota in self.follower.quotas.in_namespace(namespace).iter().filter(|quota| quota.counts(&self.kind)) {
            let key = quota_key(quota);
            if let Some(at) = expires {
                let left = at.saturating_mul(1_000_000).saturating_sub(self.follower.clock.now_micros());
                let left = u64::try_from(left).unwrap_or(0).saturating_add(1);
                self.follower.queue.add_after(key.clone(), Duration::from_micros(left));
            }
            self.follower.queue.add(key);
        }
    }
}

pub fn quota_key(quota: &Quota) -> Key {
    Key { namespace: quota.item.namespace.to_string(), name: quota.item.name.to_string() }
}

/// The kinds whose objects can be counted, in the version that discovery prefers.
fn quotable(found: Vec<Discovered>) -> HashMap<Kind, ApiResource> {
    let wanted = found
        .into_iter()
        .filter(|found| found.preferred && found.namespaced && found.supports(&["create", "list", "watch", "delete"]));
    let by_kind = wanted.map(|found| {
        let kind = (found.resource.group.as_str().into(), found.resource.plural.as_str().into());
        (kind, found.resource)
    });
    by_kind.collect()
}
