//! Everything that is not an API object: health, metrics, version, documents, discovery.

use std::sync::Arc;

use http::{HeaderValue, Method, StatusCode, header};
use rkube_access::authenticate::service_account::discovery::OpenId;
use rkube_catalog::Snapshot;
use rkube_machinery::{Status, TypeRef, Value};

use super::incoming::Incoming;
use super::missing;
use crate::content::{Accept, Answer, Offer, Subject, accept, discovery_accept, raw_answer, value_answer};
use crate::health::Health;
use crate::limits::Limits;
use crate::metrics::Metrics;
use crate::openapi::OpenApi;
use crate::resource_metrics::Sources;
use crate::{discovery, health, openid, resource_metrics, version};

/// What pages are made from, beside the catalog of the request.
pub struct Pages {
    pub health: Health,
    pub metrics: Arc<Metrics>,
    pub openapi: OpenApi,
    pub openid: Option<OpenId>,
    pub usage: Sources,
}

impl Pages {
    pub async fn answer(&self, limits: &Limits, incoming: &Incoming<'_>) -> Result<Answer, Status> {
        let Incoming { parts, catalog, info, query, pretty, .. } = *incoming;
        if !info.resource.is_empty() {
            // Below a resource, but deeper than anything that is served.
            return missing::no_such_resource(catalog, info);
        }
        if !matches!(parts.method, Method::GET | Method::HEAD) || info.path.starts_with("//") {
            return Ok(missing::no_page());
        }
        if let Some(answer) = self.health.answer(&info.path, &query.others).await {
            return Ok(answer);
        }
        if let Some(answer) = openid::answer(self.openid.as_ref(), &info.path) {
            return Ok(answer);
        }
        let turns = &limits.heavy_turns;
        if let Some(answer) = self.openapi.answer(catalog, &info.path, &parts.headers, turns).await? {
            return Ok(answer);
        }
        let header = incoming.header(header::ACCEPT);
        let segments: Vec<&str> = info.path.trim_matches('/').split('/').collect();
        let has_metrics = self.usage.is_any();
        let value = match segments.as_slice() {
            ["metrics"] => {
                let text = self.metrics.render(&self.health.catalog, &*self.health.store);
                return Ok(health::text(StatusCode::OK, text));
            }
            ["version"] => {
                accept(header, Subject::Version, Offer::PLAIN)?;
                return Ok(raw_answer(StatusCode::OK, &version::version()));
            }
            ["api" | "apis"] => return discovery_root(incoming, segments[0] == "api", has_metrics),
            ["api", version] => discovery::resource_list(catalog, "", version).ok_or_else(Status::no_such_page)?,
            ["apis", group] => match discovery::group_page(catalog, group) {
                Some(page) => page,
                None => match resource_metrics::group_page(group).filter(|_| has_metrics) {
                    Some(page) => page,
                    None => return Ok(missing::no_page()),
                },
            },
            ["apis", group, version] => match discovery::resource_list(catalog, group, version) {
                Some(list) => list,
                None if has_metrics && resource_metrics::is_here(catalog, group, version) => {
                    resource_metrics::resource_list()
                }
                None if catalog.has_builtin_group(group) => return Err(Status::no_such_page()),
                None => return Ok(missing::no_page()),
            },
            [""] => return Ok(raw_answer(StatusCode::OK, &root_paths(catalog, self.openid.is_some()))),
            ["api", ..] => return Err(Status::no_such_page()),
            _ => return Ok(missing::no_page()),
        };
        let subject = if let ["apis", _] = segments.as_slice() { Subject::Index } else { Subject::Page };
        let accepted = accept(header, subject, Offer::PLAIN)?;
        Ok(discovery_answer(accepted, pretty, &value))
    }
}

fn discovery_root(incoming: &Incoming<'_>, core: bool, has_metrics: bool) -> Result<Answer, Status> {
    let Incoming { catalog, pretty, .. } = *incoming;
    let header = incoming.header(header::ACCEPT);
    let wanted = discovery_accept(header);
    let mut value = match (wanted, core) {
        (Some(version), _) => discovery::aggregated(catalog, core, version),
        (None, true) => discovery::api_versions(incoming.header(header::HOST)),
        (None, false) => discovery::group_list(catalog),
    };
    if has_metrics && !core {
        match wanted {
            Some(_) => resource_metrics::add_aggregated(&mut value),
            None => resource_metrics::add_group(&mut value),
        }
    }
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

fn discovery_answer(accepted: Accept, pretty: bool, value: &Value) -> Answer {
    let schema = TypeRef::find(&format!("io.k8s.apimachinery.pkg.apis.meta.v1.{}", value.str("kind")));
    let accepted = Accept { pretty: accepted.pretty || pretty, ..accepted };
    value_answer(StatusCode::OK, accepted, value, schema.map(TypeRef::get))
}

/// `/`: which paths there are.
fn root_paths(catalog: &Snapshot, has_keys: bool) -> Value {
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
    if has_keys {
        paths.extend(openid::PATHS.map(str::to_owned));
    }
    for served in catalog.all().iter().filter(|served| !served.kind.group.is_empty()) {
        paths.push(format!("/apis/{}", served.kind.group));
        paths.push(format!("/apis/{}/{}", served.kind.group, served.kind.version));
    }
    paths.sort();
    paths.dedup();
    rkube_machinery::object! { "paths": Value::Array(paths.into_iter().map(Value::from).collect()) }
}
