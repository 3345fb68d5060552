//! The server as a whole: its configuration, its parts, and how they come up.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use http::Request;
use parking_lot::Mutex;
use rkube_access::authenticate::certificate::{Authority, Proof};
use rkube_access::authenticate::service_account::{LegacyClaims, OnLegacyUse, Signer, TokenOptions};
use rkube_access::authenticate::{Authenticators, Options, TokenFile};
use rkube_access::authorize::{Authorizers, Mode};
use rkube_access::impersonate::Impersonation;
use rkube_access::{User, UserRef};
use rkube_admission::quota::{self, QuotasHandle, ResourceQuota};
use rkube_admission::{Chain, Plugin, plugins, webhooks};
use rkube_catalog::Catalog;
use rkube_kinds::Kind;
use rkube_machinery::host::{Clock, Entropy};
use rkube_machinery::names::address::Subnet;
use rkube_store::Store;
use rustls::pki_types::CertificateDer;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::allocation::{Allocation, Ranges};
use crate::bootstrap::{self, Bootstrap};
use crate::content::Answer;
use crate::default_range::DefaultRange;
use crate::definitions::{self, DefinitionWriter};
use crate::endpoints::{self, Member, Membership};
use crate::features::Features;
use crate::health::{Health, Probe};
use crate::identity_lease;
use crate::internal_client::InternalClient;
use crate::kubelet::KubeletClient;
use crate::legacy_tokens;
use crate::limits::{InFlightMax, Limits};
use crate::metrics::Metrics;
use crate::node_metrics::{Asker, NodeMetrics};
use crate::nodes::{NodeProvider, Nodes};
use crate::openapi::OpenApi;
use crate::openid;
use crate::proxy::{KubeletTls, Proxy};
use crate::registry::{Component, Engine, Registry, Turns};
use crate::repair::{self, Repair};
use crate::resource_metrics::Sources;
use crate::stages::{Pages, Road};

/// How long the end waits for the server's lease and endpoint to be removed.
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
    /// Whether Secrets of type `bootstrap.kubernetes.io/token` in `kube-system` hold tokens by which nodes join.
    pub bootstrap_tokens: bool,
    /// Who decides what users may do, in this order.
    pub authorization: Vec<Mode>,
    /// Whether requests without credentials are `system:anonymous`; otherwise they are refused.
    pub anonymous: bool,
    /// PEM of the authority whose client certificates are taken.
    pub client_authority: String,
    /// The tokens of service accounts.
    pub tokens: TokenOptions,
    /// From where services get their addresses: one range, or one of each family with that of the default family first.
    pub service_ranges: Vec<Subnet>,
    pub node_ports: std::ops::RangeInclusive<u16>,
    /// Where others reach this server: its address among the endpoints of the service `kubernetes`, and its port. Without
    /// an address there are no such endpoints.
    pub advertise: (Option<IpAddr>, u16),
    /// This host, in the name of the server's identity.
    pub host_name: String,
    /// The other parts of the control plane, for those who ask how they are.
    pub components: Vec<Component>,
    /// Whether the log can be written.
    pub log: Probe,
    /// How the server reaches nodes.
    pub kubelet: KubeletClient,
    /// Admission plugins to do without, by name. Names that there are none of change nothing.
    pub disabled_plugins: Vec<String>,
}

