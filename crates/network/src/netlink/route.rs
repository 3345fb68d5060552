//! Links, addresses, routes and neighbours.

use std::net::IpAddr;
use std::os::fd::{AsRawFd, BorrowedFd};

use rkube_machinery::names::address::Subnet;

use super::batch::{Attributes, Batch, CREATE, DUMP, EXCLUSIVE, REPLACE, attribute, number, text};
use super::socket::Socket;
use super::{Error, Result};

pub type MacAddress = [u8; 6];

const NEW_LINK: u16 = 16;
const DELETE_LINK: u16 = 17;
const GET_LINK: u16 = 18;
const SET_LINK: u16 = 19;
const NEW_ADDRESS: u16 = 20;
const NEW_ROUTE: u16 = 24;
const DELETE_ROUTE: u16 = 25;
const GET_ROUTE: u16 = 26;
const NEW_NEIGHBOUR: u16 = 28;

const LINK_ADDRESS: u16 = 1;
const LINK_NAME: u16 = 3;
const LINK_MTU: u16 = 4;
const LINK_STATE: u16 = 16;
const LINK_INFO: u16 = 18;
const LINK_ALIAS: u16 = 20;
const LINK_FAMILIES: u16 = 26;
const LINK_GROUP: u16 = 27;
const LINK_NAMESPACE: u16 = 28;
const INFO_KIND: u16 = 1;
const INFO_DATA: u16 = 2;
const VETH_PEER: u16 = 1;
const INET_SETTINGS: u16 = 1;

const UP: u32 = 1;
const STATE_UP: u8 = 6;
const LINK_HEADER_BYTES: usize = 16;
const ROUTE_HEADER_BYTES: usize = 12;

const TABLE_MAIN: u8 = 254;
/// Who set a route: whoever administers the host.
const PROTOCOL_STATIC: u8 = 4;
const SCOPE_UNIVERSE: u8 = 0;
const SCOPE_LINK: u8 = 253;
const UNICAST: u8 = 1;
const ROUTE_DESTINATION: u16 = 1;
const ROUTE_LINK: u16 = 4;
const ROUTE_GATEWAY: u16 = 5;
const ROUTE_SOURCE: u16 = 7;

const ADDRESS_PEER: u16 = 1;
const ADDRESS_LOCAL: u16 = 2;
const ADDRESS_FLAGS: u16 = 8;
/// IPv6: used at once, without asking around whether somebody else has it.
const NO_DUPLICATE_DETECTION: u32 = 0x02;

const NEIGHBOUR_ADDRESS: u16 = 1;
const NEIGHBOUR_MAC: u16 = 2;
const PERMANENT: u16 = 0x80;

/// Settings of an interface's IPv4, by the kernel's numbers: those of `/proc/sys/net/ipv4/conf/<interface>`.
#[derive(Clone, Copy)]
pub enum Setting {
    Forwarding = 1,
    SendRedirects = 6,
    ReversePathFilter = 8,
    RouteLocalnet = 26,
}

pub struct Veth<'a> {
    pub name: &'a str,
    pub mac: MacAddress,
    pub peer_name: &'a str,
    pub peer_mac: MacAddress,
    pub peer_namespace: BorrowedFd<'a>,
    pub mtu: u32,
}

/// A link that there is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    pub index: u32,
    pub name: String,
    pub alias: String,
    pub mtu: u32,
    /// What is sent goes somewhere.
    pub carries: bool,
}

/// A pair of links, of which the second one comes into being in another namespace.
pub fn add_veth(batch: &mut Batch, veth: &Veth<'_>) {
    let end = |attributes: &mut Attributes<'_>, name: &str, mac: &MacAddress| {
        attributes.text(LINK_NAME, name).bytes(LINK_ADDRESS, mac).number(LINK_MTU, veth.mtu);
    };
    let mut message = batch.message(NEW_LINK, CREATE | EXCLUSIVE, &link_header(0, 0));
    end(&mut message, veth.name, &veth.mac);
    message.nested(LINK_INFO, |info| {
        info.text(INFO_KIND, "veth").nested(INFO_DATA, |data| {
            data.nested_behind(VETH_PEER, &link_header(0, 0), |peer| {
                end(peer, veth.peer_name, &veth.peer_mac);
                let descriptor =
                    u32::try_from(veth.peer_namespace.as_raw_fd()).expect("open descriptors are not negative");
                peer.number(LINK_NAMESPACE, descriptor);
            });
        });
    });
}

