//! Charges quotas. Writes to one namespace that come together are charged together: a task takes all that wait, in the
//! order in which they came, and writes each quota once. Another server's writes are met by compare-and-swap.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;
use rkube_catalog::{Entry, Resource};
use rkube_machinery::{GroupResource, Status, Text};
use rkube_quota::amounts;
use tokio::sync::oneshot;

use super::demand::{Demand, Running};
use super::known::Known;
use super::{Quotas, QuotasHandle};

/// So often a quota is read again that others changed meanwhile.
const ATTEMPTS_MAX: usize = 16;

#[derive(Debug)]
pub enum Failure {
    /// There is not enough left.
    Exceeded(String),
    Other(Box<Status>),
}

type Outcome = Result<(), Failure>;

/// A write that is to be charged. Who does not want to know any more is not charged.
struct Waiting {
    demand: Demand,
    answer: oneshot::Sender<Outcome>,
}

pub struct Charging {
    cache: Option<Arc<Resource>>,
    known: Arc<Known>,
    quotas: QuotasHandle,
    /// Those who wait, by namespace. A namespace that is here has a task. No more can wait than there are requests.
    waiting: Mutex<HashMap<Text, Vec<Waiting>>>,
}

impl Charging {
    pub fn new(cache: Option<Arc<Resource>>, known: Arc<Known>, quotas: QuotasHandle) -> Charging {
        Charging { cache, known, quotas, waiting: Mutex::default() }
    }

    pub fn charge(self: &Arc<Self>, namespace: &str, demand: Demand) -> oneshot::Receiver<Outcome> {
        let (answer, outcome) = oneshot::channel();
        let waiting = Waiting { demand, answer };
        let mut all = self.waiting.lock();
        match all.get_mut(namespace) {
            Some(others) => others.push(waiting),
            None => {
                let namespace = Text::new(namespace);
                all.insert(namespace.clone(), vec![waiting]);
                tokio::spawn(Task { charging: self.clone(), namespace, is_done: false }.run());
            }
        }
        outcome
    }
}

/// Charges those who wait in a namespace until there are none. Whatever ends it, nobody waits for it then.
struct Task {
    charging: Arc<Charging>,
    namespace: Text,
    /// The namespace is left to others.
    is_done: bool,
}

impl Drop for Task {
    fn drop(&mut self) {
        if !self.is_done {
            self.charging.waiting.lock().remove(&self.namespace);
        }
    }
}

impl Task {
    async fn run(mut self) {
        // What was written here: the cache may not have it yet.
        let mut written = BTreeMap::new();
        while let Some(batch) = self.take() {
            self.charge(batch, &mut written).await;
        }
    }

    /// Those who wait. None: there are none, and who comes next begins another task.
    fn take(&mut self) -> Option<Vec<Waiting>> {
        let mut all = self.charging.waiting.lock();
        let batch = all.get_mut(&self.namespace).map(std::mem::take).filter(|batch| !batch.is_empty());
        if batch.is_none() {
            all.remove(&self.namespace);
            self.is_done = true;
        }
        batch
    }

    async fn charge(&self, batch: Vec<Waiting>, written: &mut BTreeMap<Text, Entry>) {
        let Some(quotas) = self.charging.quotas.get().and_then(std::sync::Weak::upgrade) else {
            return refuse(batch, &Status::service_unavailable("the server is gone"));
        };
        let mut running = self.current(written);
        let mut batch = batch;
        for attempt in 1.. {
            batch = settle(batch, &mut running);
            if batch.is_empty() {
                return;
            }
            let overtaken = match write(&*quotas, running, written).await {
                Ok(overtaken) if overtaken.is_empty() => {
                    return batch.into_iter().for_each(|waiting| answer(waiting, Ok(())));
                }
                Ok(overtaken) if attempt < ATTEMPTS_MAX => overtaken,
                Ok(overtaken) => {
                    let resource = GroupResource::new("", "resourcequotas");
                    let name = overtaken.first().map(Text::as_str).unwrap_or_default();
                    return refuse(batch, &Status::modified(&resource, name));
                }
                Err(status) => return refuse(batch, &status),
            };
            // The other quotas have them already. One that is gone has nothing to say.
            running = Vec::new();
            for name in overtaken {
                match quotas.read(&self.namespace, &name).await {
                    Ok(found) => running.extend(found.map(|entry| Running::new(entry, &self.charging.known))),
                    Err(status) => return refuse(batch, &status),
                }
            }
        }
    }

    /// The quotas of the namespace as they were last seen or written.
    fn current(&self, written: &BTreeMap<Text, Entry>) -> Vec<Running> {
        let cached = self.charging.cache.iter().flat_map(|cache| cache.entries_within(&self.namespace));
        let latest = cached.map(|cached| {
            let own = written.get(&cached.object.name).filter(|own| own.revision > cached.revision);
            Running::new(own.cloned().unwrap_or(cached), &self.charging.known)
        });
        latest.collect()
    }
}

/// Answers all of whom it is known what becomes of them, and returns the others: those that quotas are to be charged for.
fn settle(batch: Vec<Waiting>, running: &mut [Running]) -> Vec<Waiting> {
    let mut charged = Vec::new();
    for waiting in batch.into_iter().filter(|waiting| !waiting.answer.is_closed()) {
        match waiting.demand.check(running) {
            Err(why) => answer(waiting, Err(Failure::Exceeded(why))),
            Ok(charges) if charges.is_empty() => answer(waiting, Ok(())),
            Ok(charges) => {
                for (place, sums) in charges {
                    running[place].charge(sums);
                }
                charged.push(waiting);
            }
        }
    }
    charged
}

/// Writes what is used of quotas; names those that others changed meanwhile.
async fn write(
    quotas: &dyn Quotas,
    running: Vec<Running>,
    written: &mut BTreeMap<Text, Entry>,
) -> Result<Vec<Text>, Status> {
    let mut overtaken = Vec::new();
    for running in running {
        let Some(charged) = &running.charged else { continue };
        match quotas.write_used(&running.entry, amounts::to_value(charged)).await {
            Ok(entry) => {
                written.insert(running.name().clone(), entry);
            }
            Err(status) if matches!(status.code, 404 | 409) => overtaken.push(running.name().clone()),
            Err(status) => return Err(status),
        }
    }
    Ok(overtaken)
}

fn refuse(batch: Vec<Waiting>, status: &Status) {
    batch.into_iter().for_each(|waiting| answer(waiting, Err(Failure::Other(Box::new(status.clone())))));
}

/// Who has gone meanwhile does not hear it.
fn answer(waiting: Waiting, outcome: Outcome) {
    let _ = waiting.answer.send(outcome);
}

#[cfg(test)]
#[path = "charging_tests.rs"]
mod tests;
