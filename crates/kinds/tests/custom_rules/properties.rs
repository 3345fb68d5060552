//! What holds for every rule, schema and object: an answer, no panic; and whatever a rule does, its budget ends it.

use proptest::prelude::*;
use rkube_kinds::custom::rules::{BUDGET, Rules, Subject, Verdict};
use rkube_machinery::field::Path;
use rkube_machinery::schema::structural::Structural;
use rkube_machinery::{Value, json, object};

use crate::cases::definition_errors;

/// Words that make up texts which are nearly rules.
const WORDS: &[&str] = &[
    "self",
    "oldSelf",
    ".s",
    ".l",
    ".m",
    ".o",
    ".o.q",
    ".?s",
    "[0]",
    "['k']",
    "[?'k']",
    " == ",
    " + ",
    " < ",
    " && ",
    " || ",
    " ? ",
    " : ",
    " in ",
    "(",
    ")",
    ".all(x, ",
    ".map(x, x",
    ".exists_one(x, ",
    ".transformMap(k, v, v)",
    ".size()",
    ".sort()",
    ".sum()",
    ".join('')",
    ".distinct()",
    ".flatten()",
    ".hasValue()",
    ".orValue(",
    "has(self.s)",
    "type(",
    "dyn(",
    "x",
    "1",
    "'a'",
    "[",
    "]",
    "{'k': 1}",
    "!",
    "-",
    "lists.range(9)",
    "é",
];

/// A schema with all that values can be, the rules at its root, its items and its values.
fn schema(rule: &str, message: &str) -> Structural {
    let rules = || {
        let said = object! { "rule": rule, "messageExpression": message, "fieldPath": ".s" };
        Value::from(vec![said, object! { "rule": rule, "optionalOldSelf": true }])
    };
    let text = || object! { "type": "string", "nullable": true };
    let mut list = object! { "type": "array", "items": text() };
    list.get_mut("items").set("x-kubernetes-validations", rules());
    let mut named = object! {
        "type": "object",
        "properties": object! { "name": text(), "q": object! { "type": "integer" } },
    };
    named.set("x-kubernetes-validations", rules());
    let properties = object! {
        "s": text(),
        "l": list,
        "m": object! { "type": "object", "additionalProperties": text() },
        "o": named.clone(),
        "k": object! {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": vec![Value::from("name")],
            "items": named,
        },
        "d": object! { "type": "string", "format": "date-time" },
        "e": object! { "type": "object", "x-kubernetes-embedded-resource": true },
        "u": object! { "x-kubernetes-preserve-unknown-fields": true },
    };
    let document =
        object! { "type": "object", "properties": properties, "x-kubernetes-validations": rules(), "nullable": true };
    Structural::read(&document).expect("it is structural")
}

fn validate(schema: &Structural, object: &Value, old: Option<&Value>) -> Option<Verdict> {
    let subject = Subject { path: Path::ROOT, object, old, ratcheting: old.is_some() };
    Rules::compile(schema, true).map(|rules| rules.validate(schema, subject, BUDGET))
}

fn any_object() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::Int),
        any::<f64>().prop_filter("JSON has no other numbers", |number| number.is_finite()).prop_map(Value::Float),
        "[a-z0-9:TZ-]{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let key = prop::sample::select(vec!["s", "l", "m", "o", "k", "d", "e", "u", "q", "name", "metadata"]);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((key, inner), 0..6).prop_map(|entries| {
                let mut map = Value::object();
                entries.into_iter().for_each(|(key, value)| map.set(key, value));
                map
            }),
        ]
    })
}

fn any_rule() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(WORDS), 1..12).prop_map(|words| words.concat())
}

proptest! {
    // Compiling takes its time without optimization.
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_rule_gets_an_answer(rule in any_rule(), message in any_rule(), object in any_object(), old in any_object()) {
        let schema = schema(&rule, &message);
        definition_errors(&schema);
        for old in [None, Some(&old), Some(&object)] {
            let verdict = validate(&schema, &object, old).expect("there are rules");
            prop_assert!(verdict.remaining <= BUDGET);
            prop_assert!(verdict.remaining >= 0 || !(verdict.errors.is_empty() && verdict.warnings.is_empty()));
        }
    }

    /// A right rule on an object that does not fit its schema.
    #[test]
    fn any_object_gets_an_answer(object in any_object(), old in any_object()) {
        let rule = "self == oldSelf || has(self.s) && self.l.all(x, x in self.m) && self.k.exists(x, x.q > 1) && \
                    self.d < self.d && self.e.metadata.name == self.m.q && self.k + oldSelf.k == self.k";
        validate(&schema(rule, "'%s'.format([self.m])"), &object, Some(&old));
    }
}

