//! Defaults stay; what was accepted is accepted again; broken objects are refused the same way each time.

use std::cell::Cell;

use rkube_kinds::Kind;
use rkube_kinds::kind::Part;
use rkube_machinery::{Shape, Type, Value, decode, json};

use crate::codecs::canonical;
use crate::property::{Verdict, for_every_kind, same};
use crate::{generator, road};

#[test]
fn defaults_stay() {
    for_every_kind(
        "a second default",
        4,
        |random, kind| vec![generator::any(random, kind)],
        |kind, objects| {
            let mut value = road::decoded(kind, objects[0].clone())?;
            kind.rules.default(&mut value);
            let once = value.clone();
            kind.rules.default(&mut value);
            same("defaulted again", &once, &value)?;
            // What is stored lost its empty lists; read again, it gets no other defaults.
            decode::complete(&mut value, kind.schema.table().unwrap());
            let kept = value.clone();
            kind.rules.default(&mut value);
            decode::complete(&mut value, kind.schema.table().unwrap());
            same("stored and defaulted again", &kept, &value)
        },
    );
}

#[test]
fn published_defaults_are_filled_in() {
    for_every_kind(
        "published defaults",
        6,
        |random, kind| vec![generator::any(random, kind)],
        |kind, objects| {
            let mut value = road::decoded(kind, objects[0].clone())?;
            kind.rules.default(&mut value);
            has_defaults(&value, kind.schema.table().unwrap())
        },
    );
}

/// Whether every field for which the schema has a default that is not its zero is set.
fn has_defaults(value: &Value, schema: &'static Type) -> Verdict {
    for field in schema.json_fields() {
        let child = value.get(field.name);
        let default = field.default.filter(|text| !matches!(*text, "{}" | "\"\"" | "0" | "false" | "null"));
        if let Some(text) = default.filter(|_| child.is_null() || *child == Value::from("")) {
            return Err(format!("{}.{} should be {text}", schema.name, field.name));
        }
        match (&field.shape, child) {
            (Shape::Struct(inner), Value::Object(_)) => has_defaults(child, inner.get())?,
            (Shape::List(Shape::Struct(inner)), Value::Array(items)) => {
                items.iter().try_for_each(|item| has_defaults(item, inner.get()))?;
            }
            _ => {}
        }
    }
    Ok(())
}

#[test]
fn what_was_accepted_is_accepted_again() {
    let (tried, accepted) = (Cell::new(0), Cell::new(0));
    for_every_kind(
        "acceptance",
        8,
        |random, kind| vec![generator::changed(random, kind)],
        |kind, objects| {
            tried.set(tried.get() + 1);
            let document = without_label_keys(objects[0].clone());
            let Ok(created) = road::create(kind, road::decoded(kind, document)?) else { return Ok(()) };
            accepted.set(accepted.get() + 1);
            create_again(kind, &created)?;
            if kind.allows("update") { update_with_itself(kind, created) } else { Ok(()) }
        },
    );
    // Else the generator makes nothing that is worth looking at.
    assert!(accepted.get() * 4 > tried.get(), "only {} of {} objects are valid", accepted.get(), tried.get());
}

/// Pods with these get selectors that go with them only once: upstream refuses them the second time.
fn without_label_keys(value: Value) -> Value {
    match value {
        Value::Array(items) => Value::Array(items.into_iter().map(without_label_keys).collect()),
        Value::Object(map) => {
            let kept = map.into_entries().into_iter();
            let kept = kept.filter(|(key, _)| !matches!(key.as_str(), "matchLabelKeys" | "mismatchLabelKeys"));
            Value::Object(kept.map(|(key, item)| (key, without_label_keys(item))).collect())
        }
        other => other,
    }
}

/// A client reads the object and makes it anew somewhere else.
fn create_again(kind: &Kind, created: &Value) -> Verdict {
    let text = json::to_string(&road::served(kind, created.clone()));
    let document = json::parse(text.as_bytes()).map_err(|error| error.to_string())?;
    let again = road::create(kind, road::decoded(kind, document)?);
    let again = again.map_err(|errors| format!("refused the second time: {}", errors.summary()))?;
    same("created again", created, &again)
}

/// A client reads the object and writes it back.
fn update_with_itself(kind: &Kind, mut created: Value) -> Verdict {
    created.object_mut("metadata").set("resourceVersion", "1");
    let mut value = road::served(kind, created.clone());
    kind.rules.default(&mut value);
    let updated = road::update(kind, Part::Main, road::stored(kind, value), &created);
    let updated = updated.map_err(|errors| format!("may not be written back: {}", errors.summary()))?;
    same("written back", &created, &updated)
}

#[test]
fn broken_objects_get_the_same_answer_each_time() {
    for_every_kind(
        "answers to broken objects",
        12,
        |random, kind| vec![generator::broken(random, kind), generator::any(random, kind)],
        |kind, objects| {
            let first = answers(kind, objects);
            match answers(kind, objects) == first {
                true => Ok(()),
                false => Err(format!("not again {first:?}")),
            }
        },
    );
}

fn answers(kind: &Kind, objects: &[Value]) -> Vec<String> {
    let decoded = |document: &Value| match road::decoded(kind, document.clone()) {
        Ok(value) => Ok(value),
        // Unknown fields are dropped where a client does not ask for strictness.
        Err(error) => {
            decode::decode(document.clone(), kind.schema.table().unwrap()).map(|one| one.value).map_err(|_| error)
        }
    };
    let mut answers = Vec::new();
    let new = match decoded(&objects[0]) {
        Ok(value) => value,
        Err(error) => return vec![error],
    };
    if let Err(errors) = road::create(kind, new.clone()) {
        answers.push(errors.summary());
    }
    let Ok(mut old) = decoded(&objects[1]) else { return answers };
    old.object_mut("metadata").set("resourceVersion", "1");
    for part in [Part::Main, Part::Status] {
        if let Err(errors) = road::update(kind, part, road::stored(kind, new.clone()), &road::stored(kind, old.clone()))
        {
            answers.push(errors.summary());
        }
    }
    answers
}

/// Objects that are valid, for the properties of stored objects.
pub fn valid(random: &mut generator::Random, kind: &'static Kind) -> Value {
    for _ in 0..20 {
        let value = generator::changed(random, kind);
        if road::decoded(kind, value.clone()).is_ok_and(|value| road::create(kind, value).is_ok()) {
            return value;
        }
    }
    crate::examples::of(kind).swap_remove(0).document
}

#[test]
fn cells_are_there_for_every_object() {
    for_every_kind(
        "cells and selectable fields",
        4,
        |random, kind| vec![generator::any(random, kind)],
        |kind, objects| {
            let mut value = canonical(kind, &objects[0])?;
            kind.rules.default(&mut value);
            let stored = road::stored(kind, value);
            for column in kind.columns.iter() {
                let cell = column.cell(&stored, road::NOW);
                if matches!(cell, Value::Array(_) | Value::Object(_)) {
                    return Err(format!("{}: a cell is no list", column.name));
                }
            }
            drop(kind.selectable.values(&stored));
            Ok(())
        },
    );
}
