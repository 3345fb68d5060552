//! The inside of a sandbox: its loopback, its `eth0`, and the way out.

use std::fs::File;
use std::net::IpAddr;

use rkube_machinery::names::address::Subnet;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::error::Error;
use crate::netlink::{self, Batch, Socket, route};

/// What pods call their link.
pub const LINK: &str = "eth0";
const LOOPBACK: &str = "lo";

pub struct Inside<'a> {
    pub sandbox: &'a str,
    pub namespace: &'a File,
    /// Each address of the pod with the gateway of its family.
    pub addresses: &'a [(IpAddr, IpAddr)],
    pub gateway_mac: route::MacAddress,
}

/// Sets up what is inside, from a thread of its own: a socket belongs to the namespace that it was opened in, and a thread
/// that failed to go back would do everything else in the wrong one.
pub fn configure(inside: &Inside<'_>) -> Result<(), Error> {
    let work = || {
        move_into_link_name_space(std::os::fd::AsFd::as_fd(inside.namespace), Some(LinkNameSpaceType::Network))
            .map_err(|errno| Error::Namespace { sandbox: inside.sandbox.to_owned(), source: errno.into() })?;
        let mut socket = Socket::route()?;
        set_up(&mut socket, inside).map_err(Error::from)
    };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("sandbox-network".to_owned()).spawn_scoped(scope, work);
        let thread = thread.map_err(|source| Error::Namespace { sandbox: inside.sandbox.to_owned(), source })?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn set_up(socket: &mut Socket, inside: &Inside<'_>) -> netlink::Result<()> {
    let what = "cannot set up the network inside of a sandbox";
    let mut batch = Batch::new();
    route::set_up(&mut batch, LOOPBACK, "", &[]);
    route::set_up(&mut batch, LINK, "", &[]);
    route::get_link(&mut batch, LINK);
    let answers = socket.send(batch, what)?;
    let link = answers.iter().find_map(|answer| route::read_link(answer));
    let link = link.ok_or(netlink::Error::Garbled { what })?.index;

    let mut batch = Batch::new();
    for (address, gateway) in inside.addresses {
        route::add_address(&mut batch, link, *address);
        route::add_neighbour(&mut batch, link, *gateway, inside.gateway_mac);
        route::add_link_route(&mut batch, link, host(*gateway), None);
        route::add_default_route(&mut batch, link, *gateway);
    }
    socket.send(batch, what).map(drop)
}

/// The range of one address alone.
pub fn host(address: IpAddr) -> Subnet {
    Subnet { address, length: if address.is_ipv4() { 32 } else { 128 } }
}
