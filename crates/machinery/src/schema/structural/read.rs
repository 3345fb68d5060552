//! A structural schema made of a definition's `openAPIV3Schema`.
//!
//! Takes the JSON as the table type `JSONSchemaProps` decodes it. Says nothing of whether the schema keeps the rules of
//! structural schemas: [`check`](super::check()) does.

use super::{
    AdditionalProperties, DEPTH_MAX, Extensions, Forbidden, JsonType, NestedValidation, Rule, Structural,
    ValueValidation, sort,
};
use crate::schema::ListType;
use crate::value::{Map, Text, Value};

/// Why a schema has no structural form. Definitions that were validated always have one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    #[error("OpenAPIV3Schema '{0}' is not supported")]
    Unsupported(&'static str),
    #[error("OpenAPIV3Schema 'items' must be a schema, but is an array")]
    ItemsArray,
    #[error("internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined")]
    PreserveUnknownFieldsFalse,
    /// Schemas lie more than [`DEPTH_MAX`] deep in each other.
    #[error("exceeded max depth")]
    TooDeep,
}

impl Structural {
    /// The structural form of an `openAPIV3Schema`. A `type` or a list type that does not exist reads as none.
    pub fn read(document: &Value) -> Result<Structural, ReadError> {
        structural(document, DEPTH_MAX)
    }
}

fn structural(document: &Value, depth: usize) -> Result<Structural, ReadError> {
    let depth = enter(document, depth)?;
    let validation = value_validation(document, depth)?;
    let extensions = extensions(document)?;
    let below = |schema: &Value| structural(schema, depth);
    let properties = properties(document.map("properties"), below)?;
    let additional_properties = match document.get("additionalProperties") {
        Value::Bool(allowed) => AdditionalProperties::Allowed(*allowed),
        Value::Null => AdditionalProperties::Absent,
        schema => AdditionalProperties::Schema(Box::new(below(schema)?)),
    };
    Ok(Structural {
        json_type: json_type(document),
        nullable: document.bool("nullable"),
        extensions,
        properties,
        items: items(document, below)?,
        additional_properties,
        default: Some(document.get("default")).filter(|value| !value.is_null()).map(sorted).map(Box::new),
        validation: Some(validation).filter(|validation| *validation != ValueValidation::default()).map(Box::new),
        rules: rules(document),
    })
}

fn nested(document: &Value, depth: usize) -> Result<NestedValidation, ReadError> {
    let depth = enter(document, depth)?;
    let validation = value_validation(document, depth)?;
    let forbidden = Forbidden {
        json_type: json_type(document),
        nullable: document.bool("nullable"),
        has_default: document.has("default"),
        has_title: !document.str("title").is_empty(),
        has_description: !document.str("description").is_empty(),
        extensions: extensions(document)?,
    };
    let below = |schema: &Value| nested(schema, depth);
    let additional_properties = match document.get("additionalProperties") {
        Value::Bool(true) => Some(Box::default()),
        Value::Bool(false) | Value::Null => None,
        schema => Some(Box::new(below(schema)?)),
    };
    Ok(NestedValidation {
        validation,
        rules: rules(document),
        items: items(document, below)?,
        properties: properties(document.map("properties"), below)?,
        additional_properties,
        forbidden: Some(forbidden).filter(|forbidden| *forbidden != Forbidden::default()).map(Box::new),
    })
}

/// What may not stand in any schema, and how much deeper it may go.
fn enter(document: &Value, depth: usize) -> Result<usize, ReadError> {
    let unsupported = [("id", "id"), ("$schema", "schema"), ("$ref", "$ref")]
        .into_iter()
        .find(|(field, _)| !document.str(field).is_empty())
        .or_else(|| {
            let maps = ["patternProperties", "dependencies", "additionalItems", "definitions"];
            let is_set = |field: &&str| match document.get(field) {
                Value::Object(map) => *field == "additionalItems" || !map.is_empty(),
                other => !other.is_null(),
            };
            maps.into_iter().find(is_set).map(|field| (field, field))
        });
    match unsupported {
        Some((_, name)) => Err(ReadError::Unsupported(name)),
        None => depth.checked_sub(1).ok_or(ReadError::TooDeep),
    }
}

fn json_type(document: &Value) -> JsonType {
    JsonType::parse(document.str("type")).unwrap_or_default()
}

