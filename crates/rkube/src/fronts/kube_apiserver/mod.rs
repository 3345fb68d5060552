//! `kube-apiserver`, as a test environment starts it: our API server with the flags, files and addresses of that one.
//!
//! The store is the one of the `etcd` beside it, whose data directory it is told ([`super::handover`]), or a real etcd's.
//! What writes objects that tests write by hand does not run here ([`CONTROLLERS`]).

mod authorization;
mod gates;
mod plugins;
mod store;
mod table;

use std::collections::BTreeMap;
use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use rkube_access::authenticate::service_account::TokenOptions;
use rkube_access::authorize::Mode;
use rkube_apiserver::{Config, InFlightMax, KubeletClient};
use rkube_cluster::certificates::tls;
use rkube_cluster::{ControlPlane, Controllers, Listener};
use rkube_controllers::{Selection, Settings};
use rkube_machinery::host::Clock;
use rustls::ServerConfig;

use super::flags::{self, Given};
use super::{END_TIMEOUT, Front, parent};
use crate::cli::{KUBERNETES_VERSION, LogFormat};
use crate::flags::{PortRange, RuntimeConfig, ServiceRanges};
use crate::host::{SystemClock, SystemEntropy};
use crate::lifetime::{self, Cluster};
use crate::logging::{self, Written};
use crate::pki::{self, Pair, ServerNames};
use crate::signals::Signals;
use crate::{advertise, identity, limits, listening, served, tokens};

const ABOUT: &str = "\
The API server of a test environment, as rkube stands in for it. RKUBE_CONTROLLERS says which controllers run beside it, in
the syntax of kube-controller-manager's --controllers; by default those that tests expect the least of: garbage collection
and the emptying of namespaces.";
const BIND_HINT: &str = "choose another one with --bind-address and --secure-port";
/// Says which controllers run, where it is set.
const CONTROLLERS_VARIABLE: &str = "RKUBE_CONTROLLERS";
const CONTROLLERS: &str = "garbage-collector-controller,namespace-controller";
/// How long a namespace that is to go is left alone; upstream's.
const NAMESPACE_GRACE: Duration = Duration::from_secs(5);
/// From this level of `-v` on, as much is logged as with `RUST_LOG=debug`.
const VERBOSE_FROM: i64 = 4;

pub fn run(arguments: Vec<String>) -> anyhow::Result<()> {
    let program = Front::KubeApiserver.name();
    let given = flags::parse(program, table::FLAGS, arguments)?;
    if given.wants_help {
        return Ok(write!(std::io::stdout(), "{}", flags::help(program, ABOUT, table::FLAGS))?);
    }
    if given.switch("version") {
        return Ok(writeln!(std::io::stdout(), "Kubernetes v{KUBERNETES_VERSION}")?);
    }
    given.say_without_effect(program);
    let log = start_log(&given)?;
    let signals = Signals::install_within(END_TIMEOUT).context("cannot listen for signals")?;
    parent::end_with_parent();
    lifetime::run(signals, start(&given, log), |_| Ok(()))
}

fn start_log(given: &Given) -> anyhow::Result<Arc<Written>> {
    let format = match given.text("logging-format") {
        Some("json") => LogFormat::Json,
        Some("text") | None => LogFormat::Text,
        Some(other) => bail!("unsupported log format: {other}"),
    };
    let filter = if given.parsed::<i64>("v")? >= VERBOSE_FROM { "debug" } else { logging::DEFAULT_FILTER };
    Ok(logging::start_with(format, filter))
}

