//! Connections to backends, and what is said where there is none: the words of Go's client.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rkube_extensions::webhook::words;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::location::{Location, Security};

/// A backend that is not connected to by then is not reached.
const DIAL_TIMEOUT: Duration = Duration::from_secs(30);

/// The bytes of a connection, encrypted or not.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// How TLS is spoken with backends.
pub struct Connectors {
    kubelet: TlsConnector,
    unverified_kubelet: TlsConnector,
    unverified: TlsConnector,
}

/// By what nodes know the server, and the other way round. PEM.
#[derive(Clone, Copy)]
pub struct KubeletTls<'a> {
    /// Who has to have issued the certificates of nodes; with none they are not verified, as upstream.
    pub authority: &'a str,
    /// The server's certificate as a client of nodes, and its key.
    pub client: Option<(&'a str, &'a str)>,
}

impl Connectors {
    pub fn new(tls: KubeletTls<'_>) -> Result<Connectors, String> {
        let unverified = || Arc::new(Unverified(provider()));
        let verifier: Arc<dyn ServerCertVerifier> = match tls.authority {
            "" => unverified(),
            authority => {
                let mut roots = RootCertStore::empty();
                for certificate in CertificateDer::pem_slice_iter(authority.as_bytes()) {
                    roots.add(certificate.map_err(said)?).map_err(said)?;
                }
                WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider()).build().map_err(said)?
            }
        };
        Ok(Connectors {
            kubelet: connector(verifier, tls.client)?,
            unverified_kubelet: connector(unverified(), tls.client)?,
            unverified: connector(unverified(), None)?,
        })
    }

    /// A connection on which HTTP/1.1 can be spoken.
    pub async fn dial(&self, location: &Location) -> Result<Box<dyn Stream>, String> {
        let port = port_number(location)?;
        let opened = async {
            let stream = open(&location.host, port).await?;
            let connector = match location.security {
                Security::Plain => return Ok(Box::new(stream) as Box<dyn Stream>),
                Security::Unverified => &self.unverified,
                Security::Kubelet => &self.kubelet,
                Security::UnverifiedKubelet => &self.unverified_kubelet,
            };
            let (local, peer) = (stream.local_addr().ok(), stream.peer_addr().ok());
            let name = ServerName::try_from(location.host.clone()).map_err(said)?;
            let stream = connector.connect(name, stream).await.map_err(|error| {
                match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
                    Some(of_tls) => words::tls(of_tls, &location.host),
                    None => words::read(local, peer, &error),
                }
            })?;
            Ok(Box::new(stream) as Box<dyn Stream>)
        };
        let too_late = || Err(format!("dial tcp {}: i/o timeout", location.authority()));
        tokio::time::timeout(DIAL_TIMEOUT, opened).await.unwrap_or_else(|_| too_late())
    }
}

fn said(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn connector(verifier: Arc<dyn ServerCertVerifier>, client: Option<(&str, &str)>) -> Result<TlsConnector, String> {
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(said)?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    let mut config = match client {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let chain =
                CertificateDer::pem_slice_iter(certificate.as_bytes()).collect::<Result<_, _>>().map_err(said)?;
            let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(said)?;
            builder.with_client_auth_cert(chain, key).map_err(said)?
        }
    };
    // Upgrades are of HTTP/1.1.
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

/// The number of the port; of names those that every machine knows.
fn port_number(location: &Location) -> Result<u16, String> {
    match location.port.as_str() {
        "" if location.security == Security::Plain => Ok(80),
        "" => Ok(443),
        "http" => Ok(80),
        "https" => Ok(443),
        text => match text.parse::<u64>() {
            Ok(number) => u16::try_from(number).map_err(|_| format!("dial tcp: address {text}: invalid port")),
            Err(_) => Err(format!("dial tcp: lookup tcp/{text}: unknown port")),
        },
    }
}

async fn open(host: &str, port: u16) -> Result<TcpStream, String> {
    let found = tokio::net::lookup_host((host, port)).await;
    let found: Vec<SocketAddr> = found.map_err(|_| words::lookup(host))?.collect();
    let mut failure = words::lookup(host);
    for address in found {
        match TcpStream::connect(address).await {
            Ok(stream) => {
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Err(error) => failure = words::dial(&address.to_string(), &error),
        }
    }
    Err(failure)
}

/// Takes any certificate whose key the backend has.
#[derive(Debug)]
struct Unverified(Arc<CryptoProvider>);

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
