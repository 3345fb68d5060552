//! The images of simulated nodes: any can be pulled but those whose names fit a pattern.

use std::collections::{HashMap, HashSet, VecDeque};

use parking_lot::Mutex;
use rkube_machinery::{Text, Value, object};

use super::ids;

/// Names by which tests and people call images that do not exist.
const UNAVAILABLE: [&str; 9] = [
    "*.invalid/*",
    "invalid.*/*",
    "*t-exist*",
    "*n-exist*",
    "*notexist*",
    "*nonexist*",
    "*no-such-*",
    "*not-found*",
    "*:404",
];

/// A node tells of so many images, as upstream's do; it remembers no more than these.
pub const REPORTED_MAX: usize = 50;

/// What all images are said to take.
pub const SIZE_BYTES: i64 = 32 << 20;

pub struct Images {
    unavailable: Vec<String>,
    present: Mutex<HashMap<Text, Present>>,
}

/// The images of one node.
#[derive(Default)]
struct Present {
    known: HashSet<Text>,
    /// In the order in which they came.
    order: VecDeque<Text>,
}

/// What came of asking for an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pull {
    Present,
    Pulled,
    Failed(String),
}

impl Images {
    /// `unavailable`: patterns in the place of the usual ones.
    pub fn new(unavailable: Option<Vec<String>>) -> Images {
        let usual = || UNAVAILABLE.map(str::to_owned).to_vec();
        Images { unavailable: unavailable.unwrap_or_else(usual), present: Mutex::default() }
    }

    pub fn pull(&self, node: &str, image: &str, policy: &str, can_be_pulled: bool) -> Pull {
        if !can_be_pulled || self.unavailable.iter().any(|pattern| matches(pattern, image)) {
            return Pull::Failed(format!(
                "rpc error: code = NotFound desc = failed to pull and unpack image \"{image}\": failed to resolve \
                 reference \"{image}\": {image}: not found"
            ));
        }
        let mut nodes = self.present.lock();
        let present = nodes.entry(node.into()).or_default();
        let is_new = present.known.insert(image.into());
        if is_new {
            present.order.push_back(image.into());
            if present.order.len() > REPORTED_MAX
                && let Some(oldest) = present.order.pop_front()
            {
                present.known.remove(&oldest);
            }
        }
        if is_new || policy == "Always" { Pull::Pulled } else { Pull::Present }
    }

    /// How many the node has.
    pub fn count(&self, node: &str) -> usize {
        self.present.lock().get(node).map_or(0, |present| present.order.len())
    }

    /// As the node's status has them.
    pub fn reported(&self, node: &str) -> Vec<Value> {
        let nodes = self.present.lock();
        let images = nodes.get(node).into_iter().flat_map(|present| &present.order);
        images
            .map(|image| {
                let names = vec![Value::from(ids::image(image)), Value::from(image.clone())];
                object! { "names": names, "sizeBytes": SIZE_BYTES }
            })
            .collect()
    }
}

/// Whether a name fits a pattern in which `*` stands for anything.
fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| name.strip_prefix(first)) else { return false };
    let mut parts = parts.peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.find(part) {
            Some(place) => rest = &rest[place + part.len()..],
            None => return false,
        }
    }
    rest.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_names() {
        for (pattern, name, expected) in [
            ("web", "web", true),
            ("web", "web:1", false),
            ("*", "anything", true),
            ("bad/*", "bad/x", true),
            ("bad/*", "good/x", false),
            ("*:404", "webserver:404", true),
            ("*:404", "webserver:4040", false),
            ("a*b*c", "a1b2c", true),
            ("a*b*c", "a1c", false),
            ("*.invalid/*", "registry.invalid/x", true),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn an_image_is_pulled_once_by_each_node() {
        let images = Images::new(None);
        let pull = |node: &str, image: &str, policy: &str| images.pull(node, image, policy, true);
        assert_eq!(pull("a", "web", "IfNotPresent"), Pull::Pulled);
        assert_eq!(pull("a", "web", "IfNotPresent"), Pull::Present);
        assert_eq!(pull("a", "web", "Always"), Pull::Pulled);
        assert_eq!(pull("b", "web", "IfNotPresent"), Pull::Pulled);
        for missing in [
            "webserver:404",
            "localhost/some-image-that-doesnt-exist",
            "x/redis:nonexistent",
            "invalid.registry.k8s.io/x",
        ] {
            assert!(matches!(pull("a", missing, "Always"), Pull::Failed(_)), "{missing}");
        }
        assert_eq!(images.reported("a").len(), 1);
        for number in 0..2 * REPORTED_MAX {
            pull("a", &format!("image-{number}"), "IfNotPresent");
        }
        assert_eq!(images.reported("a").len(), REPORTED_MAX);
    }
}
