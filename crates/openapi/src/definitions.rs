//! The types as OpenAPI schemas, in both of its versions.

use std::collections::{BTreeMap, BTreeSet};

use rkube_machinery::schema::ListType;
use rkube_machinery::{Field, Map, Shape, Type, TypeRef, Value};

use crate::descriptions::Descriptions;
use crate::enums;
use crate::names::{GroupVersionKind, group_version_kind};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// Swagger 2.0: references take descriptions beside them; defaults are left out.
    V2,
    /// OpenAPI 3.0: a reference with anything beside it is wrapped in `allOf`.
    V3,
}

impl Dialect {
    pub(crate) fn reference(self, type_name: &str) -> Value {
        let place = match self {
            Dialect::V2 => "#/definitions/",
            Dialect::V3 => "#/components/schemas/",
        };
        let mut map = Map::new();
        map.insert("$ref", format!("{place}{type_name}"));
        Value::Object(map)
    }
}

/// Types that are not structs in the table, by name.
const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";
const TIME: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Time";
const MICRO_TIME: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime";
const DURATION: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Duration";
const FIELDS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1";
pub(crate) const PATCH: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";
const RAW_EXTENSION: &str = "io.k8s.apimachinery.pkg.runtime.RawExtension";
const INT_OR_STRING: &str = "io.k8s.apimachinery.pkg.util.intstr.IntOrString";
const JSON: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON";
const SCHEMA: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";
const SCHEMA_OR_ARRAY: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrArray";
const SCHEMA_OR_BOOL: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrBool";
const SCHEMA_OR_STRINGS: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrStringArray";

/// Fields that apply takes apart although their kind of type says otherwise.
const GRANULAR: &[(&str, &str)] = &[
    ("io.k8s.api.core.v1.PersistentVolumeClaimStatus", "allocatedResourceStatuses"),
    ("io.k8s.api.core.v1.PersistentVolumeSpec", "claimRef"),
];

/// Types of whose fields one is set: type, discriminating field, fields.
const UNIONS: &[(&str, &str, &[&str])] = &[
    ("io.k8s.api.core.v1.AppArmorProfile", "type", &["localhostProfile"]),
    ("io.k8s.api.core.v1.PodSchedulingGroup", "", &["podGroupName"]),
    ("io.k8s.api.core.v1.SeccompProfile", "type", &["localhostProfile"]),
    ("io.k8s.api.scheduling.v1alpha2.PodGroupSchedulingPolicy", "", &["basic", "gang"]),
    ("io.k8s.api.scheduling.v1alpha2.PodGroupTemplateReference", "", &["workload"]),
    ("io.k8s.api.flowcontrol.v1.LimitResponse", "type", &["queuing"]),
    ("io.k8s.api.flowcontrol.v1.PriorityLevelConfigurationSpec", "type", &["exempt", "limited"]),
    ("io.k8s.api.flowcontrol.v1.Subject", "kind", &["group", "serviceAccount", "user"]),
];

/// Every type that these lead to, themselves included, by name.
pub(crate) fn reachable(names: impl IntoIterator<Item = String>) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut open: Vec<String> = names.into_iter().collect();
    while let Some(name) = open.pop() {
        if !found.insert(name.clone()) {
            continue;
        }
        if let Some(ty) = TypeRef::find(&name) {
            open.extend(ty.get().json_fields().filter_map(|field| target(&field.shape)).map(str::to_owned));
        } else if matches!(name.as_str(), SCHEMA_OR_ARRAY | SCHEMA_OR_BOOL | SCHEMA_OR_STRINGS) {
            open.push(SCHEMA.to_owned());
        }
    }
    found
}

/// The definitions of these types. `shared` are the group versions in which types without a group of their own
/// (`DeleteOptions`, `WatchEvent`) are kinds.
pub(crate) fn definitions(
    names: &BTreeSet<String>,
    dialect: Dialect,
    descriptions: &Descriptions,
    shared: &BTreeSet<(String, String)>,
) -> Map {
    let entries = names.iter().filter_map(|name| {
        let mut definition = match TypeRef::find(name) {
            Some(ty) => structure(ty.get(), dialect, descriptions, shared),
            None => special(name, dialect)?,
        };
        if let Some(text) = descriptions.of_type(name) {
            definition.insert("description", text);
        }
        Some((name.as_str().into(), Value::Object(definition)))
    });
    Map::sorted(entries.collect())
}

