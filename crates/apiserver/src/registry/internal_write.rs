//! Writes that the server itself makes, most of them on the way of another request: the same road from defaulted object
//! to store, without a body to decode.

use std::sync::Arc;

use futures::future::BoxFuture;
use http::Method;
use rkube_admission::quota::Quotas;
use rkube_kinds::kind::Part;
use rkube_machinery::{Status, Text, Value};

use super::Registry;
use super::change::{Intent, Replacement};
use super::create::Origin;
use super::request::Request;
use super::write::Write;
use crate::allocation::{self, AddressRecords};
use crate::content::{Accept, Format, Transform};
use crate::request::{DeleteOptions, Query, RequestInfo};
use rkube_catalog::{Entry, Served, Snapshot};

/// The server as it names itself to others and in managed fields.
pub const AGENT: &str = "kube-apiserver";

/// Writes to a collection on the server's own behalf.
pub struct InternalWriter<'a> {
    registry: &'a Registry,
    catalog: Arc<Snapshot>,
    served: Arc<Served>,
    namespace: String,
    query: Query,
}

impl<'a> InternalWriter<'a> {
    /// None where the resource is not served.
    pub fn new(
        registry: &'a Registry,
        group: &str,
        version: &str,
        resource: &str,
        namespace: &str,
    ) -> Option<InternalWriter<'a>> {
        let served = registry.catalog.find(group, version, resource).filter(|served| served.cache.is_some())?;
        Some(InternalWriter::of(registry, served, namespace))
    }

    pub fn of(registry: &'a Registry, served: Arc<Served>, namespace: &str) -> InternalWriter<'a> {
        let catalog = registry.catalog.snapshot();
        InternalWriter { registry, catalog, served, namespace: namespace.to_owned(), query: Query::default() }
    }

    /// Stores a new object: whole, in the order of its schema.
    pub async fn create(&self, value: Value) -> Result<Entry, Status> {
        let info = self.info(&Method::POST, "");
        let request = self.request(&info);
        let mut write = Write::new(self.registry, &request, Vec::new());
        write.create_value(value, Origin::Create).await.map(|written| written.entry)
    }

    /// Replaces the status of an object that is still at the revision which this one has: a conflict if not.
    pub async fn replace_status(&self, name: &str, value: Value) -> Result<Entry, Status> {
        let mut info = self.info(&Method::PUT, name);
        info.subresource = Text::new_static("status");
        let request = Request { part: Part::Status, ..self.request(&info) };
        let mut write = Write::new(self.registry, &request, Vec::new());
        write.modify(Intent::Replace(Replacement::of(value))).await.map(|written| written.entry)
    }

    /// Deletes the object if it is still the one of this uid. That it is gone already is fine.
    pub async fn delete(&self, name: &str, uid: &str) -> Result<(), Status> {
        let options = DeleteOptions::of_uid(uid);
        let info = self.info(&Method::DELETE, name);
        let request = self.request(&info);
        match Write::new(self.registry, &request, Vec::new()).delete_named(name, &options).await {
            Err(status) if !matches!(status.code, 404 | 409) => Err(status),
            _ => Ok(()),
        }
    }

    /// The object: from the cache, or from the store where the cache may not have it yet.
    pub async fn find(&self, name: &str) -> Result<Option<Entry>, Status> {
        let info = self.info(&Method::GET, name);
        let request = self.request(&info);
        Write::new(self.registry, &request, Vec::new()).place(name).find().await
    }

    /// The object as the store has it now.
    pub async fn read(&self, name: &str) -> Result<Option<Entry>, Status> {
        let info = self.info(&Method::GET, name);
        let request = self.request(&info);
        Write::new(self.registry, &request, Vec::new()).place(name).read().await
    }

    fn info(&self, method: &Method, name: &str) -> RequestInfo {
        let mut info = RequestInfo::new(method, "/api/v1/own", false);
        let kind = &self.served.kind;
        info.group = kind.group.clone();
        info.version = kind.version.clone();
        info.resource = kind.resource.clone();
        info.namespace = self.namespace.as_str().into();
        info.name = name.into();
        info
    }

    fn request<'b>(&'b self, info: &'b RequestInfo) -> Request<'b> {
        Request {
            catalog: &self.catalog,
            served: &self.served,
            info,
            query: &self.query,
            accept: Accept { format: Format::Json, transform: Transform::None, pretty: false },
            user: &self.registry.itself,
            agent: AGENT,
            content_type: "",
            part: Part::Main,
        }
    }
}

impl AddressRecords for Registry {
    fn create(&self, record: Value) -> BoxFuture<'_, Result<(), Status>> {
        Box::pin(async move {
            let writer = address_writer(self).ok_or_else(Status::no_such_page)?;
            writer.create(record).await.map(drop)
        })
    }

    fn find<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<Entry>, Status>> {
        Box::pin(async move {
            match address_writer(self) {
                Some(writer) => writer.find(name).await,
                None => Ok(None),
            }
        })
    }

    fn delete<'a>(&'a self, name: &'a str, uid: &'a str) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            match address_writer(self) {
                Some(writer) => writer.delete(name, uid).await,
                None => Ok(()),
            }
        })
    }
}

impl Quotas for Registry {
    fn read<'a>(&'a self, namespace: &'a str, name: &'a str) -> BoxFuture<'a, Result<Option<Entry>, Status>> {
        Box::pin(async move {
            match quota_writer(self, namespace) {
                Some(writer) => writer.read(name).await,
                None => Ok(None),
            }
        })
    }

    fn write_used<'a>(&'a self, quota: &'a Entry, used: Value) -> BoxFuture<'a, Result<Entry, Status>> {
        Box::pin(async move {
            let writer = quota_writer(self, &quota.object.namespace).ok_or_else(Status::no_such_page)?;
            let mut value = quota.object.value(quota.revision);
            value.object_mut("status").set("used", used);
            writer.replace_status(&quota.object.name, value).await
        })
    }
}

fn quota_writer<'a>(registry: &'a Registry, namespace: &str) -> Option<InternalWriter<'a>> {
    InternalWriter::new(registry, "", "v1", "resourcequotas", namespace)
}

fn address_writer(registry: &Registry) -> Option<InternalWriter<'_>> {
    InternalWriter::new(registry, allocation::GROUP, "v1", "ipaddresses", "")
}
