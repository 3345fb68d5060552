//! Charging, with somebody who writes quotas, or does not.

use std::sync::OnceLock;

use futures::future::BoxFuture;
use rkube_access::User;
use rkube_catalog::{Object, Served, Snapshot};
use rkube_machinery::{Value, object};
use rkube_quota::Evaluator;
use rkube_store::KeyValue;

use super::*;
use crate::attributes::tests::creation;

/// What becomes of a write.
#[derive(Clone, Copy, PartialEq)]
enum Fate {
    Written,
    /// Another server charged the quota at the same time, for one more.
    Overtaken,
    /// Somebody deleted the quota.
    Gone,
    Fails,
}

/// A store with one quota, of pods.
struct Fake {
    served: Arc<Served>,
    /// None where it is gone.
    stored: Mutex<Option<Entry>>,
    /// Of the writes to come; the last one's repeats.
    fates: Mutex<Vec<Fate>>,
    writes: Mutex<usize>,
}

impl Fake {
    fn entry(&self, used: i64, revision: u64) -> Entry {
        let pods = |number: i64| object! { "pods": number.to_string() };
        let quota = object! {
            "metadata": object! { "name": "q", "namespace": "default" },
            "spec": object! { "hard": pods(5) },
            "status": object! { "hard": pods(5), "used": pods(used) },
        };
        Entry::new(Arc::new(Object::new(&quota, &self.served.kind)), revision)
    }

    fn used(&self) -> Option<i64> {
        let stored = self.stored.lock();
        let used = stored.as_ref()?.object.tree().get("status").map("used").str("pods").to_owned();
        used.parse().ok()
    }
}

impl Quotas for Fake {
    fn read<'a>(&'a self, _: &'a str, _: &'a str) -> BoxFuture<'a, Result<Option<Entry>, Status>> {
        Box::pin(async { Ok(self.stored.lock().clone()) })
    }

    fn write_used<'a>(&'a self, quota: &'a Entry, used: Value) -> BoxFuture<'a, Result<Entry, Status>> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            *self.writes.lock() += 1;
            let mut fates = self.fates.lock();
            let fate = if fates.len() > 1 { fates.remove(0) } else { fates[0] };
            let resource = GroupResource::new("", "resourcequotas");
            let stored = self.stored.lock().clone();
            let revision = stored.as_ref().map_or(0, |stored| stored.revision);
            match fate {
                Fate::Fails => Err(Status::internal("no")),
                Fate::Gone => {
                    *self.stored.lock() = None;
                    Err(Status::not_found(&resource, "q"))
                }
                Fate::Overtaken => {
                    let theirs = self.entry(self.used().unwrap_or(0) + 1, revision + 1);
                    *self.stored.lock() = Some(theirs);
                    Err(Status::modified(&resource, "q"))
                }
                Fate::Written if quota.revision != revision => Err(Status::modified(&resource, "q")),
                Fate::Written => {
                    let written = self.entry(used.str("pods").parse().unwrap_or(0), revision + 1);
                    *self.stored.lock() = Some(written.clone());
                    Ok(written)
                }
            }
        })
    }
}

/// Charges so many pods at once to a quota of five of which so many are used; the first so many do not wait for it.
async fn charge(used: i64, pods: usize, leaving: usize, fates: &[Fate]) -> (Vec<String>, Option<i64>, usize) {
    let catalog = Snapshot::unfed(rkube_kinds::all());
    let cache = catalog.resource("", "v1", "resourcequotas").unwrap();
    let fake = Arc::new(Fake {
        served: catalog.find("", "v1", "resourcequotas").unwrap().clone(),
        stored: Mutex::default(),
        fates: Mutex::new(fates.to_vec()),
        writes: Mutex::default(),
    });
    let entry = fake.entry(used, 1);
    *fake.stored.lock() = Some(entry.clone());
    let key = cache.key("default", "q");
    let stored = KeyValue {
        key: key.into(),
        value: entry.object.stored(),
        create_revision: 1,
        mod_revision: 1,
        lease: None,
        note: None,
    };
    cache.reset(vec![stored], 1);
    let writer: std::sync::Weak<Fake> = Arc::downgrade(&fake);
    let handle = QuotasHandle::new(OnceLock::new());
    handle.get_or_init(|| writer);
    let charging = Arc::new(Charging::new(Some(cache), Arc::default(), handle));
    let (served, user) = (catalog.find("", "v1", "pods").unwrap(), User::default());
    let pod = object! { "spec": object! {} };
    let demand = || Demand::new(Evaluator::Pods, &creation(served, &user), &pod, 0);
    let waiting: Vec<_> = (0..pods).map(|_| charging.charge("default", demand())).collect();
    let mut outcomes = Vec::new();
    for outcome in waiting.into_iter().skip(leaving) {
        outcomes.push(match outcome.await.unwrap() {
            Ok(()) => "charged".to_owned(),
            Err(Failure::Exceeded(why)) => why,
            Err(Failure::Other(status)) => status.code.to_string(),
        });
    }
    assert!(charging.waiting.lock().is_empty());
    let writes = *fake.writes.lock();
    (outcomes, fake.used(), writes)
}

#[tokio::test]
async fn quotas_are_charged_once_for_all_who_wait() {
    use Fate::{Fails, Gone, Overtaken, Written};
    let exceeded = "exceeded quota: q, requested: pods=1, used: pods=5, limited: pods=5";
    // What is used, how many come, what becomes of the writes; then who is charged, who is told what else, what is used
    // afterwards, and how many writes it took.
    let table = [
        (0, 1, &[Written][..], 1, "", Some(1), 1),
        (0, 4, &[Written], 4, "", Some(4), 1),
        (3, 4, &[Written], 2, exceeded, Some(5), 1),
        // Others were faster: there is less left.
        (0, 4, &[Overtaken, Written], 4, "", Some(5), 2),
        (2, 3, &[Overtaken, Written], 2, exceeded, Some(5), 2),
        (4, 1, &[Overtaken, Written], 0, exceeded, Some(5), 1),
        // There is no quota any more.
        (4, 1, &[Gone], 1, "", None, 1),
        (0, 2, &[Fails], 0, "500", Some(0), 1),
    ];
    for (used, pods, fates, charged, other, after, writes) in table {
        let (outcomes, used, written) = charge(used, pods, 0, fates).await;
        let others: Vec<&String> = outcomes.iter().filter(|outcome| *outcome != "charged").collect();
        assert_eq!((outcomes.len() - others.len(), used, written), (charged, after, writes), "{outcomes:?}");
        assert!(others.iter().all(|outcome| *outcome == other), "{outcomes:?}");
    }
}

#[tokio::test]
async fn who_has_gone_is_not_charged() {
    let (outcomes, used, _) = charge(0, 3, 2, &[Fate::Written]).await;
    assert_eq!((outcomes, used), (vec!["charged".to_owned()], Some(1)));
}
