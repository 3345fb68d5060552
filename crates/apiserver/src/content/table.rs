//! Objects as rows of a table, and as their metadata alone.

use rkube_kinds::Column;
use rkube_kinds::kind::{ColumnView, Columns, RowCondition};
use rkube_machinery::value::{Map, Text, Value};
use rkube_machinery::{TypeRef, decode, object};

use rkube_catalog::Served;

/// A `Table` of these objects, which are in the stored form. `list` is the list's metadata, null for a single object. `include`: what each row
/// carries of its object (`None`, `Metadata`, `Object`; empty means `Metadata`).
pub fn table_for(
    served: &Served,
    version: &str,
    objects: &[Value],
    include: &str,
    now: i64,
    list: &Value,
    headers: bool,
) -> Value {
    let rows: Vec<Value> = objects.iter().map(|object| table_row(served, version, object, include, now)).collect();
    let metadata = match (list, objects) {
        (Value::Null, [object]) if object.get("metadata").has("resourceVersion") => {
            object! { "resourceVersion": object.get("metadata").str("resourceVersion") }
        }
        (Value::Null, _) => Value::object(),
        (list, _) => list.clone(),
    };
    let mut table = table_head(served, version, metadata, headers);
    table.set("rows", rows);
    table
}

/// A table without its rows.
pub fn table_head(served: &Served, version: &str, metadata: Value, headers: bool) -> Value {
    object! {
        "kind": "Table",
        "apiVersion": format!("meta.k8s.io/{version}"),
        "metadata": metadata,
        "columnDefinitions": if headers { Value::Array(definitions(columns_of(served))) } else { Value::Null },
    }
}

/// The row of an object in the stored form.
pub fn table_row(served: &Served, version: &str, object: &Value, include: &str, now: i64) -> Value {
    let mut row = vec![cells(columns_of(served), object, now)];
    if let Some(completed) = served.kind.rules.row_completed(object) {
        row.push((Text::new_static("conditions"), Value::Array(vec![condition(&completed)])));
    }
    match include {
        "None" => row.push((Text::new_static("object"), Value::Null)),
        "Object" => row.push((Text::new_static("object"), served.to_served(object.clone()))),
        _ => row.push((Text::new_static("object"), partial_metadata(served, object, version))),
    }
    Value::Object(Map::in_order(row))
}

/// The table of a single object that is of no served kind.
pub fn one_row(columns: &Columns, version: &str, object: &Value, include: &str, now: i64) -> Value {
    let mut row = vec![cells(columns, object, now)];
    match include {
        "None" => row.push((Text::new_static("object"), Value::Null)),
        "Object" => row.push((Text::new_static("object"), object.clone())),
        _ => row.push((Text::new_static("object"), metadata_of(object, version))),
    }
    object! {
        "kind": "Table",
        "apiVersion": format!("meta.k8s.io/{version}"),
        "metadata": object! { "resourceVersion": object.get("metadata").str("resourceVersion") },
        "columnDefinitions": definitions(columns),
        "rows": vec![Value::Object(Map::in_order(row))],
    }
}

const METADATA: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

fn cells(columns: &Columns, object: &Value, now: i64) -> (Text, Value) {
    (Text::new_static("cells"), columns.iter().map(|column| column.cell(object, now)).collect::<Vec<_>>().into())
}

fn condition(completed: &RowCondition) -> Value {
    object! { "type": "Completed", "status": "True", "reason": completed.reason, "message": completed.message }
}

fn definitions(columns: &Columns) -> Vec<Value> {
    columns.iter().filter(|column| !column.name.is_empty()).map(definition).collect()
}

fn definition(column: ColumnView<'_>) -> Value {
    object! {
        "name": column.name,
        "type": column.kind,
        "format": column.format,
        "description": words(column.description),
        "priority": column.priority,
    }
}

/// The description, or what the API's documentation says of the field that it names.
fn words(description: &str) -> String {
    let Some((type_name, field)) = description.strip_prefix("doc:").and_then(|place| place.split_once(' ')) else {
        return description.to_owned();
    };
    rkube_openapi::field_description(type_name, field)
}

fn columns_of(served: &Served) -> &Columns {
    if served.kind.columns.is_empty() { &DEFAULT_COLUMNS } else { &served.kind.columns }
}

/// What kinds without columns of their own show.
static DEFAULT_COLUMNS: Columns = Columns::Table(&[
    Column {
        name: "Name",
        kind: "string",
        format: "name",
        description: "doc:io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta name",
        priority: 0,
        cell: |object, _| object.get("metadata").get("name").clone(),
    },
    Column {
        name: "Created At",
        kind: "date",
        format: "",
        description: "doc:io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta creationTimestamp",
        priority: 0,
        cell: |object, _| object.get("metadata").get("creationTimestamp").clone(),
    },
]);

/// The metadata of an object in the stored form, as a `PartialObjectMetadata`.
pub fn partial_metadata(served: &Served, object: &Value, version: &str) -> Value {
    let mut metadata = object.get("metadata").clone();
    if let (true, Some(schema)) = (served.is_custom(), TypeRef::find(METADATA)) {
        // Custom resources keep theirs sorted.
        decode::complete(&mut metadata, schema.get());
    }
    if let Some(annotations) = metadata.find_mut("annotations") {
        for name in served.kind.strategy.field_annotations {
            annotations.remove(name);
        }
        if annotations.is_empty() {
            metadata.remove("annotations");
        }
    }
    partial(metadata, version)
}

/// The metadata of an object of no served kind.
pub fn metadata_of(object: &Value, version: &str) -> Value {
    partial(object.get("metadata").clone(), version)
}

fn partial(metadata: Value, version: &str) -> Value {
    object! {
        "kind": "PartialObjectMetadata",
        "apiVersion": format!("meta.k8s.io/{version}"),
        "metadata": metadata,
    }
}
