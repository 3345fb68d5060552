//! Calls of a webhook that is right, and of many that are not.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use rcgen::CertificateParams;
use rkube_catalog::Catalog;
use rkube_machinery::host::Clock;
use rkube_machinery::{Value, json};
use rkube_store::{Change, Expect, Memory, Store, Write};

use super::test_server::{Reply, TestServer, reply};
use super::*;

const LIMITS: Limits = Limits { timeout: TIMEOUT, response_bytes: 1 << 20 };

struct Nowhere;

impl Resolver for Nowhere {
    fn resolve(&self, _namespace: &str, name: &str, _port: u16) -> Result<Vec<Address>, String> {
        Err(format!("service \"{name}\" not found"))
    }
}

fn client(url: &str, authority: &str) -> Client {
    let config = ClientConfig { target: Target::Url(url.to_owned()), ca_bundle: authority.as_bytes().to_vec() };
    Client::new(&config, Arc::new(Nowhere)).unwrap()
}

async fn post(client: &Client) -> Result<String, String> {
    post_within(client, LIMITS).await
}

async fn post_within(client: &Client, limits: Limits) -> Result<String, String> {
    let answer = client.post(Bytes::from_static(b"{\"a\":1}"), limits).await;
    answer.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).map_err(|error| error.to_string())
}

