//! `pods/eviction`: a deletion that disruption budgets may refuse for now.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use bytes::Bytes;
use rkube_machinery::field::{Errors, Path};
use rkube_machinery::schema::Schema;
use rkube_machinery::selector::labels::Selector;
use rkube_machinery::status::Cause;
use rkube_machinery::{GroupResource, Status, Value, managed, object, time};
use rkube_store::Expect;

use super::super::admit::Admission;
use super::super::delete::check_preconditions;
use super::super::engine::{self, CompareAndSwap, Place, Verdict};
use super::super::write::Write;
use super::binding::set_condition;
use crate::content::Answer;
use crate::request::DeleteOptions;
use rkube_catalog::{Entry, Served};
use tokio::sync::{Mutex, MutexGuard};

/// As upstream: fewer than other writes, since many want the same budget at the same time.
const ATTEMPTS_MAX: usize = 20;
const RETRY_AFTER_SECONDS: u32 = 10;

/// Who wants a disruption of the same budget waits for who came before: each write of it would else fail all others.
/// Control planes on one store still go by the compare-and-swap.
#[derive(Default)]
pub struct Turns([Mutex<()>; 32]);

impl Turns {
    async fn take(&self, key: &str) -> MutexGuard<'_, ()> {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        let place = usize::try_from(hasher.finish() % self.0.len() as u64).unwrap_or(0);
        self.0[place].lock().await
    }
}

impl Write<'_> {
    pub(super) async fn evict(&mut self, body: &Bytes) -> Result<Answer, Status> {
        let mut eviction = self.decode_other(body, "io.k8s.api.policy.v1.Eviction", "policy/v1", "Eviction")?;
        let name = self.request.info.name.clone();
        let write = Admission::create(&name).of_kind("policy/v1", "Eviction");
        self.admit(write, &mut eviction).await?;
        if eviction.get("metadata").str("name") != name {
            return Err(Status::bad_request("name in URL does not match name in Eviction object"));
        }
        let wanted = eviction.get("deleteOptions").clone();
        refuse_broken_reads(&name, &wanted)?;
        self.options.agree_on_dry_run(self.request.query, wanted.list("dryRun"))?;
        self.check_admitted(write, &eviction).await?;
        let options = DeleteOptions::of_body(&wanted)?;
        self.options.dry_run |= options.dry_run;
        let names_version = options.preconditions.resource_version.is_some();
        let Some(pod) = self.evict_unguarded(&name, &options).await? else { return Ok(self.done()) };
        match self.claim_disruption(&pod).await? {
            Claim::Free | Claim::Taken => self.mark_and_delete(&name, options).await?,
            Claim::Several => return Err(refuse_several()),
            // The pod may not have become ready since the budget was looked at.
            Claim::Unready(budget) => match self.mark_and_delete(&name, unchanged(options, &pod)).await {
                Err(status) if is_conflict(&status) && !names_version => return Err(still_processed(&budget)),
                deleted => deleted?,
            },
        }
        Ok(self.done())
    }

    /// Deletes a pod that no budget is asked about: it has ended, goes already, or never ran. Else it is returned.
    async fn evict_unguarded(&mut self, name: &str, options: &DeleteOptions) -> Result<Option<Value>, Status> {
        let mut attempt = 1;
        loop {
            let found = self.place(name).find().await?;
            let entry = found.ok_or_else(|| Status::not_found(&self.request.served.group_resource, name))?;
            let pod = entry.object.value(entry.revision);
            // One that may yet run may have become ready in the meantime, and counts then.
            let given = match guard(&pod) {
                Guard::Budget => return Ok(Some(pod)),
                Guard::None => options.clone(),
                Guard::Version => unchanged(options.clone(), &pod),
            };
            match self.mark_and_delete(name, given).await {
                Err(status)
                    if is_conflict(&status)
                        && options.preconditions.resource_version.is_none()
                        && attempt < ATTEMPTS_MAX =>
                {
                    attempt += 1;
                }
                deleted => return deleted.map(|()| None),
            }
        }
    }

    /// Says of the pod that it is being evicted, and deletes it.
    async fn mark_and_delete(&mut self, name: &str, mut options: DeleteOptions) -> Result<(), Status> {
        if !self.options.dry_run {
            let now = time::format_seconds(self.now());
            let condition = object! {
                "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting",
            };
            let marked = self
                .edit(|pod| {
                    check_preconditions(self.request, name, &options.preconditions, pod)?;
                    set_condition(pod, condition.clone(), &now);
                    Ok(())
                })
                .await?;
            options.preconditions.moved_to(marked.revision);
        }
        self.delete_evicted(name, &options).await
    }

    /// Takes one of the disruptions that the pod's budget allows.
    async fn claim_disruption(&self, pod: &Value) -> Result<Claim, Status> {
        let Some(budgets) = self.registry.catalog.find("policy", "v1", "poddisruptionbudgets") else {
            return Ok(Claim::Free);
        };
        let Some(cache) = &budgets.cache else { return Ok(Claim::Free) };
        let namespace = pod.get("metadata").str("namespace");
        let covers = |budget: &Value| {
            let selector = Selector::from_label_selector(budget.get("spec").get("selector"));
            selector.is_ok_and(|selector| selector.matches(pod.get("metadata").map("labels")))
        };
        let here = cache.within(namespace);
        let mut matching = here.iter().map(|object| (object, object.value(0))).filter(|(_, budget)| covers(budget));
        let Some((object, budget)) = matching.next() else { return Ok(Claim::Free) };
        if matching.next().is_some() {
            return Ok(Claim::Several);
        }
        let name = &object.name;
        if !is_ready(pod) && unready_may_go(&budget) {
            return Ok(Claim::Unready(name.to_string()));
        }
        let key = cache.key(namespace, name);
        let _turn = self.registry.evictions.take(&key).await;
        let place = Place::new(&self.registry.engine, cache, key, self.options.dry_run);
        let seen = place.cached();
        engine::run(&mut Disruption { write: self, place, budgets: &budgets, name, pod }, seen).await?;
        Ok(Claim::Taken)
    }
}

