//! How the objects of a custom resource are made, changed and checked.

use std::sync::{Arc, OnceLock};

use rkube_machinery::field::{ErrorType, Errors, Path};
use rkube_machinery::patch::go_text;
use rkube_machinery::schema::structural::{Structural, sort};
use rkube_machinery::{Text, Value, names};

use crate::custom::Validator;
use crate::custom::rules::{self, Subject};
use crate::kind::{Part, Rules, ScalePaths};

/// Why rules were not evaluated.
const NOT_CHECKED: &str = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";
/// Finalizers without a domain that everybody knows.
const STANDARD_FINALIZERS: [&str; 3] = ["orphan", "foregroundDeletion", "kubernetes"];

pub struct CustomRules {
    validator: Validator,
    /// Made when an object is first written.
    rules: OnceLock<Option<rules::Rules>>,
    has_status: bool,
    scale: Option<ScalePaths>,
}

impl CustomRules {
    pub fn new(schema: Arc<Structural>, has_status: bool, scale: Option<ScalePaths>) -> CustomRules {
        CustomRules { validator: Validator::new(schema), rules: OnceLock::new(), has_status, scale }
    }

    fn schema(&self) -> &Structural {
        self.validator.schema()
    }

    /// Evaluates the rules where nothing is wrong that they could stumble over.
    fn evaluate(&self, object: &Value, old: Option<&Value>, errors: &mut Errors) {
        let compiled = self.rules.get_or_init(|| rules::Rules::compile(self.schema(), true));
        let Some(compiled) = compiled else { return };
        let blocks = |kind: ErrorType| {
            matches!(
                kind,
                ErrorType::NotSupported
                    | ErrorType::Required
                    | ErrorType::TooLong
                    | ErrorType::TooMany
                    | ErrorType::TypeInvalid
            )
        };
        if errors.0.iter().any(|error| blocks(error.kind)) {
            errors.invalid(Path::ROOT, &Value::Null, NOT_CHECKED);
            return;
        }
        let subject = Subject { path: Path::ROOT, object, old, ratcheting: old.is_some() };
        errors.0.extend(compiled.validate(self.schema(), subject, rules::BUDGET).errors.0);
    }

    fn validate_scale(&self, object: &Value, with_spec: bool, errors: &mut Errors) {
        let Some(scale) = &self.scale else { return };
        if with_spec {
            validate_replicas(object, &scale.spec_replicas, errors);
        }
        validate_replicas(object, &scale.status_replicas, errors);
        validate_selector(object, &scale.selector, errors);
    }
}

impl Rules for CustomRules {
    fn default(&self, object: &mut Value) {
        self.schema().set_defaults(object);
        sort(object);
    }

    fn prepare_create(&self, object: &mut Value) {
        if self.has_status {
            object.remove("status");
        }
        object.object_mut("metadata").set("generation", 1);
    }

    fn validate_create(&self, object: &Value, errors: &mut Errors) {
        self.validator.validate(object, None, errors);
        self.validate_scale(object, true, errors);
        self.validator.validate_embedded(object, errors);
        self.validator.validate_lists(object, None, errors);
        self.evaluate(object, None, errors);
    }

    fn prepare_update(&self, part: Part, object: &mut Value, old: &Value) {
        if part == Part::Status {
            return take_status(object, old);
        }
        if self.has_status {
            match old.as_map().get("status") {
                Some(status) => object.set("status", status.clone()),
                None => drop(object.remove("status")),
            }
        }
        sort(object);
        if differs(object, old) {
            let generation = old.get("metadata").int("generation").wrapping_add(1);
            object.object_mut("metadata").set("generation", generation);
        }
    }

