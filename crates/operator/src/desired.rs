//! A desired set of objects: what is in it is applied, what belonged to it and no longer does is deleted.

use std::collections::BTreeSet;
use std::fmt::Debug;

use kube::Resource;
use kube::api::{Api, DeleteParams, Patch, PatchParams, Preconditions};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::controller::{Context, ScopedApi};
use crate::error::Error;
use crate::informer::{ByOwner, Key};
use crate::ownership::{controller_of, controller_reference};

/// Makes the objects of a kind that `owner` controls be these, and no others.
///
/// Each is applied by the server with `manager` as the manager of its fields, so that fields of others stay; one that is as
/// it should be is not written. Whether anything was. `context` has to watch the kind (`Controller::owns`): what is to go is
/// found in its cache.
pub async fn apply_all<O, K>(context: &Context, owner: &O, manager: &str, desired: Vec<K>) -> Result<bool, Error>
where
    O: Resource<DynamicType = ()>,
    K: Resource<DynamicType = (), Scope: ScopedApi<K>>
        + Serialize
        + DeserializeOwned
        + Clone
        + Debug
        + Send
        + Sync
        + 'static,
{
    let cache = context.cache::<K>().await;
    let reference = controller_reference(owner).ok_or_else(|| Error::text("the owner has no uid"))?;
    let namespace = owner.meta().namespace.clone().unwrap_or_default();
    let (mut kept, mut wrote) = (BTreeSet::new(), false);
    for mut object in desired {
        let metadata = object.meta_mut();
        metadata.owner_references = Some(vec![reference.clone()]);
        let name = metadata.name.clone().ok_or_else(|| Error::text("a desired object has no name"))?;
        let place = metadata.namespace.clone().unwrap_or_else(|| namespace.clone());
        let api: Api<K> = context.api(&place);
        let before = cache.get(&place, &name).and_then(|known| known.meta().resource_version.clone());
        let applied = api.patch(&name, &PatchParams::apply(manager).force(), &Patch::Apply(&object)).await?;
        wrote |= before.is_none() || applied.meta().resource_version != before;
        kept.insert(Key::of(&applied));
    }
    for extra in cache.by_index::<ByOwner, _>(reference.uid.as_str()) {
        let metadata = extra.meta();
        let controls = controller_of(metadata).is_some_and(|controller| controller.uid == reference.uid);
        if !controls || metadata.deletion_timestamp.is_some() || kept.contains(&Key::of(&*extra)) {
            continue;
        }
        let api: Api<K> = context.api(metadata.namespace.as_deref().unwrap_or_default());
        let preconditions = Preconditions { uid: metadata.uid.clone(), resource_version: None };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::background() };
        match api.delete(metadata.name.as_deref().unwrap_or_default(), &params).await {
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
            other => drop(other?),
        }
        wrote = true;
    }
    Ok(wrote)
}
