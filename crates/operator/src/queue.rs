//! A work queue: each key is worked on by one worker at a time, and however often it is added while it waits, once.
//!
//! Nobody can make it spin: a key that failed waits, longer each time, and so does one that keeps being written. Two who
//! want an object to be different would else overwrite each other as fast as they can.
//!
//! A key has at most one time at which it is added later, and the queue one task that waits for the earliest of them;
//! there is none while nothing is to be added later.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::hash::Hash;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

/// The first delay after a failure; doubled with each further one.
const DELAY_FIRST: Duration = Duration::from_millis(5);
const DELAY_MAX: Duration = Duration::from_secs(60);

/// A key may be written this often before it has to wait.
const WRITES_AT_ONCE: u32 = 16;
/// The delay after the first write beyond these; doubled with each further one up to [`DELAY_MAX`].
const WRITE_DELAY_FIRST: Duration = Duration::from_millis(100);
/// One write is forgotten after each such time.
const WRITE_FORGOTTEN: Duration = Duration::from_secs(60);
/// Beyond so many keys with writes to remember, those that are forgotten by now are dropped.
const PACES_MAX: usize = 1024;

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
    added: Notify,
    /// The earliest deadline has moved forward, or there is no queue any more.
    sooner: Arc<Notify>,
}

impl<K> Drop for Shared<K> {
    fn drop(&mut self) {
        self.sooner.notify_one();
    }
}

struct State<K> {
    waiting: VecDeque<K>,
    /// Waiting or to be worked on again after the current run.
    dirty: HashSet<K>,
    working: HashSet<K>,
    failures: HashMap<K, u32>,
    later: Deadlines<K>,
    /// Whether the task runs that waits for the deadlines.
    timing: bool,
    paces: HashMap<K, Pace>,
    /// How many paces there may be before the old ones are looked for again.
    paces_max: usize,
}

/// When keys are to be added: of each the earliest time that was asked for.
struct Deadlines<K> {
    by_key: HashMap<K, (Instant, u64)>,
    /// The number tells keys of one time apart.
    by_time: BTreeMap<(Instant, u64), K>,
    next: u64,
}

impl<K: Clone + Eq + Hash> Deadlines<K> {
    /// Whether this is now the earliest of all.
    fn set(&mut self, key: K, at: Instant) -> bool {
        match self.by_key.get(&key) {
            Some(known) if known.0 <= at => return false,
            Some(known) => self.by_time.remove(&{ *known }),
            None => None,
        };
        let place = (at, self.next);
        self.next += 1;
        self.by_key.insert(key.clone(), place);
        self.by_time.insert(place, key);
        self.earliest() == Some(at)
    }

    fn earliest(&self) -> Option<Instant> {
        self.by_time.first_key_value().map(|(place, _)| place.0)
    }

    /// Takes a key whose time has come.
    fn take(&mut self, now: Instant) -> Option<K> {
        let first = self.by_time.first_entry().filter(|first| first.key().0 <= now)?;
        let key = first.remove();
        self.by_key.remove(&key);
        Some(key)
    }
}

/// How often a key was written of late.
struct Pace {
    writes: u32,
    last: Instant,
}

impl Pace {
    fn writes_at(&self, now: Instant) -> u32 {
        let forgotten = now.duration_since(self.last).as_secs() / WRITE_FORGOTTEN.as_secs();
        self.writes.saturating_sub(u32::try_from(forgotten).unwrap_or(u32::MAX))
    }

    /// When the key may be worked on again.
    fn until(&self) -> Instant {
        match self.writes.checked_sub(WRITES_AT_ONCE) {
            None | Some(0) => self.last,
            Some(beyond) => self.last + doubled(WRITE_DELAY_FIRST, beyond),
        }
    }
}

fn doubled(first: Duration, times: u32) -> Duration {
    first.saturating_mul(2_u32.saturating_pow(times.saturating_sub(1).min(20))).min(DELAY_MAX)
}

impl<K: Eq + Hash> State<K> {
    /// Until when a key has to wait that was written too often of late.
    fn held_until(&self, key: &K) -> Option<Instant> {
        self.paces.get(key).map(Pace::until).filter(|until| *until > Instant::now())
    }
}

