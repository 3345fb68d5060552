//! Commands and attached containers, over WebSockets and SPDY.

use bytes::{Bytes, BytesMut};
use futures::{SinkExt as _, StreamExt as _};
use http_body_util::Full;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use rkube_streaming::spdy::Headers;
use rkube_streaming::spdy::frame::{self, Control, HEAD_BYTES, Head};
use rkube_streaming::spdy::headers::Deflater;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;

use super::{PATIENCE, TestServer, request};

type WebSocket = WebSocketStream<TokioIo<Upgraded>>;

impl TestServer {
    pub(super) async fn websocket(&self, path: &str, protocol: &'static str) -> WebSocket {
        let request = request("GET", path)
            .header("authorization", "Bearer admin")
            .header("connection", "Upgrade")
            .header("upgrade", "websocket")
            .header("sec-websocket-version", "13")
            .header("sec-websocket-key", "AAAAAAAAAAAAAAAAAAAAAA==")
            .header("sec-websocket-protocol", protocol);
        let answer = self.send(request.body(Full::default()).unwrap()).await;
        assert_eq!(answer.status(), 101);
        assert_eq!(answer.headers()["sec-websocket-protocol"], protocol);
        let upgraded = hyper::upgrade::on(answer).await.unwrap();
        WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Client, None).await
    }

    pub(super) async fn spdy(&self, path: &str, protocol: &'static str) -> SpdyClient {
        let request = request("POST", path)
            .header("authorization", "Bearer admin")
            .header("connection", "Upgrade")
            .header("upgrade", "SPDY/3.1")
            .header("x-stream-protocol-version", protocol);
        let answer = self.send(request.body(Full::default()).unwrap()).await;
        assert_eq!(answer.status(), 101);
        assert_eq!(answer.headers()["x-stream-protocol-version"], protocol);
        SpdyClient::new(TokioIo::new(hyper::upgrade::on(answer).await.unwrap()))
    }
}

/// What came on every channel, until the server closed.
async fn channels(socket: &mut WebSocket) -> [Vec<u8>; 4] {
    let mut channels = <[Vec<u8>; 4]>::default();
    let reading = async {
        while let Some(Ok(message)) = socket.next().await {
            if let Message::Binary(bytes) = message {
                channels[usize::from(bytes[0])].extend_from_slice(&bytes[1..]);
            }
        }
    };
    tokio::time::timeout(PATIENCE, reading).await.expect("the session ends");
    channels
}

/// Something to speak over.
pub(super) trait Wire: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Wire for T {}

pub(super) struct SpdyClient {
    io: Box<dyn Wire>,
    deflater: Deflater,
    pub out: BytesMut,
}

impl SpdyClient {
    pub(super) fn new(io: impl Wire + 'static) -> SpdyClient {
        SpdyClient { io: Box::new(io), deflater: Deflater::default(), out: BytesMut::new() }
    }

