//! What the loop, the informers and the tasks share: the core under a lock, and who is woken when it changes.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use rkube_machinery::Text;
use tokio::sync::{Notify, Semaphore};

use crate::core::Core;

/// What the loop, the informers and the tasks share.
pub struct Shared {
    state: Mutex<State>,
    pub wake: Notify,
    /// Whoever waits for the volumes of a pod.
    pub waiters: Mutex<HashMap<Text, Arc<Notify>>>,
    pub volume_writes: Semaphore,
}

struct State {
    core: Core,
    /// Somebody panicked while changing the core: it cannot be relied on.
    is_broken: bool,
}

impl Shared {
    pub fn new(core: Core, volume_writes: Semaphore) -> Shared {
        let state = Mutex::new(State { core, is_broken: false });
        Shared { state, wake: Notify::new(), waiters: Mutex::default(), volume_writes }
    }

    /// Changes the core, and wakes the loop if there is something to do now.
    pub fn tell(&self, change: impl FnOnce(&mut Core)) {
        let has_work = self.with(|core| {
            change(core);
            core.has_work()
        });
        if has_work {
            self.wake.notify_one();
        }
    }

    pub fn with<T>(&self, work: impl FnOnce(&mut Core) -> T) -> T {
        let mut state: MutexGuard<'_, State> = self.state.lock();
        assert!(!state.is_broken, "the scheduler's state cannot be relied on after a panic");
        state.is_broken = true;
        let _loop_is_told = WakeOnPanic(&self.wake);
        let result = work(&mut state.core);
        state.is_broken = false;
        let woken = state.core.take_woken();
        drop(state);
        if !woken.is_empty() {
            let waiters = self.waiters.lock();
            woken.iter().filter_map(|pod| waiters.get(pod)).for_each(|waiter| waiter.notify_one());
        }
        result
    }
}

/// Wakes the loop when somebody else panics, so that it ends, too.
struct WakeOnPanic<'a>(&'a Notify);

impl Drop for WakeOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.notify_one();
        }
    }
}
