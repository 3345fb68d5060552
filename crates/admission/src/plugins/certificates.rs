//! CertificateApproval, CertificateSigning, ClusterTrustBundleAttest and CertificateSubjectRestriction: who may act for a
//! signer, and what nobody gets signed.

// tidy: types CertificateSigningRequest ClusterTrustBundle

use std::sync::Arc;

use base64::Engine as _;
use rkube_access::MASTERS;
use rkube_access::authorize::{Attributes as Asked, Authorizers, ResourceAttributes};
use rkube_machinery::field::quote;
use rkube_machinery::{Status, Value, pem};
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::prelude::FromDer as _;

use crate::{Attributes, ImmediatePlugin};

const GROUP: &str = "certificates.k8s.io";
const REQUESTS: &str = "certificatesigningrequests";
const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";

/// Approving needs the right to approve for the signer.
pub struct CertificateApproval(pub Arc<Authorizers>);

impl ImmediatePlugin for CertificateApproval {
    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        attributes.is_update() && attributes.is_part(GROUP, REQUESTS, "approval")
    }

    fn validate(&self, attributes: &mut Attributes<'_>, _request: &Value) -> Result<(), Status> {
        let Some(old) = attributes.old else { return Ok(()) };
        let signer = old.get("spec").str("signerName");
        check_signer(
            &self.0,
            attributes,
            old,
            "approve",
            signer,
            "user not permitted to approve requests with signerName",
        )
    }
}

/// Writing a certificate needs the right to sign for the signer.
pub struct CertificateSigning(pub Arc<Authorizers>);

impl ImmediatePlugin for CertificateSigning {
    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        attributes.is_update() && attributes.is_part(GROUP, REQUESTS, "status")
    }

    fn validate(&self, attributes: &mut Attributes<'_>, request: &Value) -> Result<(), Status> {
        let Some(old) = attributes.old else { return Ok(()) };
        let (status, before) = (request.get("status"), old.get("status"));
        let same_conditions = status.list("conditions") == before.list("conditions");
        if same_conditions && status.get("certificate") == before.get("certificate") {
            return Ok(());
        }
        let signer = old.get("spec").str("signerName");
        check_signer(
            &self.0,
            attributes,
            request,
            "sign",
            signer,
            "user not permitted to sign requests with signerName",
        )
    }
}

/// Trust for a signer is given by those who may attest for it.
pub struct ClusterTrustBundleAttest(pub Arc<Authorizers>);

impl ImmediatePlugin for ClusterTrustBundleAttest {
    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        attributes.is_create_or_update() && attributes.is(GROUP, "clustertrustbundles")
    }

    fn validate(&self, attributes: &mut Attributes<'_>, bundle: &Value) -> Result<(), Status> {
        let signer = bundle.get("spec").str("signerName");
        if signer.is_empty() || attributes.old.is_some_and(|old| old.get("spec") == bundle.get("spec")) {
            return Ok(());
        }
        check_signer(&self.0, attributes, bundle, "attest", signer, "user not permitted to attest for signerName")
    }
}

/// No client certificate makes its bearer a master.
pub struct CertificateSubjectRestriction;

impl ImmediatePlugin for CertificateSubjectRestriction {
    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        attributes.is_create() && attributes.is(GROUP, REQUESTS)
    }

    fn validate(&self, attributes: &mut Attributes<'_>, request: &Value) -> Result<(), Status> {
        let spec = request.get("spec");
        if spec.str("signerName") != CLIENT_SIGNER {
            return Ok(());
        }
        let why = match asks_for(MASTERS, spec.str("request")) {
            Ok(false) => return Ok(()),
            Ok(true) => format!("use of {CLIENT_SIGNER} signer with {MASTERS} group is not allowed"),
            Err(why) => format!("failed to parse CSR: {why}"),
        };
        Err(attributes.forbidden(request, why))
    }
}

/// Whether a request is for a certificate of this organisation, or why it cannot be read. It is read as the kind's rules
/// and signers read it: what one takes for another's name would be signed unseen.
fn asks_for(organization: &str, request: &str) -> Result<bool, &'static str> {
    let pem = base64::engine::general_purpose::STANDARD.decode(request).unwrap_or_default();
    let block = pem::blocks(&pem).next().filter(|block| block.label == "CERTIFICATE REQUEST");
    let block = block.ok_or("PEM block type must be CERTIFICATE REQUEST")?;
    let (_, parsed) = X509CertificationRequest::from_der(&block.bytes).map_err(|_| "malformed request")?;
    let mut organizations = parsed.certification_request_info.subject.iter_organization();
    organizations.try_fold(false, |found, one| {
        let one = one.as_str().map_err(|_| "unsupported type of an organization")?;
        Ok(found || one == organization)
    })
}

fn check_signer(
    authorizers: &Authorizers,
    attributes: &Attributes<'_>,
    object: &Value,
    verb: &str,
    signer: &str,
    why: &str,
) -> Result<(), Status> {
    let domain = signer.split('/').next().unwrap_or_default();
    let may = |name: &str| {
        let asked =
            ResourceAttributes { verb, group: GROUP, version: "v1", resource: "signers", name, ..Default::default() };
        authorizers.allow(attributes.user, &Asked::Resource(asked))
    };
    if may(signer) || may(&format!("{domain}/*")) {
        return Ok(());
    }
    Err(attributes.forbidden(object, format!("{why} {}", quote(signer))))
}
