//! CertificateSigningRequest: somebody asks a signer for a certificate; somebody else approves it.

mod validate;

use std::collections::BTreeMap;

use crate::strategy::{NameRule, Repeat, Repeats, ResetFields, Strategy};
use rkube_machinery::field::Errors;
use rkube_machinery::managed::Reset;
use rkube_machinery::{Value, time};

use super::GROUP;
use crate::columns::{AGE, NAME, NONE, or};
use crate::fields::{carry, carry_inner};
use crate::kind::{Column, Part, Requester, Row, Rules, Scope, Selectable, Subresource};

pub static KIND: Row = Row {
    group: GROUP,
    kind: "CertificateSigningRequest",
    resource: "certificatesigningrequests",
    singular: "certificatesigningrequest",
    short_names: &["csr"],
    scope: Scope::Cluster,
    type_name: "io.k8s.api.certificates.v1.CertificateSigningRequest",
    storage_prefix: "certificatesigningrequests",
    subresources: &[
        Subresource { name: "approval", verbs: &["get", "patch", "update"], kind: None, group_version: None },
        Subresource::STATUS,
    ],
    columns: &[
        NAME,
        AGE,
        Column::text("SignerName", SIGNER_IN_WORDS, signer),
        Column::text("Requestor", "Base64-encoded PKCS#10 CSR data", |csr, _| csr.get("spec").str("username").into()),
        Column::text(
            "RequestedDuration",
            "doc:io.k8s.api.certificates.v1.CertificateSigningRequestSpec expirationSeconds",
            duration,
        ),
        Column::text("Condition", "Conditions applied to the request, such as approval or denial.", condition),
    ],
    selectable: &[Selectable { label: "spec.signerName", value: |csr| csr.get("spec").str("signerName").to_owned() }],
    strategy: Strategy {
        name_rule: NameRule::Own,
        repeats_meta: Repeats::all(Repeat::WholeAround),
        reset_fields: ResetFields {
            main: Reset::Fields(&[&["spec"], &["status"]]),
            status: Reset::Fields(&[&["spec"], &["status", "conditions"]]),
            other: Reset::Fields(&[&["spec"], &["status", "certificate"]]),
        },
        ..Strategy::DEFAULTS
    },
    rules: &RequestRules,
    ..Row::DEFAULTS
};

/// The columns are described in the words of the first beta, which had defaults.
const SIGNER_IN_WORDS: &str = "Requested signer for the request. It is a qualified name in the form: \
`scope-hostname.io/name`. If empty, it will be defaulted:
 1. If it's a kubelet client certificate, it is assigned
    \"kubernetes.io/kube-apiserver-client-kubelet\".
 2. If it's a kubelet serving certificate, it is assigned
    \"kubernetes.io/kubelet-serving\".
 3. Otherwise, it is assigned \"kubernetes.io/legacy-unknown\".
Distribution of trust for signers happens out of band. You can select on this field using `spec.signerName`.";

const APPROVAL: Part = Part::Other("approval");
const USER_FIELDS: [&str; 4] = ["username", "uid", "groups", "extra"];

struct RequestRules;

impl Rules for RequestRules {
    /// Nobody says who asks, or that the request is approved.
    fn prepare_create(&self, csr: &mut Value) {
        if let Some(spec) = csr.find_mut("spec") {
            for field in USER_FIELDS {
                spec.remove(field);
            }
        }
        csr.remove("status");
    }

    fn stamp(&self, csr: &mut Value, change: Option<(Part, &Value)>, requester: &Requester<'_>) {
        match change {
            None => {
                let user = (requester.user)();
                let spec = csr.object_mut("spec");
                for field in USER_FIELDS.into_iter().filter(|field| !user.get(field).is_empty()) {
                    spec.set(field, user.get(field).clone());
                }
            }
            Some((Part::Main, _)) => {}
            Some((_, old)) => stamp_conditions(csr, old, requester.now),
        }
    }

    fn validate_create(&self, csr: &Value, errors: &mut Errors) {
        validate::request(csr, None, errors);
    }

    fn prepare_update(&self, part: Part, csr: &mut Value, old: &Value) {
        carry(csr, old, "spec");
        match part {
            Part::Status => {
                for kind in ["Approved", "Denied"] {
                    keep_conditions(csr, old, kind);
                }
            }
            APPROVAL => carry_inner(csr, old, "status", "certificate"),
            _ => carry(csr, old, "status"),
        }
    }

    fn validate_update(&self, part: Part, csr: &Value, old: &Value, errors: &mut Errors) {
        validate::request(csr, Some(old), errors);
        validate::change(part, csr, old, errors);
    }
}

fn of_type<'a>(csr: &'a Value, kind: &'a str) -> impl Iterator<Item = &'a Value> {
    csr.get("status").list("conditions").iter().filter(move |condition| condition.str("type") == kind)
}

/// Conditions of this type stay as they were, unless some are added or removed: validation tells that.
fn keep_conditions(csr: &mut Value, old: &Value, kind: &str) {
    if of_type(csr, kind).count() != of_type(old, kind).count() {
        return;
    }
    let Some(status) = csr.find_mut("status") else { return };
    let new = status.list_mut("conditions").iter_mut().filter(|condition| condition.str("type") == kind);
    for (condition, old) in new.zip(of_type(old, kind)) {
        *condition = old.clone();
    }
}

/// Times that the writer left out. A condition that is not new keeps the time since which it holds.
fn stamp_conditions(csr: &mut Value, old: &Value, now: i64) {
    let now = time::format_seconds(now);
    let Some(status) = csr.find_mut("status") else { return };
    let mut before = BTreeMap::new();
    for old in old.get("status").list("conditions").iter().filter(|old| old.has("lastTransitionTime")) {
        before.entry((old.str("type"), old.str("status"))).or_insert(old);
    }
    for condition in status.list_mut("conditions") {
        condition.set_if_absent("lastUpdateTime", now.as_str());
        if condition.has("lastTransitionTime") {
            continue;
        }
        let known = before.get(&(condition.str("type"), condition.str("status")));
        let since = known.map_or_else(|| now.as_str().into(), |old| old.get("lastTransitionTime").clone());
        condition.set("lastTransitionTime", since);
    }
}

fn signer(csr: &Value, _now: i64) -> Value {
    or(csr.get("spec").str("signerName"), NONE).into()
}

fn duration(csr: &Value, _now: i64) -> Value {
    match csr.at(&["spec", "expirationSeconds"]).as_int() {
        Some(seconds) => time::human_duration(seconds).into(),
        None => NONE.into(),
    }
}

fn condition(csr: &Value, _now: i64) -> Value {
    let has = |kind: &str| of_type(csr, kind).next().is_some();
    let mut text = match (has("Denied"), has("Approved")) {
        (true, _) => "Denied",
        (false, true) => "Approved",
        (false, false) => "Pending",
    }
    .to_owned();
    if has("Failed") {
        text.push_str(",Failed");
    }
    if !csr.get("status").str("certificate").is_empty() {
        text.push_str(",Issued");
    }
    text.into()
}
