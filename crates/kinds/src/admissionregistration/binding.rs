//! What the bindings of validating and mutating policies share.

use rkube_machinery::field::{Errors, Path};
use rkube_machinery::{Value, names};

use super::Registration;
use super::match_resources;
use super::policy::SPEC;
use crate::columns::{AGE, NAME};
use crate::core::pod_spec::checks::Seen;
use crate::kind::Column;
use crate::meta;

const NOT_FOUND_ACTIONS: &[&str] = &["Deny", "Allow"];
const VALIDATION_ACTIONS: &[&str] = &["Audit", "Deny", "Warn"];

pub const COLUMNS: &[Column] = &[
    NAME,
    Column::text(
        "PolicyName",
        "PolicyName indicates the policy definition which the policy binding binded to",
        |binding, _| binding.get("spec").str("policyName").into(),
    ),
    Column::text("ParamRef", "ParamRef indicates the param resource which sets the configuration param", param_ref),
    AGE,
];

pub struct BindingRules {
    /// Whether the policies change what is written.
    pub mutating: bool,
    /// Whether a missing parameter denies by default.
    pub default_not_found: bool,
}

impl Registration for BindingRules {
    fn default(&self, binding: &mut Value) {
        let Some(spec) = binding.find_mut("spec") else { return };
        match_resources::default(spec, "matchResources");
        if self.default_not_found
            && let Some(reference) = spec.find_mut("paramRef")
        {
            reference.set_if_absent("parameterNotFoundAction", "Deny");
        }
    }

    fn validate(&self, binding: &Value, _old: Option<&Value>, errors: &mut Errors) {
        let spec = binding.get("spec");
        let name = spec.str("policyName");
        if name.is_empty() {
            errors.required(SPEC.child("policyName"), "");
        } else {
            for message in names::dns1123_subdomain(name) {
                errors.invalid(SPEC.child("policyName"), name, message);
            }
        }
        validate_param_ref(SPEC.child("paramRef"), spec.get("paramRef"), errors);
        let (path, resources) = (SPEC.child("matchResources"), spec.get("matchResources"));
        match_resources::validate(path, resources, errors);
        if self.mutating {
            match_resources::validate_mutable(path, resources, errors);
        } else {
            validate_actions(SPEC.child("validationActions"), spec.get("validationActions"), errors);
        }
    }
}

fn validate_param_ref(path: Path<'_>, reference: &Value, errors: &mut Errors) {
    if reference.is_null() {
        return;
    }
    let name = reference.str("name");
    let both = !name.is_empty() && reference.has("selector");
    if !name.is_empty() {
        for message in names::path_segment_name(name) {
            errors.invalid(path.child("name"), name, message);
        }
    }
    if both {
        errors.forbidden(path.child("name"), "name and selector are mutually exclusive");
    }
    if reference.has("selector") {
        meta::validate_label_selector(path.child("selector"), reference.get("selector"), false, errors);
    }
    if both {
        errors.forbidden(path.child("selector"), "name and selector are mutually exclusive");
    }
    if name.is_empty() && !reference.has("selector") {
        errors.required(path, "one of name or selector must be specified");
    }
    match reference.str("parameterNotFoundAction") {
        "" => errors.required(path.child("parameterNotFoundAction"), ""),
        action if !NOT_FOUND_ACTIONS.contains(&action) => {
            errors.not_supported(path.child("parameterNotFoundAction"), action, NOT_FOUND_ACTIONS);
        }
        _ => {}
    }
}

fn validate_actions(path: Path<'_>, list: &Value, errors: &mut Errors) {
    let actions = list.items();
    let mut seen = Seen::new();
    for (index, action) in actions.iter().enumerate() {
        if !VALIDATION_ACTIONS.contains(&action.as_str()) {
            errors.not_supported(path.index(index), action, VALIDATION_ACTIONS);
        }
        if !seen.add(action.as_str()) {
            errors.duplicate(path.index(index), action);
        }
    }
    let has = |wanted: &str| actions.iter().any(|action| action.as_str() == wanted);
    if has("Deny") && has("Warn") {
        let detail = "must not contain both Deny and Warn (repeating the same validation failure information in the API \
                      response and headers serves no purpose)";
        errors.invalid(path, list, detail);
    }
    if actions.is_empty() {
        errors.required(path, "at least one validation action is required");
    }
}

fn param_ref(binding: &Value, _now: i64) -> Value {
    let reference = binding.at(&["spec", "paramRef"]);
    match (reference.str("name"), reference.str("namespace")) {
        ("", _) if reference.has("selector") => go_selector(reference.get("selector")).into(),
        ("", _) => "<unset>".into(),
        (name, "") => format!("*/{name}").into(),
        (name, namespace) => format!("{namespace}/{name}").into(),
    }
}

/// The selector as Go prints it.
fn go_selector(selector: &Value) -> String {
    let labels = selector.map("matchLabels");
    let mut pairs: Vec<String> = labels.iter().map(|(key, value)| format!("{key}: {},", value.as_str())).collect();
    pairs.sort_unstable();
    let requirements = selector.list("matchExpressions").iter().map(|requirement| {
        let values: Vec<&str> = requirement.list("values").iter().map(Value::as_str).collect();
        let (key, operator) = (requirement.str("key"), requirement.str("operator"));
        format!("LabelSelectorRequirement{{Key:{key},Operator:{operator},Values:[{}],}},", values.join(" "))
    });
    let requirements: String = requirements.collect();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{}}},MatchExpressions:[]LabelSelectorRequirement{{{requirements}}},}}",
        pairs.concat()
    )
}
