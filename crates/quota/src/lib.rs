//! What objects cost in ResourceQuotas: which resources of a quota a kind has to do with ([`Evaluator`]), how much an object
//! takes of them and which scopes it is in ([`Measure`]), and what a quota says ([`Quota`]).
//!
//! Admission charges by it before objects are stored, and the controller adds up by it what is there: both come to the
//! same. Pure functions of objects in the form in which they are stored; the time is passed in.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod amounts;
mod evaluator;
mod measure;
mod pods;
mod quota;
mod resource_claims;
mod scopes;
mod services;
mod volume_claims;

pub use amounts::Amounts;
pub use evaluator::{Evaluator, kind_of};
pub use measure::{Container, Measure};
pub use quota::Quota;
pub use scopes::{Operator, Requirement, Scopes};
