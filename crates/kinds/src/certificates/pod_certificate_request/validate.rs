//! What a PodCertificateRequest must look like.

use rkube_machinery::decode::base64;
use rkube_machinery::field::{BadValue, ErrorType, Errors, Path, quote};
use rkube_machinery::{Map, Value, json, names};
use x509_parser::prelude::{FromDer, SubjectPublicKeyInfo, X509CertificationRequest};

use super::super::signature;
use super::{ENDS, ended, issued, keys};
use crate::core::pod_spec::projected::validate_user_annotations;
use crate::core::pod_spec::validate_signer_name;
use crate::meta;

const UID_MAX_BYTES: usize = 128;
const KEY_MAX_BYTES: usize = 10 * 1024;
const HOUR_SECONDS: i64 = 60 * 60;
const OWN_MAX_SECONDS: i64 = 24 * HOUR_SECONDS;
const MAX_SECONDS: i64 = 91 * 24 * HOUR_SECONDS;
const SPEC: Path<'static> = Path::new("spec");
const STATUS: Path<'static> = Path::new("status");

pub fn spec(spec: &Value, errors: &mut Errors) {
    let signer = spec.str("signerName");
    validate_signer_name(SPEC.child("signerName"), signer, errors);
    validate_user_annotations(SPEC.child("unverifiedUserAnnotations"), spec.get("unverifiedUserAnnotations"), errors);
    for (name, uid) in [("podName", "podUID"), ("serviceAccountName", "serviceAccountUID"), ("nodeName", "nodeUID")] {
        for message in names::dns1123_subdomain(spec.str(name)) {
            errors.invalid(SPEC.child(name), spec.str(name), message);
        }
        if spec.str(uid).is_empty() {
            errors.invalid(SPEC.child(uid), "", "must not be empty");
        }
        if spec.str(uid).len() > UID_MAX_BYTES {
            errors.too_long(SPEC.child(uid), UID_MAX_BYTES);
        }
    }
    let Some(seconds) = spec.get("maxExpirationSeconds").as_int() else {
        return errors.required(SPEC.child("maxExpirationSeconds"), "must be set");
    };
    let host = signer.split_once('/').map_or(signer, |(host, _)| host);
    let own = host == "kubernetes.io" || host.ends_with(".kubernetes.io");
    let most = if own { OWN_MAX_SECONDS } else { MAX_SECONDS };
    if !(HOUR_SECONDS..=most).contains(&seconds) {
        let detail = format!("must be in the range [{HOUR_SECONDS}, {most}]");
        errors.invalid(SPEC.child("maxExpirationSeconds"), seconds, detail);
    }
    let has = |field: &str| !spec.str(field).is_empty();
    match (has("stubPKCS10Request"), has("pkixPublicKey"), has("proofOfPossession")) {
        (true, false, false) => validate_stub(spec, errors),
        (false, true, true) => validate_key(spec, errors),
        _ => omitted(
            SPEC,
            "exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) must be set",
            errors,
        ),
    }
}

/// The spec with Go's names of its fields, as the message shows it.
pub fn immutable_spec(spec: &Value, errors: &mut Errors) {
    let text = |field: &str| quote(spec.str(field));
    let other = |field: &str| json::to_string(spec.get(field));
    let shown = format!(
        "{{\"SignerName\":{},\"PodName\":{},\"PodUID\":{},\"ServiceAccountName\":{},\"ServiceAccountUID\":{},\
         \"NodeName\":{},\"NodeUID\":{},\"MaxExpirationSeconds\":{},\"PKIXPublicKey\":{},\"ProofOfPossession\":{},\
         \"StubPKCS10Request\":{},\"UnverifiedUserAnnotations\":{}}}",
        text("signerName"),
        text("podName"),
        text("podUID"),
        text("serviceAccountName"),
        text("serviceAccountUID"),
        text("nodeName"),
        text("nodeUID"),
        other("maxExpirationSeconds"),
        other("pkixPublicKey"),
        other("proofOfPossession"),
        other("stubPKCS10Request"),
        other("unverifiedUserAnnotations"),
    );
    errors.invalid(SPEC, BadValue::Text(shown), "field is immutable");
}

