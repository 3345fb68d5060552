//! The server's identity: a Lease in `kube-system` by which others know that it is there. Made when the server is
//! there, renewed every ten seconds, removed when it ends in good order; those of servers that did not are collected.
//!
//! The renewals have a use of their own: revisions move on even when nobody else writes, so that continue tokens expire.

use std::sync::Weak;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, StatusCode};
use rkube_machinery::names::generated::uuid;
use rkube_machinery::{Status, Value, json, object, time};
use tokio::time::{Instant, MissedTickBehavior, interval, interval_at};

use crate::internal_client::{InternalClient, failed};
use crate::registry::{AGENT, InternalWriter, Registry};

const RENEW_INTERVAL: Duration = Duration::from_secs(10);
const DURATION_SECONDS: i64 = 3600;
/// How often leases that have run out are looked for.
const COLLECT_INTERVAL: Duration = Duration::from_secs(3600);
const GROUP: &str = "coordination.k8s.io";
const NAMESPACE: &str = "kube-system";
const PATH: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
/// Labels an identity lease with who has it.
const COMPONENT_LABEL: &str = "apiserver.kubernetes.io/identity";
const HOST_LABEL: &str = "kubernetes.io/hostname";

/// Keeps the lease until the server drains or is gone. `host`: the server's.
pub async fn keep(client: InternalClient, registry: Weak<Registry>, host: String) {
    let Some((holder, mut draining)) = registry.upgrade().map(|registry| {
        let Registry { entropy, draining, .. } = &*registry;
        (uuid(&**entropy), draining.clone())
    }) else {
        return;
    };
    if !client.is_served(GROUP, "v1", "leases") {
        return;
    }
    let mut lease = IdentityLease::of(host, &holder);
    // Of a server before this one, on this host: whoever held it is gone.
    lease.remove(&client).await;
    let mut renew = interval(RENEW_INTERVAL);
    renew.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut collect = interval_at(Instant::now() + COLLECT_INTERVAL, COLLECT_INTERVAL);
    collect.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let due = tokio::select! {
            biased;
            _ = draining.wait_for(|draining| *draining) => Due::End,
            _ = renew.tick() => Due::Renewal,
            _ = collect.tick() => Due::Collection,
        };
        let Some(registry) = registry.upgrade() else { return };
        match due {
            Due::Renewal => lease.renew(&client).await,
            Due::Collection => collect_expired(&registry).await,
            Due::End => return lease.remove(&client).await,
        }
    }
}

enum Due {
    Renewal,
    Collection,
    End,
}

struct IdentityLease {
    name: String,
    holder: String,
    host: String,
    /// As it was last written.
    latest: Option<Value>,
    /// Whether the last renewal failed, which is said once.
    failing: bool,
}

impl IdentityLease {
    fn of(host: String, holder: &str) -> IdentityLease {
        let name = name_of(&host);
        IdentityLease { holder: format!("{name}_{holder}"), name, host, latest: None, failing: false }
    }

    async fn renew(&mut self, client: &InternalClient) {
        let renewed = match self.latest.take() {
            Some(latest) => match self.update(client, latest).await {
                // Somebody else wrote or removed it.
                Err(_) => self.ensure(client).await,
                renewed => renewed,
            },
            None => self.ensure(client).await,
        };
        match renewed {
            Ok(latest) => {
                self.latest = Some(latest);
                self.failing = false;
            }
            Err(status) if !std::mem::replace(&mut self.failing, true) => {
                tracing::warn!(why = status.message, "cannot renew the lease that says that this server is there");
            }
            Err(_) => {}
        }
    }

    /// Makes the lease, or renews the one that is there.
    async fn ensure(&self, client: &InternalClient) -> Result<Value, Status> {
        let path = format!("{PATH}/{}", self.name);
        match client.ask(Method::GET, &path, "", Bytes::new()).await? {
            (StatusCode::OK, body) => self.update(client, json::parse(&body).unwrap_or_default()).await,
            (StatusCode::NOT_FOUND, _) => {
                let lease = object! {
                    "apiVersion": "coordination.k8s.io/v1",
                    "kind": "Lease",
                    "metadata": object! { "name": self.name.as_str(), "namespace": NAMESPACE },
                    "spec": object! { "holderIdentity": self.holder.as_str() },
                };
                self.send(client, Method::POST, PATH, lease).await
            }
            (_, body) => Err(failed(&path, &body)),
        }
    }

    async fn update(&self, client: &InternalClient, lease: Value) -> Result<Value, Status> {
        self.send(client, Method::PUT, &format!("{PATH}/{}", self.name), lease).await
    }

