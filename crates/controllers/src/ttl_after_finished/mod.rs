//! Deletes Jobs some time after they ended, if they say so. Watches Jobs.

use std::sync::Arc;
use std::time::Duration;

use rkube_operator::{Key, Outcome, Queue};
use serde_json::json;

use crate::Context;
use crate::jobs::{Job, jobs};
use crate::requests::{self, is_not_found};

const NAME: &str = "ttl-after-finished-controller";

pub async fn run(context: Context) {
    let Context { client, caches, clock, settings } = context;
    let queue: Queue<Key> = Queue::new();
    let adding = queue.clone();
    let watched = jobs(&caches).on_change(move |change| {
        if change.new.is_some_and(|job| expires(job).is_some()) {
            adding.add(change.key.clone());
        }
    });
    watched.synced().await;
    let watched = Arc::new(watched);
    let later = queue.clone();
    rkube_operator::run(NAME, queue, settings.concurrent_ttl_after_finished_syncs, move |key: Key| {
        let (client, clock, watched, later) = (client.clone(), clock.clone(), watched.clone(), later.clone());
        async move {
            let Some(job) = watched.get(&key.namespace, &key.name) else { return Ok(Outcome::Unchanged) };
            let Some(at) = expires(&job) else { return Ok(Outcome::Unchanged) };
            let left = at.saturating_mul(1_000_000).saturating_sub(clock.now_micros());
            if left > 0 {
                later.add_after(key, Duration::from_micros(left.unsigned_abs()));
                return Ok(Outcome::Unchanged);
            }
            // One that was changed in the meantime may be to stay.
            let known = json!({ "uid": job.item.uid.as_str(), "resourceVersion": job.item.revision.to_string() });
            let options = json!({ "propagationPolicy": "Foreground", "preconditions": known });
            let path = format!("/apis/batch/v1/namespaces/{}/jobs/{}", key.namespace, key.name);
            match requests::delete_with(&client, &path, options).await {
                Err(error) if is_not_found(&error) => Ok(Outcome::Unchanged),
                other => other.map(|_| Outcome::Unchanged).map_err(rkube_operator::Error::from),
            }
        }
    })
    .await;
}

/// When a Job is to go, in seconds. None: it has not ended, is to stay, or goes already.
fn expires(job: &Job) -> Option<i64> {
    let ttl = job.ttl_seconds.filter(|_| job.deleted.is_none())?;
    Some(job.ended()?.saturating_add(ttl))
}
