//! Which revisions a StatefulSet is at, and comes to: one for each template that it has had.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::history::{self, Revision};
use crate::owner::{Error, Owner};
use crate::requests;
use crate::stateful_sets::view::StatefulSet;

const HASH_LABEL: &str = "controller.kubernetes.io/hash";
/// What is left of a set's name in the name of a revision.
const PREFIX_MAX: usize = 223;
/// The letters of which hashes are made that shall spell nothing.
const SAFE_LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// The names of revisions.
pub struct Found {
    pub current: String,
    pub update: String,
    pub collisions: i64,
}

/// The revision with the set's template is made where it is not there, and becomes the latest where it is not.
pub async fn find(owner: Owner<'_>, set: &StatefulSet, known: &[Arc<Revision>]) -> Result<Found, Error> {
    let mut collisions = set.status.collision_count.unwrap_or(0);
    let next = known.last().map_or(1, |latest| latest.revision + 1);
    let same = known.iter().rev().find(|one| one.template.fingerprint == set.template.fingerprint);
    let update = match same {
        Some(found) => {
            if known.last().is_some_and(|latest| latest.item.name != found.item.name) {
                history::renumber(owner, found, next).await?;
            }
            found.item.name.to_string()
        }
        None if set.deleted.is_some() => set.status.update_revision.clone(),
        None => create(owner, set, next, &mut collisions).await?,
    };
    let current = known.iter().find(|one| one.item.name == set.status.current_revision.as_str());
    let current = current.map_or_else(|| update.clone(), |one| one.item.name.to_string());
    Ok(Found { current, update, collisions })
}

/// Another name for each that is taken by something else.
async fn create(owner: Owner<'_>, set: &StatefulSet, number: i64, collisions: &mut i64) -> Result<String, Error> {
    let data = history::data(owner.item)?;
    let text = history::go_json(&data);
    let path = owner.beside("/apis/apps/v1", "controllerrevisions");
    let first_hash = hash(&text, *collisions);
    loop {
        let name = name(&set.item.name, &hash(&text, *collisions));
        let mut labels: Value = json!({ HASH_LABEL: first_hash });
        for (key, value) in set.template.labels.iter() {
            labels[key.as_str()] = value.as_str().into();
        }
        let body = history::body(owner, &name, labels, data.clone(), number)?;
        match requests::create(owner.client, &path, body.to_string().into_bytes()).await {
            Err(rkube_operator::kube::Error::Api(status)) if status.is_already_exists() => {
                let there = requests::get_value(owner.client, &format!("{path}/{name}")).await?;
                if history::go_json(&there["data"]) == text {
                    return Ok(name);
                }
                *collisions += 1;
            }
            other => {
                other?;
                return Ok(name);
            }
        }
    }
}

fn name(set: &str, hash: &str) -> String {
    format!("{}-{hash}", set.get(..PREFIX_MAX).unwrap_or(set))
}

fn hash(text: &str, collisions: i64) -> String {
    let digits = fnv1(text.bytes().chain(collisions.to_string().into_bytes())).to_string().into_bytes();
    digits.iter().map(|digit| char::from(SAFE_LETTERS[usize::from(*digit) % SAFE_LETTERS.len()])).collect()
}

fn fnv1(bytes: impl Iterator<Item = u8>) -> u32 {
    bytes.fold(0x811c_9dc5, |hash, byte| hash.wrapping_mul(0x0100_0193) ^ u32::from(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_a_hash_and_fit() {
        assert_eq!(name("web", "abc"), "web-abc");
        assert_eq!(name(&"a".repeat(300), "b").len(), 225);
    }

    /// The published value of FNV-1, which is not FNV-1a.
    #[test]
    fn hashes_are_fnv_1_in_safe_letters() {
        assert_eq!(fnv1("foobar".bytes()), 0x31f0_b262);
        assert_eq!(hash("x", 0).len(), fnv1("x0".bytes()).to_string().len());
        assert_ne!(hash("x", 0), hash("x", 1));
    }
}