/// A link that stands alone: `bridge` or `dummy`.
pub fn add_link(batch: &mut Batch, name: &str, kind: &str) {
    let mut message = batch.message(NEW_LINK, CREATE | EXCLUSIVE, &link_header(0, 0));
    message.text(LINK_NAME, name).nested(LINK_INFO, |info| {
        info.text(INFO_KIND, kind);
    });
}

/// Sets a link up by its name, with an alias for people to read and settings of its IPv4.
pub fn set_up(batch: &mut Batch, name: &str, alias: &str, settings: &[(Setting, u32)]) {
    let mut message = batch.message(SET_LINK, 0, &link_header(0, UP));
    message.text(LINK_NAME, name);
    if !alias.is_empty() {
        message.bytes(LINK_ALIAS, alias.as_bytes());
    }
    if !settings.is_empty() {
        message.nested(LINK_FAMILIES, |families| {
            families.nested(family_number(true), |inet| {
                inet.nested(INET_SETTINGS, |values| {
                    for (setting, value) in settings {
                        values.number(*setting as u16, *value);
                    }
                });
            });
        });
    }
}

pub fn get_link(batch: &mut Batch, name: &str) {
    batch.message(GET_LINK, 0, &link_header(0, 0)).text(LINK_NAME, name);
}

pub fn delete_link(batch: &mut Batch, name: &str) {
    batch.message(DELETE_LINK, 0, &link_header(0, 0)).text(LINK_NAME, name);
}

/// Puts a link among others, with which it can be deleted.
pub fn set_group(batch: &mut Batch, name: &str, group: u32) {
    batch.message(SET_LINK, 0, &link_header(0, 0)).text(LINK_NAME, name).number(LINK_GROUP, group);
}

/// All links of a group: the kernel waits once for all of them, instead of once for each.
pub fn delete_group(batch: &mut Batch, group: u32) {
    batch.message(DELETE_LINK, 0, &link_header(0, 0)).number(LINK_GROUP, group);
}

/// An address of one host alone.
pub fn add_address(batch: &mut Batch, link: u32, address: IpAddr) {
    let mut fixed = vec![family(address), length(address), 0, SCOPE_UNIVERSE];
    fixed.extend_from_slice(&link.to_ne_bytes());
    let mut message = batch.message(NEW_ADDRESS, CREATE | REPLACE, &fixed);
    message.address(ADDRESS_PEER, address).address(ADDRESS_LOCAL, address);
    if address.is_ipv6() {
        message.number(ADDRESS_FLAGS, NO_DUPLICATE_DETECTION);
    }
}

/// What is there behind a link, without a gateway. `source`: which of our addresses to speak from.
pub fn add_link_route(batch: &mut Batch, link: u32, destination: Subnet, source: Option<IpAddr>) {
    let address = destination.masked();
    let mut message =
        batch.message(NEW_ROUTE, CREATE | REPLACE, &route_header(address, destination.length, SCOPE_LINK));
    message.address(ROUTE_DESTINATION, address).number(ROUTE_LINK, link);
    if let Some(source) = source {
        message.address(ROUTE_SOURCE, source);
    }
}

/// Whichever link it leads to.
pub fn delete_route(batch: &mut Batch, destination: Subnet) {
    // Of any scope.
    const SCOPE_NOWHERE: u8 = 255;
    let address = destination.masked();
    let fixed = route_header(address, destination.length, SCOPE_NOWHERE);
    batch.message(DELETE_ROUTE, 0, &fixed).address(ROUTE_DESTINATION, address);
}

pub fn add_default_route(batch: &mut Batch, link: u32, gateway: IpAddr) {
    let mut message = batch.message(NEW_ROUTE, CREATE | REPLACE, &route_header(gateway, 0, SCOPE_UNIVERSE));
    message.address(ROUTE_GATEWAY, gateway).number(ROUTE_LINK, link);
}

