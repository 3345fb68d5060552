//! A definition's spec as upstream holds it inside: what is the same in all versions stands beside them.

use rkube_machinery::field::BadValue;
use rkube_machinery::{TypeRef, Value, decode, object};

use crate::core::pod_spec::go_form;

/// The spec with what its versions share. What is not there is null.
pub struct Internal<'a> {
    pub spec: &'a Value,
    pub versions: Vec<Version<'a>>,
    /// What is shared by all versions; they do not have it then.
    pub shared: Parts<'a>,
}

pub struct Version<'a> {
    pub value: &'a Value,
    pub parts: Parts<'a>,
}

/// What a version has of its own, or what all versions have in common.
#[derive(Clone, Copy)]
pub struct Parts<'a> {
    /// With the `openAPIV3Schema`.
    pub schema: &'a Value,
    pub subresources: &'a Value,
    pub columns: &'a Value,
    pub selectable_fields: &'a Value,
}

const SCHEMA_TYPE: &str = "CustomResourceValidation";
const SUBRESOURCES_TYPE: &str = "CustomResourceSubresources";
const COLUMN_TYPE: &str = "CustomResourceColumnDefinition";
const SELECTABLE_TYPE: &str = "SelectableField";

static ABSENT: Value = Value::Null;

impl Parts<'_> {
    const NONE: Parts<'static> =
        Parts { schema: &ABSENT, subresources: &ABSENT, columns: &ABSENT, selectable_fields: &ABSENT };
}

impl<'a> Internal<'a> {
    pub fn of(spec: &'a Value) -> Internal<'a> {
        let version = |value: &'a Value| Version {
            value,
            parts: Parts {
                schema: value.get("schema"),
                subresources: value.get("subresources"),
                columns: value.get("additionalPrinterColumns"),
                selectable_fields: value.get("selectableFields"),
            },
        };
        let mut versions: Vec<Version<'a>> = spec.list("versions").iter().map(version).collect();
        let shared = share(&mut versions);
        Internal { spec, versions, shared }
    }

    pub fn preserves_unknown_fields(&self) -> bool {
        self.spec.bool("preserveUnknownFields")
    }

    /// The schemas that are there, each an `openAPIV3Schema`.
    pub fn schemas(&self) -> impl Iterator<Item = &'a Value> + '_ {
        let own = self.versions.iter().map(|version| version.parts.schema);
        let all = std::iter::once(self.shared.schema).chain(own);
        all.map(|schema| schema.get("openAPIV3Schema")).filter(|schema| !schema.is_null())
    }

    /// The schema (`CustomResourceValidation`, perhaps null) of the version of this name; none where it is not there.
    /// A shared schema is the one of every name.
    pub fn schema_of(&self, version: &str) -> Option<&'a Value> {
        if self.versions.iter().all(|version| version.parts.schema.is_null()) {
            return Some(self.shared.schema);
        }
        let found = self.versions.iter().find(|candidate| candidate.value.str("name") == version);
        found.map(|version| version.parts.schema)
    }

    /// Whether the version of this name has a `status` subresource.
    pub fn has_status(&self, version: &str) -> bool {
        if self.versions.iter().all(|version| version.parts.subresources.is_null()) {
            return self.shared.subresources.has("status");
        }
        let found = self.versions.iter().find(|candidate| candidate.value.str("name") == version);
        found.is_some_and(|version| version.parts.subresources.has("status"))
    }

    /// Whether any version has a `status` subresource.
    pub fn has_any_status(&self) -> bool {
        let own = self.versions.iter().map(|version| version.parts.subresources);
        std::iter::once(self.shared.subresources).chain(own).any(|subresources| subresources.has("status"))
    }

    /// The versions as messages show them.
    pub fn shown_versions(&self) -> BadValue {
        if !self.spec.has("versions") {
            return BadValue::Text("null".to_owned());
        }
        let shown: Vec<String> = self.versions.iter().map(Version::shown).collect();
        BadValue::Text(format!("[{}]", shown.join(",")))
    }
}

impl Version<'_> {
    fn shown(&self) -> String {
        let mut value = self.value.clone();
        let parts = &self.parts;
        let schema = match parts.schema {
            Value::Null => Value::Null,
            schema => object! { "openAPIV3Schema": unfolded(schema.get("openAPIV3Schema")) },
        };
        value.set("schema", schema);
        value.set("subresources", parts.subresources.clone());
        value.set("additionalPrinterColumns", parts.columns.clone());
        value.set("selectableFields", parts.selectable_fields.clone());
        go_form::go_json("CustomResourceDefinitionVersion", &value)
    }
}

