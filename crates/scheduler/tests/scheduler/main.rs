//! The scheduler's decisions: pods and nodes go in as JSON, what it would do comes out.

#![allow(clippy::unwrap_used)]

mod choices;
mod model;
mod refusals;
mod requests;
mod support;
mod volumes;
mod waiting;