async fn start(given: &Given, log: Arc<Written>) -> anyhow::Result<Cluster<()>> {
    // What flags say comes first: a wrong one is said before anything is waited for.
    let authorization = authorization::modes(given)?;
    let (features, disabled_plugins) = (gates::features(given)?, plugins::disabled(given)?);
    let kinds = served::kinds(rkube_kinds::all(), &joined::<RuntimeConfig>(given, "runtime-config")?.0)?;
    let (token_options, selection) = (token_options(given)?, selection()?);
    let listen = SocketAddr::new(given.parsed("bind-address")?, given.parsed("secure-port")?);
    let (listener, address) = listening::bind(listen, BIND_HINT)?;
    let ranges: ServiceRanges = given.parsed("service-cluster-ip-range")?;
    let advertised = advertised(given, listen.ip(), &ranges)?;
    let pair = serving_pair(given, &ServerNames::of_this_host(ranges.first_address(), listen.ip(), advertised))?;
    let client_authority = given.text("client-ca-file").map(read).transpose()?;
    let tls = tls_config(given, &pair, client_authority.as_deref())?;
    let tokens = given.text("token-auth-file").map(|file| tokens::read(Path::new(file))).transpose()?;
    let store = store::open(given).await?;
    let node_ports: PortRange = given.parsed("service-node-port-range")?;
    let config = Config {
        store: Arc::clone(&store.store),
        store_is_shared: store.is_shared,
        clock: Arc::new(SystemClock),
        entropy: Arc::new(SystemEntropy),
        kinds,
        features,
        in_flight_max: InFlightMax {
            reading: given.parsed("max-requests-inflight")?,
            mutating: given.parsed("max-mutating-requests-inflight")?,
        },
        token_file: tokens::known(tokens.unwrap_or_default()),
        bootstrap_tokens: given.switch("enable-bootstrap-token-auth"),
        // As there: who may do everything has to say who they are.
        anonymous: given.switch("anonymous-auth") && !authorization.contains(&Mode::AlwaysAllow),
        authorization,
        client_authority: client_authority.unwrap_or_default(),
        tokens: token_options,
        service_ranges: ranges.ranges().to_vec(),
        node_ports: node_ports.first..=node_ports.last,
        advertise: (advertised, address.port()),
        host_name: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        components: Vec::new(),
        log: Arc::new(move || log.check(&SystemClock)),
        kubelet: kubelet_client(given)?,
        disabled_plugins,
    };
    let controllers = Controllers {
        root_ca: pair.certificate.clone(),
        signing: BTreeMap::new(),
        selection,
        settings: Settings { namespace_grace: NAMESPACE_GRACE, ..Settings::default() },
        node_ranges: None,
        election: None,
        local_path: None,
    };
    let listener = Listener { listener, also: Vec::new(), tls, connections_max: limits::connections() };
    let control_plane = ControlPlane::start(config, Some(listener), vec![controllers.into()]).await?;
    Ok(Cluster { control_plane, store: store.store, held: () })
}

fn advertised(given: &Given, listen: IpAddr, ranges: &ServiceRanges) -> anyhow::Result<Option<IpAddr>> {
    let asked = given.text("advertise-address").map(|_| given.parsed("advertise-address")).transpose()?;
    Ok(advertise::address(asked, listen, &ranges.ranges()[0])?)
}

fn selection() -> anyhow::Result<Selection> {
    let given = std::env::var(CONTROLLERS_VARIABLE).unwrap_or_else(|_| CONTROLLERS.to_owned());
    Selection::parse(&given).map_err(|problem| anyhow::anyhow!("{CONTROLLERS_VARIABLE}: {problem}"))
}

fn joined<T: std::str::FromStr<Err = String>>(given: &Given, name: &'static str) -> anyhow::Result<T> {
    let text = given.list(name).join(",");
    text.parse().map_err(|problem| given.invalid(name, &text, problem).into())
}

fn serving_pair(given: &Given, names: &ServerNames) -> anyhow::Result<Pair> {
    match (given.text("tls-cert-file"), given.text("tls-private-key-file")) {
        (Some(certificate), Some(key)) => Ok(Pair { certificate: read(certificate)?, key: read(key)? }),
        (None, None) => {
            let directory = PathBuf::from(given.text("cert-dir").context("--cert-dir is empty")?);
            Ok(pki::serving_pair(&directory, names, SystemClock.now_seconds(), &SystemEntropy)?)
        }
        _ => bail!("--tls-cert-file and --tls-private-key-file go together"),
    }
}

