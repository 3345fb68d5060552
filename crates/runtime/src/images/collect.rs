//! Which images go when the disk gets full: those that nobody uses, the longest unused first, as the kubelet does it.

use std::collections::HashSet;

use super::error::Doing;
use super::store::Store;
use super::{Result, snapshots};
use crate::api::Image;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CollectionPolicy {
    /// From so much of the disk in use on, images are removed …
    pub high_percent: u64,
    /// … until no more than so much is.
    pub low_percent: u64,
    /// One that has just been pulled will be used in a moment.
    pub minimum_age_seconds: i64,
    /// Unused for so long, an image goes whatever room there is. None: never.
    pub maximum_age_seconds: Option<i64>,
}

impl Default for CollectionPolicy {
    fn default() -> CollectionPolicy {
        CollectionPolicy { high_percent: 85, low_percent: 80, minimum_age_seconds: 120, maximum_age_seconds: None }
    }
}

/// An image as the plan sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub id: String,
    pub bytes: u64,
    pub added_seconds: i64,
    pub used_seconds: i64,
    pub in_use: bool,
    pub pinned: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// In this order.
    pub remove: Vec<String>,
    pub freed_bytes: u64,
    /// More than that is wanted; 0 where there is room.
    pub wanted_bytes: u64,
}

/// What to remove of these from a disk of so many bytes of which so many are free.
pub fn plan(
    policy: &CollectionPolicy,
    capacity_bytes: u64,
    available_bytes: u64,
    images: &[Candidate],
    now_seconds: i64,
) -> Plan {
    let available = available_bytes.min(capacity_bytes);
    let mut plan = Plan::default();
    let mut unused: Vec<&Candidate> = images.iter().filter(|image| !image.in_use && !image.pinned).collect();
    unused.sort_by_key(|image| (image.used_seconds, image.added_seconds, &image.id));
    let age = |since: i64| now_seconds.saturating_sub(since);
    unused.retain(|image| {
        let old = policy.maximum_age_seconds.is_some_and(|maximum| age(image.used_seconds) > maximum);
        if old {
            plan.take(image);
        }
        !old
    });
    let share = |percent: u64| (u128::from(capacity_bytes) * u128::from(percent) / 100) as u64;
    let freed_by_age = plan.freed_bytes;
    let available = available.saturating_add(freed_by_age).min(capacity_bytes);
    let used_percent =
        100 - (u128::from(available) * 100).checked_div(u128::from(capacity_bytes)).unwrap_or(100) as u64;
    if used_percent < policy.high_percent {
        return plan;
    }
    plan.wanted_bytes = share(100 - policy.low_percent.min(100)).saturating_sub(available);
    for image in unused {
        if plan.freed_bytes - freed_by_age >= plan.wanted_bytes {
            break;
        }
        if age(image.added_seconds) >= policy.minimum_age_seconds {
            plan.take(image);
        }
    }
    plan
}

impl Plan {
    fn take(&mut self, image: &Candidate) {
        self.remove.push(image.id.clone());
        self.freed_bytes = self.freed_bytes.saturating_add(image.bytes);
    }
}

impl Store {
    /// Removes unused images as the policy says, and says what was planned. Images of containers are in use, and those that
    /// the caller names.
    pub fn collect(&self, policy: &CollectionPolicy, in_use: &HashSet<String>, now_seconds: i64) -> Result<Plan> {
        let directory = self.directory();
        let figures = rustix::fs::statvfs(directory).doing(|| format!("look at {}", directory.display()))?;
        let (capacity, available) = (
            (figures.f_blocks - figures.f_bfree + figures.f_bavail) * figures.f_frsize,
            figures.f_bavail * figures.f_frsize,
        );
        let plan = plan(policy, capacity, available, &self.candidates(in_use)?, now_seconds);
        for id in &plan.remove {
            self.remove(id)?;
        }
        Ok(plan)
    }

    /// Removes all images that no container uses, nor the caller names, nor is pinned; says which.
    pub fn prune(&self, in_use: &HashSet<String>) -> Result<Vec<Image>> {
        let unused: HashSet<String> = self
            .candidates(in_use)?
            .into_iter()
            .filter(|image| !image.in_use && !image.pinned)
            .map(|image| image.id)
            .collect();
        let removed: Vec<Image> = self.list()?.into_iter().filter(|image| unused.contains(&image.id)).collect();
        for image in &removed {
            self.remove(&image.id)?;
        }
        Ok(removed)
    }

    fn candidates(&self, in_use: &HashSet<String>) -> Result<Vec<Candidate>> {
        let of_containers = snapshots::images_in_use(self)?;
        let candidate = |image: Image| {
            let (added_seconds, used_seconds) = self.times(&image.id);
            Candidate {
                in_use: in_use.contains(&image.id) || of_containers.contains(&image.id),
                id: image.id,
                bytes: image.size_bytes,
                added_seconds,
                used_seconds,
                pinned: image.pinned,
            }
        };
        Ok(self.list()?.into_iter().map(candidate).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 10_000;

    fn image(id: &str, bytes: u64, added: i64, used: i64) -> Candidate {
        Candidate { id: id.to_owned(), bytes, added_seconds: added, used_seconds: used, in_use: false, pinned: false }
    }

    fn images() -> Vec<Candidate> {
        vec![
            image("recent", 50, 0, 9_000),
            image("oldest", 10, 0, 100),
            image("older", 20, 0, 200),
            image("new", 100, NOW - 60, 50),
            Candidate { in_use: true, ..image("used", 100, 0, 0) },
            Candidate { pinned: true, ..image("pinned", 100, 0, 0) },
        ]
    }

    #[test]
    fn the_longest_unused_go_until_there_is_room() {
        // Of 1,000: what is free, what goes, and how much that was to be.
        for (free, removed, wanted) in [
            (1_000, vec![], 0),
            (160, vec![], 0),
            (159, vec!["oldest", "older", "recent"], 41),
            (150, vec!["oldest", "older", "recent"], 50),
            (0, vec!["oldest", "older", "recent"], 200),
            (2_000, vec![], 0),
        ] {
            let plan = plan(&CollectionPolicy::default(), 1_000, free, &images(), NOW);
            assert_eq!(
                (plan.remove, plan.wanted_bytes),
                (removed.into_iter().map(str::to_owned).collect(), wanted),
                "{free}"
            );
        }
        let policy = CollectionPolicy { high_percent: 85, low_percent: 83, ..CollectionPolicy::default() };
        let plan = plan(&policy, 1_000, 145, &images(), NOW);
        assert_eq!((plan.remove.len(), plan.freed_bytes, plan.wanted_bytes), (2, 30, 25));
    }

    #[test]
    fn what_is_too_old_goes_whatever_room_there_is() {
        let policy = CollectionPolicy { maximum_age_seconds: Some(9_850), ..CollectionPolicy::default() };
        let plan = plan(&policy, 1_000, 900, &images(), NOW);
        assert_eq!(plan.remove, ["new", "oldest"]);
    }

    #[test]
    fn a_disk_without_size_is_no_full_disk() {
        assert_eq!(plan(&CollectionPolicy::default(), 0, 0, &images(), NOW), Plan::default());
    }
}
