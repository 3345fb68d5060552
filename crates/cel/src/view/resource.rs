//! What every resource has, whatever its schema says: `apiVersion`, `kind`, `metadata.name`, `metadata.generateName`.

use std::sync::LazyLock;

use rkube_machinery::schema::structural::{JsonType, Structural};

static TEXT: LazyLock<Structural> =
    LazyLock::new(|| Structural { json_type: JsonType::String, ..Structural::default() });
static METADATA: LazyLock<Structural> = LazyLock::new(|| Structural {
    json_type: JsonType::Object,
    properties: Box::new([("generateName".into(), TEXT.clone()), ("name".into(), TEXT.clone())]),
    ..Structural::default()
});

const NAMES: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// The schema of a property. For a resource those that every resource has stand before what the schema says of them,
/// unless it says all of it.
pub fn property<'a>(schema: &'a Structural, is_resource: bool, name: &str) -> Option<&'a Structural> {
    if !is_resource || !NAMES.contains(&name) || is_complete(schema) {
        return schema.property(name);
    }
    Some(if name == "metadata" { &METADATA } else { &TEXT })
}

/// All properties with their names, in no order.
pub fn properties<'a>(
    schema: &'a Structural,
    is_resource: bool,
) -> impl Iterator<Item = (&'a str, &'a Structural)> + 'a {
    let replaced = is_resource && !is_complete(schema);
    let own = schema.properties.iter().map(|(name, property)| (name.as_str(), property));
    let own = own.filter(move |(name, _)| !replaced || !NAMES.contains(name));
    let added = NAMES.iter().filter(move |_| replaced).map(move |name| {
        let property: &'a Structural = if *name == "metadata" { &METADATA } else { &TEXT };
        (*name, property)
    });
    own.chain(added)
}

fn is_complete(schema: &Structural) -> bool {
    let is = |schema: Option<&Structural>, wanted: JsonType| schema.is_some_and(|found| found.json_type == wanted);
    let metadata = schema.property("metadata");
    let of_metadata = |name: &str| metadata.and_then(|metadata| metadata.property(name));
    is(schema.property("kind"), JsonType::String)
        && is(schema.property("apiVersion"), JsonType::String)
        && is(metadata, JsonType::Object)
        && is(of_metadata("name"), JsonType::String)
        && is(of_metadata("generateName"), JsonType::String)
}
