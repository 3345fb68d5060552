//! Keys that come from outside of the cluster.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::informer::Key;
use crate::queue::Queue;

/// So many keys wait for a controller that does not run yet, or not any more; others are dropped, and said to be.
const WAITING_MAX: usize = 65_536;

/// Tells a controller of keys to look at: what a webhook said, a message brought, a file changed.
#[derive(Clone, Default)]
pub struct Trigger(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// Of the controller that runs.
    queue: Option<Queue<Key>>,
    waiting: BTreeSet<Key>,
}

impl Trigger {
    /// Whether it was heard. Does not wait.
    pub fn send(&self, key: Key) -> bool {
        let mut state = self.0.lock();
        match &state.queue {
            Some(queue) => queue.add(key),
            None if state.waiting.len() >= WAITING_MAX => return false,
            None => {
                state.waiting.insert(key);
            }
        }
        true
    }

    pub(super) fn attach(&self, queue: &Queue<Key>) {
        let mut state = self.0.lock();
        std::mem::take(&mut state.waiting).into_iter().for_each(|key| queue.add(key));
        state.queue = Some(queue.clone());
    }
}
