//! What the host has of the network, and how it gets it: everything here happens on one thread, one thing after another, as
//! the kernel would have it anyway. [`pods`] has what happens for each of them.

mod pods;

use std::net::IpAddr;

use rkube_machinery::names::address::Subnet;
use rustix::io::Errno;

use crate::claim::Claim;
use crate::config::{Config, link_name};
use crate::error::Error;
use crate::netlink::nftables::{self, Transaction};
use crate::netlink::socket::Answer;
use crate::netlink::{self, Batch, Socket, route};
use crate::pool::Pool;
use crate::reaper::Reaper;
use crate::records::Records;
use crate::{firewall, ports, rules, sysctl};

/// Where the way out leads nowhere.
const MTU_DEFAULT: u32 = 1500;
/// Somebody who is not there (RFC 5737): only looked up, never sent to.
const SOMEBODY: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

pub struct Node {
    config: Config,
    route: Socket,
    /// Or why there can be no rules.
    rules: Result<Socket, String>,
    records: Records,
    pools: Vec<Pool>,
    mtu: u32,
    reaper: Reaper,
    _claim: Claim,
}

impl Node {
    /// What there is; nothing is made yet.
    pub fn open(config: Config) -> Result<Node, Error> {
        let claim = Claim::take(&config.name)?;
        let records = Records::open(&config.state_directory.join("sandboxes"))?;
        let mut route = Socket::route()?;
        let mtu = route::mtu_towards(&mut route, SOMEBODY)?.unwrap_or(MTU_DEFAULT);
        let rules = Socket::netfilter().map_err(|error| error.to_string());
        let ranges = config.pod_ranges.clone();
        let mut node =
            Node { config, route, rules, records, pools: Vec::new(), mtu, reaper: Reaper::start(), _claim: claim };
        node.set_pod_ranges(&ranges);
        Ok(node)
    }

    /// Where pods get their addresses from, from now on. Those that have one keep it.
    pub fn set_pod_ranges(&mut self, ranges: &[Subnet]) {
        self.pools = ranges.iter().map(|range| Pool::new(*range, &self.config.gateways)).collect();
        for (_, record) in self.records.iter() {
            for address in &record.addresses {
                let known = self.pools.iter_mut().any(|pool| pool.mark(*address));
                tracing::debug!(%address, known, "a pod has this address already");
            }
        }
    }

    pub fn has_pod_ranges(&self) -> bool {
        !self.pools.is_empty()
    }

    /// Why there are no rules, if so.
    pub fn rules_problem(&self) -> Option<&str> {
        self.rules.as_ref().err().map(String::as_str)
    }

    /// Makes whatever is missing of what belongs to the host and of what pods have there.
    pub fn ensure(&mut self) -> Result<(), Error> {
        self.forward()?;
        self.ensure_rules()?;
        self.ensure_interface()?;
        self.ensure_ways()
    }

    /// Looks whether somebody else has removed what is ours, as a firewall does that replaces all rules.
    pub fn check(&mut self) -> Result<(), Error> {
        let table = match &mut self.rules {
            Ok(socket) => nftables::has_table(socket, &self.config.name)?,
            Err(_) => true,
        };
        let interface = route::find_link(&mut self.route, &self.config.interface())?.is_some();
        if table && interface {
            self.pass_firewall();
            return Ok(());
        }
        tracing::warn!(table, interface, "somebody removed a part of the network of pods: it is made again");
        self.ensure()
    }

    fn forward(&self) -> Result<(), Error> {
        for v4 in self.config.families() {
            let path = if v4 { "/proc/sys/net/ipv4/ip_forward" } else { "/proc/sys/net/ipv6/conf/all/forwarding" };
            sysctl::ensure(path, "1").map_err(|error| Error::Problem(format!("cannot set {path} to 1: {error}")))?;
        }
        Ok(())
    }

    /// Not to be had everywhere, and much works without.
    fn ensure_rules(&mut self) -> Result<(), Error> {
        let Ok(socket) = &mut self.rules else { return Ok(()) };
        let mut transaction = Transaction::new(&self.config.name);
        rules::replace(&mut transaction, &self.config);
        for (_, record) in self.records.iter() {
            for (set, element) in ports::elements(record) {
                transaction.add_elements(set, &[element]);
            }
        }
        match transaction.commit(socket, "cannot make the rules of nftables") {
            Err(error) if error.errno() == Some(Errno::PERM) => return Err(error.into()),
            Err(error) => self.rules = Err(error.to_string()),
            Ok(()) => self.pass_firewall(),
        }
        Ok(())
    }

    /// What others drop is theirs to say, and pods' to lack.
    fn pass_firewall(&mut self) {
        let Ok(socket) = &mut self.rules else { return };
        match firewall::admit(socket, &self.config) {
            Ok(changed) => {
                for chain in changed {
                    tracing::info!(
                        table = chain.table,
                        chain = chain.name,
                        "the firewall drops by default: pods may pass"
                    );
                }
            }
            Err(error) => tracing::warn!("{error}: pods may not reach others"),
        }
    }

