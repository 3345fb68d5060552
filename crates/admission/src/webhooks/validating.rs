//! ValidatingAdmissionWebhook: asks all webhooks at once about what will be stored. All of them are heard; of those who
//! refuse, the first that answered counts.

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use rkube_machinery::{Status, Value};
use tokio::time::Instant;

use super::call::{Called, call, settle};
use super::form::{Form, Target};
use super::hook::Hook;
use super::metrics::Step as Phase;
use super::{Webhooks, matching, request};
use crate::{Attributes, Plugin, Step};

pub struct Validating(pub(super) Webhooks);

impl Plugin for Validating {
    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        self.0.may_want(attributes)
    }

    fn validate<'a>(&'a self, attributes: &'a mut Attributes<'_>, object: &'a Value) -> Step<'a> {
        match self.0.wants(attributes, object) {
            true => Step::Later(Box::pin(self.dispatch(attributes, object))),
            false => Step::Now(Ok(())),
        }
    }
}

/// A webhook that is to be asked.
struct Call<'a> {
    hook: &'a Hook,
    request: Value,
    /// Which of the forms it wants.
    form: usize,
}

impl Validating {
    async fn dispatch(&self, attributes: &mut Attributes<'_>, object: &Value) -> Result<(), Status> {
        let hooks = self.0.source.hooks().clone();
        let mut forms: Vec<(Target, Form)> = Vec::new();
        let mut calls = Vec::new();
        for hook in &hooks.all {
            let Some(target) = matching::target(hook, attributes, object, &self.0.catalog)? else { continue };
            let form = find_or_make(&mut forms, object, attributes, &target).await?;
            if self.0.meets(hook, attributes, (&target, &forms[form].1))? {
                let request = request::request(attributes, target.subject(attributes));
                calls.push(Call { hook, request, form });
            }
        }
        let since = Instant::now();
        let asked: &Attributes<'_> = attributes;
        let mut answers: FuturesUnordered<_> = calls
            .iter()
            .map(|one| async {
                let form = &forms[one.form].1;
                let called = call(one.hook, asked, &one.request, form, Phase::Validate, &*self.0.entropy).await;
                (one.hook, called)
            })
            .collect();
        let (mut verdict, mut warned, mut annotated) = (Ok(()), Vec::new(), Vec::new());
        while let Some((hook, Called { outcome, warnings, annotations })) = answers.next().await {
            warned.extend(warnings);
            annotated.extend(annotations);
            let settled = settle(hook, asked, outcome.map(drop), (Phase::Validate, since), &self.0.metrics);
            verdict = verdict.and(settled);
        }
        drop(answers);
        attributes.warnings.extend(warned);
        attributes.annotations.extend(annotated);
        verdict
    }
}

/// The place among the forms of the one that is wanted.
async fn find_or_make(
    forms: &mut Vec<(Target, Form)>,
    object: &Value,
    attributes: &Attributes<'_>,
    target: &Target,
) -> Result<usize, Status> {
    let wanted = &target.subject(attributes).served.api_version;
    let found = forms.iter().position(|(known, _)| known.subject(attributes).served.api_version == *wanted);
    if let Some(found) = found {
        return Ok(found);
    }
    forms.push((target.clone(), Form::of(object, attributes, target).await?));
    Ok(forms.len() - 1)
}
