//! A work queue: each key is worked on by one worker at a time, and however often it is added while it waits, once.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

/// The first delay after a failure; doubled with each further one.
const DELAY_FIRST: Duration = Duration::from_millis(5);
const DELAY_MAX: Duration = Duration::from_secs(60);

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
}

struct State<K> {
    waiting: VecDeque<K>,
    /// Waiting or to be worked on again after the current run.
    dirty: HashSet<K>,
    working: HashSet<K>,
    failures: HashMap<K, u32>,
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
        };
        Queue { shared: Arc::new(Shared { state: Mutex::new(state), added: Notify::new() }) }
    }

    pub fn add(&self, key: K) {
        let mut state = self.shared.state.lock();
        if !state.dirty.insert(key.clone()) || state.working.contains(&key) {
            return;
        }
        state.waiting.push_back(key);
        drop(state);
        self.shared.added.notify_one();
    }

    pub fn add_after(&self, key: K, delay: Duration) {
        let queue = self.clone();
        tokio::spawn(async move {
            tokio::time::sleep(delay).await;
            queue.add(key);
        });
    }

    /// Waits for a key to work on. Call [`Queue::done`] or [`Queue::failed`] with it afterwards.
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

    /// The key is as it should be.
    pub fn done(&self, key: &K) {
        self.shared.state.lock().failures.remove(key);
        self.finish(key);
    }

    /// The key is tried again after a delay that grows with each failure.
    pub fn failed(&self, key: &K) {
        let failures = {
            let mut state = self.shared.state.lock();
            let failures = state.failures.entry(key.clone()).or_default();
            *failures += 1;
            *failures
        };
        self.finish(key);
        let factor = 2_u32.saturating_pow(failures.saturating_sub(1).min(20));
        self.add_after(key.clone(), DELAY_FIRST.saturating_mul(factor).min(DELAY_MAX));
    }

    fn finish(&self, key: &K) {
        let mut state = self.shared.state.lock();
        state.working.remove(key);
        if state.dirty.contains(key) {
            state.waiting.push_back(key.clone());
            drop(state);
            self.shared.added.notify_one();
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
}
