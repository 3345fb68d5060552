//! The volumes of a pod, and the sources that most of them have.

use std::collections::{BTreeMap, BTreeSet};

use rkube_machinery::field::{Errors, Path, quote};
use rkube_machinery::{Value, names};

use super::checks::{
    dns_label, dns_subdomain, file_mode, local_non_reserved_path, no_backsteps, one_of_if_set, require, required_one_of,
};
use super::options::PodOptions;
use super::{amounts, claim_template, containers, env, projected, storage_sources};

const HOST_PATH_TYPES: &[&str] =
    &["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];
const PORTAL_MAX_BYTES: usize = 64;

/// The volumes that containers can use: those without errors. Few are searched one by one, many by an index.
pub(super) struct Volumes<'a> {
    all: &'a [Value],
    bad: Vec<usize>,
    index: BTreeMap<&'a str, &'a Value>,
}

impl<'a> Volumes<'a> {
    const FEW: usize = 16;

    fn new(all: &'a [Value]) -> Self {
        Volumes { all, bad: Vec::new(), index: BTreeMap::new() }
    }

    pub(super) fn find(&self, name: &str) -> Option<&'a Value> {
        self.find_before(self.all.len(), name)
    }

    /// Of those before this position, which have been checked.
    fn find_before(&self, end: usize, name: &str) -> Option<&'a Value> {
        if self.all.len() > Self::FEW {
            return self.index.get(name).copied();
        }
        let fits = |(index, volume): &(usize, &Value)| volume.str("name") == name && !self.bad.contains(index);
        self.all[..end].iter().enumerate().find(fits).map(|(_, volume)| volume)
    }

    fn note(&mut self, index: usize, good: bool) {
        if self.all.len() > Self::FEW {
            if good {
                self.index.insert(self.all[index].str("name"), &self.all[index]);
            }
        } else if !good {
            self.bad.push(index);
        }
    }
}

type Check = fn(Path<'_>, &Value, &PodOptions, &mut Errors);

/// A kind of source: its field, the name under which it is refused beside another one, the name under which its own
/// errors stand (both have slips that clients know), its check.
struct Source {
    field: &'static str,
    refused_as: &'static str,
    checked_as: &'static str,
    check: Check,
}

const fn source(field: &'static str, check: Check) -> Source {
    Source { field, refused_as: field, checked_as: field, check }
}

/// In the order in which they are looked for.
const SOURCES: &[Source] = &[
    source("emptyDir", validate_empty_dir),
    source("hostPath", validate_host_path),
    source("gitRepo", storage_sources::validate_git_repo),
    Source { checked_as: "persistentDisk", ..source("gcePersistentDisk", storage_sources::validate_gce_disk) },
    source("awsElasticBlockStore", storage_sources::validate_aws_disk),
    source("secret", validate_secret),
    source("nfs", storage_sources::validate_nfs),
    source("iscsi", storage_sources::validate_iscsi),
    source("glusterfs", storage_sources::validate_glusterfs),
    source("flocker", storage_sources::validate_flocker),
    source("persistentVolumeClaim", validate_claim),
    source("rbd", storage_sources::validate_rbd),
    source("cinder", storage_sources::validate_cinder),
    Source { refused_as: "cephFS", ..source("cephfs", storage_sources::validate_cephfs) },
    source("quobyte", storage_sources::validate_quobyte),
    Source { refused_as: "downwarAPI", ..source("downwardAPI", validate_downward_api) },
    source("fc", storage_sources::validate_fibre_channel),
    source("flexVolume", storage_sources::validate_flex),
    source("configMap", validate_config_map),
    source("azureFile", storage_sources::validate_azure_file),
    source("vsphereVolume", storage_sources::validate_vsphere),
    source("photonPersistentDisk", storage_sources::validate_photon),
    source("portworxVolume", storage_sources::validate_portworx),
    source("azureDisk", storage_sources::validate_azure_disk),
    source("storageos", storage_sources::validate_storageos),
    source("projected", projected::validate_projected),
    source("scaleIO", storage_sources::validate_scale_io),
    source("csi", validate_csi),
    source("ephemeral", validate_ephemeral),
    source("image", validate_image),
];

/// Checks the volumes; answers with those that are right. `pod_name` is known for pods, empty for templates.
pub(super) fn validate_volumes<'a>(
    path: Path<'_>,
    spec: &'a Value,
    pod_name: &str,
    options: &PodOptions,
    errors: &mut Errors,
) -> Volumes<'a> {
    let mut volumes = Volumes::new(spec.list("volumes"));
    let claims = claims_of_pod(volumes.all, pod_name);
    for (index, volume) in volumes.all.iter().enumerate() {
        let path = path.index(index);
        let before = errors.len();
        validate_source(path, volume, pod_name, options, errors);
        let name = volume.str("name");
        if require(volume, path, "name", errors) {
            dns_label(path.child("name"), name, errors);
        }
        if volumes.find_before(index, name).is_some() {
            errors.duplicate(path.child("name"), name);
        }
        volumes.note(index, errors.len() == before);
        let claim = volume.get("persistentVolumeClaim");
        if !claim.is_null() && claims.contains(claim.str("claimName")) {
            let words = "must not reference a PVC that gets created for an ephemeral volume";
            let path = path.child("persistentVolumeClaim");
            errors.invalid(path.child("claimName"), claim.str("claimName"), words);
        }
    }
    volumes
}

