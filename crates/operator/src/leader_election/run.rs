//! A candidate at work: it does what [`super::state`] says.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease as LeaseKind;
use kube::core::ApiResource;
use rkube_machinery::changes;
use rkube_machinery::host::{Clock, Entropy};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::lease::{Lease, Place, Spec};
use super::state::{Record, State, Step};
use super::{LeaderElection, Leadership, Role, Term, identity};
use crate::controller::Environment;
use crate::error::Error;
use crate::events::Recorder;
use crate::fence::Fence;
use crate::informer::Informer;
use crate::process::held;
use crate::source::{Item, Selection};
use crate::stats::ElectionStats;

/// A request for the lease gets half of the renew deadline, and no less than this; client-go's.
const REQUEST_MIN: Duration = Duration::from_secs(1);

/// An election under way. Dropped, it ends at once, and the lease is left to run out.
pub(crate) struct Elector {
    name: String,
    fence: Fence,
    leadership: Leadership,
    stats: Arc<ElectionStats>,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl Elector {
    /// Takes the fence of the environment over: nothing passes it before the lease is held.
    pub fn start(election: LeaderElection, environment: &Environment) -> Result<Elector, Error> {
        election.check()?;
        let Environment { client, caches, clock, entropy, fence, host_name } = environment;
        fence.close();
        let client = Fence::past(client);
        let identity = election.identity.clone().unwrap_or_else(|| identity(host_name, &**entropy));
        let component = election.component.clone().unwrap_or_else(|| identity.clone());
        let (shown, watched) = changes::channel(Watched::default());
        let selection = Selection {
            namespace: Some(election.namespace.as_str().into()),
            fields: Some(format!("metadata.name={}", election.name).into()),
            ..Selection::default()
        };
        let informer = caches.view(&ApiResource::erase::<LeaseKind>(&()), selection, show).on_change(move |change| {
            shown.send_replace(Watched { lease: change.new.cloned(), was_told: true });
        });
        let (role, roles) = changes::channel(Role::Unknown);
        let (stats, stop) = (Arc::<ElectionStats>::default(), oneshot::channel());
        let candidate = Candidate {
            place: Place {
                client: client.clone(),
                namespace: election.namespace.clone(),
                name: election.name.clone(),
                timeout: (election.timing.renew_deadline / 2).max(REQUEST_MIN),
            },
            state: State::new(identity.clone(), election.timing, Instant::now()),
            lease: None,
            identity,
            stands_by_again: election.stands_by_again,
            clock: clock.clone(),
            entropy: entropy.clone(),
            recorder: Recorder::start(client, clock.clone(), &component),
            fence: fence.clone(),
            role,
            stats: stats.clone(),
            term: None,
            terms: 0,
            watched,
            _informer: informer,
        };
        Ok(Elector {
            name: election.name,
            fence: fence.clone(),
            leadership: Leadership { role: roles, _always: None },
            stats,
            stop: Some(stop.0),
            task: tokio::spawn(held(candidate.run(stop.1))),
        })
    }

    pub fn leadership(&self) -> Leadership {
        self.leadership.clone()
    }

    /// By which metrics call it, and what they say.
    pub fn stats(&self) -> (&str, &Arc<ElectionStats>) {
        (&self.name, &self.stats)
    }

    /// Lets nothing new out, and waits for what is under way. Whether all of it has ended in this time.
    pub async fn drain(&self, max: Duration) -> bool {
        self.fence.drain(max).await
    }

    /// Ends it, once nothing is left that acts as the leader, and lets others have the lease.
    pub async fn release(mut self) {
        self.fence.close();
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        // An error would be a panic, which was logged: the lease runs out then.
        let _ = (&mut self.task).await;
    }
}

impl Drop for Elector {
    fn drop(&mut self) {
        self.fence.close();
        self.task.abort();
    }
}

/// The lease as the watch has it.
#[derive(Clone, Default)]
struct Watched {
    lease: Option<Arc<Shown>>,
    /// False: it has told of nothing yet.
    was_told: bool,
}

struct Shown {
    record: Record,
    revision: Option<u64>,
}

fn show(item: &Item) -> Option<Shown> {
    #[derive(serde::Deserialize)]
    struct Object {
        #[serde(default)]
        spec: Spec,
    }
    let object: Object = item.parse().ok()?;
    Some(Shown { record: object.spec.into(), revision: (item.revision > 0).then_some(item.revision) })
}

struct Candidate {
    place: Place,
    state: State,
    /// As it was last read or written.
    lease: Option<Lease>,
    identity: String,
    stands_by_again: bool,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    recorder: Recorder,
    fence: Fence,
    role: changes::Sender<Role>,
    stats: Arc<ElectionStats>,
    /// Closed when nothing of this time of leading is left.
    term: Option<mpsc::Receiver<()>>,
    terms: u64,
    watched: changes::Receiver<Watched>,
    _informer: Informer<Shown>,
}

impl Candidate {
    async fn run(mut self, mut stop: oneshot::Receiver<()>) {
        tracing::info!(lease = self.place.name, identity = self.identity, "a candidate for the lease");
        let stopped = tokio::select! {
            biased;
            asked = &mut stop => asked.is_ok(),
            () = self.elect() => false,
        };
        if stopped {
            self.release().await;
        }
    }

