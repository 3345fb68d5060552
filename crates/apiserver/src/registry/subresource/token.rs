//! `serviceaccounts/token`: a token for a service account, bound to what it is for.

use bytes::Bytes;
use http::StatusCode;
use rkube_access::authenticate::service_account::{Binding, Claims};
use rkube_machinery::field::{Errors, Path};
use rkube_machinery::{GroupResource, Status, TypeRef, Value, decode, object, time};

use super::super::admit::Admission;
use super::super::write::Write;
use crate::content::{Answer, unlisted_answer};

const TYPE: &str = "io.k8s.api.authentication.v1.TokenRequest";
const API_VERSION: &str = "authentication.k8s.io/v1";
const DEFAULT_SECONDS: i64 = 3600;
const SECONDS_MIN: i64 = 600;
const SECONDS_MAX: i64 = 1 << 32;

impl Write<'_> {
    pub(super) async fn request_token(&mut self, body: &Bytes) -> Result<Answer, Status> {
        let mut request = self.decode_other(body, TYPE, API_VERSION, "TokenRequest")?;
        request.object_mut("spec").set_if_absent("expirationSeconds", DEFAULT_SECONDS);
        let signer = self.registry.signer.as_ref();
        let signer = signer.ok_or_else(|| Status::service_unavailable("this server has no key to sign tokens with"))?;
        let name = self.request.info.name.clone();
        let write = Admission::create(&name).of_kind(API_VERSION, "TokenRequest");
        self.admit(write, &mut request).await?;
        self.check_request_name(&request, &name)?;
        let entry = self.request.find()?;
        let account = entry.object.value(entry.revision);
        let uid = account.get("metadata").str("uid");
        let wanted = request.get("metadata").str("uid");
        if !wanted.is_empty() && wanted != uid {
            let why = format!(
                "the UID in the token request ({wanted}) does not match the UID of the service account ({uid})"
            );
            return Err(Status::conflict(&request_kind(), &name, why));
        }
        let now = self.now();
        let metadata = request.object_mut("metadata");
        metadata.set("name", name.as_str());
        metadata.set("namespace", self.request.info.namespace.as_str());
        metadata.set("uid", uid);
        metadata.set("creationTimestamp", time::format_seconds(now));
        let spec = request.object_mut("spec");
        if spec.list("audiences").is_empty() {
            let audiences: Vec<Value> = signer.audiences().iter().map(|one| one.as_str().into()).collect();
            spec.set("audiences", audiences);
        }
        spec.set_if_absent("expirationSeconds", DEFAULT_SECONDS);
        check_spec(request.get("spec"))?;
        self.check_admitted(write, &request).await?;
        let bound = self.bound_object(&name, request.get("spec").get("boundObjectRef"))?;
        let mut seconds = request.get("spec").int("expirationSeconds");
        if let Some(most) = signer.seconds_max().filter(|most| seconds > *most) {
            self.warnings.push(format!("requested expiration of {seconds} seconds shortened to {most} seconds"));
            request.object_mut("spec").set("expirationSeconds", most);
            seconds = most;
        }
        let audiences: Vec<String> =
            request.get("spec").list("audiences").iter().map(|audience| audience.as_str().to_owned()).collect();
        let of_pod = bound.iter().any(|bound| bound.kind == "pod");
        let extended = signer.extended_seconds(seconds, &audiences).filter(|_| of_pod);
        let claims = Claims {
            namespace: &self.request.info.namespace,
            name: &name,
            uid,
            audiences,
            issued: now,
            expires: now + extended.unwrap_or(seconds),
            warns: extended.map(|_| now + seconds),
            bound,
        };
        let token = signer.sign(&claims, &*self.registry.entropy).map_err(Status::internal)?;
        request.set("status", object! { "token": token, "expirationTimestamp": time::format_seconds(now + seconds) });
        let schema = TypeRef::find(TYPE).map(TypeRef::get);
        if let Some(schema) = schema {
            decode::complete(&mut request, schema);
        }
        Ok(unlisted_answer(StatusCode::CREATED, self.request.accept, &request, schema))
    }

    fn check_request_name(&self, request: &Value, name: &str) -> Result<(), Status> {
        let metadata = request.get("metadata");
        let mut errors = Errors::new();
        let path = Path::new("metadata");
        for (field, wanted, word) in
            [("name", name, "name"), ("namespace", self.request.info.namespace.as_str(), "namespace")]
        {
            let given = metadata.str(field);
            if !given.is_empty() && given != wanted {
                errors.invalid(path.child(field), given, format!("must match the service account {word} if specified"));
                break;
            }
        }
        if errors.is_empty() { Ok(()) } else { Err(Status::invalid(&request_kind(), name, &errors)) }
    }

    /// What the token is for: it ends with that.
    fn bound_object(&self, account: &str, reference: &Value) -> Result<Vec<Binding>, Status> {
        if reference.is_null() {
            return Ok(Vec::new());
        }
        let (kind, name) = (reference.str("kind"), reference.str("name"));
        let resource = match (reference.str("apiVersion"), kind) {
            ("v1" | "", "Pod") => "pods",
            ("v1" | "", "Secret") => "secrets",
            ("v1" | "", "Node") => "nodes",
            (version, kind) => {
                let (group, version) = version.rsplit_once('/').unwrap_or(("", version));
                return Err(Status::bad_request(format!(
                    "cannot bind token to object of type {group}/{version}, Kind={kind}"
                )));
            }
        };
        let object =
            self.lookup(resource, name).ok_or_else(|| Status::not_found(&GroupResource::new("", resource), name))?;
        let uid = object.get("metadata").str("uid").to_owned();
        if kind == "Pod" && object.get("spec").str("serviceAccountName") != account {
            return Err(Status::bad_request(format!(
                "cannot bind token for serviceaccount \"{account}\" to pod running with different serviceaccount name."
            )));
        }
        let asked = reference.str("uid");
        if !asked.is_empty() && asked != uid {
            let why = format!(
                "the UID in the bound object reference ({asked}) does not match the UID in record. The object might have been deleted and then recreated"
            );
            return Err(Status::conflict(&GroupResource::new("", kind), name, why));
        }
        let mut bound = vec![Binding { kind: kind.to_lowercase(), name: name.to_owned(), uid }];
        let node = object.get("spec").str("nodeName");
        if kind == "Pod" && !node.is_empty() {
            let uid = self.lookup("nodes", node).map(|node| node.get("metadata").str("uid").to_owned());
            bound.push(Binding { kind: "node".to_owned(), name: node.to_owned(), uid: uid.unwrap_or_default() });
        }
        Ok(bound)
    }

    fn lookup(&self, resource: &str, name: &str) -> Option<Value> {
        let served = self.registry.catalog.find("", "v1", resource)?;
        let namespace = if served.kind.is_namespaced() { self.request.info.namespace.as_str() } else { "" };
        let cache = served.cache.as_ref()?;
        cache.find(namespace, name).map(|entry| entry.object.value(entry.revision))
    }
}

fn check_spec(spec: &Value) -> Result<(), Status> {
    let mut errors = Errors::new();
    let path = Path::new("spec");
    let seconds = spec.int("expirationSeconds");
    if seconds < SECONDS_MIN {
        errors.invalid(path.child("expirationSeconds"), seconds, "may not specify a duration less than 10 minutes");
    }
    if seconds > SECONDS_MAX {
        errors.invalid(path.child("expirationSeconds"), seconds, "may not specify a duration larger than 2^32 seconds");
    }
    if errors.is_empty() { Ok(()) } else { Err(Status::invalid(&request_kind(), "", &errors)) }
}

fn request_kind() -> GroupResource {
    GroupResource::new("authentication.k8s.io", "TokenRequest")
}
