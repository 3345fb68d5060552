//! A value that changes, and those who wait for the next change.
//!
//! As `tokio::sync::watch`, with one difference: whoever waits is woken in the order in which they began to wait. There it is
//! drawn by lot, and a run of a seed could not be repeated.

use std::collections::BTreeMap;
use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// Who changes the value.
pub struct Sender<T>(Arc<Mutex<State<T>>>);

/// Who waits for changes. A clone has seen what its original has.
pub struct Receiver<T> {
    shared: Arc<Mutex<State<T>>>,
    seen: u64,
}

struct State<T> {
    value: T,
    version: u64,
    has_ended: bool,
    /// In the order in which they came.
    waiting: BTreeMap<u64, Waker>,
    tickets: u64,
}

/// Nobody will change the value any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended;

/// The value as it is. While somebody holds this, nobody can change it, or look at it.
pub struct Ref<'a, T>(MutexGuard<'a, State<T>>);

impl<T> Deref for Ref<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0.value
    }
}

fn lock<T>(shared: &Mutex<State<T>>) -> MutexGuard<'_, State<T>> {
    // Nothing is half done where a panic could be: what a caller's closure left is the value.
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

pub fn channel<T>(value: T) -> (Sender<T>, Receiver<T>) {
    let sender = Sender::new(value);
    let receiver = sender.subscribe();
    (sender, receiver)
}

impl<T: Default> Default for Sender<T> {
    fn default() -> Self {
        Sender::new(T::default())
    }
}

impl<T> Sender<T> {
    pub fn new(value: T) -> Sender<T> {
        let state = State { value, version: 0, has_ended: false, waiting: BTreeMap::new(), tickets: 0 };
        Sender(Arc::new(Mutex::new(state)))
    }

    /// Of changes from now on.
    pub fn subscribe(&self) -> Receiver<T> {
        let seen = lock(&self.0).version;
        Receiver { shared: self.0.clone(), seen }
    }

    pub fn borrow(&self) -> Ref<'_, T> {
        Ref(lock(&self.0))
    }

    pub fn send_replace(&self, value: T) -> T {
        let mut value = value;
        self.send_modify(|current| std::mem::swap(current, &mut value));
        value
    }

    pub fn send_modify(&self, modify: impl FnOnce(&mut T)) {
        self.send_if_modified(|value| {
            modify(value);
            true
        });
    }

    /// Tells it only where `modify` says that there is something to tell.
    pub fn send_if_modified(&self, modify: impl FnOnce(&mut T) -> bool) {
        let mut state = lock(&self.0);
        if modify(&mut state.value) {
            state.version += 1;
            wake_all(state);
        }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let mut state = lock(&self.0);
        state.has_ended = true;
        wake_all(state);
    }
}

fn wake_all<T>(mut state: MutexGuard<'_, State<T>>) {
    let waiting = std::mem::take(&mut state.waiting);
    // Who is woken may look at once.
    drop(state);
    waiting.into_values().for_each(Waker::wake);
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        Receiver { shared: self.shared.clone(), seen: self.seen }
    }
}

impl<T> Receiver<T> {
    pub fn borrow(&self) -> Ref<'_, T> {
        Ref(lock(&self.shared))
    }

    /// Also: what is there now is no news.
    pub fn borrow_and_update(&mut self) -> Ref<'_, T> {
        let state = lock(&self.shared);
        self.seen = state.version;
        Ref(state)
    }

    /// What is there now is no news.
    pub fn mark_unchanged(&mut self) {
        self.seen = lock(&self.shared).version;
    }

    /// Waits for a change that was not seen yet.
    pub fn changed(&mut self) -> impl Future<Output = Result<(), Ended>> + '_ {
        Changed { receiver: self, ticket: None }
    }

    /// Waits until the value is such a one.
    pub async fn wait_for(&mut self, mut is_it: impl FnMut(&T) -> bool) -> Result<(), Ended> {
        while !is_it(&self.borrow_and_update()) {
            self.changed().await?;
        }
        Ok(())
    }
}

