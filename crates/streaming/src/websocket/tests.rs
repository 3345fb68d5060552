//! Channels and tunnels against the client's side of the same WebSocket library.

use bytes::Bytes;
use futures::{SinkExt as _, StreamExt as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;

use super::channels::{Channels, Codec, Config};
use super::tunnel::Tunnel;
use crate::queue::QUEUE_BYTES_MAX;

async fn pair(config: Config) -> (WebSocketStream<DuplexStream>, Channels) {
    let (client, server) = tokio::io::duplex(1 << 16);
    let channels = Channels::serve(server, config).await;
    (WebSocketStream::from_raw_socket(client, Role::Client, None).await, channels)
}

fn config(codec: Codec, closes: bool) -> Config {
    Config { codec, closes, readable: vec![true, false, false, false, true] }
}

async fn all(channels: &mut Channels, number: usize) -> Vec<u8> {
    let mut got = Vec::new();
    let mut source = channels.sources[number].take().unwrap();
    while let Some(bytes) = source.next().await {
        got.extend_from_slice(&bytes);
    }
    got
}

#[tokio::test]
async fn messages_are_sorted_by_their_first_byte() {
    let (mut client, mut server) = pair(config(Codec::Binary, true)).await;
    for message in [&b"\0in"[..], b"\x01not readable", b"\x09nobody", b"", b"\0put", b"\xff\0", b"\0late", b"\x04{}"] {
        client.send(Message::Binary(Bytes::copy_from_slice(message))).await.unwrap();
    }
    client.send(Message::Ping(Bytes::from_static(b"p"))).await.unwrap();
    assert_eq!(all(&mut server, 0).await, b"input", "closed by the client");
    let mut stdout = server.sink(1);
    stdout.send(Bytes::new()).await.unwrap();
    stdout.send(Bytes::from_static(b"out")).await.unwrap();
    drop(stdout);
    let closing = tokio::spawn(server.close());
    let mut got = Vec::new();
    while let Some(Ok(message)) = client.next().await {
        match message {
            Message::Binary(bytes) => got.push(bytes.to_vec()),
            Message::Pong(bytes) => assert_eq!(&bytes[..], b"p"),
            Message::Close(frame) => assert_eq!(u16::from(frame.unwrap().code), 1000),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(got, [b"\x01".to_vec(), b"\x01out".to_vec()]);
    closing.await.unwrap();
}

#[tokio::test]
async fn without_version_five_255_is_a_channel_like_others() {
    let (mut client, mut server) = pair(config(Codec::Binary, false)).await;
    for message in [&b"\0a"[..], b"\xff\0", b"\0b"] {
        client.send(Message::Binary(Bytes::copy_from_slice(message))).await.unwrap();
    }
    client.close(None).await.unwrap();
    assert_eq!(all(&mut server, 0).await, b"ab");
    server.ended().await;
}

#[tokio::test]
async fn base64_is_text() {
    let (mut client, mut server) = pair(config(Codec::Base64, false)).await;
    for message in ["0aGVs", "0bG8=", "0***", "4e30="] {
        client.send(Message::Text(message.into())).await.unwrap();
    }
    server.sink(2).send(Bytes::from_static(b"err")).await.unwrap();
    assert_eq!(client.next().await.unwrap().unwrap(), Message::Text("2ZXJy".into()));
    client.close(None).await.unwrap();
    assert_eq!(all(&mut server, 0).await, b"hello");
    assert_eq!(all(&mut server, 4).await, b"{}");
}

#[tokio::test]
async fn a_channel_that_nobody_reads_holds_the_connection() {
    let (mut client, mut server) = pair(config(Codec::Binary, false)).await;
    let sending = tokio::spawn(async move {
        for _ in 0..100 {
            client.send(Message::Binary(Bytes::from_static(&[0; 8192]))).await.unwrap();
        }
        client.close(None).await.unwrap();
        while let Some(Ok(_)) = client.next().await {}
    });
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
    assert!(!sending.is_finished());
    let mut source = server.sources[0].take().unwrap();
    let mut got = 0;
    while let Some(bytes) = source.next().await {
        assert!(bytes.len() <= QUEUE_BYTES_MAX);
        got += bytes.len();
    }
    assert_eq!(got, 100 * 8191);
    drop(server);
    sending.await.unwrap();
}

#[tokio::test]
async fn a_tunnel_is_a_stream_of_bytes() {
    let (client, server) = tokio::io::duplex(1 << 16);
    let mut client = WebSocketStream::from_raw_socket(client, Role::Client, None).await;
    let serving = tokio::spawn(async move {
        let mut tunnel = Tunnel::serve(server).await;
        let mut word = [0; 5];
        tunnel.read_exact(&mut word).await.unwrap();
        tunnel.write_all(&word).await.unwrap();
        tunnel.flush().await.unwrap();
        let mut rest = Vec::new();
        tunnel.read_to_end(&mut rest).await.unwrap();
        tunnel.shutdown().await.unwrap();
        rest
    });
    client.send(Message::Binary(Bytes::from_static(b"hel"))).await.unwrap();
    client.send(Message::Binary(Bytes::from_static(b"lo and more"))).await.unwrap();
    assert_eq!(client.next().await.unwrap().unwrap(), Message::Binary(Bytes::from_static(b"hello")));
    client.close(None).await.unwrap();
    while let Some(Ok(_)) = client.next().await {}
    assert_eq!(serving.await.unwrap(), b" and more");
}
