//! Where the bytes of a volume are.

use rkube_machinery::Value;
use rkube_machinery::field::{Errors, Path};

use crate::core::pod_spec::checks::{dns_label, dns_subdomain, no_backsteps, require};
use crate::core::pod_spec::storage_sources::{self as shared, is_address, is_iqn};
use crate::core::pod_spec::volumes::validate_host_path;
use crate::core::pod_spec::{PodOptions, validate_driver_name};

const UNIT_WORDS: &str = "must be between 0 and 255, inclusive";
const PORTAL_MAX_BYTES: usize = 64;

/// The context of a check: the volume's name and the options that checks for pods take.
struct Context<'a> {
    name: &'a str,
    options: PodOptions,
}

type Check = fn(Path<'_>, &Value, &Context<'_>, &mut Errors);

/// A kind of source: its field, the names under which it is refused beside another one and under which its own errors
/// stand (both have slips that clients know), its check.
struct Source {
    field: &'static str,
    refused_as: &'static str,
    checked_as: &'static str,
    check: Check,
}

const fn source(field: &'static str, check: Check) -> Source {
    Source { field, refused_as: field, checked_as: field, check }
}

/// A source that is checked as in a pod.
macro_rules! shared {
    ($field:literal, $check:path) => {
        source($field, |path, value, context, errors| $check(path, value, &context.options, errors))
    };
}

/// In the order in which they are looked for.
const SOURCES: &[Source] = &[
    shared!("hostPath", validate_host_path),
    Source { checked_as: "persistentDisk", ..shared!("gcePersistentDisk", shared::validate_gce_disk) },
    shared!("awsElasticBlockStore", shared::validate_aws_disk),
    source("glusterfs", validate_glusterfs),
    shared!("flocker", shared::validate_flocker),
    shared!("nfs", shared::validate_nfs),
    shared!("rbd", shared::validate_rbd),
    shared!("quobyte", shared::validate_quobyte),
    Source { refused_as: "cephFS", ..shared!("cephfs", shared::validate_cephfs) },
    source("iscsi", validate_iscsi),
    source("cinder", validate_cinder),
    shared!("fc", shared::validate_fibre_channel),
    shared!("flexVolume", shared::validate_flex),
    source("azureFile", validate_azure_file),
    shared!("vsphereVolume", shared::validate_vsphere),
    shared!("photonPersistentDisk", shared::validate_photon),
    shared!("portworxVolume", shared::validate_portworx),
    shared!("azureDisk", shared::validate_azure_disk),
    shared!("scaleIO", shared::validate_scale_io),
    source("local", validate_local),
    source("storageos", validate_storageos),
    source("csi", validate_csi),
];

/// Exactly one source. `name` is the volume's own, where it has one.
pub(super) fn validate(path: Path<'_>, spec: &Value, name: Option<&str>, errors: &mut Errors) {
    let context = Context { name: name.unwrap_or_default(), options: PodOptions::default() };
    let mut found = false;
    for source in SOURCES {
        let value = spec.get(source.field);
        if value.is_null() {
            continue;
        }
        // The odd one: it may stand beside one that comes before it.
        if found && source.field != "flexVolume" {
            errors.forbidden(path.child(source.refused_as), "may not specify more than 1 volume type");
            continue;
        }
        found = true;
        (source.check)(path.child(source.checked_as), value, &context, errors);
        let placed = spec.has("nodeAffinity") && name.is_some();
        if source.field == "local" && !placed {
            errors.required(path.child("nodeAffinity"), "Local volume requires node affinity");
        }
    }
    if !found {
        errors.required(path, "must specify a volume type");
    }
}

fn validate_glusterfs(path: Path<'_>, source: &Value, context: &Context<'_>, errors: &mut Errors) {
    shared::validate_glusterfs(path, source, &context.options, errors);
    if !source.has("endpointsNamespace") {
        return;
    }
    let namespace = source.str("endpointsNamespace");
    let path = path.child("endpointsNamespace");
    if namespace.is_empty() {
        errors.invalid(path, "", "if the endpointnamespace is set, it must be a valid namespace name");
    } else {
        dns_label(path, namespace, errors);
    }
}

fn validate_iscsi(path: Path<'_>, source: &Value, context: &Context<'_>, errors: &mut Errors) {
    require(source, path, "targetPortal", errors);
    let portal = source.str("targetPortal");
    if source.has("initiatorName") && context.name.len() + 1 + portal.len() > PORTAL_MAX_BYTES {
        let words = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if \
                     iscsi.initiatorName is specified.";
        errors.invalid(path.child("targetportal"), portal, words);
    }
    if require(source, path, "iqn", errors) {
        validate_initiator(path.child("iqn"), source.str("iqn"), errors);
    }
    let unit = source.int("lun");
    if !(0..=255).contains(&unit) {
        errors.invalid(path.child("lun"), unit, UNIT_WORDS);
    }
    if (source.bool("chapAuthDiscovery") || source.bool("chapAuthSession")) && !source.has("secretRef") {
        errors.required(path.child("secretRef"), "");
    }
    shared::validate_secret_name(path, source, errors);
    if source.has("initiatorName") {
        validate_initiator(path.child("initiatorname"), source.str("initiatorName"), errors);
    }
}

fn validate_initiator(path: Path<'_>, name: &str, errors: &mut Errors) {
    let fits = match name.get(..3) {
        Some("iqn") => is_iqn(name),
        Some("eui") => is_address(name, 16),
        Some("naa") => is_address(name, 32),
        _ => false,
    };
    if !fits {
        errors.invalid(path, name, "must be valid format");
    }
}

fn validate_cinder(path: Path<'_>, source: &Value, context: &Context<'_>, errors: &mut Errors) {
    shared::validate_cinder(path, source, &context.options, errors);
    require_secret_namespace(path, source, errors);
}

fn validate_storageos(path: Path<'_>, source: &Value, context: &Context<'_>, errors: &mut Errors) {
    shared::validate_storageos(path, source, &context.options, errors);
    require_secret_namespace(path, source, errors);
}

fn require_secret_namespace(path: Path<'_>, source: &Value, errors: &mut Errors) {
    if source.has("secretRef") {
        require(source.get("secretRef"), path.child("secretRef"), "namespace", errors);
    }
}

fn validate_azure_file(path: Path<'_>, source: &Value, context: &Context<'_>, errors: &mut Errors) {
    shared::validate_azure_file(path, source, &context.options, errors);
    if source.has("secretNamespace") {
        require(source, path, "secretNamespace", errors);
    }
}

fn validate_local(path: Path<'_>, source: &Value, _: &Context<'_>, errors: &mut Errors) {
    if require(source, path, "path", errors) {
        no_backsteps(path.child("path"), source.str("path"), errors);
    }
}

fn validate_csi(path: Path<'_>, source: &Value, _: &Context<'_>, errors: &mut Errors) {
    const SECRETS: [&str; 4] =
        ["controllerPublishSecretRef", "controllerExpandSecretRef", "nodePublishSecretRef", "nodeExpandSecretRef"];
    validate_driver_name(path.child("driver"), source.str("driver"), errors);
    require(source, path, "volumeHandle", errors);
    for field in SECRETS {
        if source.has(field) {
            validate_secret_reference(path.child(field), source.get(field), errors);
        }
    }
}

fn validate_secret_reference(path: Path<'_>, reference: &Value, errors: &mut Errors) {
    if require(reference, path, "name", errors) {
        dns_subdomain(path.child("name"), reference.str("name"), errors);
    }
    if require(reference, path, "namespace", errors) {
        dns_label(path.child("namespace"), reference.str("namespace"), errors);
    }
}
