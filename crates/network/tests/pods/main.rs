//! The network of pods, in network namespaces that each test makes: the host, its pods and an outside are all namespaces, and
//! what is sent goes over real sockets.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod connections;
mod firewall;
mod host_ports;
mod lifecycle;
mod world;
