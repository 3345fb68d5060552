//! Asks servers, within bounds: of time, of redirections, of what is taken into memory.
//!
//! `oci-client` was looked at for all of this and does not serve: it takes manifests and tokens of any length into memory,
//! drops what a registry says about a refused token, knows neither identity tokens nor mirrors below a path, and so
//! could not word errors as pods are to show them. What is below is what Kubernetes' clients use here anyway.

use std::error::Error as _;
use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, HOST, LOCATION};
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

use super::hosts::Trust;
use super::unverified::Unverified;
use crate::images::bounds::{MAX_DOCUMENT_BYTES, MAX_REDIRECTS};
use crate::images::error::Doing;
use crate::images::{Error, Result};

/// How long to wait for a server.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    pub connect: Duration,
    /// For an answer to begin, and for every piece of what follows.
    pub stall: Duration,
}

impl Default for Patience {
    fn default() -> Patience {
        Patience { connect: Duration::from_secs(30), stall: Duration::from_secs(60) }
    }
}

pub(super) struct Http {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    patience: Patience,
}

/// What came back, and from where in the end.
pub(super) struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub url: String,
    pub method: Method,
    body: Incoming,
    patience: Patience,
}

impl Http {
    pub(super) fn new(trust: &Trust, patience: Patience) -> Result<Http> {
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        connector.set_connect_timeout(Some(patience.connect));
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls(trust)?)
            .https_or_http()
            .enable_http1()
            .wrap_connector(connector);
        Ok(Http { client: Client::builder(TokioExecutor::new()).build(connector), patience })
    }

    /// Follows redirections. What proves who we are is shown to nobody else than who was asked.
    pub(super) async fn send(&self, method: Method, url: &str, headers: &HeaderMap, body: Bytes) -> Result<Answer> {
        let (mut url, mut headers) = (url.to_owned(), headers.clone());
        for _ in 0..=MAX_REDIRECTS {
            let answer = self.send_once(&method, &url, &headers, body.clone()).await?;
            let location = answer.headers.get(LOCATION).and_then(|location| location.to_str().ok());
            let (true, Some(location)) = (answer.status.is_redirection(), location) else {
                return Ok(answer);
            };
            let next = resolve(&url, location)
                .ok_or_else(|| Error::Pull(format!("{url} sends us to {location:?}, which is no address")))?;
            if authority(&next) != authority(&url) {
                headers.remove(AUTHORIZATION);
            }
            url = next;
        }
        Err(Error::Pull(format!("stopped after {MAX_REDIRECTS} redirects")))
    }

    async fn send_once(&self, method: &Method, url: &str, headers: &HeaderMap, body: Bytes) -> Result<Answer> {
        let failed = |what: &str| Error::Pull(format!("failed to do request: {} {url:?}: {what}", in_words(method)));
        let uri: Uri = url.parse().map_err(|_| failed("not an address"))?;
        let host = uri.authority().map(|authority| authority.as_str().to_owned()).unwrap_or_default();
        let mut request =
            Request::builder().method(method).uri(uri).body(Full::new(body)).map_err(|_| failed("not a request"))?;
        *request.headers_mut() = headers.clone();
        if let Ok(host) = host.parse() {
            request.headers_mut().insert(HOST, host);
        }
        let limit = self.patience.connect + self.patience.stall;
        let answer: Response<Incoming> = match tokio::time::timeout(limit, self.client.request(request)).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => return Err(failed(&reason(&error, &host))),
            Err(_) => return Err(failed("no answer in time")),
        };
        let (parts, body) = answer.into_parts();
        let (url, method) = (url.to_owned(), method.clone());
        Ok(Answer { status: parts.status, headers: parts.headers, url, method, body, patience: self.patience })
    }
}