#[tokio::test]
async fn connections_are_used_again() {
    let server = TestServer::start(&["localhost"], Arc::new(|request| reply(200, "application/json", request))).await;
    let client = client(&format!("https://localhost:{}/convert/", server.address.port()), &server.authority);
    for _ in 0..3 {
        let request = post(&client).await.unwrap();
        let head = format!(
            "POST /convert?timeout=30s HTTP/1.1\r\nhost: localhost:{}\r\naccept: application/json, */*\r\ncontent-type: application/json\r\nuser-agent: kube-apiserver-admission\r\ncontent-length: 7\r\n\r\n{{\"a\":1}}",
            server.address.port()
        );
        assert_eq!(request, head);
    }
    assert_eq!(server.connections.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_connection_that_was_closed_meanwhile_is_made_anew() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let answer = move |_: &str| match count.fetch_add(1, Ordering::SeqCst) {
        1 => Reply::HangUp,
        _ => reply(200, "application/json", "{}"),
    };
    let server = TestServer::start(&["127.0.0.1"], Arc::new(answer)).await;
    let client = client(&format!("https://{}", server.address), &server.authority);
    for _ in 0..2 {
        assert_eq!(post(&client).await.unwrap(), "{}");
    }
    assert_eq!((asked.load(Ordering::SeqCst), server.connections.load(Ordering::SeqCst)), (3, 2));
}

#[tokio::test]
async fn a_certificate_that_is_trusted_itself_serves() {
    let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let server = TestServer::with(params, false, Arc::new(|_| reply(200, "application/json", "{}"))).await;
    let url = format!("https://{}", server.address);
    assert_eq!(post(&client(&url, &server.authority)).await.unwrap(), "{}");
    // One that says that it is an authority, and is another's.
    let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let other = TestServer::with(params, true, Arc::new(|_| reply(200, "application/json", "{}"))).await;
    assert_eq!(post(&client(&format!("https://{}", other.address), &other.authority)).await.unwrap(), "{}");
    let error = post(&client(&url, &other.authority)).await.unwrap_err();
    assert_eq!(
        error,
        format!(
            "Post \"{url}/?timeout=30s\": tls: failed to verify certificate: x509: certificate signed by unknown authority"
        )
    );
}

#[tokio::test]
async fn certificates_are_checked() {
    let params = |names: &[&str]| {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        CertificateParams::new(names).unwrap()
    };
    let mut old = params(&["127.0.0.1"]);
    old.not_before = time::OffsetDateTime::from_unix_timestamp(1_000_000_000).unwrap();
    old.not_after = time::OffsetDateTime::from_unix_timestamp(1_100_000_000).unwrap();
    for (params, issued, words) in [
        (
            params(&["a", "b"]),
            true,
            "x509: cannot validate certificate for 127.0.0.1 because it doesn't contain any IP SANs",
        ),
        (params(&["127.0.0.2"]), true, "x509: certificate is valid for 127.0.0.2, not 127.0.0.1"),
        (params(&["127.0.0.2"]), false, "x509: certificate is valid for 127.0.0.2, not 127.0.0.1"),
        (params(&[]), true, "x509: certificate relies on legacy Common Name field, use SANs instead"),
        (old.clone(), true, "is after 2004-11-09T11:33:20Z"),
        (old, false, "x509: certificate has expired or is not yet valid: current time "),
    ] {
        let server = TestServer::with(params, issued, Arc::new(|_| Reply::Hang)).await;
        let error = post(&client(&format!("https://{}", server.address), &server.authority)).await.unwrap_err();
        assert!(error.contains(": tls: failed to verify certificate: x509: "), "{error}");
        assert!(error.contains(words), "{error}");
    }
    let server = TestServer::start(&["a", "b"], Arc::new(|_| Reply::Hang)).await;
    let error = post(&client(&format!("https://localhost:{}", server.address.port()), &server.authority)).await;
    assert!(error.unwrap_err().ends_with("x509: certificate is valid for a, b, not localhost"));
}

#[tokio::test]
async fn what_cannot_be_reached_or_read_is_said() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let free = listener.local_addr().unwrap();
    drop(listener);
    let server = TestServer::start(&["127.0.0.1"], Arc::new(|_| Reply::HangUp)).await;
    let url = format!("https://{}", server.address);
    let cases = [
        (
            post(&client(&format!("https://{free}/a"), &server.authority)).await,
            format!("Post \"https://{free}/a?timeout=30s\": dial tcp {free}: connect: connection refused"),
        ),
        (
            post(&client("https://nowhere.invalid:1/a", &server.authority)).await,
            "Post \"https://nowhere.invalid:1/a?timeout=30s\": dial tcp: lookup nowhere.invalid: no such host"
                .to_owned(),
        ),
        (post(&client(&url, &server.authority)).await, format!("Post \"{url}/?timeout=30s\": EOF")),
    ];
    for (outcome, words) in cases {
        assert_eq!(outcome.unwrap_err(), words);
    }
    let config = |target, ca_bundle: &[u8]| ClientConfig { target, ca_bundle: ca_bundle.to_vec() };
    let wrong = Client::new(&config(Target::Url(url), b"no PEM"), Arc::new(Nowhere)).err().unwrap();
    assert_eq!(wrong.to_string(), "unable to load root certificates: unable to parse bytes as PEM block");
    let (namespace, name) = ("ns".to_owned(), "hook".to_owned());
    let target = Target::Service { namespace, name, path: "/convert".to_owned(), port: 8443 };
    let lost = Client::new(&config(target, server.authority.as_bytes()), Arc::new(Nowhere)).unwrap();
    assert_eq!(
        post(&lost).await.unwrap_err(),
        "Post \"https://hook.ns.svc:8443/convert?timeout=30s\": service \"hook\" not found"
    );
}

#[tokio::test]
async fn bad_answers_are_bounded() {
    let flood = |head: &str, bytes| {
        let head = head.to_owned();
        let server = Arc::new(move |_: &str| Reply::Flood(head.clone(), bytes));
        async move { TestServer::start(&["127.0.0.1"], server).await }
    };
    let too_large =
        "unexpected error when reading response body. Please retry. Original error: http: response body too large";
    let declared = flood("HTTP/1.1 200 OK\r\ncontent-length: 100000000\r\n\r\n", 100_000_000).await;
    let endless = flood("HTTP/1.1 200 OK\r\n\r\n", 100_000_000).await;
    let short = flood("HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n{}", 0).await;
    let broken = "unexpected error when reading response body. Please retry. Original error: EOF";
    for (server, words) in [(&declared, too_large), (&endless, too_large), (&short, broken)] {
        let client = client(&format!("https://{}", server.address), &server.authority);
        assert_eq!(post(&client).await.unwrap_err(), words);
    }
    let garbage = flood("nonsense\r\n\r\n", 0).await;
    let client = client(&format!("https://{}", garbage.address), &garbage.authority);
    assert!(post(&client).await.unwrap_err().contains("malformed HTTP response"));
}

