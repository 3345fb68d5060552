//! The rules of pods, looked at from outside.

#![allow(clippy::unwrap_used)]

mod common;
mod create;
mod defaults;
mod update;
mod volumes;
