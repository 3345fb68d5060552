//! What a CertificateSigningRequest must look like.

use rkube_machinery::Value;
use rkube_machinery::decode::base64;
use rkube_machinery::field::{Errors, Path};
use rkube_machinery::pem;
use x509_parser::prelude::{FromDer, X509Certificate, X509CertificationRequest};

use super::super::signature;
use super::{APPROVAL, of_type};
use crate::core::pod_spec::checks::{Seen, has_repeated};
use crate::core::pod_spec::validate_signer_name;
use crate::kind::Part;

const LEGACY_SIGNER: &str = "kubernetes.io/legacy-unknown";
const MIN_SECONDS: i64 = 600;
const SPEC: Path<'static> = Path::new("spec");
const STATUS: Path<'static> = Path::new("status");

const USAGES: &[&str] = &[
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

/// The whole request; what was wrong with the old one may stay so.
pub fn request(csr: &Value, old: Option<&Value>, errors: &mut Errors) {
    let spec = csr.get("spec");
    if let Err(detail) = check_request(spec.str("request")) {
        errors.invalid(SPEC.child("request"), spec.get("request"), detail);
    }
    let old_usages = old.map_or(&[][..], |old| old.get("spec").list("usages"));
    validate_usages(spec.list("usages"), old_usages, errors);
    let signer = spec.str("signerName");
    let legacy_before = old.is_some_and(|old| old.get("spec").str("signerName") == LEGACY_SIGNER);
    if signer == LEGACY_SIGNER && !legacy_before {
        let detail = "the legacy signerName is not allowed via this API version";
        errors.invalid(SPEC.child("signerName"), signer, detail);
    } else {
        validate_signer_name(SPEC.child("signerName"), signer, errors);
    }
    if let Some(seconds) = spec.get("expirationSeconds").as_int().filter(|seconds| *seconds < MIN_SECONDS) {
        let detail = "may not specify a duration less than 600 seconds (10 minutes)";
        errors.invalid(SPEC.child("expirationSeconds"), seconds, detail);
    }
    validate_conditions(csr, old, errors);
    let certificate = csr.get("status").str("certificate");
    let old_certificate = old.map(|old| old.get("status").str("certificate"));
    if old_certificate.is_some_and(|old| old == certificate || check_certificate(old).is_err()) {
        return;
    }
    if let Err(detail) = check_certificate(certificate) {
        errors.invalid(STATUS.child("certificate"), "<certificate data>", detail);
    }
}

/// What a change may not do beyond that.
pub fn change(part: Part, csr: &Value, old: &Value, errors: &mut Errors) {
    let path = STATUS.child("conditions");
    let counts = |kind: &str| (of_type(csr, kind).count(), of_type(old, kind).count());
    for kind in ["Approved", "Denied", "Failed"] {
        let (new, old) = counts(kind);
        if new < old {
            errors.forbidden(path, format!("updates may not remove a condition of type \"{kind}\""));
        }
    }
    if part != APPROVAL {
        for kind in ["Approved", "Denied"] {
            let (new, old) = counts(kind);
            if new > old {
                errors.forbidden(path, format!("updates may not add a condition of type \"{kind}\""));
            }
        }
    }
    let certificate = |csr: &Value| csr.get("status").str("certificate").to_owned();
    if certificate(csr) == certificate(old) {
        return;
    }
    if part != Part::Status {
        errors.forbidden(STATUS.child("certificate"), "updates may not set certificate content");
    } else if !certificate(old).is_empty() {
        errors.forbidden(STATUS.child("certificate"), "updates may not modify existing certificate content");
    }
}

fn validate_usages(usages: &[Value], old: &[Value], errors: &mut Errors) {
    let path = SPEC.child("usages");
    if usages.is_empty() {
        errors.required(path, "");
    }
    let unknown = |usage: &Value| !USAGES.contains(&usage.as_str());
    if !old.iter().any(unknown) {
        for (index, usage) in usages.iter().enumerate().filter(|(_, usage)| unknown(usage)) {
            errors.not_supported(path.index(index), usage, USAGES);
        }
    }
    if !has_repeated(old.iter().map(Value::as_str)) {
        let mut seen = Seen::new();
        for (index, usage) in usages.iter().enumerate().filter(|(_, usage)| !seen.add(usage.as_str())) {
            errors.duplicate(path.index(index), usage);
        }
    }
}

fn validate_conditions(csr: &Value, old: Option<&Value>, errors: &mut Errors) {
    let path = STATUS.child("conditions");
    let conditions = csr.get("status").list("conditions");
    let old = old.map_or(&[][..], |old| old.get("status").list("conditions"));
    let old_types = Seen::of(old.iter().map(|condition| condition.str("type")));
    let had = |kind: &'static str| old_types.has(kind);
    let had_both = had("Approved") && had("Denied");
    let had_repeated = has_repeated(old.iter().map(|condition| condition.str("type")));
    let mut seen = Seen::new();
    for (index, condition) in conditions.iter().enumerate() {
        let at = path.index(index);
        let kind = condition.str("type");
        if kind.is_empty() && !had("") {
            errors.required(at.child("type"), "");
        }
        let allowed: &[&str] =
            if matches!(kind, "Approved" | "Denied" | "Failed") { &["True"] } else { &["False", "True", "Unknown"] };
        match condition.str("status") {
            "" => errors.required(at.child("status"), ""),
            status if !allowed.contains(&status) => errors.not_supported(at.child("status"), status, allowed),
            _ => {}
        }
        let opposite = match kind {
            "Approved" => "Denied",
            "Denied" => "Approved",
            _ => "",
        };
        if !opposite.is_empty() && !had_both && seen.has(opposite) {
            errors.invalid(path, kind, "Approved and Denied conditions are mutually exclusive");
        }
        if !seen.add(kind) && !had_repeated {
            errors.duplicate(at.child("type"), kind);
        }
    }
}

/// A request in PKCS#10 that is signed with the key that it speaks of.
fn check_request(text: &str) -> Result<(), String> {
    let bytes = base64::decode(text.as_bytes()).unwrap_or_default();
    let block = pem::blocks(&bytes).next().filter(|block| block.label == "CERTIFICATE REQUEST");
    let Some(block) = block else { return Err("PEM block type must be CERTIFICATE REQUEST".to_owned()) };
    let (rest, request) = X509CertificationRequest::from_der(&block.bytes)
        .map_err(|_| "asn1: structure error: tags don't match".to_owned())?;
    if !rest.is_empty() {
        return Err("asn1: syntax error: trailing data".to_owned());
    }
    signature::verify_request(&request)
}

fn check_certificate(text: &str) -> Result<(), String> {
    let bytes = base64::decode(text.as_bytes()).unwrap_or_default();
    if bytes.is_empty() {
        return Ok(());
    }
    let mut any = false;
    for block in pem::blocks(&bytes) {
        if block.label != "CERTIFICATE" {
            let label = rkube_machinery::field::quote(&block.label);
            return Err(format!("only CERTIFICATE PEM blocks are allowed, found {label}"));
        }
        if block.has_headers {
            return Err("no PEM block headers are permitted".to_owned());
        }
        if block.bytes.is_empty() {
            return Err("found CERTIFICATE PEM block containing 0 certificates".to_owned());
        }
        let mut rest = block.bytes.as_slice();
        while !rest.is_empty() {
            (rest, _) = X509Certificate::from_der(rest).map_err(|_| "x509: malformed certificate".to_owned())?;
        }
        any = true;
    }
    if any { Ok(()) } else { Err("must contain at least one CERTIFICATE PEM block".to_owned()) }
}
