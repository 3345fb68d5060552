//! ClusterTrustBundle: certificates that are trusted, of one signer or of none. Objects are stored as `v1beta1`.

use std::collections::BTreeMap;

use crate::strategy::{NameRule, Repeat, Repeats, Strategy};
use rkube_machinery::field::{Errors, Path};
use rkube_machinery::{Value, names, pem};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::GROUP;
use crate::columns::{NAME, NONE, or};
use crate::core::pod_spec::validate_signer_name;
use crate::kind::{Column, Part, Row, Rules, Scope, Selectable, renamed};

pub static BETA: Row = ROW;

pub static ALPHA: Row = Row {
    version: "v1alpha1",
    type_name: "io.k8s.api.certificates.v1alpha1.ClusterTrustBundle",
    deprecation: "certificates.k8s.io/v1alpha1 ClusterTrustBundle is deprecated in v1.34+, unavailable in v1.37+",
    conversion: Some(renamed!("certificates.k8s.io", "v1alpha1", stored as "v1beta1")),
    ..ROW
};

const ROW: Row = Row {
    group: GROUP,
    version: "v1beta1",
    kind: "ClusterTrustBundle",
    resource: "clustertrustbundles",
    singular: "clustertrustbundle",
    scope: Scope::Cluster,
    type_name: "io.k8s.api.certificates.v1beta1.ClusterTrustBundle",
    storage_prefix: "clustertrustbundles",
    off_by_default: true,
    columns: &[
        NAME,
        Column::text(
            "SignerName",
            "doc:io.k8s.api.certificates.v1beta1.ClusterTrustBundleSpec signerName",
            |bundle, _| or(bundle.get("spec").str("signerName"), NONE).into(),
        ),
    ],
    selectable: &[Selectable {
        label: "spec.signerName",
        value: |bundle| bundle.get("spec").str("signerName").to_owned(),
    }],
    strategy: Strategy {
        name_rule: NameRule::Own,
        repeats_meta: Repeats::all(Repeat::WholeAround),
        unconditional_update: false,
        ..Strategy::DEFAULTS
    },
    rules: &BundleRules,
    ..Row::DEFAULTS
};

const BUNDLE_MAX_BYTES: usize = 1024 * 1024;
const OMITTED: &str = "<value omitted>";
const METADATA: Path<'static> = Path::new("metadata");
const SPEC: Path<'static> = Path::new("spec");

struct BundleRules;

impl Rules for BundleRules {
    fn validate_create(&self, bundle: &Value, errors: &mut Errors) {
        validate(bundle, errors);
        validate_certificates(bundle, errors);
    }

    fn validate_update(&self, _part: Part, bundle: &Value, old: &Value, errors: &mut Errors) {
        validate(bundle, errors);
        let field = |bundle: &Value, field: &str| bundle.get("spec").str(field).to_owned();
        if field(bundle, "trustBundle") != field(old, "trustBundle") {
            validate_certificates(bundle, errors);
        }
        if field(bundle, "signerName") != field(old, "signerName") {
            errors.invalid(SPEC.child("signerName"), field(bundle, "signerName"), "field is immutable");
        }
    }
}

fn validate(bundle: &Value, errors: &mut Errors) {
    let signer = bundle.get("spec").str("signerName");
    let name = bundle.get("metadata").str("name");
    if !name.is_empty() {
        for message in check_name(name, signer) {
            errors.invalid(METADATA.child("name"), name, message);
        }
    }
    if !signer.is_empty() {
        validate_signer_name(SPEC.child("signerName"), signer, errors);
    }
}

/// The name begins with the signer's.
fn check_name(name: &str, signer: &str) -> Vec<String> {
    if signer.is_empty() {
        if name.contains(':') {
            return vec!["ClusterTrustBundle without signer name must not have \":\" in its name".to_owned()];
        }
        return names::dns1123_subdomain(name);
    }
    let prefix = format!("{}:", signer.replace('/', ":"));
    match name.strip_prefix(&prefix) {
        Some(rest) => names::dns1123_subdomain(rest),
        None => vec![format!("ClusterTrustBundle for signerName {signer} must be named with prefix {prefix}")],
    }
}

/// Certificates of authorities, each once.
fn validate_certificates(bundle: &Value, errors: &mut Errors) {
    let path = SPEC.child("trustBundle");
    let text = bundle.get("spec").str("trustBundle");
    if text.len() > BUNDLE_MAX_BYTES {
        return errors.too_long(path, BUNDLE_MAX_BYTES);
    }
    let before = errors.len();
    let mut anchors: Vec<Vec<usize>> = Vec::new();
    let mut known: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
    for (index, block) in pem::blocks(text.as_bytes()).enumerate() {
        if let Err(words) = check_anchor(&block) {
            errors.invalid(path, OMITTED, format!("entry {index} {words}"));
            continue;
        }
        let place = *known.entry(block.bytes).or_insert(anchors.len());
        if place == anchors.len() {
            anchors.push(Vec::new());
        }
        anchors[place].push(index);
    }
    if errors.len() > before {
        return;
    }
    if anchors.is_empty() {
        errors.invalid(path, OMITTED, "at least one trust anchor must be provided");
    }
    for indices in anchors.iter().filter(|indices| indices.len() > 1) {
        let indices: Vec<String> = indices.iter().map(ToString::to_string).collect();
        errors.invalid(path, OMITTED, format!("duplicate trust anchor (indices [{}])", indices.join(" ")));
    }
}

fn check_anchor(block: &pem::Block) -> Result<(), String> {
    if block.label != "CERTIFICATE" {
        return Err(format!("has bad block type: {}", block.label));
    }
    if block.has_headers {
        return Err("has PEM block headers".to_owned());
    }
    match X509Certificate::from_der(&block.bytes) {
        Ok(([], certificate)) if certificate.is_ca() => Ok(()),
        Ok(([], _)) => Err("does not have the CA bit set".to_owned()),
        _ => Err("does not parse as X.509".to_owned()),
    }
}
