//! The defaults of a schema are values of it: whoever leaves a field out must not be refused for what stands there then.

use std::sync::Arc;

use rkube_machinery::field::{self, BadValue, Errors, Path, quote};
use rkube_machinery::schema::structural::{CoerceError, Invalid, Structural};
use rkube_machinery::{Map, Value};

use super::{search, walk};
use crate::custom::rules::{BUDGET, Rules, Subject};
use crate::custom::{Validator, validate_embedded};

/// All defaults of a structural schema, which stands at `path` and is the root of an object. `document` is the schema
/// as it was written.
pub fn validate(path: Path<'_>, document: &Value, schema: &Structural, require_pruned: bool, errors: &mut Errors) {
    if !search::has_defaults(document) {
        return;
    }
    let mut root = schema.clone();
    root.extensions.embedded_resource = true;
    let validator = Validator::new(Arc::new(root));
    let root = &**validator.schema();
    let mut walk = Walk { require_pruned, budget: BUDGET, validator: &validator, errors };
    walk.schema(&path, &Place { document, schema: root, resource: root, inside_meta: false, around: None });
}

/// Whether a default has fields that are pruned.
pub fn has_unpruned(schema: &Structural) -> bool {
    let mut pruned = schema.clone();
    pruned.prune_defaults();
    pruned != *schema
}

struct Walk<'e> {
    require_pruned: bool,
    /// What rules may still cost. Once it is spent, nothing more is looked at.
    budget: i64,
    validator: &'e Validator,
    errors: &'e mut Errors,
}

/// A schema, and where it stands in that of the object around it.
#[derive(Clone, Copy)]
struct Place<'p> {
    document: &'p Value,
    schema: &'p Structural,
    /// The schema of the object.
    resource: &'p Structural,
    /// In the object's metadata, `kind` or `apiVersion`.
    inside_meta: bool,
    /// The way here from the object.
    around: Option<&'p Around<'p>>,
}

/// A value in a value.
struct Around<'p> {
    parent: Option<&'p Around<'p>>,
    /// The name of the field; none for an item of a list.
    field: Option<&'p str>,
}

impl Walk<'_> {
    fn schema(&mut self, path: &Path<'_>, place: &Place<'_>) {
        if self.budget < 0 {
            return;
        }
        let mut place = *place;
        let schema = place.schema;
        if schema.extensions.embedded_resource {
            place = Place { resource: schema, inside_meta: false, around: None, ..place };
        }
        if let Some(default) = &schema.default {
            let path = path.child("default");
            if place.inside_meta {
                self.in_metadata(path, &place, default);
            } else {
                self.value(path, &place, default);
            }
        }
        // Nothing stands in for the values of maps.
        if let Some(items) = &schema.items {
            let around = Around { parent: place.around, field: None };
            let document = place.document.get("items");
            let below = Place { document, schema: items, around: Some(&around), ..place };
            self.schema(&path.child("items"), &below);
        }
        let properties = path.child("properties");
        for (name, property) in &schema.properties {
            let is_meta = schema.extensions.embedded_resource && walk::META_FIELDS.contains(&name.as_str());
            let around = Around { parent: place.around, field: Some(name) };
            let below = Place {
                document: place.document.get("properties").get(name),
                schema: property,
                inside_meta: place.inside_meta || is_meta,
                around: Some(&around),
                ..place
            };
            self.schema(&properties.key(name), &below);
        }
    }

    /// A default in metadata is right if metadata with it is.
    fn in_metadata(&mut self, path: Path<'_>, place: &Place<'_>, default: &Value) {
        let mut object = object_around(default.clone(), place.around);
        if let Err(error) = place.resource.coerce_metadata(&mut object, true, Invalid::Refuse) {
            return self.errors.invalid(path, default, format!("must result in valid metadata: {error}"));
        }
        let mut found = Errors::new();
        validate_embedded(place.resource, &object, &mut found);
        if !found.is_empty() {
            let detail = format!("must result in valid metadata: {}", found.summary());
            return self.errors.invalid(path, default, detail);
        }
        self.checked(path, place, default);
    }

    fn value(&mut self, path: Path<'_>, place: &Place<'_>, default: &Value) {
        let (schema, is_resource) = (place.schema, place.schema.extensions.embedded_resource);
        if self.require_pruned && !schema.prune(&mut default.clone(), is_resource).is_empty() {
            self.errors.invalid(path, default, "must not have unknown fields");
        }
        let mut read = default.clone();
        if let Err(error) = schema.coerce_metadata(&mut read, is_resource, Invalid::Refuse) {
            return self.errors.0.push(below(path, refusal(error, default)));
        }
        let mut found = Errors::new();
        validate_embedded(schema, &read, &mut found);
        if found.is_empty() {
            return self.checked(path, place, &read);
        }
        self.errors.0.extend(found.0.into_iter().map(|error| below(path, error)));
    }

    /// The default as a value of its schema. Rules are asked last.
    fn checked(&mut self, path: Path<'_>, place: &Place<'_>, default: &Value) {
        let before = self.errors.len();
        let schema = place.schema;
        if walk::has_unknown_type(place.document) {
            // Structural schemas have no place for it, and no value is of it.
            let found = json_type(default);
            let detail = format!(" in body must be of type {}: {}", place.document.str("type"), quote(found));
            self.errors.type_invalid(path, BadValue::String(found.to_owned()), detail);
        }
        self.validator.validate_against(schema, default, None, path, self.errors);
        let is_resource = std::ptr::eq(schema, place.resource);
        if self.errors.len() == before
            && let Some(rules) = Rules::compile(schema, is_resource)
        {
            self.rules(path, schema, default, &rules);
        }
    }

    /// The rules must hold of the default where it was before, and where it is new.
    fn rules(&mut self, path: Path<'_>, schema: &Structural, default: &Value, rules: &Rules) {
        let mut left = self.budget;
        for old in [Some(default), None] {
            let subject = Subject { path, object: default, old, ratcheting: false };
            let verdict = rules.validate(schema, subject, self.budget);
            left = left.min(verdict.remaining);
            let is_right = verdict.errors.is_empty();
            self.errors.extend(verdict.errors);
            if !is_right {
                break;
            }
        }
        self.budget = left;
    }
}

/// The smallest object that has the value at its place.
fn object_around(value: Value, around: Option<&Around<'_>>) -> Value {
    let (mut value, mut around) = (value, around);
    while let Some(step) = around {
        value = match step.field {
            Some(name) => Value::Object(Map::in_order(vec![(name.into(), value)])),
            None => Value::Array(vec![value]),
        };
        around = step.parent;
    }
    value.set_if_absent("kind", "Validation");
    value.set_if_absent("apiVersion", "validation/v1");
    value
}

/// Why the metadata of an object in the default cannot be read.
fn refusal(error: CoerceError, default: &Value) -> field::Error {
    match error {
        CoerceError::Embedded(error) => error,
        CoerceError::Metadata(error) => {
            let mut errors = Errors::new();
            errors.invalid(Path::new("metadata"), default.get("metadata"), error.to_string());
            errors.0.swap_remove(0)
        }
    }
}

/// What is wrong in a default, seen from the schema that it stands in.
fn below(path: Path<'_>, mut error: field::Error) -> field::Error {
    let dot = if error.field.starts_with('[') { "" } else { "." };
    error.field = format!("{path}{dot}{}", error.field);
    error
}

fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Int(_) => "integer",
        Value::Float(_) | Value::Written(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