    /// Sends the lease, renewed.
    async fn send(
        &self,
        client: &InternalClient,
        method: Method,
        path: &str,
        mut lease: Value,
    ) -> Result<Value, Status> {
        let metadata = lease.object_mut("metadata");
        // Who owns what is the server's to know, and not to be sent back every ten seconds.
        metadata.remove("managedFields");
        let labels = metadata.object_mut("labels");
        labels.set(COMPONENT_LABEL, AGENT);
        labels.set(HOST_LABEL, self.host.as_str());
        let spec = lease.object_mut("spec");
        spec.set("leaseDurationSeconds", DURATION_SECONDS);
        spec.set("renewTime", time::format_micros(client.clock.now_micros()));
        let is_new = method == Method::POST;
        let (code, body) = client.ask(method, path, "application/json", json::to_string(&lease).into()).await?;
        if !code.is_success() {
            return Err(failed(path, &body));
        }
        if !is_new && let Some(version) = version(&body) {
            lease.object_mut("metadata").set("resourceVersion", version);
            return Ok(lease);
        }
        Ok(json::parse(&body).unwrap_or_default())
    }

    async fn remove(&self, client: &InternalClient) {
        let path = format!("{PATH}/{}", self.name);
        // That it is not there is fine, and what cannot be removed runs out.
        match client.ask(Method::DELETE, &path, "", Bytes::new()).await {
            Ok((code, body)) if !code.is_success() && code != StatusCode::NOT_FOUND => {
                tracing::debug!(why = %String::from_utf8_lossy(&body), "cannot remove the server's lease");
            }
            Ok(_) => {}
            Err(status) => tracing::debug!(why = status.message, "cannot remove the server's lease"),
        }
    }
}

/// The resource version of an answer.
fn version(answer: &[u8]) -> Option<&str> {
    let mut scan = json::Scan::new(answer);
    for wanted in ["metadata", "resourceVersion"] {
        scan.open(b'{')?;
        while scan.field()?? != wanted.as_bytes() {
            scan.skip()?;
        }
    }
    str::from_utf8(scan.text()?).ok()
}

/// Removes the leases of servers that are gone.
async fn collect_expired(registry: &Registry) {
    let Some(leases) = registry.catalog.resource(GROUP, "v1", "leases") else { return };
    let Some(own) = InternalWriter::new(registry, GROUP, "v1", "leases", NAMESPACE) else { return };
    let now = registry.clock.now_seconds();
    for lease in leases.within(NAMESPACE) {
        if lease.label(COMPONENT_LABEL) == Some(AGENT)
            && is_expired(lease.value(0).get("spec"), now)
            && let Err(status) = own.delete(&lease.name, &lease.uid).await
        {
            tracing::debug!(why = status.message, "cannot remove a lease that has run out");
        }
    }
}

/// A lease that does not say how long it lasts is nobody's.
fn is_expired(spec: &Value, now: i64) -> bool {
    let (Ok((renewed, _)), Some(duration)) =
        (time::parse_micros(spec.str("renewTime")), spec.get("leaseDurationSeconds").as_int())
    else {
        return true;
    };
    renewed.saturating_add(duration) < now
}

/// The name that a server on this host has.
fn name_of(host: &str) -> String {
    let mut text = Vec::new();
    for part in [host, AGENT] {
        text.extend_from_slice(&(part.len() as u16).to_be_bytes());
        text.extend_from_slice(part.as_bytes());
    }
    let hash = ring::digest::digest(&ring::digest::SHA256, &text);
    format!("apiserver-{}", base32(&hash.as_ref()[..16]))
}

/// RFC 4648, without padding, in small letters.
fn base32(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let bit = |at: usize| bytes.get(at / 8).is_some_and(|byte| byte >> (7 - at % 8) & 1 == 1);
    let letter = |start: usize| (start..start + 5).fold(0, |number, at| number << 1 | usize::from(bit(at)));
    (0..bytes.len() * 8).step_by(5).map(|start| char::from(LETTERS[letter(start)])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_kubernetes_gives() {
        assert_eq!(base32(b"foobar"), "mzxw6ytboi");
        assert_eq!(base32(b""), "");
        assert_eq!(name_of("host"), "apiserver-dd6egxogzxmivwqge6rcnj6rwi");
    }

    #[test]
    fn a_lease_runs_out() {
        let spec = object! { "renewTime": "1970-01-01T00:01:40.000000Z", "leaseDurationSeconds": 50 };
        assert!(!is_expired(&spec, 150) && is_expired(&spec, 151));
        assert!(is_expired(&object! { "leaseDurationSeconds": 50 }, 0) && is_expired(&Value::Null, 0));
    }
}