fn structure(
    ty: &'static Type,
    dialect: Dialect,
    descriptions: &Descriptions,
    shared: &BTreeSet<(String, String)>,
) -> Map {
    let mut properties = BTreeMap::new();
    let mut required = Vec::new();
    if ty.type_meta {
        for name in ["apiVersion", "kind"] {
            properties.insert(name, described(typed("string", ""), descriptions.of_field(ty.name, name)));
        }
    }
    for field in ty.json_fields().map(|field| facts_of(ty, field)) {
        if field.required {
            required.push(Value::from(field.name));
        }
        properties.insert(field.name, property(ty, field, dialect, descriptions));
    }
    let mut out = typed("object", "");
    if !properties.is_empty() {
        out.insert("properties", Map::from_iter(properties));
    }
    if !required.is_empty() {
        out.insert("required", required);
    }
    if ty.atomic {
        out.insert("x-kubernetes-map-type", "atomic");
    }
    if let Some(union) = UNIONS.iter().find(|union| union.0 == ty.name) {
        out.insert("x-kubernetes-unions", vec![union_extension(union)]);
    }
    let is_kind = ty.type_meta || ty.short_name() == "WatchEvent";
    if is_kind && let Some(kind) = group_version_kind(ty.name) {
        out.insert("x-kubernetes-group-version-kind", kinds_of(&kind, shared));
    }
    out
}

/// The facts of an ephemeral container's fields are those of the container's, from which it is a copy: the struct that
/// declares them is inline and not published by itself, so the table has no published facts for it.
fn facts_of(ty: &'static Type, field: &'static Field) -> &'static Field {
    if ty.name != "io.k8s.api.core.v1.EphemeralContainer" {
        return field;
    }
    let container = TypeRef::find("io.k8s.api.core.v1.Container").map(TypeRef::get);
    container.and_then(|container| container.field(field.name)).unwrap_or(field)
}

/// The group versions in which the type is a kind.
fn kinds_of(kind: &GroupVersionKind, shared: &BTreeSet<(String, String)>) -> Value {
    let mut versions = BTreeSet::from([(kind.group.clone(), kind.version.clone())]);
    if matches!(kind.kind.as_str(), "DeleteOptions" | "WatchEvent") {
        versions.extend(shared.iter().cloned());
    }
    let entries =
        versions.iter().map(|(group, version)| kind_extension(&GroupVersionKind::new(group, version, &kind.kind)));
    Value::Array(entries.collect())
}

pub(crate) fn kind_extension(kind: &GroupVersionKind) -> Value {
    rkube_machinery::object! {
        "group": kind.group.as_str(), "kind": kind.kind.as_str(), "version": kind.version.as_str(),
    }
}

fn union_extension((_, discriminator, fields): &(&str, &str, &[&str])) -> Value {
    let mut out = Map::new();
    if !discriminator.is_empty() {
        out.insert("discriminator", *discriminator);
    }
    let fields: Map = fields.iter().map(|field| (*field, crate::names::capitalized(field))).collect();
    out.insert("fields-to-discriminateBy", fields);
    Value::Object(out)
}

fn property(ty: &'static Type, field: &'static Field, dialect: Dialect, descriptions: &Descriptions) -> Value {
    let mut extras = Map::new();
    let mut schema = shape(&field.shape, dialect);
    let mut text = descriptions.of_field(ty.name, field.name);
    if let Some(values) = descriptions.enums.of_field(ty.name, field.name) {
        // The values of a list's items and a map's values are not told in words.
        match &field.shape {
            Shape::List(_) => schema.object_mut("items").set("enum", enums::schema(values)),
            Shape::Map(_) => schema.object_mut("additionalProperties").set("enum", enums::schema(values)),
            _ => {
                extras.insert("enum", enums::schema(values));
                text.get_or_insert_default().push_str(&enums::words(values));
            }
        }
    }
    if let Some(text) = text {
        extras.insert("description", text);
    }
    if dialect == Dialect::V3
        && let Some(default) = field.default.and_then(default_value)
    {
        extras.insert("default", default);
    }
    // The same holds for lists of other inline structs as for ephemeral containers; those are all atomic.
    let inline_list = matches!(field.shape, Shape::List(_)) && !ty.fields.iter().any(|own| own.name == field.name);
    if field.list_given || inline_list {
        let list_type = match field.list {
            ListType::Atomic => "atomic",
            ListType::Set => "set",
            ListType::Map => "map",
        };
        extras.insert("x-kubernetes-list-type", list_type);
    }
    if !field.list_keys.is_empty() {
        extras.insert("x-kubernetes-list-map-keys", texts(field.list_keys));
    }
    // A struct's own definition says whether it is atomic.
    if field.map_atomic && !matches!(field.shape, Shape::Struct(_)) {
        extras.insert("x-kubernetes-map-type", "atomic");
    }
    if GRANULAR.contains(&(ty.name, field.name)) {
        extras.insert("x-kubernetes-map-type", "granular");
    }
    if !field.merge_key.is_empty() {
        extras.insert("x-kubernetes-patch-merge-key", field.merge_key);
    }
    let strategy =
        [(field.patch_merge, "merge"), (field.patch_retain_keys, "retainKeys"), (field.patch_replace, "replace")];
    let strategy: Vec<&str> = strategy.iter().filter(|(set, _)| *set).map(|(_, name)| *name).collect();
    if !strategy.is_empty() {
        extras.insert("x-kubernetes-patch-strategy", strategy.join(","));
    }
    with_extras(schema, extras, dialect)
}

