//! The kinds of `admissionregistration.k8s.io`: webhooks and policies that have a say in what is written.

mod binding;
mod cel;
mod client_config;
mod expressions;
mod go_url;
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

use rkube_machinery::Value;
use rkube_machinery::field::Errors;

use crate::kind::{Part, Repeat, Rules};

pub(crate) const GROUP: &str = "admissionregistration.k8s.io";
pub(crate) const CATEGORIES: &[&str] = &["api-extensions"];

const STATIC_SUFFIX: &str = ".static.k8s.io";
const FAILURE_POLICIES: &[&str] = &["Fail", "Ignore"];
const MATCH_POLICIES: &[&str] = &["Equivalent", "Exact"];
const REINVOCATION_POLICIES: &[&str] = &["IfNeeded", "Never"];

/// What is registered and has no status: webhooks, bindings, mutating policies. They differ in what they say.
struct Registered<R>(R);

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

    fn repeats_meta(&self, _part: Part) -> Repeat {
        Repeat::New
    }

    fn checks_finalizers(&self) -> bool {
        false
    }

    fn unconditional_update(&self) -> bool {
        false
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn reset_fields(&self, _part: Part) -> &'static [&'static [&'static str]] {
        &[]
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
