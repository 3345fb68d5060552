//! The conformance suite: what [`crate::contract`] promises, as tests that every backend passes.
//!
//! [`run`] takes a way to get a store. Each case works under a prefix of its own, so that a backend may give the same
//! store to all of them, and on a seed of its own where it runs things at once.

mod leases;
mod reads;
mod support;
mod watches;
mod writes;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::LocalBoxFuture;

use crate::contract::Store;

/// Where a case works.
#[derive(Clone)]
pub(crate) struct Place {
    pub store: Arc<dyn Store>,
    pub prefix: String,
}

type Case = fn(Place) -> LocalBoxFuture<'static, ()>;

macro_rules! cases {
    ($($module:ident: $($name:ident),+;)+) => {
        const CASES: &[(&str, Case)] = &[$($((stringify!($name), |place| $module::$name(place).boxed_local())),+),+];
    };
}

cases! {
    writes: compares_and_swaps, tells_conflicts, orders_concurrent_writes, reads_its_writes,
        one_of_many_creators_wins, cancelled_writes_are_whole, carries_any_value, carries_any_key, keeps_to_guards,
        one_of_a_guard_and_the_guarded_wins;
    reads: limits_and_counts, reads_as_of_a_revision, refuses_the_future, refuses_the_compacted_past,
        ranges_have_edges;
    watches: delivers_before_acknowledging, resumes_without_gaps, refuses_a_compacted_start, keeps_to_its_prefix,
        tells_progress, ends_when_dropped, serves_thousands, tells_what_was_before;
    leases: expire, live_while_renewed, are_revoked, must_exist, let_go_of_rewritten_keys;
}

/// Runs every case, each on a store from `make`. Panics, with the name of the case, when one fails.
pub async fn run(make: impl AsyncFn() -> Arc<dyn Store>) {
    for (name, case) in CASES {
        let place = Place { store: make().await, prefix: format!("/suite/{name}/") };
        let outcome = AssertUnwindSafe(case(place)).catch_unwind().await;
        assert!(outcome.is_ok(), "the store fails the case {name}, see the panic before this one");
    }
}
