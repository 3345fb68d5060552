//! What is to be said of the expressions of a policy, as pure functions.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::admissionregistration::v1::{NamedRuleWithOperations, ValidatingAdmissionPolicySpec};
use rkube_cel::Type;
use rkube_kinds::admission_expressions::{Declarations, Variables};
use serde_json::{Value, json};

use super::types::SchemaTypes;

/// No more kinds of a rule are looked at.
const KINDS_MAX: usize = 10;

/// Group, version and kind.
pub type Gvk = (String, String, String);

/// A kind and what is known of it.
pub struct Typed {
    pub kind: Gvk,
    pub object: Type,
    pub types: Arc<SchemaTypes>,
}

/// The kinds that a policy is for, where it names them. `find` says which kind a group, version and resource have.
pub fn kinds(spec: &ValidatingAdmissionPolicySpec, find: impl Fn(&str, &str, &str) -> Option<String>) -> Vec<Gvk> {
    let mut found = BTreeSet::new();
    let rules = spec.match_constraints.iter().flat_map(|constraints| constraints.resource_rules.iter().flatten());
    for rule in rules {
        let mut count = 0;
        for (group, version, resource) in named(rule) {
            if let Some(kind) = find(group, version, resource) {
                found.insert((group.to_owned(), version.to_owned(), kind));
                count += 1;
                if count == KINDS_MAX {
                    return found.into_iter().collect();
                }
            }
        }
    }
    found.into_iter().collect()
}

/// All combinations of a rule, in order; none with an asterisk, and no subresources.
fn named(rule: &NamedRuleWithOperations) -> Vec<(&str, &str, &str)> {
    let sorted = |all: &Option<Vec<String>>| {
        let mut all: Vec<String> = all.clone().unwrap_or_default();
        all.sort();
        all
    };
    let is_open = |all: &[String]| all.iter().any(|one| one.contains('*'));
    if is_open(&sorted(&rule.api_groups)) || is_open(&sorted(&rule.api_versions)) {
        return Vec::new();
    }
    fn borrowed(all: &Option<Vec<String>>) -> Vec<&str> {
        let mut all: Vec<&str> = all.iter().flatten().map(String::as_str).collect();
        all.sort_unstable();
        all
    }
    let mut combined = Vec::new();
    for group in borrowed(&rule.api_groups) {
        for version in borrowed(&rule.api_versions) {
            let resources = borrowed(&rule.resources).into_iter().filter(|resource| !resource.contains(['*', '/']));
            combined.extend(resources.map(|resource| (group, version, resource)));
        }
    }
    combined
}

/// The warnings for a policy, as they stand in its status.
pub fn warnings(spec: &ValidatingAdmissionPolicySpec, kinds: &[Typed], params: Option<&Typed>) -> Vec<Value> {
    let mut warnings = Vec::new();
    for (index, validation) in spec.validations.iter().flatten().enumerate() {
        let message = validation.message_expression.as_deref().filter(|message| !message.is_empty());
        let both = [("expression", Some(validation.expression.as_str())), ("messageExpression", message)];
        for (field, expression) in both.into_iter().filter_map(|(field, text)| Some((field, text?))) {
            let said: Vec<String> = kinds.iter().filter_map(|kind| check(spec, kind, params, expression)).collect();
            if !said.is_empty() {
                let field = format!("spec.validations[{index}].{field}");
                warnings.push(json!({ "fieldRef": field, "warning": said.join("\n") }));
            }
        }
    }
    warnings
}

