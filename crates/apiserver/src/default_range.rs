//! The ServiceCIDR object `kubernetes`: the ranges of service addresses that flags ask for. What it says wins over the
//! flags: it is never narrowed or exchanged, it only gains the range of a second family.

// tidy: types ServiceCIDR

use bytes::Bytes;
use http::{Method, StatusCode};
use rkube_machinery::{Status, Value, json, object, time};
use rkube_store::Revision;

use crate::allocation::{DEFAULT_RANGE as NAME, GROUP};
use crate::internal_client::{InternalClient, failed};

const PATH: &str = "/apis/networking.k8s.io/v1/servicecidrs";
const CONTROLLER: &str = "kubernetes-service-cidr-controller";
/// Made, then said to be ready.
const STEPS_MAX: usize = 3;

/// The ranges, and what is remembered from one look to the next: what was told once is not told again.
pub struct DefaultRange {
    /// What flags ask for.
    cidrs: Vec<String>,
    has_told_difference: bool,
    has_told_not_ready: bool,
    /// There was nothing to do about the object of this revision.
    settled: Option<Revision>,
}

impl DefaultRange {
    pub fn new(cidrs: Vec<String>) -> DefaultRange {
        DefaultRange { cidrs, has_told_difference: false, has_told_not_ready: false, settled: None }
    }

    /// Whether the object was seen to differ from the flags.
    pub fn differs(&self) -> bool {
        self.has_told_difference
    }

