//! What the controller of attachments sees of attachments, drivers and nodes.

use std::borrow::Cow;

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::storage::v1::{CSIDriver, VolumeAttachment};
use rkube_machinery::Text;
use rkube_operator::kube::core::ApiResource;
use rkube_operator::{Caches, Index, Informer, Item, Key, Selection};
use serde::Deserialize;

use crate::metadata::RawMetadata;

const MANAGED: &str = "volumes.kubernetes.io/controller-managed-attach-detach";
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// That a volume is attached to a node, or is to be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attachment {
    pub name: Text,
    /// Empty for one of something that is no volume of its own.
    pub volume: Text,
    pub node: Text,
    pub deleting: bool,
    pub attached: bool,
    /// Why the driver could not do it.
    pub error: Option<Text>,
}

/// A node with what was attached to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    pub name: Text,
    /// Whether it leaves it to the controller.
    pub managed: bool,
    pub ready: bool,
    pub out_of_service: bool,
    /// By their unique names, with where they are.
    pub attached: Vec<(Text, Text)>,
    pub in_use: Vec<Text>,
}

/// Drivers whose volumes are not attached.
pub struct NotAttached;

pub fn attachments(caches: &Caches) -> Informer<Attachment> {
    caches.view(&ApiResource::erase::<VolumeAttachment>(&()), Selection::default(), Attachment::read)
}

pub fn nodes(caches: &Caches) -> Informer<Node> {
    caches.view(&ApiResource::erase::<core::Node>(&()), Selection::default(), Node::read)
}

pub fn drivers(caches: &Caches) -> Informer<NotAttached> {
    caches.view(&ApiResource::erase::<CSIDriver>(&()), Selection::default(), |item| {
        let raw: RawDriver = item.parse().ok()?;
        (raw.spec.attach_required == Some(false)).then_some(NotAttached)
    })
}

/// Attachments by their volume.
pub struct OfVolume;

impl Index<Attachment> for OfVolume {
    type Key = Text;

    fn keys(_: &Key, attachment: &Attachment) -> impl IntoIterator<Item = Text> {
        Some(attachment.volume.clone()).filter(|volume| !volume.is_empty())
    }
}

/// Attachments by their node.
pub struct OfNode;

impl Index<Attachment> for OfNode {
    type Key = Text;

    fn keys(_: &Key, attachment: &Attachment) -> impl IntoIterator<Item = Text> {
        [attachment.node.clone()]
    }
}

impl Attachment {
    fn read(item: &Item) -> Option<Attachment> {
        let raw: RawAttachment<'_> = match serde_json::from_slice(&item.json) {
            Ok(raw) => raw,
            Err(error) => {
                tracing::error!(name = %item.name, %error, "an attachment cannot be read and is left out");
                return None;
            }
        };
        let text = |text: Option<Cow<'_, str>>| Text::new(text.as_deref().unwrap_or_default());
        Some(Attachment {
            name: item.name.clone(),
            volume: text(raw.spec.source.persistent_volume_name),
            node: Text::new(&raw.spec.node_name),
            deleting: raw.metadata.deleted().is_some(),
            attached: raw.status.attached,
            error: raw.status.attach_error.map(|error| text(error.message)),
        })
    }
}

impl Node {
    fn read(item: &Item) -> Option<Node> {
        let raw: RawNode<'_> = match serde_json::from_slice(&item.json) {
            Ok(raw) => raw,
            Err(error) => {
                tracing::error!(name = %item.name, %error, "a node cannot be read and is left out");
                return None;
            }
        };
        let is_ready = |one: &RawCondition<'_>| one.kind == "Ready" && one.status == "True";
        let attached = raw.status.volumes_attached.iter().flatten();
        Some(Node {
            name: item.name.clone(),
            managed: raw.metadata.annotations.get(MANAGED).is_some(),
            ready: raw.status.conditions.iter().flatten().any(is_ready),
            out_of_service: raw.spec.taints.iter().flatten().any(|taint| taint.key == OUT_OF_SERVICE),
            attached: attached.map(|one| (Text::new(&one.name), Text::new(&one.device_path))).collect(),
            in_use: raw.status.volumes_in_use.iter().flatten().map(|name| Text::new(&name.0)).collect(),
        })
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawDriver {
    spec: RawDriverSpec,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawDriverSpec {
    attach_required: Option<bool>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawAttachment<'a> {
    #[serde(borrow)]
    metadata: RawMetadata<'a>,
    #[serde(borrow)]
    spec: RawAttachmentSpec<'a>,
    #[serde(borrow)]
    status: RawAttachmentStatus<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawAttachmentSpec<'a> {
    #[serde(borrow)]
    node_name: Cow<'a, str>,
    #[serde(borrow)]
    source: RawSource<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawSource<'a> {
    #[serde(borrow)]
    persistent_volume_name: Option<Cow<'a, str>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawAttachmentStatus<'a> {
    attached: bool,
    #[serde(borrow)]
    attach_error: Option<RawError<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawError<'a> {
    #[serde(borrow)]
    message: Option<Cow<'a, str>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawNode<'a> {
    #[serde(borrow)]
    metadata: RawMetadata<'a>,
    #[serde(borrow)]
    spec: RawNodeSpec<'a>,
    #[serde(borrow)]
    status: RawNodeStatus<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawNodeSpec<'a> {
    #[serde(borrow)]
    taints: Option<Vec<RawTaint<'a>>>,
}

#[derive(Deserialize)]
struct RawTaint<'a> {
    #[serde(borrow)]
    key: Cow<'a, str>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawNodeStatus<'a> {
    #[serde(borrow)]
    conditions: Option<Vec<RawCondition<'a>>>,
    #[serde(borrow)]
    volumes_attached: Option<Vec<RawAttached<'a>>>,
    #[serde(borrow)]
    volumes_in_use: Option<Vec<Borrowed<'a>>>,
}

#[derive(Deserialize)]
struct RawCondition<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    status: Cow<'a, str>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawAttached<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    device_path: Cow<'a, str>,
}

#[derive(Deserialize)]
struct Borrowed<'a>(#[serde(borrow)] Cow<'a, str>);

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn item(object: &serde_json::Value) -> Item {
        let json = object.to_string().into();
        Item { namespace: "".into(), name: "n".into(), uid: "u".into(), revision: 1, json }
    }

    #[test]
    fn attachments_and_nodes_are_read() {
        let attachment = Attachment::read(&item(&json!({
            "metadata": { "name": "n", "creationTimestamp": "2026-01-01T00:00:00Z" },
            "spec": { "attacher": "d", "nodeName": "a", "source": { "persistentVolumeName": "v" } },
            "status": { "attached": false, "attachError": { "message": "no room", "time": null } },
        })));
        let expected = Attachment {
            name: "n".into(),
            volume: "v".into(),
            node: "a".into(),
            error: Some("no room".into()),
            ..Attachment::default()
        };
        assert_eq!(attachment, Some(expected));
        let node = Node::read(&item(&json!({
            "metadata": { "annotations": { MANAGED: "true" } },
            "spec": { "taints": [{ "key": OUT_OF_SERVICE, "effect": "NoExecute" }] },
            "status": { "volumesAttached": [{ "name": "x", "devicePath": "" }], "volumesInUse": ["x"] },
        })))
        .unwrap();
        assert!(node.managed && node.out_of_service && !node.ready);
        assert_eq!((node.attached, node.in_use), (vec![("x".into(), "".into())], vec![Text::from("x")]));
    }
}
