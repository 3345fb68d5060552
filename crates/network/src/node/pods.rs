//! Pods on the host: what each of them has, made and removed.

use std::collections::BTreeSet;
use std::fs::File;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::time::Duration;

use rkube_runtime::api::{Attachment, PortMapping};
use rustix::fs::fstat;
use rustix::io::Errno;

use super::{Node, absent_stays_silent};
use crate::config::{LINK_PREFIX, link_name};
use crate::error::Error;
use crate::netlink::nftables::Transaction;
use crate::netlink::route::{self, MacAddress, Setting, Veth};
use crate::netlink::{self, Batch, Socket};
use crate::records::{Record, check_id};
use crate::sandbox::{self, Inside, host};
use crate::{ports, reaper};

/// Of all host's ends: each is alone on its link.
const HOST_MAC: MacAddress = [0xee; 6];
/// How long to wait for a link to carry what is sent.
const CARRIER_PAUSE: Duration = Duration::from_micros(200);
const CARRIER_CHECKS_MAX: u32 = 100;
const OWN_NAMESPACE: &str = "/proc/thread-self/ns/net";

impl Node {
    pub fn attach(&mut self, attachment: &Attachment) -> Result<Vec<IpAddr>, Error> {
        let sandbox = attachment.sandbox.as_str();
        check_id(sandbox)?;
        let namespace = self.open_namespace(attachment)?;
        let ports = ports::wanted(&attachment.ports);
        if let (false, Err(why)) = (ports.is_empty(), &self.rules) {
            return Err(Error::NoRules(why.clone()));
        }
        if self.records.get(sandbox).is_some() {
            // Of an attempt that did not get to its end.
            self.detach(sandbox)?;
        }
        ports::check(&ports, sandbox, &self.records)?;
        let addresses = self.take_addresses()?;
        let record = Record { addresses: addresses.clone(), ports };
        let made =
            self.records.insert(sandbox, record.clone()).and_then(|()| self.connect(sandbox, &namespace, &record));
        if let Err(error) = made {
            self.give_back(&addresses);
            if let Err(error) = self.detach(sandbox) {
                tracing::warn!(sandbox, %error, "what was made of a pod's network stays until its sandbox is removed");
            }
            return Err(error);
        }
        Ok(addresses)
    }

    fn open_namespace(&self, attachment: &Attachment) -> Result<File, Error> {
        let sandbox = &attachment.sandbox;
        let failed = |source| Error::Namespace { sandbox: sandbox.clone(), source };
        let namespace = File::open(&attachment.network_namespace).map_err(failed)?;
        let own = File::open(OWN_NAMESPACE).map_err(failed)?;
        let identity = |file: &File| fstat(file).map(|stat| (stat.st_dev, stat.st_ino)).map_err(|e| failed(e.into()));
        if identity(&namespace)? == identity(&own)? {
            return Err(Error::HostNamespace { sandbox: sandbox.clone() });
        }
        Ok(namespace)
    }

    fn take_addresses(&mut self) -> Result<Vec<IpAddr>, Error> {
        if self.pools.is_empty() {
            return Err(Error::Problem("this node has no range of addresses for pods yet".to_owned()));
        }
        let mut addresses = Vec::new();
        for index in 0..self.pools.len() {
            match self.pools[index].take() {
                Some(address) => addresses.push(address),
                None => {
                    let range = self.pools[index].range;
                    self.give_back(&addresses);
                    return Err(Error::Exhausted { range });
                }
            }
        }
        Ok(addresses)
    }

    fn give_back(&mut self, addresses: &[IpAddr]) {
        for address in addresses {
            self.pools.iter_mut().for_each(|pool| pool.give_back(*address));
        }
    }

    fn connect(&mut self, sandbox: &str, namespace: &File, record: &Record) -> Result<(), Error> {
        let name = link_name(sandbox);
        let what = "cannot make the links of a sandbox";
        let veth = Veth {
            name: &name,
            mac: HOST_MAC,
            peer_name: sandbox::LINK,
            peer_mac: pod_mac(&record.addresses),
            peer_namespace: namespace.as_fd(),
            mtu: self.mtu,
        };
        let alias = format!("{}/{sandbox}", self.config.name);
        let make = |route: &mut Socket| {
            let mut batch = Batch::new();
            route::add_veth(&mut batch, &veth);
            route::set_up(&mut batch, &name, &alias, &link_settings(&record.ports));
            route::get_link(&mut batch, &name);
            route.send(batch, what)
        };
        let answers = match make(&mut self.route) {
            // An earlier one that is not buried yet.
            Err(error) if error.errno() == Some(Errno::EXIST) => {
                self.give_up_link(&name)?;
                reaper::bury(&mut self.route)?;
                make(&mut self.route)?
            }
            made => made?,
        };
        let link = answers.iter().find_map(|answer| route::read_link(answer));
        let link = link.ok_or(netlink::Error::Garbled { what })?.index;

        let with_gateway = |address: &IpAddr| Some((*address, self.config.gateway(address.is_ipv4())?));
        let addresses: Vec<(IpAddr, IpAddr)> = record.addresses.iter().filter_map(with_gateway).collect();
        sandbox::configure(&Inside { sandbox, namespace, addresses: &addresses, gateway_mac: HOST_MAC })?;

        let mut batch = Batch::new();
        self.add_ways(&mut batch, link, &record.addresses);
        self.route.send(batch, "cannot make the route to a pod")?;
        self.await_carrier(&name)?;
        self.add_elements(record)
    }

