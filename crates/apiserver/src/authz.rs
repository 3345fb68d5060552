//! Who may do what: `system:masters` everything; everybody may see whether the server lives and what it is.

use rkube_machinery::field::quote;
use rkube_machinery::{GroupResource, Status};

use crate::request::{RequestInfo, Target, User};

const MASTERS: &str = "system:masters";
/// Paths that need no rights.
const PUBLIC: [&str; 5] = ["/healthz", "/livez", "/readyz", "/version", "/version/"];
/// Paths by which everybody who is known finds out what is served.
const DISCOVERY: [&str; 3] = ["/api", "/apis", "/openapi"];

/// Who may do everything.
pub fn is_master(user: &User) -> bool {
    user.is_in(MASTERS)
}

pub fn authorize(user: &User, info: &RequestInfo) -> Result<(), Status> {
    if is_master(user) {
        return Ok(());
    }
    if info.target == Target::Path && info.verb == "get" && PUBLIC.contains(&info.path.as_str()) {
        return Ok(());
    }
    let below =
        |root: &&str| info.path.strip_prefix(*root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    let looks = info.target == Target::Path && info.verb == "get" && DISCOVERY.iter().any(below);
    if looks && user.is_in("system:authenticated") {
        return Ok(());
    }
    // Everybody may ask who they are.
    if info.resource == "selfsubjectreviews" && info.verb == "create" && user.is_in("system:authenticated") {
        return Ok(());
    }
    Err(Status::forbidden(
        &GroupResource::new(info.group.as_str(), info.resource.as_str()),
        &info.name,
        refusal(user, info),
    ))
}

fn refusal(user: &User, info: &RequestInfo) -> String {
    let name = quote(&user.name);
    if info.target == Target::Path {
        return format!("User {name} cannot {} path {}", info.verb, quote(&info.path));
    }
    let mut resource = info.resource.clone();
    if !info.subresource.is_empty() {
        resource = format!("{resource}/{}", info.subresource).into();
    }
    let scope = match info.namespace.as_str() {
        "" => "at the cluster scope".to_owned(),
        namespace => format!("in the namespace {}", quote(namespace)),
    };
    format!(
        "User {name} cannot {} resource {} in API group {} {scope}",
        info.verb,
        quote(&resource),
        quote(&info.group)
    )
}