/// None of these may take more than its budget allows, in time or in memory.
#[test]
fn the_budget_ends_every_rule() {
    let text = "a".repeat(200_000);
    let items = json::to_string(&Value::from((0..20_000).map(Value::Int).collect::<Vec<_>>()));
    let object = json::parse(format!(r#"{{"s":"{text}","i":{items},"j":{items}}}"#).as_bytes()).expect("is JSON");
    let doubled = format!("[self.i]{}.size() > 0", ".map(x, x + x)".repeat(40));
    let nested = "lists.range(1000).map(a, lists.range(1000).map(b, self.i)).flatten(2).size() > 0";
    for rule in [
        "lists.range(900000).distinct().size() > 0",
        "lists.range(9000000000).size() > 0",
        "self.s.replace('', self.s).size() > 0",
        "lists.range(9000).map(x, self.s).join(self.s).size() > 0",
        "self.i.all(x, self.i.all(y, x >= 0))",
        "self.i.all(x, size(self.j) > 0 && x in self.j)",
        "sets.contains(self.i, self.j)",
        "lists.range(900000).map(x, 1).size() > 0",
        "lists.range(900000).transformMap(i, x, x).size() > 0",
        "self.i.distinct() == self.j",
        "self.s.matches(self.s) && self.s.contains(self.s)",
        &doubled,
        nested,
    ] {
        let mut document = object! { "type": "object", "properties": object! {
            "s": object! { "type": "string" },
            "i": object! { "type": "array", "items": object! { "type": "integer" } },
            "j": object! { "type": "array", "items": object! { "type": "integer" } },
        } };
        document.set("x-kubernetes-validations", vec![object! { "rule": rule }]);
        let schema = Structural::read(&document).expect("it is structural");
        let verdict = validate(&schema, &object, None).expect("there is a rule");
        let said = verdict.errors.summary();
        assert!(said.contains("no further validation rules will be run"), "{rule}: {said}");
    }
}

/// Sets and lists of objects are told apart without comparing all with all: their cost counts none of that.
#[test]
fn large_lists_are_compared_by_their_keys() {
    let named = |at: i64| object! { "name": format!("n{at}"), "v": at };
    let list = |from: i64, to: i64| -> Value { Value::from((from..to).map(named).collect::<Vec<_>>()) };
    let set = |from: i64, to: i64| -> Value { Value::from((from..to).map(Value::Int).collect::<Vec<_>>()) };
    let reversed = |mut value: Value| {
        if let Value::Array(items) = &mut value {
            items.reverse();
        }
        value
    };
    let object = object! { "k": list(0, 20_000), "i": set(0, 20_000) };
    let old = object! { "k": reversed(list(0, 20_000)), "i": reversed(set(0, 20_000)) };
    let rules =
        ["self.k == oldSelf.k", "self.i == oldSelf.i", "(self.k + oldSelf.k).size() == 20000", "self == oldSelf"];
    let items = object! {
        "type": "object",
        "properties": object! { "name": object! { "type": "string" }, "v": object! { "type": "integer" } },
        "x-kubernetes-validations": vec![object! { "rule": "self.v == oldSelf.v" }],
    };
    let document = object! {
        "type": "object",
        "properties": object! {
            "k": object! {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": vec![Value::from("name")],
                "items": items,
            },
            "i": object! {
                "type": "array", "x-kubernetes-list-type": "set", "items": object! { "type": "integer" },
            },
        },
        "x-kubernetes-validations": rules.map(|rule| object! { "rule": rule }).to_vec(),
    };
    let schema = Structural::read(&document).expect("it is structural");
    let verdict = validate(&schema, &object, Some(&old)).expect("there are rules");
    assert_eq!(verdict.errors.summary(), "[]");
}
