//! Whether a schema is structural: the rules, and what is wrong in upstream's words.
//!
//! Works on the definition's own JSON and not on [`Structural`](super::Structural), which has no place for types that
//! do not exist and for descriptions where there must be none.
//!
//! What holds: every value has one shape, said outside of `allOf`, `anyOf`, `oneOf` and `not`. These may only say more
//! of values whose shape is known, and never anything of metadata.

use crate::field::{Errors, Path};
use crate::value::Value;

/// What is wrong with a pattern in Go's words; none: nothing is.
pub type PatternFault<'a> = &'a dyn Fn(&str) -> Option<String>;

/// All that keeps the schema from being structural, in upstream's order. The schema must have been
/// [read](super::Structural::read): that bounds its depth.
pub fn check(document: &Value, path: Path<'_>, pattern_fault: PatternFault<'_>) -> Errors {
    let mut check = Check { errors: Errors::new(), pattern_fault };
    check.shape(document, Level::Root, &path);
    check.completeness(document, Some(document), &path, &path);
    check.errors.0.sort_by_cached_key(ToString::to_string);
    check.errors
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

struct Check<'a> {
    errors: Errors,
    pattern_fault: PatternFault<'a>,
}

impl Check<'_> {
    /// A schema outside of logical junctors.
    fn shape(&mut self, schema: &Value, level: Level, path: &Path<'_>) {
        let json_type = schema.str("type");
        if json_type == "array" && !schema.has("items") {
            self.errors.required(path.child("items"), "must be specified");
        }
        if let Some(items) = sub_schema(schema, "items") {
            self.shape(items, Level::Item, &path.child("items"));
        }
        for (name, property) in schema.map("properties").iter() {
            self.shape(property, Level::Field, &path.child("properties").key(name));
        }
        if schema.has("additionalProperties") {
            let here = path.child("additionalProperties");
            if level == Level::Root {
                self.errors.forbidden(here, "must not be used at the root");
            }
            if let Some(values) = sub_schema(schema, "additionalProperties") {
                self.shape(values, Level::Field, &here);
            }
        }
        self.extensions(schema, path);
        let skip_any_of = is_int_or_string(schema.list("anyOf"));
        let skip_first = schema.list("allOf").first().is_some_and(|first| is_int_or_string(first.list("anyOf")));
        self.value_validation(schema, skip_any_of, skip_first, path);
        self.json_type(schema, level, path);
        self.metadata(schema, level, path);
        let embedded = schema.bool("x-kubernetes-embedded-resource");
        let preserving = schema.bool("x-kubernetes-preserve-unknown-fields");
        if embedded && !preserving && schema.map("properties").is_empty() {
            let words = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
            self.errors.required(path.child("properties"), words);
        }
    }

    fn extensions(&mut self, schema: &Value, path: &Path<'_>) {
        if !schema.bool("x-kubernetes-int-or-string") {
            return;
        }
        for extension in ["x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"] {
            if schema.bool(extension) {
                let words = "must be false if x-kubernetes-int-or-string is true";
                self.errors.invalid(path.child(extension), true, words);
            }
        }
    }

    fn json_type(&mut self, schema: &Value, level: Level, path: &Path<'_>) {
        let json_type = schema.str("type");
        let here = path.child("type");
        let embedded = schema.bool("x-kubernetes-embedded-resource");
        let shapeless =
            schema.bool("x-kubernetes-int-or-string") || schema.bool("x-kubernetes-preserve-unknown-fields");
        if embedded && json_type != "object" {
            let words = "must be object if x-kubernetes-embedded-resource is true";
            match json_type {
                "" => self.errors.required(here, words),
                other => self.errors.invalid(here, other, words),
            }
        } else if json_type.is_empty() && !shapeless {
            let words = match level {
                Level::Root => "must not be empty at the root",
                Level::Item => "must not be empty for specified array items",
                Level::Field => "must not be empty for specified object fields",
            };
            self.errors.required(here, words);
        }
        if embedded && schema.has("additionalProperties") {
            let words = "must not be used if x-kubernetes-embedded-resource is set";
            self.errors.forbidden(path.child("additionalProperties"), words);
        }
        if level == Level::Root && !matches!(json_type, "" | "object") {
            self.errors.invalid(here, json_type, "must be object at the root");
        }
    }

    /// What an object may say of its own `kind`, `apiVersion` and `metadata`.
    fn metadata(&mut self, schema: &Value, level: Level, path: &Path<'_>) {
        let is_object = level == Level::Root || schema.bool("x-kubernetes-embedded-resource");
        let properties = path.child("properties");
        for (name, expected) in [("kind", "string"), ("apiVersion", "string"), ("metadata", "object")] {
            let Some(property) = schema.map("properties").get(name) else { continue };
            let here = properties.key(name);
            if is_object && property.str("type") != expected {
                let words = format!("must be {expected}");
                self.errors.invalid(here.child("type"), property.str("type"), words);
            }
            if name == "metadata" && level == Level::Root && says_more_than_names(property) {
                let words =
                    "must not specify anything other than name and generateName, but metadata is implicitly specified";
                self.errors.forbidden(here, words);
            }
        }
    }

    fn value_validation(&mut self, schema: &Value, skip_any_of: bool, skip_first_all_of: bool, path: &Path<'_>) {
        for junctor in ["anyOf", "allOf", "oneOf"] {
            if junctor == "anyOf" && skip_any_of {
                continue;
            }
            for (index, clause) in schema.list(junctor).iter().enumerate() {
                let skip_any_of = junctor == "allOf" && skip_first_all_of && index == 0;
                self.nested(clause, skip_any_of, &path.child(junctor).index(index));
            }
        }
        if schema.has("not") {
            self.nested(schema.get("not"), false, &path.child("not"));
        }
        let pattern = schema.str("pattern");
        if let Some(fault) = Some(pattern).filter(|it| !it.is_empty()).and_then(|it| (self.pattern_fault)(it)) {
            let words = format!("must be a valid regular expression, but isn't: {fault}");
            self.errors.invalid(path.child("pattern"), pattern, words);
        }
    }

    /// A schema below a logical junctor.
    fn nested(&mut self, schema: &Value, skip_any_of: bool, path: &Path<'_>) {
        self.value_validation(schema, skip_any_of, false, path);
        if let Some(items) = sub_schema(schema, "items") {
            self.nested(items, false, &path.child("items"));
        }
        for (name, property) in schema.map("properties").iter() {
            self.nested(property, false, &path.child("properties").key(name));
        }
        for (field, state) in FORBIDDEN {
            // `additionalProperties: false` counts as nothing, a default of false does not.
            if is_set(schema.get(field), state) || field == "default" && schema.has(field) {
                self.errors.forbidden(path.child(field), format!("must be {state} to be structural"));
            }
        }
        if schema.map("properties").contains("metadata") {
            let words = "must not be specified in a nested context";
            self.errors.forbidden(path.child("properties").key("metadata"), words);
        }
    }

    /// What `clauses` says of values must be of values that `schema`, at `path`, has.
    fn completeness(&mut self, clauses: &Value, schema: Option<&Value>, path: &Path<'_>, at: &Path<'_>) {
        if clauses.has("not") {
            self.clause(clauses.get("not"), schema, path, &at.child("not"));
        }
        for junctor in ["allOf", "anyOf", "oneOf"] {
            for (index, clause) in clauses.list(junctor).iter().enumerate() {
                self.clause(clause, schema, path, &at.child(junctor).index(index));
            }
        }
    }

    fn clause(&mut self, clause: &Value, schema: Option<&Value>, path: &Path<'_>, at: &Path<'_>) {
        let Some(schema) = schema else {
            self.errors.required(*path, format!("because it is defined in {at}"));
            return;
        };
        self.completeness(clause, Some(schema), path, at);
        if let Some(items) = sub_schema(clause, "items") {
            self.clause(items, sub_schema(schema, "items"), &path.child("items"), &at.child("items"));
        }
        let (properties, properties_at) = (path.child("properties"), at.child("properties"));
        for (name, property) in clause.map("properties").iter() {
            let counterpart = schema.map("properties").get(name);
            self.clause(property, counterpart, &properties.key(name), &properties_at.key(name));
        }
    }
}