    /// The end that was set up first learns of the other a moment later, and drops what is sent until then: the first
    /// connection would begin with a pause of a second. Newer kernels see to it when they are asked for the link's state.
    fn await_carrier(&mut self, name: &str) -> Result<(), Error> {
        for _ in 0..CARRIER_CHECKS_MAX {
            match route::find_link(&mut self.route, name)? {
                Some(link) if !link.carries => std::thread::sleep(CARRIER_PAUSE),
                _ => return Ok(()),
            }
        }
        tracing::debug!(name, "the link of a pod does not carry yet");
        Ok(())
    }

    /// Ways to a pod's addresses.
    pub(super) fn add_ways(&self, batch: &mut Batch, link: u32, addresses: &[IpAddr]) {
        for address in addresses {
            route::add_neighbour(batch, link, *address, pod_mac(addresses));
            route::add_link_route(batch, link, host(*address), self.config.gateway(address.is_ipv4()));
        }
    }

    fn add_elements(&mut self, record: &Record) -> Result<(), Error> {
        let elements = ports::elements(record);
        let (false, Ok(socket)) = (elements.is_empty(), &mut self.rules) else { return Ok(()) };
        let mut transaction = Transaction::new(&self.config.name);
        for (set, element) in elements {
            transaction.add_elements(set, &[element]);
        }
        transaction.commit(socket, "cannot open host ports")?;
        if let Err(error) = ports::forget_earlier(socket, record) {
            tracing::warn!(%error, "who sends datagrams to a host port already reaches its pod after a pause only");
        }
        Ok(())
    }

    /// Nothing leads there any more when this returns; the link itself may take a moment longer.
    pub fn detach(&mut self, sandbox: &str) -> Result<(), Error> {
        check_id(sandbox)?;
        let record = self.records.get(sandbox).cloned();
        // First, so that nothing is sent to whoever gets the address next.
        if let Some(record) = &record {
            self.delete_elements(record);
        }
        if self.give_up_link(&link_name(sandbox))? {
            let mut batch = Batch::new();
            for address in record.iter().flat_map(|record| &record.addresses) {
                route::delete_route(&mut batch, host(*address));
            }
            if !batch.is_empty() {
                absent_stays_silent(self.route.send(batch, "cannot remove the route to a pod"))?;
            }
            if !self.reaper.wake() {
                reaper::bury(&mut self.route)?;
            }
        }
        if let Some(record) = self.records.remove(sandbox)? {
            self.give_back(&record.addresses);
        }
        Ok(())
    }

    /// Puts it among the dead. False where there is none.
    fn give_up_link(&mut self, name: &str) -> Result<bool, Error> {
        let mut batch = Batch::new();
        route::set_group(&mut batch, name, reaper::DEAD);
        let given_up = self.route.send(batch, "cannot give up the links of a sandbox");
        // Who may change nothing is told so before anybody looks whether there is something to change.
        let refused = given_up.as_ref().is_err_and(|error| error.errno() == Some(Errno::PERM));
        if refused && route::find_link(&mut self.route, name)?.is_none() {
            return Ok(false);
        }
        absent_stays_silent(given_up)
    }

    fn delete_elements(&mut self, record: &Record) {
        let elements = ports::elements(record);
        let (false, Ok(socket)) = (elements.is_empty(), &mut self.rules) else { return };
        let mut transaction = Transaction::new(&self.config.name);
        for (set, element) in elements {
            transaction.delete_elements(set, &[element]);
        }
        if let Err(error) = transaction.commit(socket, "cannot close host ports") {
            tracing::debug!(%error, "host ports were not as recorded");
        }
        if let Err(error) = ports::forget(socket, record) {
            tracing::warn!(%error, "who sends datagrams to a host port goes on sending them to a pod that is gone");
        }
    }

    /// Removes what belongs to other sandboxes than these.
    pub fn retain(&mut self, sandboxes: &[String]) -> Result<(), Error> {
        let kept: BTreeSet<&str> = sandboxes.iter().map(String::as_str).collect();
        let gone: Vec<String> =
            self.records.iter().map(|(id, _)| id.to_owned()).filter(|id| !kept.contains(id.as_str())).collect();
        for sandbox in &gone {
            self.detach(sandbox)?;
        }
        let kept: BTreeSet<String> = kept.into_iter().map(link_name).collect();
        self.remove_links(|name| !kept.contains(name))
    }

    /// Of this network's links to sandboxes alone.
    fn remove_links(&mut self, unwanted: impl Fn(&str) -> bool) -> Result<(), Error> {
        let alias = format!("{}/", self.config.name);
        let mut given_up = false;
        for link in route::links(&mut self.route)? {
            // One without an alias was made a moment before a crash.
            let ours = link.name.starts_with(LINK_PREFIX) && (link.alias.is_empty() || link.alias.starts_with(&alias));
            if !ours || !unwanted(&link.name) {
                continue;
            }
            given_up |= self.give_up_link(&link.name)?;
        }
        if given_up {
            reaper::bury(&mut self.route)?;
        }
        Ok(())
    }
}

fn link_settings(ports: &[PortMapping]) -> Vec<(Setting, u32)> {
    let mut settings = vec![(Setting::Forwarding, 1), (Setting::SendRedirects, 0), (Setting::ReversePathFilter, 1)];
    if !ports.is_empty() {
        // For answers to who reached a host port by 127.0.0.1; a rule drops all else from pods that is addressed so.
        settings.push((Setting::RouteLocalnet, 1));
    }
    settings
}

/// Made of the pod's first address, as container networks do: a bit that says that it is nobody's product.
fn pod_mac(addresses: &[IpAddr]) -> MacAddress {
    let last = match addresses.first() {
        Some(IpAddr::V4(address)) => address.octets(),
        Some(IpAddr::V6(address)) => {
            let octets = address.octets();
            [octets[12], octets[13], octets[14], octets[15]]
        }
        None => [0; 4],
    };
    [0x0a, 0x58, last[0], last[1], last[2], last[3]]
}
