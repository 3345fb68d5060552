//! What happens to objects: one file per verb. Every write goes the same way, whoever asks:
//! decode → default → mutate (admission) → prepare → validate → validate (admission) → store.

mod admit;
mod body_type;
pub mod change;
mod components;
mod continue_token;
mod create;
mod delete;
mod engine;
mod escalation;
mod internal_write;
mod list;
mod list_body;
mod metadata;
mod read;
mod review;
mod review_selectors;
mod selected;
mod subresource;
mod update;
mod watch;

use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use rkube_access::UserRef;
use rkube_catalog::Snapshot;
use rkube_kinds::kind::{Part, Requester};
use rkube_kinds::lifecycle::Lifecycle;
use rkube_machinery::decode::Decoded;
use rkube_machinery::field::{Errors, Path};
use rkube_machinery::{Status, Value};

use body_type::{Fit, Misfit, Named};
pub use body_type::{internal_group, internal_package};
pub use components::Component;
pub use delete::Preconditions;
pub use engine::Engine;
use engine::{Place, store_error};
pub use internal_write::{AGENT, InternalWriter};

use crate::content::{Accept, Answer, Format, Input, object_answer};
use crate::request::{FieldValidation, Options, RequestInfo};
use crate::server::ApiServer;
use rkube_catalog::Entry;
use rkube_catalog::Served;

/// One request on a resource.
pub struct Call<'a> {
    pub server: &'a ApiServer,
    /// What is served as long as the request lasts.
    pub catalog: &'a Snapshot,
    pub served: &'a Arc<Served>,
    pub info: &'a RequestInfo,
    pub options: Options,
    pub accept: Accept,
    pub user: &'a UserRef,
    pub agent: &'a str,
    pub content_type: &'a str,
    pub part: Part,
    /// Texts for `Warning` headers.
    pub warnings: Vec<String>,
    /// Whether the body has lists or maps that are there and empty.
    pub kept_empties: bool,
    /// Whether the object to be made came without labels.
    pub gave_no_labels: bool,
}

/// What a write left behind.
pub struct Written {
    pub entry: Entry,
    pub created: bool,
}

impl<'a> Call<'a> {
    /// Does what the request asks for.
    pub async fn run(&mut self, body: Bytes) -> Result<Answer, Status> {
        let kind = &self.served.kind;
        let verb = if self.info.verb == "watch" { "list" } else { self.info.verb.as_ref() };
        if !kind.deprecation.is_empty() && kind.allows(verb) {
            self.warnings.push(kind.deprecation.to_string());
        }
        self.check_verb()?;
        if let Part::Other(name) = self.part {
            if self.is_connection(name) {
                return self.connect(name).await;
            }
            if name == "scale" {
                return self.scale(&body).await;
            }
            if self.info.verb == "create" {
                return self.create_subresource(name, &body).await;
            }
        }
        match self.info.verb.as_ref() {
            "get" | "list" if self.served.cache.is_none() => self.components().await,
            "get" => self.get().await,
            "list" => self.list().await,
            "watch" => self.watch().await,
            "create" if self.served.kind.resource == "bindings" => self.bind_named(&body).await,
            "create" if self.served.cache.is_none() => self.review(&body).await,
            "create" => {
                let written = self.create(&body).await?;
                self.answer(&written).await
            }
            "update" => {
                let written = self.update(&body).await?;
                self.answer(&written).await
            }
            "patch" => {
                let written = self.patch(&body).await?;
                self.answer(&written).await
            }
            "delete" => self.delete(&body).await,
            "deletecollection" => self.delete_collection(&body).await,
            _ => Err(Status::method_not_allowed()),
        }
    }

    fn check_verb(&self) -> Result<(), Status> {
        let kind = &self.served.kind;
        let verb = self.info.verb.as_ref();
        if verb == "watch" && self.part == Part::Main && kind.allows("list") && !kind.allows("watch") {
            return Err(Status::method_not_supported(&self.served.group_resource, "watch"));
        }
        let allowed = match self.part {
            Part::Main => kind.allows(verb),
            Part::Status => {
                kind.subresources.iter().any(|part| part.name == "status") && matches!(verb, "get" | "update" | "patch")
            }
            Part::Other(name) => kind.subresources.iter().any(|part| part.name == name && part.verbs.contains(&verb)),
        };
        let placed = match verb {
            // A collection of a namespaced kind is made in a namespace.
            "create" => {
                self.info.name.is_empty() == (self.part == Part::Main)
                    && kind.is_namespaced() != self.namespace().is_empty()
            }
            "update" | "patch" if self.info.name.is_empty() => false,
            "get" | "update" | "patch" | "delete" => kind.is_namespaced() != self.namespace().is_empty(),
            "deletecollection" => kind.is_namespaced() != self.namespace().is_empty(),
            _ => true,
        };
        if allowed && placed { Ok(()) } else { Err(Status::method_not_allowed()) }
    }

