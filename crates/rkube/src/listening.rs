//! Sockets that clients connect to.

use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use anyhow::Context;
use rustix::net::sockopt::{set_socket_keepalive, set_tcp_keepidle, set_tcp_keepintvl};

/// How often to ask whether a client that says nothing is still there; upstream's.
const KEEPALIVE_PERIOD: Duration = Duration::from_secs(3 * 60);

/// `hint`: what to do if it cannot be.
pub fn bind(listen: SocketAddr, hint: &str) -> anyhow::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind(listen).with_context(|| format!("cannot listen on {listen}: {hint}"))?;
    listener.set_nonblocking(true)?;
    // Accepted connections inherit it.
    set_socket_keepalive(&listener, true)?;
    set_tcp_keepidle(&listener, KEEPALIVE_PERIOD)?;
    set_tcp_keepintvl(&listener, KEEPALIVE_PERIOD)?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_in_use_is_said_with_the_way_out() {
        let (_held, address) = bind("127.0.0.1:0".parse().unwrap(), "try --listen").unwrap();
        let error = format!("{:#}", bind(address, "try --listen").unwrap_err());
        assert!(error.contains("--listen") && error.contains("in use"), "{error}");
    }
}
