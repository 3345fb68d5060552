//! The command line: one struct per command, from which parsing and help come.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, Parser, Subcommand, ValueEnum};

use rkube_controllers::Selection;
use rkube_runtime::images::REGISTRIES;

use crate::controller_flags::ControllerFlags;
use crate::election_flags::ElectionFlags;
use crate::flags::{Gates, PortRange, RuntimeConfig, ServiceRanges, StoreChoice, parse_listen};
use crate::identity::IdentityFlags;
use crate::node_addresses::NodeAddressFlags;
use crate::node_flags::RealNodeFlags;
use crate::simulated_nodes::SimulatedNodeFlags;

macro_rules! kubernetes_version {
    () => {
        "1.36.4"
    };
}

/// The Kubernetes release whose interface rkube serves.
pub const KUBERNETES_VERSION: &str = kubernetes_version!();

const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (Kubernetes ", kubernetes_version!(), ")");

/// What `rkube version` and `rkube --version` print.
pub fn version_line() -> String {
    format!("rkube {VERSION}")
}

/// Kubernetes in one binary.
#[derive(Debug, Parser)]
#[command(name = "rkube", version = VERSION, arg_required_else_help = true, after_help = EXAMPLES, disable_help_subcommand = true)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,
}

const EXAMPLES: &str = "\
Examples:
  Start a cluster, and talk to it from another terminal:
    rkube up
    export KUBECONFIG=~/.local/share/rkube/kubeconfig
    kubectl get namespaces

  A throw-away cluster on a free port, that forgets its objects when it ends:
    rkube up --data-dir /tmp/try --listen 127.0.0.1:0 --store memory

  Keep a copy of everything, and start elsewhere from it:
    rkube store save backup.rkube
    rkube store restore backup.rkube --data-dir /srv/rkube

  Have an image that Docker has built on the node:
    docker save web:v1 | rkube image load -";

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run Kubernetes in the foreground until SIGINT or SIGTERM
    Up(Box<Up>),
    /// Print the version
    Version,
    /// Save and restore what the cluster holds
    #[command(subcommand)]
    Store(Store),
    /// Load, pull, list and remove the images of this machine's node
    #[command(subcommand)]
    Image(ImageCommand),
    /// Make the programs that Go's test environments (envtest) start, and print their directory
    #[command(after_help = ENVTEST_EXAMPLES)]
    Envtest(Envtest),
    /// End all pods of this machine and remove what its node made: mounts, cgroups, interfaces, rules
    #[command(after_help = RESET_EXAMPLES)]
    Reset(Reset),
    /// Have systemd run Kubernetes on this machine, now and whenever it starts
    #[command(after_help = INSTALL_EXAMPLES)]
    Install(Install),
}

const RESET_EXAMPLES: &str = "\
Nothing of rkube may run on the data directory: stop it first (`systemctl stop rkube` where it is a service). Images and what
the cluster holds stay, unless --data is given: pods that are still among it start anew with the next `rkube up`.

Examples:
  sudo rkube reset
  sudo rkube reset --data";

#[derive(Debug, Args)]
pub struct Reset {
    /// Remove the data directory, too: all objects, certificates, images and logs
    #[arg(long)]
    pub data: bool,

    #[command(flatten)]
    pub data_directory: DataDirectory,
}

const INSTALL_EXAMPLES: &str = "\
What follows -- are the flags of `rkube up`; files among them are best named by absolute paths. The unit names this very
program and the data directory: both have to stay where they are. Pods go on running while the service is stopped or
restarted; `rkube reset` ends them.

Examples:
  sudo rkube install
  sudo rkube install --dry-run -- --listen 0.0.0.0:6443
  sudo rkube install --remove";

#[derive(Debug, Args)]
pub struct Install {
    /// Print the unit, and change nothing
    #[arg(long)]
    pub dry_run: bool,

    /// Stop the service and remove its unit; what the cluster holds stays
    #[arg(long, conflicts_with = "dry_run")]
    pub remove: bool,

    /// Write the unit to this directory, and leave it to you to enable it
    #[arg(long, value_name = "DIR")]
    pub unit_dir: Option<PathBuf>,

    /// Flags of `rkube up`
    #[arg(last = true, value_name = "FLAGS")]
    pub up: Vec<String>,
}

const ENVTEST_EXAMPLES: &str = "\
The directory has kube-apiserver, etcd and kubectl: rkube stands in for the first two, the third is the one on the path. It
is made once for each version of rkube, and kept.

