//! Requests whose answers are not read as whole objects: of what was written a controller wants to know its name.

use http::{Method, Request, header};
use rkube_machinery::json::Scan;
use rkube_operator::Item;
use rkube_operator::kube::{self, Client};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

const JSON: &str = "application/json";
const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
const APPLY: &str = "application/apply-patch+yaml";
const STRATEGIC_MERGE: &str = "application/strategic-merge-patch+json";
/// What the client calls an answer that is no `Status`.
const NO_STATUS: &str = "Failed to parse error data";

/// What is read of an object that was written.
#[derive(Debug, Default, Deserialize)]
pub struct Written {
    #[serde(default)]
    pub metadata: WrittenMetadata,
}

#[derive(Debug, Default, Deserialize, PartialEq)]
#[serde(default, rename_all = "camelCase")]
pub struct WrittenMetadata {
    pub name: String,
    pub uid: String,
    pub resource_version: String,
    pub deletion_timestamp: Option<String>,
}

impl Written {
    /// Of an answer that is an object, or says what became of one. What is behind its metadata is not looked at.
    fn read(answer: &str) -> serde_json::Result<Written> {
        match WrittenMetadata::scan(answer) {
            Some(metadata) => Ok(Written { metadata }),
            None => serde_json::from_str(answer),
        }
    }
}

impl WrittenMetadata {
    /// None: something is unusual about it.
    fn scan(answer: &str) -> Option<WrittenMetadata> {
        let mut scan = Scan::new(answer.as_bytes());
        scan.open(b'{')?;
        while scan.field()?? != b"metadata" {
            scan.skip()?;
        }
        let mut metadata = WrittenMetadata::default();
        scan.open(b'{')?;
        while let Some(field) = scan.field()? {
            match field {
                b"name" => metadata.name = plain(scan.text()?)?,
                b"uid" => metadata.uid = plain(scan.text()?)?,
                b"resourceVersion" => metadata.resource_version = plain(scan.text()?)?,
                b"deletionTimestamp" => metadata.deletion_timestamp = Some(plain(scan.text()?)?),
                // Long, and the last where fields are not in the order of their names.
                MANAGED_FIELDS if !metadata.uid.is_empty() => break,
                _ => scan.skip()?,
            }
        }
        Some(metadata)
    }
}

const MANAGED_FIELDS: &[u8] = b"managedFields";

/// A text without escapes.
fn plain(text: &[u8]) -> Option<String> {
    if text.contains(&b'\\') { None } else { String::from_utf8(text.to_vec()).ok() }
}

pub async fn get(client: &Client, path: &str) -> Result<Written, kube::Error> {
    send(client, Method::GET, path, JSON, Vec::new()).await
}

/// The whole object.
pub async fn get_value(client: &Client, path: &str) -> Result<Value, kube::Error> {
    serde_json::from_str(&get_text(client, path).await?).map_err(kube::Error::SerdeError)
}

/// The whole object, as text.
pub async fn get_text(client: &Client, path: &str) -> Result<String, kube::Error> {
    let request = Request::builder().method(Method::GET).uri(path).body(Vec::new());
    let request =
        request.map_err(|error| kube::Error::BuildRequest(kube::core::request::Error::BuildRequest(error)))?;
    client.request_text(request).await
}

/// A list of nothing but metadata.
pub async fn list_metadata(client: &Client, path: &str) -> Result<Value, kube::Error> {
    let request =
        Request::builder().method(Method::GET).uri(path).header(header::ACCEPT, METADATA_LIST).body(Vec::new());
    client
        .request(request.map_err(|error| kube::Error::BuildRequest(kube::core::request::Error::BuildRequest(error)))?)
        .await
}

pub async fn create(client: &Client, path: &str, body: Vec<u8>) -> Result<Written, kube::Error> {
    send(client, Method::POST, path, JSON, body).await
}

pub async fn replace(client: &Client, path: &str, body: &Value) -> Result<Written, kube::Error> {
    send(client, Method::PUT, path, JSON, body.to_string().into_bytes()).await
}

/// Replaces an object. The whole object as it is then.
pub async fn replace_value(client: &Client, path: &str, body: &Value) -> Result<Value, kube::Error> {
    let body = body.to_string().into_bytes();
    let request = Request::builder().method(Method::PUT).uri(path).header(header::CONTENT_TYPE, JSON).body(body);
    client
        .request(request.map_err(|error| kube::Error::BuildRequest(kube::core::request::Error::BuildRequest(error)))?)
        .await
}

/// Applies, as this manager, whatever others say of the fields.
pub async fn apply(client: &Client, path: &str, manager: &str, body: &Value) -> Result<Written, kube::Error> {
    let path = format!("{path}?fieldManager={manager}&force=true");
    send(client, Method::PATCH, &path, APPLY, body.to_string().into_bytes()).await
}

