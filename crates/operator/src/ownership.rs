//! Who controls an object: owner references, and their adoption and release by a selector, with the rules of Kubernetes'
//! own controllers.

use std::fmt::Debug;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::Resource;
use kube::api::{Api, Patch, PatchParams};
use serde::de::DeserializeOwned;
use serde_json::json;

/// A reference that says that `owner` controls the object that has it. None, if the owner was never stored.
pub fn controller_reference<O: Resource<DynamicType = ()>>(owner: &O) -> Option<OwnerReference> {
    owner.controller_owner_ref(&()).map(|reference| OwnerReference { block_owner_deletion: Some(true), ..reference })
}

/// Who controls an object, if anybody.
pub fn controller_of(metadata: &ObjectMeta) -> Option<&OwnerReference> {
    metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))
}

/// What to do with an object that a controller might have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// It has it already.
    Mine,
    /// Nobody has it, and it is one of those that are selected.
    Adopt,
    /// It has it, and it is none of those any more.
    Release,
    /// It is another's, or is to be left alone.
    Leave,
}

/// What the `owner` does with an object, which its selector selects or not. One that is to go takes and gives nothing.
pub fn claim(owner: &ObjectMeta, object: &ObjectMeta, selected: bool) -> Claim {
    let goes = owner.deletion_timestamp.is_some();
    if let Some(controller) = controller_of(object) {
        return match (owner.uid.as_ref() == Some(&controller.uid), selected) {
            (false, _) => Claim::Leave,
            (true, true) => Claim::Mine,
            (true, false) if goes => Claim::Leave,
            (true, false) => Claim::Release,
        };
    }
    let elsewhere = owner.namespace.is_some() && owner.namespace != object.namespace;
    if goes || !selected || object.deletion_timestamp.is_some() || elsewhere {
        return Claim::Leave;
    }
    Claim::Adopt
}

/// Adopts and releases for one owner. Before it adopts for the first time, it asks the API whether the owner is still the
/// one that it knows, and not to go: a cache may be behind.
pub struct Claimant<'a, O> {
    owners: &'a Api<O>,
    owner: &'a O,
    may_adopt: Option<bool>,
}

impl<'a, O> Claimant<'a, O>
where
    O: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    pub fn new(owners: &'a Api<O>, owner: &'a O) -> Self {
        Claimant { owners, owner, may_adopt: None }
    }

    /// Does what [`claim`] says. Whether the owner has the object afterwards.
    pub async fn claim<K>(&mut self, api: &Api<K>, object: &K, selected: bool) -> Result<bool, kube::Error>
    where
        K: Resource + Clone + DeserializeOwned + Debug,
    {
        match claim(self.owner.meta(), object.meta(), selected) {
            Claim::Mine => Ok(true),
            Claim::Leave => Ok(false),
            Claim::Adopt => self.adopt(api, object).await,
            Claim::Release => self.release(api, object).await.map(|()| false),
        }
    }

    async fn adopt<K>(&mut self, api: &Api<K>, object: &K) -> Result<bool, kube::Error>
    where
        K: Resource + Clone + DeserializeOwned + Debug,
    {
        if !self.may_adopt().await? {
            return Ok(false);
        }
        let reference = controller_reference(self.owner);
        let patch = json!({ "metadata": { "uid": object.meta().uid, "ownerReferences": [reference] } });
        match self.patch(api, object, patch).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
            other => other.map(|()| true),
        }
    }

    async fn release<K>(&self, api: &Api<K>, object: &K) -> Result<(), kube::Error>
    where
        K: Resource + Clone + DeserializeOwned + Debug,
    {
        let gone = json!({ "$patch": "delete", "uid": self.owner.meta().uid });
        let patch = json!({ "metadata": { "uid": object.meta().uid, "ownerReferences": [gone] } });
        match self.patch(api, object, patch).await {
            // It is gone, it is another of this name, or it has no owner any more.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 422) => Ok(()),
            other => other,
        }
    }

    async fn patch<K>(&self, api: &Api<K>, object: &K, patch: serde_json::Value) -> Result<(), kube::Error>
    where
        K: Resource + Clone + DeserializeOwned + Debug,
    {
        let name = object.meta().name.as_deref().unwrap_or_default();
        api.patch_metadata(name, &PatchParams::default(), &Patch::Strategic(patch)).await.map(|_| ())
    }

    async fn may_adopt(&mut self) -> Result<bool, kube::Error> {
        if let Some(known) = self.may_adopt {
            return Ok(known);
        }
        let metadata = self.owner.meta();
        let live = self.owners.get_metadata_opt(metadata.name.as_deref().unwrap_or_default()).await?;
        let may =
            live.is_some_and(|live| live.metadata.uid == metadata.uid && live.metadata.deletion_timestamp.is_none());
        self.may_adopt = Some(may);
        Ok(may)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use k8s_openapi::jiff::Timestamp;

    use super::*;

    fn metadata(uid: &str, goes: bool, controller: Option<&str>) -> ObjectMeta {
        let owner =
            |uid: &str| OwnerReference { uid: uid.to_owned(), controller: Some(true), ..OwnerReference::default() };
        ObjectMeta {
            namespace: Some("n".to_owned()),
            uid: Some(uid.to_owned()),
            deletion_timestamp: goes.then_some(Time(Timestamp::UNIX_EPOCH)),
            owner_references: controller.map(|uid| vec![owner(uid)]),
            ..ObjectMeta::default()
        }
    }

    #[test]
    fn objects_are_claimed_as_upstream_does() {
        // Whether the owner goes, who controls the object, whether that goes and is selected.
        let table = [
            (false, Some("me"), false, true, Claim::Mine),
            (true, Some("me"), true, true, Claim::Mine),
            (false, Some("me"), false, false, Claim::Release),
            (true, Some("me"), false, false, Claim::Leave),
            (false, Some("other"), false, true, Claim::Leave),
            (false, None, false, true, Claim::Adopt),
            (false, None, false, false, Claim::Leave),
            (false, None, true, true, Claim::Leave),
            (true, None, false, true, Claim::Leave),
        ];
        for (owner_goes, controller, goes, selected, expected) in table {
            let (owner, object) = (metadata("me", owner_goes, None), metadata("it", goes, controller));
            assert_eq!(claim(&owner, &object, selected), expected, "{owner_goes} {controller:?} {goes} {selected}");
        }
        let elsewhere = ObjectMeta { namespace: Some("m".to_owned()), ..metadata("it", false, None) };
        assert_eq!(claim(&metadata("me", false, None), &elsewhere, true), Claim::Leave);
    }
}
