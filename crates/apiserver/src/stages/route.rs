//! Where a request goes: to the objects of a resource, or to a page.

use bytes::Bytes;
use http::Method;
use rkube_access::UserRef;
use rkube_machinery::Status;

use super::incoming::Incoming;
use super::{missing, pages, resource};
use crate::content::Answer;
use crate::request::{Options, Target};
use crate::server::ApiServer;

pub async fn run<B>(
    server: &ApiServer,
    incoming: &Incoming<'_>,
    user: &UserRef,
    body: B,
    options: Options,
) -> Result<Answer, Status>
where
    B: http_body::Body<Data = Bytes> + Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let Incoming { parts, catalog, info, .. } = *incoming;
    if info.target == Target::Path {
        options.time_limit()?;
        return pages::run(server, incoming, &options).await;
    }
    let Some(served) = catalog.find(&info.group, &info.version, &info.resource) else {
        return missing::no_such_resource(catalog, info);
    };
    if parts.method == Method::HEAD {
        return Err(Status::method_not_allowed());
    }
    resource::run(server, incoming, (served, user), body, options).await
}
