//! Kinds that are answered and forgotten: reviews. One function each and a line in [`Write::review`].

use bytes::Bytes;
use http::StatusCode;
use rkube_access::User;
use rkube_access::authenticate::TokenUser;
use rkube_access::authorize::{Attributes, Authorizers, Decision, ResourceAttributes};
use rkube_kinds::lifecycle;
use rkube_machinery::value::{Map, Text};
use rkube_machinery::{GroupResource, Status, Value, object, time};

use super::admit::Admission;
use super::write::Write;
use super::{metadata, review_selectors};
use crate::content::{Answer, Format, unlisted_answer};

impl Write<'_> {
    pub(super) async fn review(&mut self, body: &Bytes) -> Result<Answer, Status> {
        self.take_options("CreateOptions", None)?;
        let format = Format::of(self.request.content_type)?;
        let mut value = self.decode(format, body)?;
        let kind = &self.request.served.kind;
        lifecycle::begin(kind, &mut value);
        let metadata = value.object_mut("metadata");
        metadata::place(metadata, self.request.object_namespace())?;
        self.request.served.kind.schema.complete(&mut value);
        let context = self.authorship();
        let schema = &self.request.served.kind.schema;
        schema.track_update(&Value::Null, &mut value, &context.view(), self.reset_fields(), None);
        let name = metadata::name_of(&value);
        self.admit(Admission::create(&name), &mut value).await?;
        let mut errors = rkube_machinery::field::Errors::new();
        kind.rules.validate_create(&value, &mut errors);
        if !errors.is_empty() {
            return Err(Status::invalid(&GroupResource::new(kind.group.clone(), ""), "", &errors));
        }
        self.check_question(&value)?;
        self.check_admitted(Admission::create(&name), &value).await?;
        let authorizers = &*self.registry.authorizers;
        let status = match kind.resource.as_str() {
            "selfsubjectreviews" => {
                // The answer is a new object; what was sent with the question is not in it.
                let now = time::format_seconds(self.now());
                value.set("metadata", object! { "creationTimestamp": now });
                object! { "userInfo": user_info(self.request.user) }
            }
            "tokenreviews" => self.token_review(&value),
            "subjectaccessreviews" | "localsubjectaccessreviews" => {
                access(authorizers, &subject(value.get("spec")), value.get("spec"))
            }
            "selfsubjectaccessreviews" => access(authorizers, self.request.user, value.get("spec")),
            "selfsubjectrulesreviews" => {
                let status = rules(authorizers, self.request.user, value.get("spec").str("namespace"));
                // The answer does not repeat the question.
                value.remove("metadata");
                value.remove("spec");
                status
            }
            _ => return Err(Status::method_not_allowed()),
        };
        value.set("status", status);
        self.request.served.kind.schema.complete(&mut value);
        Ok(unlisted_answer(StatusCode::CREATED, self.request.accept, &value, self.request.served.kind.schema.table()))
    }

    /// Whose token this is. What the question says of the status itself stays, where the answer has no other word.
    fn token_review(&self, review: &Value) -> Value {
        let spec = review.get("spec");
        let mut audiences: Vec<String> =
            spec.list("audiences").iter().map(|audience| audience.as_str().to_owned()).collect();
        if audiences.is_empty() {
            audiences.extend(self.registry.signer.iter().flat_map(|signer| signer.audiences().to_vec()));
        }
        // As in a request's header: the first word counts, and who brings none is nobody in particular.
        let found = match spec.str("token").split(' ').next().map(str::trim).filter(|token| !token.is_empty()) {
            Some(token) => self.registry.authenticators.token(token, &audiences),
            None => Ok(TokenUser { user: User::anonymous().into(), audiences, warning: None }),
        };
        let mut status = review.get("status").clone();
        if status.is_null() {
            status = Value::object();
        }
        status.set("authenticated", found.is_ok());
        match found {
            Ok(found) => {
                status.set("user", user_info(&found.user));
                status.set("audiences", found.audiences.into_iter().map(Value::from).collect::<Vec<_>>());
            }
            Err(why) => status.set("error", why),
        }
        status
    }

    /// Whether what is asked can be answered at all.
    fn check_question(&self, review: &Value) -> Result<(), Status> {
        let spec = review.get("spec");
        match self.request.served.kind.resource.as_str() {
            "tokenreviews" if spec.str("token").is_empty() => {
                Err(Status::bad_request("token is required for TokenReview in authentication"))
            }
            "localsubjectaccessreviews"
                if spec.get("resourceAttributes").str("namespace") != self.request.info.namespace =>
            {
                Err(Status::bad_request(format!(
                    "spec.resourceAttributes.namespace must match namespace: {}",
                    self.request.info.namespace
                )))
            }
            "selfsubjectrulesreviews" if spec.str("namespace").is_empty() => {
                Err(Status::bad_request("no namespace on request"))
            }
            _ => Ok(()),
        }
    }
}

