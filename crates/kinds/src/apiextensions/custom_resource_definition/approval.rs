//! Groups of the community are protected: a definition in one says who has approved it.

use rkube_machinery::Value;
use rkube_machinery::field::{Errors, Path, quote};

use crate::admissionregistration::go_url;

const ANNOTATION: &str = "api-approved.kubernetes.io";
const SEE: &str = "see https://github.com/kubernetes/enhancements/pull/1111";

/// What the annotation of a definition says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Approval {
    Invalid,
    Approved,
    Bypassed,
    Missing,
}

/// Whether the group belongs to the community.
pub fn is_protected(group: &str) -> bool {
    let is_in = |domain: &str| group.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
    is_in("k8s.io") || is_in("kubernetes.io")
}

/// What the definition's annotation says, and why.
pub fn approval(definition: &Value) -> (Approval, String) {
    let annotation = definition.get("metadata").get("annotations").str(ANNOTATION);
    let wanted = || format!("protected groups must have approval annotation {}", quote(ANNOTATION));
    if annotation.is_empty() {
        return (Approval::Missing, format!("{}, {SEE}", wanted()));
    }
    if annotation.starts_with("unapproved") {
        return (Approval::Bypassed, format!("not approved: {}", quote(annotation)));
    }
    match go_url::parse_request(annotation) {
        Ok(url) if !url.host.is_empty() && !url.scheme.is_empty() => {
            (Approval::Approved, format!("approved in {annotation}"))
        }
        _ => {
            let reason = format!("{} with either a URL or a reason starting with \"unapproved\", {SEE}", wanted());
            (Approval::Invalid, reason)
        }
    }
}

/// An approval that was missing or invalid may stay so.
pub fn validate(definition: &Value, old: Option<&Value>, errors: &mut Errors) {
    if !is_protected(definition.get("spec").str("group")) {
        return;
    }
    let (found, reason) = approval(definition);
    if old.is_some_and(|old| approval(old).0 == found) {
        return;
    }
    const METADATA: Path<'static> = Path::new("metadata");
    let annotations = METADATA.child("annotations");
    let path = annotations.key(ANNOTATION);
    match found {
        Approval::Approved | Approval::Bypassed => {}
        Approval::Missing => errors.required(path, reason),
        Approval::Invalid => {
            errors.invalid(path, definition.get("metadata").get("annotations").str(ANNOTATION), reason);
        }
    }
}
