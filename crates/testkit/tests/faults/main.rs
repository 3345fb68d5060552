//! Clusters in which things go wrong, from a seed: the same seed is the same run, and whatever happens, what has to hold
//! does.

#![allow(clippy::unwrap_used)]

mod conflicts;
mod cycles;
mod nodes;
mod quotas;
mod safeguards;
mod seeds;
