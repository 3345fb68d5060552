//! The cgroups that held the pods'.

use rkube_runtime::cgroups::{Cgroups, Hierarchies};

/// Removes a cgroup and those below it, as far as nobody is in them.
pub fn remove_empty(root: &str) {
    if let Ok(hierarchies) = Hierarchies::of_host() {
        remove(&*hierarchies.open(), root);
    }
}

fn remove(cgroups: &dyn Cgroups, path: &str) {
    for child in cgroups.children(path) {
        remove(cgroups, &format!("{path}/{child}"));
    }
    // One that is still used stays.
    let _ = cgroups.remove_one(path);
}
