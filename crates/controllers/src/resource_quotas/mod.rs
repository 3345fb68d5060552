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
use rkube_operator::{Action, Change, Informer, Key, Priority, Queue, Source};
use rkube_quota::Amounts;
use serde_json::{Map, Value};
use tokio::time::Instant;

use crate::Context;
use crate::requests::{self, is_not_found};
use crate::settings;
use kinds::{Count, Follower, Kinds};
use plan::{Recent, SETTLING};
use view::Quota;

const NAME: &str = "resourcequota-controller";

type AllRecent = Arc<Mutex<HashMap<Key, Recent>>>;

/// What is known of a quota's charges at the moment of a look.
struct Charges {
    recent: Amounts,
    can_begin: bool,
    has_begun: bool,
}

pub async fn run(context: Context) {
    let Context { client, caches, clock, settings } = context;
    let (queue, kinds, recent): (Queue<Key>, Arc<Kinds>, AllRecent) = Default::default();
    let (adding, naming, noting) = (queue.clone(), kinds.clone(), recent.clone());
    let source = caches.source().clone();
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
    let keeping = Arc::new(Keeping { client, clock, source, quotas: quotas.clone(), kinds, recent });
    let workers = settings.concurrent_resource_quota_syncs;
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
fn note(recent: &AllRecent, change: &Change<'_, Quota>) {
    let mut charges = recent.lock();
    let Some(new) = change.new else {
        charges.remove(change.key);
        return;
    };
    let now = Instant::now();
    let recent = charges.entry(change.key.clone()).or_insert_with(|| Recent::new(now));
    match change.old {
        Some(old) => recent.note(&old.said, &new.said, now),
        // Nobody knows what of it was charged just now.
        None => recent.note(&rkube_quota::Quota { used: None, ..new.said.clone() }, &new.said, now),
    }
}

/// Has all quotas looked at, from time to time.
async fn look_again(queue: &Queue<Key>, quotas: &Informer<Quota>, period: Duration) {
    if period.is_zero() {
        return std::future::pending().await;
    }
    loop {
        settings::pause(period).await;
        quotas.keys().into_iter().for_each(|key| queue.add_as(key, Priority::Background));
    }
}

struct Keeping {
    client: Client,
    clock: Arc<dyn Clock>,
    source: Arc<dyn Source>,
    quotas: Arc<Informer<Quota>>,
    kinds: Arc<Kinds>,
    recent: AllRecent,
}

impl Keeping {
    async fn reconcile(&self, key: &Key) -> Result<Action, rkube_operator::Error> {
        let Some(quota) = self.quotas.get(&key.namespace, &key.name) else { return Ok(Action::done()) };
        let Count { used: counted, as_of } = match self.kinds.used(&quota, &*self.source, self.clock.now_micros()) {
            Ok(counted) => counted,
            Err(wait) => return Ok(Action::done().requeue_after(wait)),
        };
        let Some(Charges { recent, can_begin, has_begun }) = self.charges(key, &quota, as_of) else {
            return Ok(Action::done());
        };
        if !can_begin {
            return Ok(Action::done().requeue_after(SETTLING));
        }
        let plan = plan::plan(&quota.said, &counted, &recent);
        if let Some(used) = &plan.used {
            match self.write(&quota, used).await {
                Err(error) if is_not_found(&error) => return Ok(Action::done()),
                written => written?,
            }
        }
        // However often objects come and go, what they gave back can be used at once.
        let action = Action::done();
        Ok(if plan.is_settling || !has_begun { action.requeue_after(SETTLING) } else { action })
    }

    /// None: the quota is gone.
    fn charges(&self, key: &Key, quota: &Quota, as_of: Option<Instant>) -> Option<Charges> {
        let mut all = self.recent.lock();
        let recent = all.get_mut(key)?;
        let (can_begin, has_begun) = (recent.can_begin(&quota.said, as_of), recent.has_begun(as_of));
        Some(Charges { recent: recent.sum(as_of), can_begin, has_begun })
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
