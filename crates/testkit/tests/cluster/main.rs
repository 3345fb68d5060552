//! A whole cluster in the process: what it is, and what happens in it.

#![allow(clippy::unwrap_used)]

mod cron_jobs;
mod daemon_sets;
mod deletions;
mod deployments;
mod jobs;
mod lost_nodes;
mod namespaces;
mod reconciles;
mod scheduling;
mod services;
mod simulated_nodes;
mod start;
mod stateful_sets;
mod time;
mod volumes;
mod workloads;