impl Answer {
    /// The next piece; None at the end.
    pub(super) async fn chunk(&mut self) -> io::Result<Option<Bytes>> {
        loop {
            let frame = tokio::time::timeout(self.patience.stall, self.body.frame());
            let Ok(frame) = frame.await else {
                let seconds = self.patience.stall.as_secs();
                return Err(io::Error::new(io::ErrorKind::TimedOut, format!("nothing was sent for {seconds} s")));
            };
            match frame {
                None => return Ok(None),
                Some(Err(error)) => return Err(io::Error::other(innermost(&error))),
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data));
                    }
                }
            }
        }
    }

    /// All of it, unless that is more than a document may have.
    pub(super) async fn document(self) -> Result<Bytes> {
        let limit = usize::try_from(MAX_DOCUMENT_BYTES).unwrap_or(usize::MAX);
        let whole = Limited::new(self.body, limit).collect();
        match tokio::time::timeout(self.patience.stall, whole).await {
            Ok(Ok(content)) => Ok(content.to_bytes()),
            Ok(Err(error)) => Err(Error::Pull(format!("failed to read {}: {error}", self.url))),
            Err(_) => Err(Error::Pull(format!("failed to read {}: no answer in time", self.url))),
        }
    }

    /// In the words of containerd.
    pub(super) fn unexpected(&self) -> Error {
        let status = format!("{} {}", self.status.as_u16(), self.status.canonical_reason().unwrap_or_default());
        Error::Pull(format!("unexpected status from {} request to {}: {}", self.method, self.url, status.trim_end()))
    }
}

fn tls(trust: &Trust) -> Result<ClientConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::Pull(error.to_string()))?;
    if trust.skip_verify {
        return Ok(builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Unverified(provider)))
            .with_no_client_auth());
    }
    let mut roots = system_roots().clone();
    for path in &trust.authorities {
        let content = std::fs::read(path).doing(|| format!("read {}", path.display()))?;
        for certificate in CertificateDer::pem_slice_iter(&content) {
            let added = certificate
                .map_err(|error| error.to_string())
                .and_then(|certificate| roots.add(certificate).map_err(|error| error.to_string()));
            added.map_err(|error| Error::Pull(format!("{}: {error}", path.display())))?;
        }
    }
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

/// Read once: they are many, and on disk.
fn system_roots() -> &'static RootCertStore {
    static ROOTS: OnceLock<RootCertStore> = OnceLock::new();
    ROOTS.get_or_init(|| {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        roots
    })
}

/// An address relative to another.
fn resolve(base: &str, location: &str) -> Option<String> {
    let uri: Uri = location.parse().ok()?;
    if uri.scheme().is_some() {
        return matches!(uri.scheme_str(), Some("http" | "https")).then(|| location.to_owned());
    }
    let base: Uri = base.parse().ok()?;
    location.starts_with('/').then(|| Some(format!("{}://{}{location}", base.scheme_str()?, base.authority()?)))?
}

fn authority(url: &str) -> Option<(String, String)> {
    let uri: Uri = url.parse().ok()?;
    Some((uri.scheme_str()?.to_owned(), uri.authority()?.as_str().to_owned()))
}

/// As Go writes methods in errors.
fn in_words(method: &Method) -> &'static str {
    match *method {
        Method::HEAD => "Head",
        Method::POST => "Post",
        _ => "Get",
    }
}

fn reason(error: &hyper_util::client::legacy::Error, host: &str) -> String {
    let mut source = error.source();
    while let Some(current) = source {
        if let Some(error) = current.downcast_ref::<io::Error>() {
            match error.kind() {
                io::ErrorKind::ConnectionRefused => return format!("dial tcp {host}: connect: connection refused"),
                io::ErrorKind::TimedOut => return format!("dial tcp {host}: i/o timeout"),
                _ => {}
            }
        }
        if current.to_string().starts_with("dns error") {
            let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
            return format!("dial tcp: lookup {name}: no such host");
        }
        source = current.source();
    }
    innermost(error)
}

/// What is at the bottom of it says the most.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut last = error.to_string();
    let mut source = error.source();
    while let Some(current) = source {
        last = current.to_string();
        source = current.source();
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_resolved() {
        for (location, expected) in [
            ("https://cdn/x?y", Some("https://cdn/x?y")),
            ("/x", Some("http://a:5000/x")),
            ("file:///etc/passwd", None),
            ("x", None),
        ] {
            assert_eq!(resolve("http://a:5000/v2/b", location).as_deref(), expected, "{location}");
        }
    }
}
