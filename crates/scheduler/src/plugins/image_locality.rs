//! Prefers nodes that have the pod's images, the more of them the larger they are; less so for images that few nodes
//! have, or all pods of a kind would go to these.

use smallvec::SmallVec;

use super::{Cycle, Plugin, SCORE_MAX, Score};
use crate::snapshot::{Node, Symbol};

const MIB: i64 = 1 << 20;
/// Less than so much makes no difference.
const SIZE_MIN: i64 = 23 * MIB;
/// More than so much per container neither.
const SIZE_MAX: i64 = 1000 * MIB;

pub struct ImageLocality;

struct Images {
    /// What a node with the image gets for it.
    worth: SmallVec<[(Symbol, i64); 4]>,
    most: i64,
}

impl Plugin for ImageLocality {
    fn name(&self) -> &'static str {
        "ImageLocality"
    }

    fn score<'a>(&self, cycle: &Cycle<'a>) -> Option<Box<dyn Score + 'a>> {
        let nodes = cycle.snapshot.ordered().len();
        let known = cycle.pending.images.iter().filter_map(|image| cycle.snapshot.image(image));
        let worth = known.map(|(image, state)| {
            let spread = state.nodes as f64 / nodes as f64;
            (image, (state.size as f64 * spread) as i64)
        });
        let images = Images { worth: worth.collect(), most: SIZE_MAX * cycle.pending.containers.max(1) as i64 };
        (!images.worth.is_empty()).then(|| Box::new(images) as Box<dyn Score>)
    }
}

impl Score for Images {
    fn score(&self, node: &Node) -> i64 {
        let here = self.worth.iter().filter(|(image, _)| node.details.images.binary_search(image).is_ok());
        let sum: i64 = here.map(|(_, worth)| worth).sum();
        SCORE_MAX * (sum.clamp(SIZE_MIN, self.most) - SIZE_MIN) / (self.most - SIZE_MIN)
    }
}
