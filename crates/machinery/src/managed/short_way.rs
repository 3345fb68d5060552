//! Who owns what after an update, where most entries stay as they are.
//!
//! Leases are renewed and statuses written again and again, and hardly ever does a field get another owner by that. So
//! no sets of fields are made here: the paths that changed are looked up in `fieldsV1` as it stands in the object, and
//! only entries that lose or gain a path are read and written anew. That needs entries written as we write them; where
//! one is not, nothing is done here, and the long way ([`Scene::track`]) is taken. It says what is right.

use std::borrow::Cow;
use std::cmp::Ordering;

use smallvec::SmallVec;

use super::compare::Comparison;
use super::entries::{self, Entry, UPDATERS_MAX};
use super::is_same;
use super::owners::{NEVER_OWNED, Scene};
use super::set::FieldSet;
use super::view::SchemaView;
use super::written::{Gains, has_any_but, is_as_written, stays};
use crate::json;
use crate::short_text;
use crate::value::{Text, Value};

/// Does all that is to be done, or nothing: then what the client sent as owners is given back.
pub(super) fn track<S: SchemaView>(
    scene: &Scene<'_, S>,
    live: &Value,
    new: &mut Value,
    sent: Value,
) -> Result<(), Value> {
    let Some(owned) = owned(live) else { return Err(sent) };
    let Some(before) = Before::of(scene, live, &owned, &sent) else { return Err(sent) };
    let Some(changed) = scene.changed(live, new) else { return Err(sent) };
    let Some(fates) = before.fates(&changed) else { return Err(sent) };
    entries::place(new, before.after(scene, changed, fates));
    Ok(())
}

/// What each entry of the object has, as it is written.
fn owned(live: &Value) -> Option<SmallVec<[Cow<'_, str>; 4]>> {
    let entries = live.get("metadata").list("managedFields").iter();
    let texts = entries.map(|entry| match entry.get("fieldsV1") {
        Value::Written(text) => Some(Cow::Borrowed(&**text)),
        fields @ Value::Object(_) => Some(Cow::Owned(json::to_string(fields))),
        _ => None,
    });
    texts.collect()
}

/// The owners before the write.
struct Before<'a> {
    heads: Vec<Head<'a>>,
    /// Which of them is the writer's.
    own: Option<usize>,
}

/// What becomes of an entry.
enum Fate {
    Stays,
    /// Without what it loses.
    Changes(Entry),
}

impl<'a> Before<'a> {
    /// None where the entries are not as we write them, or are not all that counts.
    fn of<S: SchemaView>(
        scene: &Scene<'_, S>,
        live: &'a Value,
        owned: &'a [Cow<'a, str>],
        sent: &Value,
    ) -> Option<Self> {
        let Value::Array(list) = live.get("metadata").get("managedFields") else { return None };
        // One may come to them without there being too many.
        if list.is_empty() || list.len() >= UPDATERS_MAX {
            return None;
        }
        let is_sent = || matches!(sent, Value::Array(sent) if is_identical_list(sent, list));
        if scene.context.subresource.is_empty() && !sent.is_null() && !is_sent() {
            return None;
        }
        let mut heads: Vec<Head<'a>> = Vec::with_capacity(list.len());
        for (entry, owned) in list.iter().zip(owned) {
            let head = Head::of(entry, owned)?;
            if !scene.is_current(head.api_version)
                || heads.iter().any(|other| head.is_same(other))
                || head.fields == "{}"
                || !is_as_written(head.fields, scene.schema)
            {
                return None;
            }
            heads.push(head);
        }
        let writer = Head::writer(scene);
        let own = heads.iter().position(|head| head.is_same(&writer));
        Some(Before { heads, own })
    }

    /// What becomes of each; none where a path cannot be looked up.
    fn fates(&self, changed: &Comparison) -> Option<Vec<Fate>> {
        let mut fates = Vec::with_capacity(self.heads.len());
        for (index, head) in self.heads.iter().enumerate() {
            let gains = match self.own == Some(index) {
                true => Gains::AllBut(Some(&NEVER_OWNED)),
                false => Gains::Nothing,
            };
            let stays = stays(head.fields, &changed.modified, gains)?
                && stays(head.fields, &changed.added, gains)?
                && stays(head.fields, &changed.removed, Gains::Nothing)?;
            if stays {
                fates.push(Fate::Stays);
                continue;
            }
            let mut entry = Entry::read(head.entry, index, true).ok()?;
            entry.subtract(&changed.modified);
            entry.subtract(&changed.added);
            entry.subtract(&changed.removed);
            fates.push(Fate::Changes(entry));
        }
        Some(fates)
    }

    /// The list after the write.
    fn after<S: SchemaView>(&self, scene: &Scene<'_, S>, changed: Comparison, fates: Vec<Fate>) -> Vec<Value> {
        let time = scene.context.time;
        let gains_any = [&changed.modified, &changed.added].iter().any(|set| has_any_but(set, Some(&NEVER_OWNED)));
        let mut gained = Some(changed).filter(|_| gains_any);
        let mut after: Vec<(Head<'_>, Value)> = Vec::with_capacity(fates.len() + 1);
        for (index, (head, fate)) in self.heads.iter().zip(fates).enumerate() {
            let mut head = *head;
            let is_renewed = gains_any && self.own == Some(index);
            match fate {
                Fate::Stays => {
                    let mut value = head.entry.clone();
                    if is_renewed {
                        gained = None;
                        head.is_in_order &= head.time.is_some();
                        head.time = Some(time);
                        value.set("time", time);
                    }
                    let value = if head.is_in_order { value } else { head.put_in_order(value) };
                    after.push((head, value));
                }
                Fate::Changes(mut entry) => {
                    if is_renewed && let Some(changed) = gained.take() {
                        entry.extend(all_gained(changed));
                        entry.time = Some(Text::new(time));
                        head.time = Some(time);
                    }
                    if !entry.fields.is_empty() {
                        after.push((head, entry.write()));
                    }
                }
            }
        }
        if let Some(changed) = gained {
            let mut entry = Entry::new(scene.context, false, all_gained(changed));
            entry.time = Some(Text::new(time));
            after.push((Head { time: Some(time), ..Head::writer(scene) }, entry.write()));
        }
        after.sort_by(|(left, _), (right, _)| left.order(right));
        after.into_iter().map(|(_, value)| value).collect()
    }
}

