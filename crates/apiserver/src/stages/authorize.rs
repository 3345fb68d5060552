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
    Err(Status::forbidden(&resource, &info.name, attributes.refusal(user, &reason)))
}
