//! Claims, volumes and storage classes as the controllers of volumes see them: one cache of each for all of them.

mod claim;
mod class;
mod plugins;
mod volume;

pub use claim::{Claim, ClaimPhase, Unbound, claims};
pub use class::{StorageClass, classes, default_class};
pub use plugins::{Deleter, csi_driver, deleter, is_in_tree, provisioner};
pub use volume::{ByClaimant, Claimant, EXTERNAL_FINALIZER, IN_TREE_FINALIZER, Source, Volume, VolumePhase, volumes};

use rkube_machinery::Text;
use rkube_machinery::quantity::Quantity;
use rkube_operator::Key;
use serde::Deserialize;

use crate::metadata::{Labels, Pairs};

pub const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
pub const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
pub const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
pub const MIGRATED_TO: &str = "pv.kubernetes.io/migrated-to";
pub const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
pub const STORAGE_PROVISIONER: &str = "volume.kubernetes.io/storage-provisioner";
pub const BETA_STORAGE_PROVISIONER: &str = "volume.beta.kubernetes.io/storage-provisioner";
pub const PRE_RESIZE_CAPACITY: &str = "volume.alpha.kubernetes.io/pre-resize-capacity";
const BETA_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

/// All others may be long, and nobody here asks for them.
const ANNOTATIONS: [&str; 9] = [
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    PROVISIONED_BY,
    MIGRATED_TO,
    SELECTED_NODE,
    STORAGE_PROVISIONER,
    BETA_STORAGE_PROVISIONER,
    PRE_RESIZE_CAPACITY,
    BETA_CLASS,
];

/// Ways in which a volume can be mounted, or is to be: a set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Modes(u8);

impl Modes {
    fn read<'a>(names: impl IntoIterator<Item = &'a str>) -> Modes {
        Modes(names.into_iter().fold(0, |modes, name| {
            modes
                | match name {
                    "ReadWriteOnce" => 1,
                    "ReadOnlyMany" => 2,
                    "ReadWriteMany" => 4,
                    "ReadWriteOncePod" => 8,
                    _ => 0,
                }
        }))
    }

    pub fn has_all(self, others: Modes) -> bool {
        self.0 & others.0 == others.0
    }

    /// Whether several nodes may have the volume at a time.
    pub fn of_many(self) -> bool {
        self.0 & 0b110 != 0
    }

    /// Whether there is none but for one node.
    pub fn of_one(self) -> bool {
        self.0 & 0b110 == 0
    }

    /// Those with fewer come first.
    pub fn rank(self) -> (u32, u8) {
        (self.0.count_ones(), self.0)
    }
}

/// What a claim and a volume must have in common.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Kind {
    pub class: Text,
    pub attributes_class: Text,
    pub block: bool,
}

/// `namespace/name`, as indexes and messages have it.
pub fn path(namespace: &str, name: &str) -> Text {
    Text::from(format!("{namespace}/{name}"))
}

/// The key of a [`path`].
pub fn key(namespace: &str, name: &str) -> Key {
    Key { namespace: namespace.to_owned(), name: name.to_owned() }
}

fn annotations(all: &Pairs<'_>) -> Labels {
    let known = all.iter().filter(|(name, _)| ANNOTATIONS.contains(name));
    Labels::new(known.map(|(name, value)| (Text::new(name), Text::new(value))))
}

/// `resources.requests` or `capacity` of which only one amount matters.
#[derive(Default, Deserialize)]
#[serde(default)]
struct RawAmounts<'a> {
    #[serde(borrow)]
    storage: Option<std::borrow::Cow<'a, str>>,
}

impl RawAmounts<'_> {
    /// Nothing, if it is not there. One that cannot be read is none: what is stored was read before.
    fn read(&self) -> Quantity {
        self.storage.as_deref().and_then(|text| Quantity::parse(text).ok()).unwrap_or(Quantity::ZERO)
    }
}

#[derive(Deserialize)]
struct Borrowed<'a>(#[serde(borrow)] std::borrow::Cow<'a, str>);

fn text(text: Option<&std::borrow::Cow<'_, str>>) -> Text {
    Text::new(text.map_or("", |text| text.as_ref()))
}