/// Who has an address: nobody asks for it any more.
pub fn add_neighbour(batch: &mut Batch, link: u32, address: IpAddr, mac: MacAddress) {
    let mut fixed = vec![family(address), 0, 0, 0];
    fixed.extend_from_slice(&link.to_ne_bytes());
    fixed.extend_from_slice(&PERMANENT.to_ne_bytes());
    fixed.extend_from_slice(&[0, 0]);
    let mut message = batch.message(NEW_NEIGHBOUR, CREATE | REPLACE, &fixed);
    message.address(NEIGHBOUR_ADDRESS, address).bytes(NEIGHBOUR_MAC, &mac);
}

/// The link of this name, if there is one.
pub fn find_link(socket: &mut Socket, name: &str) -> Result<Option<Link>> {
    let mut batch = Batch::new();
    get_link(&mut batch, name);
    match socket.send(batch, "cannot look at a link") {
        Ok(answers) => Ok(answers.iter().find_map(|answer| read_link(answer))),
        Err(error) if error.is_absent() => Ok(None),
        Err(error) => Err(error),
    }
}

pub fn links(socket: &mut Socket) -> Result<Vec<Link>> {
    let mut batch = Batch::new();
    batch.message(GET_LINK, DUMP, &link_header(0, 0));
    let answers = socket.dump(batch, "cannot list the links")?;
    Ok(answers.iter().filter_map(|answer| read_link(answer)).collect())
}

pub fn read_link(answer: &[u8]) -> Option<Link> {
    let index = number(answer.get(4..8)?)?;
    let attributes = answer.get(LINK_HEADER_BYTES..)?;
    let text_of = |kind| attribute(attributes, kind).map(text);
    Some(Link {
        index,
        name: text_of(LINK_NAME)?,
        alias: text_of(LINK_ALIAS).unwrap_or_default(),
        mtu: attribute(attributes, LINK_MTU).and_then(number).unwrap_or_default(),
        carries: attribute(attributes, LINK_STATE) == Some(&[STATE_UP]),
    })
}

/// How large packets on the way to this address may be; None where no way leads there.
pub fn mtu_towards(socket: &mut Socket, address: IpAddr) -> Result<Option<u32>> {
    let mut batch = Batch::new();
    let fixed = [family(address), length(address), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    batch.message(GET_ROUTE, 0, &fixed).address(ROUTE_DESTINATION, address);
    let answers = match socket.send(batch, "cannot look up a route") {
        Ok(answers) => answers,
        Err(Error::Refused { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    let link = answers
        .iter()
        .filter_map(|answer| attribute(answer.get(ROUTE_HEADER_BYTES..)?, ROUTE_LINK).and_then(number))
        .next();
    let Some(link) = link else { return Ok(None) };
    Ok(links(socket)?.into_iter().find(|candidate| candidate.index == link).map(|found| found.mtu))
}

fn link_header(index: u32, up: u32) -> [u8; LINK_HEADER_BYTES] {
    let mut fixed = [0; LINK_HEADER_BYTES];
    fixed[4..8].copy_from_slice(&index.to_ne_bytes());
    // The flags, and which of them are meant.
    fixed[8..12].copy_from_slice(&up.to_ne_bytes());
    fixed[12..16].copy_from_slice(&up.to_ne_bytes());
    fixed
}

fn route_header(address: IpAddr, length: u8, scope: u8) -> [u8; ROUTE_HEADER_BYTES] {
    [family(address), length, 0, 0, TABLE_MAIN, PROTOCOL_STATIC, scope, UNICAST, 0, 0, 0, 0]
}

fn family(address: IpAddr) -> u8 {
    u8::try_from(family_number(address.is_ipv4())).expect("both are small")
}

fn family_number(v4: bool) -> u16 {
    if v4 { rustix::net::AddressFamily::INET.as_raw() } else { rustix::net::AddressFamily::INET6.as_raw() }
}

fn length(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}
