//! The road of a request: who asks, may they, what do they want, and the answer. The one entrance for clients on
//! sockets and for components in the process.

use std::panic::AssertUnwindSafe;

use bytes::Bytes;
use futures::FutureExt as _;
use http::request::Parts;
use http::{HeaderValue, Method, Request, StatusCode, header};
use rkube_access::authenticate::Credentials;
use rkube_access::authorize::is_master;
use rkube_access::{User, UserRef};
use rkube_catalog::{Served, Snapshot};
use rkube_kinds::kind::{Kind, Part};
use rkube_machinery::field::quote;
use rkube_machinery::{GroupResource, Status, TypeRef, Value, names};

use crate::content::{
    Accept, Answer, Body, IsStatus, Offer, Subject, Transform, UnavailableForm, accept, accept_status, compress,
    discovery_accept, drain, raw_answer, raw_status_answer, read_body, status_answer, unavailable_form, value_answer,
};
use crate::limits::{HEAVY_BYTES, RETRY_AFTER_SECONDS, Slot};
use crate::metrics::Key;
use crate::registry::{Call, change::part_of, internal_group, internal_package};
use crate::request::{Options, RequestInfo, Target};
use crate::server::ApiServer;
use crate::{apart, discovery, health, impersonation, serve, version, warnings};

/// What a request asks, by whom, and of what.
struct Asked<'a> {
    parts: &'a Parts,
    catalog: &'a Snapshot,
    info: &'a RequestInfo,
    /// The user of the connection.
    connection: Option<&'a UserRef>,
}

impl ApiServer {
    /// Answers a request. `connection`: the user of the connection's certificate, or the component's in-process identity.
    pub async fn handle<B>(&self, request: Request<B>, connection: Option<&UserRef>) -> Answer
    where
        B: http_body::Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let started = self.clock.now_micros();
        let (parts, body) = request.into_parts();
        let options = Options::parse(parts.uri.query().unwrap_or_default());
        let info = RequestInfo::new(&parts.method, parts.uri.path(), options.watch);
        let pretty = wants_pretty(&parts, &options);
        let catalog = self.catalog.snapshot();
        let mutating = !matches!(parts.method, Method::GET | Method::HEAD | Method::OPTIONS);
        let in_flight = self.metrics.in_flight(mutating);
        let mut body = std::pin::pin!(body);
        let mut slot = None;
        let asked = Asked { parts: &parts, catalog: &catalog, info: &info, connection };
        let answering = self.answer(&asked, body.as_mut(), options, &mut slot);
        let answer = AssertUnwindSafe(answering).catch_unwind().await.unwrap_or_else(|_| {
            tracing::error!(path = info.path, verb = %info.verb, "a request made the server panic");
            let message = "This request caused apiserver to panic. Look in the logs for details.";
            Err(Status::internal(message))
        });
        drop(in_flight);
        if answer.is_err() && mutating {
            slot = None;
        }
        let is_read = !mutating || drain(body).await;
        if let Err(status) = &answer
            && status.code >= 500
        {
            tracing::warn!(
                path = info.path,
                verb = %info.verb,
                code = status.code,
                message = status.message,
                "request failed"
            );
        }
        let mut answer = answer.unwrap_or_else(|status| refusal(&parts, &status, pretty));
        if self.features.response_compression
            && header_text(&parts, header::ACCEPT_ENCODING).split(',').any(|coding| coding.trim().starts_with("gzip"))
        {
            answer = compress(answer);
        }
        if parts.method == Method::HEAD {
            *answer.body_mut() = Body::Empty;
        }
        if !is_read && parts.version <= http::Version::HTTP_11 {
            // Clients must not send the next request behind a body that nobody reads.
            answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        if let Some(slot) = slot {
            answer.body_mut().hold(slot);
        }
        self.count(&catalog, &info, answer.status(), started);
        answer
    }

