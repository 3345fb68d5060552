//! The real binary, driven by the clients that people use. One test program, so that its dependencies are linked once;
//! one module per client or topic.

#![allow(clippy::unwrap_used)]

mod admission_webhooks;
mod authentication;
mod backup;
mod bad_input;
mod certificates;
mod charts;
mod conversion;
mod crash;
mod custom_definitions;
mod custom_resources;
mod definition_mistakes;
mod dual_stack;
mod elections;
mod etcd;
mod examples;
mod go_client;
mod helm;
mod helm_family;
mod image_command;
mod kopf;
mod kube_rs;
mod kube_rs_custom;
mod kubectl_apply;
mod kubectl_autoscale;
mod kubectl_cascade;
mod kubectl_change;
mod kubectl_discover;
mod kubectl_kinds;
mod kubectl_make;
mod kubectl_nodes;
mod kubectl_old;
mod kubectl_read;
mod kubectl_rollout;
mod kubectl_watch;
mod life;
mod operators;
mod python;
mod python_webhook;
mod roles;
mod services;
mod toolkit;
mod volumes;

use rkube_testkit::Rkube;

/// A new cluster that keeps its objects in memory.
fn start() -> Rkube {
    Rkube::start_with(env!("CARGO_BIN_EXE_rkube"), &["--store=memory"])
}

/// A new cluster that keeps its objects on disk, as people run it.
fn start_durable() -> Rkube {
    Rkube::start(env!("CARGO_BIN_EXE_rkube"))
}
