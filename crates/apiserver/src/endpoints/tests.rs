//! Servers come and go, and the endpoints follow.

use std::sync::Arc;

use rkube_store::{Memory, Store};

use super::*;
use crate::test_server;

fn member(address: &str, port: u16) -> Member {
    Member { port, address: address.parse().unwrap() }
}

fn created(step: Step) -> Value {
    if let Step::Create(object) = step { object } else { panic!("{step:?}") }
}

#[test]
fn addresses_of_one_port_are_one_subset() {
    let members = [member("192.0.2.1", 6443), member("192.0.2.2", 6443), member("192.0.2.1", 7000)];
    let made = created(plan::endpoints(&members, None));
    let shown = json::to_string(made.get("subsets"));
    let subset = |addresses: &str, port: u16| {
        format!(r#"{{"addresses":[{addresses}],"ports":[{{"name":"https","port":{port},"protocol":"TCP"}}]}}"#)
    };
    let both = r#"{"ip":"192.0.2.1"},{"ip":"192.0.2.2"}"#;
    assert_eq!(shown, format!("[{},{}]", subset(both, 6443), subset(r#"{"ip":"192.0.2.1"}"#, 7000)));
    assert_eq!(plan::endpoints(&members, Some(&made)), Step::Nothing);
    let slice = created(plan::slice(&members, None));
    assert_eq!((slice.list("endpoints").len(), slice.str("addressType")), (2, "IPv4"));
    assert_eq!(plan::slice(&members, Some(&slice)), Step::Nothing);
}

#[test]
fn what_is_wrong_is_put_right() {
    let members = [member("192.0.2.1", 6443)];
    let mut endpoints = created(plan::endpoints(&members, None));
    let slice = created(plan::slice(&members, None));
    assert!(matches!(plan::endpoints(&[], Some(&endpoints)), Step::Update(_)));
    assert!(matches!(plan::slice(&[], Some(&slice)), Step::Update(_)));
    assert!(matches!(plan::slice(&[member("fd00::1", 6443)], Some(&slice)), Step::Replace(_)));
    endpoints.object_mut("metadata").set("labels", rkube_machinery::object! { "mine": "x" });
    let Step::Update(labelled) = plan::endpoints(&members, Some(&endpoints)) else { panic!("nothing is done") };
    assert_eq!(labelled.get("metadata").get("labels").str("mine"), "x");
}

#[tokio::test]
async fn who_is_gone_is_taken_out() {
    let store: Arc<dyn Store> = Arc::new(Memory::new());
    let mut servers =
        [Membership::new(store.clone(), member("192.0.2.1", 1)), Membership::new(store, member("192.0.2.2", 1))];
    for server in &mut servers {
        server.renew().await.unwrap();
        server.renew().await.unwrap();
    }
    let [first, second] = &mut servers;
    assert_eq!(first.all().await.unwrap(), [member("192.0.2.1", 1), member("192.0.2.2", 1)]);
    second.end().await.unwrap();
    let left = first.all().await.unwrap();
    assert_eq!(left, [member("192.0.2.1", 1)]);
    assert!(first.is_among(&left) && !second.is_among(&left));
    second.renew().await.unwrap();
    first.forget_others().await.unwrap();
    assert_eq!(first.all().await.unwrap(), left);
    // Whose key was taken away makes it anew.
    second.renew().await.unwrap();
    assert_eq!(first.all().await.unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_nobody_renews_runs_out() {
    let store: Arc<dyn Store> = Arc::new(Memory::new());
    let mut server = Membership::new(store.clone(), member("192.0.2.1", 1));
    server.renew().await.unwrap();
    for _ in 0..5 {
        tokio::time::sleep(INTERVAL).await;
        server.renew().await.unwrap();
    }
    assert_eq!(server.all().await.unwrap().len(), 1);
    tokio::time::sleep(INTERVAL * 3).await;
    assert_eq!(server.all().await.unwrap().len(), 0);
}

#[tokio::test]
async fn a_server_publishes_itself_and_leaves() {
    let server = test_server::server().await;
    let client = InternalClient::new(&server.road, server.road.registry.itself.clone());
    let mut membership = Membership::new(server.road.registry.store.clone(), member("192.0.2.1", 6443));
    settle(&client, &mut membership).await.unwrap();
    settle(&client, &mut membership).await.unwrap();
    let find = async |collection| find(&client, collection).await.unwrap().flatten().unwrap();
    let endpoints = find(ENDPOINTS).await;
    assert_eq!(endpoints.list("subsets")[0].list("addresses")[0].str("ip"), "192.0.2.1");
    assert_eq!(find(SLICES).await.list("endpoints").len(), 1);
    leave(&client, &mut membership).await.unwrap();
    assert!(find(ENDPOINTS).await.list("subsets").is_empty());
    assert!(find(SLICES).await.list("endpoints").is_empty());
    // The next start has another port.
    let mut next = Membership::new(server.road.registry.store.clone(), member("192.0.2.1", 7000));
    settle(&client, &mut next).await.unwrap();
    assert_eq!(find(SLICES).await.list("ports")[0].int("port"), 7000);
}

#[tokio::test]
async fn loopback_addresses_are_refused() {
    let server = test_server::server().await;
    let client = InternalClient::new(&server.road, server.road.registry.itself.clone());
    let mut membership = Membership::new(server.road.registry.store.clone(), member("127.0.0.1", 6443));
    let why = settle(&client, &mut membership).await.unwrap_err().message;
    assert!(why.contains("may not be in the loopback range (127.0.0.0/8, ::1/128)"), "{why}");
}