#[tokio::test]
async fn answers_of_errors_and_of_nothing_are_said() {
    for (answer, words) in [
        ((500, "text/plain", "boom"), "an error on the server (\"boom\") has prevented the request from succeeding"),
        ((200, "application/json", ""), "0-length response with status code: 200 and content type: application/json"),
        ((404, "text/html", "<p>"), "the server could not find the requested resource"),
    ] {
        let (code, content_type, body) = answer;
        let server = TestServer::start(&["127.0.0.1"], Arc::new(move |_| reply(code, content_type, body))).await;
        let client = client(&format!("https://{}", server.address), &server.authority);
        assert_eq!(post(&client).await.unwrap_err(), words);
    }
}

#[tokio::test]
async fn a_webhook_that_hangs_is_given_up() {
    let server = TestServer::start(&["127.0.0.1"], Arc::new(|_| Reply::Hang)).await;
    let url = format!("https://{}", server.address);
    let client = client(&url, &server.authority);
    let limits = Limits { timeout: Duration::from_secs(1), ..LIMITS };
    assert_eq!(
        post_within(&client, limits).await.unwrap_err(),
        format!("Post \"{url}/?timeout=1s\": context deadline exceeded")
    );
}

struct NoTime;

impl Clock for NoTime {
    fn now_micros(&self) -> i64 {
        0
    }
}

/// A catalog with these objects: where they are, and what they are.
async fn catalog(objects: &[(&str, &str)]) -> Arc<Catalog> {
    let store: Arc<dyn Store> = Arc::new(Memory::new());
    for (key, object) in objects {
        let change = Change::Put { value: Bytes::copy_from_slice(object.as_bytes()), lease: None, note: None };
        let key = format!("/registry/{key}").into();
        store.write(Write { key, expect: Expect::Anything, change, guard: None }).await.unwrap();
    }
    let kinds = [("", "services"), ("discovery.k8s.io", "endpointslices"), ("", "endpoints")];
    let kinds = kinds.map(|(group, resource)| rkube_kinds::find(group, "v1", resource).unwrap().clone());
    let keys: Vec<String> = kinds.iter().map(|kind| kind.storage_prefix.to_string()).collect();
    assert_eq!(keys, ["services/specs", "endpointslices", "services/endpoints"]);
    Catalog::start(store, &kinds, Arc::new(NoTime)).await.unwrap()
}

const SERVICE: &str = r#"{"kind":"Service","apiVersion":"v1","metadata":{"name":"hook","namespace":"ns","uid":"u"},
    "spec":{"type":"ClusterIP","ipFamilies":["IPv4"],"ports":[{"name":"web","port":443,"targetPort":"https"},{"port":80}]}}"#;

fn slice(family: &str, endpoints: &str) -> String {
    format!(
        r#"{{"kind":"EndpointSlice","apiVersion":"discovery.k8s.io/v1","metadata":{{"name":"s","namespace":"ns","uid":"u",
            "labels":{{"kubernetes.io/service-name":"hook"}}}},"addressType":"{family}","endpoints":[{endpoints}],
            "ports":[{{"name":"other","port":1}},{{"name":"web","port":8443}}]}}"#
    )
}