    /// The namespace that the request is in; empty for kinds that have none.
    pub fn namespace(&self) -> &str {
        if self.served.kind.is_namespaced() || self.served.kind.resource != "namespaces" {
            &self.info.namespace
        } else {
            ""
        }
    }

    pub fn key(&self, name: &str) -> String {
        self.served.stored().key(if self.served.kind.is_namespaced() { &self.info.namespace } else { "" }, name)
    }

    /// Where the object of this name is in the store.
    fn place(&self, name: &str) -> Place<'a> {
        Place::new(&self.server.engine, self.served.stored(), self.key(name), self.options.dry_run)
    }

    /// Runs what the life cycle of an object does in this write.
    fn lifecycle<T>(&self, run: impl FnOnce(&Lifecycle<'_>) -> T) -> T {
        let user = || review::user_info(self.user);
        let namespace = || {
            let Some(namespaces) = self.server.catalog.resource("", "v1", "namespaces") else { return Value::Null };
            let found = namespaces.get(&namespaces.key("", &self.info.namespace));
            found.map_or(Value::Null, |entry| entry.object.value(entry.revision))
        };
        run(&Lifecycle {
            kind: &self.served.kind,
            schema: self.served.stored_schema(),
            part: self.part,
            requester: Requester { user: &user, now: self.now(), gave_no_labels: self.gave_no_labels },
            namespace: &namespace,
            kept_empties: self.kept_empties,
        })
    }

    pub fn now(&self) -> i64 {
        self.server.clock.now_seconds()
    }

    async fn answer(&self, written: &Written) -> Result<Answer, Status> {
        let code = if written.created { StatusCode::CREATED } else { StatusCode::OK };
        self.answer_object(code, &written.entry).await
    }

    /// An object that is stored, in the version and form that are asked for.
    async fn answer_object(&self, code: StatusCode, stored: &Entry) -> Result<Answer, Status> {
        let converted = if self.served.is_custom() { Some(self.served.in_version(stored).await?) } else { None };
        let entry = converted.as_ref().unwrap_or(stored);
        Ok(object_answer(code, self.served, self.accept, &self.options.include_object, self.now(), entry))
    }

    /// A stored object in the form in which it is changed and checked: custom resources in the version of the request,
    /// others as they are stored.
    async fn working_form(&self, stored: &Entry) -> Result<Value, Status> {
        match self.served.is_custom() {
            true => self.served.converted(stored).await,
            false => Ok(stored.object.value(stored.revision)),
        }
    }

    /// An object that was changed and checked, in the form in which it is stored.
    async fn storage_form(&self, value: Value) -> Result<Value, Status> {
        if self.served.is_custom() { self.served.to_storage(value).await } else { Ok(value) }
    }

    /// Who owns the fields that this request writes.
    pub fn manager(&self) -> String {
        if !self.options.field_manager.is_empty() {
            return self.options.field_manager.clone();
        }
        // The user agent's first part, as far as it can be printed.
        let agent = self.agent.split('/').next().unwrap_or_default();
        agent.chars().filter(|letter| !letter.is_control()).take(128).collect()
    }

    /// The body as an object of the served type: checked, canonical, not yet defaulted.
    pub fn decode(&mut self, format: Format, body: &Bytes) -> Result<Value, Status> {
        let kind = &self.served.kind;
        let expected = &self.served.api_version;
        let decoded = match Input::read(format, body, &kind.schema, expected, &kind.kind) {
            Some(decoded) => decoded,
            None => self.decode_with_care(format, body)?,
        };
        let mut value = self.take_strict(decoded)?;
        if let Some(why) = kind.rules.unreadable(&value) {
            return Err(self.cannot_handle(&kind.version, &kind.kind, &why));
        }
        value.set("kind", kind.kind.clone());
        value.set("apiVersion", expected.as_str());
        Ok(value)
    }

    /// The body by the way that says what is wrong with it.
    fn decode_with_care(&self, format: Format, body: &Bytes) -> Result<Decoded, Status> {
        let kind = &self.served.kind;
        let input = Input::parse(format, body).map_err(|error| unrecognized(&kind.kind, format, &error, body))?;
        if input.api_version != self.served.api_version || input.kind != kind.kind {
            self.check_type(&input, body)?;
        }
        input.decode(&kind.schema).map_err(|error| self.cannot_handle(&kind.version, &kind.kind, &error))
    }

    /// Whether a body that does not say exactly what is wanted can be taken all the same.
    fn check_type(&self, input: &Input, body: &Bytes) -> Result<(), Status> {
        let kind = &self.served.kind;
        let shown = || String::from_utf8_lossy(body).into_owned();
        if self.served.is_custom() {
            return self.check_custom_type(input, &shown);
        }
        let named = Named::read(&input.api_version, &input.kind, kind).map_err(|misfit| {
            let shown = summarize(body);
            Status::bad_request(format!(
                "the object provided is unrecognized (must be of type {}): {misfit} ({shown})",
                kind.kind
            ))
        })?;
        let refuse = |why: &str| self.cannot_handle(&named.version, &named.kind, why);
        match named.check(kind, shown) {
            Ok(Fit::Same) => Ok(()),
            Ok(Fit::Internal | Fit::OtherVersion) => Err(Status::bad_request(format!(
                "the API version in the data ({}) does not match the expected API version ({})",
                named.api_version(),
                self.served.api_version
            ))),
            Err(misfit) => {
                let unreadable = match &misfit {
                    Misfit::Unrelated { schema: Some(schema), .. } => input.try_decode(schema.get()).err(),
                    _ => None,
                };
                Err(refuse(&unreadable.unwrap_or_else(|| misfit.to_string())))
            }
        }
    }

    /// Custom resources name their type in full, and no other is taken for theirs.
    fn check_custom_type(&self, input: &Input, shown: &dyn Fn() -> String) -> Result<(), Status> {
        let kind = &self.served.kind;
        let missing = match (input.kind.as_str(), input.api_version.as_str()) {
            ("", _) => "Kind",
            (_, "") => "apiVersion",
            (_, version) if version != self.served.api_version => {
                return Err(Status::bad_request(format!(
                    "the API version in the data ({version}) does not match the expected API version ({})",
                    self.served.api_version
                )));
            }
            (other, _) => {
                let mut errors = Errors::new();
                errors.invalid(Path::new("kind"), other, format!("must be {}", kind.kind));
                return Err(Status::invalid(&kind.group_kind(), &self.info.name, &errors));
            }
        };
        let why = format!("Object '{missing}' is missing in '{}'", shown());
        let named = if input.kind.is_empty() { kind.kind.as_str() } else { &input.kind };
        Err(self.cannot_handle(&kind.version, named, &why))
    }

    /// Applies the field validation that was asked for.
    pub fn take_strict(&mut self, decoded: Decoded) -> Result<Value, Status> {
        self.kept_empties |= decoded.kept_empties;
        if decoded.strict.is_empty() {
            return Ok(decoded.value);
        }
        match self.options.field_validation {
            FieldValidation::Ignore => {}
            FieldValidation::Warn => self.warnings.extend(decoded.strict.iter().flat_map(|one| each_complaint(one))),
            FieldValidation::Strict => {
                let text = format!("strict decoding error: {}", decoded.strict.join(", "));
                return Err(self.cannot_handle(&self.served.kind.version, &self.served.kind.kind, &text));
            }
        }
        Ok(decoded.value)
    }

    fn cannot_handle(&self, version: &str, kind: &str, why: &str) -> Status {
        Status::bad_request(format!(
            "{kind} in version \"{version}\" cannot be handled as a {}: {why}",
            self.served.kind.kind
        ))
    }
}