fn tls_config(given: &Given, pair: &Pair, authorities: Option<&str>) -> anyhow::Result<ServerConfig> {
    let versions: &[_] = match given.text("tls-min-version") {
        Some("VersionTLS13") => &[&rustls::version::TLS13],
        Some("VersionTLS10" | "VersionTLS11" | "VersionTLS12") | None => rustls::DEFAULT_VERSIONS,
        Some(other) => bail!("unknown tls version {other:?}"),
    };
    let config = tls::server_config_with(pair, authorities, versions);
    config.context("cannot use the files of --cert-dir, --tls-cert-file or --client-ca-file")
}

fn token_options(given: &Given) -> anyhow::Result<TokenOptions> {
    let issuers: Vec<String> = given.each("service-account-issuer").into_iter().map(str::to_owned).collect();
    let signing_key = match given.text("service-account-signing-key-file") {
        Some(file) if !issuers.is_empty() => read(file)?,
        _ => bail!("--service-account-signing-key-file and --service-account-issuer are required flags"),
    };
    let longest = given.text("service-account-max-token-expiration").unwrap_or_default();
    Ok(TokenOptions {
        signing_key,
        keys: given.each("service-account-key-file").into_iter().map(read).collect::<anyhow::Result<_>>()?,
        issuers,
        audiences: given.list("api-audiences"),
        seconds_max: identity::seconds_max(longest).map_err(anyhow::Error::msg)?,
        extends: given.switch("service-account-extend-token-expiration"),
        keys_url: given.text("service-account-jwks-uri").unwrap_or_default().to_owned(),
    })
}

/// Without an authority the certificates of nodes are not verified, as there.
fn kubelet_client(given: &Given) -> anyhow::Result<KubeletClient> {
    let file = |name: &'static str| given.text(name).map(read).transpose();
    let certificate = match (file("kubelet-client-certificate")?, file("kubelet-client-key")?) {
        (Some(certificate), Some(key)) => Some((certificate, key)),
        (None, None) => None,
        _ => bail!("--kubelet-client-certificate and --kubelet-client-key must be given together"),
    };
    let authority = file("kubelet-certificate-authority")?.unwrap_or_default();
    let address_types = given.list("kubelet-preferred-address-types");
    Ok(KubeletClient { authority, certificate, address_types })
}

fn read(file: &str) -> anyhow::Result<String> {
    std::fs::read_to_string(file).with_context(|| format!("cannot read {file}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(arguments: &[&str]) -> Result<Given, flags::Error> {
        let arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
        flags::parse(Front::KubeApiserver.name(), table::FLAGS, arguments)
    }

    #[test]
    fn no_flag_is_there_twice_and_help_has_none_that_is_gone() {
        let mut names: Vec<&str> = table::FLAGS.iter().map(|flag| flag.name).collect();
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
        let help = flags::help("kube-apiserver", ABOUT, table::FLAGS);
        assert!(!help.contains("insecure-port"));
    }

    #[test]
    fn what_decides_access_audit_and_encryption_is_refused() {
        for flag in [
            "--audit-log-path=-",
            "--audit-policy-file=p",
            "--encryption-provider-config=e",
            "--authentication-config=a",
            "--authorization-webhook-config-file=w",
            "--oidc-issuer-url=https://i",
            "--requestheader-client-ca-file=c",
            "--etcd-prefix=/other",
        ] {
            let error = given(&[flag]).unwrap_err().to_string();
            assert!(error.contains("is refused"), "{flag}: {error}");
        }
        let tuned = given(&["--watch-cache-sizes=pods#10", "--goaway-chance=0.01", "--profiling=false"]).unwrap();
        assert_eq!(tuned.without_effect, ["watch-cache-sizes", "goaway-chance", "profiling"]);
        assert!(given(&["--insecure-port=0"]).is_err());
    }
}
