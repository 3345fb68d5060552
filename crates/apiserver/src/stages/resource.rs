//! A request on the objects of a resource: what it wants to get, what it sends, and the work on it.

use bytes::Bytes;
use http::{Method, header};
use http_body_util::BodyExt as _;
use rkube_access::UserRef;
use rkube_catalog::Served;
use rkube_kinds::kind::{Kind, Part};
use rkube_machinery::field::quote;
use rkube_machinery::{Status, names};
use std::pin::pin;
use std::sync::Arc;

use super::incoming::Incoming;
use super::{missing, reply};
use crate::content::{
    Accept, Answer, IsStatus, Offer, Subject, Transform, UnavailableForm, accept, read_body, unavailable_form,
};
use crate::limits::{HEAVY_BYTES, Limits};
use crate::proxy::{Visit, wanted_upgrade};
use crate::registry::{Registry, Reply, Request, change::part_of, internal_group, internal_package};
use crate::request::{Query, RequestInfo};
use crate::{apart, warnings};

pub async fn run<B>(
    registry: &Registry,
    limits: &Limits,
    incoming: &Incoming<'_>,
    (served, user): (&Arc<Served>, &UserRef),
    body: &mut Option<B>,
) -> Result<Answer, Status>
where
    B: http_body::Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let Incoming { parts, catalog, info, query, .. } = *incoming;
    if served.is_custom() && !is_in_scope(served, info) {
        return Ok(missing::no_page());
    }
    let Some(part) = part_of(served, &info.subresource) else { return missing::no_such_resource(catalog, info) };
    check_place(served, info)?;
    let agent = incoming.header(header::USER_AGENT);
    let content_type = incoming.header(header::CONTENT_TYPE);
    let request = Request { catalog, served, info, query, accept: Accept::PLAIN, user, agent, content_type, part };
    if request.connects(wanted_upgrade(&parts.headers).is_some()) {
        let body = body.take().map(|body| body.map_err(Into::into).boxed_unsync()).unwrap_or_default();
        let reply = Box::pin(registry.connect(&request, Visit { parts, body })).await;
        return finish(incoming, reply, incoming.pretty);
    }
    let mut accepted = accepted_form(incoming, served, part)?;
    let pretty = accepted.pretty;
    let unavailable = find_unavailable_form(&mut accepted, query, served, info)?;
    let (body, _room) = match body {
        Some(body) if !matches!(parts.method, Method::GET | Method::HEAD) => {
            let room = limits.room(&body.size_hint(), content_type).await?;
            (read_body(body).await?, room)
        }
        _ => (Bytes::new(), None),
    };
    let request = Request { accept: accepted, ..request };
    let turns = (body.len() > HEAVY_BYTES).then_some(&limits.heavy_turns);
    let mut reply = apart::run(turns, pin!(registry.answer(&request, body))).await;
    if let (Some(unavailable), Ok(done)) = (unavailable, &reply.answer)
        && (unavailable.always || done.extensions().get::<IsStatus>().is_none())
    {
        reply.answer = Err(unavailable.status);
    }
    finish(incoming, reply, pretty)
}

/// The answer with the warnings that go with it.
fn finish(incoming: &Incoming<'_>, reply: Reply, pretty: bool) -> Result<Answer, Status> {
    let Reply { mut answer, warnings } = reply;
    if !warnings.is_empty() {
        answer = answer.or_else(|status| Ok(reply::refusal(incoming, &status, pretty)));
    }
    answer.map(|mut answer| {
        warnings::add(&mut answer, &warnings);
        answer
    })
}

/// The form in which the client takes what it gets.
fn accepted_form(incoming: &Incoming<'_>, served: &Served, part: Part) -> Result<Accept, Status> {
    let info = incoming.info;
    let subject = match info.verb.as_ref() {
        "watch" => Subject::Watch,
        "list" => Subject::List,
        _ if info.subresource == "log" => Subject::Log,
        _ => Subject::Object,
    };
    let is_review = served.cache.is_none() && info.verb == "create";
    let tables =
        !is_review && subject != Subject::Log && !matches!(part, Part::Other("ephemeralcontainers" | "resize"));
    let offer = Offer { tables, is_custom: served.is_custom() && info.subresource != "scale" };
    let accepted = accept(incoming.header(header::ACCEPT), subject, offer)?;
    Ok(Accept { pretty: accepted.pretty || incoming.pretty, ..accepted })
}

/// What the answer will lack, or a watch has no use to start for. The request itself then runs as if no form was asked for.
fn find_unavailable_form(
    accepted: &mut Accept,
    query: &Query,
    served: &Served,
    info: &RequestInfo,
) -> Result<Option<UnavailableForm>, Status> {
    if accepted.transform == Transform::None {
        return Ok(None);
    }
    let is_list = matches!(info.verb.as_ref(), "list" | "deletecollection");
    // Each event is an object; one that is asked for as a list ends the watch.
    let is_list =
        is_list || (info.verb == "watch" && matches!(accepted.transform, Transform::PartialObjectMetadataList(_)));
    let what = || go_type(&served.kind, &info.subresource, is_list);
    match unavailable_form(accepted.transform, &query.include_object, is_list, info.subresource == "log", what) {
        Some(unavailable) if info.verb == "watch" => Err(unavailable.status),
        Some(unavailable) => {
            accepted.transform = Transform::None;
            Ok(Some(unavailable))
        }
        None => Ok(None),
    }
}

/// What messages call that which a request gets: the type in the upstream server.
fn go_type(kind: &Kind, subresource: &str, is_list: bool) -> String {
    match subresource {
        "log" => "*rest.LocationStreamer".to_owned(),
        "scale" => "*autoscaling.Scale".to_owned(),
        "token" => "*authentication.TokenRequest".to_owned(),
        _ if kind.schema.table().is_none() => {
            format!("*unstructured.Unstructured{}", if is_list { "List" } else { "" })
        }
        _ => format!("*{}.{}{}", internal_package(internal_group(kind)), kind.kind, if is_list { "List" } else { "" }),
    }
}

/// Whether a request for a custom resource names a namespace where it has one, and none where it has none.
fn is_in_scope(served: &Served, info: &RequestInfo) -> bool {
    let across = matches!(info.verb.as_ref(), "list" | "watch");
    match served.kind.is_namespaced() {
        true => !info.namespace.is_empty() || across,
        false => info.namespace.is_empty(),
    }
}

/// A path must have a namespace where the kind has one, and names that can stand in a path.
fn check_place(served: &Served, info: &RequestInfo) -> Result<(), Status> {
    let namespaced = served.kind.is_namespaced();
    let about_namespace = served.kind.resource == "namespaces" && served.kind.group.is_empty();
    let misplaced = match (namespaced, about_namespace) {
        (true, _) => info.namespace.is_empty() && !info.name.is_empty(),
        (false, true) => info.namespace != info.name,
        (false, false) => !info.namespace.is_empty(),
    };
    if misplaced || info.name.contains('/') || info.namespace.contains('/') {
        return Err(Status::no_such_page());
    }
    for (word, name) in [("Namespace", &info.namespace), ("Name", &info.name)] {
        if let Some(message) = names::path_segment_name(name).first().filter(|_| !name.is_empty()) {
            return Err(Status::bad_request(format!("{word} parameter invalid: {}: {message}", quote(name))));
        }
    }
    Ok(())
}
