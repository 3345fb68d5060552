//! Webhooks that admit requests. What one adds to a create is compared with what the same question takes over a kept
//! connection without a server in between.

use std::time::Duration;

use anyhow::Result;
use base64::Engine as _;
use http::Method;
use serde_json::json;

use super::servers::{Limit, Rkube};
use super::work::{self, Sizes};
use super::{Suite, best, latencies, progress, round_name};
use crate::client::{Call, Server};
use crate::figures::{self, Unit};
use crate::load::{self, Load, Measured};
use crate::objects;

const CONFIGURATIONS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
/// Where the webhook is asked.
const HOOKED: &str = "hooked";
/// Where it is not.
const PLAIN: &str = "plain";
/// So many webhooks want something else.
const OTHERS: usize = 100;

pub async fn run(suite: &mut Suite) -> Result<()> {
    if !suite.wants(&figures::WEBHOOK) && !suite.wants(&figures::CREATE_BESIDE_WEBHOOKS) {
        return Ok(());
    }
    // Without a disk, whose turns would hide what is measured.
    let rkube = Rkube::start(suite, "webhooks", &["--store", "memory"]).await?;
    let limit = Limit::start(suite, &Sizes { object: 1, pod: 1, event: 1, small_event: 1 }).await?;
    for namespace in [HOOKED, PLAIN] {
        work::prepare(&rkube.server, namespace).await?;
    }
    beside(suite, &rkube.server).await?;
    called(suite, &rkube.server, &limit).await
}

async fn beside(suite: &mut Suite, server: &Server) -> Result<()> {
    let work = &figures::CREATE_BESIDE_WEBHOOKS;
    let load = Load::of(64, suite.duration);
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for round in 0..suite.rounds {
        server.once(Call { method: Method::DELETE, ..Call::get(CONFIGURATIONS) }).await?;
        before.push(load::drive(server, load, work::create(PLAIN, &format!("before-{round}"))).await?);
        for index in 0..OTHERS {
            let client = json!({"url": "https://127.0.0.1:1/none"});
            let body = configuration(&format!("other-{index}"), client, "secrets", json!({}));
            server.once(Call::post(CONFIGURATIONS, body)).await?;
        }
        after.push(load::drive(server, load, work::create(PLAIN, &format!("after-{round}"))).await?);
    }
    let [before, after] = [before, after].map(|all| best(work.unit, &all));
    progress(&format!("{}: {:.0} of {:.0}", work.name, after.rate(), before.rate()));
    suite.row(work, after.rate(), Some(before.rate()), format!("beside the rate without them; {}", latencies(&after)));
    Ok(())
}

async fn called(suite: &mut Suite, server: &Server, limit: &Limit) -> Result<()> {
    let work = &figures::WEBHOOK;
    let bundle = base64::engine::general_purpose::STANDARD.encode(std::fs::read(&limit.certificate)?);
    let client = json!({"url": format!("https://{}/admit", limit.address), "caBundle": bundle});
    let selector = json!({"matchLabels": {"kubernetes.io/metadata.name": HOOKED}});
    server.once(Call::post(CONFIGURATIONS, configuration("hooked", client, "configmaps", selector))).await?;
    let load = Load::of(1, suite.duration);
    let mut measured = [Vec::new(), Vec::new(), Vec::new()];
    for round in 0..suite.rounds {
        let name = round_name(work, round);
        measured[0].push(load::drive(server, load, work::create(HOOKED, &name)).await?);
        measured[1].push(load::drive(server, load, work::create(PLAIN, &name)).await?);
        let question = objects::review();
        measured[2].push(load::drive(&limit.server, load, move |_, _| Call::post("/admit", question.clone())).await?);
    }
    let [hooked, plain, bare] = measured.map(|all| median(&best(Unit::PerSecond, &all)));
    let added = hooked.saturating_sub(plain).as_secs_f64() * 1e6;
    let note = format!("creates of {hooked:?} and {plain:?}, medians");
    progress(&format!("{}: {added:.0} µs, bare {bare:?}", work.name));
    suite.row(work, added, Some(bare.as_secs_f64() * 1e6), note);
    Ok(())
}

fn median(measured: &Measured) -> Duration {
    Duration::from_micros(u64::from(measured.median_micros))
}

/// A configuration of one webhook for objects of a core resource that are made.
fn configuration(name: &str, client: serde_json::Value, resource: &str, namespaces: serde_json::Value) -> String {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [{
            "name": "hook.example.com", "clientConfig": client, "sideEffects": "None",
            "admissionReviewVersions": ["v1"], "namespaceSelector": namespaces,
            "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": [resource]}],
        }],
    })
    .to_string()
}