fn items<T>(document: &Value, below: impl Fn(&Value) -> Result<T, ReadError>) -> Result<Option<Box<T>>, ReadError> {
    match document.get("items") {
        Value::Null => Ok(None),
        Value::Array(schemas) if schemas.is_empty() => Ok(None),
        Value::Array(_) => Err(ReadError::ItemsArray),
        schema => Ok(Some(Box::new(below(schema)?))),
    }
}

fn properties<T>(map: &Map, below: impl Fn(&Value) -> Result<T, ReadError>) -> Result<Box<[(Text, T)]>, ReadError> {
    let read = |(name, schema): (&Text, &Value)| Ok((name.clone(), below(schema)?));
    let mut found = map.iter().map(read).collect::<Result<Vec<_>, ReadError>>()?;
    found.sort_by(|left, right| left.0.cmp(&right.0));
    Ok(found.into())
}

fn value_validation(document: &Value, depth: usize) -> Result<ValueValidation, ReadError> {
    let clauses = |field: &str| -> Result<Box<[NestedValidation]>, ReadError> {
        document.list(field).iter().map(|clause| nested(clause, depth)).collect()
    };
    let not = match document.get("not") {
        Value::Null => None,
        clause => Some(Box::new(nested(clause, depth)?)),
    };
    Ok(ValueValidation {
        format: text(document, "format"),
        maximum: number(document, "maximum"),
        exclusive_maximum: document.bool("exclusiveMaximum"),
        minimum: number(document, "minimum"),
        exclusive_minimum: document.bool("exclusiveMinimum"),
        max_length: document.get("maxLength").as_int(),
        min_length: document.get("minLength").as_int(),
        pattern: text(document, "pattern"),
        max_items: document.get("maxItems").as_int(),
        min_items: document.get("minItems").as_int(),
        unique_items: document.bool("uniqueItems"),
        multiple_of: number(document, "multipleOf"),
        one_of_values: document.list("enum").iter().map(sorted).collect(),
        max_properties: document.get("maxProperties").as_int(),
        min_properties: document.get("minProperties").as_int(),
        required: texts(document, "required"),
        all_of: clauses("allOf")?,
        any_of: clauses("anyOf")?,
        one_of: clauses("oneOf")?,
        not,
    })
}

fn extensions(document: &Value) -> Result<Extensions, ReadError> {
    let preserve = document.get("x-kubernetes-preserve-unknown-fields");
    if *preserve == Value::Bool(false) {
        return Err(ReadError::PreserveUnknownFieldsFalse);
    }
    let list_type = match document.get("x-kubernetes-list-type") {
        Value::Null => None,
        given => Some(match given.as_str() {
            "set" => ListType::Set,
            "map" => ListType::Map,
            _ => ListType::Atomic,
        }),
    };
    let map_type = Some(document.get("x-kubernetes-map-type")).filter(|given| !given.is_null());
    Ok(Extensions {
        preserve_unknown_fields: *preserve == Value::Bool(true),
        embedded_resource: document.bool("x-kubernetes-embedded-resource"),
        int_or_string: document.bool("x-kubernetes-int-or-string"),
        list_type,
        list_map_keys: texts(document, "x-kubernetes-list-map-keys"),
        map_atomic: map_type.map(|given| given.as_str() == "atomic"),
    })
}

fn rules(document: &Value) -> Box<[Rule]> {
    let rule = |rule: &Value| Rule {
        rule: text(rule, "rule"),
        message: text(rule, "message"),
        message_expression: text(rule, "messageExpression"),
        reason: text(rule, "reason"),
        field_path: text(rule, "fieldPath"),
        optional_old_self: rule.get("optionalOldSelf").as_bool(),
    };
    document.list("x-kubernetes-validations").iter().map(rule).collect()
}

/// A value as custom resources hold it.
fn sorted(value: &Value) -> Value {
    let mut value = value.clone();
    sort(&mut value);
    value
}

fn text(document: &Value, field: &str) -> Text {
    match document.get(field) {
        Value::String(text) => text.clone(),
        _ => Text::default(),
    }
}

fn texts(document: &Value, field: &str) -> Box<[Text]> {
    document.list(field).iter().map(|item| Text::new(item.as_str())).collect()
}

