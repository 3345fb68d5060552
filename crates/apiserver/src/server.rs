//! The server as a whole: its configuration, its parts, and how they come up.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rkube_access::authenticate::service_account::Signer;
use rkube_access::authenticate::{Authenticators, TokenFile};
use rkube_access::authorize::Authorizers;
use rkube_access::{User, UserRef};
use rkube_admission::{Chain, Plugin, plugins, webhooks};
use rkube_catalog::Catalog;
use rkube_kinds::Kind;
use rkube_machinery::host::{Clock, Entropy};
use rkube_machinery::names::address::Subnet;
use rkube_store::Store;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::allocation::default_range::DefaultRange;
use crate::allocation::repair::{self, Repair};
use crate::allocation::{Allocation, Ranges};
use crate::bootstrap;
use crate::definitions;
use crate::features::Features;
use crate::health::Probe;
use crate::identity_lease;
use crate::limits::{InFlightMax, Limits};
use crate::metrics::Metrics;
use crate::openapi::OpenApi;
use crate::registry::{Component, Engine};

/// How long the end waits for the server's lease to be removed.
const FINISH_TIMEOUT: Duration = Duration::from_secs(2);

/// What a server is made from.
pub struct Config {
    pub store: Arc<dyn Store>,
    /// Whether writes of other processes reach the store (etcd): then the cache may lag behind it.
    pub store_is_shared: bool,
    pub clock: Arc<dyn Clock>,
    pub entropy: Arc<dyn Entropy>,
    pub kinds: Vec<Arc<Kind>>,
    pub features: Features,
    pub in_flight_max: InFlightMax,
    pub token_file: TokenFile,
    /// PEM of the key that signs the tokens of service accounts.
    pub service_account_key: String,
    /// From where services get their addresses: one range, or one of each family with that of the default family first.
    pub service_ranges: Vec<Subnet>,
    pub node_ports: std::ops::RangeInclusive<u16>,
    /// Where the `kubernetes` service's endpoints are, and the port they listen on.
    pub advertise: (IpAddr, u16),
    /// This host, in the name of the server's identity.
    pub host_name: String,
    /// The other parts of the control plane, for those who ask how they are.
    pub components: Vec<Component>,
    /// Whether the log can be written.
    pub log: Probe,
}

pub struct ApiServer {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) admission: Chain,
    pub(crate) allocation: Allocation,
    pub(crate) engine: Engine,
    pub(crate) limits: Limits,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) openapi: OpenApi,
    pub(crate) authenticators: Authenticators,
    pub(crate) authorizers: Arc<Authorizers>,
    /// Signs the tokens of service accounts.
    pub(crate) signer: Option<Arc<Signer>>,
    pub(crate) features: Features,
    /// True once the server takes no more work: watches end.
    pub(crate) draining: watch::Sender<bool>,
    pub(crate) advertise: (IpAddr, u16),
    pub(crate) host_name: String,
    pub(crate) components: Vec<Component>,
    pub(crate) log: Probe,
    /// Who the server is in requests of its own.
    pub(crate) itself: UserRef,
    /// Keeps the server's lease.
    identity: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read the store: {0}")]
    Store(String),
    #[error("{0}")]
    Configuration(String),
    #[error("cannot make the first objects: {0}")]
    Bootstrap(String),
}

impl ApiServer {
    /// Reads the store, makes what every cluster has, and is ready to be asked.
    pub async fn start(config: Config) -> Result<Arc<ApiServer>, Error> {
        ApiServer::start_with(config, Vec::new()).await
    }

    /// `plugins`: more of them, asked after those that there are.
    pub(crate) async fn start_with(config: Config, plugins: Vec<Box<dyn Plugin>>) -> Result<Arc<ApiServer>, Error> {
        let ranges = Ranges::new(&config.service_ranges, config.node_ports).map_err(Error::Configuration)?;
        let signer = match config.service_account_key.as_str() {
            "" => None,
            pem => Some(Arc::new(Signer::new(pem).map_err(Error::Configuration)?)),
        };
        let catalog = Catalog::start(config.store.clone(), &config.kinds, config.clock.clone()).await;
        let catalog = catalog.map_err(|error| Error::Store(error.to_string()))?;
        let allocation = Allocation::new(ranges);
        let authenticators = Authenticators::new(config.token_file, signer.clone(), &catalog, &config.clock);
        let authorizers = Arc::new(Authorizers::default());
        let mut chain = plugins::all(&catalog.snapshot(), &config.entropy, &authorizers);
        let metrics = Arc::new(Metrics::default());
        chain.extend(webhooks::plugins(&catalog, &authorizers, &config.entropy, &metrics.admission));
        chain.extend(plugins);
        let engine = Engine::new(config.store.clone(), config.clock.clone(), config.store_is_shared);
        let server = Arc::new(ApiServer {
            admission: Chain::new(chain),
            store: config.store,
            clock: config.clock,
            entropy: config.entropy,
            allocation,
            engine,
            limits: Limits::new(config.in_flight_max),
            metrics,
            openapi: OpenApi::default(),
            authenticators,
            authorizers,
            signer,
            features: config.features,
            catalog,
            draining: watch::Sender::new(false),
            advertise: config.advertise,
            host_name: config.host_name,
            components: config.components,
            log: config.log,
            itself: Arc::new(User::apiserver()),
            identity: Mutex::default(),
        });
        let mut range = DefaultRange::default();
        bootstrap::run(&server, &mut range).await.map_err(|status| Error::Bootstrap(status.message))?;
        definitions::start(&server).await;
        let mut repair = Repair::default();
        repair.services(&server).await;
        tokio::spawn(repair::run(Arc::downgrade(&server), repair));
        tokio::spawn(bootstrap::keep(Arc::downgrade(&server), range));
        *server.identity.lock() = Some(tokio::spawn(identity_lease::keep(Arc::downgrade(&server))));
        Ok(server)
    }

    /// Ends watches and lets clients go elsewhere. Requests under way are answered.
    pub fn drain(&self) {
        self.draining.send_replace(true);
    }

    /// The last thing that the server does, once its clients are gone: takes leave of the others. The store may end then.
    pub async fn finish(&self) {
        self.drain();
        let identity = self.identity.lock().take();
        if let Some(identity) = identity {
            // What is left behind when this takes too long runs out by itself.
            let _ = tokio::time::timeout(FINISH_TIMEOUT, identity).await;
        }
        self.catalog.cache().close();
    }

    pub(crate) fn is_draining(&self) -> bool {
        *self.draining.borrow()
    }
}
