//! Who gets an answer, and which.

use http_body_util::Full;

use super::{TestServer, request};

#[tokio::test]
async fn only_who_is_known_and_may() {
    let server = TestServer::start().await;
    let answer = server.send(request("GET", "/pods").body(Full::default()).unwrap()).await;
    assert_eq!(answer.status(), 401);
    assert_eq!(answer.headers()["connection"], "close");
    assert_eq!(server.get_as("nobody", "/pods").await, (401, "Unauthorized".to_owned()));
    assert_eq!(server.get_as("broken", "/pods").await, (401, "Unauthorized".to_owned()));
    assert_eq!(server.get_as("reader", "/pods").await.0, 200, "by nodes/pods");
    let forbidden = "Forbidden (user=reader, verb=get, resource=nodes, subresource(s)=[healthz proxy])\n";
    assert_eq!(server.get_as("reader", "/healthz").await, (403, forbidden.to_owned()));
    let forbidden = "Forbidden (user=reader, verb=get, resource=nodes, subresource(s)=[proxy])\n";
    assert_eq!(server.get_as("reader", "/containerLogs/default/p/c").await, (403, forbidden.to_owned()));
    let lost = "Authorization error (user=lost, verb=get, resource=nodes, subresource=stats)";
    assert_eq!(server.get_as("lost", "/stats/summary").await, (500, lost.to_owned()));
}

#[tokio::test]
async fn small_answers() {
    let server = TestServer::start().await;
    assert_eq!(server.get("/healthz").await, (200, "ok".to_owned()));
    assert_eq!(server.get("/nowhere").await, (404, "404: Page Not Found".to_owned()));
    assert_eq!(server.get("/run/default/p/c").await, (405, "405: Method Not Allowed".to_owned()));
    assert_eq!(server.get("/logs/").await, (405, "logs endpoint is disabled.\n".to_owned()));
    assert_eq!(server.get("/configz").await, (200, r#"{"kubeletconfig":{}}"#.to_owned()));
    let (status, pods) = server.get("/pods").await;
    assert_eq!(status, 200);
    assert!(pods.starts_with(r#"{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[{"metadata":{"name":"p""#));
    let (_, running) = server.get("/runningpods/").await;
    let pod = r#"{"metadata":{"name":"p","namespace":"default","uid":"uid-1"},"spec":{"containers":[{"name":"c","image":"image","resources":{}}]},"status":{}}"#;
    assert!(running.contains(pod), "{running}");
    let run = request("POST", "/run/default/p/c?cmd=echo+a+b").header("authorization", "Bearer admin");
    let answer = server.send(run.body(Full::default()).unwrap()).await;
    assert_eq!(answer.status(), 200);
}
