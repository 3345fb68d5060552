//! A host, pods and an outside, each a network namespace of the test's own.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rkube_machinery::names::address::Subnet;
use rkube_network::netlink::{Socket, nftables};
use rkube_network::{Api, Config, Network};
use rkube_runtime::api::{Attachment, PodNetwork, PortMapping};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Only guards against hanging.
const PATIENCE: Duration = Duration::from_secs(10);

/// Whether this process may make namespaces; where it must (CI), it is no use to skip.
pub fn may_run() -> bool {
    let may = rustix::process::geteuid().is_root() && Command::new("ip").arg("-V").output().is_ok();
    assert!(may || std::env::var_os("CI").is_none(), "CI runs these tests as root, with iproute2");
    if !may {
        println!("skipped: needs root and iproute2");
    }
    may
}

/// A network namespace, which a sleeping process holds.
pub struct Namespace {
    holder: Child,
}

impl Namespace {
    pub fn new() -> Namespace {
        let own = std::fs::read_link("/proc/thread-self/ns/net").unwrap();
        let holder = Command::new("unshare")
            .args(["--net", "sleep", "600"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let namespace = Namespace { holder };
        while std::fs::read_link(namespace.path()).is_ok_and(|link| link == own) {
            std::thread::sleep(Duration::from_millis(1));
        }
        namespace
    }

    pub fn path(&self) -> PathBuf {
        format!("/proc/{}/ns/net", self.holder.id()).into()
    }

    /// Runs it on a thread inside, from which it starts others.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let file = std::fs::File::open(self.path()).unwrap();
        let work = || {
            move_into_link_name_space(std::os::fd::AsFd::as_fd(&file), Some(LinkNameSpaceType::Network)).unwrap();
            work()
        };
        std::thread::scope(|scope| scope.spawn(work).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    }

    /// Runs `ip` inside, and says what it said.
    pub fn ip(&self, arguments: &str) -> String {
        self.run(|| {
            let output = Command::new("ip").args(arguments.split_whitespace()).output().unwrap();
            assert!(output.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8(output.stdout).unwrap()
        })
    }

    /// Answers every connection with the caller's address, until the test ends.
    pub fn serve(&self, address: &str) -> SocketAddr {
        let listener = self.run(|| TcpListener::bind(address).unwrap());
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for connection in listener.incoming() {
                let Ok(mut connection) = connection else { return };
                let peer = connection.peer_addr().unwrap().ip();
                let _ = connection.write_all(peer.to_string().as_bytes());
            }
        });
        address
    }

    /// Who the other side says that we are.
    pub fn ask(&self, address: impl Into<SocketAddr>) -> std::io::Result<IpAddr> {
        let address = address.into();
        self.run(|| {
            let mut connection = TcpStream::connect_timeout(&address, PATIENCE)?;
            connection.set_read_timeout(Some(PATIENCE))?;
            let mut text = String::new();
            connection.read_to_string(&mut text)?;
            Ok(text.parse().unwrap())
        })
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

/// A host with a network of pods.
pub struct World {
    pub host: Namespace,
    _directory: tempfile::TempDir,
    runtime: tokio::runtime::Runtime,
    pub config: Config,
    network: Option<Network>,
    pods: AtomicUsize,
}

pub const GATEWAY: &str = "10.244.0.1";
pub const SERVICE: &str = "10.96.0.1:443";
pub const API_PORT: u16 = 6443;

impl World {
    pub fn new() -> World {
        World::with(|_| {})
    }

    pub fn with(change: impl FnOnce(&mut Config)) -> World {
        let host = Namespace::new();
        host.ip("link set lo up");
        let directory = tempfile::tempdir().unwrap();
        let mut config = Config {
            name: "rkube".to_owned(),
            gateways: vec![GATEWAY.parse().unwrap()],
            cluster_ranges: vec![subnet("10.244.0.0/16")],
            pod_ranges: vec![subnet("10.244.0.0/24")],
            service_ranges: vec![subnet("10.96.0.0/12")],
            api: Some(Api {
                service: SERVICE.parse().unwrap(),
                backend: SocketAddr::new(GATEWAY.parse().unwrap(), API_PORT),
            }),
            state_directory: directory.path().join("network"),
        };
        change(&mut config);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let mut world =
            World { host, _directory: directory, runtime, config, network: None, pods: AtomicUsize::new(0) };
        world.restart();
        world
    }

    /// The process ends, and begins another life.
    pub fn restart(&mut self) {
        self.stop();
        let config = self.config.clone();
        self.network = Some(self.host.run(|| self.runtime.block_on(Network::start(config))));
    }

    /// Returns when it has ended: in a process of its own that would have been at once.
    pub fn stop(&mut self) {
        self.network = None;
        let address = std::os::unix::net::SocketAddr::from_abstract_name("rkube/pod-network").unwrap();
        self.host.run(|| {
            while UnixListener::bind_addr(&address).is_err() {
                std::thread::sleep(Duration::from_millis(1));
            }
        });
    }

    pub fn network(&self) -> &Network {
        self.network.as_ref().unwrap()
    }

    pub fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(async { tokio::time::timeout(PATIENCE * 6, future).await.expect("it hangs") })
    }

    pub fn pod(&self) -> Pod {
        self.pod_with(&[]).unwrap()
    }

    pub fn pod_with(&self, ports: &[PortMapping]) -> rkube_runtime::api::Result<Pod> {
        self.pod_in(Namespace::new(), ports)
    }

    pub fn pod_in(&self, namespace: Namespace, ports: &[PortMapping]) -> rkube_runtime::api::Result<Pod> {
        let sandbox = format!("sandbox-{}", self.pods.fetch_add(1, Ordering::Relaxed));
        let attachment =
            Attachment { sandbox: sandbox.clone(), network_namespace: namespace.path(), ports: ports.to_vec() };
        let addresses = self.wait(self.network().attach(attachment))?;
        Ok(Pod { namespace, sandbox, addresses })
    }

    pub fn detach(&self, pod: &Pod) {
        self.wait(self.network().detach(&pod.sandbox)).unwrap();
    }

    /// Whether the kernel has a table of rules of our name.
    pub fn has_rules(&self) -> bool {
        self.host.run(|| nftables::has_table(&mut Socket::netfilter().unwrap(), &self.config.name).unwrap())
    }

    /// The names of the host's links.
    pub fn links(&self) -> Vec<String> {
        let text = self.host.ip("-brief link show");
        text.lines().filter_map(|line| line.split([' ', '@']).next()).map(str::to_owned).collect()
    }
}

pub struct Pod {
    pub namespace: Namespace,
    pub sandbox: String,
    pub addresses: Vec<IpAddr>,
}

impl Pod {
    pub fn at(&self, port: u16) -> SocketAddr {
        SocketAddr::new(self.addresses[0], port)
    }
}

/// Another host, which knows no way to pods.
pub fn outside(world: &World) -> Namespace {
    let outside = Namespace::new();
    let holder = outside.path();
    let pid = holder.iter().nth(2).unwrap().to_str().unwrap().to_owned();
    world.host.ip(&format!("link add out0 type veth peer name in0 netns {pid}"));
    world.host.ip("addr add 192.0.2.1/24 dev out0");
    world.host.ip("link set out0 up");
    outside.ip("link set lo up");
    outside.ip("addr add 192.0.2.2/24 dev in0");
    outside.ip("link set in0 up");
    // The end that was set up first learns of the other a moment later.
    while !world.host.ip("-brief link show out0").contains(" UP ") {
        std::thread::sleep(Duration::from_millis(1));
    }
    outside
}

pub fn subnet(text: &str) -> Subnet {
    Subnet::parse_sloppy(text).unwrap()
}

pub fn socket(text: &str) -> SocketAddr {
    text.parse().unwrap()
}