    async fn answer<B>(
        &self,
        asked: &Asked<'_>,
        body: B,
        options: Options,
        slot: &mut Option<Slot>,
    ) -> Result<Answer, Status>
    where
        B: http_body::Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let Asked { parts, catalog, info, connection } = *asked;
        if RequestInfo::is_malformed(parts.uri.path()) {
            return Ok(health::text(StatusCode::BAD_REQUEST, "400 Bad Request".to_owned()));
        }
        let user = self.authenticate(&Credentials { connection, headers: &parts.headers })?;
        serve::note_authenticated(parts, &user);
        impersonation::refuse(&parts.headers)?;
        *slot = if is_long_running(info) { None } else { self.limits.enter(!is_reading(info)) };
        if slot.is_none() && !is_long_running(info) && !is_master(&user) {
            return Ok(too_many());
        }
        self.authorize(&user, info)?;
        if info.target == Target::Path {
            options.time_limit()?;
            return self.page(parts, catalog, info, &options).await;
        }
        let Some(served) = catalog.find(&info.group, &info.version, &info.resource) else {
            return no_such_resource(catalog, info);
        };
        if parts.method == Method::HEAD {
            return Err(Status::method_not_allowed());
        }
        let part = part_of(served, &info.subresource).ok_or_else(not_found_page)?;
        check_place(served, info)?;
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
        let mut accepted = accept(header_text(parts, header::ACCEPT), subject, offer)?;
        accepted.pretty |= wants_pretty(parts, &options);
        let pretty = accepted.pretty;
        let unavailable = find_unavailable_form(&mut accepted, &options, served, info)?;
        let (body, _room) = if matches!(parts.method, Method::GET | Method::HEAD) {
            (Bytes::new(), None)
        } else {
            let room = self.limits.room(&body.size_hint(), header_text(parts, header::CONTENT_TYPE)).await?;
            (read_body(body).await?, room)
        };
        // Found out with the body read, so that the connection can go on.
        let limit = if is_long_running(info) { None } else { Some(options.time_limit()?) };
        let mut call = Call {
            server: self,
            catalog,
            served,
            info,
            options,
            accept: accepted,
            user: &user,
            agent: header_text(parts, header::USER_AGENT),
            content_type: header_text(parts, header::CONTENT_TYPE),
            part,
            kept_empties: false,
            gave_no_labels: false,
            warnings: Vec::new(),
        };
        let turns = (body.len() > HEAVY_BYTES).then_some(&self.limits.heavy_turns);
        let mut answer = {
            let work = std::pin::pin!(call.run(body));
            let work = apart::run(turns, work);
            match limit {
                Some(limit) => tokio::time::timeout(limit, work).await.unwrap_or_else(|_| Ok(too_slow())),
                None => work.await,
            }
        };
        let warnings = std::mem::take(&mut call.warnings);
        if let (Some(unavailable), Ok(done)) = (unavailable, &answer)
            && (unavailable.always || done.extensions().get::<IsStatus>().is_none())
        {
            answer = Err(unavailable.status);
        }
        if !warnings.is_empty() {
            answer = answer.or_else(|status| Ok(refusal(parts, &status, pretty)));
        }
        answer.map(|mut answer| {
            warnings::add(&mut answer, &warnings);
            answer
        })
    }

    /// Who asks; a refusal says no more than that.
    fn authenticate(&self, credentials: &Credentials<'_>) -> Result<UserRef, Status> {
        self.authenticators.request(credentials).map_err(|why| {
            tracing::debug!(why, "credentials were refused");
            Status::unauthorized()
        })
    }

    fn authorize(&self, user: &User, info: &RequestInfo) -> Result<(), Status> {
        let attributes = info.attributes();
        if self.authorizers.allow(user, &attributes) {
            return Ok(());
        }
        let resource = GroupResource::new(info.group.as_str(), info.resource.as_str());
        Err(Status::forbidden(&resource, &info.name, attributes.refusal(user)))
    }

    /// Everything that is not an API object.
    async fn page(
        &self,
        parts: &Parts,
        catalog: &Snapshot,
        info: &RequestInfo,
        options: &Options,
    ) -> Result<Answer, Status> {
        if !info.resource.is_empty() {
            // Below a resource, but deeper than anything that is served.
            return no_such_resource(catalog, info);
        }
        if !matches!(parts.method, Method::GET | Method::HEAD) || info.path.starts_with("//") {
            return Ok(no_page());
        }
        if let Some(answer) = health::answer(self, &info.path, &options.others).await {
            return Ok(answer);
        }
        let turns = &self.limits.heavy_turns;
        if let Some(answer) = self.openapi.answer(catalog, &info.path, &parts.headers, turns).await? {
            return Ok(answer);
        }
        let pretty = wants_pretty(parts, options);
        let header = header_text(parts, header::ACCEPT);
        let segments: Vec<&str> = info.path.trim_matches('/').split('/').collect();
        let value = match segments.as_slice() {
            ["metrics"] => return Ok(health::text(StatusCode::OK, self.metrics.render(self))),
            ["version"] => {
                accept(header, Subject::Version, Offer::PLAIN)?;
                return Ok(raw_answer(StatusCode::OK, &version::version()));
            }
            ["api" | "apis"] => return discovery_root(parts, catalog, segments[0] == "api", pretty),
            ["api", version] => discovery::resource_list(catalog, "", version).ok_or_else(not_found_page)?,
            ["apis", group] => match discovery::group_page(catalog, group) {
                Some(page) => page,
                None => return Ok(no_page()),
            },
            ["apis", group, version] => match discovery::resource_list(catalog, group, version) {
                Some(list) => list,
                None if catalog.has_group(group) => return Err(not_found_page()),
                None => return Ok(no_page()),
            },
            [""] => return Ok(raw_answer(StatusCode::OK, &root_paths(catalog))),
            ["api", ..] => return Err(not_found_page()),
            _ => return Ok(no_page()),
        };
        let subject = if let ["apis", _] = segments.as_slice() { Subject::Index } else { Subject::Page };
        let accepted = accept(header, subject, Offer::PLAIN)?;
        Ok(discovery_answer(accepted, pretty, &value))
    }

    fn count(&self, catalog: &Snapshot, info: &RequestInfo, code: StatusCode, started: i64) {
        let served = catalog.find(&info.group, &info.version, &info.resource);
        let Some(served) = served.filter(|_| info.target == Target::Resource) else { return };
        let key = key_of(served, info, code);
        let micros = self.clock.now_micros().saturating_sub(started);
        self.metrics.observe(key, u64::try_from(micros).unwrap_or_default());
    }
}

