//! The walk over a schema: what may not stand in one, place by place.

use rkube_machinery::Value;
use rkube_machinery::field::{Errors, Path};

use super::lists;
use super::options::DefinitionOptions;
use super::rules;
use crate::custom::rules::{Context as Site, TotalCost};

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
/// What every object has, whatever its schema says.
pub const META_FIELDS: [&str; 3] = ["metadata", "kind", "apiVersion"];

pub struct Walk<'o> {
    options: &'o DefinitionOptions<'o>,
    /// The schema is the old one: what its rules cost one by one is not looked at.
    is_unchanged: bool,
    /// What is wrong with the schema; what is wrong with its rules comes after all of it.
    pub(super) errors: Errors,
    rule_errors: Errors,
    costs: TotalCost,
}

/// What a place in the schema has from those around it.
#[derive(Clone, Copy, Default)]
pub struct Context<'p> {
    /// Why no default may stand here.
    no_default: Option<&'static str>,
    /// Inside of the metadata of an object.
    inside_meta: bool,
    /// The place around this one whose values cannot be told from each other in an old and a new object.
    pub uncorrelatable: Option<&'p Path<'p>>,
    /// What rules need to know; none where there may be no rules, or where the schema is not right anyway.
    pub site: Option<Site<'p>>,
}

