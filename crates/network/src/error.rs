//! What goes wrong, in the words that people are told.

use rkube_machinery::names::address::Subnet;
use rkube_runtime::api;

use crate::netlink;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("{0}")]
    Kernel(#[from] netlink::Error),
    #[error("no address of {range} is free for another pod")]
    Exhausted { range: Subnet },
    #[error("host port {port} is used by another pod")]
    PortTaken { port: String },
    #[error("the network namespace of sandbox {sandbox} cannot be entered: {source}")]
    Namespace { sandbox: String, source: std::io::Error },
    #[error("the network namespace of sandbox {sandbox} is the host's own")]
    HostNamespace { sandbox: String },
    #[error("{id:?} cannot be the id of a sandbox")]
    BadId { id: String },
    #[error("cannot keep what the network of pods is: {path}: {source}")]
    Record { path: String, source: std::io::Error },
    #[error("pods can have no network of their own: {0}")]
    Problem(String),
    #[error("host ports need nftables: {0}")]
    NoRules(String),
    #[error("another rkube has the network of pods on this host: stop that one first")]
    Claimed,
    #[error("the network of pods has ended")]
    Ended,
}

impl From<Error> for api::Error {
    fn from(error: Error) -> api::Error {
        let text = error.to_string();
        match error {
            Error::Claimed => api::Error::WrongState(text),
            Error::Problem(_) | Error::NoRules(_) => api::Error::Unsupported(text),
            Error::PortTaken { .. } | Error::BadId { .. } | Error::HostNamespace { .. } => {
                api::Error::CreateFailed(text)
            }
            _ => api::Error::Internal(text),
        }
    }
}
