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
