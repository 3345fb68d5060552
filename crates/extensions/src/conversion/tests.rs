//! A definition's webhook over TLS, as the catalog asks it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rkube_catalog::Converter as _;
use rkube_kinds::custom::Definition;
use rkube_machinery::decode::base64;
use rkube_machinery::host::{Clock, Entropy};
use rkube_machinery::{Value, json};
use rkube_store::{Change, Expect, Memory, Store, Write};

use super::*;
use crate::webhook::Address;
use crate::webhook::test_server::{Answer, Reply, TestServer, reply};

struct Counting(AtomicUsize);

impl Entropy for Counting {
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill(self.0.fetch_add(1, Ordering::SeqCst) as u8 | 0xf0);
    }
}

struct Nowhere;

impl Resolver for Nowhere {
    fn resolve(&self, _: &str, name: &str, _: u16) -> Result<Vec<Address>, String> {
        Err(format!("no endpoints available for service \"{name}\""))
    }
}

fn definition(conversion: &str) -> Value {
    let version = |name: &str, field: &str, storage: bool| {
        format!(
            r#"{{"name":"{name}","served":true,"storage":{storage},"schema":{{"openAPIV3Schema":{{"type":"object",
                "properties":{{"{field}":{{"type":"string"}}}}}}}}}}"#
        )
    };
    let text = format!(
        r#"{{"metadata":{{"name":"apps.example.com"}},"spec":{{"group":"example.com","scope":"Namespaced",
            "names":{{"kind":"App"}},"versions":[{},{}],"conversion":{conversion}}},
            "status":{{"acceptedNames":{{"plural":"apps","singular":"app","kind":"App","listKind":"AppList"}}}}}}"#,
        version("v1", "appName", false),
        version("v2", "name", true),
    );
    json::parse(text.as_bytes()).unwrap()
}

fn of_server(server: &TestServer) -> Value {
    let bundle = base64::encode(server.authority.as_bytes());
    definition(&format!(
        r#"{{"strategy":"Webhook","webhook":{{"conversionReviewVersions":["v1"],
            "clientConfig":{{"url":"https://{}/convert","caBundle":"{bundle}"}}}}}}"#,
        server.address
    ))
}

fn converter(definition: &Value, metrics: &Arc<Metrics>) -> WebhookConverter {
    let entropy = Arc::new(Counting(AtomicUsize::new(0)));
    WebhookConverter::of(definition, Arc::new(Nowhere), entropy, metrics.clone()).unwrap()
}

fn object(name: &str) -> Value {
    let text = format!(
        r#"{{"apiVersion":"example.com/v2","kind":"App","metadata":{{"name":"{name}","namespace":"ns","uid":"u"}},"name":"n"}}"#
    );
    json::parse(text.as_bytes()).unwrap()
}

/// Converts as an author would, then spoils the answer.
fn webhook(spoil: impl Fn(&mut Value) + Send + Sync + 'static) -> Answer {
    Arc::new(move |request: &str| {
        let body = request.split_once("\r\n\r\n").unwrap().1;
        let review = json::parse(body.as_bytes()).unwrap();
        let asked = review.get("request");
        let convert = |object: &Value| {
            let mut object = object.clone();
            let name = ["name", "appName"].iter().find_map(|field| object.remove(field)).unwrap();
            let desired = asked.str("desiredAPIVersion");
            object.set(if desired.ends_with("v2") { "name" } else { "appName" }, name);
            object.set("apiVersion", desired);
            object
        };
        let mut response = Value::object();
        response.set("uid", asked.str("uid"));
        response.set("convertedObjects", asked.list("objects").iter().map(convert).collect::<Vec<_>>());
        response.object_mut("result").set("status", "Success");
        spoil(&mut response);
        let mut answer = Value::object();
        answer.set("apiVersion", review.str("apiVersion"));
        answer.set("kind", "ConversionReview");
        answer.set("response", response);
        reply(200, "application/json", &json::to_string(&answer))
    })
}

