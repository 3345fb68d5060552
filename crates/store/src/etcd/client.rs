//! Talking to etcd: the connection, the calls, what its errors mean.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::timeout;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::metadata::MetadataValue;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Code, Status, Streaming};
use tonic_prost::ProstCodec;

use super::EtcdOptions;
use super::wire::{
    CompactionRequest, HeaderResponse, LeaseGrantRequest, LeaseGrantResponse, LeaseKeepAliveResponse, LeaseRequest,
    RangeRequest, RangeResponse, ResponseHeader, StatusRequest, StatusResponse, TxnRequest, TxnResponse, WatchRequest,
    WatchResponse,
};
use crate::contract::{Error, LeaseId, Result, Revision};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(5);
/// A read is tried so many times when the connection breaks.
const READ_ATTEMPTS: usize = 3;
const READ_RETRY_AFTER: Duration = Duration::from_millis(100);

pub(crate) struct Client {
    channel: Channel,
    call_timeout: Duration,
    /// The newest revision that any answer has told.
    newest: AtomicU64,
    /// The newest compaction that this process knows of.
    compacted: AtomicU64,
    size: AtomicI64,
}

impl Client {
    pub(crate) async fn connect(options: &EtcdOptions) -> Result<Client> {
        let endpoints = options.endpoints.iter().map(|address| endpoint(address, options));
        let endpoints = endpoints.collect::<Result<Vec<_>>>()?;
        if endpoints.is_empty() {
            return Err(Error::Unavailable("no address of an etcd is given".to_owned()));
        }
        let client = Client {
            channel: Channel::balance_list(endpoints.into_iter()),
            call_timeout: options.call_timeout,
            newest: AtomicU64::new(0),
            compacted: AtomicU64::new(0),
            size: AtomicI64::new(0),
        };
        client.refresh_status().await?;
        Ok(client)
    }

    /// Asks for the size. To be done after every connect: the other end may be another etcd.
    pub(crate) async fn refresh_status(&self) -> Result<()> {
        let status: StatusResponse = self.call("/etcdserverpb.Maintenance/Status", StatusRequest {}).await?;
        self.size.store(status.db_size, Ordering::Relaxed);
        Ok(())
    }

    pub(crate) fn size(&self) -> u64 {
        self.size.load(Ordering::Relaxed).max(0) as u64
    }

    pub(crate) fn newest(&self) -> Revision {
        self.newest.load(Ordering::Acquire)
    }

    pub(crate) fn saw_compaction(&self, revision: Revision) {
        self.compacted.fetch_max(revision, Ordering::Relaxed);
    }

    /// Linearizable unless it names a revision.
    pub(crate) async fn range(&self, request: RangeRequest) -> Result<(RangeResponse, Revision)> {
        let requested = request.revision as Revision;
        // All attempts together take no longer than one may: each can have waited for a connection to be given up.
        let answer = timeout(self.call_timeout, self.try_range(request)).await.map_err(|_| too_slow())?;
        let response = answer.map_err(|status| self.error(status, requested))?;
        let revision = self.saw(response.header.as_ref());
        Ok((response, revision))
    }

    async fn try_range(&self, request: RangeRequest) -> std::result::Result<RangeResponse, Status> {
        let mut attempt = 1;
        loop {
            match self.try_call("/etcdserverpb.KV/Range", request.clone()).await {
                Err(status) if status.code() == Code::Unavailable && attempt < READ_ATTEMPTS => {
                    attempt += 1;
                    tokio::time::sleep(READ_RETRY_AFTER).await;
                }
                answer => return answer,
            }
        }
    }

    pub(crate) async fn transaction(&self, request: TxnRequest) -> Result<(TxnResponse, Revision)> {
        let response: TxnResponse = self.call("/etcdserverpb.KV/Txn", request).await?;
        let revision = self.saw(response.header.as_ref());
        Ok((response, revision))
    }

    pub(crate) async fn compact(&self, revision: Revision) -> Result<()> {
        let request = CompactionRequest { revision: revision as i64 };
        let answer: std::result::Result<HeaderResponse, Status> =
            self.try_call("/etcdserverpb.KV/Compact", request).await;
        answer.map_err(|status| self.error(status, revision))?;
        self.saw_compaction(revision);
        Ok(())
    }

    pub(crate) async fn grant(&self, ttl_seconds: u64) -> Result<LeaseId> {
        let ttl = i64::try_from(ttl_seconds).unwrap_or(i64::MAX);
        let granted: LeaseGrantResponse =
            self.call("/etcdserverpb.Lease/LeaseGrant", LeaseGrantRequest { ttl }).await?;
        Ok(granted.id)
    }

    pub(crate) async fn revoke(&self, id: LeaseId) -> Result<()> {
        let answer: std::result::Result<HeaderResponse, Status> =
            self.try_call("/etcdserverpb.Lease/LeaseRevoke", LeaseRequest { id }).await;
        let response = answer.map_err(|status| match status.code() {
            Code::NotFound => Error::NoLease(id),
            _ => self.error(status, 0),
        })?;
        self.saw(response.header.as_ref());
        Ok(())
    }

