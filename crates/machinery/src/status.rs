//! `Status`: how the API says that something went wrong, or that a deletion is done.
//!
//! One constructor per reason, worded as Kubernetes words it. This is the only place that knows HTTP codes.

use crate::field::{self, quote};
use crate::object;
use crate::value::{Map, Text, Value};

/// A resource or kind with its group, as messages name it: `pods`, `deployments.apps`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct GroupResource {
    pub group: Text,
    pub resource: Text,
}

impl GroupResource {
    pub fn new(group: impl Into<Text>, resource: impl Into<Text>) -> Self {
        GroupResource { group: group.into(), resource: resource.into() }
    }
}

impl std::fmt::Display for GroupResource {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.resource)?;
        if !self.group.is_empty() {
            write!(formatter, ".{}", self.group)?;
        }
        Ok(())
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Status {
    pub success: bool,
    pub message: String,
    pub reason: &'static str,
    pub details: Option<Box<Details>>,
    pub code: u16,
    /// A token by which an interrupted list can go on, though not consistently.
    pub continue_token: String,
    /// The whole object as somebody else worded it: a webhook that refuses. The code and when to try again are said
    /// above, too.
    pub given: Option<Box<Value>>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Details {
    pub name: String,
    pub group: String,
    pub kind: String,
    pub uid: String,
    pub causes: Vec<Cause>,
    pub retry_after_seconds: u32,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cause {
    pub reason: String,
    pub message: String,
    pub field: String,
}

impl Status {
    fn failure(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Status { code, reason, message: message.into(), ..Status::default() }
    }

    fn about(mut self, resource: &GroupResource, name: &str) -> Self {
        let details = self.details.get_or_insert_default();
        details.name = name.to_owned();
        details.group = resource.group.to_string();
        details.kind = resource.resource.to_string();
        self
    }

    pub fn with_details(mut self, details: Details) -> Self {
        self.details = Some(Box::new(details));
        self
    }

    pub fn with_retry_after(mut self, seconds: u32) -> Self {
        self.details.get_or_insert_default().retry_after_seconds = seconds;
        self
    }

    pub fn bad_request(message: impl Into<String>) -> Self {
        Status::failure(400, "BadRequest", message)
    }

    pub fn unauthorized() -> Self {
        Status::failure(401, "Unauthorized", "Unauthorized")
    }

    pub fn forbidden(resource: &GroupResource, name: &str, why: impl AsRef<str>) -> Self {
        let why = why.as_ref();
        let message = match (resource.resource.is_empty(), name.is_empty()) {
            (true, _) => format!("forbidden: {why}"),
            (false, true) => format!("{resource} is forbidden: {why}"),
            (false, false) => format!("{resource} {} is forbidden: {why}", quote(name)),
        };
        Status::failure(403, "Forbidden", message).about(resource, name)
    }

    pub fn not_found(resource: &GroupResource, name: &str) -> Self {
        Status::failure(404, "NotFound", format!("{resource} {} not found", quote(name))).about(resource, name)
    }

    /// No such path.
    pub fn no_such_page() -> Self {
        Status::failure(404, "NotFound", "the server could not find the requested resource")
            .with_details(Details::default())
    }

    pub fn method_not_allowed() -> Self {
        Status::failure(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
            .with_details(Details::default())
    }

    pub fn method_not_supported(resource: &GroupResource, action: &str) -> Self {
        let message = format!("{action} is not supported on resources of kind {}", quote(&resource.to_string()));
        Status::failure(405, "MethodNotAllowed", message).about(resource, "")
    }

    pub fn not_acceptable(accepted: &[&str]) -> Self {
        let message = format!("406: Not Acceptable\n\nAvailable representations: {}", accepted.join(", "));
        Status::failure(406, "NotAcceptable", message).with_details(Details::default())
    }

    pub fn already_exists(resource: &GroupResource, name: &str) -> Self {
        Status::failure(409, "AlreadyExists", format!("{resource} {} already exists", quote(name)))
            .about(resource, name)
    }

    pub fn generate_name_conflict(resource: &GroupResource, name: &str) -> Self {
        let message = format!(
            "{resource} {} already exists, the server was not able to generate a unique name for the object",
            quote(name)
        );
        Status::failure(409, "AlreadyExists", message).about(resource, name).with_retry_after(1)
    }

    pub fn conflict(resource: &GroupResource, name: &str, why: impl AsRef<str>) -> Self {
        let message = format!("Operation cannot be fulfilled on {resource} {}: {}", quote(name), why.as_ref());
        Status::failure(409, "Conflict", message).about(resource, name)
    }

    /// The object changed since the client read it.
    pub fn modified(resource: &GroupResource, name: &str) -> Self {
        Status::conflict(
            resource,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    pub fn apply_conflict(message: String, causes: Vec<Cause>) -> Self {
        Status::failure(409, "Conflict", message).with_details(Details { causes, ..Details::default() })
    }

    pub fn expired(message: impl Into<String>) -> Self {
        Status::failure(410, "Expired", message)
    }

    pub fn request_too_large(message: impl AsRef<str>) -> Self {
        Status::failure(413, "RequestEntityTooLarge", format!("Request entity too large: {}", message.as_ref()))
    }

    pub fn unsupported_media_type(message: impl Into<String>) -> Self {
        Status::failure(415, "UnsupportedMediaType", message)
    }

    pub fn invalid(kind: &GroupResource, name: &str, errors: &field::Errors) -> Self {
        let mut message = format!("{kind} {} is invalid", quote(name));
        if !errors.is_empty() {
            message.push_str(": ");
            message.push_str(&errors.summary());
        }
        let causes = errors
            .0
            .iter()
            .map(|error| Cause {
                reason: error.kind.reason().to_owned(),
                message: error.body.clone(),
                field: error.field.clone(),
            })
            .collect();
        let mut status = Status::failure(422, "Invalid", message).about(kind, name);
        status.details.get_or_insert_default().causes = causes;
        status
    }

    pub fn too_many_requests(message: impl Into<String>, retry_after_seconds: u32) -> Self {
        Status::failure(429, "TooManyRequests", message).with_retry_after(retry_after_seconds)
    }

    pub fn internal(why: impl AsRef<str>) -> Self {
        let why = why.as_ref();
        let cause = Cause { message: why.to_owned(), ..Cause::default() };
        Status::failure(500, "InternalError", format!("Internal error occurred: {why}"))
            .with_details(Details { causes: vec![cause], ..Details::default() })
    }

    pub fn service_unavailable(message: impl Into<String>) -> Self {
        Status::failure(503, "ServiceUnavailable", message)
    }

    /// The request took too long; it may still complete.
    pub fn timeout(message: impl AsRef<str>, retry_after_seconds: u32) -> Self {
        Status::failure(504, "Timeout", format!("Timeout: {}", message.as_ref())).with_retry_after(retry_after_seconds)
    }

    /// The resource version is newer than anything known.
    pub fn too_large_resource_version(requested: u64, current: u64) -> Self {
        let mut status = Status::timeout(format!("Too large resource version: {requested}, current: {current}"), 1);
        status.details.get_or_insert_default().causes = vec![Cause {
            reason: "ResourceVersionTooLarge".to_owned(),
            message: "Too large resource version".to_owned(),
            field: String::new(),
        }];
        status
    }

    /// The object is gone.
    pub fn deleted(resource: &GroupResource, name: &str, uid: &str) -> Self {
        let mut status = Status { success: true, code: 200, ..Status::default() }.about(resource, name);
        status.details.get_or_insert_default().uid = uid.to_owned();
        status
    }

    pub fn success() -> Self {
        Status { success: true, code: 200, ..Status::default() }
    }

    /// As an object of kind `Status`. A success says no code, unless something was made.
    pub fn to_value(&self) -> Value {
        if let Some(given) = &self.given {
            return given.as_ref().clone();
        }
        let mut out = object! { "kind": "Status", "apiVersion": "v1", "metadata": Value::object() };
        out.set("status", if self.success { "Success" } else { "Failure" });
        if !self.continue_token.is_empty() {
            out.set("metadata", object! { "continue": self.continue_token.as_str() });
        }
        let mut put = |key: &str, text: &str| {
            if !text.is_empty() {
                out.set(key, text);
            }
        };
        put("message", &self.message);
        put("reason", self.reason);
        if let Some(details) = &self.details {
            out.set("details", details.to_value());
        }
        if !self.success || self.code == 201 {
            out.set("code", i64::from(self.code));
        }
        in_order(out, &["kind", "apiVersion", "metadata", "status", "message", "reason", "details", "code"])
    }
}

impl Details {
    fn to_value(&self) -> Value {
        let mut entries: Vec<(Text, Value)> = Vec::new();
        for (key, text) in [("name", &self.name), ("group", &self.group), ("kind", &self.kind), ("uid", &self.uid)] {
            if !text.is_empty() {
                entries.push((Text::new_static(key), Value::from(text.as_str())));
            }
        }
        if !self.causes.is_empty() {
            entries
                .push((Text::new_static("causes"), self.causes.iter().map(Cause::to_value).collect::<Vec<_>>().into()));
        }
        if self.retry_after_seconds != 0 {
            entries.push((Text::new_static("retryAfterSeconds"), i64::from(self.retry_after_seconds).into()));
        }
        Value::Object(Map::in_order(entries))
    }
}

impl Cause {
    fn to_value(&self) -> Value {
        let fields = [("reason", &self.reason), ("message", &self.message), ("field", &self.field)];
        let entries = fields.into_iter().filter(|(_, text)| !text.is_empty());
        Value::Object(entries.map(|(key, text)| (Text::new_static(key), text.as_str())).collect())
    }
}

fn in_order(value: Value, order: &[&'static str]) -> Value {
    let mut value = value;
    Value::Object(Map::in_order(
        order.iter().filter_map(|key| value.remove(key).map(|field| (Text::new_static(key), field))).collect(),
    ))
}
