//! Connections that the kernel keeps track of. It remembers the way that the first datagram of a sender took, as long as more
//! of them come: rules that came later do not count for them.

use std::net::IpAddr;

use super::Result;
use super::batch::{Attributes, Batch};
use super::socket::Socket;

const SUBSYSTEM: u16 = 1;
const DELETE: u16 = 2;

const TUPLE_ORIGINAL: u16 = 1;
const TUPLE_REPLY: u16 = 2;
const STATUS: u16 = 3;
const FILTER: u16 = 25;
const STATUS_MASK: u16 = 26;

const TUPLE_ADDRESSES: u16 = 1;
const TUPLE_TRANSPORT: u16 = 2;

/// What of the tuples counts.
const BY_SOURCE: u32 = 1 << 0;
const BY_PROTOCOL: u32 = 1 << 3;
const BY_DESTINATION_PORT: u32 = 1 << 5;

const ANSWERED: u32 = 1 << 1;
const DESTINATION_CHANGED: u32 = 1 << 5;

/// Forgets those that led to this address, under whatever address they were sent.
pub fn forget_answers_of(socket: &mut Socket, address: IpAddr) -> Result<()> {
    delete(socket, address.is_ipv4(), |message| {
        message.nested(TUPLE_REPLY, |tuple| {
            tuple.nested(TUPLE_ADDRESSES, |addresses| {
                let source = if address.is_ipv4() { 1 } else { 3 };
                addresses.address(source, address);
            });
        });
        message.nested(FILTER, |filter| _ = filter.number(1, 0).number(2, BY_SOURCE));
    })
}

/// Forgets those to this port that nobody has answered, and that lead where they were sent: to nobody.
pub fn forget_unanswered(socket: &mut Socket, v4: bool, protocol: u8, port: u16) -> Result<()> {
    delete(socket, v4, |message| {
        message.nested(TUPLE_ORIGINAL, |tuple| {
            tuple.nested(TUPLE_TRANSPORT, |transport| {
                transport.bytes(1, &[protocol]).bytes(3, &port.to_be_bytes());
            });
        });
        message.nested(FILTER, |filter| {
            filter.number(1, BY_PROTOCOL | BY_DESTINATION_PORT).number(2, 0);
        });
        message.number_be(STATUS, 0).number_be(STATUS_MASK, ANSWERED | DESTINATION_CHANGED);
    })
}

fn delete(socket: &mut Socket, v4: bool, fill: impl FnOnce(&mut Attributes<'_>)) -> Result<()> {
    let family = if v4 { 2 } else { 10 };
    let mut batch = Batch::new();
    fill(&mut batch.message(SUBSYSTEM << 8 | DELETE, 0, &[family, 0, 0, 0]));
    match socket.send(batch, "cannot forget connections") {
        Err(error) if !error.is_absent() => Err(error),
        _ => Ok(()),
    }
}
