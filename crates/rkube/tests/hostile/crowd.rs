//! Clients that take places and do nothing with them, and heads and bodies at their limits.

use std::process::{Command, Stdio};

use rkube_testkit::{Process, Rkube, TIMEOUT};

use crate::client::{Client, Connection, request};
use crate::{is_well, start};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const H2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A server with so few descriptors, and what it logs.
struct Small {
    process: Process,
    client: Client,
    log: std::path::PathBuf,
}

impl Small {
    fn start(rkube: &mut Rkube, descriptors: usize) -> Small {
        rkube.terminate();
        let plain = rkube.command();
        let log = rkube.scratch_directory().join("small.log");
        let mut command = Command::new("sh");
        command.args(["-c", &format!("ulimit -n {descriptors}; exec \"$0\" \"$@\"")]);
        command.arg(plain.get_program()).args(plain.get_args());
        command.stderr(Stdio::from(std::fs::File::create(&log).unwrap()));
        let process = Process::spawn_with_lines(&mut command);
        let line = process.next_line(TIMEOUT).expect("it gets ready");
        let address = line.split("https://").nth(1).unwrap().split(' ').next().unwrap();
        Small { process, client: Client::at(&rkube.data_directory(), address), log }
    }
}

#[test]
fn those_who_say_nothing_make_room_for_those_who_do() {
    let mut rkube = start();
    let small = Small::start(&mut rkube, 256);
    let watching = MAPS.to_owned() + "?watch=true&timeoutSeconds=600&fieldSelector=metadata.name%3Da";
    let mut watch = crate::client::Watch::start(&small.client, &watching).unwrap().unwrap();
    let mut kept = small.client.connect().unwrap();
    assert_eq!(kept.request("GET", "/version", &[], b"").unwrap().status, 200);
    let nobody = small.client.without_certificate();
    let mut silent: Vec<Connection> = Vec::new();
    for number in 0..400 {
        let Ok(mut connection) = nobody.connect() else { continue };
        // A handshake; then nothing, half a preface, half a head, or an answer that is not read.
        let said: &[u8] = match number % 4 {
            0 => b"",
            1 => &H2_PREFACE[..10],
            2 => b"GET /version HTTP/1.1\r\nHost: a\r\n",
            _ => b"GET /openapi/v2 HTTP/1.1\r\nHost: a\r\n\r\n",
        };
        if connection.write(said).is_ok() {
            silent.push(connection);
        }
        if number % 50 == 0 {
            assert_eq!(small.client.get("/readyz").status, 200, "after {number}");
        }
    }
    let body = br#"{"metadata":{"name":"a"}}"#;
    assert_eq!(small.client.request("POST", MAPS, &[], body).unwrap().status, 201);
    assert_eq!(watch.next_event().unwrap().unwrap()["object"]["metadata"]["name"], "a", "a watch keeps its place");
    assert_eq!(kept.request("GET", "/version", &[], b"").unwrap().status, 200, "and so does who was known first");
    let backup = rkube.scratch_directory().join("backup");
    let mut save = Command::new(env!("CARGO_BIN_EXE_rkube"));
    save.args(["store", "save"]).arg(&backup).arg("--data-dir").arg(rkube.data_directory());
    rkube_testkit::Finished::run(&mut save, "").expect_success();
    let said = std::fs::read_to_string(&small.log).unwrap();
    assert!(!said.contains("panicked") && !said.contains("cannot accept"), "{said}");
    drop((silent, small.process));
}

/// Takes as long as the deadline for a first request is.
#[test]
fn silence_after_the_handshake_is_ended() {
    let rkube = start();
    let client = Client::of(&rkube).without_certificate();
    let said: [&[u8]; 4] = [b"", &H2_PREFACE[..10], H2_PREFACE, b"GET /version HTTP/1.1\r\nHost: a\r\n"];
    let mut connections: Vec<Connection> = said
        .iter()
        .map(|said| {
            let mut connection = client.connect().unwrap();
            connection.write(said).unwrap();
            connection
        })
        .collect();
    for connection in &mut connections {
        // The reader's own timeout would be an error of another kind.
        let ended = connection.read_to_end();
        assert!(!matches!(&ended, Err(error) if error.kind() == std::io::ErrorKind::WouldBlock), "{ended:?}");
    }
    is_well(&rkube);
}

