//! The real binary among people who send it nonsense, pull its plug, fill its disk and never read its answers. One
//! test program; one module per hardship.

#![allow(clippy::unwrap_used)]

mod admission_webhooks;
mod client;
mod connections;
mod conversion;
mod crash;
mod crowd;
mod custom_resources;
mod definitions;
mod directory;
mod doubling;
mod ending;
mod endpoints;
mod envtest;
mod full_disk;
mod garbage;
mod identity;
mod join;
mod load;
mod log;
mod private;
mod requests;
mod roles;
mod sizes;
mod tokens;
mod watches;
mod webhook;

use rkube_testkit::Rkube;

use crate::client::Client;

/// A new cluster that keeps its objects in memory.
fn start() -> Rkube {
    Rkube::start_with(env!("CARGO_BIN_EXE_rkube"), &["--store=memory"])
}

/// A new cluster that keeps its objects on disk.
fn start_durable() -> Rkube {
    Rkube::start(env!("CARGO_BIN_EXE_rkube"))
}

/// Whatever was done to it, it answers and nothing in it panicked.
#[track_caller]
fn is_well(rkube: &Rkube) {
    let ready = Client::of(rkube).get("/readyz");
    assert_eq!((ready.status, ready.body.as_slice()), (200, b"ok".as_slice()));
    let said = rkube.stderr();
    assert!(!said.contains("panicked") && !said.contains("made the server panic"), "{said}");
}

/// A small seeded generator of numbers (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) % bound
    }
}
