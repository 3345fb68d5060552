//! What a cluster in a test is made of.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::{Arc, LazyLock};

use rkube_access::authenticate::TokenFile;
use rkube_access::authenticate::service_account::TokenOptions;
use rkube_access::authorize::Mode;
use rkube_apiserver::{Config, Features, InFlightMax, KubeletClient};
use rkube_cluster::certificates::{Pair, Pki, ServerNames, tls};
use rkube_cluster::parts::{
    Election, LocalPath, NodeRanges, NodeTemplate, Scheduler, Selection, Settings, SimulatedNodes, Timing, signs_all,
};
use rkube_cluster::{ControlPlane, Controllers, Listener, Part, kubeconfig};
use rkube_kinds::Kind;
use rkube_machinery::decode::base64;
use rkube_machinery::host::{Clock, Entropy};
use rkube_machinery::names::address::Subnet;
use rkube_store::embedded::OpenOptions;
use rkube_store::etcd::EtcdOptions;
use rkube_store::{Embedded, Etcd, Memory, Store};
use tempfile::TempDir;

use super::held_time::HeldTime;
use super::{Opened, Outside, TestCluster};
use crate::faults::{Faults, NODES, Wrong};
use crate::host::{SeededEntropy, VirtualClock, WallClock};

/// Of the random numbers, unless the test chooses another.
const SEED: u64 = 1;
const SERVICE_RANGE: &str = "10.96.0.0/12";
/// Connections that a test may have open at a time; more wait or are refused, as with the binary.
const CONNECTIONS_MAX: usize = 1_000;

/// The authority where a run is to be the same in every process. Everybody knows its key, and what it signs has the same
/// signature every time: it is an Ed25519 key.
static AUTHORITY_OF_SEEDS: LazyLock<Pair> = LazyLock::new(|| {
    // What stands before such a key in its file.
    const HEAD: [u8; 16] = [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];
    let key = base64::encode(&[HEAD.as_slice(), &[7; 32]].concat());
    let key = format!("-----BEGIN PRIVATE KEY-----\n{key}\n-----END PRIVATE KEY-----\n");
    Pair { certificate: include_str!("authority.pem").to_owned(), key }
});

/// The same for all clusters of the process: to make keys takes longer than to start a cluster.
static PKI: LazyLock<Pki> = LazyLock::new(|| {
    let names = ServerNames::of_this_host([10, 96, 0, 1].into(), Ipv4Addr::LOCALHOST.into(), None);
    let seed = u64::try_from(WallClock.now_micros()).unwrap_or_default();
    Pki::generate(&names, WallClock.now_seconds(), &SeededEntropy::new(seed)).expect("certificates can be made")
});

/// Says what [`TestCluster`] is to be like. Whatever is not said is as `rkube up` has it, but the store is in memory.
#[must_use = "a builder does nothing until it is started"]
pub struct Builder {
    store: StoreChoice,
    controllers: String,
    settings: Settings,
    scheduler: bool,
    nodes: usize,
    node_template: NodeTemplate,
    candidates: usize,
    parts: Vec<Part>,
    virtual_time: bool,
    seed: u64,
    faults: Option<Faults>,
    listens: bool,
    features: Features,
    /// Groups and versions that are off by default.
    served: Vec<String>,
}

/// A part, as often as it is started.
type MakePart = Box<dyn Fn(Option<Election>) -> Part + Send + Sync>;

/// One of those who would run a part.
struct Candidate {
    name: String,
    /// By which it is elected; None: there is no other.
    lease: Option<&'static str>,
    /// Told who it is.
    make: Box<dyn Fn(&str) -> Part + Send + Sync>,
}

fn candidates(count: usize, name: &str, lease: &'static str, make: MakePart) -> Vec<Candidate> {
    if count == 1 {
        return vec![Candidate { name: name.to_owned(), lease: None, make: Box::new(move |_| make(None)) }];
    }
    let make = Arc::new(make);
    let candidate = |number: usize| {
        let make = make.clone();
        let elected = move |identity: &str| {
            let election = Election::new("test", Some(identity.to_owned()), Timing::default());
            let part = make(Some(election.expect("upstream's times go together")));
            // To those who look at components they are one.
            Part { component: part.component.filter(|_| number == 1), ..part }
        };
        Candidate { name: format!("{name}-{number}"), lease: Some(lease), make: Box::new(elected) }
    };
    (1..=count).map(candidate).collect()
}

enum StoreChoice {
    Memory,
    Embedded,
    Etcd(Vec<String>),
    Given(Arc<dyn Store>),
}

impl Default for Builder {
    fn default() -> Self {
        Builder {
            store: StoreChoice::Memory,
            controllers: "*".to_owned(),
            settings: Settings::default(),
            scheduler: true,
            nodes: 0,
            node_template: NodeTemplate::default(),
            candidates: 1,
            parts: Vec::new(),
            virtual_time: false,
            seed: SEED,
            faults: None,
            listens: false,
            features: Features::default(),
            served: Vec::new(),
        }
    }
}

