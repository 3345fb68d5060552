//! Kinds as types of CEL, from their schemas in OpenAPI documents. Types are looked up when an expression speaks of them:
//! of a schema that refers to itself there is no end.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, PoisonError, RwLock};

use rkube_cel::{Type, Types, escape};
use serde_json::Value;

const REFERENCE: &str = "#/components/schemas/";

/// The types of one kind: the document that has it, and what was looked up.
pub struct SchemaTypes {
    document: Arc<Value>,
    known: RwLock<HashMap<String, Arc<Node>>>,
}

/// A type with fields.
#[derive(Clone, Debug)]
struct Node {
    /// Names and schemas of the fields, by the name that expressions call them.
    fields: HashMap<String, Value>,
    /// What it is within: to refer to one of these again has no end.
    within: BTreeSet<String>,
}

impl SchemaTypes {
    /// The type of a kind in a document of OpenAPI, if it has that.
    pub fn of(document: Arc<Value>, group: &str, version: &str, kind: &str) -> Option<(Type, Arc<SchemaTypes>)> {
        let all = document["components"]["schemas"].as_object()?;
        let is_meant = |schema: &Value| {
            let mut kinds = schema["x-kubernetes-group-version-kind"].as_array().into_iter().flatten();
            kinds.any(|one| one["group"] == group && one["version"] == version && one["kind"] == kind)
        };
        let (name, schema) = all.iter().find(|(_, schema)| is_meant(schema))?;
        let (schema, within) = (with_metadata(schema.clone()), BTreeSet::from([name.clone()]));
        let types = Arc::new(SchemaTypes { document, known: RwLock::default() });
        // Upstream has a number here that is another each time.
        let root = types.declare(&schema, within, &format!("{kind}0"))?;
        Some((root, types))
    }

    /// The type of a schema. None: expressions cannot speak of it.
    fn declare(&self, schema: &Value, mut within: BTreeSet<String>, name: &str) -> Option<Type> {
        let resolved;
        let schema = match reference(schema) {
            Some(target) if !within.insert(target.to_owned()) => return Some(self.empty(name)),
            Some(target) => {
                resolved = self.document["components"]["schemas"].get(target)?.clone();
                &resolved
            }
            None => schema,
        };
        let is_either = schema["x-kubernetes-int-or-string"] == true || schema["format"] == "int-or-string";
        if is_either || schema["oneOf"].is_array() {
            return Some(Type::Dyn);
        }
        match schema["type"].as_str()? {
            "array" => self.declare(items(schema)?, within, &format!("{name}.@idx")).map(Type::list),
            "object" if schema["additionalProperties"].is_object() => {
                let values = self.declare(&schema["additionalProperties"], within, &format!("{name}.@elem"))?;
                Some(Type::map(Type::String, values))
            }
            "object" => {
                let properties = schema["properties"].as_object().into_iter().flatten();
                let fields = properties.filter_map(|(name, schema)| Some((escape(name)?.into_owned(), schema.clone())));
                Some(self.add(name, Node { fields: fields.collect(), within }))
            }
            "string" => Some(match schema["format"].as_str() {
                Some("byte") => Type::Bytes,
                Some("duration") => Type::Duration,
                Some("date" | "date-time") => Type::Timestamp,
                _ => Type::String,
            }),
            "boolean" => Some(Type::Bool),
            "number" => Some(Type::Double),
            "integer" => Some(Type::Int),
            _ => None,
        }
    }

    fn empty(&self, name: &str) -> Type {
        self.add(name, Node { fields: HashMap::new(), within: BTreeSet::new() })
    }

    fn add(&self, name: &str, node: Node) -> Type {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        known.insert(name.to_owned(), Arc::new(node));
        Type::object(name)
    }
}

impl Types for SchemaTypes {
    fn contains(&self, name: &str) -> bool {
        self.known.read().unwrap_or_else(PoisonError::into_inner).contains_key(name)
    }

    fn field(&self, name: &str, field: &str) -> Option<Type> {
        let node = self.known.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()?;
        let schema = node.fields.get(field)?;
        let schema = match schema["x-kubernetes-embedded-resource"] == true {
            true => with_metadata(schema.clone()),
            false => schema.clone(),
        };
        self.declare(&schema, node.within.clone(), &format!("{name}.{field}"))
    }
}

fn items(schema: &Value) -> Option<&Value> {
    schema.get("items").filter(|items| items.is_object())
}

/// What a schema refers to, by itself or with a few words more.
fn reference(schema: &Value) -> Option<&str> {
    let own = schema["$ref"].as_str();
    let mut wrapped = schema["allOf"].as_array().into_iter().flatten();
    own.or_else(|| wrapped.find_map(|one| one["$ref"].as_str()))?.strip_prefix(REFERENCE)
}

/// Every object has a kind, a version and a name, whatever its schema says.
fn with_metadata(mut schema: Value) -> Value {
    let is_there = ["kind", "apiVersion", "metadata"].iter().all(|field| schema["properties"].get(*field).is_some());
    let names = &schema["properties"]["metadata"];
    if is_there && (reference(names).is_some() || names["properties"].get("generateName").is_some()) {
        return schema;
    }
    let text = serde_json::json!({ "type": "string" });
    let metadata = serde_json::json!({ "type": "object", "properties": { "name": text, "generateName": text } });
    if schema["type"].is_null() {
        schema["type"] = "object".into();
    }
    schema["properties"]["kind"] = text.clone();
    schema["properties"]["apiVersion"] = text;
    schema["properties"]["metadata"] = metadata;
    schema
}
