//! The end: in good order and in time, and nothing said that is not wrong.

use crate::client::{Client, Watch, request};
use crate::start_durable;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[test]
fn an_orderly_end_has_nothing_to_complain_about() {
    let mut rkube = start_durable();
    let client = Client::of(&rkube);
    let mut watch = Watch::start(&client, &format!("{MAPS}?watch=true")).unwrap().unwrap();
    let mut idle = client.connect().unwrap();
    assert_eq!(idle.request("GET", "/version", &[], b"").unwrap().status, 200);
    // Those who never say anything, or never end, do not hold it up.
    let mut silent = client.without_certificate().connect().unwrap();
    silent.write(b"").unwrap();
    let mut half = client.connect().unwrap();
    let bytes = request("POST", MAPS, &[], br#"{"metadata":{"name":"half"}}"#);
    half.write(&bytes[..bytes.len() - 1]).unwrap();
    assert!(rkube.terminate().success());
    while watch.next_event().is_ok_and(|event| event.is_some()) {}
    let said = rkube.stderr();
    let complaints: Vec<&str> = said.lines().filter(|line| line.contains("WARN") || line.contains("ERROR")).collect();
    assert!(complaints.iter().all(|line| line.contains("some connections did not end in time")), "{complaints:?}");
    assert!(!said.contains("cannot watch the store"), "{said}");
}
