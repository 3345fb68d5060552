//! A whole cluster in the process: what it is, and what happens in it.

#![allow(clippy::unwrap_used)]

mod attachments;
mod autoscalers;
mod budgets;
mod certificates;
mod claims;
mod cron_jobs;
mod daemon_sets;
mod deletions;
mod deployments;
mod device_claims;
mod elections;
mod jobs;
mod legacy_tokens;
mod lost_nodes;
mod namespaces;
mod node_failures;
mod policies;
mod quotas;
mod reconciles;
mod scheduling;
mod scheduling_volumes;
mod services;
mod simulated_nodes;
mod start;
mod stateful_sets;
mod storage_versions;
mod time;
mod volumes;
mod workloads;
