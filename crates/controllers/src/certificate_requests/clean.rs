//! Deletes requests that were answered an hour ago, or that nobody answered for a day. Looks at all of them once an hour, as
//! upstream: nobody can know to the minute when a request goes.

use std::time::Duration;

use rkube_machinery::decode::base64;
use rkube_machinery::pem;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::{APPROVED, DENIED, FAILED, PATH, Request, requests};
use crate::Context;
use crate::requests::{self as http_requests, is_not_found};

const PERIOD: Duration = Duration::from_secs(60 * 60);
const ANSWERED_SECONDS: i64 = 60 * 60;
const UNANSWERED_SECONDS: i64 = 24 * 60 * 60;

pub async fn run(context: Context) {
    let Context { client, caches, clock, .. } = context;
    let watched = requests(&caches);
    watched.synced().await;
    loop {
        let now = clock.now_seconds();
        for request in watched.all().iter().filter(|request| is_useless(request, now)) {
            let name = &request.item.name;
            match http_requests::delete(&client, &format!("{PATH}/{name}")).await {
                Ok(_) => tracing::info!(%name, "a certificate signing request is of no use any more"),
                Err(error) if is_not_found(&error) => {}
                Err(error) => tracing::warn!(%name, %error, "cannot delete a certificate signing request"),
            }
        }
        tokio::time::sleep(PERIOD).await;
    }
}

fn is_useless(request: &Request, now: i64) -> bool {
    let is_older = |than: i64, at: Option<i64>| at.is_some_and(|at| now - at > than);
    let was = |kind: &str, than: i64| {
        let mut found = request.conditions.iter().filter(|condition| condition.kind == kind);
        found.any(|condition| is_older(than, condition.updated))
    };
    let approved_for = if request.issued { ANSWERED_SECONDS } else { UNANSWERED_SECONDS };
    was(DENIED, ANSWERED_SECONDS)
        || was(FAILED, ANSWERED_SECONDS)
        || was(APPROVED, approved_for)
        || request.conditions.is_empty() && is_older(UNANSWERED_SECONDS, request.created)
        || request.issued && request.has(APPROVED) && is_expired(request, now)
}

fn is_expired(request: &Request, now: i64) -> bool {
    let ends = || -> Option<i64> {
        let text = request.whole().ok()?.status.certificate?;
        let block = pem::blocks(&base64::decode(text.as_bytes()).ok()?).next()?;
        let (_, certificate) = X509Certificate::from_der(&block.bytes).ok()?;
        Some(certificate.validity().not_after.timestamp())
    };
    ends().is_some_and(|ends| now > ends)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use rkube_operator::Item;
    use serde_json::{Value, json};

    use super::*;
    use crate::certificate_requests::read;

    const HOUR: i64 = 3600;
    const NOW: i64 = 1_800_000_000;

    fn request(created_before: i64, status: Value) -> Request {
        let created = rkube_machinery::time::format_seconds(NOW - created_before);
        let object = json!({
            "metadata": { "name": "a", "creationTimestamp": created },
            "spec": { "signerName": "x/y" },
            "status": status,
        });
        let json = Bytes::from(object.to_string());
        let item = Item { namespace: "".into(), name: "a".into(), uid: "1".into(), revision: 1, json };
        read(&item).unwrap()
    }

    fn answered(kind: &str, before: i64, certificate: &str) -> Value {
        let at = rkube_machinery::time::format_seconds(NOW - before);
        json!({ "certificate": certificate, "conditions": [{ "type": kind, "status": "True", "lastUpdateTime": at }] })
    }

    #[test]
    fn answers_are_kept_an_hour_and_open_questions_a_day() {
        let table = [
            (json!({}), 23 * HOUR, false),
            (json!({}), 25 * HOUR, true),
            (answered("Approved", 0, ""), 30 * HOUR, false),
            (answered("Approved", 2 * HOUR, ""), 30 * HOUR, false),
            (answered("Approved", 25 * HOUR, ""), 30 * HOUR, true),
            (answered("Approved", HOUR, "AA=="), 30 * HOUR, false),
            (answered("Approved", HOUR + 1, "AA=="), 30 * HOUR, true),
            (answered("Denied", HOUR, ""), 30 * HOUR, false),
            (answered("Denied", HOUR + 1, ""), 30 * HOUR, true),
            (answered("Failed", HOUR + 1, ""), 30 * HOUR, true),
            (answered("Other", 30 * HOUR, ""), 30 * HOUR, false),
            (json!({ "conditions": [{ "type": "Denied" }] }), 30 * HOUR, false),
        ];
        for (status, created_before, expected) in table {
            let found = is_useless(&request(created_before, status.clone()), NOW);
            assert_eq!(found, expected, "{status} {created_before}");
        }
    }
}
