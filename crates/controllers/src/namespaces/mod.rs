//! Empties namespaces that are being deleted, then lets them go. Watches namespaces; deletes everything in them, pods
//! first; writes their conditions, which say what is left and why, and their `finalize` subresource.

mod content;
mod plan;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use parking_lot::Mutex;
use rkube_machinery::host::Clock;
use rkube_machinery::time;
use rkube_operator::kube::api::{Api, PostParams};
use rkube_operator::kube::{self, Client};
use rkube_operator::{Informer, Outcome, Queue, Source};

use crate::Context;
use content::Content;

const NAME: &str = "namespace-controller";
const FINALIZER: &str = "kubernetes";
/// A namespace that still holds something is looked at again after this time, then after twice as long each time, at
/// most after the time that upstream waits.
const AGAIN_FIRST: Duration = Duration::from_millis(100);
/// No flag has them looked at more often, as upstream.
const SYNC_PERIOD_MIN: Duration = Duration::from_secs(1);

pub async fn run(context: Context) {
    let (grace, period) = (context.settings.namespace_grace, context.settings.namespace_sync_period);
    let workers = context.settings.concurrent_namespace_syncs;
    let queue: Queue<String> = Queue::new();
    let adding = queue.clone();
    let namespaces = context.caches.objects::<Namespace>().on_change(move |change| {
        if change.new.is_some_and(|namespace| must_go(namespace)) {
            adding.add_after(change.key.name.clone(), grace);
        }
    });
    namespaces.synced().await;
    let emptying = Arc::new(Emptying {
        client: context.client,
        source: context.caches.source().clone(),
        clock: context.clock,
        rounds: Mutex::default(),
    });
    let waiting = queue.clone();
    let working = rkube_operator::run(NAME, queue.clone(), workers, move |name: String| {
        let (emptying, waiting) = (emptying.clone(), waiting.clone());
        async move {
            match emptying.reconcile(&name).await? {
                Progress::Done => {
                    emptying.rounds.lock().remove(&name);
                    Ok::<_, kube::Error>(Outcome::Unchanged)
                }
                Progress::Remaining(seconds) => {
                    let delay = emptying.next_delay(&name, seconds);
                    waiting.add_after(name, delay);
                    Ok(Outcome::Unchanged)
                }
            }
        }
    });
    tokio::select! {
        biased;
        () = working => {}
        () = look_again(&queue, &namespaces, (period, grace)) => {}
    }
}

/// Has namespaces that are to go looked at from time to time, whatever they seem to wait for.
async fn look_again(queue: &Queue<String>, namespaces: &Informer<Namespace>, (period, grace): (Duration, Duration)) {
    if period.is_zero() {
        return std::future::pending().await;
    }
    loop {
        tokio::time::sleep(period.max(SYNC_PERIOD_MIN)).await;
        let all = namespaces.all();
        let names = all.iter().filter(|namespace| must_go(namespace)).filter_map(|one| one.metadata.name.clone());
        names.for_each(|name| queue.add_after(name, grace));
    }
}

/// Whether something is still to be done before the namespace can go.
fn must_go(namespace: &Namespace) -> bool {
    let finalizers = namespace.spec.as_ref().and_then(|spec| spec.finalizers.as_ref());
    namespace.metadata.deletion_timestamp.is_some() && finalizers.is_some_and(|all| !all.is_empty())
}

enum Progress {
    Done,
    /// Something is left, for so many seconds or less.
    Remaining(i64),
}

struct Emptying {
    client: Client,
    source: Arc<dyn Source>,
    clock: Arc<dyn Clock>,
    /// How often namespaces were found to hold something.
    rounds: Mutex<std::collections::HashMap<String, u32>>,
}

