//! ControllerRevisions: the templates that a StatefulSet or a DaemonSet has had.

use std::sync::Arc;

use k8s_openapi::api::apps::v1 as apps;
use rkube_machinery::Text;
use rkube_operator::kube::core::ApiResource;
use rkube_operator::{Caches, Index, Informer, Item, Key, Selection};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::metadata::{Labels, Owner as Controller, RawMetadata};
use crate::owner::{self, Error, Owner};
use crate::requests::{self, is_not_found};
use crate::template::Template;

/// The label of pods by which they are told apart by revision, and of a DaemonSet's revisions.
pub const REVISION_HASH: &str = "controller-revision-hash";

#[derive(Clone, Debug)]
pub struct Revision {
    /// The whole object is at hand, and shared with who has it anyway.
    pub item: Item,
    pub labels: Arc<Labels>,
    pub controller: Option<Arc<Controller>>,
    pub created: Option<i64>,
    pub deleted: Option<i64>,
    pub revision: i64,
    pub template: Template,
}

/// Revisions by the uid of their controller.
pub struct ByController;

impl Index<Revision> for ByController {
    type Key = Text;

    fn keys(_: &Key, revision: &Revision) -> impl IntoIterator<Item = Text> {
        revision.controller.as_ref().map(|owner| owner.uid.clone())
    }
}

/// Revisions that nobody controls, by namespace.
pub struct Orphans;

impl Index<Revision> for Orphans {
    type Key = Text;

    fn keys(_: &Key, revision: &Revision) -> impl IntoIterator<Item = Text> {
        revision.controller.is_none().then(|| revision.item.namespace.clone())
    }
}

/// All revisions.
pub fn revisions(caches: &Caches) -> Informer<Revision> {
    let all = caches.view(&ApiResource::erase::<apps::ControllerRevision>(&()), Selection::default(), Revision::read);
    all.indexed::<ByController>().indexed::<Orphans>()
}

impl Revision {
    pub fn read(item: &Item) -> Option<Revision> {
        let json = item.lean_json();
        let raw: Raw<'_> = match serde_json::from_str(&json) {
            Ok(raw) => raw,
            Err(error) => {
                tracing::error!(name = %item.name, %error, "a ControllerRevision cannot be read and is left out");
                return None;
            }
        };
        // What is none of a template was made by somebody else, for something else.
        let data: Data = raw.data.and_then(|data| serde_json::from_str(data.get()).ok()).unwrap_or_default();
        Some(Revision {
            item: item.clone(),
            labels: raw.metadata.labels.to_labels().shared(),
            controller: raw.metadata.controller(),
            created: raw.metadata.created(),
            deleted: raw.metadata.deleted(),
            revision: raw.revision,
            template: data.spec.template,
        })
    }

    /// The template, to make pods of it.
    pub fn whole_template(&self) -> serde_json::Result<owner::Template> {
        #[derive(Deserialize)]
        struct Whole {
            data: WholeData,
        }
        #[derive(Deserialize)]
        struct WholeData {
            spec: WholeSpec,
        }
        #[derive(Deserialize)]
        struct WholeSpec {
            template: owner::Template,
        }
        Ok(self.item.parse::<Whole>()?.data.spec.template)
    }

    pub fn path(&self) -> String {
        format!("/apis/apps/v1/namespaces/{}/controllerrevisions/{}", self.item.namespace, self.item.name)
    }
}

