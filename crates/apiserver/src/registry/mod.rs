//! What happens to objects: one file per verb. Every write goes the same way, whoever asks:
//! decode → default → mutate (admission) → prepare → validate → validate (admission) → store.
//!
//! A [`Request`] comes in and nothing changes it, a [`Write`] gathers what one write needs to know, a [`Reply`] goes back.
//! Handlers get these and the [`Registry`]: the parts of the server that objects are read and written with.

mod admit;
mod body_type;
pub mod change;
mod components;
mod continue_token;
mod create;
mod decode;
mod delete;
mod engine;
mod escalation;
mod internal_write;
mod list;
mod list_body;
mod metadata;
mod read;
mod reply;
mod request;
mod review;
mod review_selectors;
mod selected;
mod subresource;
mod update;
mod watch;
mod write;

use std::sync::Arc;

use bytes::Bytes;
use rkube_access::UserRef;
use rkube_access::authenticate::Authenticators;
use rkube_access::authenticate::service_account::Signer;
use rkube_access::authorize::Authorizers;
use rkube_admission::Chain;
use rkube_catalog::Catalog;
use rkube_kinds::kind::Part;
use rkube_machinery::Status;
use rkube_machinery::host::{Clock, Entropy};
use rkube_store::Store;

pub use body_type::{internal_group, internal_package};
pub use components::Component;
pub use engine::Engine;
use engine::store_error;
pub use internal_write::{AGENT, InternalWriter};
pub use reply::Reply;
pub use request::Request;
pub use subresource::Turns;
use write::Write;

use crate::allocation::Allocation;
use crate::content::Answer;
use crate::kubelet::KubeletClient;
use crate::metrics::Metrics;
use crate::nodes::Nodes;
use crate::proxy::Proxy;

/// The parts of the server that requests on objects are answered with.
pub struct Registry {
    pub catalog: Arc<Catalog>,
    pub engine: Engine,
    pub admission: Chain,
    pub allocation: Allocation,
    pub clock: Arc<dyn Clock>,
    pub entropy: Arc<dyn Entropy>,
    /// For those who ask how it is. Objects are read and written through the catalog and the engine.
    pub store: Arc<dyn Store>,
    pub components: Vec<Component>,
    pub nodes: Arc<Nodes>,
    /// How nodes are found that nobody in this process has.
    pub kubelet: KubeletClient,
    /// How requests are passed on to them.
    pub proxy: Arc<Proxy>,
    /// For reviews of tokens.
    pub authenticators: Arc<Authenticators>,
    /// For reviews of access.
    pub authorizers: Arc<Authorizers>,
    /// Signs the tokens of service accounts.
    pub signer: Option<Arc<Signer>>,
    pub metrics: Arc<Metrics>,
    /// Who may take from a budget now.
    pub evictions: Turns,
    /// Whether watches may begin with a list.
    pub watch_list: bool,
    /// True once the server takes no more work: watches end.
    pub draining: tokio::sync::watch::Receiver<bool>,
    /// Who the server is in writes of its own.
    pub itself: UserRef,
}

impl Registry {
    /// Does what the request asks for.
    pub async fn answer(&self, request: &Request<'_>, body: Bytes) -> Reply {
        let kind = &request.served.kind;
        let verb = request.info.verb.as_ref();
        let mut warnings = Vec::new();
        if !kind.deprecation.is_empty() && kind.allows(if verb == "watch" { "list" } else { verb }) {
            warnings.push(kind.deprecation.to_string());
        }
        if let Err(status) = request.check_verb() {
            return Reply { answer: Err(status), warnings };
        }
        if matches!(verb, "get" | "list" | "watch") && request.part != Part::Other("log") {
            return Reply { answer: self.read(request).await, warnings };
        }
        let mut write = Write::new(self, request, warnings);
        let answer = write.run(&body).await;
        Reply { answer, warnings: write.warnings }
    }

    async fn read(&self, request: &Request<'_>) -> Result<Answer, Status> {
        match request.info.verb.as_ref() {
            "watch" => watch::watch(self, request).await,
            _ if request.part == Part::Other("scale") => subresource::get_scale(self, request).await,
            _ if request.served.cache.is_none() => components::answer(self, request).await,
            "list" => list::list(self, request).await,
            _ => read::get(self, request).await,
        }
    }
}

impl Write<'_> {
    async fn run(&mut self, body: &Bytes) -> Result<Answer, Status> {
        let Request { served, info, part, .. } = *self.request;
        let verb = info.verb.as_ref();
        if let Part::Other(name) = part {
            if name == "log" {
                return self.log().await;
            }
            if name == "scale" {
                return self.scale(body).await;
            }
            if verb == "create" {
                return self.create_subresource(name, body).await;
            }
        }
        let written = match verb {
            "create" if served.kind.resource == "bindings" => return self.bind_named(body).await,
            "create" if served.cache.is_none() => return self.review(body).await,
            "create" => self.create(body).await?,
            "update" => self.update(body).await?,
            "patch" => self.patch(body).await?,
            "delete" => return self.delete(body).await,
            "deletecollection" => return self.delete_collection(body).await,
            _ => return Err(Status::method_not_allowed()),
        };
        self.request.written_answer(&written, self.now()).await
    }
}

pub fn cache_error(error: rkube_catalog::Error) -> Status {
    match error {
        rkube_catalog::Error::Store(error) => store_error(error),
        rkube_catalog::Error::Behind { wanted, current } => Status::too_large_resource_version(wanted, current),
    }
}
