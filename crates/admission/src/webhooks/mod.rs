//! Webhooks: what others want to know of writes, change in them and refuse, as their configurations say.
//!
//! `rules`, `matching` and `conditions` say who is asked, `request` what about; what the answer is worth says
//! [`rkube_kinds::admission_review`]. All of that is pure. `source` keeps the webhooks that there are; `form` has the objects in the version that a webhook
//! wants; `call` asks one; [`mutating`] asks one after the other, [`validating`] all at once.
//!
//! What a webhook says has bounds in time and size, and nothing of it is used that was not checked. A request that no
//! webhook wants pays for a look at an index.

mod call;
mod conditions;
mod form;
mod hook;
mod matching;
mod metrics;
mod mutating;
mod request;
mod rules;
mod source;
mod validating;

use std::sync::Arc;

use rkube_access::authorize::Authorizers;
use rkube_catalog::Catalog;
use rkube_extensions::webhook::{Resolver, ServiceResolver};
use rkube_machinery::host::Entropy;
use rkube_machinery::{Status, Value};

pub use metrics::Metrics;
pub use mutating::FirstRound;

use self::conditions::{Inputs, Matched};
use self::form::{Form, Target};
use self::hook::Hook;
use self::metrics::Step;
use self::request::Subject;
use self::source::Source;
use crate::Attributes;
use crate::plugins::Named;

const GROUP: &str = "admissionregistration.k8s.io";

/// What both plugins work with.
struct Webhooks {
    catalog: Arc<Catalog>,
    source: Source,
    step: Step,
    authorizers: Arc<Authorizers>,
    entropy: Arc<dyn Entropy>,
    metrics: Arc<Metrics>,
}

/// The two plugins, in their order. They come behind all others that change or refuse objects.
pub fn plugins(
    catalog: &Arc<Catalog>,
    authorizers: &Arc<Authorizers>,
    entropy: &Arc<dyn Entropy>,
    metrics: &Arc<Metrics>,
) -> [Named; 2] {
    let resolver: Arc<dyn Resolver> = Arc::new(ServiceResolver::new(catalog));
    let of = |resource: &str, step: Step| Webhooks {
        catalog: catalog.clone(),
        source: Source::new(catalog.resource(GROUP, "v1", resource), resolver.clone()),
        step,
        authorizers: authorizers.clone(),
        entropy: entropy.clone(),
        metrics: metrics.clone(),
    };
    let mutating = mutating::Mutating(of("mutatingwebhookconfigurations", Step::Admit));
    let validating = validating::Validating(of("validatingwebhookconfigurations", Step::Validate));
    [("MutatingAdmissionWebhook", Box::new(mutating)), ("ValidatingAdmissionWebhook", Box::new(validating))]
}

impl Webhooks {
    /// Whether a webhook may want to know of such a request.
    fn may_want(&self, attributes: &Attributes<'_>) -> bool {
        let kind = &attributes.served.kind;
        self.source.hooks().may_want(&kind.resource, attributes.operation) && !matching::is_exempt(attributes)
    }

    /// Whether there is anything to do but to let the request pass.
    fn wants(&self, attributes: &Attributes<'_>, object: &Value) -> bool {
        let hooks = self.source.hooks();
        let mut targets = hooks.all.iter().map(|hook| matching::target(hook, attributes, object, &self.catalog));
        targets.any(|target| !matches!(target, Ok(None)))
    }

    /// Whether the webhook's conditions let it be asked about what is in this form.
    fn meets(
        &self,
        hook: &Hook,
        attributes: &Attributes<'_>,
        (target, form): (&Target, &Form),
    ) -> Result<bool, Status> {
        if hook.conditions.is_empty() {
            return Ok(true);
        }
        // Conditions see the kind in which the webhook asked for the objects, and the resource that the request names.
        let subject = Subject { served: attributes.served, ..target.subject(attributes) };
        let request = request::request(attributes, subject);
        let inputs = Inputs { object: &form.object, old: &form.old, request: &request };
        match hook.conditions.evaluate(&inputs, attributes, &self.authorizers) {
            Matched::Yes => return Ok(true),
            Matched::No => {}
            Matched::Unknown(why) => {
                self.metrics.condition_failed(&hook.name, self.step, attributes.operation);
                if !hook.fails_open {
                    return Err(Status::forbidden(attributes.resource(), attributes.name, why));
                }
            }
        }
        self.metrics.condition_excluded(&hook.name, self.step, attributes.operation);
        Ok(false)
    }
}

#[cfg(test)]
mod tests;
