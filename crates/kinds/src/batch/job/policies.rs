//! What a job's policies say: when pods that failed count, when the job has succeeded, when pods are replaced.

use rkube_machinery::Value;
use rkube_machinery::field::{ErrorType, Errors, Path};

use super::indexes;
use super::spec::not_negative;
use crate::core::pod_spec::checks::Seen;
use crate::meta;

const RULES_MAX: usize = 20;
const EXIT_CODES_MAX: usize = 255;
const CONDITIONS_MAX: usize = 20;
const INDEXES_MAX_BYTES: usize = 64 * 1024;

const ACTIONS: &[&str] = &["Count", "FailIndex", "FailJob", "Ignore"];
const OPERATORS: &[&str] = &["In", "NotIn"];
const STATUSES: &[&str] = &["False", "True", "Unknown"];

pub(super) fn validate_failure_policy(path: Path<'_>, spec: &Value, errors: &mut Errors) {
    let path = path.child("rules");
    let rules = spec.get("podFailurePolicy").list("rules");
    if rules.len() > RULES_MAX {
        errors.too_many(path, rules.len(), RULES_MAX);
    }
    let pod = spec.at(&["template", "spec"]);
    let containers = pod.list("containers").iter().chain(pod.list("initContainers"));
    let containers = Seen::of(containers.map(|container| container.str("name")));
    for (index, rule) in rules.iter().enumerate() {
        validate_failure_rule(path.index(index), rule, spec, &containers, errors);
    }
}

pub(super) fn validate_success_policy(path: Path<'_>, spec: &Value, errors: &mut Errors) {
    let path = path.child("rules");
    let rules = spec.get("successPolicy").list("rules");
    if rules.is_empty() {
        errors.required(path, "at least one rules must be specified when the successPolicy is specified");
    }
    if rules.len() > RULES_MAX {
        errors.too_many(path, rules.len(), RULES_MAX);
    }
    for (index, rule) in rules.iter().enumerate() {
        validate_success_rule(path.index(index), rule, spec.int("completions"), errors);
    }
}

pub(super) fn validate_replacement_policy(path: Path<'_>, spec: &Value, errors: &mut Errors) {
    if !spec.has("podReplacementPolicy") {
        return;
    }
    let supported: &[&str] =
        if spec.has("podFailurePolicy") { &["Failed"] } else { &["Failed", "TerminatingOrFailed"] };
    let policy = spec.str("podReplacementPolicy");
    if !supported.contains(&policy) {
        errors.not_supported(path, policy, supported);
    }
}

fn validate_failure_rule(path: Path<'_>, rule: &Value, spec: &Value, containers: &Seen<&str>, errors: &mut Errors) {
    match rule.str("action") {
        "FailIndex" if !spec.has("backoffLimitPerIndex") => {
            errors.invalid(path.child("action"), "FailIndex", "requires the backoffLimitPerIndex to be set");
        }
        action => one_of(path.child("action"), action, ACTIONS, errors),
    }
    let (codes, conditions) = (rule.get("onExitCodes"), rule.list("onPodConditions"));
    if !codes.is_null() {
        validate_exit_codes(path.child("onExitCodes"), codes, containers, errors);
    }
    validate_conditions(path.child("onPodConditions"), conditions, errors);
    let words = match (codes.is_null(), conditions.is_empty()) {
        (false, false) => "specifying both OnExitCodes and OnPodConditions is not supported",
        (true, true) => "specifying one of OnExitCodes and OnPodConditions is required",
        _ => return,
    };
    errors.push(ErrorType::Invalid, path, None, words);
}

fn validate_exit_codes(path: Path<'_>, codes: &Value, containers: &Seen<&str>, errors: &mut Errors) {
    let operator = codes.str("operator");
    one_of(path.child("operator"), operator, OPERATORS, errors);
    if codes.has("containerName") {
        let name = codes.str("containerName");
        if !containers.has(name) {
            let words = "must be one of the container or initContainer names in the pod template";
            errors.invalid(path.child("containerName"), name, words);
        }
    }
    let path = path.child("values");
    let values = codes.list("values");
    if values.is_empty() {
        errors.invalid(path, codes.get("values"), "at least one value is required");
    } else if values.len() > EXIT_CODES_MAX {
        errors.too_many(path, values.len(), EXIT_CODES_MAX);
    }
    let mut seen = Seen::new();
    let numbers = || values.iter().map(|value| value.as_int().unwrap_or(0));
    for (index, code) in numbers().enumerate() {
        if operator == "In" && code == 0 {
            errors.invalid(path.index(index), code, "must not be 0 for the In operator");
        }
        if !seen.add(code) {
            errors.duplicate(path.index(index), code);
        }
    }
    if !numbers().is_sorted() {
        errors.invalid(path, codes.get("values"), "must be ordered");
    }
}