pub struct ApiServer {
    pub(crate) road: Arc<Road>,
    /// True once the server takes no more work: watches end.
    draining: watch::Sender<bool>,
    /// Lives as long as the server, so that the task that serves custom resources does.
    _definitions: Arc<DefinitionWriter>,
    /// Those who say that the server is there, and take that back at its end.
    presence: Mutex<Vec<JoinHandle<()>>>,
    client_authority: Authority,
    features: Features,
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
    pub(crate) async fn start_with(mut config: Config, plugins: Vec<Box<dyn Plugin>>) -> Result<Arc<ApiServer>, Error> {
        let draining = watch::Sender::new(false);
        let client_authority = std::mem::take(&mut config.client_authority);
        let authority = Authority::new(&client_authority);
        let ((address, port), host, alone) = (config.advertise, config.host_name.clone(), !config.store_is_shared);
        let features = config.features;
        config.kinds = rkube_kinds::gated(std::mem::take(&mut config.kinds), &features.of_kinds());
        let (on_legacy_use, legacy_uses) = legacy_tokens::channel();
        let quotas = QuotasHandle::default();
        let registry = registry(&mut config, plugins, on_legacy_use, &quotas, draining.subscribe()).await?;
        let registry = Arc::new(registry);
        let charging: Weak<Registry> = Arc::downgrade(&registry);
        quotas.get_or_init(|| charging);
        let road = Arc::new(road(config, &registry));
        let client = InternalClient::new(&road, registry.itself.clone());
        let allocation = &registry.allocation;
        let service = bootstrap::kubernetes_service(&allocation.first_address(), port);
        let mut range = DefaultRange::new(allocation.cidrs());
        let bootstrap = Bootstrap { client: client.clone(), service, client_authority, features };
        let made = bootstrap.run(&registry, &mut range).await;
        made.map_err(|status| Error::Bootstrap(status.message))?;
        let definitions = Arc::new(DefinitionWriter { client: client.clone(), registry: registry.clone() });
        definitions::start(&definitions).await;
        let mut repair = Repair::default();
        repair.services(&registry).await;
        tokio::spawn(repair::run(Arc::downgrade(&registry), repair));
        tokio::spawn(bootstrap.keep(Arc::downgrade(&registry), range));
        tokio::spawn(legacy_tokens::keep(client.clone(), legacy_uses));
        let mut presence = vec![tokio::spawn(identity_lease::keep(client.clone(), Arc::downgrade(&registry), host))];
        if let Some(address) = address {
            let membership = Membership::new(registry.store.clone(), Member { port, address });
            presence.push(tokio::spawn(endpoints::keep(client, membership, draining.subscribe(), alone)));
        }
        let presence = Mutex::new(presence);
        Ok(Arc::new(ApiServer {
            road,
            draining,
            _definitions: definitions,
            presence,
            client_authority: authority,
            features,
        }))
    }

    /// What is on and off.
    pub fn features(&self) -> &Features {
        &self.features
    }

    /// Answers a request. `connection`: the user of the connection's certificate, or the component's in-process identity.
    pub async fn handle<B>(&self, request: Request<B>, connection: Option<&UserRef>) -> Answer
    where
        B: http_body::Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        self.road.handle(request, connection).await
    }

    /// What the certificates of a connection prove, the client's own first.
    pub(crate) fn proof_of(&self, chain: &[CertificateDer<'_>]) -> Proof {
        self.client_authority.proof(chain, self.now_seconds())
    }

    pub(crate) fn now_seconds(&self) -> i64 {
        self.road.clock.now_seconds()
    }

    /// Whether there is a key for tokens of service accounts.
    pub fn signs_tokens(&self) -> bool {
        self.road.registry.signer.is_some()
    }

    /// A token of a service account that lasts as long as its Secret.
    pub fn sign_legacy_token(&self, claims: &LegacyClaims<'_>) -> Result<String, String> {
        let signer = self.road.registry.signer.as_ref().ok_or("this server has no key to sign tokens with")?;
        signer.sign_legacy(claims)
    }

    /// Has somebody in this process answer for nodes.
    pub fn provide_nodes(&self, provider: Arc<dyn NodeProvider>) {
        self.road.registry.nodes.provide(provider);
    }

    /// Asks real nodes what they and their pods use, and serves `metrics.k8s.io` from what they say. Once is enough.
    pub fn measure_nodes(&self) {
        let Registry { catalog, nodes, kubelet, proxy, clock, .. } = &*self.road.registry;
        let metrics = Arc::new(NodeMetrics::new(clock));
        let asker = Asker {
            catalog: Arc::downgrade(catalog),
            nodes: nodes.clone(),
            kubelet: kubelet.clone(),
            proxy: proxy.clone(),
            clock: clock.clone(),
        };
        let known = Arc::downgrade(&metrics);
        if self.road.pages.usage.asked.set(metrics).is_ok() {
            let mut draining = self.draining.subscribe();
            tokio::spawn(async move {
                tokio::select! {
                    biased;
                    () = asker.run(known) => {}
                    _ = draining.wait_for(|draining| *draining) => {}
                }
            });
        }
    }

    /// Ends watches and lets clients go elsewhere. Requests under way are answered.
    pub fn drain(&self) {
        self.draining.send_replace(true);
    }

    /// The last thing that the server does, once its clients are gone: takes leave of the others. The store may end then.
    pub async fn finish(&self) {
        self.drain();
        let presence = std::mem::take(&mut *self.presence.lock());
        // What is left behind when this takes too long runs out by itself.
        let _ = tokio::time::timeout(FINISH_TIMEOUT, join_all(presence)).await;
        self.road.catalog.cache().close();
    }
}

