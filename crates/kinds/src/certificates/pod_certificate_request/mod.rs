//! PodCertificateRequest: a node asks a signer for a certificate of one of its pods.

mod issued;
mod keys;
mod validate;

use crate::strategy::{ResetFields, Strategy};
use rkube_machinery::Value;
use rkube_machinery::field::Errors;
use rkube_machinery::managed::Reset;

use super::GROUP;
use crate::columns::{NAME, labels};
use crate::fields::{carry, carry_metadata};
use crate::kind::{Column, Part, Row, Rules, Selectable, Subresource};

pub static KIND: Row = Row {
    group: GROUP,
    version: "v1beta1",
    kind: "PodCertificateRequest",
    resource: "podcertificaterequests",
    singular: "podcertificaterequest",
    type_name: "io.k8s.api.certificates.v1beta1.PodCertificateRequest",
    storage_prefix: "podcertificaterequests",
    off_by_default: true,
    subresources: &[Subresource::STATUS],
    columns: &[
        NAME,
        Column::text(
            "PodName",
            "doc:io.k8s.api.certificates.v1beta1.PodCertificateRequestSpec podName",
            |request, _| request.get("spec").str("podName").into(),
        ),
        Column::text(
            "ServiceAccountName",
            "doc:io.k8s.api.certificates.v1beta1.PodCertificateRequestSpec serviceAccountName",
            |request, _| request.get("spec").str("serviceAccountName").into(),
        ),
        Column::text(
            "NodeName",
            "doc:io.k8s.api.certificates.v1beta1.PodCertificateRequestSpec nodeName",
            |request, _| request.get("spec").str("nodeName").into(),
        ),
        Column::text(
            "SignerName",
            "doc:io.k8s.api.certificates.v1beta1.PodCertificateRequestSpec signerName",
            |request, _| request.get("spec").str("signerName").into(),
        ),
        Column::text("State", "Is the request Pending, Issued, Denied, or Failed?", state),
        Column::text(
            "UnverifiedUserAnnotations",
            "doc:io.k8s.api.certificates.v1beta1.PodCertificateRequestSpec unverifiedUserAnnotations",
            |request, _| labels(request.get("spec").map("unverifiedUserAnnotations")).into(),
        ),
    ],
    selectable: &[
        Selectable { label: "spec.signerName", value: |request| request.get("spec").str("signerName").to_owned() },
        Selectable { label: "spec.podName", value: |request| request.get("spec").str("podName").to_owned() },
        Selectable { label: "spec.nodeName", value: |request| request.get("spec").str("nodeName").to_owned() },
    ],
    strategy: Strategy {
        unconditional_update: false,
        reset_fields: ResetFields { status: Reset::Fields(&[&["spec"]]), ..ResetFields::NONE },
        ..Strategy::DEFAULTS
    },
    rules: &RequestRules,
    ..Row::DEFAULTS
};

/// How long a certificate may be valid where nobody says: a day.
const DURATION_DEFAULT_SECONDS: i64 = 24 * 60 * 60;

/// What a request ends as.
const ENDS: &[&str] = &["Issued", "Denied", "Failed"];

struct RequestRules;

impl Rules for RequestRules {
    fn default(&self, request: &mut Value) {
        request.object_mut("spec").set_if_absent("maxExpirationSeconds", DURATION_DEFAULT_SECONDS);
    }

    fn prepare_create(&self, request: &mut Value) {
        request.remove("status");
    }

    fn validate_create(&self, request: &Value, errors: &mut Errors) {
        validate::spec(request.get("spec"), errors);
    }

    fn prepare_update(&self, part: Part, request: &mut Value, old: &Value) {
        if part == Part::Status {
            carry(request, old, "spec");
            carry_metadata(request, old);
        } else {
            carry(request, old, "status");
        }
    }

    fn validate_update(&self, part: Part, request: &Value, old: &Value, errors: &mut Errors) {
        if part == Part::Status {
            validate::status(request, old, errors);
        } else if request.get("spec") != old.get("spec") {
            validate::immutable_spec(request.get("spec"), errors);
        }
    }
}

/// Whether the request ended like this.
fn ended(request: &Value, end: &str) -> bool {
    let mut conditions = request.get("status").list("conditions").iter();
    conditions.any(|condition| condition.str("type") == end && condition.str("status") == "True")
}

fn state(request: &Value, _now: i64) -> Value {
    let kinds = request.get("status").list("conditions").iter().map(|condition| condition.str("type"));
    kinds.rev().find(|kind| ENDS.contains(kind)).unwrap_or("Pending").into()
}
