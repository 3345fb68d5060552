//! Volumes that gather files from several places.

use rkube_machinery::field::{BadValue, Errors, Path, quote};
use rkube_machinery::{Value, names};

use super::checks::{Seen, file_mode, local_non_reserved_path, one_of, require};
use super::go_form::go_json;
use super::options::PodOptions;
use super::volumes::{validate_downward_file, validate_key_path};
use crate::meta;

const TOKEN_MIN_SECONDS: i64 = 600;
const TOKEN_MAX_SECONDS: i64 = 1 << 32;
const CERTIFICATE_MIN_SECONDS: i64 = 3600;
const CERTIFICATE_MAX_SECONDS: i64 = 91 * 86400;
const KUBERNETES_CERTIFICATE_MAX_SECONDS: i64 = 86400;
const KEY_TYPES: &[&str] = &["RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519"];
const ANNOTATIONS_MAX_BYTES: usize = 256 * 1024;
const DOMAIN_MAX_BYTES: usize = 253;
const SIGNER_MAX_BYTES: usize = 571;

pub(super) fn validate_projected(path: Path<'_>, projected: &Value, options: &PodOptions, errors: &mut Errors) {
    file_mode(projected, path, "defaultMode", errors);
    let mut files = Files { path, seen: Seen::new() };
    let sources = path.child("sources");
    for (index, source) in projected.list("sources").iter().enumerate() {
        let item = sources.index(index);
        let mut count = 0;
        for (kind, value) in source.as_map().iter().filter(|(_, value)| !value.is_null()) {
            count += usize::from(is_source(kind) && !value.is_null());
        }
        for kind in ["secret", "configMap"] {
            if source.has(kind) {
                validate_keys(item.child(kind), source.get(kind), &mut files, errors);
            }
        }
        for file in source.get("downwardAPI").list("items") {
            validate_downward_file(item.child("downwardAPI"), file, errors);
            files.add(file.str("path"), file.str("path"), errors);
        }
        if source.has("serviceAccountToken") {
            let token = source.get("serviceAccountToken");
            validate_token(path, item.child("serviceAccountToken"), token, options, errors);
        }
        if source.has("clusterTrustBundle") {
            let bundle = source.get("clusterTrustBundle");
            validate_trust_bundle(item.child("clusterTrustBundle"), bundle, errors);
            files.add_any(bundle.str("path"), errors);
        }
        if source.has("podCertificate") {
            validate_certificate(item.child("podCertificate"), source.get("podCertificate"), &mut files, errors);
        }
        if count > 1 {
            errors.forbidden(item, "may not specify more than 1 volume type per source");
        }
    }
}

fn is_source(kind: &str) -> bool {
    let kinds = ["secret", "configMap", "downwardAPI", "serviceAccountToken", "clusterTrustBundle", "podCertificate"];
    kinds.contains(&kind)
}

/// The files that the volume has so far.
struct Files<'a> {
    path: Path<'a>,
    seen: Seen<&'a str>,
}

impl<'a> Files<'a> {
    /// One more file; `shown` is what the error names where there is one of that path already.
    fn add(&mut self, file: &'a str, shown: &str, errors: &mut Errors) {
        if !file.is_empty() && !self.seen.add(file) {
            errors.invalid(self.path, shown, "conflicting duplicate paths");
        }
    }

    /// Also where it has no name.
    fn add_any(&mut self, file: &'a str, errors: &mut Errors) {
        if !self.seen.add(file) {
            errors.invalid(self.path, file, "conflicting duplicate paths");
        }
    }
}

fn validate_keys<'a>(path: Path<'_>, source: &'a Value, files: &mut Files<'a>, errors: &mut Errors) {
    require(source, path, "name", errors);
    let items = path.child("items");
    for (index, item) in source.list("items").iter().enumerate() {
        validate_key_path(items.index(index), item, errors);
        files.add(item.str("path"), source.str("name"), errors);
    }
}

fn validate_token(volume: Path<'_>, path: Path<'_>, token: &Value, options: &PodOptions, errors: &mut Errors) {
    let seconds = token.int("expirationSeconds");
    if seconds < TOKEN_MIN_SECONDS {
        errors.invalid(path.child("expirationSeconds"), seconds, "may not specify a duration less than 10 minutes");
    }
    if seconds > TOKEN_MAX_SECONDS {
        let words = "may not specify a duration larger than 2^32 seconds";
        errors.invalid(path.child("expirationSeconds"), seconds, words);
    }
    if require(token, volume, "path", errors) && !options.any_token_path {
        local_non_reserved_path(volume.child("path"), token.str("path"), errors);
    }
}

fn validate_trust_bundle(path: Path<'_>, bundle: &Value, errors: &mut Errors) {
    match (bundle.has("name"), bundle.has("signerName")) {
        (true, true) => {
            let shown = BadValue::Text(go_json("ClusterTrustBundleProjection", bundle));
            errors.invalid(path, shown, "only one of name and signerName may be used");
        }
        (true, false) => {
            let name = bundle.str("name");
            if name.is_empty() {
                errors.required(path.child("name"), "must be a valid object name");
            }
            for message in check_bundle_name(name) {
                let words = format!("not a valid clustertrustbundlename: {message}");
                errors.invalid(path.child("name"), name, words);
            }
            if bundle.has("labelSelector") {
                let words = "labelSelector must be unset if name is specified";
                errors.invalid(path.child("labelSelector"), bundle.get("labelSelector"), words);
            }
        }
        (false, true) => {
            if bundle.str("signerName").is_empty() {
                errors.required(path.child("signerName"), "must be a valid signer name");
            }
            validate_signer_name(path.child("signerName"), bundle.str("signerName"), errors);
            let selector = path.child("labelSelector");
            meta::validate_label_selector(selector, bundle.get("labelSelector"), false, errors);
        }
        (false, false) => errors.required(path, "either name or signerName must be specified"),
    }
    require(bundle, path, "path", errors);
    local_non_reserved_path(path.child("path"), bundle.str("path"), errors);
}