fn refuse_several() -> Status {
    let message = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
    // Without a reason: Kubernetes answers so, too.
    Status { code: 500, message: message.to_owned(), ..Status::default() }
}

/// Only of the pod as it was seen, unless the client named a version itself.
fn unchanged(mut options: DeleteOptions, pod: &Value) -> DeleteOptions {
    options.preconditions.require_version(pod.get("metadata").str("resourceVersion"));
    options
}

fn is_conflict(status: &Status) -> bool {
    status.code == 409
}

/// The write of a budget from which one disruption is taken.
struct Disruption<'c, 'a> {
    write: &'c Write<'a>,
    place: Place<'c>,
    budgets: &'c Served,
    /// The budget's.
    name: &'c str,
    pod: &'c Value,
}

impl CompareAndSwap for Disruption<'_, '_> {
    type Done = ();

    fn place(&self) -> &Place<'_> {
        &self.place
    }

    fn attempts_max(&self) -> usize {
        ATTEMPTS_MAX
    }

    async fn attempt(&mut self, current: Option<&Entry>) -> Result<Verdict<()>, Status> {
        let Disruption { write, place, budgets, name, pod } = self;
        let entry = current.ok_or_else(|| Status::not_found(&pdb_resource(), name))?;
        let before = entry.object.value(entry.revision);
        let mut budget = before.clone();
        take_disruption(&mut budget, pod, &time::format_seconds(write.now()))?;
        if place.is_dry_run() {
            return Ok(Verdict::Decided(()));
        }
        budgets.stored_schema().complete(&mut budget);
        write.admit_internal(budgets, "status", &before, &mut budget).await?;
        write.own_disruption(&before, &mut budget, budgets.stored_schema());
        let put = place.put(budget, Expect::Revision(entry.revision)).await?;
        Ok(put.map(drop))
    }

    fn exhausted(&self, _current: Option<&Entry>) -> Status {
        let message = format!("couldn't update PodDisruptionBudget \"{}\" due to conflicts", self.name);
        Status::timeout(message, 10)
    }
}

impl Write<'_> {
    /// The server writes the budget's status in its own name.
    fn own_disruption(&self, before: &Value, budget: &mut Value, schema: &Schema) {
        let time = time::format_seconds(self.now());
        let context = managed::WriteContext {
            manager: "kube-apiserver",
            api_version: "policy/v1",
            kind: "PodDisruptionBudget",
            subresource: "status",
            time: &time,
        };
        let reset = managed::Reset::Fields(&[&["spec"]]);
        schema.track_update(before, budget, &context, reset, None);
    }
}

/// Deleting what cannot be read is no matter of evictions.
fn refuse_broken_reads(name: &str, options: &Value) -> Result<(), Status> {
    const OPTION: &str = "ignoreStoreReadErrorWithClusterBreakingPotential";
    if !options.bool(OPTION) {
        return Ok(());
    }
    let mut errors = Errors::new();
    let path = Path::new("deleteOptions");
    errors.invalid(path.child(OPTION), true, "can not be set for pod eviction, try after removing the option");
    Err(Status::invalid(&GroupResource::new("policy", "Eviction"), name, &errors))
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Claim {
    /// No budget covers the pod.
    Free,
    Taken,
    /// More than one budget covers the pod.
    Several,
    /// The pod does not count for this budget: it is not ready.
    Unready(String),
}

/// What stands before the eviction of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Guard {
    None,
    /// It must be as it was seen.
    Version,
    Budget,
}

