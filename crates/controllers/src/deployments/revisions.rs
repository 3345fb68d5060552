//! What a Deployment writes down about its sets, as annotations: revisions and sizes.

use rkube_machinery::Text;

use crate::deployments::view::Deployment;
use crate::metadata::Labels;
use crate::replica_sets::ReplicaSet;

pub const REVISION: &str = "deployment.kubernetes.io/revision";
pub const HISTORY: &str = "deployment.kubernetes.io/revision-history";
pub const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
pub const MAX: &str = "deployment.kubernetes.io/max-replicas";
pub const ROLLBACK_TO: &str = "deprecated.deployment.rollback.to";
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// What is not copied between Deployments and sets.
const OWN: [&str; 6] = [LAST_APPLIED, REVISION, HISTORY, DESIRED, MAX, ROLLBACK_TO];

/// The history of a set's revisions has at most so many letters: the oldest go.
const HISTORY_MAX: usize = 2000;

/// The revision of a set: 0 if it has none, None if it cannot be read.
pub fn revision(set: &ReplicaSet) -> Option<i64> {
    set.annotations.get(REVISION).map_or(Some(0), |text| text.parse().ok())
}

pub fn max_revision<'a>(sets: impl IntoIterator<Item = &'a ReplicaSet>) -> i64 {
    sets.into_iter().filter_map(revision).max().unwrap_or(0).max(0)
}

/// The revision before the latest; 0 if there is none.
pub fn last_revision<'a>(sets: impl IntoIterator<Item = &'a ReplicaSet>) -> i64 {
    let (mut max, mut second) = (0, 0);
    for revision in sets.into_iter().filter_map(revision) {
        if revision >= max {
            (max, second) = (revision, max);
        } else if revision > second {
            second = revision;
        }
    }
    second
}

/// A number of replicas that was written down.
pub fn replicas(set: &ReplicaSet, annotation: &str) -> Option<i64> {
    set.annotations.get(annotation)?.parse::<i32>().ok().filter(|number| *number >= 0).map(i64::from)
}

/// Whether the sizes that are written down on a set are those of the Deployment.
pub fn has_sizes(deployment: &Deployment, set: &ReplicaSet) -> bool {
    let same = |annotation, size: i64| set.annotations.get(annotation) == Some(size.to_string().as_str());
    same(DESIRED, deployment.replicas) && same(MAX, deployment.max_replicas())
}

pub fn sizes(deployment: &Deployment) -> [(Text, Text); 2] {
    let text = |size: i64| Text::new(size.to_string());
    [(DESIRED.into(), text(deployment.replicas)), (MAX.into(), text(deployment.max_replicas()))]
}

/// The annotations that a Deployment hands on.
pub fn handed_on(annotations: &Labels) -> impl Iterator<Item = (&Text, &Text)> {
    annotations.iter().filter(|(key, _)| !OWN.contains(&key.as_str()))
}

/// The annotations that a Deployment keeps when it goes back to another set's.
pub fn is_own(annotation: &str) -> bool {
    OWN.contains(&annotation)
}

/// What is to be changed of the annotations of the set with the Deployment's template, so that its revision is this one
/// at least. Empty: nothing.
pub fn changes(deployment: &Deployment, set: &ReplicaSet, new_revision: i64) -> Vec<(Text, Text)> {
    let copied = handed_on(&deployment.annotations).filter(|(key, value)| set.annotations.get(key) != Some(value));
    let mut changes: Vec<(Text, Text)> = copied.map(|(key, value)| (key.clone(), value.clone())).collect();
    let old = set.annotations.get(REVISION);
    let old_revision = match old {
        None | Some("") => 0,
        Some(text) => match text.parse::<i64>() {
            Ok(revision) => revision,
            // Somebody else wrote this: it is left alone.
            Err(_) => return Vec::new(),
        },
    };
    if old_revision >= new_revision {
        return changes;
    }
    changes.push((REVISION.into(), Text::new(new_revision.to_string())));
    // A set that had a revision is gone back to: its former ones stay known.
    if let Some(old) = old {
        let history = set.annotations.get(HISTORY).unwrap_or_default();
        changes.extend(lengthened(history, old).map(|history| (HISTORY.into(), Text::new(history))));
    }
    changes
}

/// A history with another revision at its end, within the bound. None: not even that one fits.
fn lengthened(history: &str, revision: &str) -> Option<String> {
    if history.is_empty() || history.starts_with(',') {
        return Some(revision.to_owned());
    }
    let mut rest = history;
    while rest.len() + 1 + revision.len() > HISTORY_MAX {
        rest = rest.split_once(',').map_or("", |(_, rest)| rest);
        if rest.is_empty() {
            return (revision.len() <= HISTORY_MAX).then(|| revision.to_owned());
        }
    }
    Some(format!("{rest},{revision}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histories_grow_within_their_bound() {
        let long = vec!["12345"; 400].join(",");
        let table = [
            ("", "1", "1".to_owned()),
            ("1", "2", "1,2".to_owned()),
            ("1,2", "3", "1,2,3".to_owned()),
            (&long[..1999], "7", format!("{},7", &long[6..1999])),
        ];
        for (history, revision, expected) in table {
            let longer = lengthened(history, revision).unwrap();
            assert_eq!(longer, expected);
            assert!(longer.len() <= HISTORY_MAX);
        }
    }
}