/// What objects are read and written with.
async fn registry(
    config: &mut Config,
    plugins: Vec<Box<dyn Plugin>>,
    on_legacy_use: OnLegacyUse,
    quotas: &QuotasHandle,
    draining: watch::Receiver<bool>,
) -> Result<Registry, Error> {
    let token_file = std::mem::take(&mut config.token_file);
    let (store, clock, entropy) = (&config.store.clone(), &config.clock.clone(), &config.entropy.clone());
    let ranges = Ranges::new(&config.service_ranges, config.node_ports.clone()).map_err(Error::Configuration)?;
    let signer = match config.tokens.signing_key.as_str() {
        "" => None,
        _ => Some(Arc::new(Signer::new(&config.tokens).map_err(Error::Configuration)?)),
    };
    let catalog = Catalog::start(store.clone(), &config.kinds, clock.clone()).await;
    let catalog = catalog.map_err(|error| Error::Store(error.to_string()))?;
    let known = Options {
        token_file,
        anonymous: config.anonymous,
        signer: signer.clone(),
        on_legacy_use,
        bootstrap_tokens: config.bootstrap_tokens,
    };
    let authenticators = Authenticators::new(known, &catalog, clock);
    let authorizers = Arc::new(Authorizers::of_modes(&catalog.snapshot(), &config.authorization));
    let kubelet = std::mem::take(&mut config.kubelet);
    let client = kubelet.certificate.as_ref().map(|(certificate, key)| (certificate.as_str(), key.as_str()));
    let tls = KubeletTls { authority: &kubelet.authority, client };
    let proxy = Proxy::new(tls, draining.clone());
    let proxy =
        proxy.map_err(|why| Error::Configuration(format!("the certificates for nodes cannot be used: {why}")))?;
    let metrics = Arc::new(Metrics::default());
    let mut all = plugins::all(&catalog.snapshot(), entropy, &authorizers);
    all.extend(webhooks::plugins(&catalog, &authorizers, entropy, &metrics.admission));
    let quotas = ResourceQuota::new(catalog.resource("", "v1", "resourcequotas"), quotas.clone(), clock.clone());
    all.push((quota::NAME, Box::new(quotas)));
    let is_on = |name: &str| !config.disabled_plugins.iter().any(|disabled| disabled == name);
    let on = all.into_iter().filter(|(name, _)| is_on(name)).map(|(_, plugin)| plugin);
    let chain = on.chain(plugins).collect();
    Ok(Registry {
        allocation: Allocation::new(ranges, catalog.clone(), store.clone(), entropy.clone()),
        engine: Engine::new(store.clone(), clock.clone(), config.store_is_shared),
        admission: Chain::new(chain),
        catalog,
        clock: clock.clone(),
        entropy: entropy.clone(),
        store: store.clone(),
        components: config.components.clone(),
        nodes: Arc::new(Nodes::default()),
        kubelet,
        proxy: Arc::new(proxy),
        authenticators: Arc::new(authenticators),
        authorizers,
        signer,
        metrics,
        evictions: Turns::default(),
        watch_list: config.features.watch_list,
        draining,
        itself: Arc::new(User::apiserver()),
    })
}

/// The stages that lead to it.
fn road(config: Config, registry: &Arc<Registry>) -> Road {
    let Registry { catalog, authenticators, authorizers, metrics, draining, .. } = &**registry;
    let (address, port) = config.advertise;
    let host =
        address.map_or_else(|| format!("{}:{port}", config.host_name), |ip| SocketAddr::new(ip, port).to_string());
    let openid = openid::documents(registry.signer.as_deref(), &config.tokens, &host);
    let health = Health { store: config.store, catalog: catalog.clone(), log: config.log, draining: draining.clone() };
    Road {
        catalog: catalog.clone(),
        clock: config.clock,
        authenticators: authenticators.clone(),
        authorizers: authorizers.clone(),
        impersonation: Impersonation::default(),
        limits: Limits::new(config.in_flight_max),
        metrics: metrics.clone(),
        registry: registry.clone(),
        pages: Pages {
            health,
            metrics: metrics.clone(),
            openapi: OpenApi::default(),
            openid,
            usage: Sources { nodes: registry.nodes.clone(), ..Sources::default() },
        },
        response_compression: config.features.response_compression,
    }
}