/// What must not stand below a logical junctor, and what it must be instead.
const FORBIDDEN: [(&str, &str); 13] = [
    ("type", "empty"),
    ("additionalProperties", "undefined"),
    ("default", "undefined"),
    ("title", "empty"),
    ("description", "empty"),
    ("nullable", "false"),
    ("x-kubernetes-preserve-unknown-fields", "false"),
    ("x-kubernetes-embedded-resource", "false"),
    ("x-kubernetes-int-or-string", "false"),
    ("x-kubernetes-list-map-keys", "empty"),
    ("x-kubernetes-list-type", "undefined"),
    ("x-kubernetes-map-type", "undefined"),
    ("x-kubernetes-validations", "empty"),
];

fn is_set(value: &Value, must_be: &str) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(false) => false,
        _ if must_be == "undefined" => true,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => true,
    }
}

fn sub_schema<'a>(schema: &'a Value, field: &str) -> Option<&'a Value> {
    Some(schema.get(field)).filter(|below| matches!(below, Value::Object(_)))
}

/// The one use of `type` below a junctor: an integer or a string.
fn is_int_or_string(clauses: &[Value]) -> bool {
    let [first, second] = clauses else { return false };
    let is = |clause: &Value, json_type: &str| clause.str("type") == json_type && clause.as_map().len() == 1;
    is(first, "integer") && is(second, "string")
}