fn number(document: &Value, field: &str) -> Option<f64> {
    match document.get(field) {
        Value::Int(number) => Some(*number as f64),
        Value::Float(number) => Some(*number),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;

    fn read(text: &str) -> Result<Structural, ReadError> {
        Structural::read(&json::parse(text.as_bytes()).unwrap())
    }

    #[test]
    fn every_part_is_read() {
        let schema = read(
            r#"{"type":"object","required":["b"],"properties":{
                "b":{"type":"array","items":{"type":"object","properties":{"k":{"type":"string","default":"x"}}},
                     "x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"],"maxItems":3},
                "a":{"x-kubernetes-int-or-string":true,"anyOf":[{"type":"integer"},{"type":"string"}]},
                "c":{"type":"object","additionalProperties":{"type":"number","minimum":1,"nullable":true},
                     "x-kubernetes-map-type":"atomic"},
                "d":{"type":"object","x-kubernetes-preserve-unknown-fields":true,"additionalProperties":true,
                     "x-kubernetes-validations":[{"rule":"true","message":"m","optionalOldSelf":true}]},
                "e":{"type":"string","enum":["x",null],"pattern":"^a","format":"uri","not":{"maxLength":3}}}}"#,
        )
        .unwrap();
        let names: Vec<_> = schema.properties.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["a", "b", "c", "d", "e"]);
        let list = schema.property("b").unwrap();
        assert_eq!(list.extensions.list_type, Some(ListType::Map));
        assert_eq!(&list.extensions.list_map_keys[..], ["k"]);
        assert_eq!(list.items.as_ref().unwrap().property("k").unwrap().default.as_deref(), Some(&Value::from("x")));
        let either = schema.property("a").unwrap().validation.as_ref().unwrap();
        assert_eq!(either.any_of[1].forbidden.as_ref().unwrap().json_type, JsonType::String);
        let map = schema.property("c").unwrap();
        assert_eq!(map.map_values().unwrap().validation.as_ref().unwrap().minimum, Some(1.0));
        assert_eq!(map.extensions.map_atomic, Some(true));
        let free = schema.property("d").unwrap();
        assert_eq!(free.additional_properties, AdditionalProperties::Allowed(true));
        assert_eq!((free.rules[0].message.as_str(), free.rules[0].optional_old_self), ("m", Some(true)));
        let text = schema.property("e").unwrap().validation.as_ref().unwrap();
        assert_eq!(text.not.as_ref().unwrap().validation.max_length, Some(3));
        assert_eq!(text.one_of_values.len(), 2);
    }

    #[test]
    fn what_no_schema_may_have_is_refused_in_upstreams_words() {
        let cases = [
            (r#"{"id":"x"}"#, "OpenAPIV3Schema 'id' is not supported"),
            (r#"{"$schema":"x"}"#, "OpenAPIV3Schema 'schema' is not supported"),
            (r##"{"properties":{"a":{"$ref":"#/x"}}}"##, "OpenAPIV3Schema '$ref' is not supported"),
            (r#"{"patternProperties":{"a":{}}}"#, "OpenAPIV3Schema 'patternProperties' is not supported"),
            (r#"{"not":{"dependencies":{"a":["b"]}}}"#, "OpenAPIV3Schema 'dependencies' is not supported"),
            (r#"{"additionalItems":false}"#, "OpenAPIV3Schema 'additionalItems' is not supported"),
            (r#"{"allOf":[{"definitions":{"a":{}}}]}"#, "OpenAPIV3Schema 'definitions' is not supported"),
            (r#"{"items":[{"type":"string"}]}"#, "OpenAPIV3Schema 'items' must be a schema, but is an array"),
            (
                r#"{"x-kubernetes-preserve-unknown-fields":false}"#,
                "internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined",
            ),
        ];
        for (schema, words) in cases {
            assert_eq!(read(schema).unwrap_err().to_string(), words, "{schema}");
        }
        assert_eq!(read(r#"{"definitions":{},"properties":{}}"#), Ok(Structural::default()));
    }

    #[test]
    fn depth_is_bounded() {
        let deep = |depth: usize, open: &str| format!("{}{{}}{}", open.repeat(depth), "}".repeat(depth));
        for open in [r#"{"items":"#, r#"{"not":"#, r#"{"additionalProperties":"#] {
            assert!(read(&deep(DEPTH_MAX - 1, open)).is_ok());
            assert_eq!(read(&deep(DEPTH_MAX, open)), Err(ReadError::TooDeep));
        }
    }
}
