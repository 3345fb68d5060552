//! Who asks, and what they may do.
//!
//! [`authenticate`] and [`authorize`] are lists of members, one file each; the first member with an opinion decides. A
//! member that is asked about every request waits for nothing: what it looks up is in the catalog's caches. Refusals
//! are values here; the API server words them as a `Status`. [`impersonate`] lets somebody act as another.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod authenticate;
pub mod authorize;
pub mod impersonate;
mod user;

pub use user::{AUTHENTICATED, MASTERS, NODES, UNAUTHENTICATED, User, UserRef};