/// What the writer owns of a change.
fn all_gained(changed: Comparison) -> FieldSet {
    let mut own = changed.modified;
    own.extend(changed.added);
    own.subtract(&NEVER_OWNED);
    own
}

/// An entry as it stands in the object, without a look at its fields.
#[derive(Clone, Copy)]
struct Head<'a> {
    entry: &'a Value,
    manager: &'a str,
    applied: bool,
    api_version: &'a str,
    time: Option<&'a str>,
    subresource: &'a str,
    fields: &'a str,
    /// Whether what the entry says stands in the order in which we write it.
    is_in_order: bool,
}

static NO_ENTRY: Value = Value::Null;

impl<'a> Head<'a> {
    /// None where the entry would not be written with exactly what is in it.
    fn of(entry: &'a Value, owned: &'a str) -> Option<Self> {
        let Value::Object(map) = entry else { return None };
        let mut texts = [""; 6];
        let mut has_fields = false;
        let mut is_in_order = true;
        let mut next = 0;
        for (key, value) in map.iter() {
            let place = match key.as_str() {
                "manager" => 0,
                "operation" => 1,
                "apiVersion" => 2,
                "time" => 3,
                "fieldsType" => 4,
                "subresource" => 5,
                "fieldsV1" => {
                    is_in_order &= next == 5;
                    if std::mem::replace(&mut has_fields, true) {
                        return None;
                    }
                    continue;
                }
                _ => return None,
            };
            let text = value.as_str();
            if text.is_empty() || !texts[place].is_empty() {
                return None;
            }
            is_in_order &= place >= next && (place < 5 || has_fields);
            texts[place] = text;
            next = place + 1;
        }
        let [manager, operation, api_version, time, fields_type, subresource] = texts;
        let applied = match operation {
            "Apply" => true,
            "Update" => false,
            _ => return None,
        };
        if api_version.is_empty() || fields_type != "FieldsV1" {
            return None;
        }
        let time = Some(time).filter(|time| !time.is_empty());
        Some(Head { entry, manager, applied, api_version, time, subresource, fields: owned, is_in_order })
    }

    /// What the entry of who writes has.
    fn writer<S>(scene: &Scene<'a, S>) -> Self {
        let context = scene.context;
        Head {
            entry: &NO_ENTRY,
            manager: if context.manager.is_empty() { "unknown" } else { context.manager },
            applied: false,
            api_version: context.api_version,
            time: None,
            subresource: context.subresource,
            fields: "{}",
            is_in_order: true,
        }
    }

    /// As [`Entry::is_same`].
    fn is_same(&self, other: &Head<'_>) -> bool {
        short_text::same(self.manager, other.manager)
            && self.applied == other.applied
            && short_text::same(self.subresource, other.subresource)
            && (self.applied || short_text::same(self.api_version, other.api_version))
    }

    /// As entries are put in order.
    fn order(&self, other: &Head<'_>) -> Ordering {
        (other.applied.cmp(&self.applied))
            .then_with(|| self.time.cmp(&other.time))
            .then_with(|| self.manager.cmp(other.manager))
            .then_with(|| self.api_version.cmp(other.api_version))
            .then_with(|| self.subresource.cmp(other.subresource))
    }

    /// The entry as we write it.
    fn put_in_order(&self, mut value: Value) -> Value {
        let entry = Entry {
            manager: Text::new(self.manager),
            applied: self.applied,
            api_version: Text::new(self.api_version),
            subresource: Text::new(self.subresource),
            time: self.time.map(Text::new),
            fields: FieldSet::new(),
            written: value.remove("fieldsV1"),
        };
        entry.write()
    }
}

fn is_identical_list(left: &[Value], right: &[Value]) -> bool {
    left.len() == right.len() && left.iter().zip(right).all(|(left, right)| is_identical(left, right))
}

/// Whether both are the same, and in the same order.
fn is_identical(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left.iter().zip(right.iter()).all(|((left_key, left), (right_key, right))| {
                    left_key == right_key && (is_empty_map(left) && is_empty_map(right) || is_identical(left, right))
                })
        }
        (Value::Array(left), Value::Array(right)) => is_identical_list(left, right),
        _ => is_same(left, right),
    }
}

/// What most of the values in `fieldsV1` are.
#[inline]
fn is_empty_map(value: &Value) -> bool {
    matches!(value, Value::Object(map) if map.is_empty())
}