/// What YAML objects to comes in one text; as warnings each thing is said alone.
fn each_complaint(text: &str) -> Vec<String> {
    match text.split_once("yaml: unmarshal errors:\n") {
        Some((_, lines)) => lines.lines().map(|line| line.trim().to_owned()).collect(),
        None => vec![text.to_owned()],
    }
}

/// The body is not even a document.
fn unrecognized(kind: &str, format: Format, why: &str, body: &[u8]) -> Status {
    let prefix = match format {
        Format::Json => "couldn't get version/kind; json parse error: ",
        Format::Yaml | Format::Protobuf => "",
    };
    let shown = summarize(body);
    Status::bad_request(format!(
        "the object provided is unrecognized (must be of type {kind}): {prefix}{why} ({shown})"
    ))
}

/// The first bytes of a body, as text where it looks like JSON.
fn summarize(body: &[u8]) -> String {
    const SHOWN_MAX: usize = 30;
    if body.is_empty() {
        return "<empty>".to_owned();
    }
    let head = &body[..body.len().min(SHOWN_MAX)];
    let text = match head[0] {
        b'{' => String::from_utf8_lossy(head).into_owned(),
        _ => head.iter().map(|byte| format!("{byte:02x}")).collect(),
    };
    if body.len() > SHOWN_MAX { format!("{text} ...") } else { text }
}

pub fn cache_error(error: rkube_catalog::Error) -> Status {
    match error {
        rkube_catalog::Error::Store(error) => store_error(error),
        rkube_catalog::Error::Behind { wanted, current } => Status::too_large_resource_version(wanted, current),
    }
}