#[test]
fn hosts_are_one() {
    let rkube = start();
    let client = Client::of(&rkube);
    let table = [
        ("", "400 Bad Request: missing required Host header"),
        ("Host: a\r\nHost: a\r\n", "400 Bad Request"),
        ("Host: a\r\nHost: b\r\n", "400 Bad Request"),
        ("Host: a/b\r\n", "400 Bad Request: malformed Host header"),
    ];
    for (hosts, expected) in table {
        let mut connection = client.connect().unwrap();
        connection.write(format!("GET /version HTTP/1.1\r\n{hosts}\r\n").as_bytes()).unwrap();
        let answer = connection.answer().unwrap();
        assert_eq!((answer.status, String::from_utf8_lossy(&answer.body).as_ref()), (400, expected), "{hosts:?}");
        assert_eq!(answer.header("content-type"), Some("text/plain; charset=utf-8"));
        assert!(connection.answer().is_err(), "the connection ends");
    }
    let mut old = client.connect().unwrap();
    old.write(b"GET /version HTTP/1.0\r\n\r\n").unwrap();
    assert_eq!(old.answer().unwrap().status, 200);
}

#[test]
fn large_heads_are_read_and_larger_ones_refused() {
    let rkube = start();
    let client = Client::of(&rkube);
    for (bytes, expected) in [(16_000, 200), (100_000, 200), (900_000, 200), (1_200_000, 431)] {
        let value = "x".repeat(bytes);
        let answer = client.request("GET", "/version", &[("X-Large", &value)], b"").unwrap();
        assert_eq!(answer.status, expected, "{bytes}");
    }
    for (bytes, expected) in [(16_000, 200), (100_000, 200), (900_000, 200), (1_200_000, 431)] {
        assert_eq!(over_http2(&client, "x".repeat(bytes)), expected, "{bytes}");
    }
    is_well(&rkube);
}

/// The code that a request with such a header gets over HTTP/2.
#[tokio::main(flavor = "current_thread")]
async fn over_http2(client: &Client, value: String) -> u16 {
    let socket = tokio::net::TcpStream::connect(client.address()).await.unwrap();
    let mut config = client.config();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let connector = tokio_rustls::TlsConnector::from(std::sync::Arc::new(config));
    let stream = connector.connect("127.0.0.1".try_into().unwrap(), socket).await.unwrap();
    let (mut sender, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    let uri = format!("https://{}/version", client.address());
    let request = http::Request::get(uri).header("x-large", value).body(()).unwrap();
    let (response, _) = sender.send_request(request, true).unwrap();
    response.await.unwrap().status().as_u16()
}

#[test]
fn bodies_that_are_too_large_are_told_so() {
    let rkube = start();
    let client = Client::of(&rkube);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let client = &client;
            scope.spawn(move || {
                for (number, mebibytes) in [3, 4, 4, 4, 5, 8, 30].into_iter().enumerate() {
                    let body = vec![b' '; (mebibytes << 20) + 1];
                    let bytes = match number % 2 {
                        0 => request("POST", MAPS, &[], &body),
                        _ => {
                            let head = request("POST", MAPS, &[("Transfer-Encoding", "chunked")], b"");
                            let chunk = format!("{:x}\r\n", body.len());
                            [head.as_slice(), chunk.as_bytes(), &body, b"\r\n0\r\n\r\n"].concat()
                        }
                    };
                    let mut connection = client.connect().unwrap();
                    // As most clients do: all of it is sent before the answer is looked at.
                    let sent = connection.write(&bytes);
                    let answer = connection.answer().unwrap_or_else(|error| {
                        panic!("{thread}: {mebibytes} MiB: {error}; sent: {sent:?}");
                    });
                    assert_eq!(answer.status, 413, "{mebibytes} MiB");
                    // A read takes up to a mebibyte, and what is left after the one that was too much may have come with it.
                    if mebibytes > 4 {
                        assert_eq!(answer.header("connection"), Some("close"), "nothing may follow what nobody reads");
                    }
                    assert_eq!(answer.json()["reason"], "RequestEntityTooLarge");
                }
            });
        }
    });
    is_well(&rkube);
}
