//! The cgroups that held the pods'.

use rkube_runtime::cgroups::Cgroups;
use rkube_runtime::shim::host_cgroups;

/// Removes a cgroup and those below it, as far as nobody is in them.
pub fn remove_empty(root: &str) {
    if let Ok((cgroups, _)) = host_cgroups() {
        remove(&*cgroups, root);
    }
}

fn remove(cgroups: &dyn Cgroups, path: &str) {
    for child in cgroups.children(path) {
        remove(cgroups, &format!("{path}/{child}"));
    }
    // One that is still used stays.
    let _ = cgroups.remove_one(path);
}