impl Emptying {
    async fn reconcile(&self, name: &str) -> Result<Progress, kube::Error> {
        let api: Api<Namespace> = Api::all(self.client.clone());
        let Some(mut namespace) = api.get_opt(name).await?.filter(must_go) else { return Ok(Progress::Done) };
        let findings = match self.source.resources().await {
            Ok(kinds) => {
                let deleted_seconds_ago = self.seconds_since(namespace.metadata.deletion_timestamp.as_ref());
                Content { client: &self.client, namespace: name, deleted_seconds_ago }.delete(&kinds).await
            }
            Err(error) => plan::Findings { discovery_errors: vec![error], ..plan::Findings::default() },
        };
        if let Some(written) = self.tell(&api, &namespace, &findings).await? {
            namespace = written;
        }
        if let Some(error) = findings.content_errors.first().or(findings.discovery_errors.first()) {
            tracing::debug!(namespace = name, error, "not all of a namespace can be deleted");
        }
        let is_empty = findings.remaining.is_empty() && findings.estimate == 0;
        if !is_empty || !findings.content_errors.is_empty() || !findings.discovery_errors.is_empty() {
            return Ok(Progress::Remaining(findings.estimate));
        }
        self.finalize(&namespace).await
    }

    fn seconds_since(&self, deleted: Option<&Time>) -> i64 {
        let deleted = deleted.and_then(|deleted| serde_json::to_value(deleted).ok());
        let deleted = deleted.as_ref().and_then(serde_json::Value::as_str).and_then(|text| time::parse(text).ok());
        deleted.map_or(0, |(seconds, _)| self.clock.now_seconds().saturating_sub(seconds))
    }

    /// Writes what was found to the namespace's status, if that changed.
    async fn tell(
        &self,
        api: &Api<Namespace>,
        namespace: &Namespace,
        findings: &plan::Findings,
    ) -> Result<Option<Namespace>, kube::Error> {
        let now = serde_json::from_value(time::format_seconds(self.clock.now_seconds()).as_str().into());
        let now: Time = now.map_err(kube::Error::SerdeError)?;
        let mut changed = namespace.clone();
        let status = changed.status.get_or_insert_default();
        let was_active = status.phase.as_deref() != Some("Terminating");
        status.phase = Some("Terminating".to_owned());
        if !plan::set_conditions(status.conditions.get_or_insert_default(), findings, &now) && !was_active {
            return Ok(None);
        }
        let name = namespace.metadata.name.as_deref().unwrap_or_default();
        match api.replace_status(name, &PostParams::default(), &changed).await {
            Ok(written) => Ok(Some(written)),
            // Gone, or changed in the meantime: the next event says, and what matters is done all the same.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn finalize(&self, namespace: &Namespace) -> Result<Progress, kube::Error> {
        let mut namespace = namespace.clone();
        let Some(finalizers) = namespace.spec.as_mut().and_then(|spec| spec.finalizers.as_mut()) else {
            return Ok(Progress::Done);
        };
        if !finalizers.iter().any(|one| one == FINALIZER) {
            return Ok(Progress::Done);
        }
        finalizers.retain(|one| one != FINALIZER);
        let name = namespace.metadata.name.clone().unwrap_or_default();
        let body = serde_json::to_vec(&namespace).map_err(kube::Error::SerdeError)?;
        let request = http::Request::put(format!("/api/v1/namespaces/{name}/finalize"))
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(body)
            .map_err(kube::Error::HttpError)?;
        match self.client.request_text(request).await {
            Ok(_) => Ok(Progress::Done),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(Progress::Done),
            // Changed in the meantime: its event comes, and it is looked at again.
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(Progress::Remaining(0)),
            Err(error) => Err(error),
        }
    }

    /// When to look at a namespace again that will hold something for so many seconds.
    fn next_delay(&self, name: &str, seconds: i64) -> Duration {
        let mut rounds = self.rounds.lock();
        let round = rounds.entry(name.to_owned()).or_default();
        *round = round.saturating_add(1);
        let longest = Duration::from_secs(seconds.max(plan::FINALIZERS_ESTIMATE).unsigned_abs() / 2 + 1);
        AGAIN_FIRST.saturating_mul(2_u32.saturating_pow(*round - 1)).min(longest)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::NamespaceSpec;

    use super::*;

    #[test]
    fn only_namespaces_that_go_and_wait_for_us_are_emptied() {
        let mut namespace = Namespace::default();
        assert!(!must_go(&namespace));
        namespace.metadata.deletion_timestamp = Some(Time(Default::default()));
        assert!(!must_go(&namespace));
        namespace.spec = Some(NamespaceSpec { finalizers: Some(vec![FINALIZER.to_owned()]) });
        assert!(must_go(&namespace));
    }
}
