//! Who owns what: every write leaves every field with an owner, and apply takes and leaves exactly what it should.

use rkube_kinds::Kind;
use rkube_machinery::managed::{self, FieldSet, PathElement, Reset, TableView, WriteContext};
use rkube_machinery::{Value, decode, json};

use crate::codecs::canonical;
use crate::generator::{self, Random};
use crate::leaves::{self, Leaves, describe, leaves};
use crate::property::{Verdict, for_every_kind, same};
use crate::road;

/// Fields that nobody owns: they say which object it is, or are the server's.
const NOBODYS: &[&str] =
    &["name", "namespace", "creationTimestamp", "selfLink", "uid", "generation", "managedFields", "resourceVersion"];

#[test]
fn every_field_has_an_owner() {
    for_every_kind(
        "owners after create and update",
        6,
        |random, kind| vec![generator::changed(random, kind), generator::changed(random, kind)],
        |kind, objects| {
            let mut first = canonical(kind, &objects[0])?;
            track(kind, &Value::Null, &mut first, "one", 1);
            let Some(before) = owned_leaves(kind, &first) else { return Ok(()) };
            if leaves::owners(&first).is_empty() {
                // An object without owners gets none from an update.
                return Ok(());
            }
            all_owned(&first, &before)?;

            let mut second = canonical(kind, &objects[1])?;
            track(kind, &first, &mut second, "two", 2);
            let Some(after) = owned_leaves(kind, &second) else { return Ok(()) };
            all_owned(&second, &after)?;
            nothing_else_owned(kind, &second)?;
            let owners = leaves::owners(&second);
            let owns = |manager: &str, path: &[PathElement]| owners.get(manager).is_some_and(|set| set.contains(path));
            // Who had a struct keeps it, even where another emptied it.
            let there = leaves::nodes(&first, kind.schema.table().unwrap());
            for (path, value) in after.iter().filter(|(path, _)| before.contains_key(*path) || !there.contains(*path)) {
                let (manager, other) = if before.get(path) == Some(value) { ("one", "two") } else { ("two", "one") };
                if !owns(manager, path) || owns(other, path) {
                    return Err(format!("{} should be owned by {manager} alone", describe(path)));
                }
            }
            Ok(())
        },
    );
}

#[test]
fn a_new_object_is_its_makers_either_way() {
    let quick = std::cell::Cell::new(0);
    for_every_kind(
        "owners of a new object",
        6,
        |random, kind| vec![generator::any(random, kind), generator::changed(random, kind)],
        |kind, objects| {
            for object in objects {
                let mut plain = road::decoded(kind, object.clone())?;
                kind.rules.default(&mut plain);
                let mut tracked = plain.clone();
                track(kind, &Value::Null, &mut tracked, "one", 1);
                if track_new(kind, &mut plain, "one", 1) {
                    quick.set(quick.get() + 1);
                    let (expected, found) = (json::to_string(&tracked), json::to_string(&plain));
                    if expected != found {
                        return Err(format!("expected {expected}, found {found}"));
                    }
                }
            }
            Ok(())
        },
    );
    assert!(quick.get() > 1_000, "only {} objects were plain enough", quick.get());
}

#[test]
fn nobody_owns_what_nobody_wrote() {
    for kind in rkube_kinds::all() {
        let mut object = canonical(kind, &Value::object()).unwrap();
        track(kind, &Value::Null, &mut object, "one", 1);
        let owners = object.get("metadata").get("managedFields");
        assert!(owners.is_null(), "{} {}: {owners:?}", kind.api_version(), kind.kind);
    }
}

#[test]
fn a_second_apply_changes_nothing() {
    for_every_kind(
        "a second apply",
        6,
        |random, kind| vec![config(random, kind)],
        |kind, objects| {
            let config = without_nulls(objects[0].clone());
            let spec = config.get("spec");
            if spec.has("podCIDR") && spec.list("podCIDRs").first() != Some(spec.get("podCIDR")) {
                // Of a node's two fields for one thing the server keeps one: applied again, the other differs.
                return Ok(());
            }
            let Some(once) = applied(kind, &Value::Null, &config, "one", 1)? else { return Ok(()) };
            if leaves::owners(&once).is_empty() {
                // Who applies nothing owns nothing: the next apply finds an object without owners.
                return Ok(());
            }
            let Some(mut twice) = applied(kind, &once, &config, "one", 2)? else { return Err("refused".into()) };
            managed::keep_times(&once, &mut twice);
            same("applied again", &once, &twice)
        },
    );
}

