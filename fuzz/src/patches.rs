//! Patches of arbitrary documents.

use rkube_machinery::patch::{Decoding, json_patch as operations, merge_patch as merge, strategic as by_schema};
use rkube_machinery::{Map, Text, Value};

use super::documents::Choices;

pub fn json_patch(bytes: &[u8]) {
    let mut choices = Choices::new(bytes);
    let kind = choices.kind();
    let document = choices.fitting(kind, 0);
    let patch = match choices.below(8) {
        7 => choices.any(0),
        _ => Value::Array((0..choices.below(6)).map(|_| operation(&mut choices, &document)).collect()),
    };
    let _ = operations::unknown_fields(&patch);
    for decoding in [Decoding::Checked, Decoding::Lenient] {
        let mut changed = document.clone();
        let _ = operations::apply_as(&patch, &mut changed, decoding);
    }
}

pub fn merge_patch(bytes: &[u8]) {
    let mut choices = Choices::new(bytes);
    let kind = choices.kind();
    let document = choices.fitting(kind, 0);
    let patch = if choices.below(4) == 3 { choices.any(0) } else { choices.fitting(kind, 0) };
    for decoding in [Decoding::Checked, Decoding::Lenient] {
        let mut changed = document.clone();
        if merge::apply_as(&patch, &mut changed, decoding).is_ok() {
            // Not always the same again: upstream drops nulls from a list that takes the place of a list.
            let _ = merge::apply_as(&patch, &mut changed, decoding);
        }
    }
}

pub fn strategic(bytes: &[u8]) {
    let mut choices = Choices::new(bytes);
    let kind = choices.object_kind();
    let document = choices.fitting(kind, 0);
    let mut patch = choices.fitting(kind, 0);
    for _ in 0..choices.below(4) {
        directive(&mut choices, &mut patch);
    }
    if let Ok(once) = by_schema::apply(&patch, &document, kind) {
        let _ = by_schema::apply(&patch, &once, kind);
    }
}

/// An operation whose paths mostly lead somewhere.
fn operation(choices: &mut Choices<'_>, document: &Value) -> Value {
    let verb = choices.one_of(&["add", "remove", "replace", "move", "copy", "test", "", "Add"]);
    let mut entries = vec![
        (Text::new_static("op"), Value::from(verb)),
        (Text::new_static("path"), pointer(choices, document)),
        (Text::new_static("from"), pointer(choices, document)),
        (Text::new_static("value"), choices.any(3)),
    ];
    if choices.below(16) == 15 {
        entries.remove(choices.below(4));
    }
    Value::Object(Map::in_order(entries))
}

fn pointer(choices: &mut Choices<'_>, document: &Value) -> Value {
    let mut at = document;
    let mut path = String::new();
    for _ in 0..choices.below(6) {
        let step = match at {
            Value::Object(map) if !map.is_empty() && choices.below(8) != 7 => {
                let index = choices.below(map.len());
                map.keys().nth(index).map(|key| key.replace('~', "~0").replace('/', "~1")).unwrap_or_default()
            }
            Value::Array(list) if !list.is_empty() => choices.below(list.len() + 1).to_string(),
            _ => choices.one_of(&["a", "-", "-1", "0", "18446744073709551616", "~2", "", "01"]).to_owned(),
        };
        at = match at {
            Value::Array(list) => step.parse::<usize>().ok().and_then(|index| list.get(index)).unwrap_or(&Value::Null),
            other => other.get(&step),
        };
        path.push('/');
        path.push_str(&step);
    }
    if choices.below(32) == 31 { choices.any(2) } else { Value::from(path) }
}

/// Puts a directive of strategic merge patches somewhere into the patch.
fn directive(choices: &mut Choices<'_>, patch: &mut Value) {
    let key = choices.one_of(&["$patch", "$retainKeys", "$setElementOrder/", "$deleteFromPrimitiveList/"]);
    let value = match choices.below(4) {
        0 => Value::from(choices.one_of(&["replace", "delete", "merge", "x"])),
        1 => Value::Array((0..choices.below(4)).map(|_| Value::String(choices.text())).collect()),
        2 => Value::Array((0..choices.below(3)).map(|_| choices.any(4)).collect()),
        _ => choices.any(4),
    };
    match patch {
        Value::Object(map) => {
            if !map.is_empty() && choices.below(3) != 2 {
                let index = choices.below(map.len());
                if let Some((_, below)) = map.iter_mut().nth(index) {
                    return directive_at(choices, below, key, value);
                }
            }
            let field = map.keys().next().cloned().unwrap_or_default();
            map.insert(if key.ends_with('/') { format!("{key}{field}") } else { key.to_owned() }, value);
        }
        Value::Array(list) => list.push(value),
        _ => {}
    }
}

fn directive_at(choices: &mut Choices<'_>, below: &mut Value, key: &str, value: Value) {
    match below {
        Value::Object(map) => {
            let field = map.keys().next().cloned().unwrap_or_default();
            map.insert(if key.ends_with('/') { format!("{key}{field}") } else { key.to_owned() }, value);
        }
        Value::Array(list) if list.is_empty() || choices.below(3) == 0 => {
            list.push(Value::Object(Map::in_order(vec![(Text::new(key), value)])));
        }
        Value::Array(list) => {
            let index = choices.below(list.len());
            directive_at(choices, &mut list[index], key, value);
        }
        _ => {}
    }
}
