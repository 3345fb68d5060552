//! A connection against a client that writes its frames by hand.

use bytes::{Bytes, BytesMut};
use proptest::prelude::*;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

use super::frame::{self, Control, Head};
use super::headers::{Deflater, HeaderError, Inflater};
use super::*;
use crate::queue::QUEUE_BYTES_MAX;

const PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);

/// What a server sent.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    Reply(u32),
    Data(u32, Vec<u8>, bool),
    Reset(u32),
    Ping(u32),
    GoAway,
    Other,
}

struct Client {
    io: DuplexStream,
    deflater: Deflater,
    inflater: Inflater,
    out: BytesMut,
}

impl Client {
    fn new(io: DuplexStream) -> Client {
        Client { io, deflater: Deflater::default(), inflater: Inflater::default(), out: BytesMut::new() }
    }

    fn open(&mut self, stream: u32, headers: &[(&str, &str)]) {
        let headers = Headers::new(headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        let block = self.deflater.write(&headers).unwrap();
        frame::put_syn_stream(&mut self.out, stream, false, &block);
    }

    fn data(&mut self, stream: u32, bytes: &[u8], fin: bool) {
        frame::put_data_head(&mut self.out, stream, fin, bytes.len());
        self.out.extend_from_slice(bytes);
    }

    async fn flush(&mut self) {
        let out = std::mem::take(&mut self.out);
        self.io.write_all(&out).await.unwrap();
    }

    /// None at the end.
    async fn next(&mut self) -> Option<Seen> {
        tokio::time::timeout(PATIENCE, self.next_frame()).await.expect("the server says something")
    }

    async fn next_frame(&mut self) -> Option<Seen> {
        let mut head = [0; frame::HEAD_BYTES];
        self.io.read_exact(&mut head).await.ok()?;
        match Head::parse(&head).unwrap() {
            Head::Data { stream, fin, length } => {
                let mut bytes = vec![0; length];
                self.io.read_exact(&mut bytes).await.unwrap();
                Some(Seen::Data(stream, bytes, fin))
            }
            Head::Control { kind, flags, length } => {
                let mut payload = vec![0; length];
                self.io.read_exact(&mut payload).await.unwrap();
                Some(match Control::parse(kind, flags, &payload).unwrap() {
                    Control::SynReply { stream, block, .. } => {
                        assert_eq!(self.inflater.read(block), Ok(Headers::default()));
                        Seen::Reply(stream)
                    }
                    Control::RstStream { stream } => Seen::Reset(stream),
                    Control::Ping(id) => Seen::Ping(id),
                    Control::GoAway => Seen::GoAway,
                    _ => Seen::Other,
                })
            }
        }
    }
}

fn pair() -> (Client, Connection) {
    let (client, server) = tokio::io::duplex(1 << 20);
    (Client::new(client), Connection::serve(server, |headers| headers.get("refuse").is_empty()))
}

#[tokio::test]
async fn streams_carry_bytes_both_ways() {
    let (mut client, mut server) = pair();
    client.open(1, &[("streamType", "stdin")]);
    client.open(3, &[("streamType", "stdout"), ("more", "1")]);
    client.data(1, b"hello ", false);
    client.data(1, b"there", true);
    client.flush().await;
    let mut stdin = server.next_stream().await.unwrap();
    let mut stdout = server.next_stream().await.unwrap();
    assert_eq!((stdin.id, stdin.headers.get("streamtype")), (1, "stdin"));
    assert_eq!((stdout.id, stdout.headers.get("streamtype"), stdout.headers.get("none")), (3, "stdout", ""));
    let mut got = Vec::new();
    while let Some(bytes) = stdin.source.next().await {
        got.extend_from_slice(&bytes);
    }
    assert_eq!(got, b"hello there");
    stdout.sink.send(Bytes::from_static(b"out")).await.unwrap();
    stdout.sink.finish().await;
    stdin.sink.reset().await;
    let closing = tokio::spawn(server.close());
    assert_eq!(client.next().await, Some(Seen::Reply(1)));
    assert_eq!(client.next().await, Some(Seen::Reply(3)));
    assert_eq!(client.next().await, Some(Seen::Data(3, b"out".to_vec(), false)));
    assert_eq!(client.next().await, Some(Seen::Data(3, Vec::new(), true)));
    assert_eq!(client.next().await, Some(Seen::Reset(1)));
    assert_eq!(client.next().await, Some(Seen::GoAway));
    assert_eq!(client.next().await, None);
    drop(client);
    closing.await.unwrap();
}

#[tokio::test]
async fn what_is_not_wanted_is_reset_and_pings_are_answered() {
    let (mut client, mut server) = pair();
    client.open(1, &[("refuse", "yes")]);
    client.open(3, &[]);
    frame::put_ping(&mut client.out, 7);
    client.flush().await;
    assert_eq!(client.next().await, Some(Seen::Reset(1)));
    assert_eq!(client.next().await, Some(Seen::Reply(3)));
    assert_eq!(client.next().await, Some(Seen::Ping(7)));
    drop(server.next_stream().await.unwrap());
    assert_eq!(client.next().await, Some(Seen::Reset(3)), "nobody kept it");
    client.data(3, b"late", false);
    client.data(9, b"never opened", false);
    client.flush().await;
    assert_eq!(client.next().await, Some(Seen::Reset(9)));
    drop(server);
    assert_eq!(client.next().await, Some(Seen::GoAway));
}

#[tokio::test]
async fn a_reset_by_the_client_ends_both_ways() {
    let (mut client, mut server) = pair();
    client.open(1, &[]);
    client.flush().await;
    let mut stream = server.next_stream().await.unwrap();
    frame::put_rst_stream(&mut client.out, 1, frame::Reset::Cancel);
    client.flush().await;
    assert_eq!(stream.source.next().await, None);
    assert_eq!(stream.sink.send(Bytes::from_static(b"x")).await, Err(crate::Closed));
}

#[tokio::test]
async fn streams_have_a_bound() {
    let (mut client, mut server) = pair();
    let kept = tokio::spawn(async move {
        let mut streams = Vec::new();
        while let Some(stream) = server.next_stream().await {
            streams.push(stream);
        }
        streams.len()
    });
    let (mut accepted, mut refused) = (0, 0);
    for number in 0..STREAMS_MAX as u32 + 50 {
        client.open(2 * number + 1, &[("port", "80")]);
        client.flush().await;
        match client.next().await {
            Some(Seen::Reply(_)) => accepted += 1,
            Some(Seen::Reset(_)) => refused += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((accepted, refused), (STREAMS_MAX, 50));
    drop(client);
    assert_eq!(kept.await.unwrap(), STREAMS_MAX);
}

#[tokio::test]
async fn a_stream_that_nobody_reads_holds_the_connection() {
    let (client, server) = tokio::io::duplex(1024);
    let (mut client, mut server) = (Client::new(client), Connection::serve(server, |_| true));
    client.open(1, &[]);
    for _ in 0..200 {
        client.data(1, &[9; 4096], false);
    }
    client.data(1, b"", true);
    let out = std::mem::take(&mut client.out);
    let (mut reader, mut writer) = tokio::io::split(client.io);
    let drained = tokio::spawn(async move { tokio::io::copy(&mut reader, &mut tokio::io::sink()).await });
    let mut writing = tokio::spawn(async move {
        writer.write_all(&out).await.unwrap();
        writer
    });
    let mut stream = server.next_stream().await.unwrap();
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
    assert!(!writing.is_finished(), "no more than a queue and two buffers are held of 800 kB");
    let mut got = 0;
    while let Some(bytes) = stream.source.next().await {
        assert!(bytes.len() <= QUEUE_BYTES_MAX);
        got += bytes.len();
    }
    assert_eq!(got, 200 * 4096);
    (&mut writing).await.unwrap();
    drop((stream, server));
    drained.abort();
}

#[tokio::test]
async fn broken_rules_end_the_connection() {
    type Break = fn(&mut Client);
    let breaks: [(&str, Break); 6] = [
        ("version", |client| client.out.extend_from_slice(&[0x80, 2, 0, 1, 0, 0, 0, 0])),
        ("length", |client| client.out.extend_from_slice(&[0x80, 3, 0, 1, 0, 0xff, 0xff, 0xff])),
        ("short", |client| client.out.extend_from_slice(&[0x80, 3, 0, 3, 0, 0, 0, 1, 0])),
        ("order", |client| {
            client.open(3, &[]);
            client.open(1, &[]);
        }),
        ("even", |client| client.open(2, &[])),
        ("block", |client| frame::put_syn_stream(&mut client.out, 1, false, b"no zlib at all")),
    ];
    for (name, breaking) in breaks {
        let (mut client, mut server) = pair();
        breaking(&mut client);
        client.flush().await;
        while server.next_stream().await.is_some() {}
        server.ended().await;
        let mut last = None;
        while let Some(seen) = client.next().await {
            last = Some(seen);
        }
        assert_eq!(last, Some(Seen::GoAway), "{name}");
    }
}

#[tokio::test]
async fn streams_that_nobody_asks_for_hold_nothing_up() {
    let (mut client, mut server) = pair();
    client.open(1, &[]);
    client.flush().await;
    let mut wanted = server.next_stream().await.unwrap();
    server.refuse_more();
    for number in 1..5_000 {
        client.open(2 * number + 1, &[]);
        if number % 50 == 0 {
            client.flush().await;
            // Accepted, then reset: both are told.
            for _ in 0..100 {
                assert!(matches!(client.next().await, Some(Seen::Reply(_) | Seen::Reset(_))));
            }
        }
    }
    client.data(1, b"still here", true);
    client.flush().await;
    assert_eq!(wanted.source.next().await.as_deref(), Some(&b"still here"[..]));
    drop(client);
    server.ended().await;
}

#[tokio::test]
async fn a_client_that_reads_nothing_is_sent_no_more_than_fits() {
    let (client, server) = tokio::io::duplex(1024);
    let (mut client, mut server) = (Client::new(client), Connection::serve(server, |_| true));
    client.open(1, &[]);
    client.flush().await;
    let mut stream = server.next_stream().await.unwrap();
    let sent = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = sent.clone();
    let sending = tokio::spawn(async move {
        while stream.sink.send(Bytes::from_static(&[0; 32 * 1024])).await.is_ok() {
            counted.fetch_add(32 * 1024, std::sync::atomic::Ordering::Relaxed);
        }
    });
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
    assert!(!sending.is_finished());
    assert!(sent.load(std::sync::atomic::Ordering::Relaxed) < 2 << 20);
    drop((client, server));
    tokio::time::timeout(PATIENCE, sending).await.expect("it ends with the connection").unwrap();
}

#[tokio::test]
async fn the_beginning_of_a_huge_frame_is_there_before_its_end() {
    let (mut client, mut server) = pair();
    client.open(1, &[]);
    client.out.extend_from_slice(&[0, 0, 0, 1, 0, 0xff, 0xff, 0xff]);
    client.out.extend_from_slice(b"the beginning");
    client.flush().await;
    let mut stream = server.next_stream().await.unwrap();
    assert_eq!(stream.source.next().await.as_deref(), Some(&b"the beginning"[..]));
    drop(client);
    assert_eq!(stream.source.next().await, None);
}

#[test]
fn a_block_that_grows_without_end_is_refused() {
    let bomb = Headers::new([("a".to_owned(), "x".repeat(2 << 20))]);
    let block = Deflater::default().write(&bomb).unwrap();
    assert!(block.len() < 32 * 1024, "{} bytes stand for 2 MB", block.len());
    assert_eq!(Inflater::default().read(&block), Err(HeaderError::TooLarge));
}

#[test]
fn blocks_build_on_each_other() {
    let (mut deflater, mut inflater) = (Deflater::default(), Inflater::default());
    for number in 0..100 {
        let headers =
            Headers::new([("streamtype".to_owned(), "data".to_owned()), ("port".to_owned(), number.to_string())]);
        let block = deflater.write(&headers).unwrap();
        assert_eq!(inflater.read(&block), Ok(headers));
    }
}

proptest! {
    #[test]
    fn any_headers_come_back(pairs in proptest::collection::vec(("[a-z:-]{0,12}", "[ -~é]{0,40}"), 0..20)) {
        let headers = Headers::new(pairs);
        let block = Deflater::default().write(&headers).unwrap();
        prop_assert_eq!(Inflater::default().read(&block), Ok(headers));
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = Headers::parse(&bytes);
        let _ = Inflater::default().read(&bytes);
        if let Some((head, rest)) = bytes.split_first_chunk::<8>()
            && let Ok(Head::Control { kind, flags, .. }) = Head::parse(head)
        {
            let _ = Control::parse(kind % 12, flags, rest);
        }
    }

    #[test]
    fn any_bytes_end_a_connection_or_wait_for_more(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async move {
            let (mut client, server) = tokio::io::duplex(1 << 16);
            let mut server = Connection::serve(server, |_| true);
            client.write_all(&bytes).await.unwrap();
            client.shutdown().await.unwrap();
            let ended = async { while server.next_stream().await.is_some() {} };
            tokio::time::timeout(PATIENCE, ended).await.expect("the connection ends with its bytes");
        });
    }
}
