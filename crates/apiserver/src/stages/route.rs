//! Where a request goes: to the objects of a resource, or to a page.

use bytes::Bytes;
use http::{Method, header};
use rkube_access::UserRef;
use rkube_machinery::Status;

use super::incoming::Incoming;
use super::pages::Pages;
use super::{missing, resource};
use crate::content::Answer;
use crate::limits::Limits;
use crate::registry::Registry;
use crate::request::Target;
use crate::resource_metrics;

pub async fn run<B>(
    (registry, pages): (&Registry, &Pages),
    limits: &Limits,
    incoming: &Incoming<'_>,
    user: &UserRef,
    body: &mut Option<B>,
) -> Result<Answer, Status>
where
    B: http_body::Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let Incoming { parts, catalog, info, .. } = *incoming;
    if info.target == Target::Path {
        return pages.answer(limits, incoming).await;
    }
    if pages.usage.is_any() && resource_metrics::is_here(catalog, &info.group, &info.version) {
        return resource_metrics::answer(&pages.usage, catalog, info, incoming.query, incoming.header(header::ACCEPT));
    }
    let Some(served) = catalog.find(&info.group, &info.version, &info.resource) else {
        return missing::no_such_resource(catalog, info);
    };
    if parts.method == Method::HEAD && info.subresource != "proxy" {
        return Err(Status::method_not_allowed());
    }
    resource::run(registry, limits, incoming, (served, user), body).await
}