    pub(super) fn open(&mut self, stream: u32, headers: &[(&str, &str)]) {
        let headers = Headers::new(headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        let block = self.deflater.write(&headers).unwrap();
        frame::put_syn_stream(&mut self.out, stream, false, &block);
    }

    pub(super) fn data(&mut self, stream: u32, bytes: &[u8], fin: bool) {
        frame::put_data_head(&mut self.out, stream, fin, bytes.len());
        self.out.extend_from_slice(bytes);
    }

    pub(super) async fn flush(&mut self) {
        self.io.write_all_buf(&mut self.out).await.unwrap();
        self.io.flush().await.unwrap();
    }

    /// The next piece of data with its stream, and whether it is the last; None when the server has said goodbye.
    pub(super) async fn next(&mut self) -> Option<(u32, Vec<u8>, bool)> {
        tokio::time::timeout(PATIENCE, self.next_data()).await.expect("the server says something")
    }

    async fn next_data(&mut self) -> Option<(u32, Vec<u8>, bool)> {
        loop {
            let mut head = [0; HEAD_BYTES];
            self.io.read_exact(&mut head).await.ok()?;
            match Head::parse(&head).unwrap() {
                Head::Data { stream, fin, length } => {
                    let mut bytes = vec![0; length];
                    self.io.read_exact(&mut bytes).await.unwrap();
                    return Some((stream, bytes, fin));
                }
                Head::Control { kind, flags, length } => {
                    let mut payload = vec![0; length];
                    self.io.read_exact(&mut payload).await.unwrap();
                    if Control::parse(kind, flags, &payload).unwrap() == Control::GoAway {
                        return None;
                    }
                }
            }
        }
    }

    /// All that came on a stream, until the goodbye.
    async fn all(&mut self) -> std::collections::BTreeMap<u32, String> {
        let mut streams = std::collections::BTreeMap::<u32, String>::new();
        while let Some((stream, bytes, _)) = self.next().await {
            streams.entry(stream).or_default().push_str(std::str::from_utf8(&bytes).unwrap());
        }
        streams
    }
}

const SUCCESS: &str = r#"{"metadata":{},"status":"Success"}"#;

#[tokio::test]
async fn version_5_closes_stdin() {
    let server = TestServer::start().await;
    let path =
        "/exec/default/p/c?command=sh&command=-c&command=cat;+echo+end+1%3E%262;+exit+3&input=1&output=1&error=1";
    let mut socket = server.websocket(path, "v5.channel.k8s.io").await;
    socket.send(Message::Binary(Bytes::from_static(b"\0hello"))).await.unwrap();
    socket.send(Message::Binary(Bytes::from_static(b"\xff\0"))).await.unwrap();
    let [_, stdout, stderr, error] = channels(&mut socket).await;
    assert_eq!((&stdout[..], &stderr[..]), (&b"hello"[..], &b"end\n"[..]));
    let error = String::from_utf8(error).unwrap();
    assert!(error.contains(r#""reason":"NonZeroExitCode","details":{"causes":[{"reason":"ExitCode","message":"3"}]}"#));
}

#[tokio::test]
async fn versions_of_websockets() {
    let server = TestServer::start().await;
    let path = "/exec/default/p/c?command=echo&command=a&output=1&error=1";
    let statuses =
        [("v5.channel.k8s.io", SUCCESS), ("v4.channel.k8s.io", r#"{"status":"Success"}"#), ("channel.k8s.io", "")];
    for (protocol, status) in statuses {
        let [_, stdout, _, error] = channels(&mut server.websocket(path, protocol).await).await;
        assert_eq!((&stdout[..], &error[..]), (&b"a\n"[..], status.as_bytes()), "{protocol}");
    }
    let mut socket = server.websocket(path, "v4.base64.channel.k8s.io").await;
    let mut texts = Vec::new();
    while let Some(Ok(message)) = socket.next().await {
        if let Message::Text(text) = message {
            texts.push(text.to_string());
        }
    }
    assert_eq!(texts, ["1", "1YQo=", "3eyJzdGF0dXMiOiJTdWNjZXNzIn0="]);
}

#[tokio::test]
async fn a_terminal_gets_its_size() {
    let server = TestServer::start().await;
    let path = "/exec/default/p/c?command=sh&input=1&output=1&tty=1";
    let mut socket = server.websocket(path, "v5.channel.k8s.io").await;
    let size = Bytes::from_static(b"\x04{\"Width\":100,\"Height\":40}\n");
    socket.send(Message::Binary(size)).await.unwrap();
    let [_, stdout, _, error] = channels(&mut socket).await;
    assert_eq!((&stdout[..], &error[..]), (&b"100x40\n"[..], SUCCESS.as_bytes()));
}

#[tokio::test]
async fn spdy_has_a_stream_for_each() {
    let server = TestServer::start().await;
    let command = "command=sh&command=-c&command=cat;+echo+e+1%3E%262;+exit+7";
    let path = format!("/exec/default/p/uid-1/c?{command}&input=1&output=1&error=1");
    let mut client = server.spdy(&path, "v4.channel.k8s.io").await;
    for (stream, kind) in [(1, "error"), (3, "stdin"), (5, "stdout"), (7, "stderr")] {
        client.open(stream, &[("streamType", kind)]);
    }
    client.data(3, b"in", false);
    client.data(3, b"put", true);
    client.flush().await;
    let streams = client.all().await;
    assert_eq!((streams[&5].as_str(), streams[&7].as_str()), ("input", "e\n"));
    assert!(streams[&1].starts_with(r#"{"status":"Failure","message":"command terminated with non-zero exit code: "#));
    assert!(streams[&1].contains(r#""reason":"ExitCode","message":"7""#));
}

#[tokio::test]
async fn old_versions_of_spdy() {
    let server = TestServer::start().await;
    for (protocol, command) in
        [("v3.channel.k8s.io", "true"), ("v2.channel.k8s.io", "nonsense-1"), ("channel.k8s.io", "true")]
    {
        let mut client = server.spdy(&format!("/exec/default/p/c?command={command}&output=1"), protocol).await;
        client.open(1, &[("streamtype", "error")]);
        client.open(3, &[("streamtype", "stdout")]);
        client.flush().await;
        let streams = client.all().await;
        match command {
            "true" => assert_eq!(streams[&1], "", "{protocol}"),
            _ => assert!(
                streams[&1].starts_with("Internal error occurred: error executing command in container: "),
                "{streams:?}"
            ),
        }
    }
}

#[tokio::test]
async fn much_output_arrives_whole() {
    let server = TestServer::start().await;
    let path = "/exec/default/p/c?command=head&command=-c&command=20000000&command=/dev/zero&output=1";
    let mut client = server.spdy(path, "v4.channel.k8s.io").await;
    client.open(1, &[("streamType", "error")]);
    client.open(3, &[("streamType", "stdout")]);
    client.flush().await;
    let mut count = 0;
    while let Some((stream, bytes, _)) = client.next().await {
        count += if stream == 3 { bytes.len() } else { 0 };
    }
    assert_eq!(count, 20_000_000);
    let [_, stdout, ..] = channels(&mut server.websocket(path, "v5.channel.k8s.io").await).await;
    assert_eq!(stdout.len(), 20_000_000);
}

#[tokio::test]
async fn attached_to_a_container() {
    let server = TestServer::start().await;
    let mut socket = server.websocket("/attach/default/p/c?input=1&output=1&error=1", "v5.channel.k8s.io").await;
    socket.send(Message::Binary(Bytes::from_static(b"\0line"))).await.unwrap();
    socket.send(Message::Binary(Bytes::from_static(b"\xff\0"))).await.unwrap();
    let [_, stdout, _, error] = channels(&mut socket).await;
    assert_eq!((&stdout[..], &error[..]), (&b"line"[..], SUCCESS.as_bytes()));
}

#[tokio::test]
async fn a_command_ends_with_its_client() {
    let server = TestServer::start().await;
    let mark = server.directory.path().join("ended");
    let command = format!("trap 'touch {}; exit' PIPE; while echo x; do sleep 0.01; done; touch {0}", mark.display());
    let command: String = command.bytes().map(|byte| format!("%{byte:02x}")).collect();
    let path = format!("/exec/default/p/c?command=sh&command=-c&command={command}&output=1");
    let mut socket = server.websocket(&path, "v5.channel.k8s.io").await;
    socket.next().await.unwrap().unwrap();
    let process_count = || {
        let text = std::fs::read_dir("/proc").unwrap().flatten();
        let own = mark.display().to_string();
        text.filter(|entry| {
            let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).contains(&own)
        })
        .count()
    };
    // What comes first may be the server's own word, before the command has begun.
    let begun = async {
        while process_count() == 0 {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, begun).await.expect("the command begins");
    drop(socket);
    let ended = async {
        while process_count() > 0 {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, ended).await.expect("the process goes with its client");
}

#[tokio::test]
async fn a_client_with_too_many_streams_is_still_seen_to_go() {
    let server = TestServer::start().await;
    let mut client =
        server.spdy("/exec/default/p/c?command=sleep&command=987654321&output=1", "v4.channel.k8s.io").await;
    client.open(1, &[("streamtype", "error")]);
    client.open(3, &[("streamtype", "stdout")]);
    for number in 2..200 {
        client.open(2 * number + 1, &[("streamtype", "more")]);
    }
    client.flush().await;
    let sleeps = || {
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        processes
            .filter(|it| std::fs::read(it.path().join("cmdline")).is_ok_and(|it| it == b"sleep\0987654321\0"))
            .count()
    };
    let changes = async |count: usize| {
        while sleeps() != count {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, changes(1)).await.expect("the command runs");
    drop(client);
    tokio::time::timeout(PATIENCE, changes(0)).await.expect("and goes with its client");
}

#[tokio::test]
async fn what_cannot_be_run() {
    let server = TestServer::start().await;
    let answers = [
        ("/exec/default/p/c?command=ls", 400, "you must specify at least 1 of stdin, stdout, stderr"),
        ("/exec/default/q/c?command=ls&output=1", 404, "pod does not exist"),
        ("/exec/default/p/x?command=ls&output=1", 500, r#"container not found ("x")"#),
        ("/exec/default/p/uid-2/c?command=ls&output=1", 500, r#"container not found ("c")"#),
        ("/attach/default/p/x?output=1", 500, "container x not found in pod p_default"),
        ("/exec/default/p/c?command=ls&output=1", 500, "Upgrade request required\n"),
    ];
    for (path, status, text) in answers {
        assert_eq!(server.get(path).await, (status, text.to_owned()), "{path}");
    }
    let path = "/exec/default/p/c?command=no-such-program&output=1";
    let [_, _, _, error] = channels(&mut server.websocket(path, "v5.channel.k8s.io").await).await;
    let error = String::from_utf8(error).unwrap();
    assert!(error.contains(r#""message":"Internal error occurred: error executing command in container: "#), "{error}");
    assert!(error.contains(r#""reason":"InternalError","code":500"#), "{error}");
}

#[tokio::test]
async fn sessions_end_with_the_server() {
    let server = TestServer::start().await;
    let mut socket =
        server.websocket("/exec/default/p/c?command=sleep&command=1000&output=1", "v5.channel.k8s.io").await;
    socket.next().await.unwrap().unwrap();
    server.stop.send_replace(true);
    let ended = async { while let Some(Ok(_)) = socket.next().await {} };
    tokio::time::timeout(PATIENCE, ended).await.expect("the connection ends");
}
