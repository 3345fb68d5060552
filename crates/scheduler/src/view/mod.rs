//! What the scheduler keeps of pods and nodes: small structs, made of an object's JSON, with whole numbers instead of
//! quantities.

mod json;
pub mod node;
pub mod pod;
mod requests;
mod resources;

pub use node::{Image, Node, Taint};
pub use pod::{
    Affinity, Effect, HostPort, Operator, Pending, Pod, PreferredTerm, Protocol, Requirement, Term, Toleration,
    TolerationOperator,
};
pub use resources::Resources;
