//! A controller by what it watches: which changes lead to which keys, and how keys are worked on.
//!
//! ```no_run
//! use rkube_operator::k8s_openapi::api::apps::v1::Deployment;
//! use rkube_operator::k8s_openapi::api::core::v1::{ConfigMap, Secret};
//! use rkube_operator::{Action, Context, Controller, Error, Key, Operator, Predicate, Watch};
//!
//! async fn reconcile(context: Context, key: Key) -> Result<Action, Error> {
//!     let Some(deployment) = context.get::<Deployment>(&key).await else { return Ok(Action::done()) };
//!     // Look at what is there, plan, act through `context.client`.
//!     # let _ = deployment;
//!     Ok(Action::done())
//! }
//!
//! # async fn run(mut operator: Operator) -> Result<(), Error> {
//! let controller = Controller::<Deployment>::of(Watch::objects().when(Predicate::generation()), "example")
//!     .owns(Watch::<ConfigMap>::objects())
//!     .watches(Watch::<Secret>::objects().labels("example=true"), |change| vec![change.key.clone()])
//!     .workers(4);
//! operator.controller(controller, reconcile);
//! # Ok(())
//! # }
//! ```

mod context;
mod predicate;
mod trigger;
mod watch;

pub use context::{Context, Environment, ScopedApi};
pub use predicate::Predicate;
pub use trigger::Trigger;
pub use watch::{Transform, Watch};

use std::any::TypeId;
use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use k8s_openapi::ClusterResourceScope;
use kube::Resource;
use serde::de::DeserializeOwned;

use crate::error::Error;
use crate::events::Reference;
use crate::informer::{Caches, Change, Informer, Key};
use crate::queue::{Options, Priority, Queue, Rate};
use crate::reconcile::{Action, Run, run_with};

/// A controller has so many reconciles under way at a time, unless it says otherwise.
const WORKERS: usize = 1;
/// A reconcile that takes longer has failed, unless the controller says otherwise.
const TIMEOUT: Duration = Duration::from_secs(60);
/// After so many failures an object goes to quarantine, unless the controller says otherwise: with the usual back-off that
/// is more than half an hour.
const QUARANTINE_AFTER: u32 = 50;

/// A controller of objects of a kind.
pub struct Controller<K> {
    name: &'static str,
    sources: Vec<Attach>,
    warmers: Vec<Warm>,
    timers: Vec<(Duration, Tick)>,
    triggers: Vec<Trigger>,
    workers: usize,
    timeout: Duration,
    options: Options,
    kind: PhantomData<fn(K)>,
}

/// Has changes of something lead to keys in a queue.
type Attach = Box<dyn Fn(&Context, &Queue<Key>) -> Box<dyn Attached> + Send + Sync>;
/// Has the cache of something be there, and nothing follow from it yet.
type Warm = Box<dyn Fn(&Caches) -> Box<dyn Attached> + Send + Sync>;
/// The keys that a timer is about.
type Tick = Box<dyn Fn(&Context) -> BoxFuture<'static, Vec<Key>> + Send + Sync>;

/// A source that a controller holds on to.
pub(crate) trait Attached: Send + Sync {
    fn is_synced(&self) -> bool;
    fn synced(&self) -> BoxFuture<'_, ()>;
}

impl<V: Send + Sync + 'static> Attached for (Informer<V>, Arc<Informer<V>>) {
    fn is_synced(&self) -> bool {
        self.0.is_synced()
    }

    fn synced(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.0.synced())
    }
}

impl<V: Send + Sync + 'static> Attached for Informer<V> {
    fn is_synced(&self) -> bool {
        Informer::is_synced(self)
    }

    fn synced(&self) -> BoxFuture<'_, ()> {
        Box::pin(Informer::synced(self))
    }
}

