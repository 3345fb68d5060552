//! The certificate that a signer gives to a pod, and what the status says of it.

use rkube_machinery::field::{Errors, Path};
use rkube_machinery::{Value, pem, time};
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, SubjectPublicKeyInfo, X509Certificate, X509CertificationRequest};

use super::validate::bytes;
use crate::fields::written_at;

const CHAIN_MAX_BYTES: usize = 100 * 1024;
const HOUR_SECONDS: i64 = 60 * 60;
const MARGIN_SECONDS: i64 = 10 * 60;
const SKEW_SECONDS: i64 = 5 * 60;
const STATUS: Path<'static> = Path::new("status");

pub fn validate(request: &Value, old: &Value, errors: &mut Errors) {
    let path = STATUS.child("certificateChain");
    let status = request.get("status");
    let chain = status.str("certificateChain");
    if chain.len() > CHAIN_MAX_BYTES {
        return errors.too_long(path, CHAIN_MAX_BYTES);
    }
    let mut blocks = pem::blocks(chain.as_bytes());
    let Some(leaf) = blocks.next() else {
        return errors.invalid(path, chain, "issued certificate chain must contain at least one certificate");
    };
    if leaf.label != "CERTIFICATE" {
        let detail = "issued certificate chain must consist entirely of CERTIFICATE PEM blocks";
        return errors.invalid(path, chain, detail);
    }
    let Ok(([], certificate)) = X509Certificate::from_der(&leaf.bytes) else {
        return errors.invalid(path, chain, "leaf certificate does not parse as valid X.509");
    };
    validate_names(path, &certificate, errors);
    if !is_for(&certificate, old.get("spec")) {
        return errors.invalid(path, chain, "leaf certificate was not issued to the requested public key");
    }
    let before = errors.len();
    validate_times(&certificate, request, errors);
    if errors.len() > before {
        return;
    }
    for block in blocks {
        if block.label != "CERTIFICATE" {
            let detail = "issued certificate chain must consist entirely of CERTFICATE PEM blocks";
            return errors.invalid(path, chain, detail);
        }
        if !matches!(X509Certificate::from_der(&block.bytes), Ok(([], _))) {
            return errors.invalid(path, chain, "intermediate certificate does not parse as valid X.509");
        }
    }
}

fn validate_names(path: Path<'_>, certificate: &X509Certificate<'_>, errors: &mut Errors) {
    let Ok(Some(names)) = certificate.subject_alternative_name() else { return };
    for name in &names.value.general_names {
        match name {
            GeneralName::DNSName(name) => {
                if name.is_empty() {
                    errors.invalid(path, *name, "leaf certificate should not contain empty DNSName");
                }
                if name.contains("..") {
                    errors.invalid(path, *name, "leaf certificate's DNSName should not contain '..'");
                }
                if name.starts_with('.') || name.ends_with('.') {
                    errors.invalid(path, *name, "leaf certificate's DNSName should not start or end with '.'");
                }
            }
            GeneralName::RFC822Name(address) => {
                let parts = address.split_once('@');
                if !parts.is_some_and(|(local, domain)| !local.is_empty() && !domain.is_empty()) {
                    errors.invalid(path, *address, "leaf certificate should not contain invalid EmailAddress");
                }
            }
            _ => {}
        }
    }
}

/// Whether the certificate is for the key that was asked for.
fn is_for(certificate: &X509Certificate<'_>, spec: &Value) -> bool {
    let key = certificate.public_key();
    let same = |wanted: &SubjectPublicKeyInfo<'_>| {
        wanted.algorithm.algorithm == key.algorithm.algorithm
            && wanted.subject_public_key.data == key.subject_public_key.data
    };
    let stub = bytes(spec, "stubPKCS10Request");
    if !stub.is_empty() {
        let parsed = X509CertificationRequest::from_der(&stub);
        return parsed.is_ok_and(|(_, request)| same(&request.certification_request_info.subject_pki));
    }
    SubjectPublicKeyInfo::from_der(&bytes(spec, "pkixPublicKey")).is_ok_and(|(_, wanted)| same(&wanted))
}

/// Whether the time is near that of the write.
fn is_about_now(seconds: i64, request: &Value) -> bool {
    let now = written_at(request).and_then(|time| time::parse(time.as_str()).ok());
    now.is_none_or(|(now, _)| (seconds - now).abs() < SKEW_SECONDS)
}

fn validate_times(certificate: &X509Certificate<'_>, request: &Value, errors: &mut Errors) {
    let status = request.get("status");
    let consistent = "must be present and consistent with the issued certificate";
    let refresh = "must be present and in the range [notbefore+10min, notafter-10min]";
    let fields = [("notBefore", consistent), ("notAfter", consistent), ("beginRefreshAt", refresh)];
    for (field, detail) in fields {
        if !status.has(field) {
            errors.required(STATUS.child(field), detail);
        }
    }
    if fields.iter().any(|(field, _)| !status.has(field)) {
        return;
    }
    let said = |field: &str| time::parse(status.str(field)).map_or(0, |(seconds, _)| seconds);
    let (from, until) = (certificate.validity().not_before.timestamp(), certificate.validity().not_after.timestamp());
    for (field, actual, name) in [("notBefore", from, "NotBefore"), ("notAfter", until, "NotAfter")] {
        if said(field) != actual {
            let detail = format!("must be set to the {name} time encoded in the leaf certificate");
            return errors.invalid(STATUS.child(field), status.get(field), detail);
        }
        if field == "notBefore" && !is_about_now(actual, request) {
            let detail = "must be set to within 5 minutes of kube-apiserver's current time";
            return errors.invalid(STATUS.child(field), status.get(field), detail);
        }
    }
    let (path, lifetime) = (STATUS.child("certificateChain"), until - from);
    let nanos = lifetime.saturating_mul(1_000_000_000);
    if lifetime < HOUR_SECONDS {
        return errors.invalid(path, nanos, "leaf certificate lifetime must be >= 1 hour");
    }
    let most = request.get("spec").int("maxExpirationSeconds");
    if lifetime > most {
        let detail = format!("leaf certificate lifetime must be <= spec.maxExpirationSeconds ({most})");
        return errors.invalid(path, nanos, detail);
    }
    let (path, refresh) = (STATUS.child("beginRefreshAt"), status.get("beginRefreshAt"));
    if said("beginRefreshAt") < from + MARGIN_SECONDS {
        errors.invalid(path, refresh, "must be at least 10 minutes after status.notBefore");
    } else if said("beginRefreshAt") > until - MARGIN_SECONDS {
        errors.invalid(path, refresh, "must be at least 10 minutes before status.notAfter");
    }
}

#[cfg(test)]
mod tests {
    use rkube_machinery::object;

    use super::*;

    #[test]
    fn certificates_begin_about_now() {
        let entry = object! { "manager": "m", "time": "1970-01-01T01:00:00Z" };
        let request = object! { "metadata": object! { "managedFields": vec![entry] } };
        for (seconds, near) in [(3600, true), (3301, true), (3300, false), (3899, true), (3900, false)] {
            assert_eq!(is_about_now(seconds, &request), near, "{seconds}");
        }
    }
}
