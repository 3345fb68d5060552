//! Looks for objects for which a property does not hold, and for the smallest such object.

use std::panic::{AssertUnwindSafe, catch_unwind};

use rkube_kinds::{Kind, all};
use rkube_machinery::{Map, Value, json};

use crate::generator::Random;

const SEED: u64 = 0x6b75_6265;
/// A counterexample is made smaller in at most so many steps.
const SHRINK_ATTEMPTS: usize = 2_000;

/// What a property says of some objects of a kind.
pub type Verdict = Result<(), String>;

/// Tries `cases` times for every kind the objects that `make` gives. `RKUBE_PROOF_CASES` says how often over.
pub fn for_every_kind(
    name: &str,
    cases: u64,
    make: impl Fn(&mut Random, &'static Kind) -> Vec<Value>,
    holds: impl Fn(&'static Kind, &[Value]) -> Verdict,
) {
    let times = number("RKUBE_PROOF_CASES").unwrap_or(3);
    for kind in all() {
        for case in 0..cases * times {
            try_case(name, kind, case, &make, &holds);
        }
    }
}

fn try_case(
    name: &str,
    kind: &'static Kind,
    case: u64,
    make: &impl Fn(&mut Random, &'static Kind) -> Vec<Value>,
    holds: &impl Fn(&'static Kind, &[Value]) -> Verdict,
) {
    let seed = number("RKUBE_PROOF_SEED").unwrap_or(SEED);
    let objects = make(&mut Random::new(&[name, &kind.type_name], seed.wrapping_add(case)), kind);
    let Err(first) = verdict(kind, &objects, holds) else { return };
    let (objects, why) = smallest(objects, first, &|objects| verdict(kind, objects, holds));
    let shown: Vec<String> = objects.iter().map(json::to_string).collect();
    panic!(
        "{name} does not hold for {} {} (RKUBE_PROOF_SEED={}): {why}\n{}",
        kind.api_version(),
        kind.kind,
        seed.wrapping_add(case),
        shown.join("\n")
    );
}

/// A panic is a verdict too.
fn verdict(kind: &'static Kind, objects: &[Value], holds: &impl Fn(&'static Kind, &[Value]) -> Verdict) -> Verdict {
    catch_unwind(AssertUnwindSafe(|| holds(kind, objects))).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        Err(format!(
            "panicked: {}",
            text.or_else(|| panic.downcast_ref::<&str>().map(|text| text.to_string())).unwrap_or_default()
        ))
    })
}

/// Takes away fields and items as long as the property does not hold.
fn smallest(mut objects: Vec<Value>, mut why: String, holds: &dyn Fn(&[Value]) -> Verdict) -> (Vec<Value>, String) {
    let mut attempts = 0;
    let mut position = 0;
    while attempts < SHRINK_ATTEMPTS {
        let whole = Value::Array(objects.clone());
        let Some(Value::Array(fewer)) = without(&whole, &mut position.clone()) else { break };
        attempts += 1;
        let are_objects = fewer.len() == objects.len() && fewer.iter().zip(&objects).all(is_named);
        match are_objects.then(|| holds(&fewer)) {
            Some(Err(reason)) => (objects, why) = (fewer, reason),
            _ => position += 1,
        }
    }
    (objects, why)
}

/// Whether the smaller object still says of what kind it is.
fn is_named((smaller, object): (&Value, &Value)) -> bool {
    ["apiVersion", "kind"].iter().all(|field| smaller.has(field) == object.has(field))
}

/// The value without its `position`th part, parents before children; none where there are not so many.
fn without(value: &Value, position: &mut usize) -> Option<Value> {
    match value {
        Value::Object(map) => {
            for (key, child) in map.iter() {
                let mut smaller = map.clone();
                if *position == 0 {
                    smaller.remove(key);
                    return Some(Value::Object(smaller));
                }
                *position -= 1;
                if let Some(child) = without(child, position) {
                    smaller.insert(key, child);
                    return Some(Value::Object(smaller));
                }
            }
            None
        }
        Value::Array(items) => {
            for (index, child) in items.iter().enumerate() {
                let mut smaller = items.clone();
                if *position == 0 {
                    smaller.remove(index);
                    return Some(Value::Array(smaller));
                }
                *position -= 1;
                if let Some(child) = without(child, position) {
                    smaller[index] = child;
                    return Some(Value::Array(smaller));
                }
            }
            None
        }
        _ => None,
    }
}

/// Fails where two values differ, and says where.
pub fn same(what: &str, expected: &Value, found: &Value) -> Verdict {
    match difference(expected, found, &mut String::new()) {
        Some(text) => Err(format!("{what}: {text}")),
        None => Ok(()),
    }
}

fn difference(expected: &Value, found: &Value, path: &mut String) -> Option<String> {
    let length = path.len();
    match (expected, found) {
        (Value::Object(left), Value::Object(right)) => {
            let keys = Map::keys(left).chain(right.keys().filter(|key| !left.contains(key)));
            for key in keys {
                path.push('.');
                path.push_str(key);
                let text = match (left.get(key), right.get(key)) {
                    (Some(left), Some(right)) => difference(left, right, path),
                    (left, right) => Some(differs(path, left, right)),
                };
                if text.is_some() {
                    return text;
                }
                path.truncate(length);
            }
            None
        }
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
            left.iter().zip(right).enumerate().find_map(|(index, (left, right))| {
                path.truncate(length);
                path.push_str(&format!("[{index}]"));
                difference(left, right, path)
            })
        }
        (left, right) if left == right => None,
        (left, right) => Some(differs(path, Some(left), Some(right))),
    }
}

fn differs(path: &str, expected: Option<&Value>, found: Option<&Value>) -> String {
    let show = |value: Option<&Value>| value.map_or_else(|| "nothing".to_owned(), json::to_string);
    format!("at {path}: expected {}, found {}", show(expected), show(found))
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{variable} is no number")))
}

#[test]
fn counterexamples_get_small() {
    let document = json::parse(br#"{"a":{"b":[1,{"c":2}],"d":3},"e":4}"#).unwrap();
    let holds = |objects: &[Value]| match json::to_string(&objects[0]).contains("\"c\"") {
        true => Err("has c".to_owned()),
        false => Ok(()),
    };
    let (objects, _) = smallest(vec![document], String::new(), &holds);
    assert_eq!(json::to_string(&objects[0]), r#"{"a":{"b":[{"c":2}]}}"#);
}