/// Of an object's own metadata a schema may say what its names are like and nothing else.
fn says_more_than_names(metadata: &Value) -> bool {
    metadata.as_map().iter().any(|(field, value)| match field.as_str() {
        "type" | "default" => false,
        "properties" => {
            let others = value.as_map().keys().filter(|name| !matches!(name.as_str(), "name" | "generateName"));
            others.count() > 0
        }
        "not" | "items" | "additionalProperties" | "externalDocs" | "example" => !value.is_null(),
        _ => !value.is_empty() || matches!(value, Value::Int(_) | Value::Float(_)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;
    use crate::schema::structural::Structural;

    fn findings(text: &str) -> Vec<String> {
        let document = json::parse(text.as_bytes()).unwrap();
        Structural::read(&document).unwrap();
        let fault = |pattern: &str| (pattern == "(").then(|| "error parsing regexp: missing closing ): `(`".to_owned());
        check(&document, Path::new("s"), &fault).0.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn structural_schemas_pass() {
        for schema in [
            r#"{"type":"object"}"#,
            r#"{"type":"object","properties":{"kind":{"type":"string"},"apiVersion":{"type":"string"},
                "metadata":{"type":"object","properties":{"name":{"type":"string","maxLength":3}}},
                "port":{"x-kubernetes-int-or-string":true,"anyOf":[{"type":"integer"},{"type":"string"}]},
                "other":{"x-kubernetes-int-or-string":true,
                         "allOf":[{"anyOf":[{"type":"integer"},{"type":"string"}]},{"pattern":"a"}]},
                "any":{"x-kubernetes-preserve-unknown-fields":true},
                "pod":{"type":"object","x-kubernetes-embedded-resource":true,
                       "x-kubernetes-preserve-unknown-fields":true},
                "map":{"type":"object","additionalProperties":{"type":"string"}},
                "list":{"type":"array","items":{"type":"string"}}},
                "anyOf":[{"required":["port"]},{"properties":{"list":{"items":{"maxLength":3}}}}],
                "not":{"properties":{"map":{"additionalProperties":false}}}}"#,
        ] {
            assert_eq!(findings(schema), Vec::<String>::new(), "{schema}");
        }
    }

    #[test]
    fn what_is_not_structural_is_worded_as_upstream_words_it() {
        let cases: &[(&str, &[&str])] = &[
            (r#"{}"#, &["s.type: Required value: must not be empty at the root"]),
            (
                r#"{"type":"array"}"#,
                &[
                    "s.items: Required value: must be specified",
                    "s.type: Invalid value: \"array\": must be object at the root",
                ],
            ),
            (
                r#"{"type":"object","additionalProperties":true}"#,
                &["s.additionalProperties: Forbidden: must not be used at the root"],
            ),
            (
                r#"{"type":"object","properties":{"b":{"type":"array","items":{}},"a":{},
                 "m":{"type":"object","additionalProperties":{}}}}"#,
                &[
                    "s.properties[a].type: Required value: must not be empty for specified object fields",
                    "s.properties[b].items.type: Required value: must not be empty for specified array items",
                    "s.properties[m].additionalProperties.type: Required value: must not be empty for specified object fields",
                ],
            ),
            (r#"{"type":"object","properties":{"a":{"type":"int"}}}"#, &[]),
            (
                r#"{"type":"object","properties":{"a":{"x-kubernetes-int-or-string":true,
                 "x-kubernetes-preserve-unknown-fields":true,"x-kubernetes-embedded-resource":true}}}"#,
                &[
                    "s.properties[a].type: Required value: must be object if x-kubernetes-embedded-resource is true",
                    "s.properties[a].x-kubernetes-embedded-resource: Invalid value: true: must be false if x-kubernetes-int-or-string is true",
                    "s.properties[a].x-kubernetes-preserve-unknown-fields: Invalid value: true: must be false if x-kubernetes-int-or-string is true",
                ],
            ),
            (
                r#"{"type":"object","properties":{"e":{"type":"string","x-kubernetes-embedded-resource":true,
                 "additionalProperties":false}}}"#,
                &[
                    "s.properties[e].additionalProperties: Forbidden: must not be used if x-kubernetes-embedded-resource is set",
                    "s.properties[e].properties: Required value: must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields",
                    "s.properties[e].type: Invalid value: \"string\": must be object if x-kubernetes-embedded-resource is true",
                ],
            ),
            (
                r#"{"type":"object","properties":{"kind":{"type":"integer"},"apiVersion":{"type":"object"},
                 "metadata":{"type":"string","properties":{"labels":{"type":"object"}}}}}"#,
                &[
                    "s.properties[apiVersion].type: Invalid value: \"object\": must be string",
                    "s.properties[kind].type: Invalid value: \"integer\": must be string",
                    "s.properties[metadata].type: Invalid value: \"string\": must be object",
                    "s.properties[metadata]: Forbidden: must not specify anything other than name and generateName, but metadata is implicitly specified",
                ],
            ),
            (
                r#"{"type":"object","properties":{"metadata":{"type":"object","description":"d"}}}"#,
                &[
                    "s.properties[metadata]: Forbidden: must not specify anything other than name and generateName, but metadata is implicitly specified",
                ],
            ),
            (
                r#"{"type":"object","properties":{"a":{"type":"string","pattern":"("}}}"#,
                &[
                    "s.properties[a].pattern: Invalid value: \"(\": must be a valid regular expression, but isn't: error parsing regexp: missing closing ): `(`",
                ],
            ),
            (
                r#"{"type":"object","anyOf":[{"type":"object","title":"t","description":"d","nullable":true,"default":false,
                 "additionalProperties":true,"x-kubernetes-preserve-unknown-fields":true,
                 "x-kubernetes-embedded-resource":true,"x-kubernetes-int-or-string":true,
                 "x-kubernetes-list-map-keys":["a"],"x-kubernetes-list-type":"set","x-kubernetes-map-type":"atomic",
                 "x-kubernetes-validations":[{"rule":"true"}]}]}"#,
                &[
                    "s.anyOf[0].additionalProperties: Forbidden: must be undefined to be structural",
                    "s.anyOf[0].default: Forbidden: must be undefined to be structural",
                    "s.anyOf[0].description: Forbidden: must be empty to be structural",
                    "s.anyOf[0].nullable: Forbidden: must be false to be structural",
                    "s.anyOf[0].title: Forbidden: must be empty to be structural",
                    "s.anyOf[0].type: Forbidden: must be empty to be structural",
                    "s.anyOf[0].x-kubernetes-embedded-resource: Forbidden: must be false to be structural",
                    "s.anyOf[0].x-kubernetes-int-or-string: Forbidden: must be false to be structural",
                    "s.anyOf[0].x-kubernetes-list-map-keys: Forbidden: must be empty to be structural",
                    "s.anyOf[0].x-kubernetes-list-type: Forbidden: must be undefined to be structural",
                    "s.anyOf[0].x-kubernetes-map-type: Forbidden: must be undefined to be structural",
                    "s.anyOf[0].x-kubernetes-preserve-unknown-fields: Forbidden: must be false to be structural",
                    "s.anyOf[0].x-kubernetes-validations: Forbidden: must be empty to be structural",
                ],
            ),
            (
                r#"{"type":"object","allOf":[{"properties":{"metadata":{"maxProperties":1},"a":{"items":{}}}}],
                 "properties":{"a":{"type":"object"}},"not":{"items":{}}}"#,
                &[
                    "s.allOf[0].properties[metadata]: Forbidden: must not be specified in a nested context",
                    "s.items: Required value: because it is defined in s.not.items",
                    "s.properties[a].items: Required value: because it is defined in s.allOf[0].properties[a].items",
                    "s.properties[metadata]: Required value: because it is defined in s.allOf[0].properties[metadata]",
                ],
            ),
            // The pattern of integers or strings, in the other order.
            (
                r#"{"type":"object","properties":{"p":{"x-kubernetes-int-or-string":true,
                 "anyOf":[{"type":"string"},{"type":"integer"}]}}}"#,
                &[
                    "s.properties[p].anyOf[0].type: Forbidden: must be empty to be structural",
                    "s.properties[p].anyOf[1].type: Forbidden: must be empty to be structural",
                ],
            ),
        ];
        for (schema, words) in cases {
            assert_eq!(findings(schema), *words, "{schema}");
        }
    }
}
