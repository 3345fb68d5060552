//! CertificateSigningRequests.

use serde_json::{Value, json};

use super::{History, conditions};

const KEY: &str = "certificatesigningrequests/r";

fn request(uid: &str, answers: &[&str], certificate: &str) -> Value {
    json!({ "metadata": { "uid": uid }, "status": { "conditions": conditions(answers), "certificate": certificate } })
}

#[test]
fn who_is_approved_gets_a_certificate() {
    let start = || History::new().put(KEY, &request("u", &[], ""));
    start().put(KEY, &request("u", &["Approved"], "")).put(KEY, &request("u", &["Approved"], "c")).stays_silent();
    start().put(KEY, &request("u", &["Denied"], "")).stays_silent();
    for answers in [[].as_slice(), &["Denied"], &["Approved", "Denied"], &["Approved", "Failed"]] {
        let wrong = "/registry/certificatesigningrequests/r: gets a certificate that nobody has approved of";
        start().put(KEY, &request("u", answers, "c")).says(&[wrong]);
    }
}

#[test]
fn a_certificate_stays() {
    let given = || History::new().put(KEY, &request("u", &["Approved"], "c"));
    given().put(KEY, &request("u", &["Approved"], "c")).stays_silent();
    let other = "/registry/certificatesigningrequests/r: had another certificate";
    given().put(KEY, &request("u", &["Approved"], "d")).says(&[other]);
    given().put(KEY, &request("u", &["Approved"], "")).says(&[other]);
    // Another one of that name.
    given().gone(KEY).put(KEY, &request("v", &["Approved"], "d")).stays_silent();
}

#[test]
fn one_that_was_answered_goes_some_day() {
    let given = || History::new().put(KEY, &request("u", &["Approved"], "c")).quiet();
    given().gone(KEY).stays_silent();
    let written = "/registry/certificatesigningrequests/r: is written though nothing happens";
    given().put(KEY, &request("u", &["Approved"], "c")).says(&[written]);
}
