//! Signs requests that are approved, for those of the four signers that Kubernetes has itself that have an authority. One
//! that a signer does not sign gets the condition `Failed`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rkube_machinery::decode::base64;
use rkube_machinery::host::Clock;
use rkube_machinery::time;
use rkube_operator::kube::Client;
use rkube_operator::{Error, Outcome};
use serde_json::json;

use super::csr::Asked;
use super::signers::{self, Signer, Validity};
use super::{APPROVED, DENIED, FAILED, PATH, Request, WORKERS, queue, requests};
use crate::Context;
use crate::requests as http_requests;

const NAME: &str = "certificatesigningrequest-signing-controller";

/// What a new certificate is to say.
pub struct NewCertificate<'a> {
    pub asked: &'a Asked,
    /// In Kubernetes' words, such as `client auth`.
    pub usages: &'a [String],
    /// The end of the signer's own certificate may be nearer.
    pub validity: Validity,
    pub now: i64,
}

/// Makes a certificate, in PEM, or says why not.
pub type SignCertificate = Arc<dyn Fn(&NewCertificate<'_>) -> Result<String, String> + Send + Sync>;

/// By signer. The requests of one that is not here are left to others.
pub type SignCertificates = BTreeMap<Signer, SignCertificate>;

pub async fn run(context: Context, sign: SignCertificates) {
    let Context { client, caches, clock, settings } = context;
    let signing = Arc::new(Signing { client, clock, sign, longest: settings.cluster_signing_duration });
    let (queue, looking) = (queue(), signing.clone());
    let adding = queue.clone();
    let watched = requests(&caches).on_change(move |change| {
        if change.new.is_some_and(|request| looking.waiting(request).is_some()) {
            adding.add(change.key.name.clone());
        }
    });
    watched.synced().await;
    let watched = Arc::new(watched);
    rkube_operator::run(NAME, queue, WORKERS, move |name: String| {
        let (signing, watched) = (signing.clone(), watched.clone());
        async move {
            let Some(request) = watched.get("", &name) else { return Ok(Outcome::Unchanged) };
            match signing.waiting(&request) {
                Some(by) => signing.sign(by, &name, &request).await,
                None => Ok(Outcome::Unchanged),
            }
        }
    })
    .await;
}

struct Signing {
    client: Client,
    clock: Arc<dyn Clock>,
    sign: SignCertificates,
    longest: Duration,
}

impl Signing {
    /// Who has to act, if one of ours has.
    fn waiting(&self, request: &Request) -> Option<(Signer, &SignCertificate)> {
        let waits = !request.issued && request.has(APPROVED) && !request.has(DENIED) && !request.has(FAILED);
        let signer = Signer::of(&request.signer).filter(|_| waits)?;
        Some((signer, self.sign.get(&signer)?))
    }

    async fn sign(
        &self,
        (signer, sign): (Signer, &SignCertificate),
        name: &str,
        request: &Request,
    ) -> Result<Outcome, Error> {
        let spec = request.whole()?.spec;
        let asked = spec.asked().map_err(|why| Error::terminal(format!("unable to parse csr {name:?}: {why}")))?;
        let usages = spec.usages.as_deref().unwrap_or_default();
        let now = self.clock.now_seconds();
        let mut changed = http_requests::whole(&request.item)?;
        if let Err(why) = signer.check(&asked, usages) {
            let condition = json!({
                "type": FAILED,
                "status": "True",
                "reason": "SignerValidationFailure",
                "message": why,
                "lastUpdateTime": time::format_seconds(now),
            });
            // It is approved: there are conditions.
            if let Some(conditions) = changed["status"]["conditions"].as_array_mut() {
                conditions.push(condition);
            }
        } else {
            let validity = signers::validity(spec.expiration_seconds, self.longest, now);
            let certificate = sign(&NewCertificate { asked: &asked, usages, validity, now });
            let certificate = certificate.map_err(|why| Error::text(format!("error auto signing csr: {why}")))?;
            changed["status"]["certificate"] = base64::encode(certificate.as_bytes()).into();
        }
        http_requests::replace(&self.client, &format!("{PATH}/{name}/status"), &changed).await?;
        Ok(Outcome::Wrote)
    }
}