/// A bundle's name begins with its signer's name where it has one.
fn check_bundle_name(name: &str) -> Vec<String> {
    match name.rsplit_once(':') {
        Some((_, rest)) => names::dns1123_subdomain(rest),
        None => names::dns1123_subdomain(name),
    }
}

/// The name of a signer of certificates: a domain, a slash and a path.
pub fn validate_signer_name(path: Path<'_>, signer: &str, errors: &mut Errors) {
    if signer.is_empty() {
        return errors.required(path, "");
    }
    let parts = signer.split_once('/').filter(|(_, rest)| !rest.contains('/'));
    let Some((domain, rest)) = parts else {
        let words = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        return errors.invalid(path, signer, words);
    };
    if domain.len() > DOMAIN_MAX_BYTES {
        errors.too_long(path, DOMAIN_MAX_BYTES);
    }
    validate_parts(path, domain, names::dns1123_label, errors);
    if !domain.contains('.') {
        errors.invalid(path, domain, "should be a domain with at least two segments separated by dots");
    }
    validate_parts(path, rest, names::dns1123_subdomain, errors);
    if signer.len() > SIGNER_MAX_BYTES {
        errors.too_long(path, SIGNER_MAX_BYTES);
    }
}

/// The first part between dots that is wrong.
fn validate_parts(path: Path<'_>, text: &str, check: fn(&str) -> Vec<String>, errors: &mut Errors) {
    let wrong = text.split('.').map(|part| (part, check(part))).find(|(_, messages)| !messages.is_empty());
    if let Some((part, messages)) = wrong {
        for message in messages {
            errors.invalid(path, text, format!("validating label {}: {message}", quote(part)));
        }
    }
}

fn validate_certificate<'a>(path: Path<'_>, certificate: &'a Value, files: &mut Files<'a>, errors: &mut Errors) {
    let signer = certificate.str("signerName");
    validate_signer_name(path.child("signerName"), signer, errors);
    validate_user_annotations(path.child("userAnnotations"), certificate.get("userAnnotations"), errors);
    one_of(path.child("keyType"), certificate.str("keyType"), KEY_TYPES, errors);
    if let Some(seconds) = certificate.get("maxExpirationSeconds").as_int() {
        let path = path.child("maxExpirationSeconds");
        if seconds < CERTIFICATE_MIN_SECONDS {
            errors.invalid(path, seconds, "if provided, maxExpirationSeconds must be >= 3600");
        }
        let host = signer.split_once('/').map_or(signer, |(host, _)| host);
        let own = host == "kubernetes.io" || host.ends_with(".kubernetes.io");
        let most = if own { KUBERNETES_CERTIFICATE_MAX_SECONDS } else { CERTIFICATE_MAX_SECONDS };
        if seconds > most {
            errors.invalid(path, seconds, format!("if provided, maxExpirationSeconds must be <= {most}"));
        }
    }
    let mut any = false;
    for field in ["credentialBundlePath", "keyPath", "certificateChainPath"] {
        let file = certificate.str(field);
        if !file.is_empty() {
            any = true;
            local_non_reserved_path(path.child(field), file, errors);
            files.add(file, file, errors);
        }
    }
    if !any {
        let words = "specify at least one of credentialBundlePath, keyPath, and certificateChainPath";
        errors.required(path, words);
    }
}

pub(crate) fn validate_user_annotations(path: Path<'_>, annotations: &Value, errors: &mut Errors) {
    let mut size = 0;
    for (key, value) in annotations.as_map().iter() {
        size += key.len() + value.as_str().len();
        names::domain_prefixed_key(path, &key.to_lowercase(), errors);
    }
    if size > ANNOTATIONS_MAX_BYTES {
        errors.too_long(path, ANNOTATIONS_MAX_BYTES);
    }
}

/// Tokens need an account.
pub(crate) fn validate_tokens_have_account(path: Path<'_>, spec: &Value, errors: &mut Errors) {
    let volumes = path.child("volumes");
    for (index, volume) in spec.list("volumes").iter().enumerate() {
        let path = volumes.index(index);
        let path = path.child("projected");
        let path = path.child("sources");
        for (index, source) in volume.get("projected").list("sources").iter().enumerate() {
            if source.has("serviceAccountToken") {
                let path = path.index(index);
                let words = "must not be specified when serviceAccountName is not set";
                errors.forbidden(path.child("serviceAccountToken"), words);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signer_names() {
        for (name, wrong) in [("a.b/c", 0), ("", 1), ("a.b", 1), ("a/c", 1), ("a.b/C", 1), ("A.b/c", 1), ("a.b/c/d", 1)]
        {
            let mut errors = Errors::new();
            validate_signer_name(Path::ROOT, name, &mut errors);
            assert_eq!(errors.len(), wrong, "{name}: {errors:?}");
        }
    }
}
