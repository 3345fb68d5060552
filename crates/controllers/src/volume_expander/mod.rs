//! Says of claims that want more than they have who is to see to it: the resizer of their driver. No plugin that could do
//! it here is left in Kubernetes. Watches claims and volumes; writes events.

use std::sync::Arc;

use rkube_operator::events::Recorder;
use rkube_operator::{Change, Key, Outcome, Queue};

use crate::Context;
use crate::volumes::{self, Claim, ClaimPhase, PRE_RESIZE_CAPACITY, Volume};

const NAME: &str = "persistentvolume-expander-controller";
/// What events say who it is, as upstream.
const COMPONENT: &str = "volume_expand";
const WORKERS: usize = 2;

pub async fn run(context: Context) {
    let Context { client, caches, clock, .. } = context;
    let queue: Queue<Key> = Queue::new();
    let adding = queue.clone();
    let claims = volumes::claims(&caches).on_change(move |change| {
        if is_concerned(change) {
            adding.add(change.key.clone());
        }
    });
    let volumes = volumes::volumes(&caches);
    claims.synced().await;
    volumes.synced().await;
    let events = Recorder::start(client, clock, COMPONENT);
    let known = Arc::new((claims, volumes, events));
    rkube_operator::run(NAME, queue, WORKERS, move |key: Key| {
        let known = known.clone();
        async move {
            let (claims, volumes, events) = &*known;
            if let Some(claim) = claims.get(&key.namespace, &key.name)
                && let Some(volume) = volumes.get("", &claim.volume)
                && is_to_grow(&claim, &volume)
            {
                let message = "waiting for an external controller to expand this PVC";
                events.normal(&claim.reference(), "ExternalExpanding", message);
            }
            Ok::<_, std::convert::Infallible>(Outcome::Unchanged)
        }
    })
    .await;
}

/// Whether a claim came, wants more, or has more.
fn is_concerned(change: &Change<'_, Claim>) -> bool {
    change.new.is_some_and(|new| {
        new.phase == ClaimPhase::Bound
            && change.old.is_none_or(|old| new.request > old.request || new.capacity > old.capacity)
    })
}

fn is_to_grow(claim: &Claim, volume: &Volume) -> bool {
    let is_bound = volume.claimant.as_ref().is_some_and(|claimant| claimant.uid == claim.item.uid);
    is_bound && (claim.request > claim.capacity || volume.annotations.get(PRE_RESIZE_CAPACITY).is_some())
}

#[cfg(test)]
mod tests {
    use rkube_operator::Item;
    use serde_json::{Value, json};

    use super::*;

    fn item(uid: &str, object: &Value) -> Item {
        let json = object.to_string().into();
        Item { namespace: "ns".into(), name: "c".into(), uid: uid.into(), revision: 1, json }
    }

    #[test]
    fn claims_grow_that_want_more_than_they_have() {
        let claim = |request: &str, capacity: &str| {
            let object = json!({
                "metadata": {},
                "spec": { "resources": { "requests": { "storage": request } }, "volumeName": "v" },
                "status": { "phase": "Bound", "capacity": { "storage": capacity } },
            });
            Arc::new(Claim::read(&item("u", &object)).unwrap())
        };
        let volume = |uid: &str| {
            let object =
                json!({ "metadata": {}, "spec": { "claimRef": { "namespace": "ns", "name": "c", "uid": uid } } });
            Volume::read(&item("v", &object)).unwrap()
        };
        assert!(is_to_grow(&claim("2Gi", "1Gi"), &volume("u")));
        assert!(!is_to_grow(&claim("1Gi", "1Gi"), &volume("u")));
        assert!(!is_to_grow(&claim("2Gi", "1Gi"), &volume("another")));
        let (old, new) = (claim("1Gi", "1Gi"), claim("2Gi", "1Gi"));
        let key = new.key();
        let change = |old, new| Change { key: &key, old, new, listed: false };
        assert!(is_concerned(&change(None, Some(&new))));
        assert!(is_concerned(&change(Some(&old), Some(&new))));
        assert!(!is_concerned(&change(Some(&new), Some(&old))), "less is nothing to do");
        assert!(!is_concerned(&change(Some(&new), None)));
    }
}
