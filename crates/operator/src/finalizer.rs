//! Finalizers: an object stays until what was made for it elsewhere is gone.
//!
//! The finalizer is there before anything is made, and goes after all of it was cleaned up; a crash in between leads to
//! the same step again. With the caches that wait for own writes (see [`crate::written`]), a cleanup that succeeded is not
//! run twice. Both patches name the version that they are based on: nobody else's finalizers are lost.

use std::fmt::Debug;
use std::future::Future;

use kube::Resource;
use kube::api::{Api, Patch, PatchParams};
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::error::Error;
use crate::reconcile::Action;

/// What is to be done with an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The object is there to stay: make what belongs to it.
    Apply,
    /// The object is to go: take away what was made. Called until it succeeds.
    Cleanup,
}

/// Has `reconcile` do one step or the other, with this finalizer around it. An object that is to go and no longer has the
/// finalizer is left alone.
///
/// ```no_run
/// use rkube_operator::finalizer::{Step, finalized};
/// use rkube_operator::k8s_openapi::api::core::v1::ConfigMap;
/// use rkube_operator::{Action, Context, Error, Key};
///
/// async fn reconcile(context: Context, key: Key) -> Result<Action, Error> {
///     let Some(map) = context.get::<ConfigMap>(&key).await else { return Ok(Action::done()) };
///     let api = context.api::<ConfigMap>(&key.namespace);
///     finalized(&api, &*map, "example.com/cleanup", async |step| match step {
///         Step::Apply => Ok(Action::done()),
///         Step::Cleanup => Ok(Action::done()),
///     })
///     .await
/// }
/// ```
pub async fn finalized<K, F>(
    api: &Api<K>,
    object: &K,
    finalizer: &str,
    reconcile: impl FnOnce(Step) -> F,
) -> Result<Action, Error>
where
    K: Resource + Clone + DeserializeOwned + Debug,
    F: Future<Output = Result<Action, Error>>,
{
    let metadata = object.meta();
    let finalizers = metadata.finalizers.as_deref().unwrap_or_default();
    let (has, goes) = (finalizers.iter().any(|one| one == finalizer), metadata.deletion_timestamp.is_some());
    match (goes, has) {
        (false, true) => reconcile(Step::Apply).await,
        (false, false) => {
            let mut with: Vec<&str> = finalizers.iter().map(String::as_str).collect();
            with.push(finalizer);
            patch(api, object, &with).await?;
            reconcile(Step::Apply).await
        }
        (true, true) => {
            let action = reconcile(Step::Cleanup).await?;
            let without: Vec<&str> = finalizers.iter().map(String::as_str).filter(|one| *one != finalizer).collect();
            match patch(api, object, &without).await {
                Err(kube::Error::Api(status)) if status.code == 404 => Ok(action),
                Err(error) => Err(error.into()),
                Ok(()) => Ok(action),
            }
        }
        (true, false) => Ok(Action::done()),
    }
}

async fn patch<K>(api: &Api<K>, object: &K, finalizers: &[&str]) -> Result<(), kube::Error>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    let metadata = object.meta();
    let patch = json!({ "metadata": {
        "uid": metadata.uid,
        "resourceVersion": metadata.resource_version,
        "finalizers": finalizers,
    } });
    let name = metadata.name.as_deref().unwrap_or_default();
    api.patch_metadata(name, &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(())
}