impl<K> Controller<K>
where
    K: Resource<DynamicType = ()> + DeserializeOwned + Send + Sync + 'static,
{
    /// One for all objects of a kind. The name is that of its events and metrics.
    pub fn new(name: &'static str) -> Self {
        Controller::of(Watch::objects(), name)
    }

    /// One for these objects of a kind: each change leads to the key of the object.
    pub fn of(watch: Watch<K>, name: &'static str) -> Self {
        let controller = Controller {
            name,
            sources: Vec::new(),
            warmers: Vec::new(),
            timers: Vec::new(),
            triggers: Vec::new(),
            workers: WORKERS,
            timeout: TIMEOUT,
            options: Options { quarantine_after: Some(QUARANTINE_AFTER), ..Options::default() },
            kind: PhantomData,
        };
        controller.watches(watch, |change| vec![change.key.clone()])
    }

    /// What belongs to the objects: each change of one leads to the key of the object that controls it, before the change
    /// and after.
    pub fn owns<V: Resource + Send + Sync + 'static>(self, watch: Watch<V>) -> Self
    where
        K::Scope: 'static,
    {
        self.watches(watch, |change| {
            let mut owners: Vec<Key> =
                [change.old, change.new].into_iter().flatten().filter_map(|object| owner::<K>(&**object)).collect();
            owners.dedup();
            owners
        })
    }

    /// Whatever else matters: each change leads to the keys that `map` makes of it.
    pub fn watches<V: Send + Sync + 'static>(
        mut self,
        watch: Watch<V>,
        map: impl Fn(&Change<'_, V>) -> Vec<Key> + Send + Sync + 'static,
    ) -> Self {
        let (map, warmed) = (Arc::new(map), watch.clone());
        self.warmers.push(Box::new(move |caches| Box::new(warmed.informer(caches))));
        self.sources.push(Box::new(move |context, queue| {
            let (map, queue, predicate) = (map.clone(), queue.clone(), watch.predicate());
            let informer = watch.informer(&context.caches).on_change(move |change| {
                if predicate.as_ref().is_none_or(|predicate| predicate.holds(change)) {
                    let priority = if change.listed { Priority::Background } else { Priority::Fresh };
                    map(change).into_iter().for_each(|key| queue.add_as(key, priority));
                }
            });
            // What reconciles read is the same cache.
            let held = context.hold(|| watch.informer(&context.caches));
            Box::new((informer, held))
        }));
        self
    }

    /// Events from outside: whoever has the handle says which keys to look at.
    pub fn trigger(&mut self) -> Trigger {
        let trigger = Trigger::default();
        self.triggers.push(trigger.clone());
        trigger
    }

    /// Looks at all objects again each such time, behind everything that has changed.
    pub fn resync(self, period: Duration) -> Self {
        self.every(period, |context| async move {
            let objects = context.cache::<K>().await;
            objects.keys()
        })
    }

    /// Looks at these keys each such time.
    pub fn every<F>(mut self, period: Duration, keys: impl Fn(Context) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Vec<Key>> + Send + 'static,
    {
        self.timers.push((period, Box::new(move |context| Box::pin(keys(context.clone())))));
        self
    }

    /// So many reconciles may be under way at a time; of one key there is never more than one.
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = workers.max(1);
        self
    }

    /// A reconcile that takes longer has failed.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// How long a key waits that has failed: this, and twice as long each further time up to the maximum.
    pub fn backoff(mut self, first: Duration, max: Duration) -> Self {
        (self.options.backoff_first, self.options.backoff_max) = (first, max);
        self
    }

    /// After so many failures an object is tried no more until it changes; None: never.
    pub fn quarantine_after(mut self, failures: Option<u32>) -> Self {
        self.options.quarantine_after = failures;
        self
    }

    /// No more reconciles are begun than so many at once, and then so many in each second.
    pub fn rate(mut self, burst: u32, per_second: u32) -> Self {
        self.options.rate = Some(Rate { burst, per_second });
        self
    }

    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The caches of all that it watches, to be held by who will run it later.
    pub(crate) fn warm(&self, caches: &Caches) -> Vec<Box<dyn Attached>> {
        self.warmers.iter().map(|warm| warm(caches)).collect()
    }

    /// Runs until the future is dropped, or the manager drains. Supervision is the manager's: see
    /// [`crate::Operator::controller`].
    pub async fn run<F>(
        &self,
        environment: &Environment,
        reconcile: impl Fn(Context, Key) -> F + Clone + Send + Sync + 'static,
    ) where
        F: Future<Output = Result<Action, Error>> + Send + 'static,
    {
        let context = Context::new(environment, self.name);
        let queue = Queue::with(self.options.clone());
        let attached: Vec<_> = self.sources.iter().map(|attach| attach(&context, &queue)).collect();
        for source in &attached {
            source.synced().await;
        }
        self.triggers.iter().for_each(|trigger| trigger.attach(&queue));
        let run = Run {
            name: self.name,
            workers: self.workers,
            timeout: self.timeout,
            quarantined: quarantined::<K>(&context),
        };
        let timers = self.timers.iter().map(|(period, tick)| keep_time(*period, tick, &context, &queue));
        let timers = futures::future::join_all(timers);
        let reconciling = context.clone();
        tokio::select! {
            biased;
            () = run_with(run, queue.clone(), move |key| reconcile(reconciling.clone(), key)) => {}
            _ = timers, if !self.timers.is_empty() => {}
        }
        drop(attached);
    }
}

/// Says of an object that it is in quarantine.
fn quarantined<K>(context: &Context) -> crate::reconcile::Quarantining<Key>
where
    K: Resource<DynamicType = ()> + DeserializeOwned + Send + Sync + 'static,
{
    let (objects, recorder) = (context.hold(|| context.caches.objects::<K>()), context.recorder.clone());
    Arc::new(move |key: &Key, why: &str| {
        if let Some(object) = objects.get(&key.namespace, &key.name) {
            let message = format!("Reconciling failed too often and waits for a change: {why}");
            recorder.warn(&Reference::of(&*object), "Quarantined", message);
        }
    })
}

async fn keep_time(period: Duration, tick: &Tick, context: &Context, queue: &Queue<Key>) {
    loop {
        tokio::time::sleep(period).await;
        for key in tick(context).await {
            queue.add_as(key, Priority::Background);
        }
    }
}

/// The object of the kind that controls this one.
fn owner<K: Resource<DynamicType = (), Scope: 'static>>(object: &impl Resource) -> Option<Key> {
    let metadata = object.meta();
    let owner = metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))?;
    let group = owner.api_version.rsplit_once('/').map_or("", |(group, _)| group);
    if owner.kind != K::kind(&()) || group != K::group(&()) {
        return None;
    }
    let is_cluster_scoped = TypeId::of::<K::Scope>() == TypeId::of::<ClusterResourceScope>();
    let namespace = if is_cluster_scoped { None } else { metadata.namespace.clone() };
    Some(Key { namespace: namespace.unwrap_or_default(), name: owner.name.clone() })
}
