//! What a webhook's patch makes of an object. Pure: the object is in the version that the webhook asked for.

// tidy: types ConfigMap

use rkube_machinery::field::{Errors, Path, quote};
use rkube_machinery::patch::{Decoding, json_patch};
use rkube_machinery::schema::Schema;
use rkube_machinery::{GroupResource, Status, Value, decode, json};

use crate::Kind;

/// As upstream names the types that it knows.
const SCHEME: &str = "pkg/api/legacyscheme/scheme.go:30";

/// The operations of a patch; none where there is nothing to do. The text says what is wrong with it.
pub fn operations(patch: &[u8]) -> Result<Option<Value>, String> {
    let operations = json::parse(patch).map_err(|error| error.to_string())?;
    json_patch::check(&operations, Decoding::Lenient).map_err(|error| error.to_string())?;
    Ok(Some(operations).filter(|operations| !operations.items().is_empty()))
}

/// What the patched object is to be.
pub struct Expected<'a> {
    pub api_version: &'a str,
    pub name: &'a str,
    /// The kind, where it is one of a resource's own; a scale or a binding is not.
    pub kind: Option<&'a Kind>,
    /// The type of what is none of a resource's own.
    pub table: Option<&'a Schema>,
}

impl Expected<'_> {
    fn schema(&self) -> Option<&Schema> {
        self.kind.map(|kind| &kind.schema).or(self.table)
    }
}

/// The object (as JSON) with the operations done to it: decoded and whole, not defaulted.
pub fn apply(object: &str, operations: &Value, expected: &Expected<'_>) -> Result<Value, Status> {
    let mut document = json::parse(object.as_bytes()).map_err(|error| Status::internal(error.to_string()))?;
    json_patch::apply_as(operations, &mut document, Decoding::Lenient)
        .map_err(|error| Status::internal(error.to_string()))?;
    let type_meta = decode::type_meta(&document);
    let (api_version, name) =
        type_meta.map_err(|error| Status::internal(format!("couldn't get version/kind; json parse error: {error}")))?;
    match expected.kind.filter(|kind| kind.schema.table().is_none()) {
        Some(kind) => check_custom_type(&document, (&api_version, &name), expected, kind)?,
        None => {
            let name = if name.is_empty() { expected.name } else { name.as_str() };
            let api_version = if api_version.is_empty() { expected.api_version } else { api_version.as_str() };
            if (api_version, name) != (expected.api_version, expected.name) {
                return Err(Status::internal(misfit(document, (api_version, name), expected)));
            }
        }
    }
    decoded(document, expected).map_err(Status::internal)
}

fn decoded(document: Value, expected: &Expected<'_>) -> Result<Value, String> {
    let Some(schema) = expected.schema() else { return Ok(document) };
    let mut value = schema.decode(document).map_err(|error| error.to_string())?.value;
    if let Some(why) = expected.kind.and_then(|kind| kind.rules.unreadable(&value)) {
        return Err(why);
    }
    value.set("kind", expected.name);
    value.set("apiVersion", expected.api_version);
    schema.complete(&mut value);
    Ok(value)
}

/// Custom resources name their type in full, and no other is taken for theirs.
fn check_custom_type(
    document: &Value,
    (api_version, name): (&str, &str),
    expected: &Expected<'_>,
    kind: &Kind,
) -> Result<(), Status> {
    if name.is_empty() {
        let shown = json::to_string(document);
        return Err(Status::internal(format!("Object 'Kind' is missing in '{shown}'")));
    }
    if api_version != expected.api_version {
        let (given, wanted) = (if api_version.is_empty() { "/" } else { api_version }, quote(expected.api_version));
        let message = format!("{given}, Kind={name} is unstructured and is not suitable for converting to {wanted}");
        return Err(Status { code: 500, message, ..Status::default() });
    }
    if name != expected.name {
        let mut errors = Errors::new();
        errors.invalid(Path::new("kind"), name, format!("must be {}", expected.name));
        let object = document.get("metadata").str("name");
        return Err(Status::invalid(&GroupResource::new(kind.group.clone(), name), object, &errors));
    }
    Ok(())
}

/// The patch made an object of another type of it: why that cannot be used.
fn misfit(document: Value, (api_version, name): (&str, &str), expected: &Expected<'_>) -> String {
    let known = crate::all().iter().find(|kind| kind.kind == name && kind.has_api_version(api_version));
    let Some(known) = known else {
        return format!("no kind \"{name}\" is registered for version \"{api_version}\" in scheme \"{SCHEME}\"");
    };
    if let Err(error) = known.schema.decode(document) {
        return error.to_string();
    }
    let version = |api_version: &str| api_version.rsplit('/').next().unwrap_or_default().to_owned();
    format!(
        "converting ({}.{name}) to ({}.{}): unknown conversion",
        version(api_version),
        version(expected.api_version),
        expected.name
    )
}
