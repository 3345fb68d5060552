//! Connections that people hold wrong: two requests in one, half a request, none at all, thousands of them.

use std::net::TcpStream;

use rkube_testkit::Rkube;

use crate::client::{Client, Watch, request};
use crate::{is_well, start};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[test]
fn no_request_hides_in_another() {
    let rkube = start();
    let client = Client::of(&rkube);
    let hidden = String::from_utf8(request("POST", MAPS, &[], br#"{"metadata":{"name":"hidden"}}"#)).unwrap();
    let head = format!("POST {MAPS}?dryRun=All HTTP/1.1\r\nHost: rkube\r\n");
    let table = [
        format!("{head}Content-Length: 2\r\nContent-Length: 5\r\n\r\n{{}}{hidden}"),
        format!("{head}Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{hidden}"),
        format!("{head}Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n{hidden}"),
        format!("{head}Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n{hidden}"),
        format!("{head}Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n{hidden}"),
        format!("{head}Content-Length: +2\r\n\r\n{{}}{hidden}"),
        format!("{head}Transfer-Encoding: chunked\r\n\r\nzz\r\n{hidden}"),
        format!("{head}X: a\0b\r\n\r\n{hidden}"),
        format!("{head}X: a\r\n b\r\n\r\n{hidden}"),
        format!("GET /version\r\n{hidden}"),
    ];
    for bytes in &table {
        let mut connection = client.connect().unwrap();
        connection.write(bytes.as_bytes()).unwrap();
        // One refusal at most, then the end.
        while let Ok(answer) = connection.answer() {
            assert!((400..500).contains(&answer.status), "{bytes}: {answer:?}");
        }
    }
    assert_eq!(client.get(&format!("{MAPS}/hidden")).status, 404);
    is_well(&rkube);
}

#[test]
fn half_a_request_changes_nothing() {
    let rkube = start();
    let client = Client::of(&rkube);
    let whole = request("POST", MAPS, &[], br#"{"metadata":{"name":"half"}}"#);
    let chunked = format!("POST {MAPS} HTTP/1.1\r\nHost: rkube\r\nTransfer-Encoding: chunked\r\n\r\n1c\r\n");
    let chunked = [chunked.as_bytes(), br#"{"metadata":{"name":"half"}}"#].concat();
    for bytes in [&whole[..whole.len() - 1], &whole[..20], &whole[..1], &chunked] {
        let mut connection = client.connect().unwrap();
        connection.write(bytes).unwrap();
        drop(connection);
    }
    is_well(&rkube);
    assert_eq!(client.get(&format!("{MAPS}/half")).status, 404);
}

#[test]
fn a_thousand_connections_that_say_nothing() {
    let rkube = start();
    let client = Client::of(&rkube);
    let silent: Vec<TcpStream> = (0..1000).map_while(|_| TcpStream::connect(client.address()).ok()).collect();
    let idle: Vec<_> = (0..50)
        .map(|_| {
            let mut connection = client.connect().unwrap();
            connection.write(b"GET /ver").unwrap();
            connection
        })
        .collect();
    is_well(&rkube);
    drop((silent, idle));
    is_well(&rkube);
}

#[test]
fn one_name_made_and_deleted_by_many_at_once() {
    let rkube = start();
    let client = Client::of(&rkube);
    let mut watch =
        Watch::start(&client, &format!("{MAPS}?watch=true&fieldSelector=metadata.name%3Da")).unwrap().unwrap();
    std::thread::scope(|scope| {
        for thread in 0..6 {
            let client = &client;
            scope.spawn(move || {
                let mut connection = client.connect().unwrap();
                for _ in 0..50 {
                    let made = connection.request("POST", MAPS, &[], br#"{"metadata":{"name":"a"}}"#).unwrap().status;
                    assert!([201, 409].contains(&made), "{made}");
                    if thread % 2 == 0 {
                        let gone = connection.request("DELETE", &format!("{MAPS}/a"), &[], b"").unwrap().status;
                        assert!([200, 404, 409].contains(&gone), "{gone}");
                    }
                }
            });
        }
    });
    let end =
        client.request("PUT", &format!("{MAPS}/a"), &[], br#"{"metadata":{"name":"a"},"data":{"end":""}}"#).unwrap();
    if end.status == 404 {
        let body = br#"{"metadata":{"name":"a"},"data":{"end":""}}"#;
        assert_eq!(client.request("POST", MAPS, &[], body).unwrap().status, 201);
    }
    // Events of one name take turns: it is made, then deleted, then made.
    let mut exists = false;
    let mut last = 0;
    loop {
        let event = watch.next_event().unwrap().unwrap();
        let revision: u64 = event["object"]["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
        assert!(revision > last, "{event}");
        last = revision;
        let (before, after) = match event["type"].as_str().unwrap() {
            "ADDED" => (false, true),
            "MODIFIED" => (true, true),
            _ => (true, false),
        };
        assert_eq!(exists, before, "{event}");
        exists = after;
        if event["object"]["data"]["end"] == "" {
            break;
        }
    }
    is_well(&rkube);
}

#[test]
fn watchers_that_never_read_hold_nobody_up() {
    let rkube = start();
    let client = Client::of(&rkube);
    let deaf: Vec<_> = (0..50)
        .map(|_| {
            let mut connection = client.connect().unwrap();
            connection.write(&request("GET", &format!("{MAPS}?watch=true"), &[], b"")).unwrap();
            connection
        })
        .collect();
    let mut connection = client.connect().unwrap();
    let value = "x".repeat(100_000);
    let body = |number: usize| format!(r#"{{"metadata":{{"name":"a"}},"data":{{"a":"{number}{value}"}}}}"#);
    assert_eq!(connection.request("POST", MAPS, &[], body(0).as_bytes()).unwrap().status, 201);
    let mut write = |number| connection.request("PUT", &format!("{MAPS}/a"), &[], body(number).as_bytes()).unwrap();
    for number in 1..200 {
        assert_eq!(write(number).status, 200);
    }
    let before = memory_in_use(&rkube);
    for number in 200..600 {
        assert_eq!(write(number).status, 200);
    }
    let grown = memory_in_use(&rkube).saturating_sub(before);
    // 40 MB were written, and 50 watchers would have been sent 2 GB.
    assert!(grown < 200 << 20, "{} MiB more", grown >> 20);
    drop(deaf);
    is_well(&rkube);
}

// main.rs:
/// The bytes that the process has in memory now.
fn memory_in_use(rkube: &Rkube) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", rkube.process_id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024
}
