//! One process has the network of pods of a host.
//!
//! What says so has to be one for each network namespace, and to end with the process however that ends: a socket under an
//! abstract name is both.

use std::io::ErrorKind;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

use crate::error::Error;

pub struct Claim {
    _socket: UnixListener,
}

impl Claim {
    pub fn take(name: &str) -> Result<Claim, Error> {
        let bound = SocketAddr::from_abstract_name(format!("{name}/pod-network"))
            .and_then(|address| UnixListener::bind_addr(&address));
        match bound {
            Ok(socket) => Ok(Claim { _socket: socket }),
            Err(error) if error.kind() == ErrorKind::AddrInUse => Err(Error::Claimed),
            Err(error) => Err(Error::Problem(format!("cannot claim the network: {error}"))),
        }
    }
}