#[derive(Deserialize)]
struct Raw<'a> {
    #[serde(borrow)]
    metadata: RawMetadata<'a>,
    #[serde(borrow, default)]
    data: Option<&'a serde_json::value::RawValue>,
    #[serde(default)]
    revision: i64,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Data {
    spec: DataSpec,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct DataSpec {
    template: Template,
}

/// The revisions of an owner, the oldest first. Those that nobody has are adopted, those that are not selected released.
pub async fn claim(
    owner: Owner<'_>,
    revisions: &Informer<Revision>,
    selects: impl Fn(&Labels) -> bool,
) -> Result<Vec<Arc<Revision>>, Error> {
    let (mut claimed, lost): (Vec<Arc<Revision>>, Vec<Arc<Revision>>) = revisions
        .by_index::<ByController, _>(&*owner.item.uid)
        .into_iter()
        .partition(|revision| selects(&revision.labels));
    for revision in lost {
        owner.release(&revision.path(), &revision.item.uid, &[]).await?;
    }
    let orphans: Vec<Arc<Revision>> = revisions.with_index::<Orphans, _, _>(&*owner.item.namespace, |found| {
        let wanted = |revision: &&Arc<Revision>| revision.deleted.is_none() && selects(&revision.labels);
        found.values().filter(wanted).cloned().collect()
    });
    if !orphans.is_empty() {
        owner.check_that_it_stays().await?;
    }
    for revision in orphans {
        if owner.adopt(&revision.path(), &revision.item.uid, &[]).await? {
            claimed.push(revision);
        }
    }
    claimed.sort_by(|one, other| place(one).cmp(&place(other)));
    Ok(claimed)
}

fn place(revision: &Revision) -> (i64, Option<i64>, &Text) {
    (revision.revision, revision.created, &revision.item.name)
}

/// What a revision keeps of its owner: a patch that puts the template back.
pub fn data(item: &Item) -> serde_json::Result<Value> {
    let object: Value = item.parse()?;
    let mut template = object["spec"]["template"].clone();
    template["$patch"] = "replace".into();
    Ok(json!({ "spec": { "template": template } }))
}

/// A new revision.
pub fn body(owner: Owner<'_>, name: &str, labels: Value, data: Value, revision: i64) -> serde_json::Result<Value> {
    let object: Value = owner.item.parse()?;
    let mut body = json!({
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": { "name": name, "labels": labels, "ownerReferences": [owner.reference()] },
        "data": data,
        "revision": revision,
    });
    if let Some(annotations) = object["metadata"].get("annotations") {
        body["metadata"]["annotations"] = annotations.clone();
    }
    Ok(body)
}

/// Gives a revision another number.
pub async fn renumber(owner: Owner<'_>, revision: &Revision, number: i64) -> Result<(), Error> {
    let mut object = requests::whole(&revision.item)?;
    object["revision"] = number.into();
    requests::replace(owner.client, &revision.path(), &object).await?;
    Ok(())
}

pub async fn delete(owner: Owner<'_>, revision: &Revision) -> Result<(), Error> {
    match requests::delete(owner.client, &revision.path()).await {
        Err(error) if is_not_found(&error) => Ok(()),
        other => Ok(other.map(drop)?),
    }
}

/// A value as Go writes it: upstream hashes this text.
pub fn go_json(value: &Value) -> String {
    let mut text = String::new();
    write_go_json(value, &mut text);
    text
}

fn write_go_json(value: &Value, text: &mut String) {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<(&String, &Value)> = map.iter().collect();
            entries.sort_unstable_by_key(|(key, _)| *key);
            text.push('{');
            for (place, (key, value)) in entries.into_iter().enumerate() {
                if place > 0 {
                    text.push(',');
                }
                write_go_text(key, text);
                text.push(':');
                write_go_json(value, text);
            }
            text.push('}');
        }
        Value::Array(list) => {
            text.push('[');
            for (place, value) in list.iter().enumerate() {
                if place > 0 {
                    text.push(',');
                }
                write_go_json(value, text);
            }
            text.push(']');
        }
        Value::String(string) => write_go_text(string, text),
        other => text.push_str(&other.to_string()),
    }
}

fn write_go_text(string: &str, text: &mut String) {
    for letter in Value::from(string).to_string().chars() {
        match letter {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => text.push_str(&format!("\\u{:04x}", u32::from(letter))),
            other => text.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_as_go_does() {
        let value = json!({ "b": [1, "a<b>&\n\"\u{2028}"], "a": { "d": null, "c": true } });
        assert_eq!(
            go_json(&value),
            "{\"a\":{\"c\":true,\"d\":null},\"b\":[1,\"a\\u003cb\\u003e\\u0026\\n\\\"\\u2028\"]}"
        );
    }
}
