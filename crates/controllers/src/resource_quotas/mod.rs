//! Keeps the status of ResourceQuotas: the limits that count, and what is used of them. Watches quotas, and of every kind
//! that a quota names the objects; writes the status of quotas.
//!
//! New objects are charged by admission before they are stored. This finds out what quotas that are new or changed begin
//! with, makes good what objects leave that go or take less, and, from time to time, what was charged for nothing.

mod kinds;
mod ledger;
mod plan;
mod view;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rkube_machinery::host::Clock;
use rkube_operator::kube::Client;
use rkube_operator::{Action, Change, Informer, Key, Priority, Queue};
use rkube_quota::Amounts;
use serde_json::{Map, Value};
use tokio::time::Instant;

use crate::Context;
use crate::requests::{self, is_not_found};
use kinds::{Follower, Kinds};
use plan::{Recent, SETTLING};
use view::Quota;

const NAME: &str = "resourcequota-controller";

type Charges = Arc<Mutex<HashMap<Key, Recent>>>;

pub async fn run(context: Context) {
    let Context { client, caches, clock, settings } = context;
    let (queue, kinds, charges): (Queue<Key>, Arc<Kinds>, Charges) = Default::default();
    let (adding, naming, noting) = (queue.clone(), kinds.clone(), charges.clone());
    let quotas = view::quotas(&caches).on_change(move |change| {
        naming.quota_changed(change.old.map(AsRef::as_ref), change.new.map(AsRef::as_ref));
        note(&noting, change);
        // What is said of its use is this controller's word, or admission's.
        if change.old.zip(change.new).is_none_or(|(old, new)| old.said.wanted != new.said.wanted) {
            adding.add(change.key.clone());
        }
    });
    quotas.synced().await;
    let quotas = Arc::new(quotas);
    let follower =
        Follower { kinds: kinds.clone(), caches, quotas: quotas.clone(), queue: queue.clone(), clock: clock.clone() };
    let keeping = Arc::new(Keeping { client, clock, quotas: quotas.clone(), kinds, charges });
    let workers = settings.concurrent_resource_quota_syncs.max(1);
    tokio::select! {
        biased;
        () = follower.run() => {}
        () = look_again(&queue, &quotas, settings.resource_quota_sync_period) => {}
        () = rkube_operator::run(NAME, queue.clone(), workers, move |key: Key| {
            let keeping = keeping.clone();
            async move { keeping.reconcile(&key).await }
        }) => {}
    }
}

/// Remembers what was charged to a quota.
fn note(charges: &Charges, change: &Change<'_, Quota>) {
    let mut charges = charges.lock();
    let Some(used) = change.new.map(|quota| &quota.said.used) else {
        charges.remove(change.key);
        return;
    };
    if let Some(used) = used {
        let before = change.old.and_then(|quota| quota.said.used.as_ref());
        charges.entry(change.key.clone()).or_default().note(before, used, Instant::now());
    }
}

/// Has all quotas looked at, from time to time.
async fn look_again(queue: &Queue<Key>, quotas: &Informer<Quota>, period: Duration) {
    if period.is_zero() {
        return std::future::pending().await;
    }
    loop {
        tokio::time::sleep(period).await;
        quotas.keys().into_iter().for_each(|key| queue.add_as(key, Priority::Background));
    }
}

struct Keeping {
    client: Client,
    clock: Arc<dyn Clock>,
    quotas: Arc<Informer<Quota>>,
    kinds: Arc<Kinds>,
    charges: Charges,
}

impl Keeping {
    async fn reconcile(&self, key: &Key) -> Result<Action, rkube_operator::Error> {
        let Some(quota) = self.quotas.get(&key.namespace, &key.name) else { return Ok(Action::done()) };
        let counted = match self.kinds.used(&quota, self.clock.now_micros()) {
            Ok(counted) => counted,
            Err(wait) => return Ok(Action::done().requeue_after(wait)),
        };
        let plan = plan::plan(&quota.said, &counted, &self.recent(key));
        let mut action = Action::done();
        if let Some(used) = &plan.used {
            match self.write(&quota, used).await {
                Err(error) if is_not_found(&error) => return Ok(Action::done()),
                written => written?,
            }
            action = Action::wrote();
        }
        Ok(if plan.is_settling { action.requeue_after(SETTLING) } else { action })
    }

    fn recent(&self, key: &Key) -> Amounts {
        self.charges.lock().get_mut(key).map(|recent| recent.sum(Instant::now())).unwrap_or_default()
    }

    /// Fails where another was faster: the quota is looked at again then.
    async fn write(&self, quota: &Quota, used: &Amounts) -> Result<(), rkube_operator::kube::Error> {
        let mut object = requests::whole(&quota.item).map_err(rkube_operator::kube::Error::SerdeError)?;
        object["status"] = serde_json::json!({ "hard": json(&quota.said.wanted), "used": json(used) });
        let path = format!("/api/v1/namespaces/{}/resourcequotas/{}/status", quota.item.namespace, quota.item.name);
        requests::replace(&self.client, &path, &object).await.map(drop)
    }
}

fn json(amounts: &Amounts) -> Value {
    let text = |amount: &rkube_machinery::quantity::Quantity| Value::from(amount.to_text().as_str());
    Value::Object(amounts.iter().map(|(name, amount)| (name.to_string(), text(amount))).collect::<Map<_, _>>())
}