/// The user that a review is about.
fn subject(spec: &Value) -> User {
    let texts = |list: &Value| list.items().iter().map(|text| Text::new(text.as_str())).collect::<Vec<_>>();
    User {
        name: spec.str("user").into(),
        uid: spec.str("uid").into(),
        groups: texts(spec.get("groups")),
        extra: spec.map("extra").iter().map(|(key, values)| (key.clone(), texts(values))).collect(),
    }
}

/// Whether the user may do what the attributes say.
fn access(authorizers: &Authorizers, user: &User, spec: &Value) -> Value {
    let resource = spec.get("resourceAttributes");
    let path = spec.get("nonResourceAttributes");
    let field_selector = review_selectors::field_selector(resource);
    let attributes = match resource.is_null() {
        true => Attributes::Path { verb: path.str("verb"), path: path.str("path") },
        false => Attributes::Resource(ResourceAttributes {
            verb: resource.str("verb"),
            group: resource.str("group"),
            version: resource.str("version"),
            resource: resource.str("resource"),
            subresource: resource.str("subresource"),
            namespace: resource.str("namespace"),
            name: resource.str("name"),
            field_selector: &field_selector,
        }),
    };
    let verdict = authorizers.verdict(user, &attributes);
    let mut status = object! { "allowed": verdict.decision == Decision::Allow };
    if verdict.decision == Decision::Deny {
        status.set("denied", true);
    }
    if !verdict.reason.is_empty() {
        status.set("reason", verdict.reason);
    }
    let complaint = review_selectors::complaint(resource);
    if !complaint.is_empty() {
        status.set("evaluationError", complaint);
    }
    status
}

/// What the user may do in the namespace, as rules.
fn rules(authorizers: &Authorizers, user: &User, namespace: &str) -> Value {
    let list = |texts: &[Text]| Value::Array(texts.iter().cloned().map(Value::from).collect());
    let found = authorizers.rules(user, namespace);
    let (mut resources, mut paths) = (Vec::new(), Vec::new());
    for rule in &found.rules {
        if !rule.resources.is_empty() {
            let mut shown = object! {
                "verbs": list(&rule.verbs),
                "apiGroups": list(&rule.groups),
                "resources": list(&rule.resources),
            };
            if !rule.names.is_empty() {
                shown.set("resourceNames", list(&rule.names));
            }
            resources.push(shown);
        }
        if !rule.paths.is_empty() {
            paths.push(object! { "verbs": list(&rule.verbs), "nonResourceURLs": list(&rule.paths) });
        }
    }
    let mut status =
        object! { "resourceRules": resources, "nonResourceRules": paths, "incomplete": found.is_incomplete };
    if !found.error.is_empty() {
        status.set("evaluationError", found.error);
    }
    status
}

/// A user as reviews show it.
pub fn user_info(user: &User) -> Value {
    let texts = |texts: &[Text]| Value::Array(texts.iter().cloned().map(Value::from).collect());
    let mut info = object! { "username": user.name.clone() };
    if !user.uid.is_empty() {
        info.set("uid", user.uid.clone());
    }
    info.set("groups", texts(&user.groups));
    if !user.extra.is_empty() {
        let extra = user.extra.iter().map(|(key, values)| (key.clone(), texts(values))).collect();
        info.set("extra", Value::Object(Map::sorted(extra)));
    }
    info
}

#[cfg(test)]
#[path = "review_tests.rs"]
mod tests;
