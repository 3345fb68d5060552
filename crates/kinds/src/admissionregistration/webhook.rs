//! What the two kinds of webhook configurations share.

use rkube_machinery::field::{Errors, Path};
use rkube_machinery::{Value, names};

use super::Registration;
use super::{FAILURE_POLICIES, MATCH_POLICIES, REINVOCATION_POLICIES, client_config, expressions, match_resources};
use crate::core::pod_spec::checks::{Seen, has_repeated};
use crate::fields::texts;
use crate::meta;

/// Versions of AdmissionReview that the server speaks.
const REVIEW_VERSIONS: &[&str] = &["v1", "v1beta1"];
const SIDE_EFFECTS: &[&str] = &["None", "NoneOnDryRun", "Some", "Unknown"];
const NO_SIDE_EFFECTS: &[&str] = &["None", "NoneOnDryRun"];
const TIMEOUT_SECONDS: std::ops::RangeInclusive<i64> = 1..=30;
const WEBHOOKS: Path<'static> = Path::new("webhooks");

pub struct WebhookRules {
    /// Whether the webhooks may change what is written.
    pub mutating: bool,
}

/// What an old object's faults let a new one have too.
#[derive(Default)]
struct WebhookOptions {
    ignore_match_conditions: bool,
    any_side_effects: bool,
    any_review_versions: bool,
    same_names: bool,
    lenient_selectors: bool,
}

impl Registration for WebhookRules {
    fn default(&self, configuration: &mut Value) {
        for hook in configuration.list_mut("webhooks") {
            hook.set_if_absent("failurePolicy", "Fail");
            match_resources::default_selectors(hook);
            match_resources::default_rules(hook, "rules");
            hook.set_if_absent("timeoutSeconds", 10);
            if self.mutating {
                hook.set_if_absent("reinvocationPolicy", "Never");
            }
            client_config::default(hook.object_mut("clientConfig"));
        }
    }

    fn validate(&self, configuration: &Value, old: Option<&Value>, errors: &mut Errors) {
        let options = old.map_or_else(WebhookOptions::default, |old| WebhookOptions::of(configuration, old));
        self.validate_hooks(configuration, &options, errors);
    }
}

impl WebhookRules {
    fn validate_hooks(&self, configuration: &Value, options: &WebhookOptions, errors: &mut Errors) {
        let hooks = configuration.list("webhooks");
        let mut seen = Seen::new();
        for (index, hook) in hooks.iter().enumerate() {
            let path = WEBHOOKS.index(index);
            self.validate_hook(path, hook, options, errors);
            validate_review_versions(path.child("admissionReviewVersions"), hook, options, errors);
            let name = hook.str("name");
            if !seen.add(name) && !options.same_names && !name.is_empty() {
                errors.duplicate(path.child("name"), name);
            }
        }
    }

    fn validate_hook(&self, path: Path<'_>, hook: &Value, options: &WebhookOptions, errors: &mut Errors) {
        names::fully_qualified_name(path.child("name"), hook.str("name"), errors);
        let rules = path.child("rules");
        for (index, rule) in hook.list("rules").iter().enumerate() {
            match_resources::validate_rule(rules.index(index), rule, errors);
        }
        one_of(path, hook, "failurePolicy", FAILURE_POLICIES, errors);
        one_of(path, hook, "matchPolicy", MATCH_POLICIES, errors);
        let side_effects = if options.any_side_effects { SIDE_EFFECTS } else { NO_SIDE_EFFECTS };
        if !hook.has("sideEffects") {
            let detail = format!("must specify one of {}", side_effects.join(", "));
            errors.required(path.child("sideEffects"), detail);
        }
        one_of(path, hook, "sideEffects", side_effects, errors);
        let timeout = hook.get("timeoutSeconds");
        if timeout.as_int().is_some_and(|seconds| !TIMEOUT_SECONDS.contains(&seconds)) {
            let detail = "the timeout value must be between 1 and 30 seconds";
            errors.invalid(path.child("timeoutSeconds"), timeout, detail);
        }
        for field in ["namespaceSelector", "objectSelector"] {
            meta::validate_label_selector(path.child(field), hook.get(field), options.lenient_selectors, errors);
        }
        if self.mutating {
            one_of(path, hook, "reinvocationPolicy", REINVOCATION_POLICIES, errors);
        }
        client_config::validate(path.child("clientConfig"), hook.get("clientConfig"), errors);
        if !options.ignore_match_conditions {
            expressions::validate_match_conditions(path.child("matchConditions"), hook, false, errors);
        }
    }
}

impl WebhookOptions {
    fn of(configuration: &Value, old: &Value) -> WebhookOptions {
        let (hooks, old_hooks) = (configuration.list("webhooks"), old.list("webhooks"));
        let conditions = |hooks: &[Value], index: usize| hooks[index].get("matchConditions").clone();
        let same_conditions = hooks.len() == old_hooks.len()
            && (0..hooks.len()).all(|index| meta::same(&conditions(hooks, index), &conditions(old_hooks, index)));
        let mut selector_errors = Errors::new();
        for hook in old_hooks {
            for field in ["namespaceSelector", "objectSelector"] {
                meta::validate_label_selector(Path::ROOT, hook.get(field), false, &mut selector_errors);
            }
        }
        WebhookOptions {
            ignore_match_conditions: same_conditions,
            any_side_effects: old_hooks.iter().any(|hook| !NO_SIDE_EFFECTS.contains(&hook.str("sideEffects"))),
            any_review_versions: old_hooks.iter().any(lacks_known_version),
            same_names: has_same_names(old_hooks),
            lenient_selectors: !selector_errors.is_empty(),
        }
    }
}

fn lacks_known_version(hook: &Value) -> bool {
    let mut versions = texts(hook, "admissionReviewVersions").peekable();
    versions.peek().is_some() && !versions.any(|version| REVIEW_VERSIONS.contains(&version))
}

fn has_same_names(hooks: &[Value]) -> bool {
    has_repeated(hooks.iter().map(|hook| hook.str("name")))
}

fn one_of(path: Path<'_>, hook: &Value, field: &str, known: &[&str], errors: &mut Errors) {
    if hook.has(field) && !known.contains(&hook.str(field)) {
        errors.not_supported(path.child(field), hook.str(field), known);
    }
}

fn validate_review_versions(path: Path<'_>, hook: &Value, options: &WebhookOptions, errors: &mut Errors) {
    let versions = hook.list("admissionReviewVersions");
    if versions.is_empty() {
        return errors.required(path, format!("must specify one of {}", REVIEW_VERSIONS.join(", ")));
    }
    let mut seen = Seen::new();
    for (index, version) in versions.iter().enumerate() {
        if !seen.add(version.as_str()) {
            errors.invalid(path.index(index), version, "duplicate version");
            continue;
        }
        for message in names::dns1035_label(version.as_str()) {
            errors.invalid(path.index(index), version, message);
        }
    }
    if !options.any_review_versions && lacks_known_version(hook) {
        let detail = format!("must include at least one of {}", REVIEW_VERSIONS.join(", "));
        errors.invalid(path, hook.get("admissionReviewVersions"), detail);
    }
}
