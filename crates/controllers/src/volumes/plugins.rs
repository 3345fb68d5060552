//! What Kubernetes' own plugins of volumes make of a volume or a class: most of them are gone, and drivers do their work.

use super::{MIGRATED_TO, PROVISIONED_BY, Source, Volume};

/// Plugins that drivers took over from, and the drivers.
const MIGRATED: [(&str, &str); 7] = [
    ("kubernetes.io/aws-ebs", "ebs.csi.aws.com"),
    ("kubernetes.io/azure-disk", "disk.csi.azure.com"),
    ("kubernetes.io/azure-file", "file.csi.azure.com"),
    ("kubernetes.io/cinder", "cinder.csi.openstack.org"),
    ("kubernetes.io/gce-pd", "pd.csi.storage.gke.io"),
    ("kubernetes.io/portworx-volume", "pxd.portworx.com"),
    ("kubernetes.io/vsphere-volume", "csi.vsphere.vmware.com"),
];
/// The names of plugins of Kubernetes' own begin with it.
const IN_TREE: &str = "kubernetes.io/";
const HOST_PATH: &str = "kubernetes.io/host-path";
const NFS: &str = "kubernetes.io/nfs";
/// Only what is below it is ever deleted.
const HOST_PATH_DELETES: &str = "/tmp/";

/// The driver that does what this plugin did.
pub fn csi_driver(plugin: &str) -> Option<&'static str> {
    MIGRATED.iter().find(|(name, _)| *name == plugin).map(|(_, driver)| *driver)
}

pub fn is_in_tree(provisioner: &str) -> bool {
    provisioner.starts_with(IN_TREE)
}

/// Who is to make volumes of a class, or why nobody is.
pub fn provisioner(name: &str) -> Result<&str, String> {
    match name {
        _ if csi_driver(name).is_some() => Ok(csi_driver(name).unwrap_or(name)),
        HOST_PATH => {
            Err(format!("Failed to create provisioner: provisioning in volume plugin \"{HOST_PATH}\" is disabled"))
        }
        NFS => Err("no provisionable volume plugin matched".to_owned()),
        _ if is_in_tree(name) => Err(format!("no volume plugin matched name: {name}")),
        _ => Ok(name),
    }
}

/// Who deletes what a volume stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deleter {
    /// Somebody else: it is left to them.
    External,
    /// Nothing is left to delete but the object.
    Own,
    /// Nobody can, and why.
    None(String),
}

pub fn deleter(volume: &Volume) -> Deleter {
    let made_by = volume.annotations.get(PROVISIONED_BY).unwrap_or_default();
    match made_by {
        "" => {}
        HOST_PATH => return host_path(volume),
        NFS => return Deleter::None("no deletable volume plugin matched".to_owned()),
        _ if is_in_tree(made_by) => return Deleter::None(format!("no volume plugin matched name: {made_by}")),
        _ => return Deleter::External,
    }
    if volume.annotations.get(MIGRATED_TO).is_some() {
        return Deleter::External;
    }
    let failed = |why: &str| {
        Deleter::None(format!("error getting deleter volume plugin for volume {:?}: {why}", volume.item.name))
    };
    match volume.source {
        Source::Csi { .. } => Deleter::External,
        Source::HostPath { .. } => host_path(volume),
        Source::Nfs => failed("no deletable volume plugin matched"),
        Source::Other => failed("no volume plugin matched"),
    }
}

/// Upstream deletes the directory on the machine that it runs on, which is seldom the one that had it. Here a controller
/// has no files: the object goes, the directory stays.
fn host_path(volume: &Volume) -> Deleter {
    match &volume.source {
        Source::HostPath { path } if has_deletable_part(path) => Deleter::Own,
        Source::HostPath { path } => {
            Deleter::None(format!("host_path deleter only supports /tmp/.+ but received provided {path}"))
        }
        _ => Deleter::None(format!(
            "failed to create deleter for volume {:?}: spec.PersistentVolumeSource.HostPath is nil",
            volume.item.name
        )),
    }
}

fn has_deletable_part(path: &str) -> bool {
    path.find(HOST_PATH_DELETES).is_some_and(|at| path.len() > at + HOST_PATH_DELETES.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drivers_took_over_from_plugins() {
        let none = |text: &str| Err(text.to_owned());
        for (name, expected) in [
            ("kubernetes.io/aws-ebs", Ok("ebs.csi.aws.com")),
            ("example.com/nfs", Ok("example.com/nfs")),
            ("kubernetes.io/no-provisioner", none("no volume plugin matched name: kubernetes.io/no-provisioner")),
            ("kubernetes.io/nfs", none("no provisionable volume plugin matched")),
        ] {
            assert_eq!(provisioner(name), expected);
        }
    }

    #[test]
    fn only_directories_below_tmp_are_deleted() {
        for (path, expected) in [("/tmp/a", true), ("/tmp/", false), ("/data", false), ("/mnt/tmp/a", true)] {
            assert_eq!(has_deletable_part(path), expected, "{path}");
        }
    }
}