Examples:
  KUBEBUILDER_ASSETS=$(rkube envtest) go test ./...
  rkube envtest --tar | setup-envtest sideload 1.36.4";

#[derive(Debug, Args)]
pub struct Envtest {
    /// Where to make it [default: $XDG_DATA_HOME/rkube-envtest or ~/.local/share/rkube-envtest]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,

    /// Write an archive (.tar.gz) with the programs to stdout instead
    #[arg(long, conflicts_with = "dir")]
    pub tar: bool,
}

impl Envtest {
    /// As given, or the default, as an absolute path.
    pub fn directory(&self) -> anyhow::Result<PathBuf> {
        let directory = match &self.dir {
            Some(directory) => directory.clone(),
            None => data_home(environment)
                .context("neither HOME nor XDG_DATA_HOME is set: say where with --dir DIR")?
                .join("rkube-envtest"),
        };
        std::path::absolute(&directory).with_context(|| format!("cannot use --dir {}", directory.display()))
    }
}

#[derive(Debug, Args)]
#[command(after_help = UP_EXAMPLES)]
pub struct Up {
    #[command(flatten)]
    pub data: DataDirectory,

    /// Where to serve; port 0 takes a free port
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:6443", value_parser = parse_listen)]
    pub listen: SocketAddr,

    /// The address under which others reach this server, among the endpoints of the service `kubernetes` [default: the one
    /// of --listen, or that of this host's default route where --listen is any address or loopback]
    #[arg(long, value_name = "ADDR")]
    pub advertise_address: Option<IpAddr>,

    /// Where objects are kept: `embedded` in the data directory, `memory` until the end of the process, or in an etcd
    #[arg(long, value_name = "embedded|memory|etcd=URL[,URL]", default_value = "embedded")]
    pub store: StoreChoice,

    #[command(flatten)]
    pub etcd: EtcdFiles,

    /// A file with the secret of the control plane on the etcd, to join it: a copy of `join-secret` in the data directory
    /// of its first rkube
    #[arg(long, value_name = "FILE")]
    pub join_secret_file: Option<PathBuf>,

    /// How to log, on stderr; RUST_LOG says what (for example RUST_LOG=debug)
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub log_format: LogFormat,

    /// Turn features on or off
    #[arg(long, value_name = "NAME=true|false,...", default_value = "", hide_default_value = true)]
    pub feature_gates: Gates,

    /// Turn API groups and versions on or off, for example `api/alpha=true`
    #[arg(long, value_name = "NAME=VALUE,...", default_value = "", hide_default_value = true)]
    pub runtime_config: RuntimeConfig,

    #[command(flatten)]
    pub identity: IdentityFlags,

    /// Where services get their addresses from: one range, or one of IPv4 and one of IPv6 for dual-stack services. The
    /// first one's family is the default
    #[arg(long, value_name = "CIDR[,CIDR]", default_value = "10.96.0.0/12")]
    pub service_cluster_ip_range: ServiceRanges,

    /// Where services of type NodePort get their ports from
    #[arg(long, value_name = "FIRST-LAST", default_value = "30000-32767")]
    pub service_node_port_range: PortRange,

    #[command(flatten)]
    pub node_addresses: NodeAddressFlags,

    /// How many requests that only read may be in flight; 0 for any number
    #[arg(long, value_name = "COUNT", default_value_t = 400)]
    pub max_requests_inflight: usize,

    /// How many requests that change something may be in flight; 0 for any number
    #[arg(long, value_name = "COUNT", default_value_t = 200)]
    pub max_mutating_requests_inflight: usize,

    /// Which controllers run: `*` for all that are on by default, `NAME` for one more, `-NAME` for one less. Names are
    /// those of kube-controller-manager
    #[arg(long, value_name = "NAME,...", default_value = "*", allow_hyphen_values = true)]
    pub controllers: Selection,

    #[command(flatten)]
    pub controller_flags: ControllerFlags,

    #[command(flatten)]
    pub election: ElectionFlags,

    /// Run no scheduler: pods stay without a node until somebody else binds them
    #[arg(long)]
    pub no_scheduler: bool,

    #[command(flatten)]
    pub nodes: SimulatedNodeFlags,

    #[command(flatten)]
    pub real: RealNodeFlags,
}

const UP_EXAMPLES: &str = "\
The first start makes a certificate authority, certificates and a kubeconfig in the data directory; later starts reuse
them. Once everything answers, one line on stdout says so:
  ready in 87 ms  https://127.0.0.1:6443  KUBECONFIG=/home/me/.local/share/rkube/kubeconfig