fn with_extras(schema: Value, extras: Map, dialect: Dialect) -> Value {
    if extras.is_empty() {
        return schema;
    }
    let wrap = dialect == Dialect::V3 && schema.has("$ref");
    let mut out = if wrap {
        let mut wrapped = Map::new();
        wrapped.insert("allOf", vec![schema]);
        wrapped
    } else {
        schema.as_map().clone()
    };
    for (key, value) in extras.into_entries() {
        out.insert(key, value);
    }
    Value::Object(out)
}

/// A field's schema without what the field itself says.
fn shape(shape: &Shape, dialect: Dialect) -> Value {
    if let Some(name) = direct_target(shape) {
        return dialect.reference(name);
    }
    Value::Object(match shape {
        Shape::Bool => typed("boolean", ""),
        Shape::Int32 => typed("integer", "int32"),
        Shape::Int64 => typed("integer", "int64"),
        Shape::Double => typed("number", "double"),
        Shape::Bytes => typed("string", "byte"),
        Shape::WrappedStrings => {
            let mut out = typed("array", "");
            out.insert("items", item(&Shape::String, dialect));
            out
        }
        Shape::List(inner) => {
            let mut out = typed("array", "");
            out.insert("items", item(inner, dialect));
            out
        }
        Shape::Map(inner) => {
            let mut out = typed("object", "");
            out.insert("additionalProperties", item(inner, dialect));
            out
        }
        _ => typed("string", ""),
    })
}

/// The schema of a list's items or a map's values: with the zero value as default where Go has one.
fn item(inner: &Shape, dialect: Dialect) -> Value {
    let zero = match inner {
        _ if dialect == Dialect::V2 => None,
        Shape::String => Some(Value::from("")),
        Shape::Bool => Some(Value::Bool(false)),
        Shape::Int32 | Shape::Int64 => Some(Value::Int(0)),
        Shape::Struct(_) => Some(Value::object()),
        _ => None,
    };
    let mut extras = Map::new();
    if let Some(zero) = zero {
        extras.insert("default", zero);
    }
    with_extras(shape(inner, dialect), extras, dialect)
}

/// The type that the shape leads to, through lists and maps.
fn target(shape: &Shape) -> Option<&'static str> {
    match shape {
        Shape::List(inner) | Shape::Map(inner) => target(inner),
        other => direct_target(other),
    }
}

fn direct_target(shape: &Shape) -> Option<&'static str> {
    Some(match shape {
        Shape::Struct(ty) => ty.get().name,
        Shape::Time => TIME,
        Shape::MicroTime => MICRO_TIME,
        Shape::Duration => DURATION,
        Shape::Quantity => QUANTITY,
        Shape::IntOrString => INT_OR_STRING,
        Shape::FieldsV1 => FIELDS,
        Shape::RawExtension => RAW_EXTENSION,
        Shape::Json => JSON,
        Shape::SchemaOrBool => SCHEMA_OR_BOOL,
        Shape::SchemaOrArray => SCHEMA_OR_ARRAY,
        Shape::SchemaOrStrings => SCHEMA_OR_STRINGS,
        _ => return None,
    })
}

/// A type that is not a struct in the table.
fn special(name: &str, dialect: Dialect) -> Option<Map> {
    Some(match (name, dialect) {
        (TIME | MICRO_TIME, _) => typed("string", "date-time"),
        (FIELDS | PATCH | RAW_EXTENSION, _) => typed("object", ""),
        (QUANTITY, Dialect::V2) | (DURATION, _) => typed("string", ""),
        (INT_OR_STRING, Dialect::V2) => typed("string", "int-or-string"),
        (QUANTITY, Dialect::V3) => one_of("string", "number", ""),
        (INT_OR_STRING, Dialect::V3) => one_of("integer", "string", "int-or-string"),
        (JSON | SCHEMA_OR_ARRAY | SCHEMA_OR_BOOL | SCHEMA_OR_STRINGS, _) => Map::new(),
        _ => return None,
    })
}

fn one_of(first: &'static str, second: &'static str, format: &'static str) -> Map {
    let mut out = Map::new();
    if !format.is_empty() {
        out.insert("format", format);
    }
    out.insert("oneOf", vec![Value::Object(typed(first, "")), Value::Object(typed(second, ""))]);
    out
}

pub(crate) fn typed(kind: &'static str, format: &'static str) -> Map {
    let mut out = Map::new();
    if !format.is_empty() {
        out.insert("format", format);
    }
    out.insert("type", kind);
    out
}

fn described(mut schema: Map, text: Option<String>) -> Value {
    if let Some(text) = text {
        schema.insert("description", text);
    }
    Value::Object(schema)
}

pub(crate) fn texts(items: &[&str]) -> Value {
    Value::Array(items.iter().map(|item| Value::from(*item)).collect())
}

/// The table's defaults are scalars and empty objects.
fn default_value(text: &str) -> Option<Value> {
    match text {
        "{}" => Some(Value::object()),
        "true" => Some(Value::Bool(true)),
        "false" => Some(Value::Bool(false)),
        _ => match text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
            Some(inner) => Some(Value::from(inner)),
            None => text.parse::<i64>().ok().map(Value::Int),
        },
    }
}
