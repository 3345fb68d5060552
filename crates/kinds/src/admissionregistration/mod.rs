//! The kinds of `admissionregistration.k8s.io`: webhooks and policies that have a say in what is written.

mod binding;
pub mod cel;
pub(crate) mod client_config;
mod expressions;
pub(crate) mod go_url;
mod json_path;
mod match_resources;
pub mod mutating_admission_policy;
pub mod mutating_admission_policy_binding;
pub mod mutating_webhook_configuration;
mod policy;
pub mod validating_admission_policy;
pub mod validating_admission_policy_binding;
pub mod validating_webhook_configuration;
mod webhook;

use crate::strategy::{Repeat, Repeats, Strategy};
use rkube_machinery::Value;
use rkube_machinery::field::Errors;

use crate::kind::{Part, Rules};

pub(crate) const GROUP: &str = "admissionregistration.k8s.io";
pub(crate) const CATEGORIES: &[&str] = &["api-extensions"];

const STATIC_SUFFIX: &str = ".static.k8s.io";
const FAILURE_POLICIES: &[&str] = &["Fail", "Ignore"];
const MATCH_POLICIES: &[&str] = &["Equivalent", "Exact"];
const REINVOCATION_POLICIES: &[&str] = &["IfNeeded", "Never"];

/// What is registered and has no status: webhooks, bindings, mutating policies. They differ in what they say.
struct Registered<R>(R);

/// Of all but the validating policies, which have a status.
const STRATEGY: Strategy = Strategy {
    checks_finalizers: false,
    repeats_meta: Repeats::all(Repeat::New),
    unconditional_update: false,
    has_generation: true,
    ..Strategy::DEFAULTS
};

trait Registration: Send + Sync + 'static {
    fn default(&self, object: &mut Value);

    /// `old` is there on updates.
    fn validate(&self, object: &Value, old: Option<&Value>, errors: &mut Errors);
}

impl<R: Registration> Rules for Registered<R> {
    fn default(&self, object: &mut Value) {
        self.0.default(object);
    }

    fn validate_create(&self, object: &Value, errors: &mut Errors) {
        self.0.validate(object, None, errors);
    }

    fn validate_update(&self, _part: Part, object: &Value, old: &Value, errors: &mut Errors) {
        self.0.validate(object, Some(old), errors);
    }

    fn warnings(&self, object: &Value, _old: Option<&Value>) -> Vec<String> {
        name_warnings(object)
    }
}

/// Some names are kept for configurations that come from files.
fn name_warnings(object: &Value) -> Vec<String> {
    if !object.get("metadata").str("name").ends_with(STATIC_SUFFIX) {
        return Vec::new();
    }
    vec![format!(
        "metadata.name: names ending with \"{STATIC_SUFFIX}\" are reserved for static manifest-based configurations and \
         cannot be managed via the API"
    )]
}

fn count(items: &[Value]) -> Value {
    i64::try_from(items.len()).unwrap_or(i64::MAX).into()
}
