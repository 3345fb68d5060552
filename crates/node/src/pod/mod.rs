//! A pod on a node, as a state machine without IO: [`plan`] says what is to be done with its containers, [`state`] is
//! what became of them, [`status`] what the API is told. The time is passed in.
//!
//! What holds: a pod that has ended never runs again; init containers run one after the other, and once a main container
//! was started never again; nobody is told that a pod has ended while a container of it runs.

pub mod backoff;
mod conditions;
pub mod deadline;
mod phase;
pub mod plan;
pub mod resize;
pub mod spec;
pub mod state;
pub mod status;
pub mod waits;