/// Takes out of the versions what is the same in all of them.
fn share<'a>(versions: &mut [Version<'a>]) -> Parts<'a> {
    let mut shared = Parts::NONE;
    let Some(first) = versions.first().map(|version| version.parts) else { return shared };
    let all = |same: &dyn Fn(&Parts<'a>) -> bool| versions[1..].iter().all(|version| same(&version.parts));
    let schema = all(&|parts| same(SCHEMA_TYPE, parts.schema, first.schema));
    let subresources = all(&|parts| same(SUBRESOURCES_TYPE, parts.subresources, first.subresources));
    let columns = all(&|parts| same_list(COLUMN_TYPE, parts.columns, first.columns));
    let selectable_fields = all(&|parts| same_list(SELECTABLE_TYPE, parts.selectable_fields, first.selectable_fields));
    let mut move_up = |is_shared: bool, part: for<'p> fn(&'p mut Parts<'a>) -> &'p mut &'a Value| {
        if is_shared {
            let mut first = first;
            *part(&mut shared) = *part(&mut first);
            versions.iter_mut().for_each(|version| *part(&mut version.parts) = &ABSENT);
        }
    };
    move_up(schema, |parts| &mut parts.schema);
    move_up(subresources, |parts| &mut parts.subresources);
    move_up(columns, |parts| &mut parts.columns);
    move_up(selectable_fields, |parts| &mut parts.selectable_fields);
    shared
}

/// Whether two schemas (`CustomResourceValidation`) mean the same.
pub fn same_schema(left: &Value, right: &Value) -> bool {
    same(SCHEMA_TYPE, left, right)
}

/// Whether two lists of selectable fields mean the same.
pub fn same_selectable_fields(left: &Value, right: &Value) -> bool {
    same_list(SELECTABLE_TYPE, left, right)
}

/// Equal where absent and empty lists and maps are the same.
fn same(type_name: &str, left: &Value, right: &Value) -> bool {
    let complete = |value: &Value| {
        let mut value = value.clone();
        let name = format!("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.{type_name}");
        if let Some(found) = TypeRef::find(&name) {
            decode::complete(&mut value, found.get());
        }
        value
    };
    left == right || (left.is_null() == right.is_null() && complete(left) == complete(right))
}

fn same_list(type_name: &str, left: &Value, right: &Value) -> bool {
    let (left, right) = (left.items(), right.items());
    left.len() == right.len() && left.iter().zip(right).all(|(left, right)| same(type_name, left, right))
}

/// The schema as messages show it.
pub fn shown_schema(schema: &Value) -> BadValue {
    BadValue::Text(go_form::go_json("JSONSchemaProps", &unfolded(schema)))
}

/// The value of `items` as messages show it.
pub fn shown_items(items: &Value) -> BadValue {
    BadValue::Text(go_form::go_json("JSONSchemaPropsOrArray", &unfolded_items(items)))
}

/// The schema with what may be of two kinds as Go has it: a struct with a field for each.
fn unfolded(schema: &Value) -> Value {
    let mut schema = schema.clone();
    let Value::Object(fields) = &mut schema else { return schema };
    for (name, value) in fields.iter_mut() {
        let new = match (name.as_str(), &*value) {
            (_, Value::Null) => continue,
            ("items", items) => unfolded_items(items),
            ("additionalProperties" | "additionalItems", given) => unfolded_or_bool(given),
            ("dependencies", dependencies) => unfolded_each(dependencies, &unfolded_dependency),
            ("properties" | "patternProperties" | "definitions", schemas) => unfolded_each(schemas, &unfolded),
            ("allOf" | "anyOf" | "oneOf", schemas) => schemas.items().iter().map(unfolded).collect::<Vec<_>>().into(),
            ("not", schema) => unfolded(schema),
            _ => continue,
        };
        *value = new;
    }
    schema
}

fn unfolded_items(items: &Value) -> Value {
    match items {
        Value::Array(schemas) => object! { "jsonSchemas": schemas.iter().map(unfolded).collect::<Vec<_>>() },
        schema => object! { "schema": unfolded(schema) },
    }
}

fn unfolded_or_bool(given: &Value) -> Value {
    match given {
        Value::Bool(allows) => object! { "allows": *allows },
        schema => object! { "allows": true, "schema": unfolded(schema) },
    }
}

fn unfolded_dependency(given: &Value) -> Value {
    match given {
        Value::Array(_) => object! { "property": given.clone() },
        schema => object! { "schema": unfolded(schema) },
    }
}

fn unfolded_each(values: &Value, unfold: &dyn Fn(&Value) -> Value) -> Value {
    let mut values = values.clone();
    if let Value::Object(map) = &mut values {
        map.iter_mut().for_each(|(_, value)| *value = unfold(value));
    }
    values
}
