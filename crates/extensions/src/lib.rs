//! What others add to the API: custom resources, as their definitions ask for them, and webhooks that the server asks.
//!
//! [`definitions`] serves custom resources. [`webhook`] calls webhooks, whoever wants it; [`conversion`] asks them to
//! convert custom resources. Everything that comes back is checked and has a bound, since anybody may have written it.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod conversion;
pub mod definitions;
pub mod webhook;