#[tokio::test]
async fn objects_are_converted_and_counted() {
    let server = TestServer::start(&["127.0.0.1"], webhook(|_| {})).await;
    let definition = of_server(&server);
    let metrics = Arc::new(Metrics::default());
    let converter = converter(&definition, &metrics);
    let kinds = Definition::read(&definition).unwrap();
    let one = kinds.versions[0].clone();
    let objects: Vec<Value> = (0..50).map(|index| object(&format!("a-{index}"))).collect();
    let converted = converter.convert(objects, &one).await.unwrap();
    assert_eq!(converted.len(), 50);
    assert_eq!((converted[7].str("appName"), converted[7].get("metadata").str("name")), ("n", "a-7"));
    let mut out = String::new();
    metrics.render(&mut out);
    assert!(
        out.contains("crd_name=\"apps.example.com\",from_version=\"v2\",succeeded=\"true\",to_version=\"v1\""),
        "{out}"
    );
    let by_name = super::tests::definition(r#"{"strategy":"None"}"#);
    assert!(
        WebhookConverter::of(&by_name, Arc::new(Nowhere), Arc::new(Counting(AtomicUsize::new(0))), metrics).is_none()
    );
}

#[tokio::test]
async fn hostile_webhooks_are_told_apart() {
    let named = "conversion webhook for example.com/v2, Kind=App";
    let flood = "HTTP/1.1 200 OK\r\ncontent-length: 100000000\r\n\r\n";
    let cases: Vec<(Answer, String, &str)> = vec![
        (
            Arc::new(|_| reply(500, "text/plain", "boom")),
            format!("{named} failed: an error on the server (\"boom\") has prevented the request from succeeding"),
            "call",
        ),
        (
            Arc::new(move |_| Reply::Flood(flood.to_owned(), 100_000_000)),
            format!(
                "{named} failed: unexpected error when reading response body. Please retry. Original error: http: response body too large"
            ),
            "call",
        ),
        (
            webhook(|response| drop(response.array_mut("convertedObjects").pop())),
            format!("{named} returned 1 objects, expected 2"),
            "partial_response",
        ),
        (
            webhook(|response| response.set("uid", "another")),
            format!("{named} failed: expected response.uid=\"f0f0f0f0-f0f0-40f0-b1f1-f1f1f1f1f1f1\", got \"another\""),
            "malformed_response",
        ),
        (
            webhook(|response| response.array_mut("convertedObjects").reverse()),
            format!("{named} returned invalid converted object at index 0: must have the same name: a != b"),
            "invalid_converted_object",
        ),
        (
            webhook(|response| {
                response.array_mut("convertedObjects")[1].object_mut("metadata").set("namespace", "kube-system");
            }),
            format!(
                "{named} returned invalid converted object at index 1: must have the same namespace: ns != kube-system"
            ),
            "invalid_converted_object",
        ),
    ];
    for (answer, words, failure) in cases {
        let server = TestServer::start(&["127.0.0.1"], answer).await;
        let definition = of_server(&server);
        let metrics = Arc::new(Metrics::default());
        let converter = converter(&definition, &metrics);
        let kinds = Definition::read(&definition).unwrap();
        let status = converter.convert(vec![object("a"), object("b")], &kinds.versions[0]).await.unwrap_err();
        assert_eq!((status.code, status.reason, status.message), (500, "", words));
        let mut out = String::new();
        metrics.render(&mut out);
        assert!(
            out.contains(&format!("failure_type=\"conversion_webhook_{failure}_failure\",result=\"failure\"")),
            "{out}"
        );
    }
}

#[tokio::test]
async fn what_is_configured_wrongly_is_said_when_it_is_needed() {
    let service = r#""clientConfig":{"service":{"namespace":"ns","name":"hook"}}"#;
    let cases = [
        (format!(r#""conversionReviewVersions":["v9"],{service}"#), "no supported conversion review versions".to_owned()),
        (
            r#""conversionReviewVersions":["v1"],"clientConfig":{"url":"https://a","caBundle":"aGVsbG8="}"#.to_owned(),
            "conversion webhook for example.com/v2, Kind=App failed: unable to load root certificates: unable to parse bytes as PEM block".to_owned(),
        ),
    ];
    for (webhook, words) in cases {
        let definition = definition(&format!(r#"{{"strategy":"Webhook","webhook":{{{webhook}}}}}"#));
        let converter = converter(&definition, &Arc::default());
        let kinds = Definition::read(&definition).unwrap();
        let status = converter.convert(vec![object("a")], &kinds.versions[0]).await.unwrap_err();
        assert_eq!(status.message, words);
    }
}

struct NoTime;

impl Clock for NoTime {
    fn now_micros(&self) -> i64 {
        0
    }
}

#[tokio::test]
async fn the_catalog_reads_and_writes_by_a_webhook() {
    let server = TestServer::start(&["127.0.0.1"], webhook(|_| {})).await;
    let definition = of_server(&server);
    let store: Arc<dyn Store> = Arc::new(Memory::new());
    let catalog = Catalog::start(store.clone(), &[], Arc::new(NoTime)).await.unwrap();
    let entropy = Arc::new(Counting(AtomicUsize::new(0)));
    let converter = Converters::new(&catalog, entropy, Arc::default()).of(&definition);
    catalog.replace(Definition::read(&definition).unwrap(), converter).await.unwrap();
    let one = catalog.find("example.com", "v1", "apps").unwrap();
    for name in ["a", "b"] {
        let mut given = object(name);
        given.remove("name");
        given.set("apiVersion", "example.com/v1");
        given.set("appName", format!("app-{name}"));
        let stored = one.to_storage(given).await.unwrap();
        assert_eq!(stored.str("name"), format!("app-{name}"));
        let key = one.stored().key("ns", name).into();
        let change = Change::Put { value: json::to_string(&stored).into(), lease: None, note: None };
        store.write(Write { key, expect: Expect::Absent, change, guard: None }).await.unwrap();
    }
    let (items, _) = one.readable().await.unwrap().snapshot();
    let names: Vec<String> = items.values().map(|entry| entry.object.tree().str("appName").to_owned()).collect();
    assert_eq!(names, ["app-a", "app-b"]);
    assert_eq!(server.connections.load(Ordering::SeqCst), 1);
}