struct Changed<'a, T> {
    receiver: &'a mut Receiver<T>,
    /// Where in the row it stands, once it waits.
    ticket: Option<u64>,
}

impl<T> Future for Changed<'_, T> {
    type Output = Result<(), Ended>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<(), Ended>> {
        let Changed { receiver, ticket } = &mut *self;
        let mut state = lock(&receiver.shared);
        if state.version != receiver.seen {
            receiver.seen = state.version;
            return Poll::Ready(Ok(()));
        }
        if state.has_ended {
            return Poll::Ready(Err(Ended));
        }
        let ticket = *ticket.get_or_insert_with(|| {
            state.tickets += 1;
            state.tickets
        });
        state.waiting.insert(ticket, context.waker().clone());
        Poll::Pending
    }
}

impl<T> Drop for Changed<'_, T> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            lock(&self.receiver.shared).waiting.remove(&ticket);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::Wake;

    use super::*;

    /// Notes who was woken.
    struct Woken(u32, Arc<Mutex<Vec<u32>>>);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.1.lock().unwrap().push(self.0);
        }
    }

    #[test]
    fn who_waits_is_woken_in_the_order_of_coming() {
        let (sender, receiver) = channel(0);
        let woken = Arc::<Mutex<Vec<u32>>>::default();
        let mut receivers: Vec<Receiver<i32>> = (0..20).map(|_| receiver.clone()).collect();
        let mut waiting: Vec<_> = receivers.iter_mut().map(|one| Box::pin(one.changed())).collect();
        for (number, one) in (0..).zip(&mut waiting) {
            let waker = Arc::new(Woken(number, woken.clone())).into();
            assert!(one.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        }
        // Who has gone is not woken.
        drop(waiting.remove(3));
        sender.send_if_modified(|_| false);
        assert!(woken.lock().unwrap().is_empty());
        assert_eq!(sender.send_replace(1), 0);
        let expected: Vec<u32> = (0..20).filter(|number| *number != 3).collect();
        assert_eq!(*woken.lock().unwrap(), expected);
    }

    #[test]
    fn changes_are_seen_once_and_the_end_when_there_is_no_more() {
        let mut context = Context::from_waker(Waker::noop());
        let (sender, mut receiver) = channel(0);
        let mut poll = |receiver: &mut Receiver<i32>| pin!(receiver.changed()).poll(&mut context);
        assert_eq!(poll(&mut receiver), Poll::Pending);
        sender.send_modify(|value| *value += 1);
        sender.send_modify(|value| *value += 1);
        assert_eq!(poll(&mut receiver), Poll::Ready(Ok(())));
        assert_eq!(*receiver.borrow(), 2);
        assert_eq!(poll(&mut receiver), Poll::Pending);
        sender.send_replace(7);
        receiver.mark_unchanged();
        assert_eq!(poll(&mut receiver), Poll::Pending);
        sender.send_replace(8);
        let mut later = sender.subscribe();
        drop(sender);
        assert_eq!((poll(&mut receiver), poll(&mut receiver)), (Poll::Ready(Ok(())), Poll::Ready(Err(Ended))));
        assert_eq!((poll(&mut later), *later.borrow_and_update()), (Poll::Ready(Err(Ended)), 8));
    }

    #[test]
    fn a_value_is_waited_for() {
        let mut context = Context::from_waker(Waker::noop());
        let (sender, mut receiver) = channel(1);
        {
            let mut waiting = pin!(receiver.wait_for(|value| *value > 2));
            assert_eq!(waiting.as_mut().poll(&mut context), Poll::Pending);
            sender.send_replace(2);
            assert_eq!(waiting.as_mut().poll(&mut context), Poll::Pending);
            sender.send_replace(3);
            assert_eq!(waiting.as_mut().poll(&mut context), Poll::Ready(Ok(())));
        }
        drop(sender);
        assert_eq!(pin!(receiver.wait_for(|value| *value > 3)).poll(&mut context), Poll::Ready(Err(Ended)));
    }
}
