//! What is said of paths where nothing is.

use http::StatusCode;
use rkube_catalog::Snapshot;
use rkube_machinery::Status;

use crate::content::Answer;
use crate::health;
use crate::request::RequestInfo;

/// Within a built-in group a Status, elsewhere a plain page. Below a custom resource its object is what is missing.
pub fn no_such_resource(catalog: &Snapshot, info: &RequestInfo) -> Result<Answer, Status> {
    let served = catalog.find(&info.group, &info.version, &info.resource).filter(|served| served.is_custom());
    if let Some(served) = served {
        return Err(Status::not_found(&served.group_resource, &info.name));
    }
    let known = info.group.is_empty() || catalog.has_builtin_group(&info.group);
    if known { Err(Status::no_such_page()) } else { Ok(no_page()) }
}

pub fn no_page() -> Answer {
    health::text(StatusCode::NOT_FOUND, "404 page not found\n".to_owned())
}
