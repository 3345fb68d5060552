//! What the scheduler keeps of pods, nodes and what there is for volumes: small structs, made of an object's JSON, with
//! whole numbers instead of quantities.

pub mod claim;
pub mod csi;
mod json;
pub mod node;
pub mod pod;
mod requests;
mod resources;
mod terms;
pub mod volume;
mod volumes;

pub use claim::Claim;
pub use csi::{Attachment, Capacity, CsiDriver, CsiNode};
pub use node::{Image, Node, Taint};
pub use pod::{Affinity, Effect, HostPort, Pending, Pod, PreferredTerm, Protocol, Toleration, TolerationOperator};
pub use resources::Resources;
pub use terms::{Operator, Requirement, Term};
pub use volume::{AccessModes, ClaimReference, StorageClass, Volume};
pub use volumes::{ClaimName, Disk, PodVolumes};