fn validate_conditions(path: Path<'_>, conditions: &[Value], errors: &mut Errors) {
    if conditions.len() > CONDITIONS_MAX {
        errors.too_many(path, conditions.len(), CONDITIONS_MAX);
    }
    for (index, pattern) in conditions.iter().enumerate() {
        let path = path.index(index);
        meta::validate_label_name(path.child("type"), pattern.str("type"), errors);
        one_of(path.child("status"), pattern.str("status"), STATUSES, errors);
    }
}

fn validate_success_rule(path: Path<'_>, rule: &Value, completions: i64, errors: &mut Errors) {
    let (count, list) = (rule.get("succeededCount").as_int(), rule.get("succeededIndexes"));
    if count.is_none() && list.is_null() {
        errors.required(path, "at least one of succeededCount or succeededIndexes must be specified");
    }
    let mut total = 0;
    if !list.is_null() {
        let path = path.child("succeededIndexes");
        if list.as_str().len() > INDEXES_MAX_BYTES {
            errors.too_long(path, INDEXES_MAX_BYTES);
        }
        match indexes::count(list.as_str(), completions) {
            Ok(found) => total = found,
            Err(error) => errors.invalid(path, list, format!("error parsing succeededIndexes: {error}")),
        }
    }
    let Some(count) = count else { return };
    not_negative(path, rule, "succeededCount", errors);
    let path = path.child("succeededCount");
    if count > completions {
        let words = format!("must be less than or equal to {completions} (the number of specified completions)");
        errors.invalid(path, count, words);
    }
    if !list.is_null() && count > total {
        let words = format!(
            "must be less than or equal to {total} (the number of indexes in the specified succeededIndexes field)"
        );
        errors.invalid(path, count, words);
    }
}

/// The text is there and is one of those supported.
fn one_of(path: Path<'_>, value: &str, supported: &[&str], errors: &mut Errors) {
    if value.is_empty() {
        errors.required(path, format!("valid values: [\"{}\"]", supported.join("\" \"")));
    } else if !supported.contains(&value) {
        errors.not_supported(path, value, supported);
    }
}

#[cfg(test)]
mod tests {
    use rkube_machinery::object;

    use super::*;

    const PATH: Path<'static> = Path::new("p");

    fn texts(errors: &Errors) -> Vec<String> {
        errors.0.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn failure_rules() {
        let codes = object! {
            "operator": "In", "values": vec![3.into(), 0.into(), 3.into()], "containerName": "x",
        };
        let rule = object! { "action": "FailIndex", "onExitCodes": codes };
        let spec = object! { "podFailurePolicy": object! { "rules": vec![rule, object! { "action": "X" }] } };
        let mut errors = Errors::new();
        validate_failure_policy(PATH, &spec, &mut errors);
        assert_eq!(
            texts(&errors),
            [
                "p.rules[0].action: Invalid value: \"FailIndex\": requires the backoffLimitPerIndex to be set",
                "p.rules[0].onExitCodes.containerName: Invalid value: \"x\": must be one of the container or \
                 initContainer names in the pod template",
                "p.rules[0].onExitCodes.values[1]: Invalid value: 0: must not be 0 for the In operator",
                "p.rules[0].onExitCodes.values[2]: Duplicate value: 3",
                "p.rules[0].onExitCodes.values: Invalid value: [3,0,3]: must be ordered",
                "p.rules[1].action: Unsupported value: \"X\": supported values: \"Count\", \"FailIndex\", \
                 \"FailJob\", \"Ignore\"",
                "p.rules[1]: Invalid value: specifying one of OnExitCodes and OnPodConditions is required",
            ]
        );
    }

    #[test]
    fn success_rules() {
        let rules = vec![
            Value::object(),
            object! { "succeededIndexes": "0-2", "succeededCount": 4 },
            object! { "succeededIndexes": "x", "succeededCount": Value::Int(-1) },
            object! { "succeededCount": 9 },
        ];
        let spec = object! { "completions": 5, "successPolicy": object! { "rules": rules } };
        let mut errors = Errors::new();
        validate_success_policy(PATH, &spec, &mut errors);
        assert_eq!(
            texts(&errors),
            [
                "p.rules[0]: Required value: at least one of succeededCount or succeededIndexes must be specified",
                "p.rules[1].succeededCount: Invalid value: 4: must be less than or equal to 3 (the number of indexes \
                 in the specified succeededIndexes field)",
                "p.rules[2].succeededIndexes: Invalid value: \"x\": error parsing succeededIndexes: cannot convert \
                 string to integer for index: \"x\"",
                "p.rules[2].succeededCount: Invalid value: -1: must be greater than or equal to 0",
                "p.rules[3].succeededCount: Invalid value: 9: must be less than or equal to 5 (the number of \
                 specified completions)",
            ]
        );
    }
}
