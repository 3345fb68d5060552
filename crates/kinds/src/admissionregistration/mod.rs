//! The kinds of `admissionregistration.k8s.io`: webhooks and policies that have a say in what is written.

mod binding;
mod cel;
mod client_config;
mod expressions;
mod go_url;
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

/// The conversion of a version whose objects differ from the stored ones in nothing but their version.
macro_rules! stored_as_v1 {
    ($version:literal) => {
        $crate::kind::Conversion {
            group: $crate::admissionregistration::GROUP,
            to_stored: |mut object| {
                object.set("apiVersion", "admissionregistration.k8s.io/v1");
                object
            },
            from_stored: |mut object| {
                object.set("apiVersion", concat!("admissionregistration.k8s.io/", $version));
                object
            },
        }
    };
}
use stored_as_v1;

pub(crate) const GROUP: &str = "admissionregistration.k8s.io";
pub(crate) const CATEGORIES: &[&str] = &["api-extensions"];

const STATIC_SUFFIX: &str = ".static.k8s.io";
const FAILURE_POLICIES: &[&str] = &["Fail", "Ignore"];
const MATCH_POLICIES: &[&str] = &["Equivalent", "Exact"];
const REINVOCATION_POLICIES: &[&str] = &["IfNeeded", "Never"];

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
