//! A work queue: each key is worked on by one worker at a time, and however often it is added while it waits, once.
//!
//! Nobody can make it spin: a key that failed waits, longer each time, and so does one that keeps being written, or keeps
//! being added while it fails. Two who want an object to be different would else overwrite each other as fast as they
//! can. What events add in between does not make a back-off longer.
//!
//! Keys are taken in the order in which they were added; those that can wait ([`Priority::Background`]) come behind the
//! fresh ones, but not never. A key has at most one time at which it is added later, and the queue one task that waits
//! for the earliest of them; there is none while nothing is to be added later.
//!
//! A key that failed [`Options::quarantine_after`] times is in quarantine: it is tried no more until it is added because
//! something changed, or [`Queue::release`]d by hand.

mod deadlines;
mod state;
#[cfg(test)]
mod tests;

use std::hash::Hash;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::process::held;
use crate::stats::QueueStats;
use state::{Added, State};

/// How a queue behaves.
#[derive(Clone, Debug)]
pub struct Options {
    /// The first delay after a failure; doubled with each further one, up to the other.
    pub backoff_first: Duration,
    pub backoff_max: Duration,
    /// Whether a failure makes the delay longer that is not of a try that the delay led to, too, as in client-go. Without,
    /// what changes often is not punished for it.
    pub every_failure_counts: bool,
    /// After so many failures a key goes to quarantine.
    pub quarantine_after: Option<u32>,
    /// So many keys are begun with, at most.
    pub rate: Option<Rate>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            backoff_first: Duration::from_millis(5),
            backoff_max: Duration::from_secs(60),
            every_failure_counts: false,
            quarantine_after: None,
            rate: None,
        }
    }
}

/// So many at once, and then so many in each second.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    pub burst: u32,
    pub per_second: u32,
}

/// What is worked on first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority {
    /// Something changed.
    Fresh,
    /// Nothing is known to have changed: objects that were there at a start, and what is looked at again from time to
    /// time.
    Background,
}

/// Why a key is added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    Change,
    /// It was to be added at this time.
    Time,
    /// The same, and a back-off is over.
    Retry,
}

enum Taken<K> {
    Key(K),
    Nothing,
    TooFast(Instant),
    Closed,
}

/// A key that failed too often.
#[derive(Clone, Debug)]
pub struct Quarantined<K> {
    pub key: K,
    pub failures: u32,
    pub since: Instant,
    /// What its last failure was.
    pub why: String,
}

pub struct Queue<K> {
    shared: Arc<Shared<K>>,
}

impl<K> Clone for Queue<K> {
    fn clone(&self) -> Self {
        Queue { shared: self.shared.clone() }
    }
}

struct Shared<K> {
    state: Mutex<State<K>>,
    /// Something can be taken, or nothing will ever be.
    added: Notify,
    /// The earliest deadline has moved forward, or there is no queue any more.
    sooner: Arc<Notify>,
    timing: Mutex<bool>,
    rate: Option<Mutex<Bucket>>,
    stats: Arc<QueueStats>,
}

impl<K> Drop for Shared<K> {
    fn drop(&mut self) {
        self.sooner.notify_one();
    }
}

/// How many keys may be begun with now.
struct Bucket {
    rate: Rate,
    tokens: f64,
    last: Instant,
}

impl Bucket {
    /// When there is a token, if not now.
    fn take(&mut self, now: Instant) -> Option<Instant> {
        let per_second = f64::from(self.rate.per_second.max(1));
        let refilled = now.duration_since(self.last).as_secs_f64() * per_second;
        self.tokens = (self.tokens + refilled).min(f64::from(self.rate.burst.max(1)));
        self.last = now;
        if self.tokens >= 1.0 {
            self.tokens -= 1.0;
            return None;
        }
        Some(now + Duration::from_secs_f64((1.0 - self.tokens) / per_second))
    }
}

