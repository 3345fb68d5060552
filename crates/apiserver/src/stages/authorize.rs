//! Whether they may.

use rkube_access::User;
use rkube_access::authorize::Authorizers;
use rkube_machinery::Status;

use crate::request::RequestInfo;

pub fn run(authorizers: &Authorizers, user: &User, info: &RequestInfo) -> Result<(), Status> {
    authorizers.check(user, &info.attributes())
}
