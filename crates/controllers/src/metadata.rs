//! What views keep of an object's metadata: labels and owners, each once in the process however many objects have them.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::hash::Hash;
use std::sync::{Arc, LazyLock};

use foldhash::quality::RandomState;
use parking_lot::Mutex;
use rkube_machinery::selector::labels::{Operator, Requirement, Selector};
use rkube_machinery::{Text, time};
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};

/// Shared values are looked through for unused ones when there are so many, and then at each doubling.
const SWEEP_FIRST: usize = 1024;

static LABELS: LazyLock<Interner<Labels>> = LazyLock::new(Interner::default);
static OWNERS: LazyLock<Interner<Owner>> = LazyLock::new(Interner::default);

/// Pairs of texts, ordered by key: labels or annotations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Labels(Box<[(Text, Text)]>);

impl Labels {
    pub fn new(pairs: impl IntoIterator<Item = (Text, Text)>) -> Labels {
        let mut pairs: Vec<(Text, Text)> = pairs.into_iter().collect();
        pairs.sort();
        Labels(pairs.into())
    }

    pub fn get(&self, key: &str) -> Option<&str> {
        let place = self.0.binary_search_by(|(own, _)| own.as_str().cmp(key)).ok()?;
        Some(self.0[place].1.as_str())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&Text, &Text)> {
        self.0.iter().map(|(key, value)| (key, value))
    }

    pub fn without(mut self, key: &str) -> Labels {
        if self.get(key).is_some() {
            self.0 = self.0.into_iter().filter(|(own, _)| own != key).collect();
        }
        self
    }

    /// Whether all of these are among the others.
    pub fn within(&self, others: &Labels) -> bool {
        self.iter().all(|(key, value)| others.get(key) == Some(value.as_str()))
    }

    /// The same, which all who have these labels share.
    pub fn shared(self) -> Arc<Labels> {
        LABELS.share(self)
    }
}

/// The object that controls another.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Owner {
    pub api_version: Text,
    pub kind: Text,
    pub name: Text,
    pub uid: Text,
}

/// One of each value, for as long as somebody else has it.
pub struct Interner<T>(Mutex<Interned<T>>);

struct Interned<T> {
    values: HashSet<Arc<T>, RandomState>,
    sweep_at: usize,
}

impl<T> Default for Interner<T> {
    fn default() -> Self {
        Interner(Mutex::new(Interned { values: HashSet::default(), sweep_at: SWEEP_FIRST }))
    }
}

impl<T: Eq + Hash> Interner<T> {
    pub fn share(&self, value: T) -> Arc<T> {
        let mut interned = self.0.lock();
        if let Some(known) = interned.values.get(&value) {
            return known.clone();
        }
        if interned.values.len() >= interned.sweep_at {
            interned.values.retain(|value| Arc::strong_count(value) > 1);
            interned.sweep_at = SWEEP_FIRST.max(interned.values.len() * 2);
        }
        let value = Arc::new(value);
        interned.values.insert(value.clone());
        value
    }
}

/// Metadata as it stands in JSON.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RawMetadata<'a> {
    #[serde(borrow)]
    pub labels: Pairs<'a>,
    #[serde(borrow)]
    pub annotations: Pairs<'a>,
    #[serde(borrow)]
    owner_references: Option<Vec<RawOwner<'a>>>,
    #[serde(borrow)]
    creation_timestamp: Option<Cow<'a, str>>,
    #[serde(borrow)]
    deletion_timestamp: Option<Cow<'a, str>>,
    pub deletion_grace_period_seconds: Option<i64>,
    #[serde(borrow)]
    finalizers: Option<Vec<Borrowed<'a>>>,
    pub generation: i64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawOwner<'a> {
    #[serde(borrow)]
    api_version: Cow<'a, str>,
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    uid: Cow<'a, str>,
    #[serde(default)]
    controller: Option<bool>,
}

impl RawMetadata<'_> {
    /// The owner that is the controller.
    pub fn controller(&self) -> Option<Arc<Owner>> {
        let owner = self.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))?;
        Some(owner.shared())
    }

    pub fn owners(&self) -> impl Iterator<Item = Arc<Owner>> {
        self.owner_references.iter().flatten().map(RawOwner::shared)
    }

    /// All owners, each with whether it is the controller.
    pub fn owners_with_roles(&self) -> impl Iterator<Item = (Arc<Owner>, bool)> {
        let owners = self.owner_references.iter().flatten();
        owners.map(|owner| (owner.shared(), owner.controller == Some(true)))
    }

    pub fn has_finalizer(&self, finalizer: &str) -> bool {
        self.finalizers.iter().flatten().any(|known| known.0 == finalizer)
    }

    pub fn created(&self) -> Option<i64> {
        seconds(self.creation_timestamp.as_deref())
    }

    pub fn deleted(&self) -> Option<i64> {
        seconds(self.deletion_timestamp.as_deref())
    }
}

