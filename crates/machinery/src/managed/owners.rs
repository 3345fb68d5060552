//! How a change of the object changes who owns its fields.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::compare::Comparison;
use super::element::PathElement;
use super::entries::{self, Entry};
use super::fields::collapse_atomic;
use super::set::FieldSet;
use super::view::SchemaView;
use super::{Convert, Reset, WriteContext};
use crate::value::{Text, Value};

/// What nobody owns: the object's identity and what the server keeps for itself.
pub(super) static NEVER_OWNED: LazyLock<FieldSet> = LazyLock::new(|| {
    FieldSet::of_fields(&[
        &["apiVersion"],
        &["kind"],
        &["metadata"],
        &["metadata", "name"],
        &["metadata", "namespace"],
        &["metadata", "creationTimestamp"],
        &["metadata", "selfLink"],
        &["metadata", "uid"],
        &["metadata", "clusterName"],
        &["metadata", "generation"],
        &["metadata", "managedFields"],
        &["metadata", "resourceVersion"],
    ])
});

/// A write with everything that is known of it.
pub(super) struct Scene<'a, S> {
    pub(super) schema: S,
    pub(super) context: &'a WriteContext<'a>,
    pub(super) reset: Reset<'a>,
    pub(super) convert: Option<Convert<'a, S>>,
}

/// A field that somebody else owns, and how that somebody is called.
#[derive(Clone, Debug)]
pub(super) struct Conflict {
    pub(super) identifier: String,
    pub(super) manager: String,
    pub(super) path: Vec<PathElement>,
}

pub(super) enum Refusal {
    Conflicts(Vec<Conflict>),
    /// An object does not follow the schema.
    Shape,
}

impl<S: SchemaView> Scene<'_, S> {
    /// Gives what changed to the writer; false where the objects do not follow the schema.
    pub(super) fn track(&self, live: &Value, new: &Value, entries: &mut Vec<Entry>) -> bool {
        let zero;
        let live = match live.is_null() {
            true => {
                zero = self.schema.zero();
                &zero
            }
            false => live,
        };
        self.reconcile(live, entries);
        let Ok(changed) = self.pass_on(live, new, entries, None, true) else { return false };
        let mut own = changed.modified;
        own.extend(changed.added);
        own.subtract(&NEVER_OWNED);
        if !own.is_empty() {
            let mut entry = Entry::new(self.context, false, own);
            entry.time = Some(Text::new(self.context.time));
            match entries.iter_mut().find(|other| other.is_same(&entry)) {
                Some(other) => {
                    other.extend(entry.fields);
                    other.time = entry.time;
                }
                None => entries.push(entry),
            }
        }
        entries::cap(entries);
        true
    }

    /// Takes from all but `own` what changed; without `force`, refuses to take anything.
    pub(super) fn pass_on(
        &self,
        old: &Value,
        new: &Value,
        entries: &mut Vec<Entry>,
        own: Option<&Entry>,
        force: bool,
    ) -> Result<Comparison, Refusal> {
        let changed = self.changed(old, new).ok_or(Refusal::Shape)?;
        let mut others: Vec<(Text, Option<Comparison>)> = Vec::new();
        let mut conflicts = Vec::new();
        let is_own = |entry: &Entry| own.is_some_and(|own| own.is_same(entry));
        for entry in entries.iter_mut().filter(|entry| !is_own(entry)) {
            let changed = if self.is_current(&entry.api_version) {
                Some(&changed)
            } else {
                let position = others.iter().position(|(version, _)| *version == entry.api_version);
                let position = position.unwrap_or_else(|| {
                    others.push((entry.api_version.clone(), self.changed_in(&entry.api_version, old, new)));
                    others.len() - 1
                });
                others[position].1.as_ref()
            };
            let Some(changed) = changed else {
                entry.fields = FieldSet::new();
                continue;
            };
            if !force {
                let mut touched = entry.fields.intersection(&changed.modified);
                touched.extend(entry.fields.intersection(&changed.added));
                collect(entry, &touched, &mut conflicts);
            }
            entry.subtract(&changed.modified);
            entry.subtract(&changed.added);
            entry.subtract(&changed.removed);
        }
        if !conflicts.is_empty() {
            conflicts.sort_by(|left: &Conflict, right| left.identifier.cmp(&right.identifier));
            return Err(Refusal::Conflicts(conflicts));
        }
        entries.retain(|entry| !entry.fields.is_empty());
        Ok(changed)
    }

    /// Brings the entries in line with what the schema takes as a whole, and drops versions that are gone.
    pub(super) fn reconcile(&self, live: &Value, entries: &mut Vec<Entry>) {
        // Thousands of entries may be of one version, and converting takes long.
        let mut others: HashMap<Text, Option<S>> = HashMap::new();
        entries.retain_mut(|entry| {
            let schema = match self.is_current(&entry.api_version) {
                true => Some(self.schema),
                false => *others
                    .entry(entry.api_version.clone())
                    .or_insert_with(|| self.in_version(live, &entry.api_version).map(|(_, schema)| schema)),
            };
            if schema.is_some_and(|schema| collapse_atomic(&mut entry.fields, schema)) {
                entry.written = None;
            }
            schema.is_some()
        });
    }

    /// Whether objects of that version need no conversion.
    pub(super) fn is_current(&self, version: &str) -> bool {
        version == self.context.api_version || self.convert.is_none()
    }

    pub(super) fn in_version(&self, object: &Value, version: &str) -> Option<(Value, S)> {
        match self.convert {
            Some(convert) => convert(object, version),
            None => Some((object.clone(), self.schema)),
        }
    }

    /// What the write changes, but for what it cannot; none where an object does not follow the schema.
    pub(super) fn changed(&self, old: &Value, new: &Value) -> Option<Comparison> {
        let mut changed = Comparison::of(old, new, self.schema)?;
        self.filter(&mut changed);
        Some(changed)
    }

    fn changed_in(&self, version: &str, old: &Value, new: &Value) -> Option<Comparison> {
        let (old, schema) = self.in_version(old, version)?;
        let (new, _) = self.in_version(new, version)?;
        let mut changed = Comparison::of(&old, &new, schema)?;
        self.filter(&mut changed);
        Some(changed)
    }

    fn filter(&self, changed: &mut Comparison) {
        for set in [&mut changed.added, &mut changed.modified, &mut changed.removed] {
            self.reset.filter(set);
        }
    }
}