    /// Returns if the lease was lost for good.
    async fn elect(&mut self) {
        loop {
            match self.state.next(Instant::now()) {
                Step::Wait(until) => tokio::select! {
                    biased;
                    // The sender is in the informer that this holds.
                    _ = self.watched.changed() => self.look(),
                    () = tokio::time::sleep_until(until) => {}
                },
                Step::Try => self.attempt().await,
                Step::Lost => {
                    self.stop_leading();
                    if !self.stands_by_again {
                        self.role.send_replace(Role::Lost);
                        return;
                    }
                    self.role.send_replace(Role::Standby);
                    // What was begun then ends before anything else begins.
                    if let Some(mut term) = self.term.take() {
                        while term.recv().await.is_some() {}
                    }
                    self.state.stand_by(Instant::now());
                }
            }
        }
    }

    /// Takes in what the watch shows.
    fn look(&mut self) {
        let watched = self.watched.borrow_and_update().clone();
        if watched.was_told {
            let shown = watched.lease.as_ref().map(|lease| (&lease.record, lease.revision));
            self.state.saw(shown, Instant::now());
        }
    }

    /// Tries to acquire the lease, or to renew it.
    async fn attempt(&mut self) {
        match self.write().await {
            Ok(true) => self.lead(),
            Ok(false) => {
                if self.lease.is_some() && !self.state.is_leader() {
                    self.stand_by();
                }
                self.failed();
            }
            Err(why) => {
                tracing::debug!(lease = self.place.name, why, "the lease cannot be had, or not be renewed");
                self.failed();
            }
        }
    }

    /// Whether the lease is ours now.
    async fn write(&mut self) -> Result<bool, String> {
        let (sent, wall) = (Instant::now(), self.clock.now_micros());
        if let (Some(record), Some(lease)) = (self.state.optimistic(sent, wall), &self.lease) {
            match self.place.update(lease, &record).await {
                Ok(lease) => return Ok(self.wrote(lease, sent)),
                Err(why) => tracing::debug!(lease = self.place.name, why, "another has written the lease"),
            }
        }
        let found = self.place.get().await?;
        let (now, wall) = (Instant::now(), self.clock.now_micros());
        let (record, revision) = (found.as_ref().map(|lease| &lease.record), found.as_ref().and_then(|it| it.revision));
        let was_ours = record.is_some_and(|record| record.holder == self.identity);
        let wanted = self.state.judge(record, revision, now, wall);
        self.lease.clone_from(&found);
        let Some(record) = wanted else { return Ok(false) };
        if was_ours {
            self.stats.slow_paths.add();
        }
        let sent = Instant::now();
        let lease = match &found {
            Some(lease) => self.place.update(lease, &record).await?,
            None => self.place.create(&record).await?,
        };
        Ok(self.wrote(lease, sent))
    }

    fn wrote(&mut self, lease: Lease, sent: Instant) -> bool {
        let now = Instant::now();
        self.state.wrote(&lease.record, lease.revision, sent, now);
        self.lease = Some(lease);
        self.state.leads_until(now).is_some()
    }

    fn failed(&mut self) {
        #[allow(clippy::cast_precision_loss)]
        let random = (self.entropy.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        self.state.failed(Instant::now(), random);
    }

    fn lead(&mut self) {
        let Some(until) = self.state.leads_until(Instant::now()) else { return };
        self.fence.open(until);
        if self.term.is_some() {
            return;
        }
        tracing::info!(lease = self.place.name, identity = self.identity, "became leader");
        self.say("became leader");
        self.stats.leads.set(1);
        let (held, term) = mpsc::channel(1);
        self.terms += 1;
        self.term = Some(term);
        self.role.send_replace(Role::Leader(Term { number: self.terms, _held: held }));
    }

    fn stand_by(&mut self) {
        let holder = self.state.holder().unwrap_or_default().to_owned();
        self.role.send_if_modified(|role| {
            let is_new = matches!(role, Role::Unknown);
            if is_new {
                tracing::info!(lease = self.place.name, holder, "another leads: standing by");
                *role = Role::Standby;
            }
            is_new
        });
    }

    fn stop_leading(&mut self) {
        self.fence.close();
        tracing::warn!(
            lease = self.place.name,
            identity = self.identity,
            "the lease is lost: nothing is written any more"
        );
        self.stats.leads.set(0);
        self.say("stopped leading");
    }

    fn say(&self, what: &str) {
        if let Some(lease) = &self.lease {
            self.recorder.normal(&lease.reference(), "LeaderElection", format!("{} {what}", self.identity));
        }
    }

    async fn release(mut self) {
        if !self.state.is_leader() {
            return;
        }
        self.stop_leading_in_good_order();
        let released = async {
            let Some(lease) = self.place.get().await? else { return Ok(()) };
            if lease.record.holder != self.identity {
                return Ok(());
            }
            let record = State::released(&lease.record, self.clock.now_micros());
            self.place.update(&lease, &record).await.map(|_| ())
        };
        match released.await {
            Ok(()) => tracing::info!(lease = self.place.name, "the lease is released"),
            Err::<(), String>(why) => tracing::warn!(lease = self.place.name, why, "the lease is not released"),
        }
    }

    fn stop_leading_in_good_order(&mut self) {
        self.fence.close();
        self.stats.leads.set(0);
        self.say("stopped leading");
    }
}
