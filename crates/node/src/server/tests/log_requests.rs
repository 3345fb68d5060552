//! Logs over the wire.

use std::io::Write as _;

use futures::StreamExt as _;
use http_body_util::{BodyExt as _, Full};
use tokio_tungstenite::tungstenite::Message;

use super::{PATIENCE, TestServer, request};

fn write(server: &TestServer, number: u32, text: &str) {
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(server.log()).unwrap();
    file.write_all(format!("2020-01-01T00:00:{number:02}.000000000Z stdout F {text}\n").as_bytes()).unwrap();
}

#[tokio::test]
async fn a_log_is_read() {
    let server = TestServer::start().await;
    write(&server, 1, "one");
    write(&server, 2, "two");
    assert_eq!(server.get("/containerLogs/default/p/c").await, (200, "one\ntwo\n".to_owned()));
    assert_eq!(server.get("/containerLogs/default/p/c?tailLines=1").await, (200, "two\n".to_owned()));
    let stamped = "2020-01-01T00:00:02.000000000Z two\n";
    let path = "/containerLogs/default/p/c?timestamps=true&sinceTime=2020-01-01T00:00:02Z";
    assert_eq!(server.get(path).await, (200, stamped.to_owned()));
}

#[tokio::test]
async fn why_there_is_no_log() {
    let server = TestServer::start().await;
    let answers = [
        ("/containerLogs/default/q/c", 404, r#"pod "q" does not exist"#),
        ("/containerLogs/default/p/x", 404, r#"container "x" not found in pod "p""#),
        ("/containerLogs/default/p/late", 400, r#"container "late" in pod "p" is waiting to start: ContainerCreating"#),
        ("/containerLogs/default/p/c?previous=1", 400, r#"previous terminated container "c" in pod "p" not found"#),
        ("/containerLogs/default/p/c?tailLines=-1", 422, r#"{"message": "Invalid request."}"#),
        ("/containerLogs/default/p/c?tailLines=x", 400, r#"{"message": "Unable to decode query."}"#),
    ];
    for (path, status, text) in answers {
        assert_eq!(server.get(path).await, (status, text.to_owned()));
    }
    let (status, text) = server.get("/containerLogs/default/p/c").await;
    assert_eq!(status, 200);
    assert!(
        text.starts_with("failed to try resolving symlinks in path") && text.ends_with("no such file or directory"),
        "{text}"
    );
}

#[tokio::test]
async fn a_log_is_followed_over_its_rotation_to_the_end() {
    let server = TestServer::start().await;
    write(&server, 1, "one");
    let follow = request("GET", "/containerLogs/default/p/c?follow=true").header("authorization", "Bearer admin");
    let mut body = server.send(follow.body(Full::default()).unwrap()).await.into_body();
    let mut next = async || {
        let frame = tokio::time::timeout(PATIENCE, body.frame()).await.expect("there is more");
        frame.map(|frame| String::from_utf8(frame.unwrap().into_data().unwrap().to_vec()).unwrap())
    };
    assert_eq!(next().await.as_deref(), Some("one\n"));
    write(&server, 2, "two");
    assert_eq!(next().await.as_deref(), Some("two\n"));
    write(&server, 3, "three");
    std::fs::rename(server.log(), server.directory.path().join("0.log.20200101")).unwrap();
    write(&server, 4, "four");
    let mut seen = String::new();
    while seen.len() < "three\nfour\n".len() {
        seen.push_str(&next().await.unwrap());
    }
    assert_eq!(seen, "three\nfour\n");
    write(&server, 5, "last");
    server.runtime.stop("p-c");
    assert_eq!(next().await.as_deref(), Some("last\n"));
    assert_eq!(next().await, None);
}

#[tokio::test]
async fn a_log_over_a_websocket() {
    let server = TestServer::start().await;
    write(&server, 1, "one");
    write(&server, 2, "two");
    let mut socket = server.websocket("/containerLogs/default/p/c", "binary.k8s.io").await;
    let mut log = Vec::new();
    while let Some(Ok(message)) = socket.next().await {
        if let Message::Binary(bytes) = message {
            log.extend_from_slice(&bytes);
        }
    }
    assert_eq!(log, b"one\ntwo\n");
    let mut socket = server.websocket("/containerLogs/default/p/c?tailLines=1", "base64.binary.k8s.io").await;
    assert_eq!(socket.next().await.unwrap().unwrap(), Message::Text("".into()));
    assert_eq!(socket.next().await.unwrap().unwrap(), Message::Text("dHdvCg==".into()));
}