pub fn status(request: &Value, old: &Value, errors: &mut Errors) {
    let before = errors.len();
    let conditions = request.get("status").list("conditions");
    validate_ends(conditions, errors);
    meta::validate_conditions(STATUS.child("conditions"), conditions, errors);
    if errors.len() > before {
        return;
    }
    let same = same_status(request.get("status"), old.get("status"));
    if ENDS.iter().any(|end| ended(old, end)) {
        if !same {
            omitted(STATUS, "immutable after PodCertificateRequest is issued, denied, or failed", errors);
        }
    } else if ended(request, "Denied") || ended(request, "Failed") {
        if has_more_than(request.get("status"), "conditions") {
            let detail = "non-condition status fields must be empty when denying or failing the PodCertificateRequest";
            omitted(STATUS, detail, errors);
        }
    } else if ended(request, "Issued") {
        issued::validate(request, old, errors);
    } else if !same {
        let detail = "status is immutable unless transitioning to \"Issued\", \"Denied\", or \"Failed\"";
        omitted(STATUS, detail, errors);
    }
}

/// One end at most, and a sure one.
fn validate_ends(conditions: &[Value], errors: &mut Errors) {
    let path = STATUS.child("conditions");
    let mut ends = false;
    for (index, condition) in conditions.iter().enumerate() {
        // Upstream writes the index as a field of its own.
        let step = format!("[{index}]");
        let path = path.child(&step);
        let kind = condition.str("type");
        if !ENDS.contains(&kind) {
            errors.not_supported(path.child("type"), kind, ENDS);
            continue;
        }
        if std::mem::replace(&mut ends, true) {
            let detail = "There may be at most one condition with type \"Issued\", \"Denied\", or \"Failed\"";
            errors.invalid(path.child("type"), kind, detail);
        }
        if condition.str("status") != "True" {
            errors.not_supported(path.child("status"), condition.str("status"), &["True"]);
        }
    }
}

fn has_more_than(status: &Value, field: &str) -> bool {
    status.as_map().iter().any(|(key, value)| key != field && !value.is_empty())
}

fn same_status(left: &Value, right: &Value) -> bool {
    let covers = |left: &Map, right: &Value| left.iter().all(|(key, value)| meta::same(value, right.get(key)));
    covers(left.as_map(), right) && covers(right.as_map(), left)
}

pub fn omitted(path: Path<'_>, detail: &str, errors: &mut Errors) {
    errors.push(ErrorType::Invalid, path, None, detail);
}

pub fn bytes(spec: &Value, field: &str) -> Vec<u8> {
    base64::decode(spec.str(field).as_bytes()).unwrap_or_default()
}

fn validate_stub(spec: &Value, errors: &mut Errors) {
    let path = SPEC.child("stubPKCS10Request");
    let stub = bytes(spec, "stubPKCS10Request");
    if stub.len() > KEY_MAX_BYTES {
        return errors.too_long(path, KEY_MAX_BYTES);
    }
    let request = X509CertificationRequest::from_der(&stub).ok().filter(|(rest, _)| rest.is_empty());
    let request = request.map(|(_, request)| request);
    let readable = |request: &X509CertificationRequest<'_>| {
        signature::is_readable(&request.certification_request_info.subject_pki, true)
    };
    let Some(request) = request.filter(readable) else {
        return omitted(path, "must be a valid PKCS#10 CSR", errors);
    };
    let curves = "elliptic public keys must use curve P256, P384, or P521";
    match keys::check(&request.certification_request_info.subject_pki, curves) {
        Ok(()) if signature::verify_request(&request).is_err() => omitted(path, "invalid signature", errors),
        Ok(()) => {}
        Err((Some(shown), detail)) => errors.invalid(path, shown, detail),
        Err((None, detail)) => omitted(path, detail, errors),
    }
}

fn validate_key(spec: &Value, errors: &mut Errors) {
    let (key_path, proof_path) = (SPEC.child("pkixPublicKey"), SPEC.child("proofOfPossession"));
    let (key_bytes, proof) = (bytes(spec, "pkixPublicKey"), bytes(spec, "proofOfPossession"));
    for (path, bytes) in [(key_path, &key_bytes), (proof_path, &proof)] {
        if bytes.len() > KEY_MAX_BYTES {
            return errors.too_long(path, KEY_MAX_BYTES);
        }
    }
    let shown = spec.get("pkixPublicKey");
    let key = SubjectPublicKeyInfo::from_der(&key_bytes).ok().filter(|(rest, _)| rest.is_empty());
    let Some((_, key)) = key.filter(|(_, key)| signature::is_readable(key, false)) else {
        return errors.invalid(key_path, shown, "must be a valid PKIX-serialized public key");
    };
    match keys::check(&key, "elliptic public keys must use curve P256 or P384") {
        Ok(()) if keys::verifies(&key, spec.str("podUID").as_bytes(), &proof) => {}
        Ok(()) => omitted(proof_path, "could not verify proof-of-possession signature", errors),
        Err((Some(shown), detail)) => errors.invalid(key_path, shown, detail),
        Err((None, detail)) => errors.invalid(key_path, shown, detail),
    }
}
