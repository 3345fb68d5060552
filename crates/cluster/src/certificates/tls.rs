//! How the server speaks TLS: its certificate, and client certificates of the cluster's authority where one is shown.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::UnixTime;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    DigitallySignedStruct, DistinguishedName, RootCertStore, ServerConfig, SignatureScheme, SupportedProtocolVersion,
};

use super::Pair;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("a certificate or key is damaged")]
    Pem(#[from] rustls::pki_types::pem::Error),
    #[error("the certificates cannot be used")]
    Tls(#[from] rustls::Error),
    #[error("the authority cannot be used for client certificates")]
    Verifier(#[from] rustls::server::VerifierBuilderError),
}

/// A client without a certificate may connect: it may have a token, or be nobody. One with a certificate of another
/// authority than `client_authorities` (PEM) may, too: its requests are refused, with a status, if they have no other
/// credentials.
pub fn server_config(server: &Pair, client_authorities: Option<&str>) -> Result<ServerConfig, Error> {
    server_config_with(server, client_authorities, rustls::DEFAULT_VERSIONS)
}

/// As [`server_config`], with these versions of TLS only.
pub fn server_config_with(
    server: &Pair,
    client_authorities: Option<&str>,
    versions: &[&'static SupportedProtocolVersion],
) -> Result<ServerConfig, Error> {
    let builder = ServerConfig::builder_with_provider(provider()).with_protocol_versions(versions)?;
    let builder = match client_authorities {
        None => builder.with_no_client_auth(),
        Some(pem) => {
            let mut roots = RootCertStore::empty();
            for certificate in certificates(pem)? {
                roots.add(certificate)?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider());
            builder.with_client_cert_verifier(Arc::new(AnyCertificate(verifier.allow_unauthenticated().build()?)))
        }
    };
    let mut config = builder.with_single_cert(certificates(&server.certificate)?, private_key(&server.key)?)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

pub fn certificates(pem: &str) -> Result<Vec<CertificateDer<'static>>, Error> {
    Ok(CertificateDer::pem_slice_iter(pem.as_bytes()).collect::<Result<_, _>>()?)
}

pub fn private_key(pem: &str) -> Result<PrivateKeyDer<'static>, Error> {
    Ok(PrivateKeyDer::from_pem_slice(pem.as_bytes())?)
}

/// Takes every certificate whose key the peer has. What it is worth is found out with each request.
#[derive(Debug)]
struct AnyCertificate(Arc<dyn ClientCertVerifier>);

impl ClientCertVerifier for AnyCertificate {
    fn offer_client_auth(&self) -> bool {
        true
    }

    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
