//! Leases. In real time, with the shortest times that every backend takes.

use std::time::Duration;

use super::Place;
use super::support::eventually;
use crate::contract::{Error, Expect};

const TTL_SECONDS: u64 = 2;

pub(crate) async fn expire(place: Place) {
    let (seen, _watch) = place.watch("", None).await;
    let lease = place.store.grant_lease(TTL_SECONDS).await.unwrap();
    let other = place.store.grant_lease(3600).await.unwrap();
    assert_ne!(lease, other);
    place.put_leased("a", lease).await.unwrap();
    place.put_leased("b", lease).await.unwrap();
    place.put_leased("c", other).await.unwrap();
    place.put("d", Expect::Absent, "1").await.unwrap();
    let found = place.store.get(&place.key("a")).await.unwrap().0.unwrap();
    assert_eq!(found.lease, Some(lease));
    eventually("two are deleted", async || place.contents(None).await.len() == 2).await;
    eventually("the watch hears", async || seen.events().len() == 6).await;
    seen.check_order();
    let mut ends = seen.story(&place).split_off(4);
    ends.sort();
    assert_eq!(ends, ["-a", "-b"]);
    assert!(matches!(place.store.renew_lease(lease).await, Err(Error::NoLease(id)) if id == lease));
    place.store.revoke_lease(other).await.unwrap();
}

pub(crate) async fn live_while_renewed(place: Place) {
    let lease = place.store.grant_lease(TTL_SECONDS).await.unwrap();
    place.put_leased("a", lease).await.unwrap();
    for _ in 0..8 {
        tokio::time::sleep(Duration::from_millis(500)).await;
        place.store.renew_lease(lease).await.unwrap();
        assert!(place.value("a").await.is_some(), "it was renewed in time");
    }
    eventually("it ends when nobody renews", async || place.value("a").await.is_none()).await;
}

pub(crate) async fn are_revoked(place: Place) {
    let lease = place.store.grant_lease(3600).await.unwrap();
    for index in 0..5 {
        place.put_leased(&format!("k{index}"), lease).await.unwrap();
    }
    let before = place.store.revision().await.unwrap();
    place.store.revoke_lease(lease).await.unwrap();
    assert_eq!(place.contents(None).await, []);
    assert!(place.store.revision().await.unwrap() > before);
    assert!(matches!(place.store.revoke_lease(lease).await, Err(Error::NoLease(id)) if id == lease));
    assert!(matches!(place.put_leased("x", lease).await, Err(Error::NoLease(id)) if id == lease));
    assert_eq!(place.value("x").await, None);
}

pub(crate) async fn must_exist(place: Place) {
    let missing = 987_654_321;
    assert!(matches!(place.put_leased("a", missing).await, Err(Error::NoLease(id)) if id == missing));
    assert!(matches!(place.store.renew_lease(missing).await, Err(Error::NoLease(id)) if id == missing));
    assert!(matches!(place.store.revoke_lease(missing).await, Err(Error::NoLease(id)) if id == missing));
}

pub(crate) async fn let_go_of_rewritten_keys(place: Place) {
    let lease = place.store.grant_lease(3600).await.unwrap();
    let other = place.store.grant_lease(3600).await.unwrap();
    for name in ["kept", "moved", "deleted", "again"] {
        place.put_leased(name, lease).await.unwrap();
    }
    place.put("kept", Expect::Anything, "1").await.unwrap();
    place.put_leased("moved", other).await.unwrap();
    place.delete("deleted", Expect::Anything).await.unwrap();
    place.put("deleted", Expect::Anything, "1").await.unwrap();
    place.store.revoke_lease(lease).await.unwrap();
    let names: Vec<_> = place.contents(None).await.into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["deleted", "kept", "moved"]);
    place.store.revoke_lease(other).await.unwrap();
}