/// The claims that the pod's own ephemeral volumes bring about.
fn claims_of_pod(volumes: &[Value], pod_name: &str) -> BTreeSet<String> {
    if pod_name.is_empty() {
        return BTreeSet::new();
    }
    let own = volumes.iter().filter(|volume| volume.has("ephemeral"));
    own.map(|volume| format!("{pod_name}-{}", volume.str("name"))).collect()
}

fn validate_source(path: Path<'_>, volume: &Value, pod_name: &str, options: &PodOptions, errors: &mut Errors) {
    let mut found = false;
    for source in SOURCES {
        let value = volume.get(source.field);
        if value.is_null() {
            continue;
        }
        if found {
            errors.forbidden(path.child(source.refused_as), "may not specify more than 1 volume type");
        } else {
            found = true;
            (source.check)(path.child(source.checked_as), value, options, errors);
            if source.field == "ephemeral" {
                validate_claim_name(path, volume.str("name"), pod_name, errors);
            }
        }
        if source.field == "iscsi" && value.has("initiatorName") {
            let (name, portal) = (volume.str("name"), value.str("targetPortal"));
            if name.len() + 1 + portal.len() > PORTAL_MAX_BYTES {
                let words = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if \
                             iscsi.initiatorName is specified.";
                errors.invalid(path.child("name"), name, words);
            }
        }
    }
    if !found {
        errors.required(path, "must specify a volume type");
    }
}

/// The claim of an ephemeral volume is named after the pod and the volume.
fn validate_claim_name(path: Path<'_>, volume: &str, pod_name: &str, errors: &mut Errors) {
    if pod_name.is_empty() || volume.is_empty() {
        return;
    }
    let claim = format!("{pod_name}-{volume}");
    for message in names::dns1123_subdomain(&claim) {
        errors.invalid(path.child("name"), volume, format!("PVC name {}: {message}", quote(&claim)));
    }
}

fn validate_empty_dir(path: Path<'_>, source: &Value, _: &PodOptions, errors: &mut Errors) {
    if amounts::is_negative(source.get("sizeLimit")) {
        errors.forbidden(path.child("sizeLimit"), "SizeLimit field must be a valid resource quantity");
    }
}

pub(crate) fn validate_host_path(path: Path<'_>, source: &Value, _: &PodOptions, errors: &mut Errors) {
    if require(source, path, "path", errors) {
        no_backsteps(path.child("path"), source.str("path"), errors);
        one_of_if_set(source, path, "type", HOST_PATH_TYPES, errors);
    }
}

