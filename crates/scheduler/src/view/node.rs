//! What the scheduler knows of a node, as its object says it. What pods take of it is in the snapshot.

use std::borrow::Cow;

use rkube_machinery::Text;
use rkube_operator::Item;
use serde::Deserialize;

use super::json::{Word, Words};
use super::pod::Effect;
use super::resources::Resources;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    pub name: Text,
    /// By name.
    pub labels: Vec<(Text, Text)>,
    pub is_unschedulable: bool,
    pub taints: Vec<Taint>,
    pub allocatable: Resources,
    pub images: Vec<Image>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taint {
    pub key: Text,
    pub value: Text,
    pub effect: Effect,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    pub names: Vec<Text>,
    pub size: i64,
}

impl Node {
    pub fn of(item: &Item) -> Option<Node> {
        let json: NodeJson<'_> = match serde_json::from_slice(&item.json) {
            Ok(json) => json,
            Err(error) => {
                tracing::error!(name = %item.name, %error, "a node cannot be read and is left out");
                return None;
            }
        };
        let taints = json.spec.taints.iter().filter_map(|taint| {
            // An effect that nobody knows has none.
            let effect = Effect::read(&taint.effect)?;
            Some(Taint { key: taint.key.0.clone(), value: taint.value.0.clone(), effect })
        });
        let images = json.status.images.iter().map(|image| Image {
            names: image.names.iter().flatten().map(|name| name.0.clone()).collect(),
            size: image.size_bytes,
        });
        Some(Node {
            name: item.name.clone(),
            labels: json.metadata.labels.0,
            is_unschedulable: json.spec.unschedulable,
            taints: taints.collect(),
            images: images.collect(),
            allocatable: json.status.allocatable,
        })
    }

    pub fn label(&self, key: &str) -> Option<&Text> {
        let place = self.labels.binary_search_by(|(known, _)| known.as_str().cmp(key)).ok()?;
        Some(&self.labels[place].1)
    }
}

#[derive(Deserialize)]
struct NodeJson<'a> {
    #[serde(default)]
    metadata: Metadata,
    #[serde(borrow, default)]
    spec: Spec<'a>,
    #[serde(default)]
    status: Status,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Metadata {
    labels: Words,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Spec<'a> {
    unschedulable: bool,
    #[serde(borrow)]
    taints: Vec<TaintJson<'a>>,
}

#[derive(Deserialize)]
struct TaintJson<'a> {
    #[serde(default)]
    key: Word,
    #[serde(default)]
    value: Word,
    #[serde(borrow, default)]
    effect: Cow<'a, str>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    allocatable: Resources,
    images: Vec<ImageJson>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ImageJson {
    /// `null` where it has none any more: its tag is another image's.
    #[serde(default)]
    names: Option<Vec<Word>>,
    #[serde(default)]
    size_bytes: i64,
}
