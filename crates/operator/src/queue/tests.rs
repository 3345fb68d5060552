//! The queue as those who wait for it see it, in virtual time; and its state against a model.

use super::state::{WRITE_FORGOTTEN, WRITES_AT_ONCE};
use super::*;

#[tokio::test]
async fn a_key_is_worked_on_once_and_again_if_it_changed_meanwhile() {
    let queue = Queue::new();
    queue.add("a");
    queue.add("a");
    queue.add("b");
    assert_eq!(queue.next().await, Some("a"));
    queue.add("a");
    assert_eq!(queue.next().await, Some("b"));
    queue.done(&"b");
    assert!(tokio::time::timeout(Duration::from_millis(5), queue.next()).await.is_err());
    queue.done(&"a");
    assert_eq!(queue.next().await, Some("a"));
}

#[tokio::test(start_paused = true)]
async fn failures_wait_longer_each_time() {
    let queue = Queue::new();
    queue.add(1);
    let mut last = Duration::ZERO;
    for _ in 0..6 {
        let started = tokio::time::Instant::now();
        let key = queue.next().await.unwrap();
        let waited = started.elapsed();
        assert!(waited >= last);
        last = waited;
        queue.failed(&key, "");
    }
    assert!(last >= Options::default().backoff_first * 8);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_to_be_added_later_is_added_once() {
    let queue = Queue::new();
    for seconds in [3, 1, 2, 1, 5] {
        queue.add_after("a", Duration::from_secs(seconds));
    }
    let started = Instant::now();
    assert_eq!(queue.next().await, Some("a"));
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
        let key = queue.next().await.unwrap();
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
            let key = tokio::time::timeout(Duration::ZERO, queue.next()).await.unwrap().unwrap();
            queue.wrote(&key);
        }
        tokio::time::sleep(WRITE_FORGOTTEN * WRITES_AT_ONCE).await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_events_add_does_not_make_a_backoff_longer() {
    let queue = Queue::new();
    queue.add("a");
    for _ in 0..5 {
        let key = queue.next().await.unwrap();
        queue.failed(&key, "");
    }
    // Its next try is due in 80 ms. Before that, something changes, and it fails all the same.
    for _ in 0..3 {
        queue.add("a");
        let key = tokio::time::timeout(Duration::ZERO, queue.next()).await.unwrap().unwrap();
        queue.failed(&key, "");
    }
    let started = Instant::now();
    queue.next().await;
    assert_eq!(started.elapsed(), Options::default().backoff_first * 16);
}

#[tokio::test(start_paused = true)]
async fn every_failure_makes_a_backoff_longer_where_it_is_to() {
    let queue = Queue::with(Options { every_failure_counts: true, ..Options::default() });
    for _ in 0..5 {
        queue.add("a");
        let key = tokio::time::timeout(Duration::ZERO, queue.next()).await.unwrap().unwrap();
        queue.failed(&key, "");
    }
    // The first one's delay is over first; the next counts all.
    let first = Options::default().backoff_first;
    for expected in [first, first * 32] {
        let started = Instant::now();
        let key = queue.next().await.unwrap();
        assert_eq!(started.elapsed(), expected);
        queue.failed(&key, "");
    }
}

#[tokio::test(start_paused = true)]
async fn fresh_keys_come_first_and_the_others_not_never() {
    let queue = Queue::new();
    for key in 0..4 {
        queue.add_as(key, Priority::Background);
    }
    queue.add(3);
    (100..120).for_each(|key| queue.add(key));
    let mut order = Vec::new();
    for _ in 0..24 {
        order.push(queue.next().await.unwrap());
    }
    let mut expected = vec![3];
    expected.extend(100..107);
    expected.push(0);
    expected.extend(107..115);
    expected.push(1);
    expected.extend(115..120);
    expected.push(2);
    assert_eq!(order, expected);
}

#[tokio::test(start_paused = true)]
async fn who_fails_too_often_is_in_quarantine_until_something_changes() {
    let queue = Queue::with(Options { quarantine_after: Some(3), ..Options::default() });
    queue.add("a");
    queue.add_after("a", Duration::from_secs(3600));
    for failure in 1..=3 {
        let key = queue.next().await.unwrap();
        assert_eq!(queue.failed(&key, "no luck"), failure == 3);
    }
    let nothing = async || tokio::time::timeout(Duration::from_secs(7200), queue.next()).await.is_err();
    assert!(nothing().await, "not even the time that it was to be added at matters");
    queue.add_as("a", Priority::Background);
    assert!(nothing().await);
    let quarantined = queue.quarantined();
    assert_eq!((quarantined[0].key, quarantined[0].failures, quarantined[0].why.as_str()), ("a", 3, "no luck"));
    queue.add("a");
    assert!(queue.quarantined().is_empty());
    let key = queue.next().await.unwrap();
    assert!(queue.failed(&key, "still none"), "one more failure, and it is back");
    assert!(queue.release(&"a") && !queue.release(&"b"));
    let key = queue.next().await.unwrap();
    queue.done(&key);
    assert!(queue.quarantined().is_empty() && nothing().await);
}

#[tokio::test(start_paused = true)]
async fn no_more_keys_are_begun_with_than_the_rate_says() {
    let queue = Queue::with(Options { rate: Some(Rate { burst: 3, per_second: 2 }), ..Options::default() });
    (0..9).for_each(|key| queue.add(key));
    let started = Instant::now();
    for _ in 0..9 {
        queue.next().await;
    }
    assert_eq!(started.elapsed().as_secs(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_closed_queue_gives_nothing_to_anybody() {
    let queue: Queue<u32> = Queue::new();
    let waiting: Vec<_> = (0..3)
        .map(|_| {
            tokio::spawn({
                let queue = queue.clone();
                async move { queue.next().await }
            })
        })
        .collect();
    tokio::task::yield_now().await;
    queue.close();
    for one in waiting {
        assert_eq!(one.await.unwrap(), None);
    }
}

/// What a queue is to do, in as few words as possible: lists that are searched.
#[derive(Default)]
struct Model {
    fresh: Vec<u8>,
    background: Vec<u8>,
    fresh_in_a_row: u32,
    /// Keys under way: whether they were retries, and how they are to be worked on again.
    working: Vec<(u8, bool, Option<Priority>)>,
    retries: Vec<u8>,
    failures: [u32; 6],
    later: Vec<(u8, Instant, bool)>,
}

impl Model {
    fn add(&mut self, key: u8, priority: Priority, retry: bool) {
        if let Some((_, _, again)) = self.working.iter_mut().find(|(working, ..)| *working == key) {
            if *again != Some(Priority::Fresh) {
                *again = Some(priority);
            }
        } else if !self.fresh.contains(&key) && (priority == Priority::Fresh || !self.background.contains(&key)) {
            self.background.retain(|known| *known != key);
            if priority == Priority::Fresh { &mut self.fresh } else { &mut self.background }.push(key);
        }
        if retry {
            self.retries.push(key);
        }
    }

    fn take(&mut self) -> Option<u8> {
        let background = !self.background.is_empty() && (self.fresh.is_empty() || self.fresh_in_a_row >= 8);
        let from = if background { &mut self.background } else { &mut self.fresh };
        if from.is_empty() {
            return None;
        }
        let key = from.remove(0);
        self.fresh_in_a_row = if background { 0 } else { self.fresh_in_a_row + 1 };
        let retry = self.retries.contains(&key);
        self.retries.retain(|known| *known != key);
        self.working.push((key, retry, None));
        Some(key)
    }

    fn finish(&mut self, key: u8, failed: bool, now: Instant) {
        let place = self.working.iter().position(|(working, ..)| *working == key).unwrap();
        let (_, retry, again) = self.working.remove(place);
        let failures = &mut self.failures[usize::from(key)];
        if !failed {
            *failures = 0;
        } else if *failures == 0 || retry {
            *failures += 1;
        }
        let delay = Duration::from_millis(5) * 2_u32.pow(failures.saturating_sub(1).min(20));
        if let Some(priority) = again {
            self.add(key, priority, false);
        }
        if failed {
            self.add_at(key, now + delay.min(Duration::from_secs(60)), true);
        }
    }

    fn add_at(&mut self, key: u8, at: Instant, retry: bool) {
        match self.later.iter_mut().find(|(known, ..)| *known == key) {
            Some(known) => (known.1, known.2) = (known.1.min(at), known.2 | retry),
            None => self.later.push((key, at, retry)),
        }
    }
}

/// Numbers that are the same for a seed.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

#[tokio::test(start_paused = true)]
async fn whatever_happens_the_queue_does_what_the_model_does() {
    for seed in 0..300 {
        let mut numbers = Numbers(seed);
        let (mut state, mut model) = (State::<u8>::new(Options::default()), Model::default());
        let mut now = Instant::now();
        for step in 0..400 {
            now += Duration::from_millis(numbers.below(12_000));
            // What is due is added, in the order of the times.
            while let Some((key, retry)) = state.later.take(now) {
                let due = model.later.iter().position(|(known, at, _)| *known == key && *at <= now);
                assert_eq!(model.later.remove(due.unwrap()).2, retry, "seed {seed}, step {step}");
                state.add(key, Priority::Fresh, if retry { Cause::Retry } else { Cause::Time }, now);
                model.add(key, Priority::Fresh, retry);
            }
            assert!(model.later.iter().all(|(_, at, _)| *at > now), "seed {seed}, step {step}");
            let key = u8::try_from(numbers.below(6)).unwrap();
            match numbers.below(10) {
                0..=2 => {
                    let priority = if numbers.below(2) == 0 { Priority::Fresh } else { Priority::Background };
                    state.add(key, priority, Cause::Change, now);
                    model.add(key, priority, false);
                }
                3 => {
                    let at = now + Duration::from_secs(numbers.below(100));
                    state.add_at(key, at, false);
                    model.add_at(key, at, false);
                }
                4..=6 => assert_eq!(state.take(now).map(|(key, _)| key), model.take(), "seed {seed}, step {step}"),
                _ if model.working.is_empty() => {}
                end => {
                    let place = usize::try_from(numbers.below(model.working.len() as u64)).unwrap();
                    let key = model.working[place].0;
                    if end == 7 {
                        state.done(&key, now);
                    } else {
                        state.failed(&key, "", now);
                    }
                    model.finish(key, end != 7, now);
                }
            }
            assert_eq!(state.depth(), model.fresh.len() + model.background.len(), "seed {seed}, step {step}");
            assert_eq!(state.works().count(), model.working.len(), "seed {seed}, step {step}");
        }
    }
}
