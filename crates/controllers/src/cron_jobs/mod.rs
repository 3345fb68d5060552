//! Makes Jobs at the times of a schedule. Owns the Jobs of CronJobs; watches both; makes Jobs, deletes those that are to be
//! replaced or ended long ago, and writes the status of CronJobs.

mod act;
mod plan;
#[cfg(test)]
mod plan_tests;
mod schedule;
mod view;

use std::sync::Arc;

use rkube_operator::events::Recorder;
use rkube_operator::{Change, Key, Queue};

use crate::Context;
use crate::jobs::{self, ByController, Job};
use view::CronJob;

const NAME: &str = "cronjob-controller";

pub async fn run(context: Context) {
    let Context { client, caches, clock, settings } = context;
    let queue: Queue<Key> = Queue::new();
    let (adding, now) = (queue.clone(), clock.clone());
    let cron_jobs = view::cron_jobs(&caches).on_change(move |change: &Change<'_, CronJob>| {
        match change.old.zip(change.new).filter(|(old, new)| is_rescheduled(old, new)) {
            // Times that a new schedule would have had are not made up for.
            Some((_, new)) => {
                let schedule = plan::schedule(new).ok();
                let delay = schedule.and_then(|schedule| plan::next_in(new, &new.status, &schedule, now.now_micros()));
                match delay {
                    Some(delay) => adding.add_after(change.key.clone(), delay),
                    None => adding.add(change.key.clone()),
                }
            }
            None => adding.add(change.key.clone()),
        }
    });
    cron_jobs.synced().await;
    let (adding, known) = (queue.clone(), view::cron_jobs(&caches));
    let jobs = jobs::jobs(&caches).indexed::<ByController>().on_change(move |change: &Change<'_, Job>| {
        let both = [change.old, change.new].into_iter().flatten();
        for owner in both.filter_map(|job| job.controller.as_ref()).filter(|owner| owner.kind == "CronJob") {
            if known.get(&change.key.namespace, &owner.name).is_some_and(|cron| cron.item.uid == owner.uid) {
                adding.add(Key { namespace: change.key.namespace.clone(), name: owner.name.to_string() });
            }
        }
    });
    jobs.synced().await;
    let events = Recorder::start(client.clone(), clock.clone(), NAME);
    let manager = Arc::new(act::Manager { client, clock, events, cron_jobs, jobs, queue: queue.clone() });
    rkube_operator::run(NAME, queue, settings.concurrent_cron_job_syncs, move |key: Key| {
        let manager = manager.clone();
        async move { manager.reconcile(&key).await.map_err(rkube_operator::Error::from) }
    })
    .await;
}

fn is_rescheduled(old: &CronJob, new: &CronJob) -> bool {
    old.item.uid == new.item.uid && (old.schedule != new.schedule || old.time_zone != new.time_zone)
}
