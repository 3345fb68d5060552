//! How soon what is to go is gone: the dependents of an owner, the content of a namespace.

use std::time::Duration;

use anyhow::{Context, Result};
use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::servers::Rkube;
use super::{Suite, progress, work};
use crate::client::{Call, Connection, JSON, Protocol, Server};
use crate::figures;
use crate::load::{self, Load};

const DEPENDENTS: usize = 10_000;
const OBJECTS: usize = 2_000;
/// Nothing here takes so long.
const TIMEOUT: Duration = Duration::from_secs(100);
/// How often it is asked whether all is gone.
const POLL: Duration = Duration::from_millis(5);

pub async fn run(suite: &mut Suite) -> Result<()> {
    if !suite.wants(&figures::DEPENDENTS) && !suite.wants(&figures::NAMESPACE) {
        return Ok(());
    }
    let rkube = Rkube::start(suite, "garbage", &[]).await?;
    if suite.wants(&figures::DEPENDENTS) {
        let milliseconds = dependents(&rkube.server).await?;
        progress(&format!("{}: {milliseconds:.0} ms", figures::DEPENDENTS.name));
        suite.row(&figures::DEPENDENTS, milliseconds, None, "from the delete to an empty list".to_owned());
    }
    if suite.wants(&figures::NAMESPACE) {
        let milliseconds = namespace(&rkube.server).await?;
        progress(&format!("{}: {milliseconds:.0} ms", figures::NAMESPACE.name));
        suite.row(&figures::NAMESPACE, milliseconds, None, "ConfigMaps of 1 kB".to_owned());
    }
    Ok(())
}

/// How many milliseconds it takes until the dependents of an owner are gone.
async fn dependents(server: &Server) -> Result<f64> {
    let path = "/api/v1/namespaces/default/configmaps";
    let owner = server.once(Call::post(path, json!({ "metadata": { "name": "owner" } }).to_string())).await?;
    let owner: Value = serde_json::from_slice(&owner)?;
    let uid = owner["metadata"]["uid"].as_str().context("an object without a uid")?.to_owned();
    let make = move |worker: usize, turn: usize| {
        let owners = json!([{ "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid }]);
        let labels = json!({ "role": "dependent" });
        let metadata = json!({ "name": format!("d-{worker}-{turn}"), "labels": labels, "ownerReferences": owners });
        Call::post(path, json!({ "metadata": metadata, "data": { "a": "b" } }).to_string())
    };
    fill(server, DEPENDENTS, make).await?;
    let begun = Instant::now();
    server.once(delete(format!("{path}/owner"))).await?;
    let mut connection = server.connect(Protocol::Http1).await?;
    until(async || {
        let list = answer(&mut connection, format!("{path}?labelSelector=role%3Ddependent&limit=1")).await?.1;
        Ok(serde_json::from_slice::<Value>(&list)?["items"].as_array().is_some_and(Vec::is_empty))
    })
    .await?;
    Ok(begun.elapsed().as_secs_f64() * 1e3)
}

/// How many milliseconds it takes until a namespace with objects is gone.
async fn namespace(server: &Server) -> Result<f64> {
    const NAME: &str = "crowded";
    server.once(Call::post("/api/v1/namespaces", json!({ "metadata": { "name": NAME } }).to_string())).await?;
    fill(server, OBJECTS, work::create(NAME, "content")).await?;
    let begun = Instant::now();
    let path = format!("/api/v1/namespaces/{NAME}");
    server.once(delete(path.clone())).await?;
    let mut connection = server.connect(Protocol::Http1).await?;
    until(async || Ok(answer(&mut connection, path.clone()).await?.0 == 404)).await?;
    Ok(begun.elapsed().as_secs_f64() * 1e3)
}

async fn fill<F>(server: &Server, count: usize, make: F) -> Result<()>
where
    F: Fn(usize, usize) -> Call + Send + Sync + 'static,
{
    let made = load::drive(server, Load { count, ..Load::of(64, TIMEOUT) }, make).await?;
    anyhow::ensure!(made.requests == count, "only {} objects could be made in time", made.requests);
    Ok(())
}

fn delete(path: String) -> Call {
    Call { method: Method::DELETE, path, content_type: JSON, accept: JSON, body: Bytes::new() }
}

async fn answer(connection: &mut Connection, path: String) -> Result<(u16, Bytes)> {
    use http_body_util::BodyExt as _;
    let answer = connection.send(&Call::get(path)).await?;
    let status = answer.status().as_u16();
    Ok((status, answer.into_body().collect().await?.to_bytes()))
}

async fn until(mut is_done: impl AsyncFnMut() -> Result<bool>) -> Result<()> {
    let waiting = async {
        while !is_done().await? {
            tokio::time::sleep(POLL).await;
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(TIMEOUT, waiting).await.context("it is not gone in time")?
}