impl<K: Clone + Eq + Hash + Send + 'static> Default for Queue<K> {
    fn default() -> Self {
        Queue::new()
    }
}

impl<K: Clone + Eq + Hash + Send + 'static> Queue<K> {
    pub fn new() -> Self {
        Queue::with(Options::default())
    }

    pub fn with(options: Options) -> Self {
        let bucket = |rate: Rate| Mutex::new(Bucket { rate, tokens: f64::from(rate.burst), last: Instant::now() });
        let rate = options.rate.map(bucket);
        let shared = Shared {
            state: Mutex::new(State::new(options)),
            added: Notify::new(),
            sooner: Arc::default(),
            timing: Mutex::new(false),
            rate,
            stats: Arc::default(),
        };
        Queue { shared: Arc::new(shared) }
    }

    /// Something about the key has changed. One that was written too often of late is added when it may be.
    pub fn add(&self, key: K) {
        self.add_as(key, Priority::Fresh);
    }

    pub fn add_as(&self, key: K, priority: Priority) {
        self.add_now(key, priority, Cause::Change);
    }

    fn add_now(&self, key: K, priority: Priority, cause: Cause) {
        self.shared.stats.added();
        let added = self.shared.state.lock().add(key.clone(), priority, cause, Instant::now());
        match added {
            Added::Waits => self.shared.added.notify_one(),
            Added::Nothing => {}
            Added::Later(at) => self.add_at(key, at, cause == Cause::Retry),
        }
    }

    /// However often this is called, the key is added once: at the earliest of the times.
    pub fn add_after(&self, key: K, delay: Duration) {
        self.add_at(key, Instant::now() + delay, false);
    }

    fn add_at(&self, key: K, at: Instant, retry: bool) {
        let moved = {
            let mut state = self.shared.state.lock();
            state.add_at(key, at, retry);
            std::mem::take(&mut state.moved)
        };
        if moved {
            self.time();
        }
    }

    /// Has somebody wait for the earliest deadline.
    fn time(&self) {
        let mut timing = self.shared.timing.lock();
        if *timing {
            self.shared.sooner.notify_one();
        } else {
            *timing = true;
            tokio::spawn(held(add_in_time(Arc::downgrade(&self.shared), self.shared.sooner.clone())));
        }
    }

    /// Waits for a key to work on. Call [`Queue::done`], [`Queue::wrote`], [`Queue::conflicted`] or [`Queue::failed`] with
    /// it afterwards. None: the queue is closed.
    pub async fn next(&self) -> Option<K> {
        loop {
            let added = self.shared.added.notified();
            match self.take() {
                Taken::Closed => return None,
                Taken::Key(key) => return Some(key),
                Taken::Nothing => added.await,
                Taken::TooFast(until) => tokio::time::sleep_until(until).await,
            }
        }
    }

    fn take(&self) -> Taken<K> {
        let mut state = self.shared.state.lock();
        if state.closed {
            self.shared.added.notify_one();
            return Taken::Closed;
        }
        if state.depth() == 0 {
            return Taken::Nothing;
        }
        let now = Instant::now();
        if let Some(until) = self.shared.rate.as_ref().and_then(|rate| rate.lock().take(now)) {
            return Taken::TooFast(until);
        }
        let Some((key, waited)) = state.take(now) else { return Taken::Nothing };
        let more = state.depth() > 0;
        drop(state);
        self.shared.stats.taken(waited);
        if more {
            self.shared.added.notify_one();
        }
        Taken::Key(key)
    }

    /// Nobody gets a key any more.
    pub fn close(&self) {
        self.shared.state.lock().closed = true;
        self.shared.added.notify_one();
    }

    /// The key is as it should be, and was.
    pub fn done(&self, key: &K) {
        self.finish(|state, now| (state.done(key, now), ()));
    }

    /// The key is as it should be, because something was written. Who has to write again and again waits in between.
    pub fn wrote(&self, key: &K) {
        self.finish(|state, now| (state.wrote(key, now), ()));
    }

    /// Another was faster. The key is tried again soon: that is no failure.
    pub fn conflicted(&self, key: &K) {
        self.shared.stats.retried();
        self.finish(|state, now| (state.conflicted(key, now), ()));
    }

    /// The key is tried again after a delay that grows with each failure. Whether it is in quarantine now.
    pub fn failed(&self, key: &K, why: &str) -> bool {
        self.shared.stats.retried();
        self.finish(|state, now| state.failed(key, why, now))
    }

    /// A run is over; its key may wait again, now or later.
    fn finish<T>(&self, finish: impl FnOnce(&mut State<K>, Instant) -> (Duration, T)) -> T {
        let mut state = self.shared.state.lock();
        let (took, outcome) = finish(&mut state, Instant::now());
        let (waits, moved) = (state.depth() > 0, std::mem::take(&mut state.moved));
        drop(state);
        self.shared.stats.worked(took);
        if waits {
            self.shared.added.notify_one();
        }
        if moved {
            self.time();
        }
        outcome
    }

    /// Those that failed too often.
    pub fn quarantined(&self) -> Vec<Quarantined<K>> {
        self.shared.state.lock().quarantined()
    }

    /// Tries one again that is in quarantine; whether it was.
    pub fn release(&self, key: &K) -> bool {
        let was = self.shared.state.lock().is_quarantined(key);
        if was {
            self.add(key.clone());
        }
        was
    }

    pub(crate) fn stats(&self) -> &Arc<QueueStats> {
        &self.shared.stats
    }

    /// Closes the queue, if it is still there.
    pub(crate) fn closing(&self) -> impl Fn() + Send + Sync + use<K> {
        let shared = Arc::downgrade(&self.shared);
        move || {
            if let Some(shared) = shared.upgrade() {
                Queue { shared }.close();
            }
        }
    }

    /// What the queue is doing at this moment, for as long as it is there.
    pub(crate) fn watch(&self) -> impl Fn() -> Option<Snapshot> + Send + Sync + use<K>
    where
        K: Sync + std::fmt::Debug,
    {
        let shared = Arc::downgrade(&self.shared);
        move || {
            let shared = shared.upgrade()?;
            let state = shared.state.lock();
            let now = Instant::now();
            let quarantined = state.quarantined();
            Some(Snapshot {
                depth: state.depth(),
                works: state.works().map(|since| now.duration_since(since)).collect(),
                quarantined: quarantined.into_iter().map(|one| (format!("{:?}", one.key), one.why)).collect(),
            })
        }
    }
}