impl<'o> Walk<'o> {
    pub fn new(options: &'o DefinitionOptions<'o>, is_unchanged: bool) -> Walk<'o> {
        Walk { options, is_unchanged, errors: Errors::new(), rule_errors: Errors::new(), costs: TotalCost::default() }
    }

    /// Walks over a whole schema. Without a `site` no rule is compiled.
    pub fn root(&mut self, path: Path<'_>, schema: &Value, site: Option<Site<'_>>) {
        self.schema(&path, schema, true, Context { site, ..Context::default() });
    }

    /// What was found, and what the rules cost together.
    pub fn finish(mut self) -> (Errors, TotalCost) {
        self.errors.0.append(&mut self.rule_errors.0);
        (self.errors, self.costs)
    }

    fn schema(&mut self, path: &Path<'_>, schema: &Value, is_root: bool, context: Context<'_>) {
        let before = self.errors.len();
        self.unsupported(path, schema, context);
        if schema.bool("uniqueItems") {
            let detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
            self.errors.forbidden(path.child("uniqueItems"), detail);
        }
        self.additional_properties(path, schema, context);
        self.properties(path, schema, is_root, context);
        self.junctors(path, schema, context);
        self.items(path, schema, context);
        self.unnamed(path, schema, "dependencies", context);
        if schema.get("x-kubernetes-preserve-unknown-fields").as_bool() == Some(false) {
            let path = path.child("x-kubernetes-preserve-unknown-fields");
            self.errors.invalid(path, false, "must be true or undefined");
        }
        lists::validate(*path, schema, self.options, &mut self.errors);
        let rules = schema.list("x-kubernetes-validations");
        if rules.is_empty() {
            return;
        }
        rules::validate(*path, schema, &mut self.errors);
        // Of a wrong schema rules would be told what nobody could act on.
        if self.errors.len() == before
            && let Some(site) = context.site
        {
            let around = context.uncorrelatable.map(ToString::to_string);
            let (costs, errors) = (&mut self.costs, &mut self.rule_errors);
            site.check(*path, around.as_deref(), self.is_unchanged, costs, errors);
        }
    }

    /// What no schema may say.
    fn unsupported(&mut self, path: &Path<'_>, schema: &Value, context: Context<'_>) {
        let json_type = schema.str("type");
        if self.options.require_known_types && has_unknown_type(schema) {
            self.errors.not_supported(path.child("type"), json_type, &TYPES);
        }
        if let Some(reason) = context.no_default.filter(|_| schema.has("default")) {
            self.errors.forbidden(path.child("default"), format!("must not be set {reason}"));
        }
        let given = [
            ("id", !schema.str("id").is_empty()),
            ("additionalItems", schema.has("additionalItems")),
            ("patternProperties", !schema.map("patternProperties").is_empty()),
            ("definitions", !schema.map("definitions").is_empty()),
            ("dependencies", schema.has("dependencies")),
            ("$ref", schema.has("$ref")),
        ];
        for (field, _) in given.iter().filter(|(_, given)| *given) {
            self.errors.forbidden(path.child(field), format!("{field} is not supported"));
        }
        if json_type == "null" {
            let detail = "type cannot be set to null, use nullable as an alternative";
            self.errors.forbidden(path.child("type"), detail);
        }
        if !schema.get("items").items().is_empty() {
            self.errors.forbidden(path.child("items"), "items must be a schema object and not an array");
        }
        if context.inside_meta && schema.bool("x-kubernetes-embedded-resource") {
            let path = path.child("x-kubernetes-embedded-resource");
            self.errors.forbidden(path, "must not be used inside of resource meta");
        }
    }

    /// The values of maps. Structs have `properties`, maps have `additionalProperties`, nothing has both.
    fn additional_properties(&mut self, path: &Path<'_>, schema: &Value, context: Context<'_>) {
        let mut context = context;
        let (path, values) = (path.child("additionalProperties"), schema.get("additionalProperties"));
        if values.is_null() {
            return;
        }
        if !schema.map("properties").is_empty() && values.as_bool() != Some(true) {
            self.errors.forbidden(path, "additionalProperties and properties are mutual exclusive");
        }
        if context.inside_meta {
            // What is pruned of a default depends on the values around it.
            context.no_default = Some("inside additionalProperties applying to object metadata");
        }
        context.site = context.site.and_then(|site| site.values());
        if matches!(values, Value::Object(_)) {
            self.schema(&path, values, false, context);
        }
    }

    fn properties(&mut self, path: &Path<'_>, schema: &Value, is_root: bool, context: Context<'_>) {
        let properties = path.child("properties");
        let is_resource = is_root || schema.bool("x-kubernetes-embedded-resource");
        let map_type = schema.get("x-kubernetes-map-type");
        let correlates = map_type.is_null() || matches!(map_type.as_str(), "granular" | "atomic");
        for (name, property) in schema.map("properties").iter() {
            let mut context = context;
            if !correlates {
                context.uncorrelatable = context.uncorrelatable.or(Some(path));
            }
            if is_resource && META_FIELDS.contains(&name.as_str()) {
                context.inside_meta = true;
                if is_root {
                    context.no_default = Some(top_level(name));
                }
            }
            context.site = context.site.and_then(|site| site.property(name));
            self.schema(&properties.key(name), property, false, context);
        }
    }

    /// What is said of a value beside its shape. No rules are looked at in there.
    fn junctors(&mut self, path: &Path<'_>, schema: &Value, context: Context<'_>) {
        let context = Context { site: None, ..context };
        if schema.has("not") {
            self.schema(&path.child("not"), schema.get("not"), false, context);
        }
        for junctor in ["allOf", "oneOf", "anyOf"] {
            let path = path.child(junctor);
            for (index, part) in schema.list(junctor).iter().enumerate() {
                self.schema(&path.index(index), part, false, context);
            }
        }
        self.unnamed(path, schema, "definitions", context);
    }

    fn items(&mut self, path: &Path<'_>, schema: &Value, context: Context<'_>) {
        let mut context = context;
        let items = schema.get("items");
        if items.is_null() {
            return;
        }
        // Only the items of maps are known by their keys from one version of an object to the next.
        if schema.str("x-kubernetes-list-type") != "map" {
            context.uncorrelatable = context.uncorrelatable.or(Some(path));
        }
        let path = path.child("items");
        if matches!(items, Value::Object(_)) {
            let site = context.site.and_then(|site| site.items());
            self.schema(&path, items, false, Context { site, ..context });
        }
        for (index, item) in items.items().iter().enumerate() {
            self.schema(&path.index(index), item, false, Context { site: None, ..context });
        }
    }

    /// Schemas under names that are not those of fields.
    fn unnamed(&mut self, path: &Path<'_>, schema: &Value, field: &str, context: Context<'_>) {
        let path = path.child(field);
        for (name, part) in schema.map(field).iter().filter(|(_, part)| matches!(part, Value::Object(_))) {
            self.schema(&path.key(name), part, false, Context { site: None, ..context });
        }
    }
}

/// Whether the schema's type is none of those that there are.
pub fn has_unknown_type(schema: &Value) -> bool {
    let json_type = schema.str("type");
    !json_type.is_empty() && !TYPES.contains(&json_type)
}

fn top_level(field: &str) -> &'static str {
    match field {
        "metadata" => "in top-level metadata",
        "kind" => "in top-level kind",
        _ => "in top-level apiVersion",
    }
}