#[test]
fn appliers_keep_what_they_apply_and_no_more() {
    for_every_kind(
        "two appliers",
        8,
        |random, kind| {
            let schema = kind.schema.table().unwrap();
            let whole = config(random, kind);
            let first = leaves::some(random, &whole, schema);
            let second = leaves::some(random, &whole, schema);
            let fewer = leaves::some(random, &first, schema);
            vec![first, second, fewer]
        },
        |kind, configs| {
            let schema = kind.schema.table().unwrap();
            let wanted: Option<Vec<Leaves>> = configs.iter().map(|config| leaves(config, schema)).collect();
            let Some([first, second, fewer]) = wanted.as_deref() else { return Ok(()) };
            // Made smaller, they may no longer be parts of one object.
            let nodes: Vec<_> = configs.iter().map(|config| leaves::nodes(config, schema)).collect();
            let fits = |(path, value): (&Vec<PathElement>, &Value)| match second.get(path) {
                Some(other) => other == value,
                None => !nodes[1].contains(path),
            };
            let is_part = fewer.iter().all(|(path, value)| first.get(path) == Some(value));
            if !is_part
                || !first.iter().all(fits)
                || second.keys().any(|path| !first.contains_key(path) && nodes[0].contains(path))
            {
                return Ok(());
            }
            let live = merged(kind, &Value::Null, &configs[0], "one", 1)?;
            let live = merged(kind, &live, &configs[1], "two", 2)?;
            let both = leaves(&live, schema).ok_or("items with one identity")?;
            all_there(&both, [first, second])?;
            let live = merged(kind, &live, &configs[2], "one", 3)?;
            let rest = leaves(&live, schema).ok_or("items with one identity")?;
            all_there(&rest, [fewer, second])?;
            let dropped = first.keys().filter(|path| !fewer.contains_key(*path) && !second.contains_key(*path));
            match dropped.filter(|path| !is_nobodys(path)).find(|path| rest.contains_key(*path)) {
                Some(path) => Err(format!("{} is there, although nobody applies it", describe(path))),
                None => Ok(()),
            }
        },
    );
}

/// What a client applies: a changed example, each item of a list with an identity of its own.
fn config(random: &mut Random, kind: &'static Kind) -> Value {
    let schema = kind.schema.table().unwrap();
    for _ in 0..10 {
        let value = canonical(kind, &generator::changed(random, kind)).map(without_nulls);
        if let Ok(value) = value
            && leaves(&value, schema).is_some()
        {
            return value;
        }
    }
    without_nulls(canonical(kind, &crate::examples::of(kind)[0].document).unwrap())
}

/// The live object after an apply, without what the kind's rules make of it.
fn merged(kind: &Kind, live: &Value, config: &Value, manager: &str, second: u8) -> Result<Value, String> {
    let view = TableView::Object(kind.schema.table().unwrap());
    let (api_version, time) = (kind.api_version(), time(second));
    let context = WriteContext { manager, api_version: &api_version, kind: &kind.kind, subresource: "", time: &time };
    let applied = managed::apply(live, config, view, &context, false, Reset::Nothing, None);
    applied.map(without_nulls).map_err(|error| error.to_string())
}

/// The live object after an apply, as it is stored. None where the configuration cannot be applied.
fn applied(kind: &Kind, live: &Value, config: &Value, manager: &str, second: u8) -> Result<Option<Value>, String> {
    let Ok(value) = merged(kind, live, config, manager, second) else { return Ok(None) };
    let schema = kind.schema.table().unwrap();
    let mut value = decode::decode(value, schema).map_err(|error| error.to_string())?.value;
    kind.rules.default(&mut value);
    value.set("kind", kind.kind.clone());
    value.set("apiVersion", kind.api_version());
    decode::complete(&mut value, schema);
    Ok(Some(value))
}