    fn validate_update(&self, part: Part, object: &Value, old: &Value, errors: &mut Errors) {
        if part == Part::Status {
            self.validator.validate_status(object, Some(old), errors);
            self.validate_scale(object, false, errors);
        } else {
            self.validator.validate(object, Some(old), errors);
            self.validate_scale(object, true, errors);
            self.validator.validate_embedded(object, errors);
        }
        self.validator.validate_lists(object, Some(old), errors);
        self.evaluate(object, Some(old), errors);
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        let finalizers = |object: &Value| -> Vec<Text> {
            object.get("metadata").list("finalizers").iter().map(|name| Text::from(name.as_str())).collect()
        };
        let known = old.map(finalizers).unwrap_or_default();
        let mut added: Vec<Text> = finalizers(object).into_iter().filter(|name| !known.contains(name)).collect();
        added.sort();
        added.dedup();
        added.iter().flat_map(|name| finalizer_warnings(name)).collect()
    }
}

/// The old object with the new one's status, and with the owners of its fields.
fn take_status(object: &mut Value, old: &Value) {
    let mut sent = std::mem::replace(object, old.clone());
    match sent.remove("status") {
        Some(status) => object.set("status", status),
        None => drop(object.remove("status")),
    }
    let metadata = object.object_mut("metadata");
    match sent.object_mut("metadata").remove("managedFields") {
        Some(owners) => metadata.set("managedFields", owners),
        None => drop(metadata.remove("managedFields")),
    }
    sort(object);
}

/// Whether anything but metadata differs.
fn differs(object: &Value, old: &Value) -> bool {
    let counted = |entry: &(&Text, &Value)| entry.0 != "metadata";
    !object.as_map().iter().filter(counted).eq(old.as_map().iter().filter(counted))
}

fn validate_replicas(object: &Value, path: &[Text], errors: &mut Errors) {
    let written = written(path);
    let field = Path::new(&written);
    match find(object, path) {
        Err(why) => errors.invalid(field, 0, why),
        Ok(None) => {}
        Ok(Some(Value::Int(number))) if *number < 0 => {
            errors.invalid(field, *number, "should be a non-negative integer");
        }
        Ok(Some(Value::Int(number))) if *number > i64::from(i32::MAX) => {
            errors.invalid(field, *number, format!("should be less than or equal to {}", i32::MAX));
        }
        Ok(Some(Value::Int(_))) => {}
        Ok(Some(other)) => errors.invalid(field, 0, misfit(path, other, "int64")),
    }
}

fn validate_selector(object: &Value, path: &[Text], errors: &mut Errors) {
    let why = match find(object, path) {
        Err(why) => why,
        Ok(None | Some(Value::String(_))) => return,
        // Without a path the object itself is found.
        Ok(Some(_)) if path.is_empty() => return,
        Ok(Some(other)) => misfit(path, other, "string"),
    };
    errors.invalid(Path::new(&written(path)), "", why);
}

/// What stands at the path. On the way to it everything is a map, or nothing.
fn find<'a>(object: &'a Value, path: &[Text]) -> Result<Option<&'a Value>, String> {
    let mut value = object;
    for (index, name) in path.iter().enumerate() {
        value = match value {
            Value::Null => return Ok(None),
            Value::Object(map) => match map.get(name) {
                Some(below) => below,
                None => return Ok(None),
            },
            other => return Err(misfit(&path[..=index], other, "map[string]interface{}")),
        };
    }
    Ok(Some(value))
}

fn misfit(path: &[Text], value: &Value, expected: &str) -> String {
    let (path, value, found) = (written(path), go_text::plain(value), go_text::type_of(value));
    format!("{path} accessor error: {value} is of the type {found}, expected {expected}")
}

fn written(path: &[Text]) -> String {
    format!(".{}", path.join("."))
}

fn finalizer_warnings(name: &str) -> Vec<String> {
    let said = |why: &str| format!("metadata.finalizers: {}: {why}", rkube_machinery::field::quote(name));
    let mut warnings: Vec<String> = names::qualified_name(name).iter().map(|why| said(why)).collect();
    if !name.contains('/') && !STANDARD_FINALIZERS.contains(&name) {
        let path = if name.contains('.') { " including a path (/)" } else { "" };
        warnings.push(said(&format!(
            "prefer a domain-qualified finalizer name{path} to avoid accidental conflicts with other finalizer writers"
        )));
    }
    warnings
}
