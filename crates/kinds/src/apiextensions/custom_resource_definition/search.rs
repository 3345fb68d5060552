//! Looking for something anywhere in a schema.

use rkube_machinery::Value;

/// Whether `found` is true of the schema or of one inside it, in whatever place.
pub fn any(schema: &Value, found: &mut dyn FnMut(&Value) -> bool) -> bool {
    if schema.is_null() {
        return false;
    }
    found(schema) || children(schema).any(|child| any(child, found))
}

/// Calls `visit` for the schema and all that are inside it.
pub fn each<'a>(schema: &'a Value, visit: &mut dyn FnMut(&'a Value)) {
    if schema.is_null() {
        return;
    }
    visit(schema);
    for child in children(schema) {
        each(child, visit);
    }
}

/// The schemas that stand directly in this one. A list of names, or `true`, is no schema.
fn children(schema: &Value) -> impl Iterator<Item = &Value> {
    let items = schema.get("items");
    let single = std::iter::once(items);
    let lists = ["allOf", "anyOf", "oneOf"].into_iter().flat_map(|name| schema.list(name));
    let not = std::iter::once(schema.get("not"));
    let map = |name: &str| schema.map(name).iter().map(|(_, child)| child);
    let all = single
        .chain(items.items())
        .chain(lists)
        .chain(not)
        .chain(map("properties"))
        .chain(std::iter::once(schema.get("additionalProperties")))
        .chain(map("patternProperties"))
        .chain(std::iter::once(schema.get("additionalItems")))
        .chain(map("definitions"))
        .chain(map("dependencies"));
    all.filter(|child| matches!(child, Value::Object(_)))
}

pub fn has_defaults(schema: &Value) -> bool {
    any(schema, &mut |schema| schema.has("default"))
}

/// Whether the schema says anything that only structural schemas may.
pub fn has_extensions(schema: &Value) -> bool {
    any(schema, &mut |schema| {
        schema.bool("x-kubernetes-embedded-resource")
            || schema.has("x-kubernetes-preserve-unknown-fields")
            || schema.bool("x-kubernetes-int-or-string")
            || !schema.list("x-kubernetes-list-map-keys").is_empty()
            || schema.has("x-kubernetes-list-type")
            || !schema.list("x-kubernetes-validations").is_empty()
    })
}