/// Within a served group a Status, elsewhere a plain page.
fn no_such_resource(catalog: &Snapshot, info: &RequestInfo) -> Result<Answer, Status> {
    let known = info.group.is_empty() || catalog.has_group(&info.group);
    if known { Err(not_found_page()) } else { Ok(no_page()) }
}

fn discovery_root(parts: &Parts, catalog: &Snapshot, core: bool, pretty: bool) -> Result<Answer, Status> {
    let header = header_text(parts, header::ACCEPT);
    let wanted = discovery_accept(header);
    let value = match (wanted, core) {
        (Some(version), _) => discovery::aggregated(catalog, core, version),
        (None, true) => discovery::api_versions(header_text(parts, header::HOST)),
        (None, false) => discovery::group_list(catalog),
    };
    let accepted = match wanted {
        Some(_) => Accept::PLAIN,
        None => accept(header, if core { Subject::Page } else { Subject::Index }, Offer::PLAIN)?,
    };
    let mut answer = discovery_answer(accepted, pretty, &value);
    if let Some(version) = wanted {
        let content_type = match version {
            "v2" => "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
            _ => "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList",
        };
        answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    }
    answer.headers_mut().insert(header::VARY, HeaderValue::from_static("Accept"));
    Ok(answer)
}

/// What the answer will lack, or a watch has no use to start for. The request itself then runs as if no form was asked for.
fn find_unavailable_form(
    accepted: &mut Accept,
    options: &Options,
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
    match unavailable_form(accepted.transform, &options.include_object, is_list, info.subresource == "log", what) {
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

/// An error in the form that the client takes, or in the server's own.
fn refusal(parts: &Parts, status: &Status, pretty: bool) -> Answer {
    match accept_status(header_text(parts, header::ACCEPT)) {
        Some(accepted) => status_answer(status, Accept { pretty: accepted.pretty || pretty, ..accepted }),
        None => raw_status_answer(status),
    }
}

fn discovery_answer(accepted: Accept, pretty: bool, value: &Value) -> Answer {
    let schema = TypeRef::find(&format!("io.k8s.apimachinery.pkg.apis.meta.v1.{}", value.str("kind")));
    let accepted = Accept { pretty: accepted.pretty || pretty, ..accepted };
    value_answer(StatusCode::OK, accepted, value, schema.map(TypeRef::get))
}

fn is_reading(info: &RequestInfo) -> bool {
    matches!(info.verb.as_ref(), "get" | "list" | "watch")
}

/// What lasts as long as the client wants.
fn is_long_running(info: &RequestInfo) -> bool {
    info.verb == "watch" || matches!(info.subresource.as_str(), "attach" | "exec" | "proxy" | "log" | "portforward")
}

/// Said below the codecs: a status without its kind, whatever form was asked for.
fn too_slow() -> Answer {
    let status = Status::timeout("request did not complete within the allotted timeout", 0);
    let mut value = status.to_value();
    value.remove("kind");
    value.remove("apiVersion");
    value_answer(StatusCode::GATEWAY_TIMEOUT, Accept::PLAIN, &value, None)
}

/// Upstream's words, plain, for who finds all places among the requests in flight taken.
fn too_many() -> Answer {
    let mut answer =
        health::text(StatusCode::TOO_MANY_REQUESTS, "Too many requests, please try again later.\n".to_owned());
    answer.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(RETRY_AFTER_SECONDS));
    answer
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
        return Err(not_found_page());
    }
    for (word, name) in [("Namespace", &info.namespace), ("Name", &info.name)] {
        if let Some(message) = names::path_segment_name(name).first().filter(|_| !name.is_empty()) {
            return Err(Status::bad_request(format!("{word} parameter invalid: {}: {message}", quote(name))));
        }
    }
    Ok(())
}

