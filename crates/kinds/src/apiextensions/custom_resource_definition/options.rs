//! What a definition is held to. What an old one has that would be refused today may stay.

use std::collections::BTreeSet;

use rkube_machinery::Value;
use rkube_machinery::field::{Errors, Path};
use rkube_machinery::schema::structural::Structural;

use super::internal::{Internal, same_schema, same_selectable_fields};
use super::{conversion, defaults, is_condition_true, lists, search, selectable, walk};
use crate::custom::check_structural;

#[derive(Clone, Debug)]
pub struct DefinitionOptions<'a> {
    /// Reviews must be in a version that servers have known for long enough.
    pub require_known_review_version: bool,
    /// Scope and kind may not change: there may be objects.
    pub fixed_names: bool,
    /// Every version has a schema.
    pub require_schema: bool,
    pub require_known_types: bool,
    pub require_structural: bool,
    /// Defaults have no fields that are pruned.
    pub require_pruned_defaults: bool,
    /// The items of sets are scalars or atomic.
    pub require_atomic_sets: bool,
    /// The items of sets and maps, and the keys of maps, are never null, and keys are always there.
    pub require_set_and_map_items: bool,
    /// Versions whose schema is what it was.
    pub unchanged_schemas: BTreeSet<&'a str>,
    pub allow_invalid_bundle: bool,
    /// Versions whose selectable fields were too many and are what they were; the empty name for all versions.
    pub allow_many_selectable: BTreeSet<&'a str>,
}

impl<'a> DefinitionOptions<'a> {
    pub fn of_new() -> DefinitionOptions<'a> {
        DefinitionOptions {
            require_known_review_version: true,
            fixed_names: false,
            require_schema: true,
            require_known_types: true,
            require_structural: true,
            require_pruned_defaults: true,
            require_atomic_sets: true,
            require_set_and_map_items: true,
            unchanged_schemas: BTreeSet::new(),
            // Nobody calls the webhook yet.
            allow_invalid_bundle: true,
            allow_many_selectable: BTreeSet::new(),
        }
    }

    pub fn of_update(new: &Internal<'a>, old: &Value, old_spec: &Internal<'a>) -> DefinitionOptions<'a> {
        let none = |mut found: fn(&Value) -> bool| !old_spec.schemas().any(|schema| search::any(schema, &mut found));
        DefinitionOptions {
            require_known_review_version: conversion::requires_known_review_version(old_spec.spec),
            fixed_names: is_condition_true(old, "Established"),
            require_schema: old_spec.missing_schemas().next().is_none(),
            require_known_types: none(walk::has_unknown_type),
            require_structural: !old_spec.schemas().any(is_unstructured),
            require_pruned_defaults: !old_spec.schemas().any(has_unpruned_defaults),
            require_atomic_sets: none(lists::has_items_of_parts),
            require_set_and_map_items: none(|schema| {
                let mut errors = Errors::new();
                lists::validate_set_and_map_items(Path::ROOT, schema, &mut errors);
                !errors.is_empty()
            }),
            allow_invalid_bundle: conversion::allows_invalid_bundle(old),
            allow_many_selectable: selectable_as_before(new, old_spec),
            unchanged_schemas: unchanged_schemas(new, old_spec),
        }
    }
}

fn unchanged_schemas<'a>(new: &Internal<'a>, old: &Internal<'a>) -> BTreeSet<&'a str> {
    let names = new.versions.iter().map(|version| version.value.str("name"));
    let is_unchanged = |name: &&str| match (new.schema_of(name), old.schema_of(name)) {
        (Some(new), Some(old)) => same_schema(new, old),
        _ => false,
    };
    names.filter(is_unchanged).collect()
}

fn selectable_as_before<'a>(new: &Internal<'a>, old: &Internal<'a>) -> BTreeSet<&'a str> {
    let stays =
        |new: &Value, old: &Value| old.items().len() > selectable::FIELDS_MAX && same_selectable_fields(new, old);
    let mut names = BTreeSet::new();
    if stays(new.shared.selectable_fields, old.shared.selectable_fields) {
        names.insert("");
    }
    for version in &new.versions {
        let name = version.value.str("name");
        // Of several versions of a name upstream finds the last one.
        let before = old.versions.iter().rfind(|candidate| candidate.value.str("name") == name);
        if before.is_some_and(|old| stays(version.parts.selectable_fields, old.parts.selectable_fields)) {
            names.insert(name);
        }
    }
    names
}

/// Whether the schema is not structural.
fn is_unstructured(schema: &Value) -> bool {
    Structural::read(schema).is_err() || !check_structural(schema, Path::ROOT).is_empty()
}

/// Whether a default of the structural schema has fields that are pruned.
fn has_unpruned_defaults(schema: &Value) -> bool {
    if !search::has_defaults(schema) || is_unstructured(schema) {
        return false;
    }
    Structural::read(schema).is_ok_and(|structural| defaults::has_unpruned(&structural))
}
