//! Calls of webhooks: where they are, whom to trust, and what is said when a call fails.

mod client;
mod error;
mod resolve;
#[cfg(test)]
pub(crate) mod test_server;
#[cfg(test)]
mod tests;
mod tls;

pub use client::{Client, Limits, TIMEOUT};
pub use error::CallError;
pub use resolve::{Address, Resolver, ServiceResolver};

/// What Go's client says of connections that fail: for others who connect to somebody on a client's behalf.
pub mod words {
    pub use super::client::http_words as http;
    pub use super::error::{dial_words as dial, lookup_words as lookup, read_words as read};
    pub use super::tls::words as tls;
}

use rkube_machinery::Value;
use rkube_machinery::decode::base64;

/// What a definition or a configuration says under `clientConfig`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientConfig {
    pub target: Target,
    /// PEM. Without any the machine's own authorities are trusted.
    pub ca_bundle: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    Url(String),
    Service { namespace: String, name: String, path: String, port: u16 },
}

/// Where a service listens that does not say it.
const SERVICE_PORT: u16 = 443;

impl ClientConfig {
    /// What was validated before is read here.
    pub fn read(config: &Value) -> ClientConfig {
        // A bundle of nothing but white space counts as none.
        let ca_bundle = base64::decode(config.str("caBundle").as_bytes()).unwrap_or_default().trim_ascii().to_vec();
        let service = config.get("service");
        let target = match service {
            Value::Null => Target::Url(config.str("url").to_owned()),
            service => Target::Service {
                namespace: service.str("namespace").to_owned(),
                name: service.str("name").to_owned(),
                path: service.str("path").to_owned(),
                port: u16::try_from(service.int("port")).ok().filter(|port| *port > 0).unwrap_or(SERVICE_PORT),
            },
        };
        ClientConfig { target, ca_bundle }
    }
}
