//! Which revision a DaemonSet is at: one for each template that it has had.

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::daemon_sets::view::DaemonSet;
use crate::history::{self, REVISION_HASH, Revision};
use crate::owner::{Error, Owner, path_of};
use crate::pods::Pod;
use crate::requests;
use crate::template_hash::template_hash;

/// The hash of the revision with the set's template, which is the latest from now on, and the other revisions. All have
/// their hashes as labels from now on: one that somebody else made, its name.
pub async fn find(
    owner: Owner<'_>,
    set: &DaemonSet,
    known: Vec<Arc<Revision>>,
    pods: &[Arc<Pod>],
) -> Result<(String, Vec<Arc<Revision>>), Error> {
    let (mut same, old): (Vec<Arc<Revision>>, Vec<Arc<Revision>>) =
        known.into_iter().partition(|one| one.template.fingerprint == set.template.fingerprint);
    for unlabelled in old.iter().filter(|one| one.labels.get(REVISION_HASH).is_none()) {
        let labels = json!({ REVISION_HASH: hash_of(unlabelled) });
        let patch = json!({ "metadata": { "uid": unlabelled.item.uid.as_str(), "labels": labels } });
        requests::patch(owner.client, &unlabelled.path(), &patch).await?;
    }
    let next = old.iter().map(|one| one.revision).max().unwrap_or(0).max(0) + 1;
    let Some(current) = same.pop() else {
        return Ok((create(owner, set, next).await?, old));
    };
    let hash = hash_of(&current);
    for other in same {
        for pod in pods.iter().filter(|pod| pod.labels.get(REVISION_HASH) == Some(&hash_of(&other))) {
            let patch = json!({ "metadata": { "labels": { REVISION_HASH: hash } } });
            requests::patch(owner.client, &path_of(pod), &patch).await?;
        }
        history::delete(owner, &other).await?;
    }
    if current.labels.get(REVISION_HASH).is_none() || current.revision < next {
        let mut object = requests::whole(&current.item)?;
        object["metadata"]["labels"][REVISION_HASH] = hash.as_str().into();
        object["revision"] = current.revision.max(next).into();
        requests::replace(owner.client, &current.path(), &object).await?;
    }
    Ok((hash, old))
}

fn hash_of(revision: &Revision) -> String {
    revision.labels.get(REVISION_HASH).unwrap_or(&revision.item.name).to_owned()
}

async fn create(owner: Owner<'_>, set: &DaemonSet, number: i64) -> Result<String, Error> {
    let hash = template_hash(&set.item.json, set.status.collision_count);
    let name = format!("{}-{hash}", set.item.name);
    let mut labels: Value = json!({ REVISION_HASH: hash });
    for (key, value) in set.template.labels.iter().filter(|(key, _)| *key != REVISION_HASH) {
        labels[key.as_str()] = value.as_str().into();
    }
    let data = history::data(owner.item)?;
    let body = history::body(owner, &name, labels, data.clone(), number)?;
    let path = owner.beside("/apis/apps/v1", "controllerrevisions");
    match requests::create(owner.client, &path, body.to_string().into_bytes()).await {
        Err(rkube_operator::kube::Error::Api(status)) if status.is_already_exists() => {
            let there = requests::get_value(owner.client, &format!("{path}/{name}")).await?;
            if history::go_json(&there["data"]) == history::go_json(&data) {
                return Ok(hash);
            }
            // The next one will have another name.
            let mut status = requests::whole(owner.item)?["status"].take();
            status["collisionCount"] = (set.status.collision_count.unwrap_or(0) + 1).into();
            owner.write_status(&status).await?;
            Err(Error::Wait(format!("the name {name} is taken by another revision")))
        }
        other => {
            other?;
            Ok(hash)
        }
    }
}

/// Deletes old revisions that no pod has, beyond those that are to be kept.
pub async fn forget(owner: Owner<'_>, set: &DaemonSet, old: &[Arc<Revision>], pods: &[Arc<Pod>]) -> Result<(), Error> {
    let kept = usize::try_from(set.history_limit).unwrap_or(0);
    let live: HashSet<&str> = pods.iter().filter_map(|pod| pod.labels.get(REVISION_HASH)).collect();
    let unused = old.iter().filter(|one| !live.contains(hash_of(one).as_str()));
    for revision in unused.take(old.len().saturating_sub(kept)) {
        history::delete(owner, revision).await?;
    }
    Ok(())
}
