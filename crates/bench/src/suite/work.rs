//! The requests of each kind of work, and what has to be there for them.

use std::time::Duration;

use anyhow::{Context, Result};
use bytes::Bytes;
use http::Method;
use serde_json::Value;

use crate::client::{Call, JSON, MERGE_PATCH, PROTOBUF, Server};
use crate::load::{self, Load};
use crate::objects::{self, PAGE, PODS};

/// Where the whole run writes.
pub const NAMESPACE: &str = "bench";
/// Objects that are read and patched: one for each request in flight.
const KNOWN: usize = 64;

pub fn create(namespace: &str, round: &str) -> impl Fn(usize, usize) -> Call + Send + Sync + use<> {
    let (path, round) = (format!("/api/v1/namespaces/{namespace}/configmaps"), round.to_owned());
    move |worker, turn| Call::post(path.clone(), objects::config_map(&format!("{round}-{worker}-{turn}")))
}

pub fn create_small(namespace: &str, round: &str) -> impl Fn(usize, usize) -> Call + Send + Sync + use<> {
    let (path, round) = (format!("/api/v1/namespaces/{namespace}/configmaps"), round.to_owned());
    move |worker, turn| Call::post(path.clone(), objects::small_config_map(&format!("{round}-{worker}-{turn}")))
}

pub fn patch(namespace: &str) -> impl Fn(usize, usize) -> Call + Send + Sync + use<> {
    let path = format!("/api/v1/namespaces/{namespace}/configmaps/known");
    // Another number each time, in every round: a patch that changes nothing is no write.
    let start = std::process::id() as usize;
    move |worker, turn| Call {
        method: Method::PATCH,
        path: format!("{path}-{}", worker % KNOWN),
        content_type: MERGE_PATCH,
        accept: JSON,
        body: objects::config_map_patch(start.wrapping_add(turn)),
    }
}

pub fn get(namespace: &str) -> impl Fn(usize, usize) -> Call + Send + Sync + use<> {
    let path = format!("/api/v1/namespaces/{namespace}/configmaps/known");
    move |worker, turn| Call::get(format!("{path}-{}", (worker + turn) % KNOWN))
}

pub fn create_pod(namespace: &str, round: &str) -> impl Fn(usize, usize) -> Call + Send + Sync + use<> {
    let (path, round) = (format!("/api/v1/namespaces/{namespace}/pods"), round.to_owned());
    move |worker, turn| Call::post(path.clone(), objects::pod(&format!("{round}-{worker}-{turn}")))
}

pub fn list(namespace: &str) -> impl Fn(usize, usize) -> Call + Send + Sync + use<> {
    let path = pods(namespace);
    move |_, _| Call::get(path.clone())
}

pub fn list_protobuf(namespace: &str) -> impl Fn(usize, usize) -> Call + Send + Sync + use<> {
    let path = pods(namespace);
    move |_, _| Call { accept: PROTOBUF, ..Call::get(path.clone()) }
}

pub fn list_page(namespace: &str) -> impl Fn(usize, usize) -> Call + Send + Sync + use<> {
    let path = format!("{}?limit={PAGE}", pods(namespace));
    move |_, _| Call::get(path.clone())
}

fn pods(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/pods")
}

/// A namespace that takes pods, with a few objects to read.
pub async fn prepare(server: &Server, namespace: &str) -> Result<()> {
    server.once(Call::post("/api/v1/namespaces", objects::namespace(namespace))).await?;
    for index in 0..KNOWN {
        let path = format!("/api/v1/namespaces/{namespace}/configmaps");
        server.once(Call::post(path, objects::config_map(&format!("known-{index}")))).await?;
    }
    for namespace in [namespace, "default"] {
        wait_for_account(server, namespace).await?;
    }
    Ok(())
}

/// Pods are refused until their namespace has its service account.
async fn wait_for_account(server: &Server, namespace: &str) -> Result<()> {
    let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/default");
    let there = async {
        while server.once(Call::get(path.clone())).await.is_err() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), there).await.context("no service account appears")
}

pub async fn fill_with_pods(server: &Server, namespace: &str) -> Result<()> {
    let load = Load { count: PODS, ..Load::of(64, Duration::from_secs(100)) };
    let made = load::drive(server, load, create_pod(namespace, "listed")).await?;
    anyhow::ensure!(made.requests == PODS, "only {} pods could be made in time", made.requests);
    Ok(())
}

pub async fn resource_version(server: &Server, namespace: &str) -> Result<String> {
    let path = format!("/api/v1/namespaces/{namespace}/configmaps?limit=1");
    let list: Value = serde_json::from_slice(&server.once(Call::get(path)).await?)?;
    Ok(list["metadata"]["resourceVersion"].as_str().context("a list without a version")?.to_owned())
}

/// How long our answers are, so that the limit's are as long.
pub struct Sizes {
    pub object: usize,
    pub pod: usize,
    pub event: usize,
    pub small_event: usize,
}

pub async fn sizes(server: &Server) -> Result<Sizes> {
    let get = |path: String| server.once(Call::get(path));
    let object = get(format!("/api/v1/namespaces/{NAMESPACE}/configmaps/known-0")).await?.len();
    let path = format!("/api/v1/namespaces/{NAMESPACE}/configmaps");
    let small = server.once(Call::post(path, objects::small_config_map("small"))).await?.len();
    let list: Bytes = get(pods(NAMESPACE)).await?;
    // `{"type":"ADDED","object":` before it, `}` after it.
    Ok(Sizes { object, pod: list.len() / PODS, event: object + 27, small_event: small + 27 })
}
