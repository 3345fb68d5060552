//! Approves requests of kubelets for client certificates, if who asks may have one: `selfnodeclient` for the own
//! certificate, `nodeclient` for that of any node.

use std::sync::Arc;

use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use rkube_operator::kube::Client;
use rkube_operator::kube::api::{Api, PostParams};
use rkube_operator::{Error, Outcome};
use serde_json::json;

use super::csr::Asked;
use super::signers::{self, KUBELET_CLIENT};
use super::{APPROVED, DENIED, PATH, Request, WORKERS, WholeSpec, queue, requests};
use crate::Context;
use crate::requests as http_requests;

const NAME: &str = "certificatesigningrequest-approving-controller";

pub async fn run(context: Context) {
    let Context { client, caches, .. } = context;
    let queue = queue();
    let adding = queue.clone();
    let watched = requests(&caches).on_change(move |change| {
        if change.new.is_some_and(|request| is_open(request)) {
            adding.add(change.key.name.clone());
        }
    });
    watched.synced().await;
    let watched = Arc::new(watched);
    rkube_operator::run(NAME, queue, WORKERS, move |name: String| {
        let (client, watched) = (client.clone(), watched.clone());
        async move {
            match watched.get("", &name).filter(|request| is_open(request)) {
                Some(request) => approve(&client, &name, &request).await,
                None => Ok(Outcome::Unchanged),
            }
        }
    })
    .await;
}

/// Whether nobody has said yes or no to a request that we may have to say something to.
fn is_open(request: &Request) -> bool {
    !request.issued && request.signer == KUBELET_CLIENT && !request.has(APPROVED) && !request.has(DENIED)
}

async fn approve(client: &Client, name: &str, request: &Request) -> Result<Outcome, Error> {
    let spec = request.whole()?.spec;
    // What it asks for does not change: one that cannot be read is left to others.
    let Ok(asked) = spec.asked() else { return Ok(Outcome::Unchanged) };
    let recognized = recognize(&spec, &asked);
    for permission in recognized {
        if !is_allowed(client, &spec, permission.subresource).await? {
            continue;
        }
        let mut approved = http_requests::whole(&request.item)?;
        let condition =
            json!({ "type": APPROVED, "status": "True", "reason": "AutoApproved", "message": permission.message });
        match approved["status"]["conditions"].as_array_mut() {
            Some(conditions) => conditions.push(condition),
            None => approved["status"]["conditions"] = json!([condition]),
        }
        http_requests::replace(client, &format!("{PATH}/{name}/approval"), &approved).await?;
        return Ok(Outcome::Wrote);
    }
    if recognized.is_empty() {
        return Ok(Outcome::Unchanged);
    }
    // A role may come that allows it.
    let tried: Vec<_> = recognized.iter().map(|permission| permission.subresource).collect();
    let tried = tried.join(" ");
    Err(Error::text(format!("recognized csr {name:?} as [{tried}] but subject access review was not approved")))
}

/// What one must be allowed to, and what is said of a request that is approved for it.
#[derive(Debug, PartialEq, Eq)]
struct Permission {
    subresource: &'static str,
    message: &'static str,
}

static PERMISSIONS: [Permission; 2] = [
    Permission {
        subresource: "selfnodeclient",
        message: "Auto approving self kubelet client certificate after SubjectAccessReview.",
    },
    Permission {
        subresource: "nodeclient",
        message: "Auto approving kubelet client certificate after SubjectAccessReview.",
    },
];

/// Which permissions would do.
fn recognize(spec: &WholeSpec, asked: &Asked) -> &'static [Permission] {
    let usages = spec.usages.as_deref().unwrap_or_default();
    if signers::check_kubelet_client(asked, usages).is_err() {
        return &[];
    }
    if spec.username == asked.common_name() { &PERMISSIONS } else { &PERMISSIONS[1..] }
}

async fn is_allowed(client: &Client, spec: &WholeSpec, subresource: &str) -> Result<bool, Error> {
    let attributes = ResourceAttributes {
        group: Some("certificates.k8s.io".to_owned()),
        resource: Some("certificatesigningrequests".to_owned()),
        subresource: Some(subresource.to_owned()),
        verb: Some("create".to_owned()),
        version: Some("*".to_owned()),
        ..ResourceAttributes::default()
    };
    let review = SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: Some(spec.username.clone()),
            uid: Some(spec.uid.clone()),
            groups: spec.groups.clone(),
            extra: spec.extra.clone(),
            resource_attributes: Some(attributes),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    };
    let reviewed = Api::<SubjectAccessReview>::all(client.clone()).create(&PostParams::default(), &review).await?;
    Ok(reviewed.status.is_some_and(|status| status.allowed))
}
