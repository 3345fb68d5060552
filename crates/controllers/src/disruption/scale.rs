//! How many pods those want to have who control pods: workloads by their caches, whatever else by its subresource `scale`.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use rkube_machinery::Text;
use rkube_machinery::field::quote;
use rkube_operator::kube::Client;
use rkube_operator::{Discovered, Informer, Source};

use crate::deployments::Deployment;
use crate::metadata::Owner;
use crate::pods::Pod;
use crate::replica_sets::ReplicaSet;
use crate::requests::{self, escaped, is_not_found};
use crate::stateful_sets::StatefulSet;

/// Versions in which there is a `Scale`.
const SCALES: [(&str, &str); 4] =
    [("autoscaling", "v1"), ("extensions", "v1beta1"), ("apps", "v1beta1"), ("apps", "v1beta2")];

pub struct Scales {
    pub client: Client,
    pub source: Arc<dyn Source>,
    pub deployments: Informer<Deployment>,
    pub replica_sets: Informer<ReplicaSet>,
    pub replication_controllers: Informer<ReplicaSet>,
    pub stateful_sets: Informer<StatefulSet>,
}

/// A controller by its uid, and how many pods it wants.
type Scale = (Text, i64);

impl Scales {
    /// How many pods the controllers of these want together, and whether there are pods that nobody controls. The error
    /// is as upstream words it.
    pub async fn of(&self, pods: &[Arc<Pod>]) -> Result<(i64, bool), String> {
        let mut scales: HashMap<Text, i64> = HashMap::new();
        let (mut asked, mut unmanaged) = (HashSet::new(), false);
        for pod in pods {
            let Some(owner) = &pod.controller else {
                unmanaged = true;
                continue;
            };
            // Of a thousand pods of one set only the first leads to a question.
            if !asked.insert(&owner.uid) {
                continue;
            }
            let found = self.controller(&pod.namespace, owner).await?;
            let (uid, scale) = found.ok_or_else(|| format!("found no controllers for pod {}", quote(&pod.name)))?;
            scales.insert(uid, scale);
        }
        Ok((scales.values().fold(0, |sum, scale| sum.saturating_add(*scale)), unmanaged))
    }

    async fn controller(&self, namespace: &str, owner: &Owner) -> Result<Option<Scale>, String> {
        let (group, version) = group_version(&owner.api_version)?;
        match self.workload(namespace, owner, group) {
            Some(scale) => Ok(Some(scale)),
            None => self.by_subresource(namespace, owner, group, version).await,
        }
    }

    fn workload(&self, namespace: &str, owner: &Owner, group: &str) -> Option<Scale> {
        let replicas = |set: &ReplicaSet| (set.item.uid == owner.uid).then(|| (owner.uid.clone(), set.replicas));
        match (group, owner.kind.as_str()) {
            ("", "ReplicationController") => replicas(&*self.replication_controllers.get(namespace, &owner.name)?),
            ("apps", "StatefulSet") => {
                let set = self.stateful_sets.get(namespace, &owner.name)?;
                (set.item.uid == owner.uid).then(|| (owner.uid.clone(), set.replicas))
            }
            ("apps" | "extensions", "ReplicaSet") => {
                let set = self.replica_sets.get(namespace, &owner.name)?;
                match &set.controller {
                    Some(above) if above.kind == "Deployment" => self.deployment(namespace, above),
                    _ => replicas(&set),
                }
            }
            _ => None,
        }
    }

    fn deployment(&self, namespace: &str, owner: &Owner) -> Option<Scale> {
        let (group, _) = group_version(&owner.api_version).ok()?;
        let deployment = self.deployments.get(namespace, &owner.name)?;
        let is_it = matches!(group, "apps" | "extensions") && deployment.item.uid == owner.uid;
        is_it.then(|| (owner.uid.clone(), deployment.replicas))
    }

    async fn by_subresource(
        &self,
        namespace: &str,
        owner: &Owner,
        group: &str,
        version: &str,
    ) -> Result<Option<Scale>, String> {
        let served = self.source.resources().await?;
        let is_kind = |one: &&Discovered| {
            one.resource.group == group && one.resource.version == version && owner.kind == one.resource.kind
        };
        let found = served.iter().find(is_kind).ok_or_else(|| {
            format!("no matches for kind {} in version {}", quote(&owner.kind), quote(&owner.api_version))
        })?;
        let same = |one: &&Discovered| one.resource.group == group && one.resource.plural == found.resource.plural;
        let preferred = served.iter().filter(same).find(|one| one.preferred).unwrap_or(found);
        let place = format!(
            "{}/namespaces/{namespace}/{}/{}",
            base(&preferred.resource.api_version, group),
            preferred.resource.plural,
            escaped(&owner.name)
        );
        let scale = match requests::get_value(&self.client, &format!("{place}/scale")).await {
            Ok(scale) => scale,
            Err(error) if is_not_found(&error) => {
                self.check_that_it_scales(found).await?;
                return Ok(None);
            }
            Err(error) => return Err(requests::message(&error)),
        };
        let is_it = scale["metadata"]["uid"] == owner.uid.as_str();
        Ok(is_it.then(|| (owner.uid.clone(), scale["spec"]["replicas"].as_i64().unwrap_or(0))))
    }

    /// There is no such object; or such objects have no scale, which is to be said.
    async fn check_that_it_scales(&self, kind: &Discovered) -> Result<(), String> {
        let resource = &kind.resource;
        let served = requests::get_value(&self.client, &base(&resource.api_version, &resource.group)).await;
        let served = served.map_err(|error| requests::message(&error))?;
        let name = format!("{}/scale", resource.plural);
        let is_scale = served["resources"].as_array().into_iter().flatten().any(|one| {
            let text = |field: &str| one[field].as_str().unwrap_or_default();
            text("name") == name && text("kind") == "Scale" && SCALES.contains(&(text("group"), text("version")))
        });
        if is_scale {
            return Ok(());
        }
        let suffix = if resource.group.is_empty() { String::new() } else { format!(".{}", resource.group) };
        Err(format!("{}{suffix} does not implement the scale subresource", resource.plural))
    }
}

fn group_version(api_version: &str) -> Result<(&str, &str), String> {
    match api_version.split('/').collect::<Vec<_>>().as_slice() {
        [version] => Ok(("", version)),
        [group, version] => Ok((group, version)),
        _ => Err(format!("unexpected GroupVersion string: {api_version}")),
    }
}

fn base(api_version: &str, group: &str) -> String {
    if group.is_empty() { format!("/api/{api_version}") } else { format!("/apis/{api_version}") }
}
