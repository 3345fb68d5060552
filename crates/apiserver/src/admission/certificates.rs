//! CertificateApproval, CertificateSigning, ClusterTrustBundleAttest and CertificateSubjectRestriction: who may act for a
//! signer, and what nobody gets signed.

use base64::Engine as _;
use futures::future::BoxFuture;
use http::Method;
use rkube_machinery::field::quote;
use rkube_machinery::{Status, Value};
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::prelude::FromDer as _;

use super::{Attributes, Operation, Plugin};
use crate::authz;
use crate::request::{RequestInfo, User};

const GROUP: &str = "certificates.k8s.io";
const REQUESTS: &str = "certificatesigningrequests";
const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";
const MASTERS: &str = "system:masters";

/// Approving needs the right to approve for the signer.
pub struct CertificateApproval;

impl Plugin for CertificateApproval {
    fn handles(&self, attributes: &Attributes) -> bool {
        attributes.operation == Operation::Update && attributes.is_part(GROUP, REQUESTS, "approval")
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a mut Attributes,
        _object: Option<&'a Value>,
        old: Option<&'a Value>,
    ) -> BoxFuture<'a, Result<(), Status>> {
        let outcome = old.map_or(Ok(()), |old| {
            let signer = old.get("spec").str("signerName");
            let why = "user not permitted to approve requests with signerName";
            check_signer(attributes, old, "approve", signer, why)
        });
        Box::pin(async { outcome })
    }
}

/// Writing a certificate needs the right to sign for the signer.
pub struct CertificateSigning;

impl Plugin for CertificateSigning {
    fn handles(&self, attributes: &Attributes) -> bool {
        attributes.operation == Operation::Update && attributes.is_part(GROUP, REQUESTS, "status")
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a mut Attributes,
        object: Option<&'a Value>,
        old: Option<&'a Value>,
    ) -> BoxFuture<'a, Result<(), Status>> {
        let outcome = match (object, old) {
            (Some(object), Some(old)) => check_signing(attributes, object, old),
            _ => Ok(()),
        };
        Box::pin(async { outcome })
    }
}

/// Trust for a signer is given by those who may attest for it.
pub struct ClusterTrustBundleAttest;

impl Plugin for ClusterTrustBundleAttest {
    fn handles(&self, attributes: &Attributes) -> bool {
        attributes.operation != Operation::Delete && attributes.is(GROUP, "clustertrustbundles")
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a mut Attributes,
        object: Option<&'a Value>,
        old: Option<&'a Value>,
    ) -> BoxFuture<'a, Result<(), Status>> {
        let outcome = object.map_or(Ok(()), |bundle| check_bundle(attributes, bundle, old));
        Box::pin(async { outcome })
    }
}

/// No client certificate makes its bearer a master.
pub struct CertificateSubjectRestriction;

impl Plugin for CertificateSubjectRestriction {
    fn handles(&self, attributes: &Attributes) -> bool {
        attributes.operation == Operation::Create && attributes.is(GROUP, REQUESTS)
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a mut Attributes,
        object: Option<&'a Value>,
        _old: Option<&'a Value>,
    ) -> BoxFuture<'a, Result<(), Status>> {
        let outcome = object.map_or(Ok(()), |request| check_subject(attributes, request));
        Box::pin(async { outcome })
    }
}

fn check_signing(attributes: &Attributes, request: &Value, old: &Value) -> Result<(), Status> {
    let (status, before) = (request.get("status"), old.get("status"));
    if status.get("certificate") == before.get("certificate") && status.list("conditions") == before.list("conditions")
    {
        return Ok(());
    }
    let signer = old.get("spec").str("signerName");
    check_signer(attributes, request, "sign", signer, "user not permitted to sign requests with signerName")
}

fn check_bundle(attributes: &Attributes, bundle: &Value, old: Option<&Value>) -> Result<(), Status> {
    if old.is_some_and(|old| old.get("spec") == bundle.get("spec")) {
        return Ok(());
    }
    let signer = bundle.get("spec").str("signerName");
    if signer.is_empty() {
        return Ok(());
    }
    check_signer(attributes, bundle, "attest", signer, "user not permitted to attest for signerName")
}

fn check_subject(attributes: &Attributes, request: &Value) -> Result<(), Status> {
    let spec = request.get("spec");
    if spec.str("signerName") != CLIENT_SIGNER || !organizations(spec.str("request")).iter().any(|one| one == MASTERS) {
        return Ok(());
    }
    let why = format!("use of {CLIENT_SIGNER} signer with {MASTERS} group is not allowed");
    Err(attributes.forbidden(request, why))
}

/// The organisations in the subject of a request; the kind's rules have made sure that it can be read.
fn organizations(request: &str) -> Vec<String> {
    let Ok(pem) = base64::engine::general_purpose::STANDARD.decode(request) else { return Vec::new() };
    let Ok((_, block)) = x509_parser::pem::parse_x509_pem(&pem) else { return Vec::new() };
    let Ok((_, parsed)) = X509CertificationRequest::from_der(&block.contents) else { return Vec::new() };
    let subject = &parsed.certification_request_info.subject;
    subject.iter_organization().filter_map(|one| one.as_str().ok()).map(str::to_owned).collect()
}

fn check_signer(attributes: &Attributes, object: &Value, verb: &str, signer: &str, why: &str) -> Result<(), Status> {
    let domain = signer.split('/').next().unwrap_or_default();
    if may(&attributes.user, verb, signer) || may(&attributes.user, verb, &format!("{domain}/*")) {
        return Ok(());
    }
    Err(attributes.forbidden(object, format!("{why} {}", quote(signer))))
}

fn may(user: &User, verb: &str, signer: &str) -> bool {
    let mut info = RequestInfo::new(&Method::GET, "/apis/certificates.k8s.io/v1/signers", false);
    info.verb = verb.to_owned().into();
    info.name = signer.to_owned();
    authz::authorize(user, &info).is_ok()
}