fn key_of(served: &Served, info: &RequestInfo, code: StatusCode) -> Key {
    let kind = &served.kind;
    let subresource = kind.subresources.iter().find(|part| part.name == info.subresource).map_or("", |part| part.name);
    let verb = match info.verb.as_ref() {
        "create" => "POST",
        "update" => "PUT",
        "patch" => "PATCH",
        "delete" => "DELETE",
        "deletecollection" => "DELETECOLLECTION",
        "list" => "LIST",
        "watch" => "WATCH",
        _ => "GET",
    };
    let scope = match (info.name.is_empty(), info.namespace.is_empty()) {
        (false, _) => "resource",
        (true, false) => "namespace",
        (true, true) => "cluster",
    };
    Key {
        verb,
        group: kind.group.clone(),
        version: kind.version.clone(),
        resource: kind.resource.clone(),
        subresource,
        scope,
        code: code.as_u16(),
    }
}

/// `/`: which paths there are.
fn root_paths(resources: &Snapshot) -> Value {
    let mut paths: Vec<String> = [
        "/api",
        "/api/v1",
        "/apis",
        "/healthz",
        "/livez",
        "/metrics",
        "/openapi/v2",
        "/openapi/v3",
        "/readyz",
        "/version",
    ]
    .map(str::to_owned)
    .to_vec();
    for served in resources.all().iter().filter(|served| !served.kind.group.is_empty()) {
        paths.push(format!("/apis/{}", served.kind.group));
        paths.push(format!("/apis/{}/{}", served.kind.group, served.kind.version));
    }
    paths.sort();
    paths.dedup();
    rkube_machinery::object! { "paths": Value::Array(paths.into_iter().map(Value::from).collect()) }
}

fn no_page() -> Answer {
    health::text(StatusCode::NOT_FOUND, "404 page not found\n".to_owned())
}

fn not_found_page() -> Status {
    Status::no_such_page()
}

fn header_text(parts: &Parts, name: header::HeaderName) -> &str {
    parts.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// Asked for, or a person is looking with a browser or on the command line.
fn wants_pretty(parts: &Parts, options: &Options) -> bool {
    options.pretty.unwrap_or_else(|| {
        let agent = header_text(parts, header::USER_AGENT);
        ["curl", "Wget", "Mozilla/5.0"].iter().any(|person| agent.starts_with(person))
    })
}