impl Builder {
    /// The store that `rkube up` has: files, in a directory that goes with the cluster.
    pub fn embedded_store(mut self) -> Self {
        self.store = StoreChoice::Embedded;
        self
    }

    /// An etcd that runs somewhere. Not in virtual time: what comes over a network takes real time.
    pub fn etcd<S: Into<String>>(mut self, urls: impl IntoIterator<Item = S>) -> Self {
        self.store = StoreChoice::Etcd(urls.into_iter().map(Into::into).collect());
        self
    }

    /// A store of the test's own, which stays open when the cluster ends: the next one finds what this one left.
    pub fn store(mut self, store: Arc<dyn Store>) -> Self {
        self.store = StoreChoice::Given(store);
        self
    }

    /// Which controllers run, in the syntax of `--controllers`: `*,-garbage-collector-controller`. None: the empty text.
    pub fn controllers(mut self, selection: &str) -> Self {
        selection.clone_into(&mut self.controllers);
        self
    }

    /// What flags of kube-controller-manager would say of controllers.
    pub fn controller_settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// Turns a gate on, by its name in `--feature-gates`.
    pub fn feature(mut self, gate: &str) -> Self {
        assert!(self.features.set(gate, true), "there is no gate {gate}");
        self
    }

    /// Serves a group and version that is off by default, as `--runtime-config` does: `resource.k8s.io/v1beta1`.
    pub fn serve(mut self, api_version: &str) -> Self {
        self.served.push(api_version.to_owned());
        self
    }

    /// Pods stay without a node until the test binds them.
    pub fn without_scheduler(mut self) -> Self {
        self.scheduler = false;
        self
    }

    /// Controllers and scheduler are there so many times, and elect leaders, as several control planes on one store do.
    pub fn candidates(mut self, count: usize) -> Self {
        assert!(count > 0, "somebody has to run them");
        self.candidates = count;
        self
    }

    /// So many simulated nodes: they are there when the cluster is.
    pub fn nodes(mut self, count: usize) -> Self {
        self.nodes = count;
        self
    }

    /// What the nodes are made of, as `--sim-node-template` takes it. Panics if it cannot be used.
    pub fn node_template(mut self, yaml: &str) -> Self {
        let template = NodeTemplate::parse(yaml.as_bytes());
        self.node_template = template.unwrap_or_else(|error| panic!("this is no template of a node: {error}"));
        self
    }

    /// Something else that runs beside the API server, such as another scheduler.
    pub fn part(mut self, part: Part) -> Self {
        self.parts.push(part);
        self
    }

    /// Time passes only when there is nothing to do, and then at once: see [`TestCluster`].
    #[cfg(feature = "virtual-time")]
    pub fn virtual_time(mut self) -> Self {
        self.virtual_time = true;
        self
    }

    /// Of all random numbers, such as those in names and uids.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// What goes wrong, at moments that the seed says; and from here on it is recorded what happens.
    pub fn faults(mut self, faults: Faults) -> Self {
        self.faults = Some(faults);
        self
    }

    /// Listens on a free port of the loopback interface, with TLS, for clients out of the process. Not in virtual time.
    pub fn listen(mut self) -> Self {
        self.listens = true;
        self
    }

