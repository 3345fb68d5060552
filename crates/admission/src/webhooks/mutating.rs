//! MutatingAdmissionWebhook: asks webhooks one after the other, each about what the one before it made of the object.

use rkube_kinds::admission_review::{JSON_PATCH, patch};
use rkube_machinery::field::quote;
use rkube_machinery::{Status, Value, managed};
use tokio::time::Instant;

use super::call::{Called, Failure, call, settle};
use super::form::{Form, Target};
use super::metrics::Step as Phase;
use super::{Webhooks, matching, request};
use crate::{Attributes, Plugin, Step};

pub struct Mutating(pub(super) Webhooks);

/// What is remembered of the first round.
#[derive(Default)]
pub struct FirstRound {
    /// What the webhooks left behind.
    output: Value,
    /// Those that want to be asked again where something changed since they were, and nothing has.
    asked: Vec<String>,
    /// Those for which something has.
    again: Vec<String>,
}

impl FirstRound {
    /// Something changed: who was asked before wants to know.
    fn changed(&mut self) {
        self.again.append(&mut self.asked);
    }
}

impl Plugin for Mutating {
    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        self.0.may_want(attributes)
    }

    fn mutate<'a>(&'a self, attributes: &'a mut Attributes<'_>, object: &'a mut Value) -> Step<'a> {
        match self.0.wants(attributes, object) {
            true => Step::Later(Box::pin(self.dispatch(attributes, object))),
            false => Step::Now(Ok(())),
        }
    }
}

impl Mutating {
    async fn dispatch(&self, attributes: &mut Attributes<'_>, object: &mut Value) -> Result<(), Status> {
        let mut memory = attributes.rounds.webhooks.take().unwrap_or_default();
        if attributes.rounds.is_second && memory.output != *object {
            memory.changed();
        }
        let before = object.get("metadata").get("managedFields").clone();
        let mut working = Working { object, form: None, was_changed: false };
        let asked = self.ask_all(attributes, &mut working, &mut memory).await;
        let was_changed = working.was_changed;
        asked?;
        if was_changed {
            attributes.warnings.extend(keep_owners(object, before));
        }
        if attributes.rounds.another && !attributes.rounds.is_second {
            memory.output = object.clone();
        }
        attributes.rounds.webhooks = Some(memory);
        Ok(())
    }

    async fn ask_all(
        &self,
        attributes: &mut Attributes<'_>,
        working: &mut Working<'_>,
        memory: &mut FirstRound,
    ) -> Result<(), Status> {
        let hooks = self.0.source.hooks().clone();
        for hook in &hooks.all {
            let Some(target) = matching::target(hook, attributes, working.current(), &self.0.catalog)? else {
                continue;
            };
            working.enter(attributes, &target).await?;
            let Some((_, form)) = &mut working.form else { continue };
            if !self.0.meets(hook, attributes, (&target, form))? {
                continue;
            }
            if attributes.rounds.is_second && !memory.again.contains(&hook.id) {
                continue;
            }
            let since = Instant::now();
            let request = request::request(attributes, target.subject(attributes));
            let called = call(hook, attributes, &request, form, Phase::Admit, &*self.0.entropy).await;
            let Called { outcome, warnings, annotations } = called;
            attributes.warnings.extend(warnings);
            attributes.annotations.extend(annotations);
            let patched = outcome.and_then(|patch| patched(&hook.name, patch, form, attributes, &target));
            if matches!(patched, Ok(true)) {
                memory.changed();
                attributes.rounds.another = true;
            }
            if hook.reinvoked {
                memory.asked.push(hook.id.clone());
            }
            settle(hook, attributes, patched.map(drop), (Phase::Admit, since), &self.0.metrics)?;
        }
        working.leave(attributes).await
    }
}

/// Does a webhook's patch to the object, and says whether that changed it.
fn patched(
    hook: &str,
    patch: Option<(Vec<u8>, String)>,
    form: &mut Form,
    attributes: &Attributes<'_>,
    target: &Target,
) -> Result<bool, Failure> {
    let Some((bytes, patch_type)) = patch else { return Ok(false) };
    let operations = patch::operations(&bytes).map_err(|why| {
        let why = format!("received undecodable patch in webhook response: {why}");
        Failure::Calling { why, code: 503 }
    })?;
    let Some(operations) = operations else { return Ok(false) };
    if form.object.is_null() {
        let name = quote(hook);
        return Err(Failure::internal(Status::internal(format!(
            "admission webhook {name} attempted to modify the object, which is not supported for this operation"
        ))));
    }
    if patch_type != JSON_PATCH {
        let why = format!("unsupported patch type {}", quote(&patch_type));
        return Err(Failure::Calling { why, code: 400 });
    }
    form.patch(&operations, attributes, target).map_err(Failure::internal)
}

/// Who owns which fields must still be readable: what a webhook broke is put back.
fn keep_owners(object: &mut Value, before: Value) -> Option<String> {
    let error = managed::check(object).err()?;
    object.object_mut("metadata").set("managedFields", before);
    Some(format!(
        ".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated mutating admission controller; please fix your requests: {error}"
    ))
}

/// The object on its way from webhook to webhook.
struct Working<'a> {
    object: &'a mut Value,
    /// The version that the last webhook wanted. It stays in it until another one wants it differently.
    form: Option<(Target, Form)>,
    was_changed: bool,
}

impl Working<'_> {
    /// The object as it is now, in any version.
    fn current(&self) -> &Value {
        self.form.as_ref().map_or(self.object, |(_, form)| &form.object)
    }

    async fn enter(&mut self, attributes: &Attributes<'_>, target: &Target) -> Result<(), Status> {
        let wanted = &target.subject(attributes).served.api_version;
        if let Some((current, _)) = &self.form
            && current.subject(attributes).served.api_version == *wanted
        {
            return Ok(());
        }
        self.leave(attributes).await?;
        self.form = Some((target.clone(), Form::of(self.object, attributes, target).await?));
        Ok(())
    }

    /// Brings what was changed back to where it came from.
    async fn leave(&mut self, attributes: &Attributes<'_>) -> Result<(), Status> {
        let Some((target, form)) = self.form.take() else { return Ok(()) };
        if let Some(changed) = form.back(attributes, &target).await? {
            *self.object = changed;
            self.was_changed = true;
        }
        Ok(())
    }
}