    /// Does what is to be done.
    pub async fn settle(&mut self, client: &InternalClient) -> Result<(), Status> {
        if !client.is_served(GROUP, "v1", "servicecidrs") {
            return Ok(());
        }
        let cached = client.cached((GROUP, "servicecidrs"), "", NAME).map(|entry| entry.revision);
        if cached.is_some() && cached == self.settled {
            return Ok(());
        }
        let cidrs = self.cidrs.clone();
        for _ in 0..STEPS_MAX {
            let found = find(client).await?;
            match plan(found.as_ref(), &cidrs) {
                Step::Nothing => {
                    self.settled = found.and_then(|range| range.get("metadata").str("resourceVersion").parse().ok());
                    return Ok(());
                }
                Step::Create => create(client, &cidrs).await?,
                Step::Widen => {
                    let found = found.unwrap_or_default();
                    if let Err(why) = widen(client, found.clone(), &cidrs).await? {
                        let (first, all) = (&cidrs[0], shown(&cidrs));
                        let note = format!(
                            "The default ServiceCIDR can not be upgraded from {first} to dual stack {all} : {why}"
                        );
                        tell(client, &found, "KubernetesDefaultServiceCIDRError", &note).await;
                        return Ok(());
                    }
                }
                Step::MarkReady => mark_ready(client).await?,
                Step::Tell(trouble) => {
                    let told = match trouble.kind {
                        Kind::Difference => &mut self.has_told_difference,
                        Kind::NotReady => &mut self.has_told_not_ready,
                    };
                    if !std::mem::replace(told, true) {
                        tell(client, &found.unwrap_or_default(), &trouble.reason, &trouble.note).await;
                    }
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Step {
    Nothing,
    Create,
    /// A second family was added to the flags.
    Widen,
    MarkReady,
    /// People have to decide.
    Tell(Trouble),
}

#[derive(Debug, PartialEq, Eq)]
struct Trouble {
    kind: Kind,
    reason: String,
    note: String,
}

#[derive(Debug, PartialEq, Eq)]
enum Kind {
    Difference,
    NotReady,
}

/// What to do about the object, where flags ask for these ranges.
fn plan(found: Option<&Value>, cidrs: &[String]) -> Step {
    let Some(found) = found else { return Step::Create };
    let stored: Vec<&str> = found.get("spec").list("cidrs").iter().map(Value::as_str).collect();
    if let ([first, _], [only]) = (cidrs, stored.as_slice())
        && first == only
    {
        return Step::Widen;
    }
    if found.get("metadata").has("deletionTimestamp") {
        return Step::Nothing;
    }
    if stored != cidrs {
        let (stored, flags) = (shown(&stored), shown(cidrs));
        let note =
            format!("The default ServiceCIDR {stored} does not match the controller flag configurations {flags}");
        let reason = "KubernetesDefaultServiceCIDRInconsistent".to_owned();
        return Step::Tell(Trouble { kind: Kind::Difference, reason, note });
    }
    let conditions = found.get("status").list("conditions");
    let Some(ready) = conditions.iter().find(|condition| condition.str("type") == "Ready") else {
        return Step::MarkReady;
    };
    match ready.str("status") {
        "Unknown" => Step::MarkReady,
        "False" => {
            let note = format!("Configuration matches, but {}", ready.str("message"));
            Step::Tell(Trouble { kind: Kind::NotReady, reason: ready.str("reason").to_owned(), note })
        }
        _ => Step::Nothing,
    }
}

/// `[a b]`, as messages show a list.
fn shown<Text: AsRef<str>>(list: &[Text]) -> String {
    let texts: Vec<&str> = list.iter().map(AsRef::as_ref).collect();
    format!("[{}]", texts.join(" "))
}

async fn find(client: &InternalClient) -> Result<Option<Value>, Status> {
    let path = format!("{PATH}/{NAME}");
    let (code, body) = client.ask(Method::GET, &path, "", Bytes::new()).await?;
    match code {
        StatusCode::OK => Ok(Some(json::parse(&body).unwrap_or_default())),
        StatusCode::NOT_FOUND => Ok(None),
        _ => Err(failed(&path, &body)),
    }
}

async fn create(client: &InternalClient, cidrs: &[String]) -> Result<(), Status> {
    let mut range = empty();
    range.set("spec", object! { "cidrs": list(cidrs) });
    let (code, body) = client.ask(Method::POST, PATH, "application/json", json::to_string(&range).into()).await?;
    match code {
        StatusCode::CREATED | StatusCode::CONFLICT => Ok(()),
        _ => Err(failed(PATH, &body)),
    }
}

/// Fails with what the server answers.
async fn widen(client: &InternalClient, mut range: Value, cidrs: &[String]) -> Result<Result<(), String>, Status> {
    tracing::info!(cidrs = cidrs.join(","), "the default range of service addresses gets a second family");
    range.object_mut("spec").set("cidrs", list(cidrs));
    let path = format!("{PATH}/{NAME}");
    let (code, body) = client.ask(Method::PUT, &path, "application/json", json::to_string(&range).into()).await?;
    let refusal = || json::parse(&body).unwrap_or_default().str("message").to_owned();
    Ok(if code.is_success() { Ok(()) } else { Err(refusal()) })
}

async fn mark_ready(client: &InternalClient) -> Result<(), Status> {
    let condition = object! {
        "type": "Ready",
        "status": "True",
        "lastTransitionTime": time::format_seconds(client.clock.now_seconds()),
        "message": "Kubernetes default Service CIDR is ready",
    };
    let mut range = empty();
    range.set("status", object! { "conditions": vec![condition] });
    let path = format!("{PATH}/{NAME}/status?fieldManager={CONTROLLER}&force=true");
    let apply = "application/apply-patch+yaml";
    let (code, body) = client.ask(Method::PATCH, &path, apply, json::to_string(&range).into()).await?;
    if code.is_success() { Ok(()) } else { Err(failed(&path, &body)) }
}

fn empty() -> Value {
    object! {
        "apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "metadata": object! { "name": NAME },
    }
}

fn list(cidrs: &[String]) -> Vec<Value> {
    cidrs.iter().map(|cidr| Value::from(cidr.as_str())).collect()
}

/// Logs the trouble and makes an event of it. That the event cannot be stored is no reason to stop.
async fn tell(client: &InternalClient, range: &Value, reason: &str, note: &str) {
    tracing::warn!("{note}");
    let metadata = range.get("metadata");
    let now = client.clock.now_micros();
    let event = object! {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": object! { "name": format!("{NAME}.{:016x}", now.saturating_mul(1000)), "namespace": "default" },
        "involvedObject": object! {
            "kind": "ServiceCIDR",
            "name": NAME,
            "uid": metadata.str("uid"),
            "apiVersion": "networking.k8s.io/v1",
            "resourceVersion": metadata.str("resourceVersion"),
        },
        "reason": reason,
        "message": note,
        "source": object! { "component": CONTROLLER },
        "firstTimestamp": time::format_seconds(client.clock.now_seconds()),
        "lastTimestamp": time::format_seconds(client.clock.now_seconds()),
        "count": 1,
        "type": "Warning",
        "reportingComponent": CONTROLLER,
    };
    let path = "/api/v1/namespaces/default/events";
    match client.ask(Method::POST, path, "application/json", json::to_string(&event).into()).await {
        Ok((code, _)) if code.is_success() => {}
        Ok((_, body)) => tracing::debug!(why = %String::from_utf8_lossy(&body), "cannot store an event"),
        Err(status) => tracing::debug!(why = status.message, "cannot store an event"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const V4: &str = "10.96.0.0/12";
    const V6: &str = "fd00:10:96::/112";

    fn owned(cidrs: &[&str]) -> Vec<String> {
        cidrs.iter().map(|cidr| (*cidr).to_owned()).collect()
    }

    fn range(cidrs: &[&str], ready: &str) -> Value {
        let mut range = empty();
        range.set("spec", object! { "cidrs": list(&owned(cidrs)) });
        if !ready.is_empty() {
            let condition = object! { "type": "Ready", "status": ready, "reason": "Why", "message": "it is not" };
            range.set("status", object! { "conditions": vec![condition] });
        }
        range
    }

    #[test]
    fn flags_meet_what_is_stored() {
        // What is stored, its condition, what flags ask for, and what comes of it; a note for trouble.
        let table: &[(&[&str], &str, &[&str], &str)] = &[
            (&[V4], "", &[V4], "MarkReady"),
            (&[V4], "Unknown", &[V4], "MarkReady"),
            (&[V4, V6], "True", &[V4, V6], "Nothing"),
            (&[V4], "True", &[V4, V6], "Widen"),
            (&[V6], "True", &[V6, V4], "Widen"),
            (&[V4], "False", &[V4, V6], "Widen"),
            (&[V4], "False", &[V4], "Configuration matches, but it is not"),
            (
                &[V4, V6],
                "True",
                &[V4],
                "The default ServiceCIDR [10.96.0.0/12 fd00:10:96::/112] does not match the controller flag \
                 configurations [10.96.0.0/12]",
            ),
            (
                &[V4],
                "True",
                &[V6, V4],
                "The default ServiceCIDR [10.96.0.0/12] does not match the controller flag configurations \
                 [fd00:10:96::/112 10.96.0.0/12]",
            ),
        ];
        for (stored, ready, flags, expected) in table {
            let found = match plan(Some(&range(stored, ready)), &owned(flags)) {
                Step::Tell(trouble) => trouble.note,
                step => format!("{step:?}"),
            };
            assert_eq!(found, *expected, "{stored:?} {ready} {flags:?}");
        }
        assert_eq!(plan(None, &owned(&[V4])), Step::Create);
    }

    #[test]
    fn what_is_to_go_is_left_alone() {
        let mut going = range(&[V4], "");
        going.object_mut("metadata").set("deletionTimestamp", "2020-01-01T00:00:00Z");
        assert_eq!(plan(Some(&going), &owned(&[V4])), Step::Nothing);
    }
}