/// Takes from the entry what nobody owns.
pub(super) fn strip(entry: &mut Entry) {
    entry.subtract(&NEVER_OWNED);
}

impl Reset<'_> {
    /// Takes the fields that are reset out of the set.
    pub(super) fn filter(&self, set: &mut FieldSet) {
        match self {
            Reset::Nothing => {}
            Reset::Fields(paths) => drop_matching(set, paths),
            Reset::AllBut(paths) => keep_matching(set, paths),
        }
    }
}

/// The paths that go on below the field of this name.
pub(super) fn below<'a>(name: &str, paths: &[&'a [&'a str]]) -> Vec<&'a [&'a str]> {
    let matches = |path: &&&[&str]| path.first().is_some_and(|step| *step == "*" || *step == name);
    paths.iter().filter(matches).map(|path| &path[1..]).collect()
}

/// The name of a field; of anything else, none that a field has.
fn name(element: &PathElement) -> &str {
    match element {
        PathElement::Field(name) => name,
        _ => "",
    }
}

fn drop_matching(set: &mut FieldSet, paths: &[&[&str]]) {
    set.nodes.retain_mut(|node| {
        let rest = below(name(&node.element), paths);
        if rest.is_empty() {
            return true;
        }
        if rest.iter().any(|path| path.is_empty()) {
            return false;
        }
        drop_matching(&mut node.below, &rest);
        node.member || !node.below.is_empty()
    });
}

fn keep_matching(set: &mut FieldSet, paths: &[&[&str]]) {
    set.nodes.retain_mut(|node| {
        let rest = below(name(&node.element), paths);
        if rest.is_empty() {
            return false;
        }
        if !rest.iter().any(|path| path.is_empty()) {
            keep_matching(&mut node.below, &rest);
        }
        node.member || !node.below.is_empty()
    });
}

fn collect(entry: &Entry, touched: &FieldSet, conflicts: &mut Vec<Conflict>) {
    if touched.is_empty() {
        return;
    }
    let (identifier, manager) = (entry.identifier(), entry.describe());
    touched.for_each(&mut |path| {
        conflicts.push(Conflict { identifier: identifier.clone(), manager: manager.clone(), path: path.to_vec() });
    });
}
