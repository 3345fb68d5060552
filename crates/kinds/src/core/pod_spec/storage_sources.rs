//! Volume sources that are served over a network or by a cloud.

use rkube_machinery::Value;
use rkube_machinery::field::{Errors, Path};

use super::checks::{dns_label, local_descending_path, one_of_if_set, require};
use super::options::PodOptions;

const PARTITION_WORDS: &str = "must be between 1 and 255, inclusive";
const UNIT_WORDS: &str = "must be between 0 and 255, inclusive";
const TENANT_MAX_BYTES: usize = 64;

pub(crate) fn validate_git_repo(path: Path<'_>, source: &Value, _: &PodOptions, errors: &mut Errors) {
    require(source, path, "repository", errors);
    local_descending_path(path.child("directory"), source.str("directory"), errors);
}

pub(crate) fn validate_gce_disk(path: Path<'_>, source: &Value, _: &PodOptions, errors: &mut Errors) {
    require(source, path, "pdName", errors);
    validate_partition(path, source, errors);
}

pub(crate) fn validate_aws_disk(path: Path<'_>, source: &Value, _: &PodOptions, errors: &mut Errors) {
    require(source, path, "volumeID", errors);
    validate_partition(path, source, errors);
}

fn validate_partition(path: Path<'_>, source: &Value, errors: &mut Errors) {
    let partition = source.int("partition");
    if !(0..=255).contains(&partition) {
        errors.invalid(path.child("partition"), partition, PARTITION_WORDS);
    }
}

pub(crate) fn validate_nfs(path: Path<'_>, source: &Value, _: &PodOptions, errors: &mut Errors) {
    require(source, path, "server", errors);
    require(source, path, "path", errors);
    if !source.str("path").starts_with('/') {
        errors.invalid(path.child("path"), source.str("path"), "must be an absolute path");
    }
}

pub(crate) fn validate_iscsi(path: Path<'_>, source: &Value, _: &PodOptions, errors: &mut Errors) {
    require(source, path, "targetPortal", errors);
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
    if source.has("initiatorName") {
        validate_initiator(path.child("initiatorname"), source.str("initiatorName"), errors);
    }
}

fn validate_initiator(path: Path<'_>, name: &str, errors: &mut Errors) {
    let fits = match name.get(..3) {
        Some("iqn") => is_iqn(name),
        Some("eui") => is_address(name, 16),
        Some("naa") => is_address(name, 32),
        _ => return errors.invalid(path, name, "must be valid format starting with iqn, eui, or naa"),
    };
    if !fits {
        errors.invalid(path, name, "must be valid format");
    }
}

/// Three letters, any one, then so many letters and digits.
pub(crate) fn is_address(name: &str, length: usize) -> bool {
    let mut rest = name.chars().skip(3);
    rest.next().is_some_and(|letter| letter != '\n')
        && name.chars().count() == 4 + length
        && rest.all(|letter| letter.is_ascii_alphanumeric())
}

/// Somewhere in the text: `iqn.`, year and month, `.`, a domain, `:` and a name up to the end.
pub(crate) fn is_iqn(name: &str) -> bool {
    name.match_indices("iqn.").any(|(index, prefix)| fits_iqn(&name[index + prefix.len()..]))
}

fn fits_iqn(rest: &str) -> bool {
    let bytes = rest.as_bytes();
    let date = bytes.len() > 8
        && bytes[..4].iter().all(u8::is_ascii_digit)
        && bytes[4] == b'-'
        && bytes[5..7].iter().all(u8::is_ascii_digit)
        && bytes[7] == b'.';
    if !date {
        return false;
    }
    let Some((domain, name)) = rest[8..].split_once(':') else { return false };
    let in_domain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.';
    let in_name = |byte: u8| !b",;*&$| \t\n\r\x0c".contains(&byte);
    !domain.is_empty() && domain.bytes().all(in_domain) && !name.is_empty() && name.bytes().all(in_name)
}

pub(crate) fn validate_glusterfs(path: Path<'_>, source: &Value, _: &PodOptions, errors: &mut Errors) {
    require(source, path, "endpoints", errors);
    require(source, path, "path", errors);
}

pub(crate) fn validate_flocker(path: Path<'_>, source: &Value, _: &PodOptions, errors: &mut Errors) {
    let (name, id) = (source.str("datasetName"), source.str("datasetUUID"));
    if name.is_empty() && id.is_empty() {
        errors.required(path, "one of datasetName and datasetUUID is required");
    }
    if !name.is_empty() && !id.is_empty() {
        errors.invalid(path, "resource", "datasetName and datasetUUID can not be specified simultaneously");
    }
    if name.contains('/') {
        errors.invalid(path.child("datasetName"), name, "must not contain '/'");
    }
}

pub(crate) fn validate_rbd(path: Path<'_>, source: &Value, _: &PodOptions, errors: &mut Errors) {
    require_list(source, path, "monitors", errors);
    require(source, path, "image", errors);
}

pub(crate) fn validate_cephfs(path: Path<'_>, source: &Value, _: &PodOptions, errors: &mut Errors) {
    require_list(source, path, "monitors", errors);
}

fn require_list(source: &Value, path: Path<'_>, field: &str, errors: &mut Errors) {
    if source.list(field).is_empty() {
        errors.required(path.child(field), "");
    }
}

pub(crate) fn validate_cinder(path: Path<'_>, source: &Value, _: &PodOptions, errors: &mut Errors) {
    require(source, path, "volumeID", errors);
    validate_secret_name(path, source, errors);
}

pub(crate) fn validate_secret_name(path: Path<'_>, source: &Value, errors: &mut Errors) {
    if source.has("secretRef") {
        require(source.get("secretRef"), path.child("secretRef"), "name", errors);
    }
}