/// What is wrong with an expression for objects of a kind.
fn check(
    spec: &ValidatingAdmissionPolicySpec,
    typed: &Typed,
    params: Option<&Typed>,
    expression: &str,
) -> Option<String> {
    let variables = Variables::default();
    let declarations = Declarations {
        params: spec.param_kind.is_some(),
        authorizer: true,
        composed: true,
        variables: variables.clone(),
        ..Declarations::default()
    };
    let mut environment = declarations
        .environment()
        .types(typed.types.clone())
        .variable("object", typed.object.clone())
        .variable("oldObject", typed.object.clone());
    if let Some(params) = params {
        environment = environment.types(params.types.clone()).variable("params", params.object.clone());
    }
    for variable in spec.variables.iter().flatten() {
        let of = environment.check(&variable.expression).map_or(Type::Dyn, |checked| checked.result_type().clone());
        variables.declare(&variable.name, &of);
    }
    let issues = environment.check(expression).err()?;
    let (group, version, kind) = &typed.kind;
    Some(format!("{group}/{version}, Kind={kind}: compilation failed: {issues}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document() -> Arc<Value> {
        let reference =
            |name: &str| json!({ "allOf": [{ "$ref": format!("#/components/schemas/{name}") }], "default": {} });
        let object = |properties: Value| json!({ "type": "object", "properties": properties });
        let text = json!({ "type": "string" });
        let kind = json!([{ "group": "apps", "version": "v1", "kind": "Deployment" }]);
        let mut deployment = object(json!({
            "kind": text, "apiVersion": text, "metadata": reference("Meta"), "spec": reference("Spec"),
        }));
        deployment["x-kubernetes-group-version-kind"] = kind;
        let own = json!([{ "group": "example.com", "version": "v1", "kind": "Own" }]);
        let spec = object(json!({
            "replicas": { "type": "integer" }, "created": { "type": "string", "format": "date-time" },
            "port": { "type": "string", "format": "int-or-string" }, "labels": { "type": "object", "additionalProperties": text },
            "parts": { "type": "array", "items": { "$ref": "#/components/schemas/Spec" } }, "a-b": { "type": "boolean" },
        }));
        Arc::new(json!({ "components": { "schemas": {
            "Deployment": deployment, "Meta": object(json!({ "name": text, "labels": { "type": "object", "additionalProperties": text } })),
            "Spec": spec, "Own": { "type": "object", "x-kubernetes-group-version-kind": own },
        } } }))
    }

    fn typed(group: &str, kind: &str) -> Typed {
        let (object, types) = SchemaTypes::of(document(), group, "v1", kind).unwrap();
        Typed { kind: (group.to_owned(), "v1".to_owned(), kind.to_owned()), object, types }
    }

    fn spec(spec: Value) -> ValidatingAdmissionPolicySpec {
        serde_json::from_value(spec).unwrap()
    }

    #[test]
    fn expressions_are_checked_against_the_kinds_that_they_are_for() {
        // An expression, and what is said of it.
        let table = [
            ("object.spec.replicas > 1", ""),
            ("object.spec.replicas > '1'", "found no matching overload for '_>_' applied to '(int, string)'"),
            ("'got ' + object.spec.replicas", "found no matching overload for '_+_' applied to '(string, int)'"),
            ("object.spec.replica > 1", "undefined field 'replica'"),
            ("object.metadata.labels['a'] == 'b' && object.spec.a__dash__b", ""),
            ("object.spec.port == 1 || object.spec.port == 'http'", ""),
            ("object.spec.created < timestamp('2020-01-01T00:00:00Z')", ""),
            ("object.spec.parts.all(part, part.replicas == 1)", "undefined field 'replicas'"),
            (
                "oldObject == null || oldObject.kind == 1",
                "found no matching overload for '_==_' applied to '(string, int)'",
            ),
            ("variables.twice > 1", ""),
            ("variables.twice == 'x'", "found no matching overload for '_==_' applied to '(int, string)'"),
            ("variables.wrong == 'x'", ""),
            ("params.kind == 'x' && params.metadata.name == 'y'", ""),
            ("params.metadata.name == 1", "found no matching overload for '_==_' applied to '(string, int)'"),
            ("request.operation == 'CREATE' && authorizer.path('/x').check('get').allowed()", ""),
        ];
        let variables = json!([
            { "name": "twice", "expression": "object.spec.replicas * 2" }, { "name": "wrong", "expression": "object.none" },
        ]);
        for (expression, expected) in table {
            let policy = spec(json!({
                "variables": variables, "paramKind": { "apiVersion": "example.com/v1", "kind": "Own" },
                "validations": [{ "expression": expression }],
            }));
            let params = typed("example.com", "Own");
            let found = warnings(&policy, &[typed("apps", "Deployment")], Some(&params));
            if expected.is_empty() {
                assert_eq!(found, Vec::<Value>::new(), "{expression}");
                continue;
            }
            assert_eq!(found[0]["fieldRef"], "spec.validations[0].expression");
            let text = found[0]["warning"].as_str().unwrap();
            assert!(text.starts_with("apps/v1, Kind=Deployment: compilation failed: ERROR: <input>:1:"), "{text}");
            assert!(text.contains(expected) && text.ends_with('\n'), "{text}");
        }
    }

    #[test]
    fn kinds_are_those_that_rules_name() {
        let rule = |groups: Value, versions: Value, resources: Value| json!({ "apiGroups": groups, "apiVersions": versions, "resources": resources, "operations": ["*"] });
        let many: Vec<String> = (0..20).map(|index| format!("r{index:02}")).collect();
        // A rule, and how many kinds it is for.
        let table = [
            (rule(json!(["apps"]), json!(["v1"]), json!(["deployments", "deployments/scale", "*"])), 1),
            (rule(json!(["apps", "*"]), json!(["v1"]), json!(["deployments"])), 0),
            (rule(json!(["apps"]), json!(["*"]), json!(["deployments"])), 0),
            (rule(json!(["apps"]), json!(["v1"]), json!(["unknown"])), 0),
            (rule(json!(["apps", ""]), json!(["v1", "v2"]), json!(["a", "b"])), 8),
            (rule(json!([""]), json!(["v1"]), json!(many)), 10),
        ];
        for (rule, expected) in table {
            let text = rule.to_string();
            let policy = spec(json!({ "matchConstraints": { "resourceRules": [rule] } }));
            let find = |_: &str, _: &str, resource: &str| (resource != "unknown").then(|| resource.to_owned());
            assert_eq!(kinds(&policy, find).len(), expected, "{text}");
        }
        assert_eq!(kinds(&spec(json!({})), |_, _, _| None), []);
    }
}