fn validate_secret(path: Path<'_>, source: &Value, _: &PodOptions, errors: &mut Errors) {
    require(source, path, "secretName", errors);
    file_mode(source, path, "defaultMode", errors);
    validate_key_paths(path, source, errors);
}

fn validate_config_map(path: Path<'_>, source: &Value, _: &PodOptions, errors: &mut Errors) {
    require(source, path, "name", errors);
    file_mode(source, path, "defaultMode", errors);
    validate_key_paths(path, source, errors);
}

fn validate_key_paths(path: Path<'_>, source: &Value, errors: &mut Errors) {
    let path = path.child("items");
    for (index, item) in source.list("items").iter().enumerate() {
        validate_key_path(path.index(index), item, errors);
    }
}

/// A key and the file it is shown as.
pub(super) fn validate_key_path(path: Path<'_>, item: &Value, errors: &mut Errors) {
    require(item, path, "key", errors);
    require(item, path, "path", errors);
    local_non_reserved_path(path.child("path"), item.str("path"), errors);
    file_mode(item, path, "mode", errors);
}

fn validate_claim(path: Path<'_>, source: &Value, _: &PodOptions, errors: &mut Errors) {
    require(source, path, "claimName", errors);
}

fn validate_downward_api(path: Path<'_>, source: &Value, _: &PodOptions, errors: &mut Errors) {
    file_mode(source, path, "defaultMode", errors);
    for item in source.list("items") {
        validate_downward_file(path, item, errors);
    }
}

/// A file that shows a field of the pod. Its errors stand at the source: they name no item.
pub(super) fn validate_downward_file(path: Path<'_>, item: &Value, errors: &mut Errors) {
    require(item, path, "path", errors);
    local_non_reserved_path(path.child("path"), item.str("path"), errors);
    let (field, resource) = (item.get("fieldRef"), item.get("resourceFieldRef"));
    if !field.is_null() {
        env::validate_field(path.child("fieldRef"), field, env::VOLUME_FIELDS, errors);
        if !resource.is_null() {
            let words = "fieldRef and resourceFieldRef can not be specified simultaneously";
            errors.invalid(path, "resource", words);
        }
    } else if !resource.is_null() {
        env::validate_resource_field(path.child("resourceFieldRef"), resource, true, errors);
    } else {
        errors.required(path, "one of fieldRef and resourceFieldRef is required");
    }
    file_mode(item, path, "mode", errors);
}

fn validate_csi(path: Path<'_>, source: &Value, _: &PodOptions, errors: &mut Errors) {
    validate_driver_name(path.child("driver"), source.str("driver"), errors);
    let secret = source.get("nodePublishSecretRef");
    if secret.is_null() {
        return;
    }
    let name = secret.str("name");
    if require(secret, path.child("nodePublishSecretRef"), "name", errors) {
        dns_subdomain(path.child("name"), name, errors);
    }
}

/// The name of a CSI driver: a short domain in which case does not matter.
pub fn validate_driver_name(path: Path<'_>, driver: &str, errors: &mut Errors) {
    const DRIVER_MAX_BYTES: usize = 63;
    if driver.is_empty() {
        return errors.required(path, "");
    }
    if driver.len() > DRIVER_MAX_BYTES {
        errors.too_long(path, DRIVER_MAX_BYTES);
    }
    for message in names::dns1123_subdomain(&driver.to_ascii_lowercase()) {
        errors.invalid(path, driver, message);
    }
}

fn validate_ephemeral(path: Path<'_>, source: &Value, _: &PodOptions, errors: &mut Errors) {
    let path = path.child("volumeClaimTemplate");
    if source.has("volumeClaimTemplate") {
        claim_template::validate_claim_template(path, source.get("volumeClaimTemplate"), errors);
    } else {
        errors.required(path, "");
    }
}

fn validate_image(path: Path<'_>, source: &Value, options: &PodOptions, errors: &mut Errors) {
    if options.is_pod {
        require(source, path, "reference", errors);
    }
    required_one_of(path.child("pullPolicy"), source.str("pullPolicy"), containers::PULL_POLICIES, errors);
}