pub async fn patch(client: &Client, path: &str, body: &Value) -> Result<Written, kube::Error> {
    send(client, Method::PATCH, path, STRATEGIC_MERGE, body.to_string().into_bytes()).await
}

/// Sets a condition of the pod with this uid, and what else `status` says. One that is new comes last, as upstream: a patch
/// that says nothing of the order would have it first.
pub async fn set_pod_condition(
    client: &Client,
    path: &str,
    uid: &str,
    mut status: Value,
    condition: Value,
) -> Result<Written, kube::Error> {
    let pod = get_value(client, path).await?;
    let kind = condition["type"].clone();
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    let others = conditions.map(|one| &one["type"]).filter(|one| **one != kind);
    let order: Vec<Value> = others.chain([&kind]).map(|one| json!({ "type": one })).collect();
    status["$setElementOrder/conditions"] = order.into();
    status["conditions"] = json!([condition]);
    // Another pod of the same name is none of ours.
    let body = json!({ "metadata": { "uid": uid }, "status": status });
    patch(client, &format!("{path}/status"), &body).await
}

pub async fn delete(client: &Client, path: &str) -> Result<Written, kube::Error> {
    let options = json!({ "kind": "DeleteOptions", "apiVersion": "v1" });
    send(client, Method::DELETE, path, JSON, options.to_string().into_bytes()).await
}

/// Deletes with these options.
pub async fn delete_with(client: &Client, path: &str, mut options: Value) -> Result<Written, kube::Error> {
    options["kind"] = "DeleteOptions".into();
    options["apiVersion"] = "v1".into();
    send(client, Method::DELETE, path, JSON, options.to_string().into_bytes()).await
}

async fn send(
    client: &Client,
    method: Method,
    path: &str,
    content_type: &'static str,
    body: Vec<u8>,
) -> Result<Written, kube::Error> {
    let request = Request::builder().method(method).uri(path).header(header::CONTENT_TYPE, content_type).body(body);
    let request =
        request.map_err(|error| kube::Error::BuildRequest(kube::core::request::Error::BuildRequest(error)))?;
    Written::read(&client.request_text(request).await?).map_err(kube::Error::SerdeError)
}

/// Replaces an object of which only the status was changed, by its status. `version` is the state that this is of.
pub async fn replace_status(
    client: &Client,
    path: &str,
    item: &Item,
    version: &str,
    status: &impl Serialize,
) -> Result<Written, kube::Error> {
    let body = with_status(item, version, status).map_err(kube::Error::SerdeError)?;
    send(client, Method::PUT, &format!("{path}/status"), JSON, body).await
}

/// An object as it is but for its status. Who manages which field is left to the server.
fn with_status(item: &Item, version: &str, status: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    if let Some(mut body) = before_status(&item.json, version) {
        serde_json::to_writer(&mut body, status)?;
        body.push(b'}');
        return Ok(body);
    }
    let mut object = whole(item)?;
    object["metadata"]["resourceVersion"] = version.into();
    object["status"] = serde_json::to_value(status)?;
    serde_json::to_vec(&object)
}

/// The text of an object up to its status, in the state of a version; None: something is unusual about it.
fn before_status(object: &[u8], version: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(object.len() + 64);
    let mut scan = Scan::new(object);
    scan.open(b'{')?;
    out.push(b'{');
    while let Some(field) = scan.field()? {
        match field {
            b"status" => scan.skip()?,
            b"metadata" => {
                put_key(field, &mut out);
                put_metadata(&mut scan, version, &mut out)?;
            }
            _ => {
                put_key(field, &mut out);
                out.extend_from_slice(scan.value()?);
            }
        }
    }
    put_key(b"status", &mut out);
    Some(out)
}

fn put_metadata(scan: &mut Scan<'_>, version: &str, out: &mut Vec<u8>) -> Option<()> {
    let mut has_version = false;
    scan.open(b'{')?;
    out.push(b'{');
    while let Some(field) = scan.field()? {
        let value = scan.value()?;
        if matches!(field, MANAGED_FIELDS | b"resourceVersion") {
            continue;
        }
        put_key(field, out);
        out.extend_from_slice(value);
        if field == b"uid" {
            // Where servers write it: what is in order is read faster.
            put_key(b"resourceVersion", out);
            serde_json::to_writer(&mut *out, version).ok()?;
            has_version = true;
        }
    }
    out.push(b'}');
    has_version.then_some(())
}

fn put_key(key: &[u8], out: &mut Vec<u8>) {
    if !out.ends_with(b"{") {
        out.push(b',');
    }
    out.push(b'"');
    out.extend_from_slice(key);
    out.extend_from_slice(b"\":");
}