Examples:
  rkube up
  rkube up --listen 0.0.0.0:6443 --data-dir /srv/rkube
  rkube up --sim-nodes 3
  rkube up --store etcd=http://127.0.0.1:2379
  rkube up --store etcd=http://127.0.0.1:2379 --join-secret-file join-secret
  rkube up --service-cluster-ip-range 10.96.0.0/12,fd00:10:96::/112
  RUST_LOG=debug rkube up --log-format json 2> rkube.log";

#[derive(Debug, Args)]
pub struct EtcdFiles {
    /// Who signs etcd's certificates, as PEM
    #[arg(long, value_name = "FILE")]
    pub etcd_cafile: Option<PathBuf>,

    /// The certificate to show to etcd, as PEM
    #[arg(long, value_name = "FILE", requires = "etcd_keyfile")]
    pub etcd_certfile: Option<PathBuf>,

    /// Its key, as PEM
    #[arg(long, value_name = "FILE", requires = "etcd_certfile")]
    pub etcd_keyfile: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub enum Store {
    /// Write everything that the store of a data directory holds to FILE
    Save {
        file: PathBuf,
        #[command(flatten)]
        data: DataDirectory,
    },
    /// Fill a new data directory from FILE
    Restore {
        file: PathBuf,
        /// The directory to fill; its store must be empty
        #[arg(long, value_name = "DIR")]
        data_dir: PathBuf,
    },
}

#[derive(Debug, Subcommand)]
pub enum ImageCommand {
    /// Load the images of archives that `docker save` or a tool of OCI has written; `-` reads one from stdin
    Load {
        #[arg(value_name = "FILE.tar", required = true)]
        files: Vec<PathBuf>,
        #[command(flatten)]
        data: DataDirectory,
    },
    /// Pull images from their registries
    Pull {
        #[arg(value_name = "IMAGE", required = true)]
        images: Vec<String>,
        /// The user's name and password for the registry
        #[arg(long, value_name = "USER:PASSWORD")]
        credentials: Option<String>,
        /// Where files say which mirrors to ask and whom to trust, as DIR/docker.io/hosts.toml, in containerd's format
        #[arg(long, value_name = "DIR", default_value = REGISTRIES)]
        registry_config: PathBuf,
        #[command(flatten)]
        data: DataDirectory,
    },
    /// List the images that are here
    #[command(visible_alias = "ls")]
    List {
        /// Ids alone, one a line
        #[arg(short, long)]
        quiet: bool,
        #[command(flatten)]
        data: DataDirectory,
    },
    /// Remove images: by a name that name, and with its last name or by its id the image
    #[command(visible_alias = "rm")]
    Remove {
        #[arg(value_name = "IMAGE", required = true)]
        images: Vec<String>,
        #[command(flatten)]
        data: DataDirectory,
    },
    /// Remove all images that no container is made of
    Prune {
        #[command(flatten)]
        data: DataDirectory,
    },
}

#[derive(Debug, Args)]
pub struct DataDirectory {
    /// Where everything is kept [default: $XDG_DATA_HOME/rkube or ~/.local/share/rkube]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

impl DataDirectory {
    /// As given, or the default, as an absolute path that is the same however one got there: what a node leaves in `/run`
    /// is found by it, and volumes have it in their paths, where no `..` may be.
    pub fn path(&self) -> anyhow::Result<PathBuf> {
        let directory = match &self.data_dir {
            Some(directory) => directory.clone(),
            None => default_data_directory(environment)
                .context("neither HOME nor XDG_DATA_HOME is set: say where to keep data with --data-dir DIR")?,
        };
        let absolute = std::path::absolute(&directory);
        let absolute = absolute.with_context(|| format!("cannot use --data-dir {}", directory.display()))?;
        Ok(match (absolute.parent(), absolute.file_name()) {
            // It may itself be a link, which goes with it.
            (Some(parent), Some(name)) => resolved(parent).join(name),
            _ => resolved(&absolute),
        })
    }
}

/// Without links and `..`, as far as it is there.
fn resolved(path: &Path) -> PathBuf {
    match (path.canonicalize(), path.parent(), path.file_name()) {
        (Ok(path), ..) => path,
        (Err(_), Some(parent), Some(name)) => resolved(parent).join(name),
        _ => path.to_owned(),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    Text,
    Json,
}

fn default_data_directory(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    Some(data_home(variable)?.join("rkube"))
}

fn data_home(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    let absolute = |name| variable(name).filter(|path| path.is_absolute());
    absolute("XDG_DATA_HOME").or_else(|| Some(absolute("HOME")?.join(".local/share")))
}

fn environment(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn up(arguments: &[&str]) -> Up {
        let arguments = ["rkube", "up"].iter().chain(arguments);
        match Arguments::try_parse_from(arguments).unwrap().command {
            Command::Up(up) => *up,
            other => panic!("parsed as {other:?}"),
        }
    }

    #[test]
    fn the_definition_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn up_has_defaults() {
        let up = up(&[]);
        assert_eq!(up.listen.to_string(), "127.0.0.1:6443");
        assert_eq!(up.store, StoreChoice::Embedded);
        assert_eq!(up.log_format, LogFormat::Text);
        assert_eq!(up.service_cluster_ip_range.to_string(), "10.96.0.0/12");
        assert_eq!(up.service_node_port_range, PortRange { first: 30000, last: 32767 });
        assert_eq!((up.max_requests_inflight, up.max_mutating_requests_inflight), (400, 200));
        assert!(up.feature_gates.0.is_empty() && up.runtime_config.0.is_empty());
    }

    #[test]
    fn up_takes_every_flag() {
        let up = up(&[
            "--data-dir=/srv/rkube",
            "--listen=[::1]:0",
            "--store=etcd=http://a:2379,http://b:2379",
            "--log-format=json",
            "--feature-gates=A=true,B=false",
            "--runtime-config=api/all=true,batch/v1=false",
            "--token-auth-file=/tokens",
            "--join-secret-file=/secret",
            "--service-cluster-ip-range=fd00::/108,10.8.0.0/16",
            "--service-node-port-range=31000-31010",
        ]);
        assert_eq!(up.data.path().unwrap(), PathBuf::from("/srv/rkube"));
        assert_eq!(up.listen.to_string(), "[::1]:0");
        assert_eq!(up.store, StoreChoice::Etcd(vec!["http://a:2379".into(), "http://b:2379".into()]));
        assert_eq!(up.feature_gates.0.get("B"), Some(&false));
        assert_eq!(up.runtime_config.0.get("api/all").map(String::as_str), Some("true"));
        assert_eq!(up.identity.token_auth_file, Some("/tokens".into()));
        assert_eq!(up.join_secret_file, Some("/secret".into()));
        assert_eq!(up.service_cluster_ip_range.to_string(), "fd00::/108,10.8.0.0/16");
    }

    #[test]
    fn store_commands_parse() {
        let parse = |arguments: &[&str]| Arguments::try_parse_from(arguments).map(|arguments| arguments.command);
        assert!(matches!(
            parse(&["rkube", "store", "save", "f", "--data-dir", "d"]),
            Ok(Command::Store(Store::Save { .. }))
        ));
        assert!(matches!(
            parse(&["rkube", "store", "restore", "f", "--data-dir", "d"]),
            Ok(Command::Store(Store::Restore { .. }))
        ));
        assert!(parse(&["rkube", "store", "restore", "f"]).is_err(), "a restore says where to");
    }

    #[test]
    fn the_data_directory_follows_the_environment() {
        let table = [
            (Some("/x"), Some("/h"), Some("/x/rkube")),
            (None, Some("/h"), Some("/h/.local/share/rkube")),
            (Some("relative"), Some("/h"), Some("/h/.local/share/rkube")),
            (None, None, None),
        ];
        for (data_home, home, expected) in table {
            let found = default_data_directory(|name| match name {
                "XDG_DATA_HOME" => data_home.map(PathBuf::from),
                _ => home.map(PathBuf::from),
            });
            assert_eq!(found, expected.map(PathBuf::from), "{data_home:?} {home:?}");
        }
    }

    #[test]
    fn the_version_names_both() {
        assert!(version_line().starts_with("rkube 0."));
        assert!(version_line().ends_with("(Kubernetes 1.36.4)"));
    }

    #[test]
    fn a_data_directory_has_one_name() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("real")).unwrap();
        std::os::unix::fs::symlink(root.join("real"), root.join("link")).unwrap();
        for (given, expected) in [
            ("real/../data", "data"),
            ("link/../data", "data"),
            ("link/data", "real/data"),
            ("link/a/b", "real/a/b"),
            ("real/..", ""),
            ("link", "link"),
        ] {
            let directory = DataDirectory { data_dir: Some(root.join(given)) };
            assert_eq!(directory.path().unwrap(), root.join(expected).components().collect::<PathBuf>(), "{given}");
        }
    }
}
