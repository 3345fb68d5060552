//! Writes that the server itself makes, most of them on the way of another request: the same road from defaulted object
//! to store, without a body to decode.

use std::sync::Arc;

use futures::future::BoxFuture;
use http::Method;
use rkube_access::UserRef;
use rkube_kinds::kind::Part;
use rkube_machinery::{Status, Value};

use super::create::Origin;
use super::{Call, Preconditions};
use crate::content::{Accept, Format, Transform};
use crate::request::{Options, RequestInfo};
use crate::server::ApiServer;
use rkube_catalog::{Entry, Served, Snapshot};

/// The server as it names itself to others and in managed fields.
pub const AGENT: &str = "kube-apiserver";

/// A collection, and the server that writes to it on its own behalf.
pub struct InternalWriter<'a> {
    server: &'a ApiServer,
    catalog: Arc<Snapshot>,
    served: Arc<Served>,
    namespace: String,
}

impl<'a> InternalWriter<'a> {
    /// None where the resource is not served.
    pub fn new(
        server: &'a ApiServer,
        group: &str,
        version: &str,
        resource: &str,
        namespace: &str,
    ) -> Option<InternalWriter<'a>> {
        let served = server.catalog.find(group, version, resource).filter(|served| served.cache.is_some())?;
        Some(InternalWriter::of(server, served, namespace))
    }

    pub fn of(server: &'a ApiServer, served: Arc<Served>, namespace: &str) -> InternalWriter<'a> {
        InternalWriter { server, catalog: server.catalog.snapshot(), served, namespace: namespace.to_owned() }
    }

    /// Stores a new object: whole, in the order of its schema.
    pub fn create(&self, value: Value) -> BoxFuture<'_, Result<Entry, Status>> {
        Box::pin(async move {
            let info = self.info(&Method::POST, "");
            self.call(&info).create_value(value, Origin::Create).await.map(|written| written.entry)
        })
    }

    /// Deletes the object if it is still the one of this uid. That it is gone already is fine.
    pub fn delete(&self, name: &str, uid: &str) -> BoxFuture<'_, Result<(), Status>> {
        let (name, preconditions) = (name.to_owned(), Preconditions::of_uid(uid));
        Box::pin(async move {
            let info = self.info(&Method::DELETE, &name);
            match self.call(&info).delete_named(&name, &preconditions).await {
                Err(status) if !matches!(status.code, 404 | 409) => Err(status),
                _ => Ok(()),
            }
        })
    }

    /// The object: from the cache, or from the store where the cache may not have it yet.
    pub async fn find(&self, name: &str) -> Result<Option<Entry>, Status> {
        let info = self.info(&Method::GET, name);
        self.call(&info).place(name).find().await
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

    fn call<'b>(&'b self, info: &'b RequestInfo) -> Call<'b> {
        let user: &UserRef = &self.server.itself;
        Call {
            server: self.server,
            catalog: &self.catalog,
            served: &self.served,
            info,
            options: Options::default(),
            accept: Accept { format: Format::Json, transform: Transform::None, pretty: false },
            user,
            agent: AGENT,
            content_type: "",
            part: Part::Main,
            warnings: Vec::new(),
            kept_empties: false,
            gave_no_labels: false,
        }
    }
}
