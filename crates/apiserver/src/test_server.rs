//! A whole server for tests, on a store in memory, whose clock stands still.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use base64::Engine as _;
use bytes::Bytes;
use http::{Method, StatusCode};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use rkube_access::authenticate::service_account::TokenOptions;
use rkube_access::authorize::Mode;
use rkube_admission::Plugin;
use rkube_machinery::Status;
use rkube_machinery::host::{Clock, Entropy};

use crate::health::Probe;
use crate::internal_client::InternalClient;
use crate::server::{ApiServer, Config};

struct Hands(AtomicI64);

impl Clock for Hands {
    fn now_micros(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

struct Counter(AtomicI64);

impl Entropy for Counter {
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill(self.0.fetch_add(1, Ordering::Relaxed) as u8);
    }
}

pub async fn server() -> Arc<ApiServer> {
    ApiServer::start(config()).await.unwrap()
}

/// A server with one more admission plugin, and a key for tokens.
pub async fn server_with(plugin: Box<dyn Plugin>) -> Arc<ApiServer> {
    let tokens = TokenOptions { signing_key: signing_key(), ..TokenOptions::default() };
    let config = Config { tokens, ..config() };
    ApiServer::start_with(config, vec![plugin]).await.unwrap()
}

/// A server whose log is so.
pub async fn server_with_log(log: Probe) -> Arc<ApiServer> {
    ApiServer::start(Config { log, ..config() }).await.unwrap()
}

/// Sends a request as the server itself.
pub async fn ask(
    server: &ApiServer,
    method: Method,
    path: &str,
    content_type: &'static str,
    body: Bytes,
) -> Result<(StatusCode, Bytes), Status> {
    let client = InternalClient::new(&server.road, server.road.registry.itself.clone());
    client.ask(method, path, content_type, body).await
}

fn signing_key() -> String {
    let key = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new()).unwrap();
    let text = base64::engine::general_purpose::STANDARD.encode(key);
    format!("-----BEGIN PRIVATE KEY-----\n{text}\n-----END PRIVATE KEY-----\n")
}

/// What such a server is made from.
pub fn config() -> Config {
    Config {
        store: Arc::new(rkube_store::Memory::new()),
        store_is_shared: false,
        clock: Arc::new(Hands(AtomicI64::new(0))),
        entropy: Arc::new(Counter(AtomicI64::new(0))),
        kinds: rkube_kinds::all().to_vec(),
        features: crate::features::Features::default(),
        token_file: rkube_access::authenticate::TokenFile::default(),
        bootstrap_tokens: false,
        anonymous: true,
        client_authority: "authority".to_owned(),
        tokens: TokenOptions::default(),
        service_ranges: vec![rkube_machinery::names::address::Subnet::parse_sloppy("10.96.0.0/12").unwrap()],
        node_ports: 30000..=32767,
        advertise: (None, 6443),
        host_name: "host".to_owned(),
        in_flight_max: crate::limits::InFlightMax::default(),
        components: Vec::new(),
        log: Arc::new(|| Ok(())),
        kubelet: crate::kubelet::KubeletClient::default(),
        disabled_plugins: Vec::new(),
        authorization: vec![Mode::Node, Mode::Rbac],
    }
}
