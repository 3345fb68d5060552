//! Whether they may.

use rkube_access::User;
use rkube_access::authorize::Authorizers;
use rkube_machinery::{GroupResource, Status};

use crate::request::RequestInfo;

pub fn run(authorizers: &Authorizers, user: &User, info: &RequestInfo) -> Result<(), Status> {
    let attributes = info.attributes();
    if authorizers.allow(user, &attributes) {
        return Ok(());
    }
    let resource = GroupResource::new(info.group.as_str(), info.resource.as_str());
    let reason = authorizers.verdict(user, &attributes).reason;
    let name = if info.name.is_empty() { &info.selected_name } else { &info.name };
    Err(Status::forbidden(&resource, name, attributes.refusal(user, &reason)))
}