/// A queue at some moment.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// How many keys wait.
    pub depth: usize,
    /// For how long each of those under way is.
    pub works: Vec<Duration>,
    /// Keys that failed too often, and why.
    pub quarantined: Vec<(String, String)>,
}

/// Adds keys when their time has come; ends when there are none left, and with the queue.
async fn add_in_time<K: Clone + Eq + Hash + Send + 'static>(shared: Weak<Shared<K>>, sooner: Arc<Notify>) {
    loop {
        let Some(queue) = shared.upgrade().map(|shared| Queue { shared }) else { return };
        let now = Instant::now();
        loop {
            let due = queue.shared.state.lock().later.take(now);
            match due {
                Some((key, retry)) => {
                    queue.add_now(key, Priority::Fresh, if retry { Cause::Retry } else { Cause::Time });
                }
                None => break,
            }
        }
        let earliest = {
            // Under this lock nobody else decides whether somebody waits.
            let mut timing = queue.shared.timing.lock();
            let earliest = queue.shared.state.lock().later.earliest();
            *timing = earliest.is_some();
            earliest
        };
        drop(queue);
        let Some(earliest) = earliest else { return };
        tokio::select! {
            biased;
            () = tokio::time::sleep_until(earliest) => {}
            () = sooner.notified() => {}
        }
    }
}
