//! Lists of a past revision, on a whole server whose clock is told what time it is.

use bytes::Bytes;
use http::{Method, StatusCode};
use rkube_machinery::{Value, json, object};

use super::*;
use crate::server::ApiServer;
use crate::test_server::{ask, server};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn get(server: &ApiServer, query: &str) -> (StatusCode, Value) {
    let (code, body) = ask(server, Method::GET, &format!("{MAPS}?{query}"), "", Bytes::new()).await.unwrap();
    (code, json::parse(&body).unwrap())
}

async fn make(server: &ApiServer, name: &str) {
    let map = object! { "metadata": object! { "name": name, "labels": object! { "name": name } } };
    let body = json::to_string(&map).into();
    let (code, body) = ask(server, Method::POST, MAPS, "application/json", body).await.unwrap();
    assert_eq!(code, StatusCode::CREATED, "{body:?}");
}

fn names(list: &Value) -> Vec<&str> {
    list.list("items").iter().map(|item| item.get("metadata").str("name")).collect()
}

#[tokio::test]
async fn what_is_older_than_five_minutes_cannot_be_listed() {
    let server = server().await;
    for name in ["a", "b", "c", "d"] {
        make(&server, name).await;
    }
    let (_, page) = get(&server, "limit=1").await;
    let (token, version) = (page.get("metadata").str("continue"), page.get("metadata").str("resourceVersion"));
    let (second, exact) =
        (format!("limit=1&continue={token}"), format!("limit=4&resourceVersion={version}&resourceVersionMatch=Exact"));
    // The revision is still the newest, so it is not old, however late it is.
    server.road.catalog.cache().mark(10);
    server.road.catalog.cache().mark(1_000);
    assert_eq!(get(&server, &second).await.0, StatusCode::OK);

    make(&server, "e").await;
    server.road.catalog.cache().mark(1_010);
    server.road.catalog.cache().mark(1_309);
    let (code, page) = get(&server, &second).await;
    assert_eq!((code, names(&page)), (StatusCode::OK, vec!["b"]));
    assert_eq!(names(&get(&server, &exact).await.1), ["a", "b", "c", "d"]);

    server.road.catalog.cache().mark(1_310);
    let (code, status) = get(&server, &exact).await;
    assert_eq!((code, status.str("reason"), status.str("message")), (StatusCode::GONE, "Expired", TOO_OLD));
    let (code, status) = get(&server, &second).await;
    assert_eq!((code, status.str("reason"), status.str("message")), (StatusCode::GONE, "Expired", TOKEN_TOO_OLD));
    let (code, rest) = get(&server, &format!("continue={}", status.get("metadata").str("continue"))).await;
    assert_eq!((code, names(&rest)), (StatusCode::OK, vec!["b", "c", "d", "e"]));
    assert_ne!(rest.get("metadata").str("resourceVersion"), version);
}

#[tokio::test]
async fn pages_end_where_they_should_whatever_is_selected() {
    let server = server().await;
    for name in ["a", "b", "c", "d", "e"] {
        make(&server, name).await;
    }
    let table: &[(&str, &[&str], Option<i64>)] = &[
        ("limit=2", &["a", "b"], Some(3)),
        ("limit=4", &["a", "b", "c", "d"], Some(1)),
        ("limit=5", &["a", "b", "c", "d", "e"], None),
        ("limit=9223372036854775807", &["a", "b", "c", "d", "e"], None),
        ("limit=1&fieldSelector=metadata.name%3Dc", &["c"], None),
        ("fieldSelector=metadata.name%3Dc", &["c"], None),
        ("fieldSelector=metadata.name%3Dx", &[], None),
        ("limit=2&labelSelector=name+notin+(a,c,e)", &["b", "d"], None),
        ("limit=1&labelSelector=name+notin+(a,c,e)", &["b"], None),
    ];
    for (query, want, remaining) in table {
        let (_, list) = get(&server, query).await;
        let metadata = list.get("metadata");
        assert_eq!(names(&list), *want, "{query}");
        assert_eq!(metadata.get("remainingItemCount").as_int(), *remaining, "{query}");
        let follows = remaining.is_some() || *query == "limit=1&labelSelector=name+notin+(a,c,e)";
        assert_eq!(!metadata.str("continue").is_empty(), follows, "{query}");
    }
    // A selector that costs more than a step: one object at a time is looked at.
    let many: Vec<String> = (0..9_000).map(|index| format!("n{index}")).collect();
    let query = format!("labelSelector=name+notin+({})", many.join(","));
    for query in [query.clone(), format!("limit=9&{query}")] {
        assert_eq!(names(&get(&server, &query).await.1), ["a", "b", "c", "d", "e"]);
    }
}
