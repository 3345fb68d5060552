//! Things that go wrong in a cluster of a test, all of them from one seed.
//!
//! Faults are put in at the two seams of [`rkube_cluster::Host`]: the way of a part's requests to the server (`transport.rs`)
//! and the changes that its caches hear of (`source.rs`). Parts themselves crash and hang (`parts.rs`), and the time of day
//! jumps (`disasters.rs`, which also loses nodes). Whether something goes wrong, and what, is drawn from one stream of
//! random numbers. With virtual time, one thread and a store in memory the same seed gives the same run: `trace.rs` sums
//! up every write and every fault in a number that tells two runs apart.
//!
//! What the test itself asks of the cluster, with the client of [`crate::TestCluster`], never goes wrong.

mod disasters;
mod parts;
mod plan;
mod source;
mod trace;
mod transport;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rkube_machinery::host::Entropy;
use rkube_store::Store;

use disasters::Disasters;
pub(crate) use disasters::NODES;
use parts::{Instance, Instances};
pub use plan::{Faults, Safeguard};
use rkube_cluster::{Host, Part};
use rkube_operator::kube::Client;
use source::SlowSource;
use tokio::task::JoinSet;
pub use trace::{Observer, Seen, Writer};
use trace::{Requester, Trace};
use transport::Unreliable;

use crate::host::{SeededEntropy, VirtualClock};

/// So that faults are another stream than the names and uids of the same seed.
const STREAM: u64 = 0x0fa0_17f0_0d5e_ed00;

/// A cluster's faults, as the cluster has them.
pub(crate) struct Wrong {
    chaos: Arc<Chaos>,
    instances: Arc<Instances>,
    clock: Option<Arc<VirtualClock>>,
    disasters: Option<Disasters>,
    tasks: Mutex<JoinSet<()>>,
}

impl Wrong {
    /// Before anything is written.
    pub async fn begin(plan: Faults, seed: u64, clock: Option<Arc<VirtualClock>>, store: &dyn Store) -> Wrong {
        let chaos = Chaos::new(plan, seed);
        chaos.follow(store).await;
        Wrong { chaos, instances: Arc::default(), clock, disasters: None, tasks: Mutex::default() }
    }

    /// A part that may crash and hang, and whose requests may get lost.
    /// Its instances are led by this Lease, if there are several at a time.
    pub fn supervised(
        &self,
        name: &str,
        lease: Option<&'static str>,
        make: impl Fn(&str) -> Part + Send + Sync + 'static,
    ) -> Part {
        parts::supervised(name, lease, &self.chaos, &self.instances, make)
    }

    /// From here on, the greater things go wrong, too.
    pub fn struck(mut self, client: &Client) -> Wrong {
        let disasters = Disasters {
            chaos: self.chaos.clone(),
            instances: self.instances.clone(),
            client: client.clone(),
            clock: self.clock.clone(),
        };
        self.tasks = Mutex::new(disasters::strike(&disasters));
        self.disasters = Some(disasters);
        self
    }

    pub fn chaos(&self) -> &Arc<Chaos> {
        &self.chaos
    }

    /// What an operator of a test gets.
    pub fn host(&self, host: &Host) -> Host {
        parts::host_for(host, &Instance::new("operator".into(), None, 1, self.chaos.clone()))
    }

    pub async fn end(&self) {
        // What is under way is made good below.
        self.tasks.lock().abort_all();
        if let Some(disasters) = &self.disasters {
            disasters.end().await;
        }
    }
}

/// What goes wrong in one cluster: the plan, the dice and the record.
pub struct Chaos {
    plan: Faults,
    dice: SeededEntropy,
    active: AtomicBool,
    trace: Mutex<Trace>,
}

impl Chaos {
    pub(crate) fn new(plan: Faults, seed: u64) -> Arc<Chaos> {
        let trace = Mutex::new(Trace::start(plan.lines));
        Arc::new(Chaos { plan, dice: SeededEntropy::new(seed ^ STREAM), active: AtomicBool::new(true), trace })
    }

    /// Has every write noted from here on, and told to who observes.
    pub(crate) async fn follow(self: &Arc<Chaos>, store: &dyn Store) {
        let sink = trace::Follower::new(self.clone());
        let handle = store.watch("", None, Box::new(sink)).await.expect("a store that was just opened can be watched");
        self.trace.lock().keep(handle);
    }

    /// Nothing goes wrong any more.
    pub fn stop(&self) {
        self.note("faults stop");
        self.active.store(false, Ordering::Relaxed);
    }

    pub fn is_active(&self) -> bool {
        self.active.load(Ordering::Relaxed)
    }

    pub fn plan(&self) -> &Faults {
        &self.plan
    }

    /// A number of all that was written, and all that went wrong, until now: the same in every run of a seed.
    pub fn digest(&self) -> u64 {
        self.trace.lock().digest()
    }

    /// How many writes there were.
    pub fn writes(&self) -> u64 {
        self.trace.lock().writes()
    }

    /// How many faults there were.
    pub fn faults(&self) -> u64 {
        self.trace.lock().faults()
    }

    /// What happened, line by line, if the plan has that kept.
    pub fn lines(&self) -> Vec<String> {
        self.trace.lock().lines().to_vec()
    }

    /// Has somebody look at every write, in order, as it happens.
    pub fn observe(&self, observer: Box<dyn Observer>) {
        self.trace.lock().observe(observer);
    }

    fn set_writer(&self, writer: Option<&Requester>) {
        self.trace.lock().set_writer(writer);
    }

    /// Notes something that is no write.
    pub fn note(&self, what: &str) {
        self.trace.lock().fault(what);
    }

    /// Whether something that happens so often in a thousand times happens now.
    fn happens(&self, per_mille: u32) -> bool {
        per_mille > 0 && self.is_active() && self.below(1000) < u64::from(per_mille)
    }

    /// A number less than that one.
    fn below(&self, end: u64) -> u64 {
        self.dice.next_u64() % end.max(1)
    }

    /// Of this length or less; short ones are the more likely.
    fn a_while(&self, max: Duration) -> Duration {
        let max = u64::try_from(max.as_millis()).unwrap_or(u64::MAX);
        let end = self.below(max).max(1);
        Duration::from_millis(self.below(end) + 1)
    }
}
