//! Netlink: how the kernel's network is programmed, without any program of the host.
//!
//! [`batch`] writes messages, [`socket`] sends them and reads the answers, [`route`] has those for links, addresses, routes
//! and neighbours, [`nftables`] those for tables of rules, [`conntrack`] those for connections that are kept track of.
//!
//! Why by hand: `rtnetlink` waits for the kernel after every message and knows no nftables, `rustables` is under the GPL, and
//! `nlink` has both in 227,000 lines. What is needed here is twenty messages, sent several at a time.

pub mod batch;
pub mod conntrack;
pub mod nftables;
pub mod route;
pub mod socket;

pub use batch::Batch;
pub use socket::Socket;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel refused the message. `what` is what was tried.
    #[error("{what}: {errno}")]
    Refused { what: &'static str, errno: rustix::io::Errno },
    #[error("{what}: the kernel's answer is not one")]
    Garbled { what: &'static str },
}

impl Error {
    pub fn errno(&self) -> Option<rustix::io::Errno> {
        match self {
            Error::Refused { errno, .. } => Some(*errno),
            Error::Garbled { .. } => None,
        }
    }

    /// What was to be removed is not there.
    pub fn is_absent(&self) -> bool {
        use rustix::io::Errno;
        matches!(self.errno(), Some(Errno::NOENT | Errno::NODEV | Errno::SRCH | Errno::ADDRNOTAVAIL))
    }
}

pub type Result<T> = std::result::Result<T, Error>;
