//! Forwarded ports.

use bytes::Bytes;
use futures::{SinkExt as _, StreamExt as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_tungstenite::tungstenite::Message;

use super::TestServer;
use super::commands::SpdyClient;

/// Answers what it was sent, twice, when the other side has no more.
pub(super) async fn twice() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut bytes = Vec::new();
                stream.read_to_end(&mut bytes).await.unwrap();
                stream.write_all(&bytes.repeat(2)).await.unwrap();
            });
        }
    });
    port
}

fn open(client: &mut SpdyClient, first: u32, request: &str, port: u16) {
    let port = port.to_string();
    for (stream, kind) in [(first, "error"), (first + 2, "data")] {
        client.open(stream, &[("streamType", kind), ("port", &port), ("requestID", request)]);
    }
}

#[tokio::test]
async fn connections_side_by_side() {
    let server = TestServer::start().await;
    let port = twice().await;
    let mut client = server.spdy("/portForward/default/p", "portforward.k8s.io").await;
    for request in 0..20u32 {
        open(&mut client, 4 * request + 1, &request.to_string(), port);
        client.data(4 * request + 3, format!("hello {request} ").as_bytes(), true);
    }
    client.flush().await;
    let mut seen = std::collections::BTreeMap::<u32, String>::new();
    let mut ended = 0;
    while ended < 40 {
        let (stream, bytes, fin) = client.next().await.unwrap();
        seen.entry(stream).or_default().push_str(std::str::from_utf8(&bytes).unwrap());
        ended += u32::from(fin);
    }
    for request in 0..20 {
        assert_eq!(seen[&(4 * request + 3)], format!("hello {request} hello {request} "));
        assert_eq!(seen[&(4 * request + 1)], "");
    }
}

#[tokio::test]
async fn a_port_that_nobody_listens_on() {
    let server = TestServer::start().await;
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let mut client = server.spdy("/portForward/default/p", "portforward.k8s.io").await;
    open(&mut client, 1, "7", closed);
    client.flush().await;
    let (stream, bytes, _) = client.next().await.unwrap();
    let text = String::from_utf8(bytes).unwrap();
    assert_eq!(stream, 1);
    assert!(text.starts_with(&format!("error forwarding port {closed} to pod p, uid : failed to connect")), "{text}");
    open(&mut client, 5, "8", twice().await);
    client.data(7, b"x", true);
    client.flush().await;
    assert_eq!(client.next().await.unwrap(), (7, b"xx".to_vec(), false), "others still are");
}

#[tokio::test]
async fn old_clients_name_no_request() {
    let server = TestServer::start().await;
    let port = twice().await.to_string();
    let mut client = server.spdy("/portForward/default/p/uid-1", "portforward.k8s.io").await;
    client.open(1, &[("streamtype", "error"), ("port", &port)]);
    client.open(3, &[("streamtype", "data"), ("port", &port)]);
    client.open(5, &[("streamtype", "data"), ("port", "0")]);
    client.data(3, b"x", true);
    client.flush().await;
    assert_eq!(client.next().await.unwrap(), (3, b"xx".to_vec(), false));
}

#[tokio::test]
async fn a_spdy_connection_in_a_websocket() {
    let server = TestServer::start().await;
    let port = twice().await;
    let mut socket = server.websocket("/portForward/default/p", "SPDY/3.1+portforward.k8s.io").await;
    let (near, far) = tokio::io::duplex(1 << 16);
    let (mut reader, mut writer) = tokio::io::split(far);
    tokio::spawn(async move {
        let mut buffer = [0; 1000];
        loop {
            tokio::select! {
                read = reader.read(&mut buffer) => {
                    let count = read.unwrap();
                    let message = Message::Binary(Bytes::copy_from_slice(&buffer[..count]));
                    if count == 0 || socket.send(message).await.is_err() {
                        return;
                    }
                }
                message = socket.next() => match message {
                    Some(Ok(Message::Binary(bytes))) => writer.write_all(&bytes).await.unwrap(),
                    Some(Ok(_)) => {}
                    _ => return,
                },
            }
        }
    });
    let mut client = SpdyClient::new(near);
    open(&mut client, 1, "0", port);
    client.data(3, b"through", true);
    client.flush().await;
    assert_eq!(client.next().await.unwrap(), (3, b"throughthrough".to_vec(), false));
}

#[tokio::test]
async fn channels_by_port() {
    let server = TestServer::start().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut word = [0; 4];
        stream.read_exact(&mut word).await.unwrap();
        stream.write_all(b"pong").await.unwrap();
    });
    let mut socket = server.websocket(&format!("/portForward/default/p?port={port}"), "v4.channel.k8s.io").await;
    socket.send(Message::Binary(Bytes::from_static(b"\0ping"))).await.unwrap();
    let mut messages = Vec::new();
    while let Some(Ok(message)) = socket.next().await {
        if let Message::Binary(bytes) = message {
            messages.push(bytes.to_vec());
        }
    }
    let [low, high] = port.to_le_bytes();
    assert_eq!(messages, [vec![0, low, high], vec![1, low, high], b"\0pong".to_vec()]);
}

#[tokio::test]
async fn what_cannot_be_forwarded() {
    let server = TestServer::start().await;
    assert_eq!(server.get("/portForward/default/q").await, (404, "pod does not exist".to_owned()));
    assert_eq!(server.get("/portForward/default/p/uid-2").await, (404, "pod not found".to_owned()));
    assert_eq!(server.get("/portForward/default/p").await, (500, "Upgrade request required\n".to_owned()));
    server.runtime.sandboxes.lock().clear();
    assert_eq!(server.get("/portForward/default/p").await, (500, r#"pod not found ("p_default")"#.to_owned()));
}