    pub(crate) async fn renew(&self, id: LeaseId) -> Result<()> {
        let renewing = async {
            let requests = futures::stream::iter([LeaseRequest { id }]);
            let mut grpc = self.grpc().await?;
            let path = PathAndQuery::from_static("/etcdserverpb.Lease/LeaseKeepAlive");
            let codec = ProstCodec::<LeaseRequest, LeaseKeepAliveResponse>::default();
            let response = grpc.streaming(tonic::Request::new(requests), path, codec).await?;
            response.into_inner().message().await
        };
        let answer = timeout(self.call_timeout, renewing).await.map_err(|_| too_slow())?;
        match answer.map_err(|status| self.error(status, 0))? {
            Some(response) if response.ttl > 0 => Ok(()),
            Some(_) => Err(Error::NoLease(id)),
            None => Err(Error::Unavailable("etcd did not answer a renewal".to_owned())),
        }
    }

    /// `requests` must hold one already: etcd opens the stream with its first answer.
    pub(crate) async fn watch(
        &self,
        requests: futures::channel::mpsc::UnboundedReceiver<WatchRequest>,
    ) -> Result<Streaming<WatchResponse>> {
        let opening = async {
            let mut grpc = self.grpc().await?;
            let path = PathAndQuery::from_static("/etcdserverpb.Watch/Watch");
            let codec = ProstCodec::<WatchRequest, WatchResponse>::default();
            let mut request = tonic::Request::new(requests);
            // A member that has lost the others would otherwise keep the stream open, and silent, for ever.
            request.metadata_mut().insert("hasleader", MetadataValue::from_static("true"));
            grpc.streaming(request, path, codec).await
        };
        let opened = timeout(self.call_timeout, opening).await.map_err(|_| too_slow())?;
        Ok(opened.map_err(|status| self.error(status, 0))?.into_inner())
    }

    /// Notes how far the store has come.
    pub(crate) fn saw(&self, header: Option<&ResponseHeader>) -> Revision {
        let revision = header.map_or(0, |header| header.revision.max(0) as Revision);
        self.newest.fetch_max(revision, Ordering::AcqRel);
        revision
    }

    async fn call<Request, Response>(&self, path: &'static str, request: Request) -> Result<Response>
    where
        Request: prost::Message + 'static,
        Response: prost::Message + Default + 'static,
    {
        self.try_call(path, request).await.map_err(|status| self.error(status, 0))
    }

    async fn try_call<Request, Response>(
        &self,
        path: &'static str,
        request: Request,
    ) -> std::result::Result<Response, Status>
    where
        Request: prost::Message + 'static,
        Response: prost::Message + Default + 'static,
    {
        let calling = async {
            let mut grpc = self.grpc().await?;
            let codec = ProstCodec::<Request, Response>::default();
            grpc.unary(tonic::Request::new(request), PathAndQuery::from_static(path), codec).await
        };
        let answer = timeout(self.call_timeout, calling).await;
        Ok(answer.map_err(|_| Status::deadline_exceeded("no answer in time"))??.into_inner())
    }

    async fn grpc(&self) -> std::result::Result<Grpc<Channel>, Status> {
        let mut grpc = Grpc::new(self.channel.clone()).max_decoding_message_size(usize::MAX);
        grpc.ready().await.map_err(|error| Status::unavailable(format!("no connection: {error}")))?;
        Ok(grpc)
    }

    /// etcd tells its errors apart by text.
    fn error(&self, status: Status, requested: Revision) -> Error {
        let text = status.message();
        if text.contains("has been compacted") {
            let oldest = self.compacted.load(Ordering::Relaxed).max(requested + 1);
            Error::Compacted { requested, oldest }
        } else if text.contains("is a future revision") {
            Error::Future { requested, newest: self.newest().min(requested.saturating_sub(1)) }
        } else if NO_ROOM.iter().any(|words| text.contains(words)) {
            Error::NoSpace(text.to_owned())
        } else {
            Error::Unavailable(format!("etcd: {} ({:?})", text, status.code()))
        }
    }
}

/// What etcd says of writes that it has no room for, now or ever: its own limit on a request, and that of gRPC.
const NO_ROOM: [&str; 3] = ["database space exceeded", "request is too large", "message larger than max"];

fn too_slow() -> Error {
    Error::Unavailable("etcd did not answer in time".to_owned())
}

fn endpoint(address: &str, options: &EtcdOptions) -> Result<Endpoint> {
    let bad = |error: &dyn std::fmt::Display| Error::Unavailable(format!("the address {address} of etcd: {error}"));
    if !address.starts_with("http://") && !address.starts_with("https://") {
        return Err(bad(&"it must begin with http:// or https://"));
    }
    let endpoint = Endpoint::from_shared(address.to_owned()).map_err(|error| bad(&error))?;
    let endpoint = endpoint
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(KEEP_ALIVE_INTERVAL)
        .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
        .keep_alive_while_idle(true);
    if address.starts_with("http://") {
        return Ok(endpoint);
    }
    let mut tls = ClientTlsConfig::new();
    if let Some(authority) = &options.certificate_authority {
        tls = tls.ca_certificate(Certificate::from_pem(authority));
    }
    if let (Some(certificate), Some(key)) = (&options.certificate, &options.key) {
        tls = tls.identity(Identity::from_pem(certificate, key));
    }
    endpoint.tls_config(tls).map_err(|error| bad(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_name_their_scheme() {
        let options = EtcdOptions::default();
        assert!(endpoint("http://127.0.0.1:2379", &options).is_ok());
        assert!(endpoint("https://127.0.0.1:2379", &options).is_ok());
        assert!(endpoint("127.0.0.1:2379", &options).is_err());
    }
}
