//! The pods of simulated nodes: one look at a pod brings it to where it is now, writes that, and says when to look again.

use std::hash::{DefaultHasher, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use rkube_machinery::{Text, Value, json, object};
use rkube_operator::{Key, Outcome};

use super::behaviour::Settings;
use super::containers::{Place, PodEvent, advance};
use super::fleet::{Fleet, Held, SimulatedNode};
use crate::admission::{Claim, admit};
use crate::api::{self, Written};
use crate::pod::backoff::micros;
use crate::pod::state::{PodState, Verdict};
use crate::pod::status;
use crate::pod::{deadline, spec};
use crate::views::PodView;

/// A pod that is gone so soon is not told of in between: the next write says it, too.
const END_IS_NEAR: Duration = Duration::from_secs(1);

/// A pod that could not be written is looked at again after so long.
const REFUSED_AGAIN: Duration = Duration::from_secs(1);

#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("the pod cannot be read: {0}")]
    Unreadable(String),
    #[error(transparent)]
    Api(#[from] api::Error),
}

/// What is to be written, and when to look again.
struct Step {
    patch: Option<Value>,
    /// Nothing of the pod runs, and it is to go.
    remove: bool,
    events: Vec<PodEvent>,
    wake_micros: Option<i64>,
    /// Nothing needs to be held of it any more.
    ended: bool,
}

pub(super) async fn reconcile(fleet: Arc<Fleet>, key: Key) -> Result<Outcome, Error> {
    let view = fleet.pods.get(&key.namespace, &key.name);
    let found = view.and_then(|view| fleet.nodes.get(&view.node).map(|node| (view, node)));
    let Some((view, node)) = found else {
        fleet.forget(&key);
        return Ok(Outcome::Unchanged);
    };
    if node.is_away() {
        return Ok(Outcome::Unchanged);
    }
    if nothing_happened(&fleet, &key, &view) {
        return Ok(Outcome::Unchanged);
    }
    let pod = json::parse(&view.json).map_err(|error| Error::Unreadable(error.to_string()))?;
    let mut held = hold(&fleet, node, &key, &view.uid, &view.node, &pod);
    let step = step(&fleet, node, &mut held, &pod);
    if let Some(wake) = step.wake_micros {
        let delay = u64::try_from(wake - fleet.now_micros()).unwrap_or(0);
        fleet.pod_queue.add_after(key.clone(), Duration::from_micros(delay));
    }
    fleet.tell(node, &pod, &step.events);
    held.wake_micros = step.wake_micros;
    let patch = step.patch.map(|patch| json::to_string(&of_revision(patch, view.revision)));
    let outcome = paced(&mut held, patch.as_deref());
    if patch.is_some() || step.remove {
        // If it fails, the pod is not as this wrote it.
        held.written_revision = 0;
    }
    let uid = held.uid.clone();
    if step.ended {
        fleet.release(&held);
    } else {
        fleet.held.lock().insert(key.clone(), held);
    }
    write(&fleet, node, (&key, &uid), patch, step.remove).await?;
    Ok(outcome)
}

/// Whether the pod is as this wrote it, and nothing is due: most of what the watch brings is that.
fn nothing_happened(fleet: &Fleet, key: &Key, view: &PodView) -> bool {
    let held = fleet.held.lock();
    let Some(held) = held.get(key) else { return false };
    let is_due = held.wake_micros.is_some_and(|wake| wake <= fleet.now_micros());
    held.written_revision == view.revision && view.revision != 0 && !is_due && !held.state.addresses.is_empty()
}

/// Takes what is held of the pod; of one that comes as new, makes it of what the API has.
fn hold(fleet: &Fleet, node: &SimulatedNode, key: &Key, uid: &Text, name: &Text, pod: &Value) -> Held {
    let held = fleet.held.lock().remove(key);
    if let Some(held) = held {
        if held.uid == *uid {
            return held;
        }
        // Another pod of the same name.
        fleet.release(&held);
    }
    let state = PodState::recover(pod);
    if !spec::is_terminal(pod.get("status").str("phase")) && state.addresses.first() != Some(&node.address) {
        fleet.addresses.keep(&state.addresses);
    }
    Held { uid: uid.clone(), node: name.clone(), state, last_patch: 0, written_revision: 0, wake_micros: None }
}

fn step(fleet: &Fleet, node: &SimulatedNode, held: &mut Held, pod: &Value) -> Step {
    let now = fleet.now_micros();
    let is_deleted = spec::is_deleted(pod);
    if spec::is_terminal(pod.get("status").str("phase")) && !held.state.runs_anything() {
        let remove = is_deleted && !is_only_held_by_finalizers(pod);
        return Step { patch: observed(pod), remove, events: Vec::new(), wake_micros: None, ended: true };
    }
    let mut events = Vec::new();
    if !is_deleted {
        take_in(fleet, node, held, pod, &mut events);
    }
    let deadline = check_deadline(&mut held.state, pod, now, &mut events);
    let place = Place {
        node: &held.node,
        images: &fleet.images,
        stop_delay: Settings::of(pod).duration("stop-delay").unwrap_or(fleet.config.template.stop_delay),
    };
    let has_sandbox = !held.state.addresses.is_empty() || is_deleted || held.state.verdict.is_some();
    let mut wake_micros = deadline;
    if has_sandbox {
        let told = advance(pod, &mut held.state, place, now);
        events.extend(told.events);
        wake_micros = [deadline, told.wake_micros].into_iter().flatten().min();
    }
    let containers = spec::containers(pod);
    let new = status::status(pod, &containers, &held.state, &[node.address], now);
    let stops_soon = held.state.stopped_at_micros.is_some_and(|at| at - now <= micros(END_IS_NEAR));
    let patch = if stops_soon { None } else { status::patch(pod, &new) };
    let remove = is_deleted && !held.state.runs_anything();
    let ended = remove || spec::is_terminal(new.str("phase"));
    Step { patch, remove, events, wake_micros, ended }
}

/// Lets the pod in and gives it addresses, if that has not happened yet.
fn take_in(fleet: &Fleet, node: &SimulatedNode, held: &mut Held, pod: &Value, events: &mut Vec<PodEvent>) {
    if held.state.verdict.is_some() {
        return;
    }
    let view = fleet.node_views.get("", &held.node);
    let mut usage = node.usage.lock();
    if !usage.has(&held.uid) {
        let claim = Claim::of(pod);
        // One that has begun was let in by another life of this process.
        let is_new = pod.get("status").str("startTime").is_empty();
        let verdict = view.as_deref().filter(|_| is_new).map(|view| admit(pod, &claim, &view.object, &usage));
        if let Some(Err(why)) = verdict {
            events.push(PodEvent {
                field_path: String::new(),
                warning: true,
                reason: why.reason.clone(),
                message: why.message.clone(),
            });
            let message = format!("Pod was rejected: {}", why.message);
            held.state.verdict = Some(Verdict { reason: why.reason.into(), message, rejected: true });
            return;
        }
        usage.add(&held.uid, claim);
    }
    drop(usage);
    if held.state.addresses.is_empty() {
        held.state.addresses = match spec::is_host_network(pod) {
            true => vec![node.address],
            false => {
                let ranges = fleet.ranges(node, view.as_deref(), fleet.now_micros());
                let taken = (!ranges.is_empty()).then(|| fleet.addresses.take(&held.node, &ranges));
                taken.flatten().unwrap_or_default()
            }
        };
    }
}

/// When the pod has run for long enough, by its own wish; says so once it has.
fn check_deadline(state: &mut PodState, pod: &Value, now: i64, events: &mut Vec<PodEvent>) -> Option<i64> {
    let at = deadline::of_pod(pod, now)?;
    if at <= now && deadline::pass(state, pod) {
        events.push(PodEvent {
            field_path: String::new(),
            warning: false,
            reason: deadline::REASON.to_owned(),
            message: deadline::MESSAGE.to_owned(),
        });
    }
    (at > now).then_some(at)
}

/// A status is of the pod that was looked at. Were it written over a later one, that would pass for what this wrote, and
/// what the other writer wanted (that the pod ends, say) would not be seen.
fn of_revision(mut patch: Value, revision: u64) -> Value {
    let mut metadata = patch.get("metadata").clone();
    metadata.set("resourceVersion", revision.to_string());
    patch.set("metadata", metadata);
    patch
}

/// A pod that has ended says no more than which generation of it was seen.
fn observed(pod: &Value) -> Option<Value> {
    let metadata = pod.get("metadata");
    let generation = metadata.int("generation");
    (pod.get("status").int("observedGeneration") < generation).then(|| {
        object! {
            "metadata": object! { "uid": metadata.str("uid") },
            "status": object! { "observedGeneration": generation },
        }
    })
}

/// Its removal was asked for already.
fn is_only_held_by_finalizers(pod: &Value) -> bool {
    let metadata = pod.get("metadata");
    !metadata.list("finalizers").is_empty() && metadata.get("deletionGracePeriodSeconds").as_int() == Some(0)
}

/// Who has to write the same again is undone by somebody: it waits longer each time.
fn paced(held: &mut Held, patch: Option<&str>) -> Outcome {
    let Some(patch) = patch else { return Outcome::Unchanged };
    let mut hasher = DefaultHasher::new();
    hasher.write(patch.as_bytes());
    let hash = hasher.finish();
    let is_again = std::mem::replace(&mut held.last_patch, hash) == hash;
    if is_again { Outcome::Wrote } else { Outcome::Unchanged }
}

async fn write(
    fleet: &Fleet,
    node: &SimulatedNode,
    (key, uid): (&Key, &str),
    patch: Option<String>,
    remove: bool,
) -> Result<(), Error> {
    if let Some(patch) = patch {
        let path = format!("/api/v1/namespaces/{}/pods/{}/status", key.namespace, key.name);
        match api::patch_status(&node.client, &path, patch).await? {
            Written::At(revision) => {
                if let Some(held) = fleet.held.lock().get_mut(key) {
                    held.written_revision = revision;
                }
            }
            missed => {
                // What others wrote is on its way here, and has the pod looked at again; so has this, if it was seen before.
                if missed == Written::NotFound {
                    fleet.forget(key);
                }
                fleet.pod_queue.add_after(key.clone(), REFUSED_AGAIN);
                return Ok(());
            }
        }
    }
    if remove {
        api::remove_pod(&node.client, &key.namespace, &key.name, uid).await?;
        fleet.forget(key);
    }
    Ok(())
}