fn guard(pod: &Value) -> Guard {
    match pod.get("status").str("phase") {
        _ if pod.get("metadata").has("deletionTimestamp") => Guard::None,
        "Succeeded" | "Failed" => Guard::None,
        "Pending" => Guard::Version,
        _ => Guard::Budget,
    }
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod.get("status").list("conditions");
    conditions.iter().any(|condition| condition.str("type") == "Ready" && condition.str("status") == "True")
}

fn unready_may_go(budget: &Value) -> bool {
    let status = budget.get("status");
    let (current, desired) = (status.int("currentHealthy"), status.int("desiredHealthy"));
    budget.get("spec").str("unhealthyPodEvictionPolicy") == "AlwaysAllow" || (desired > 0 && current >= desired)
}

fn take_disruption(budget: &mut Value, pod: &Value, now: &str) -> Result<(), Status> {
    const DISRUPTED_MAX: usize = 2000;
    let name = budget.get("metadata").str("name").to_owned();
    if budget.get("status").int("observedGeneration") < budget.get("metadata").int("generation") {
        return Err(still_processed(&name));
    }
    let status = budget.get("status");
    let allowed = status.int("disruptionsAllowed");
    if allowed < 0 {
        return Err(Status::forbidden(&refusing_resource(), &name, "pdb disruptions allowed is negative"));
    }
    if status.map("disruptedPods").len() > DISRUPTED_MAX {
        return Err(Status::forbidden(
            &refusing_resource(),
            &name,
            "DisruptedPods map too big - too many evictions not confirmed by PDB controller",
        ));
    }
    if allowed == 0 {
        return Err(too_many(&name, 0, &why_not(status)));
    }
    let status = budget.object_mut("status");
    status.set("disruptionsAllowed", allowed - 1);
    if allowed == 1 {
        let condition =
            object! { "type": "DisruptionAllowed", "status": "False", "reason": "InsufficientPods", "message": "" };
        let generation = status.int("observedGeneration");
        let mut holder = object! { "status": std::mem::take(status) };
        set_condition(&mut holder, condition, now);
        *status = holder.remove("status").unwrap_or_default();
        if let Some(found) =
            status.list_mut("conditions").iter_mut().find(|found| found.str("type") == "DisruptionAllowed")
        {
            found.set("observedGeneration", generation);
        }
    }
    status.object_mut("disruptedPods").set(pod.get("metadata").str("name"), now);
    Ok(())
}

fn pdb_resource() -> GroupResource {
    GroupResource::new("policy", "poddisruptionbudgets")
}

/// As refusals name the resource.
fn refusing_resource() -> GroupResource {
    GroupResource::new("policy", "poddisruptionbudget")
}

/// Why a budget allows nothing. Its numbers say so, unless nobody could count.
fn why_not(status: &Value) -> String {
    let (desired, current) = (status.int("desiredHealthy"), status.int("currentHealthy"));
    let conditions = status.list("conditions").iter();
    let condition = conditions.clone().find(|one| one.str("type") == "DisruptionAllowed");
    let condition = condition.filter(|one| one.str("status") == "False" && !one.str("message").is_empty());
    let (reason, message) = condition.map_or(("", ""), |one| (one.str("reason"), one.str("message")));
    if reason == "SyncFailed" {
        return format!("does not allow evicting pods currently because it failed sync: {message}");
    }
    if current <= desired {
        return format!("needs {desired} healthy pods and has {current} currently");
    }
    match condition {
        Some(_) => format!("does not allow evicting pods currently ({reason}): {message}"),
        None => "does not allow evicting pods currently".to_owned(),
    }
}

fn still_processed(budget: &str) -> Status {
    too_many(budget, RETRY_AFTER_SECONDS, "is still being processed by the server.")
}

fn too_many(budget: &str, retry_after_seconds: u32, why: &str) -> Status {
    let message = "Cannot evict pod as it would violate the pod's disruption budget.";
    let mut status = Status::too_many_requests(message, retry_after_seconds);
    status.details.get_or_insert_default().causes.push(Cause {
        reason: "DisruptionBudget".to_owned(),
        message: format!("The disruption budget {budget} {why}"),
        field: String::new(),
    });
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_say_why_they_allow_nothing() {
        let status = |current: i64, reason: &str, message: &str| {
            let condition =
                object! { "type": "DisruptionAllowed", "status": "False", "reason": reason, "message": message };
            object! { "desiredHealthy": 2, "currentHealthy": current, "conditions": vec![condition] }
        };
        let table = [
            (status(1, "", ""), "needs 2 healthy pods and has 1 currently"),
            (status(1, "SyncFailed", "m"), "does not allow evicting pods currently because it failed sync: m"),
            (status(3, "InsufficientPods", "m"), "does not allow evicting pods currently (InsufficientPods): m"),
            (status(3, "InsufficientPods", ""), "does not allow evicting pods currently"),
        ];
        for (status, want) in table {
            assert_eq!(why_not(&status), want);
        }
    }
}