/// An object as it is, to be written back changed. Who manages which field is left to the server.
pub fn whole(item: &Item) -> serde_json::Result<Value> {
    let mut object: Value = item.parse()?;
    object["metadata"]["resourceVersion"] = item.revision.to_string().into();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
    Ok(object)
}

/// A name in a path. Names of objects that exist need no escape but a few; a reference may say anything.
pub fn escaped(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b':' => out.push(byte as char),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// What a client of upstream would say of an error.
pub fn message(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}

/// The same, where what answers may know nothing of Kubernetes: then a client of upstream says itself what went wrong, and
/// what was asked for, such as `get pods.metrics.k8s.io`.
pub fn message_for(error: &kube::Error, asked: &str) -> String {
    match error {
        kube::Error::Api(status) if status.reason == NO_STATUS => {
            let what = match status.code {
                404 => "the server could not find the requested resource".to_owned(),
                405 => "the server does not allow this method on the requested resource".to_owned(),
                409 => "the server reported a conflict".to_owned(),
                429 => "the server has received too many requests and has asked us to try again later".to_owned(),
                503 => "the server is currently unable to handle the request".to_owned(),
                500.. => {
                    format!("an error on the server ({:?}) has prevented the request from succeeding", status.message)
                }
                code => format!("the server responded with the status code {code} but did not return more information"),
            };
            format!("{what} ({asked})")
        }
        other => message(other),
    }
}

pub fn is_not_found(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

/// Whether something of the name is there already, or was written by another meanwhile.
pub fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409)
}

pub fn is_invalid(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 422)
}

/// Whether nothing can be made because the namespace is to go.
pub fn is_namespace_terminating(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else { return false };
    let mut causes = status.details.iter().flat_map(|details| &details.causes);
    causes.any(|cause| cause.reason == "NamespaceTerminating")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(object: &Value) -> Item {
        let json = object.to_string().into();
        Item { namespace: "n".into(), name: "a".into(), uid: "u".into(), revision: 7, json }
    }

    #[test]
    fn a_status_goes_with_the_object_as_it_is() {
        let metadata = json!({
            "name": "a", "uid": "u", "labels": { "managedFields": "[\"", "a\\": "}" }, "resourceVersion": "1",
            "managedFields": [{ "manager": "m", "fieldsV1": { "f:spec": {} } }],
        });
        let status = json!({ "active": 1, "\"": "é" });
        let spliced = [
            json!({ "kind": "Job", "metadata": metadata, "spec": { "status": { "a": [] } }, "status": { "old": {} } }),
            json!({ "kind": "Job", "metadata": { "uid": "u" }, "spec": {} }),
            json!({ "metadata": { "uid": "u" } }),
        ];
        for object in spliced {
            let item = item(&object);
            assert!(before_status(&item.json, "12").is_some(), "{object}");
            let body: Value = serde_json::from_slice(&with_status(&item, "12", &status).unwrap()).unwrap();
            let mut expected = object.clone();
            expected["metadata"].as_object_mut().unwrap().remove("managedFields");
            expected["metadata"]["resourceVersion"] = "12".into();
            expected["status"] = status.clone();
            assert_eq!(body, expected);
        }
        let unusual = item(&json!({ "kind": "Job", "metadata": { "name": "a" } }));
        assert!(before_status(&unusual.json, "12").is_none());
        let body: Value = serde_json::from_slice(&with_status(&unusual, "12", &status).unwrap()).unwrap();
        let metadata = json!({ "name": "a", "resourceVersion": "12" });
        assert_eq!(body, json!({ "kind": "Job", "metadata": metadata, "status": status }));
    }

    #[test]
    fn of_an_answer_its_metadata_are_read() {
        let table = [
            r#"{"kind":"Pod","metadata":{"name":"a","uid":"u","resourceVersion":"7","managedFields":["#,
            r#"{"kind":"Status","metadata":{},"status":"Success"}"#,
            r#"{"metadata":{"name":"a\u002db","deletionTimestamp":"t"},"spec":{}}"#,
            r#"{"metadata":{"deletionTimestamp":null,"name":"a"}}"#,
            r#"{"kind":"Status"}"#,
            r#"{"metadata":{"managedFields":[{"x":"]"}],"name":"a","resourceVersion":"7","uid":"u"},"spec":{"#,
        ];
        let read = table.map(|answer| Written::read(answer).unwrap().metadata);
        let [whole, status, escaped, null, none, sorted] = read;
        assert_eq!((whole.name.as_str(), whole.uid.as_str(), whole.resource_version.as_str()), ("a", "u", "7"));
        assert_eq!(sorted, whole);
        assert_eq!((status, none), Default::default());
        assert_eq!((escaped.name.as_str(), escaped.deletion_timestamp.as_deref()), ("a-b", Some("t")));
        assert_eq!((null.name.as_str(), null.deletion_timestamp), ("a", None));
        assert!(Written::read("7").is_err());
    }
}
