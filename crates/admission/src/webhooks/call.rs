//! One call of one webhook: from the question to what its answer means.

use std::time::Duration;

use rkube_extensions::webhook::{CallError, Limits};
use rkube_kinds::admission_review::{Review, Unusable};
use rkube_machinery::field::quote;
use rkube_machinery::host::Entropy;
use rkube_machinery::names::{self, generated};
use rkube_machinery::{Status, Value};
use tokio::time::Instant;

use super::form::Form;
use super::hook::{DryRun, Hook};
use super::metrics::{Metrics, Refused, Step};
use crate::Attributes;

/// An answer may have so many bytes. What a webhook may patch has three megabytes at most.
pub const RESPONSE_BYTES_MAX: usize = 16 << 20;

/// Why a webhook did not let a request pass.
#[derive(Debug)]
pub enum Failure {
    /// It could not be asked, or what it answered is none: its failure policy decides. `code` is for the metrics.
    Calling { why: String, code: u16 },
    /// It said no.
    Rejected(Box<Status>),
    /// The server cannot do what it asks for.
    Internal(Box<Status>),
}

impl Failure {
    pub fn internal(status: Status) -> Failure {
        Failure::Internal(Box::new(status))
    }
}

/// What came of a call.
pub struct Called {
    /// The patch and its type, where there is one.
    pub outcome: Result<Option<(Vec<u8>, String)>, Failure>,
    pub warnings: Vec<String>,
    /// For the audit log, with keys that it takes.
    pub annotations: Vec<(String, String)>,
}

impl From<Failure> for Called {
    fn from(failure: Failure) -> Called {
        Called { outcome: Err(failure), warnings: Vec::new(), annotations: Vec::new() }
    }
}

/// Asks the webhook about the objects in the form that it wants. `request` is what [`super::request::request`] makes.
pub async fn call(
    hook: &Hook,
    attributes: &Attributes<'_>,
    request: &Value,
    form: &Form,
    step: Step,
    entropy: &dyn Entropy,
) -> Called {
    let calling = |why: String, code: u16| Called::from(Failure::Calling { why, code });
    match hook.dry_run {
        DryRun::Unknown if attributes.dry_run => return calling("Webhook SideEffects is nil".to_owned(), 400),
        DryRun::Unsupported if attributes.dry_run => {
            let why = format!("admission webhook {} does not support dry run", quote(&hook.name));
            return Failure::internal(Status::bad_request(why)).into();
        }
        _ => {}
    }
    let Some(version) = hook.version else {
        let why = "webhook does not accept known AdmissionReview versions (v1, v1beta1)";
        return calling(format!("could not create admission objects: {why}"), 400);
    };
    let client = match hook.client() {
        Ok(client) => client,
        Err(error) => return calling(format!("could not get REST client: {error}"), 500),
    };
    let uid = generated::uuid(entropy);
    let review = Review { version, uid: &uid, request, object: &form.object_text, old: &form.old_text };
    let limits = Limits { timeout: hook.timeout, response_bytes: RESPONSE_BYTES_MAX };
    let answer = match client.post(review.body().into(), limits).await {
        Ok(answer) => answer,
        Err(error) => {
            let code = if let CallError::Refused { code, .. } = error { code } else { 503 };
            return calling(format!("failed to call webhook: {error}"), code);
        }
    };
    let mut answer = match review.read(&hook.name, &answer, step == Step::Admit) {
        Ok(answer) => answer,
        Err(Unusable::Unreadable(why)) => return calling(format!("failed to call webhook: {why}"), 503),
        Err(Unusable::Invalid(why)) => return calling(format!("received invalid webhook response: {why}"), 503),
    };
    answer.annotations.retain(|(key, _)| key.matches('/').count() == 1 && names::qualified_name(key).is_empty());
    let outcome = match answer.refusal {
        Some(refusal) => Err(Failure::Rejected(refusal)),
        None => Ok(answer.patch),
    };
    Called { outcome, warnings: answer.warnings, annotations: answer.annotations }
}

/// Counts what came of a call, and says with what the request ends, if it does.
pub fn settle(
    hook: &Hook,
    attributes: &Attributes<'_>,
    outcome: Result<(), Failure>,
    (step, since): (Step, Instant),
    metrics: &Metrics,
) -> Result<(), Status> {
    let elapsed: Duration = since.elapsed();
    let operation = attributes.operation;
    let failure = match outcome {
        Ok(()) => {
            metrics.called(&hook.name, step, operation, (200, false), elapsed);
            return Ok(());
        }
        Err(failure) => failure,
    };
    let (refused, code, is_rejected) = match &failure {
        Failure::Calling { code, .. } => (Refused::Calling, *code, !hook.fails_open),
        Failure::Rejected(status) => (Refused::ByWebhook, status.code, true),
        Failure::Internal(_) => (Refused::Internal, 0, true),
    };
    if is_rejected {
        metrics.rejected(&hook.name, step, operation, refused, code);
    }
    metrics.called(&hook.name, step, operation, (code, is_rejected), elapsed);
    match failure {
        Failure::Calling { why, .. } if hook.fails_open => {
            tracing::warn!(
                webhook = hook.name,
                error = why,
                "a webhook cannot be called: its requests go on without it"
            );
            metrics.failed_open(&hook.name, step);
            Ok(())
        }
        Failure::Calling { why, .. } => {
            tracing::warn!(webhook = hook.name, error = why, "a webhook cannot be called: its requests are refused");
            Err(Status::internal(format!("failed calling webhook {}: {why}", quote(&hook.name))))
        }
        Failure::Rejected(status) | Failure::Internal(status) => Err(*status),
    }
}