pub(crate) fn validate_quobyte(path: Path<'_>, source: &Value, _: &PodOptions, errors: &mut Errors) {
    const WORDS: &str = "must be a host:port pair or multiple pairs separated by commas";
    let registry = source.str("registry");
    if registry.is_empty() {
        errors.required(path.child("registry"), WORDS);
    } else if source.str("tenant").len() > TENANT_MAX_BYTES {
        errors.required(path.child("tenant"), "must be a UUID and may not exceed a length of 64 characters");
    } else {
        for _ in registry.split(',').filter(|pair| !is_host_and_port(pair)) {
            errors.invalid(path.child("registry"), registry, WORDS);
        }
    }
    require(source, path, "volume", errors);
}

fn is_host_and_port(pair: &str) -> bool {
    let plain = |text: &str| !text.contains(['[', ']']);
    match pair.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, port)) => plain(host) && port.starts_with(':') && plain(port) && !port[1..].contains(':'),
        None => plain(pair) && pair.matches(':').count() == 1,
    }
}

pub(crate) fn validate_fibre_channel(path: Path<'_>, source: &Value, _: &PodOptions, errors: &mut Errors) {
    let (names, ids) = (source.list("targetWWNs"), source.list("wwids"));
    if names.is_empty() && ids.is_empty() {
        errors.required(path.child("targetWWNs"), "must specify either targetWWNs or wwids, but not both");
    }
    if names.is_empty() {
        return;
    }
    if !ids.is_empty() {
        let words = "targetWWNs and wwids can not be specified simultaneously";
        errors.invalid(path.child("targetWWNs"), source.get("targetWWNs"), words);
    }
    match source.get("lun").as_int() {
        None => errors.required(path.child("lun"), "lun is required if targetWWNs is specified"),
        Some(unit) if !(0..=255).contains(&unit) => errors.invalid(path.child("lun"), unit, UNIT_WORDS),
        Some(_) => {}
    }
}

pub(crate) fn validate_flex(path: Path<'_>, source: &Value, _: &PodOptions, errors: &mut Errors) {
    require(source, path, "driver", errors);
    for key in source.map("options").keys() {
        let namespace = key.split_once('/').map_or(key.as_str(), |(namespace, _)| namespace);
        let normalized = format!(".{}", namespace.to_lowercase());
        if normalized.ends_with(".kubernetes.io") || normalized.ends_with(".k8s.io") {
            let words = "kubernetes.io and k8s.io namespaces are reserved";
            errors.invalid(path.child("options").key(key), key.as_str(), words);
        }
    }
}

pub(crate) fn validate_azure_file(path: Path<'_>, source: &Value, _: &PodOptions, errors: &mut Errors) {
    require(source, path, "secretName", errors);
    require(source, path, "shareName", errors);
}

pub(crate) fn validate_azure_disk(path: Path<'_>, source: &Value, _: &PodOptions, errors: &mut Errors) {
    require(source, path, "diskName", errors);
    require(source, path, "diskURI", errors);
    one_of_if_set(source, path, "cachingMode", &["None", "ReadOnly", "ReadWrite"], errors);
    one_of_if_set(source, path, "kind", &["Dedicated", "Managed", "Shared"], errors);
    let (uri, kind) = (source.str("diskURI"), source.str("kind"));
    if kind == "Managed" && !uri.starts_with("/subscriptions/") {
        let form = "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}";
        errors.not_supported(path.child("diskURI"), uri, &[form]);
    }
    if source.has("kind") && kind != "Managed" && !uri.starts_with("https://") {
        let form = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd";
        errors.not_supported(path.child("diskURI"), uri, &[form]);
    }
}

pub(crate) fn validate_vsphere(path: Path<'_>, source: &Value, _: &PodOptions, errors: &mut Errors) {
    require(source, path, "volumePath", errors);
}

pub(crate) fn validate_photon(path: Path<'_>, source: &Value, _: &PodOptions, errors: &mut Errors) {
    require(source, path, "pdID", errors);
}

pub(crate) fn validate_portworx(path: Path<'_>, source: &Value, _: &PodOptions, errors: &mut Errors) {
    require(source, path, "volumeID", errors);
}

pub(crate) fn validate_scale_io(path: Path<'_>, source: &Value, _: &PodOptions, errors: &mut Errors) {
    for field in ["gateway", "system", "volumeName"] {
        require(source, path, field, errors);
    }
}

pub(crate) fn validate_storageos(path: Path<'_>, source: &Value, _: &PodOptions, errors: &mut Errors) {
    if require(source, path, "volumeName", errors) {
        dns_label(path.child("volumeName"), source.str("volumeName"), errors);
    }
    let namespace = source.str("volumeNamespace");
    if !namespace.is_empty() {
        dns_label(path.child("volumeNamespace"), namespace, errors);
    }
    validate_secret_name(path, source, errors);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn initiators() {
        let eui = format!("eui.{}", "0".repeat(16));
        let table: &[(&str, usize)] = &[
            ("iqn.2015-02.example.com:test", 0),
            (&eui, 0),
            ("iqn.2015-02.example.com", 1),
            ("eui.1", 1),
            ("naa.1", 1),
            ("x", 1),
        ];
        for (name, wrong) in table {
            let mut errors = Errors::new();
            validate_initiator(Path::ROOT, name, &mut errors);
            assert_eq!(errors.len(), *wrong, "{name}");
        }
    }

    #[test]
    fn hosts_and_ports() {
        for (pair, fits) in [("a:1", true), ("[::1]:2", true), ("a", false), ("::1:2", false), ("[::1]", false)] {
            assert_eq!(is_host_and_port(pair), fits, "{pair}");
        }
    }
}
