//! What others add to the API: custom resources, as their definitions ask for them.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod definitions;