impl RawOwner<'_> {
    fn shared(&self) -> Arc<Owner> {
        OWNERS.share(Owner {
            api_version: Text::new(&self.api_version),
            kind: Text::new(&self.kind),
            name: Text::new(&self.name),
            uid: Text::new(&self.uid),
        })
    }
}

/// A `LabelSelector` as it stands in JSON.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RawSelector<'a> {
    #[serde(borrow)]
    match_labels: Pairs<'a>,
    #[serde(borrow)]
    match_expressions: Option<Vec<RawExpression<'a>>>,
}

#[derive(Deserialize)]
struct RawExpression<'a> {
    #[serde(borrow)]
    key: Cow<'a, str>,
    #[serde(borrow)]
    operator: Cow<'a, str>,
    #[serde(borrow, default)]
    values: Option<Vec<Borrowed<'a>>>,
}

/// No selector selects nothing, an empty one everything. One that cannot be read selects nothing: what is stored was
/// read before.
pub fn read_selector(selector: Option<&RawSelector<'_>>) -> Selector {
    let read = |selector: &RawSelector<'_>| -> Option<Selector> {
        let mut requirements = Vec::new();
        for (key, value) in selector.match_labels.iter() {
            requirements.push(Requirement::new(key, Operator::Equals, vec![Text::new(value)]).ok()?);
        }
        for RawExpression { key, operator, values } in selector.match_expressions.iter().flatten() {
            let operator = match &**operator {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                _ => return None,
            };
            let values = values.iter().flatten().map(|value| Text::new(&value.0)).collect();
            requirements.push(Requirement::new(key, operator, values).ok()?);
        }
        Some(Selector::from_requirements(requirements))
    };
    selector.and_then(read).unwrap_or_else(Selector::nothing)
}

/// A timestamp in seconds. One that cannot be read is none: what is stored was read before.
pub fn seconds(text: Option<&str>) -> Option<i64> {
    time::parse(text?).ok().map(|(seconds, _)| seconds)
}

/// A map of texts, without a copy of what need not be copied.
#[derive(Default)]
pub struct Pairs<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl Pairs<'_> {
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(own, _)| own == key).map(|(_, value)| value.as_ref())
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (key.as_ref(), value.as_ref()))
    }

    pub fn to_labels(&self) -> Labels {
        Labels::new(self.0.iter().map(|(key, value)| (Text::new(key), Text::new(value))))
    }
}

#[derive(Deserialize)]
struct Borrowed<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Pairs<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PairsVisitor;
        impl<'de> Visitor<'de> for PairsVisitor {
            type Value = Pairs<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a map of texts")
            }

            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(Pairs::default())
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut pairs = Vec::new();
                while let Some((key, value)) = map.next_entry::<Borrowed<'de>, Borrowed<'de>>()? {
                    pairs.push((key.0, value.0));
                }
                Ok(Pairs(pairs))
            }
        }
        deserializer.deserialize_any(PairsVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_are_one_and_unused_ones_go() {
        let interner: Interner<u64> = Interner::default();
        let (kept, same) = (interner.share(1), interner.share(1));
        assert!(Arc::ptr_eq(&kept, &same));
        for value in 0..SWEEP_FIRST as u64 * 3 {
            interner.share(value);
        }
        assert!(interner.0.lock().values.len() <= SWEEP_FIRST);
        assert!(Arc::ptr_eq(&kept, &interner.share(1)), "what is in use stays");
    }

    #[test]
    fn labels_are_found_and_compared() {
        let labels = |text: &str| {
            Labels::new(text.split_whitespace().map(|pair| {
                let (key, value) = pair.split_once('=').unwrap();
                (Text::new(key), Text::new(value))
            }))
        };
        let all = labels("b=2 a=1 c=3");
        assert_eq!((all.get("a"), all.get("b"), all.get("d")), (Some("1"), Some("2"), None));
        for (some, expected) in [("", true), ("a=1 c=3", true), ("a=2", false), ("a=1 d=4", false)] {
            assert_eq!(labels(some).within(&all), expected, "{some}");
        }
    }
}