    /// A link without ports, which is there for its addresses.
    fn ensure_interface(&mut self) -> Result<(), Error> {
        let name = self.config.interface();
        let what = "cannot make the interface of the gateway";
        if route::find_link(&mut self.route, &name)?.is_none() {
            let mut made = Ok(Vec::new());
            for kind in ["bridge", "dummy"] {
                let mut batch = Batch::new();
                route::add_link(&mut batch, &name, kind);
                made = self.route.send(batch, what);
                if !made.as_ref().is_err_and(|error| error.errno() == Some(Errno::OPNOTSUPP)) {
                    break;
                }
            }
            made?;
        }
        let mut batch = Batch::new();
        route::set_up(&mut batch, &name, "", &[]);
        self.route.send(batch, what)?;
        let link = route::find_link(&mut self.route, &name)?.ok_or(netlink::Error::Garbled { what })?.index;
        let mut batch = Batch::new();
        let service = self.config.api.filter(|_| self.rules.is_err()).map(|api| api.service.ip());
        for address in self.config.gateways.iter().copied().chain(service) {
            route::add_address(&mut batch, link, address);
        }
        for range in &self.config.service_ranges {
            let gateway = self.config.gateway(range.address.is_ipv4());
            if gateway.is_some() {
                route::add_link_route(&mut batch, link, *range, gateway);
            }
        }
        self.route.send(batch, what)?;
        Ok(())
    }

    /// The ways to pods that are there already: whoever removed the gateway's addresses removed these with them.
    fn ensure_ways(&mut self) -> Result<(), Error> {
        let links = route::links(&mut self.route)?;
        let mut batch = Batch::new();
        for (sandbox, record) in self.records.iter() {
            let name = link_name(sandbox);
            if let Some(link) = links.iter().find(|link| link.name == name) {
                self.add_ways(&mut batch, link.index, &record.addresses);
            }
        }
        if !batch.is_empty() {
            self.route.send(batch, "cannot make the routes to pods")?;
        }
        Ok(())
    }

    /// Leaves nothing of it on the host, but for what others may have come to rely on: that packets are forwarded.
    pub fn tear_down(&mut self) -> Result<(), Error> {
        self.retain(&[])?;
        if let Ok(socket) = &mut self.rules {
            nftables::remove_table(socket, &self.config.name)?;
            firewall::withdraw(socket)?;
        }
        let mut batch = Batch::new();
        route::delete_link(&mut batch, &self.config.interface());
        absent_stays_silent(self.route.send(batch, "cannot remove the interface of the gateway"))?;
        let directory = &self.config.state_directory;
        match std::fs::remove_dir_all(directory) {
            Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
                Err(Error::Record { path: directory.display().to_string(), source })
            }
            _ => Ok(()),
        }
    }
}

/// Whether there was something.
fn absent_stays_silent(result: netlink::Result<Vec<Answer>>) -> Result<bool, Error> {
    match result {
        Ok(_) => Ok(true),
        Err(error) if error.is_absent() => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd;
    use std::process::{Command, Stdio};

    use rkube_runtime::api::{Attachment, PortMapping};
    use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

    use super::*;
    use crate::config::Api;

    /// A kernel without nftables, as far as this crate can tell: pods have a network, and the API server is where it says.
    #[test]
    fn without_rules_the_service_address_is_the_hosts() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let mut holder = Command::new("unshare").args(["--net", "sleep", "600"]).stdout(Stdio::null()).spawn().unwrap();
        let namespace = format!("/proc/{}/ns/net", holder.id());
        let own = std::fs::read_link("/proc/thread-self/ns/net").unwrap();
        while std::fs::read_link(&namespace).unwrap() == own {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let directory = tempfile::tempdir().unwrap();
        let subnet = |text: &str| Subnet::parse_sloppy(text).unwrap();
        let config = Config {
            name: "rkube".to_owned(),
            gateways: vec![[10, 244, 0, 1].into()],
            cluster_ranges: vec![subnet("10.244.0.0/16")],
            pod_ranges: vec![subnet("10.244.0.0/24")],
            service_ranges: vec![subnet("10.96.0.0/12")],
            api: Some(Api { service: ([10, 96, 0, 1], 443).into(), backend: ([10, 244, 0, 1], 6443).into() }),
            state_directory: directory.path().to_owned(),
        };
        let file = File::open(&namespace).unwrap();
        let outcome = std::thread::spawn(move || {
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
            let mut node = Node::open(config).unwrap();
            node.rules = Err("this kernel has no netfilter".to_owned());
            node.ensure().unwrap();
            let listener = std::net::TcpListener::bind("10.96.0.1:443").map(drop);
            let port = PortMapping { protocol: Default::default(), container_port: 80, host_port: 80, host_ip: None };
            let network_namespace = "/proc/self/ns/net".into();
            let refused = node.attach(&Attachment { sandbox: "a".to_owned(), network_namespace, ports: vec![port] });
            node.check().unwrap();
            node.tear_down().unwrap();
            (listener, refused)
        });
        let (listener, refused) = outcome.join().unwrap();
        holder.kill().unwrap();
        holder.wait().unwrap();
        listener.unwrap();
        assert!(matches!(refused, Err(Error::NoRules(_))), "{refused:?}");
    }
}