/// Adds keys when their time has come; ends when there are none left, and with the queue.
async fn add_in_time<K: Clone + Eq + Hash + Send + 'static>(shared: Weak<Shared<K>>, sooner: Arc<Notify>) {
    loop {
        let Some(queue) = shared.upgrade().map(|shared| Queue { shared }) else { return };
        let now = Instant::now();
        loop {
            let due = queue.shared.state.lock().later.take(now);
            match due {
                Some(key) => queue.add(key),
                None => break,
            }
        }
        let earliest = {
            let mut state = queue.shared.state.lock();
            let earliest = state.later.earliest();
            state.timing = earliest.is_some();
            earliest
        };
        drop(queue);
        let Some(earliest) = earliest else { return };
        tokio::select! {
            () = tokio::time::sleep_until(earliest) => {}
            () = sooner.notified() => {}
        }
    }
}

impl<K: Clone + Eq + Hash + Send + 'static> Default for Queue<K> {
    fn default() -> Self {
        Queue::new()
    }
}

impl<K: Clone + Eq + Hash + Send + 'static> Queue<K> {
    pub fn new() -> Self {
        let state = State {
            waiting: VecDeque::new(),
            dirty: HashSet::new(),
            working: HashSet::new(),
            failures: HashMap::new(),
            later: Deadlines { by_key: HashMap::new(), by_time: BTreeMap::new(), next: 0 },
            timing: false,
            paces: HashMap::new(),
            paces_max: PACES_MAX,
        };
        Queue { shared: Arc::new(Shared { state: Mutex::new(state), added: Notify::new(), sooner: Arc::default() }) }
    }

    /// One that was written too often of late is added when it may be.
    pub fn add(&self, key: K) {
        let mut state = self.shared.state.lock();
        if let Some(until) = state.held_until(&key) {
            drop(state);
            return self.add_at(key, until);
        }
        if !state.dirty.insert(key.clone()) || state.working.contains(&key) {
            return;
        }
        state.waiting.push_back(key);
        drop(state);
        self.shared.added.notify_one();
    }

    /// However often this is called, the key is added once: at the earliest of the times.
    pub fn add_after(&self, key: K, delay: Duration) {
        self.add_at(key, Instant::now() + delay);
    }

    fn add_at(&self, key: K, at: Instant) {
        let mut state = self.shared.state.lock();
        if !state.later.set(key, at) {
            return;
        }
        if state.timing {
            self.shared.sooner.notify_one();
        } else {
            state.timing = true;
            tokio::spawn(add_in_time(Arc::downgrade(&self.shared), self.shared.sooner.clone()));
        }
    }

    /// Waits for a key to work on. Call [`Queue::done`], [`Queue::wrote`] or [`Queue::failed`] with it afterwards.
    pub async fn next(&self) -> K {
        loop {
            let added = self.shared.added.notified();
            {
                let mut state = self.shared.state.lock();
                if let Some(key) = state.waiting.pop_front() {
                    state.dirty.remove(&key);
                    state.working.insert(key.clone());
                    if !state.waiting.is_empty() {
                        self.shared.added.notify_one();
                    }
                    return key;
                }
            }
            added.await;
        }
    }

    /// The key is as it should be, and was.
    pub fn done(&self, key: &K) {
        self.shared.state.lock().failures.remove(key);
        self.finish(key);
    }

    /// The key is as it should be, because something was written. Who has to write again and again waits in between.
    pub fn wrote(&self, key: &K) {
        let now = Instant::now();
        let mut state = self.shared.state.lock();
        state.failures.remove(key);
        let writes = state.paces.get(key).map_or(0, |pace| pace.writes_at(now)) + 1;
        state.paces.insert(key.clone(), Pace { writes, last: now });
        if state.paces.len() > state.paces_max {
            state.paces.retain(|_, pace| pace.writes_at(now) > 0);
            state.paces_max = PACES_MAX.max(state.paces.len() * 2);
        }
        drop(state);
        self.finish(key);
    }

    /// The key is tried again after a delay that grows with each failure.
    pub fn failed(&self, key: &K) {
        let failures = {
            let mut state = self.shared.state.lock();
            let failures = state.failures.entry(key.clone()).or_default();
            *failures = failures.saturating_add(1);
            *failures
        };
        self.finish(key);
        self.add_after(key.clone(), doubled(DELAY_FIRST, failures));
    }

    fn finish(&self, key: &K) {
        let mut state = self.shared.state.lock();
        state.working.remove(key);
        if state.dirty.remove(key) {
            drop(state);
            self.add(key.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_key_is_worked_on_once_and_again_if_it_changed_meanwhile() {
        let queue = Queue::new();
        queue.add("a");
        queue.add("a");
        queue.add("b");
        assert_eq!(queue.next().await, "a");
        queue.add("a");
        assert_eq!(queue.next().await, "b");
        queue.done(&"b");
        assert!(tokio::time::timeout(Duration::from_millis(5), queue.next()).await.is_err());
        queue.done(&"a");
        assert_eq!(queue.next().await, "a");
    }

    #[tokio::test(start_paused = true)]
    async fn failures_wait_longer_each_time() {
        let queue = Queue::new();
        queue.add(1);
        let mut last = Duration::ZERO;
        for _ in 0..6 {
            let started = tokio::time::Instant::now();
            let key = queue.next().await;
            let waited = started.elapsed();
            assert!(waited >= last);
            last = waited;
            queue.failed(&key);
        }
        assert!(last >= DELAY_FIRST * 8);
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_that_is_to_be_added_later_is_added_once() {
        let queue = Queue::new();
        for seconds in [3, 1, 2, 1, 5] {
            queue.add_after("a", Duration::from_secs(seconds));
        }
        let started = Instant::now();
        assert_eq!(queue.next().await, "a");
        assert_eq!(started.elapsed().as_secs(), 1);
        queue.done(&"a");
        assert!(tokio::time::timeout(Duration::from_secs(60), queue.next()).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn one_task_waits_for_all_deadlines_and_none_without_any() {
        let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
        let queue = Queue::new();
        let before = tasks();
        for key in 0..100_u64 {
            queue.add_after(key, Duration::from_secs(100 - key));
            queue.add_after(key, Duration::from_secs(200));
        }
        assert_eq!(tasks(), before + 1);
        for expected in (0..100).rev() {
            let key = queue.next().await;
            assert_eq!(key, expected);
            queue.done(&key);
        }
        tokio::task::yield_now().await;
        assert_eq!(tasks(), before);
        queue.add_after(1, Duration::from_secs(3600));
        tokio::task::yield_now().await;
        assert_eq!(tasks(), before + 1);
        drop(queue);
        tokio::task::yield_now().await;
        assert_eq!(tasks(), before, "it ends with the queue");
    }

    /// Two controllers want one object to be different: each undoes what the other writes as soon as it sees it.
    #[tokio::test(start_paused = true)]
    async fn two_who_disagree_do_not_write_at_full_speed() {
        const HOURS: u32 = 2;
        let (changed, _) = tokio::sync::watch::channel(String::new());
        let mut tasks = tokio::task::JoinSet::new();
        let writes: Arc<Mutex<Vec<Instant>>> = Arc::default();
        for opinion in ["one", "other"] {
            let queue = Queue::new();
            let (adding, mut changes) = (queue.clone(), changed.subscribe());
            queue.add("object");
            tasks.spawn(async move {
                while changes.changed().await.is_ok() {
                    adding.add("object");
                }
            });
            let (changed, writes) = (changed.clone(), writes.clone());
            tasks.spawn(crate::run("test", queue, 1, move |_| {
                let (changed, writes) = (changed.clone(), writes.clone());
                async move {
                    if *changed.borrow() == opinion {
                        return Ok::<_, String>(crate::Outcome::Unchanged);
                    }
                    writes.lock().push(Instant::now());
                    assert!(writes.lock().len() < 10_000, "they fight");
                    changed.send_replace(opinion.to_owned());
                    Ok(crate::Outcome::Wrote)
                }
            }));
        }
        tokio::time::sleep(Duration::from_secs(60 * 60) * HOURS).await;
        assert!(tasks.try_join_next().is_none());
        let writes = writes.lock().len();
        // Each its first ones at once, then one each minute.
        assert!((2 * WRITES_AT_ONCE as usize..500).contains(&writes), "{writes}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_few_writes_are_never_held_up() {
        let queue = Queue::new();
        for _ in 0..100 {
            for _ in 0..WRITES_AT_ONCE / 2 {
                queue.add("a");
                let key = tokio::time::timeout(Duration::ZERO, queue.next()).await.unwrap();
                queue.wrote(&key);
            }
            tokio::time::sleep(WRITE_FORGOTTEN * WRITES_AT_ONCE).await;
        }
    }
}
