//! Reading a body in one step gives what reading it in two gives, or nothing.

use rkube_kinds::{Kind, all};
use rkube_machinery::decode::{self, Decoded};
use rkube_machinery::{Map, Text, Value, json};

use crate::generator::{self, Random};
use crate::property::{Verdict, for_every_kind};
use crate::{examples, road};

/// How many texts are made of each object.
const TEXTS: u64 = 12;

#[test]
fn examples_are_read_in_one_step() {
    for kind in all() {
        for example in examples::of(kind) {
            for document in [&example.document, &example.decoded()] {
                let text = json::to_string(document);
                assert!(decode::direct(text.as_bytes(), kind.schema.table().unwrap()).is_some(), "not {text}");
                agrees(kind, &text).unwrap();
            }
        }
    }
}

#[test]
fn what_has_nothing_unusual_is_read_in_one_step() {
    for_every_kind(
        "one step",
        4,
        |random, kind| vec![generator::any(random, kind)],
        |kind, objects| {
            let text = json::to_string(&objects[0]);
            agrees(kind, &text)?;
            let direct = decode::direct(text.as_bytes(), kind.schema.table().unwrap());
            match direct.is_some() == road::decoded(kind, objects[0].clone()).is_ok() {
                true => Ok(()),
                false => Err("only one of the two ways takes it".to_owned()),
            }
        },
    );
}

#[test]
fn one_step_gives_what_two_steps_give() {
    for_every_kind(
        "one step or two",
        3,
        |random, kind| {
            vec![if random.one_in(2) { generator::any(random, kind) } else { generator::broken(random, kind) }]
        },
        |kind, objects| {
            let plain = json::to_string(&objects[0]);
            (0..TEXTS).try_for_each(|turn| {
                let random = &mut Random::new(&[&plain], turn);
                let mut object = objects[0].clone();
                for _ in 0..random.below(3) {
                    rearrange(random, &mut object);
                }
                let mut text = String::new();
                spell(random, &object, &mut text);
                if random.one_in(4) {
                    damage(random, &mut text);
                }
                agrees(kind, &text).map_err(|why| format!("{why}: {text}"))
            })
        },
    );
}

/// Where one step gives something, two steps give the same, down to the order of fields, and object to nothing.
fn agrees(kind: &Kind, text: &str) -> Verdict {
    let schema = kind.schema.table().unwrap();
    let Some(direct) = decode::direct(text.as_bytes(), schema) else { return Ok(()) };
    let raw = json::parse(text.as_bytes()).map_err(|error| format!("is no JSON: {error}"))?;
    let Decoded { value, strict, kept_empties } = decode::decode(raw, schema).map_err(|error| error.to_string())?;
    if !strict.is_empty() || kept_empties != direct.kept_empties {
        return Err(format!("{strict:?}, with empties: {kept_empties}"));
    }
    let (found, expected) = (json::to_string(&direct.value), json::to_string(&value));
    // What is written does not tell everything: debug output tells integers from others, and how maps are kept.
    match found == expected && format!("{:?}", direct.value) == format!("{value:?}") {
        true => Ok(()),
        false => Err(format!("expected {expected}, found {found}")),
    }
}

/// Changes which entries an object or list somewhere in the tree has: order, number, null, each other's values.
fn rearrange(random: &mut Random, value: &mut Value) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            let index = random.below(map.len());
            if !random.one_in(4) {
                return map.iter_mut().skip(index).take(1).for_each(|(_, child)| rearrange(random, child));
            }
            let mut entries: Vec<(Text, Value)> = std::mem::take(map).into_entries();
            let (other, last) = (random.below(entries.len()), entries.len() - 1);
            match random.below(6) {
                0 => drop(entries.remove(index)),
                1 => entries.push(entries[index].clone()),
                2 => entries[index].1 = Value::Null,
                3 => entries[index].1 = entries[other].1.clone(),
                4 => entries.swap(index, last),
                _ => entries.rotate_left(index),
            }
            *map = Map::in_order(entries);
        }
        Value::Array(items) if !items.is_empty() => {
            let index = random.below(items.len());
            match random.below(6) {
                0 => items.push(Value::Null),
                1 => items.clear(),
                2 => items[index] = Value::object(),
                _ => rearrange(random, &mut items[index]),
            }
        }
        Value::Object(_) | Value::Array(_) | Value::Null => *value = Value::from("x"),
        other => *other = Value::Null,
    }
}

/// Writes the tree with blanks where JSON has room for them, and now and then a letter as an escape.
fn spell(random: &mut Random, value: &Value, out: &mut String) {
    blank(random, out);
    match value {
        Value::Object(map) => {
            out.push('{');
            for (index, (key, child)) in map.iter().enumerate() {
                out.push_str(if index > 0 { "," } else { "" });
                blank(random, out);
                spell_text(random, key, out);
                blank(random, out);
                out.push(':');
                spell(random, child, out);
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for (index, child) in items.iter().enumerate() {
                out.push_str(if index > 0 { "," } else { "" });
                spell(random, child, out);
            }
            blank(random, out);
            out.push(']');
        }
        Value::String(text) => spell_text(random, text, out),
        Value::Int(number) if random.one_in(20) => out.push_str(&format!("{number}.0")),
        other => out.push_str(&json::to_string(other)),
    }
    blank(random, out);
}

fn spell_text(random: &mut Random, text: &str, out: &mut String) {
    let written = json::to_string(&Value::from(text));
    match text.chars().next() {
        Some(first) if first.is_ascii_alphanumeric() && random.one_in(40) => {
            out.push_str(&format!("\"\\u{:04x}{}", u32::from(first), &written[2..]));
        }
        _ => out.push_str(&written),
    }
}

fn blank(random: &mut Random, out: &mut String) {
    if random.one_in(30) {
        out.push_str([" ", "\n", "\t\r", "  "][random.below(4)]);
    }
}

/// Takes away a character or puts another in.
fn damage(random: &mut Random, text: &mut String) {
    let places: Vec<usize> = text.char_indices().map(|(place, _)| place).collect();
    let place = places[random.below(places.len())];
    match random.one_in(2) {
        true => drop(text.remove(place)),
        false => text.insert(place, *b"{}[]\":,\\ n0e.-\x01".get(random.below(15)).unwrap() as char),
    }
}
