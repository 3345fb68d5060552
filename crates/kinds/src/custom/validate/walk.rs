//! One schema and one value, checked in upstream's order: type, junctors, string, format, number, list, enum, object.

use rkube_machinery::field::quote;
use rkube_machinery::schema::structural::Trail;
use rkube_machinery::schema::structural::{JsonType, NestedValidation, ValueValidation};
use rkube_machinery::{Map, Text, Value, json};

use super::failure::{FAILURES_MAX, Failure, Outcome, What};
use super::node::{Node, Others};
use super::number::{self, Number};
use super::old::{OldItems, is_same};
use crate::custom::patterns::Patterns;
use crate::custom::repeats::{Identity, repeats};

pub(super) struct Walk<'a> {
    pub(super) patterns: &'a Patterns,
    /// Stops at the first failure and words none.
    pub(super) quiet: bool,
}

impl Walk<'_> {
    /// Checks a value. `old`: what it was before; failures of a value that is still the same do not count.
    pub(super) fn node(&self, node: Node<'_>, value: &Value, old: Option<&Value>, trail: &Trail<'_>) -> Outcome {
        let mut outcome = Outcome::default();
        if value.is_null() {
            self.null(node, trail, &mut outcome);
        } else {
            self.value(node, value, old, trail, &mut outcome);
        }
        if let (true, Node::Structural(schema), Some(old)) = (outcome.failed, node, old)
            && is_same(schema, old, value)
        {
            outcome.failed = false;
            outcome.failures.clear();
        }
        outcome
    }

    fn null(&self, node: Node<'_>, trail: &Trail<'_>, outcome: &mut Outcome) {
        if node.types().is_empty() || node.nullable() {
            outcome.matches += 1;
        } else {
            self.fail(outcome, || Failure::wrong_type(trail, &joined(node.types()), "null"));
        }
        if let Some(validation) = node.validation() {
            self.one_of_values(validation, &Value::Null, trail, outcome);
        }
    }

    /// Each group of checks that applies counts as one match, and so does the whole.
    fn value(&self, node: Node<'_>, value: &Value, old: Option<&Value>, trail: &Trail<'_>, outcome: &mut Outcome) {
        if !node.types().is_empty() || node.format().is_some() {
            self.json_type(node, value, trail, outcome);
            outcome.matches += 1;
        }
        let validation = node.validation();
        if let Some(validation) = validation.filter(|_| !self.is_done(outcome)) {
            self.junctors(validation, value, trail, outcome);
        }
        // The junctors themselves, the enum and the whole.
        outcome.matches += 4;
        if self.is_done(outcome) {
            return;
        }
        match value {
            Value::String(text) => self.text(node, text, trail, outcome),
            Value::Array(items) => self.list(node, items, old, trail, outcome),
            Value::Int(_) | Value::Float(_) => {
                if let Some(number) = Number::of(value) {
                    number::check(node, number, trail, &mut |failure| self.fail(outcome, failure));
                }
                outcome.matches += 2;
            }
            _ => {}
        }
        if let Some(validation) = validation.filter(|_| !self.is_done(outcome)) {
            self.one_of_values(validation, value, trail, outcome);
        }
        if let Value::Object(map) = value
            && !self.is_done(outcome)
        {
            self.object(node, map, old, trail, outcome);
            outcome.matches += 1;
        }
    }

    fn is_done(&self, outcome: &Outcome) -> bool {
        self.quiet && outcome.failed || outcome.failures.len() >= FAILURES_MAX
    }

    fn fail(&self, outcome: &mut Outcome, failure: impl FnOnce() -> Failure) {
        if self.quiet {
            outcome.failed = true;
        } else {
            outcome.add(failure());
        }
    }

    fn json_type(&self, node: Node<'_>, value: &Value, trail: &Trail<'_>, outcome: &mut Outcome) {
        let types = node.types();
        let found = match value {
            Value::Bool(_) => JsonType::Boolean,
            Value::Int(_) => JsonType::Integer,
            Value::Float(_) => JsonType::Number,
            Value::String(_) => JsonType::String,
            Value::Array(_) => JsonType::Array,
            Value::Object(_) | Value::Null | Value::Written(_) => JsonType::Object,
        };
        let fits = match value {
            Value::Float(number) if types.contains(&JsonType::Integer) && number::is_whole(*number) => true,
            Value::Int(_) if types.contains(&JsonType::Number) => true,
            _ => types.contains(&found),
        };
        let is_plain = matches!(value, Value::String(_) | Value::Array(_));
        let is_numeric = types.contains(&JsonType::Number) || types.contains(&JsonType::Integer);
        match node.format() {
            Some(format) if !is_plain && !fits => {
                // What is no number has no format.
                let kind = match value {
                    Value::Int(_) => "int64",
                    Value::Float(_) => "float64",
                    _ => "",
                };
                if kind == format.name {
                    self.fail(outcome, || Failure::wrong_type(trail, &joined(types), found.name()));
                } else {
                    self.fail(outcome, || Failure::wrong_type(trail, format.name, kind));
                }
            }
            // Left to the format itself, which looks at strings only.
            Some(_) if is_plain && !is_numeric => outcome.matches += 1,
            _ if fits => outcome.matches += 1,
            _ => self.fail(outcome, || Failure::wrong_type(trail, &joined(types), found.name())),
        }
    }

    fn junctors(&self, validation: &ValueValidation, value: &Value, trail: &Trail<'_>, outcome: &mut Outcome) {
        if !validation.any_of.is_empty() {
            self.any_of(&validation.any_of, value, trail, outcome);
        }
        if !validation.one_of.is_empty() && !self.is_done(outcome) {
            self.one_of(&validation.one_of, value, trail, outcome);
        }
        if !validation.all_of.is_empty() && !self.is_done(outcome) {
            self.all_of(&validation.all_of, value, trail, outcome);
        }
        if let Some(not) = validation.not.as_deref().filter(|_| !self.is_done(outcome)) {
            let quiet = Walk { patterns: self.patterns, quiet: true };
            if !quiet.node(Node::Nested(not), value, None, trail).failed {
                let message = || format!("{} must not validate the schema (not)", quote(&trail.validator_path()));
                self.fail(outcome, || Failure::of_all(message()));
            }
        }
    }

    fn any_of(&self, clauses: &[NestedValidation], value: &Value, trail: &Trail<'_>, outcome: &mut Outcome) {
        let mut best: Option<Outcome> = None;
        for clause in clauses {
            let result = self.node(Node::Nested(clause), value, None, trail);
            if !result.failed {
                return outcome.merge(result);
            }
            if best.as_ref().is_none_or(|best| result.matches > best.matches) {
                best = Some(result);
            }
        }
        let message = || format!("{} must validate at least one schema (anyOf)", quote(&trail.validator_path()));
        self.fail(outcome, || Failure::of_all(message()));
        best.into_iter().for_each(|best| outcome.merge(best));
    }

    fn one_of(&self, clauses: &[NestedValidation], value: &Value, trail: &Trail<'_>, outcome: &mut Outcome) {
        let mut best: Option<Outcome> = None;
        let mut first: Option<Outcome> = None;
        let mut valid = 0;
        for clause in clauses {
            let result = self.node(Node::Nested(clause), value, None, trail);
            if !result.failed {
                valid += 1;
                first.get_or_insert(result);
            } else if best.as_ref().is_none_or(|best| result.matches > best.matches) {
                best = Some(result);
            }
        }
        let found = match valid {
            0 => "Found none valid".to_owned(),
            1 => return first.into_iter().for_each(|first| outcome.merge(first)),
            _ => format!("Found {valid} valid alternatives"),
        };
        let message =
            || format!("{} must validate one and only one schema (oneOf). {found}", quote(&trail.validator_path()));
        self.fail(outcome, || Failure::of_all(message()));
        if valid == 0 {
            best.into_iter().for_each(|best| outcome.merge(best));
        }
    }

    fn all_of(&self, clauses: &[NestedValidation], value: &Value, trail: &Trail<'_>, outcome: &mut Outcome) {
        let mut valid = 0;
        for clause in clauses {
            let result = self.node(Node::Nested(clause), value, None, trail);
            valid += usize::from(!result.failed);
            outcome.merge(result);
            if self.is_done(outcome) {
                return;
            }
        }
        if valid != clauses.len() {
            let none = if valid == 0 { ". None validated" } else { "" };
            let message = || format!("{} must validate all the schemas (allOf){none}", quote(&trail.validator_path()));
            self.fail(outcome, || Failure::of_all(message()));
        }
    }

    fn text(&self, node: Node<'_>, text: &Text, trail: &Trail<'_>, outcome: &mut Outcome) {
        outcome.matches += 1;
        if let Some(validation) = node.validation() {
            self.string(validation, text, trail, outcome);
        }
        let format = node.format().and_then(|format| Some((format.name, format.text?)));
        if let Some((name, format)) = format {
            outcome.matches += 1;
            if !format.takes(text) {
                self.fail(outcome, || Failure::wrong_type(trail, name, text));
            }
        }
    }

    /// The first of these that is wrong.
    fn string(&self, validation: &ValueValidation, text: &Text, trail: &Trail<'_>, outcome: &mut Outcome) {
        let length = |bound: Option<i64>| bound.map(|bound| (bound, text.chars().count() as i64));
        if let Some((max, length)) = length(validation.max_length)
            && length > max
        {
            let words = || format!("should be at most {max} chars long");
            return self.fail(outcome, || Failure::new(trail, What::TooLong { max }, &words()));
        }
        let invalid = || What::Invalid(text.as_str().into());
        if let Some((min, length)) = length(validation.min_length)
            && length < min
        {
            let words = || format!("should be at least {min} chars long");
            return self.fail(outcome, || Failure::new(trail, invalid(), &words()));
        }
        let pattern = &validation.pattern;
        if pattern.is_empty() {
            return;
        }
        match self.patterns.get(pattern) {
            Some(Ok(compiled)) if !compiled.is_match(text) => {
                self.fail(outcome, || Failure::new(trail, invalid(), &format!("should match '{pattern}'")));
            }
            Some(Err(fault)) => {
                let words = || format!("should match '{pattern}, but pattern is invalid: {fault}'");
                self.fail(outcome, || Failure::new(trail, invalid(), &words()));
            }
            _ => {}
        }
    }

    fn list(&self, node: Node<'_>, items: &[Value], old: Option<&Value>, trail: &Trail<'_>, outcome: &mut Outcome) {
        outcome.matches += 2;
        if let Some(schema) = node.items() {
            let old_items = match node {
                Node::Structural(schema) if old.is_some() => Some(OldItems::of(schema, old)),
                _ => None,
            };
            for (index, item) in items.iter().enumerate() {
                let old = old_items.as_ref().and_then(|old_items| old_items.find(item));
                outcome.merge(self.node(schema, item, old, &trail.index(index)));
                if self.is_done(outcome) {
                    return;
                }
            }
        }
        let Some(validation) = node.validation() else { return };
        let count = items.len() as i64;
        if let Some(min) = validation.min_items.filter(|min| count < *min) {
            let words = || format!("should have at least {min} items");
            self.fail(outcome, || Failure::new(trail, What::Invalid(count.into()), &words()));
        }
        if let Some(max) = validation.max_items.filter(|max| count > *max) {
            let what = What::TooMany { actual: items.len(), max };
            self.fail(outcome, || Failure::new(trail, what, &format!("should have at most {max} items")));
        }
        if validation.unique_items && !repeats(items.iter().map(Identity::Value), items.len()).is_empty() {
            self.fail(outcome, || Failure::new(trail, What::Invalid("".into()), "shouldn't contain duplicates"));
        }
    }

    fn one_of_values(&self, validation: &ValueValidation, value: &Value, trail: &Trail<'_>, outcome: &mut Outcome) {
        let values = &validation.one_of_values;
        if values.is_empty() || values.iter().any(|allowed| is_allowed(allowed, value)) {
            return;
        }
        self.fail(outcome, || {
            let text = |value: &Value| match value {
                Value::String(text) => text.to_string(),
                other => json::to_string(other),
            };
            let supported: Vec<String> = values.iter().map(text).collect();
            let words = format!("should be one of [{}]", supported.join(" "));
            Failure::new(trail, What::NotSupported { value: value.into(), supported }, &words)
        });
    }

    fn object(&self, node: Node<'_>, map: &Map, old: Option<&Value>, trail: &Trail<'_>, outcome: &mut Outcome) {
        if let Some(validation) = node.validation() {
            self.object_size(validation, map, trail, outcome);
        }
        let properties = node.properties();
        let old_of = |name: &Text| {
            // A version is not a field that anybody changes.
            let is_type = trail.is_root() && matches!(name.as_str(), "kind" | "apiVersion");
            old.filter(|_| !is_type).and_then(|old| old.as_map().get(name))
        };
        match node.others() {
            Others::Anything => {}
            Others::Nothing => {
                for name in map.keys().filter(|name| !properties.contains(name)) {
                    if self.is_done(outcome) {
                        return;
                    }
                    let message = || format!("{}.{name} in body is a forbidden property", trail.validator_path());
                    let what = || What::Invalid(name.as_str().into());
                    self.fail(outcome, || Failure::with_message(trail, what(), message()));
                }
            }
            Others::Schema(schema) => {
                for (name, value) in map.iter().filter(|(name, _)| !properties.contains(name)) {
                    if self.is_done(outcome) {
                        return;
                    }
                    outcome.merge(self.node(schema, value, old_of(name), &trail.entry(name)));
                }
            }
        }
        for (name, schema) in (0..properties.len()).map(|index| properties.at(index)) {
            if self.is_done(outcome) {
                return;
            }
            if let Some(value) = map.get(name) {
                outcome.merge(self.node(schema, value, old_of(name), &trail.property(name)));
            }
        }
        for name in node.validation().map_or(&[][..], |validation| &validation.required) {
            if !map.contains(name) {
                self.fail(outcome, || Failure::new(&trail.entry(name), What::Required, "is required"));
            }
        }
    }

    fn object_size(&self, validation: &ValueValidation, map: &Map, trail: &Trail<'_>, outcome: &mut Outcome) {
        let count = map.len() as i64;
        if let Some(min) = validation.min_properties.filter(|min| count < *min) {
            let words = || format!("should have at least {min} properties");
            self.fail(outcome, || Failure::new(trail, What::Invalid(count.into()), &words()));
        }
        if let Some(max) = validation.max_properties.filter(|max| count > *max) {
            let what = What::TooMany { actual: map.len(), max };
            self.fail(outcome, || Failure::new(trail, what, &format!("should have at most {max} properties")));
        }
    }
}

fn joined(types: &[JsonType]) -> String {
    types.iter().map(|json_type| json_type.name()).collect::<Vec<_>>().join(",")
}

/// Whether a value of an enum is this one after Go converts it to the same type. Null is none.
fn is_allowed(allowed: &Value, value: &Value) -> bool {
    match (allowed, value) {
        (Value::Null, _) | (_, Value::Null) => false,
        (Value::Float(allowed), Value::Int(number)) => *allowed == *number as f64,
        (Value::Int(allowed), Value::Float(number)) => *allowed == number::to_int(*number),
        (Value::String(allowed), Value::Int(number)) => {
            let letter = u32::try_from(*number).ok().and_then(char::from_u32).unwrap_or(char::REPLACEMENT_CHARACTER);
            **allowed == *letter.encode_utf8(&mut [0; 4])
        }
        (allowed, value) => allowed == value,
    }
}