#[tokio::test]
async fn services_lead_to_ready_endpoints() {
    let ready = r#"{"addresses":["10.0.0.1"]},{"addresses":["10.0.0.2"],"conditions":{"ready":true}},
                   {"addresses":["10.0.0.3"],"conditions":{"ready":false}}"#;
    let (four, six) = (slice("IPv4", ready), slice("IPv6", r#"{"addresses":["fd00::1"]}"#));
    let nobody = slice("IPv4", r#"{"addresses":["10.0.0.3"],"conditions":{"ready":false}}"#);
    let endpoints = r#"{"kind":"Endpoints","apiVersion":"v1","metadata":{"name":"hook","namespace":"ns","uid":"u"},
        "subsets":[{"addresses":[{"ip":"10.1.0.1"}],"notReadyAddresses":[{"ip":"10.1.0.2"}],
                    "ports":[{"name":"web","port":9443}]}]}"#;
    let external = SERVICE.replace("ClusterIP", "ExternalName");
    let (service, first, second) = ("services/specs/ns/hook", "endpointslices/ns/a", "endpointslices/ns/b");
    let old = "services/endpoints/ns/hook";
    type Case<'a> = (&'a [(&'a str, &'a str)], u16, Result<&'a [&'a str], &'a str>);
    let cases: &[Case<'_>] = &[
        (&[], 443, Err("service \"hook\" not found")),
        (&[(service, &external)], 443, Err("unsupported service type \"ExternalName\"")),
        (&[(service, SERVICE)], 444, Err("no service port 444 found for service \"hook\"")),
        (&[(service, SERVICE)], 443, Err("no endpoints available for service \"hook\"")),
        (&[(service, SERVICE), (first, &four)], 80, Err("no endpoints available for service \"hook\"")),
        (&[(service, SERVICE), (first, &nobody)], 443, Err("no endpoints available for service \"hook\"")),
        (
            &[(service, SERVICE), (first, &nobody), (old, endpoints)],
            443,
            Err("no endpoints available for service \"hook\""),
        ),
        (&[(service, SERVICE), (first, &six), (second, &four)], 443, Ok(&["10.0.0.1:8443", "10.0.0.2:8443"])),
        (&[(service, SERVICE), (first, &six), (second, &nobody)], 443, Ok(&["fd00::1:8443"])),
        (&[(service, SERVICE), (old, endpoints)], 443, Ok(&["10.1.0.1:9443"])),
    ];
    for (objects, port, expected) in cases {
        let catalog = catalog(objects).await;
        let resolver = ServiceResolver::new(&catalog);
        let found = resolver.resolve("ns", "hook", *port);
        let shown = found.map(|found| found.iter().map(|at| format!("{}:{}", at.host, at.port)).collect::<Vec<_>>());
        match expected {
            Ok(addresses) => assert_eq!(shown.unwrap(), *addresses),
            Err(words) => assert_eq!(shown.unwrap_err(), *words),
        }
    }
    let catalog = catalog(&[(service, SERVICE), (second, &four)]).await;
    let resolver = ServiceResolver::new(&catalog);
    let mut turns = [(); 4].map(|()| resolver.resolve("ns", "hook", 443).unwrap().remove(0).host);
    assert_ne!(turns[0], turns[1], "each in turn");
    turns.sort();
    assert_eq!(turns, ["10.0.0.1", "10.0.0.1", "10.0.0.2", "10.0.0.2"]);
}

#[tokio::test]
async fn a_service_is_called_at_its_endpoint_under_its_own_name() {
    let server = TestServer::start(&["hook.ns.svc"], Arc::new(|_| reply(200, "application/json", "{}"))).await;
    let ready = slice("IPv4", r#"{"addresses":["127.0.0.1"]}"#).replace("8443", &server.address.port().to_string());
    let catalog = catalog(&[("services/specs/ns/hook", SERVICE), ("endpointslices/ns/a", &ready)]).await;
    let bundle = rkube_machinery::decode::base64::encode(server.authority.as_bytes());
    let config = format!(r#"{{"service":{{"namespace":"ns","name":"hook","path":"/x"}},"caBundle":"{bundle}"}}"#);
    let config: Value = json::parse(config.as_bytes()).unwrap();
    let client = Client::new(&ClientConfig::read(&config), Arc::new(ServiceResolver::new(&catalog))).unwrap();
    assert_eq!(post(&client).await.unwrap(), "{}");
}
