//! A pod that names its node goes there without a scheduler: those that wait for one name none, so there is nothing to
//! ask.

use super::{Kinds, Plugin};

pub struct NodeName;

impl Plugin for NodeName {
    fn name(&self) -> &'static str {
        "NodeName"
    }

    fn interest(&self) -> Kinds {
        Kinds::NODE_ADDED
    }
}