/// The same for a new object, the short way; false where there is none.
fn track_new(kind: &Kind, new: &mut Value, manager: &str, second: u8) -> bool {
    let (api_version, time) = (kind.api_version(), time(second));
    let context = WriteContext { manager, api_version: &api_version, kind: &kind.kind, subresource: "", time: &time };
    let reset = kind.strategy.reset_fields.main;
    managed::track_new(new, TableView::Object(kind.schema.table().unwrap()), &context, reset)
}

/// Records who owns what after a write of the object itself.
fn track(kind: &Kind, live: &Value, new: &mut Value, manager: &str, second: u8) {
    let (api_version, time) = (kind.api_version(), time(second));
    let context = WriteContext { manager, api_version: &api_version, kind: &kind.kind, subresource: "", time: &time };
    let reset = kind.strategy.reset_fields.main;
    managed::track_update(live, new, TableView::Object(kind.schema.table().unwrap()), &context, reset, None);
}

/// The leaves that somebody should own after a write of the object itself.
fn owned_leaves(kind: &Kind, object: &Value) -> Option<Leaves> {
    let resets = match kind.strategy.reset_fields.main {
        Reset::Fields(paths) => FieldSet::of_fields(paths),
        Reset::Nothing => FieldSet::new(),
        Reset::AllBut(_) => return None,
    };
    let is_reset = |path: &[PathElement]| (1..=path.len()).any(|length| resets.contains(&path[..length]));
    // What every object has, even one without fields, nobody wrote.
    let nothing = leaves(&canonical(kind, &Value::object()).ok()?, kind.schema.table().unwrap())?;
    let mut found = leaves(object, kind.schema.table().unwrap())?;
    found.retain(|path, value| !is_nobodys(path) && !is_reset(path) && nothing.get(path) != Some(value));
    Some(found)
}

fn is_nobodys(path: &[PathElement]) -> bool {
    match path {
        [only] => only.is_field("apiVersion") || only.is_field("kind") || only.is_field("metadata"),
        [metadata, field, ..] if metadata.is_field("metadata") => NOBODYS.iter().any(|name| field.is_field(name)),
        _ => false,
    }
}

fn all_owned(object: &Value, leaves: &Leaves) -> Verdict {
    let owners = leaves::owners(object);
    match leaves.keys().find(|path| !owners.values().any(|set| set.contains(path))) {
        Some(path) => Err(format!("{} has no owner", describe(path))),
        None => Ok(()),
    }
}

/// Nobody owns what is not there.
fn nothing_else_owned(kind: &Kind, object: &Value) -> Verdict {
    let nodes = leaves::nodes(object, kind.schema.table().unwrap());
    for (manager, set) in leaves::owners(object) {
        let mut missing = None;
        set.for_each(&mut |path| {
            if !nodes.contains(path) {
                missing.get_or_insert(describe(path));
            }
        });
        if let Some(path) = missing {
            return Err(format!("{manager} owns {path}, which is not there"));
        }
    }
    Ok(())
}

fn all_there(found: &Leaves, wanted: [&Leaves; 2]) -> Verdict {
    for (path, value) in wanted.into_iter().flatten().filter(|(path, _)| !is_nobodys(path)) {
        if found.get(path) != Some(value) {
            return Err(format!("{} is lost or changed", describe(path)));
        }
    }
    Ok(())
}

fn time(second: u8) -> String {
    format!("2026-01-01T00:00:0{second}Z")
}

fn without_nulls(value: Value) -> Value {
    match value {
        Value::Array(items) => Value::Array(items.into_iter().map(without_nulls).collect()),
        Value::Object(map) => {
            let kept = map.into_entries().into_iter().filter(|(_, item)| !item.is_null());
            kept.map(|(key, item)| (key, without_nulls(item))).collect::<rkube_machinery::Map>().into()
        }
        other => other,
    }
}
