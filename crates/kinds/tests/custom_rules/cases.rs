//! All cases of the table.

use rkube_kinds::custom::rules::{BUDGET, Context, Rules, Subject, TotalCost, Verdict};
use rkube_machinery::field::{Errors, Path};
use rkube_machinery::schema::ListType;
use rkube_machinery::schema::structural::Structural;
use rkube_machinery::value::Map;
use rkube_machinery::{Value, json, object};

/// What clients are told of the schema's rules: the walk that the validation of definitions makes.
pub fn definition_errors(schema: &Structural) -> (Vec<String>, u64) {
    let mut errors = Errors::new();
    let mut total = TotalCost::default();
    let spec = Path::new("spec");
    let validation = spec.child("validation");
    let root = validation.child("openAPIV3Schema");
    check(schema, Context::root(schema), root, None, &mut total, &mut errors);
    total.report(root, &mut errors);
    (texts(&errors), total.total())
}

fn check(
    schema: &Structural,
    context: Context<'_>,
    path: Path<'_>,
    uncorrelatable: Option<&str>,
    total: &mut TotalCost,
    errors: &mut Errors,
) {
    if let (Some(values), Some(context)) = (schema.map_values(), context.values()) {
        check(values, context, path.child("additionalProperties"), uncorrelatable, total, errors);
    }
    for (name, property) in &schema.properties {
        let context = context.property(name).expect("it is a property");
        check(property, context, path.child("properties").key(name), uncorrelatable, total, errors);
    }
    if let (Some(items), Some(context)) = (&schema.items, context.items()) {
        let own = path.to_string();
        let is_map = schema.extensions.list_type == Some(ListType::Map);
        let uncorrelatable = uncorrelatable.or(if is_map { None } else { Some(&own) });
        check(items, context, path.child("items"), uncorrelatable, total, errors);
    }
    if !schema.rules.is_empty() {
        context.check(path, uncorrelatable, false, total, errors);
    }
}

pub fn texts(errors: &Errors) -> Vec<String> {
    let mut texts: Vec<String> = errors.0.iter().map(ToString::to_string).collect();
    texts.sort();
    texts
}

fn wanted(case: &Value, name: &str) -> Vec<String> {
    case.list(name).iter().map(|text| text.as_str().replace("selfType", "selfType0")).collect()
}

/// What differs from what Kubernetes answers.
fn differences(base: &Value, case: &Value) -> Vec<String> {
    let mut document = case.get("schema").clone();
    let mut subject = case.get("object").clone();
    if document.is_null() {
        let mut spec = base.get("schema").clone();
        spec.set("x-kubernetes-validations", vec![object! { "rule": case.get("rule").clone() }]);
        document = object! { "type": "object", "properties": object! { "spec": spec } };
        subject = object! {
            "apiVersion": "example.com/v1",
            "kind": "X",
            "metadata": object! { "name": "o" },
            "spec": base.get("value").clone(),
        };
    }
    let schema = Structural::read(&document).expect("it is structural");
    let mut found = Vec::new();
    let mut compare = |what: &str, wanted: Vec<String>, is: Vec<String>| {
        if wanted != is {
            found.push(format!("{what}\n  wanted {wanted:#?}\n  is     {is:#?}"));
        }
    };
    let (errors, total) = definition_errors(&schema);
    if !case.bool("refused") {
        compare("crd", wanted(case, "crd"), errors);
    }
    if let Value::Int(wanted) = case.get("total") {
        compare("total", vec![wanted.to_string()], vec![total.to_string()]);
    } else if case.has("total") {
        // Larger than any integer of JSON.
        compare("total", vec!["endless".to_owned()], vec![if total > 1 << 62 { "endless" } else { "less" }.to_owned()]);
    }
    if subject.is_null() {
        return found;
    }
    let rules = Rules::compile(&schema, true);
    let old = Some(case.get("old")).filter(|old| !old.is_null());
    let budget = case.get("budget").as_int().unwrap_or(BUDGET);
    let subject = Subject { path: Path::ROOT, object: &subject, old, ratcheting: old.is_some() };
    let none = Verdict { remaining: budget, ..Verdict::default() };
    let mut verdict = rules.map_or(none, |rules| rules.validate(&schema, subject, budget));
    compare("errors", wanted(case, "errors"), texts(&verdict.errors));
    verdict.warnings.sort();
    compare("warnings", wanted(case, "warnings"), verdict.warnings);
    // What is left depends on the order of maps in some cases; those do not say it.
    if let Some(remaining) = case.get("remaining").as_int() {
        compare("remaining", vec![remaining.to_string()], vec![verdict.remaining.to_string()]);
    }
    found
}

#[test]
fn answers_are_those_of_kubernetes() {
    let table = include_str!("cases.jsonl");
    let mut cases = table.lines().map(|line| json::parse(line.as_bytes()).expect("a line is JSON"));
    let base = cases.next().expect("the first line").get("base").clone();
    assert!(matches!(base, Value::Object(Map { .. })));
    let (mut count, mut wrong) = (0, 0);
    for case in cases {
        count += 1;
        let differences = differences(&base, &case);
        if !differences.is_empty() {
            wrong += 1;
            let name = if case.has("rule") { case.str("rule").to_owned() } else { json::to_string(&case) };
            eprintln!("== {name}\n{}", differences.join("\n"));
        }
    }
    assert!(wrong == 0, "{wrong} of {count} cases differ");
    assert!(count >= 200, "the table has {count} cases");
}
