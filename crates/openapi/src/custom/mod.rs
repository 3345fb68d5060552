//! Custom resources in the documents: what their definitions say, between what all of them have.

mod operations;
mod schema;
#[cfg(test)]
mod tests;

use rkube_kinds::Kind;
use rkube_machinery::{Map, TypeRef, Value, object};

use crate::definitions::{Dialect, definitions, kind_extension, reachable, typed};
use crate::descriptions::Descriptions;
use crate::hash::Fnv;
use crate::names::GroupVersionKind;
use crate::operations::META;
use crate::part::{Form, Part};
use crate::{v2, v3};
use schema::published;

pub(crate) const SCALE: &str = "io.k8s.api.autoscaling.v1.Scale";

const CONVENTIONS: &str = "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md";

/// The texts that all custom resources have in common.
pub struct Custom {
    /// Of `apiVersion` and `kind`, in every object and list.
    api_version: String,
    kind: String,
}

impl Custom {
    /// Built-in types that custom resources refer to.
    pub const TYPES: [&'static str; 5] = [
        "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta",
        "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions",
        "io.k8s.apimachinery.pkg.apis.meta.v1.Patch",
        "io.k8s.apimachinery.pkg.apis.meta.v1.Status",
        SCALE,
    ];

    pub fn new() -> Custom {
        let descriptions = Descriptions::read();
        let text = |field: &str| descriptions.of_field(SCALE, field).unwrap_or_default();
        Custom { api_version: text("apiVersion"), kind: text("kind") }
    }

    /// The types that the documents of custom group versions begin with.
    pub fn types_part(&self, with_scale: bool) -> Part {
        let types = Custom::TYPES.into_iter().filter(|name| with_scale || *name != SCALE);
        let names = reachable(types.map(str::to_owned));
        let descriptions = Descriptions::read();
        let schemas = definitions(&names, Dialect::V3, &descriptions, &Default::default());
        Part::new(Form::V3, &Map::new(), &schemas)
    }

    /// All that a document has of one kind. `definition` is the object that the kind was made of; without one, nothing
    /// is known of its fields.
    pub fn part(&self, kind: &Kind, definition: &Value, form: Form) -> Part {
        if form != Form::V3 && TypeRef::find(&kind.type_name).is_some() {
            // Built-in types go first where a group is named so that both have the same name.
            return Part::new(form, &Map::new(), &Map::new());
        }
        let version =
            definition.get("spec").list("versions").iter().find(|version| version.str("name") == kind.version);
        let version = version.unwrap_or(&Value::Null);
        let mut object = self.object_schema(definition, version, form.dialect());
        let mut list = self.list_schema(kind, form.dialect());
        for (schema, name) in [(&mut object, &kind.kind), (&mut list, &kind.list_kind)] {
            let own = GroupVersionKind::new(&kind.group, &kind.version, name);
            schema.insert("x-kubernetes-group-version-kind", vec![kind_extension(&own)]);
            if !version.list("selectableFields").is_empty() {
                schema.insert("x-kubernetes-selectable-fields", selectable_fields(version));
            }
        }
        let definitions =
            Map::sorted(vec![(kind.type_name.clone(), object.into()), (list_type(kind).into(), list.into())]);
        let paths = operations::paths_of(kind);
        let paths = if form == Form::V3 { v3::path_items(&paths) } else { v2::path_items(&paths) };
        Part::new(form, &paths, &definitions)
    }

    fn object_schema(&self, definition: &Value, version: &Value, dialect: Dialect) -> Map {
        let document = version.get("schema").get("openAPIV3Schema");
        let keeps_all = document.bool("x-kubernetes-preserve-unknown-fields")
            || definition.get("spec").bool("preserveUnknownFields");
        // kubectl takes a schema with any property for one that has no other.
        let known = if dialect == Dialect::V2 && keeps_all { None } else { published(document, dialect) };
        let Some(mut schema) = known else { return typed("object", "") };
        // One that calls itself embedded has them already.
        if !document.bool("x-kubernetes-embedded-resource") {
            let properties = schema.entry("properties").make_map();
            properties.insert("metadata", metadata(dialect));
            self.insert_type(properties);
        }
        schema
    }

    fn list_schema(&self, kind: &Kind, dialect: Dialect) -> Map {
        let mut properties = Map::new();
        self.insert_type(&mut properties);
        properties.insert(
            "items",
            object! {
                "description": format!("List of {}. More info: {CONVENTIONS}", kind.resource),
                "items": dialect.reference(&kind.type_name),
                "type": "array",
            },
        );
        let text = format!("Standard list metadata. More info: {CONVENTIONS}#types-kinds");
        properties.insert("metadata", described_reference(dialect, &format!("{META}.ListMeta"), &text));
        let mut out = typed("object", "");
        out.insert("description", format!("{} is a list of {}", kind.list_kind, kind.kind));
        out.insert("properties", properties);
        out.insert("required", vec![Value::from("items")]);
        out
    }

    fn insert_type(&self, properties: &mut Map) {
        for (name, text) in [("apiVersion", &self.api_version), ("kind", &self.kind)] {
            properties.insert(name, object! { "description": text.as_str(), "type": "string" });
        }
    }
}

impl Default for Custom {
    fn default() -> Self {
        Custom::new()
    }
}

/// The hash of a document of custom kinds: of what the kinds are, and of a mark of each one's definition, that changes
/// with it. Nothing is made for it.
pub fn custom_hash<'a>(kinds: impl IntoIterator<Item = (&'a Kind, &'a str)>) -> String {
    let mut hash = Fnv::new();
    hash.add(env!("CARGO_PKG_VERSION").as_bytes());
    for (kind, mark) in kinds {
        for text in [&kind.group, &kind.version, &kind.kind, &kind.list_kind, &kind.resource] {
            hash.add(text.as_bytes());
        }
        hash.add(&[u8::from(kind.is_namespaced())]);
        kind.subresources.iter().for_each(|subresource| hash.add(subresource.name.as_bytes()));
        hash.add(mark.as_bytes());
    }
    hash.text()
}

/// `com.example.v1.FooList`.
fn list_type(kind: &Kind) -> String {
    let package = kind.type_name.strip_suffix(kind.kind.as_str()).unwrap_or_default();
    format!("{package}{}", kind.list_kind)
}

fn metadata(dialect: Dialect) -> Value {
    let text = format!("Standard object's metadata. More info: {CONVENTIONS}#metadata");
    described_reference(dialect, &format!("{META}.ObjectMeta"), &text)
}

fn described_reference(dialect: Dialect, type_name: &str, text: &str) -> Value {
    let reference = dialect.reference(type_name);
    let mut out = match dialect {
        Dialect::V2 => reference,
        Dialect::V3 => object! { "allOf": vec![reference] },
    };
    out.set("description", text);
    out
}

fn selectable_fields(version: &Value) -> Value {
    let one = |field: &Value| {
        let path = field.str("jsonPath");
        object! { "fieldPath": path.strip_prefix('.').unwrap_or(path) }
    };
    Value::Array(version.list("selectableFields").iter().map(one).collect())
}