    /// Returns once everything answers, and namespaces have what pods need in them. Panics with the reason if that
    /// cannot be.
    pub async fn start(self) -> TestCluster {
        if self.virtual_time {
            assert!(!self.listens, "in virtual time nobody can ask from outside: time would not wait for them");
            assert!(!matches!(self.store, StoreChoice::Etcd(_)), "in virtual time the store is in this process");
        }
        let virtual_clock = self.virtual_time.then(|| Arc::new(VirtualClock::start()));
        let clock: Arc<dyn Clock> = match &virtual_clock {
            Some(clock) => clock.clone(),
            None => Arc::new(WallClock),
        };
        let store_is_shared = matches!(self.store, StoreChoice::Etcd(_));
        let opened = open(self.store, self.virtual_time).await;
        let wrong = match self.faults {
            Some(faults) => Some(Wrong::begin(faults, self.seed, virtual_clock, &*opened.store).await),
            None => None,
        };
        let (listener, outside) = self.listens.then(listen).unzip();
        let mut config = config(opened.store.clone(), clock.clone(), Arc::new(SeededEntropy::new(self.seed)));
        config.store_is_shared = store_is_shared;
        config.features = self.features;
        let is_served = |kind: &Kind| !kind.off_by_default || self.served.contains(&kind.api_version());
        config.kinds = rkube_kinds::all().iter().filter(|kind| is_served(kind)).cloned().collect();
        let selection: Selection = self.controllers.parse().unwrap_or_else(|error: String| panic!("{error}"));
        let ranges_are_given = selection.has("node-ipam-controller");
        let (settings, has_nodes) = (self.settings, self.nodes > 0);
        let authority = if wrong.is_some() { &*AUTHORITY_OF_SEEDS } else { &PKI.ca };
        authority.certificate.clone_into(&mut config.client_authority);
        let controllers: MakePart = Box::new(move |election| {
            Controllers {
                root_ca: authority.certificate.clone(),
                signing: signs_all(authority),
                selection: selection.clone(),
                settings: settings.clone(),
                node_ranges: Some(NodeRanges::default()),
                election,
                local_path: has_nodes.then(LocalPath::simulated),
            }
            .into()
        });
        let mut made = candidates(self.candidates, "controllers", "kube-controller-manager", controllers);
        if self.scheduler {
            let host_name = config.host_name.clone();
            let scheduler: MakePart =
                Box::new(move |election| Scheduler { host_name: host_name.clone(), election }.into());
            made.extend(candidates(self.candidates, "scheduler", "kube-scheduler", scheduler));
        }
        if self.nodes > 0 {
            let (count, template) = (self.nodes, self.node_template);
            let nodes: MakePart =
                Box::new(move |_| SimulatedNodes { count, template: template.clone(), ranges_are_given }.into());
            made.extend(candidates(1, NODES, "", nodes));
        }
        let made = made.into_iter().map(|Candidate { name, lease, make }| match &wrong {
            Some(wrong) => wrong.supervised(&name, lease, move |identity| make(identity)),
            None => make(&name),
        });
        let parts = made.chain(self.parts).collect();
        let plane = ControlPlane::start(config, listener, parts).await;
        let plane = plane.unwrap_or_else(|error| panic!("the cluster does not start: {error:?}"));
        TestCluster::new(plane, opened, outside, clock, self.virtual_time, |client| {
            wrong.map(|wrong| wrong.struck(client))
        })
    }
}

fn config(store: Arc<dyn Store>, clock: Arc<dyn Clock>, entropy: Arc<dyn Entropy>) -> Config {
    Config {
        store,
        store_is_shared: false,
        clock,
        entropy,
        kinds: Vec::new(),
        features: Features::default(),
        in_flight_max: InFlightMax::default(),
        token_file: TokenFile::default(),
        bootstrap_tokens: true,
        authorization: vec![Mode::Node, Mode::Rbac],
        anonymous: true,
        client_authority: PKI.ca.certificate.clone(),
        tokens: TokenOptions { signing_key: PKI.service_account_key.clone(), ..TokenOptions::default() },
        service_ranges: vec![Subnet::parse_sloppy(SERVICE_RANGE).expect("a range")],
        node_ports: 30000..=32767,
        advertise: (None, 6443),
        host_name: "test".to_owned(),
        components: Vec::new(),
        log: Arc::new(|| Ok(())),
        kubelet: KubeletClient::of_cluster(
            &PKI.ca.certificate,
            &PKI.kubelet_client.certificate,
            &PKI.kubelet_client.key,
        ),
        disabled_plugins: Vec::new(),
    }
}

async fn open(choice: StoreChoice, virtual_time: bool) -> Opened {
    let held = |store: Arc<dyn Store>| if virtual_time { Arc::new(HeldTime(store)) } else { store };
    match choice {
        StoreChoice::Memory => Opened { store: Arc::new(Memory::new()), ours: true, directory: None },
        StoreChoice::Embedded => {
            let directory = TempDir::new().expect("a temporary directory");
            let store = Embedded::open(directory.path(), OpenOptions::default()).await;
            let store = store.unwrap_or_else(|error| panic!("the store cannot be opened: {error}"));
            Opened { store: held(Arc::new(store)), ours: true, directory: Some(directory) }
        }
        StoreChoice::Etcd(endpoints) => {
            let options = EtcdOptions { endpoints, ..EtcdOptions::default() };
            let store = Etcd::connect(&options).await;
            let store = store.unwrap_or_else(|error| panic!("the etcd cannot be used: {error}"));
            Opened { store: Arc::new(store), ours: true, directory: None }
        }
        StoreChoice::Given(store) => Opened { store: held(store), ours: false, directory: None },
    }
}

/// A listener on a free port, and what clients need to know of it.
fn listen() -> (Listener, Outside) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    listener.set_nonblocking(true).expect("a socket may be so");
    let url = format!("https://{}", listener.local_addr().expect("it is bound"));
    let tls = tls::server_config(&PKI.server, Some(&PKI.ca.certificate)).expect("the certificates are good");
    let directory = TempDir::new().expect("a temporary directory");
    let kubeconfig = directory.path().join("kubeconfig");
    let text = kubeconfig::render(&url, &PKI.ca.certificate, &PKI.admin);
    std::fs::write(&kubeconfig, text).expect("a directory that can be written to");
    (
        Listener { listener, also: Vec::new(), tls, connections_max: CONNECTIONS_MAX },
        Outside { url, kubeconfig, _directory: directory },
    )
}
