//! Whom a webhook's client trusts, and what is said where it does not.
//!
//! Go accepts a server's certificate that is itself one of the trusted ones, and one that says that it is an authority, as
//! those do that `openssl req -x509` makes. Authors of webhooks rely on it, so it holds here too: the library that
//! verifies the others refuses an authority's certificate.

use std::sync::Arc;

use rkube_machinery::time;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

const LEGACY_NAME: &str = "certificate relies on legacy Common Name field, use SANs instead";
const NO_PEM: &str = "unable to load root certificates: unable to parse bytes as PEM block";

/// A client that trusts these authorities (PEM), or the machine's if there are none.
pub(super) fn client_config(ca_bundle: &[u8]) -> Result<Arc<ClientConfig>, String> {
    let trusted: Vec<CertificateDer<'static>> = match ca_bundle.is_empty() {
        true => rustls_native_certs::load_native_certs().certs,
        false => CertificateDer::pem_slice_iter(ca_bundle).filter_map(Result::ok).collect(),
    };
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(trusted.iter().cloned());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let authorities = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build();
    let authorities = authorities.map_err(|_| NO_PEM.to_owned())?;
    // Of the machine's authorities none serves a webhook.
    let trusted = if ca_bundle.is_empty() { Vec::new() } else { trusted };
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Verifier { authorities, trusted }))
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

#[derive(Debug)]
struct Verifier {
    authorities: Arc<WebPkiServerVerifier>,
    trusted: Vec<CertificateDer<'static>>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        // In Go's order, since the first thing that is wrong is said.
        let parsed = parse(end_entity).ok_or(CertificateError::BadEncoding)?;
        check_time(&parsed, now)?;
        if !has_names(&parsed) {
            return Err(Error::General(LEGACY_NAME.to_owned()));
        }
        verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
        if self.trusted.contains(end_entity) {
            return Ok(ServerCertVerified::assertion());
        }
        if parsed.is_ca() {
            return match self.trusted.iter().any(|authority| has_issued(authority, &parsed)) {
                true => Ok(ServerCertVerified::assertion()),
                false => Err(CertificateError::UnknownIssuer.into()),
            };
        }
        self.authorities.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.authorities.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.authorities.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.authorities.supported_verify_schemes()
    }
}

fn check_time(parsed: &X509Certificate<'_>, now: UnixTime) -> Result<(), Error> {
    let seconds = |time: x509_parser::time::ASN1Time| u64::try_from(time.timestamp()).unwrap_or(0);
    let (from, to) = (seconds(parsed.validity().not_before), seconds(parsed.validity().not_after));
    let at = |seconds: u64| UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds));
    if now.as_secs() > to {
        return Err(CertificateError::ExpiredContext { time: now, not_after: at(to) }.into());
    }
    if now.as_secs() < from {
        return Err(CertificateError::NotValidYetContext { time: now, not_before: at(from) }.into());
    }
    Ok(())
}

/// Whether an authority's certificate has signed another, without one in between.
fn has_issued(authority: &CertificateDer<'_>, certificate: &X509Certificate<'_>) -> bool {
    let Some(authority) = parse(authority) else { return false };
    authority.is_ca()
        && authority.subject() == certificate.issuer()
        && certificate.verify_signature(Some(authority.public_key())).is_ok()
}

/// Whether it names its hosts where names are looked for.
fn has_names(parsed: &X509Certificate<'_>) -> bool {
    let Ok(Some(names)) = parsed.subject_alternative_name() else { return false };
    names.value.general_names.iter().any(|name| matches!(name, GeneralName::DNSName(_) | GeneralName::IPAddress(_)))
}

fn parse<'a>(certificate: &'a CertificateDer<'_>) -> Option<X509Certificate<'a>> {
    X509Certificate::from_der(certificate).ok().map(|(_, parsed)| parsed)
}

/// Why no connection came about, in Go's words.
pub fn words(error: &Error, host: &str) -> String {
    let unverified = |why: String| format!("tls: failed to verify certificate: x509: {why}");
    match error {
        Error::InvalidCertificate(error) => match error {
            CertificateError::UnknownIssuer => unverified("certificate signed by unknown authority".to_owned()),
            CertificateError::NotValidForNameContext { presented, .. } => unverified(name_words(presented, host)),
            CertificateError::NotValidForName => unverified(name_words(&[], host)),
            CertificateError::ExpiredContext { time, not_after } => unverified(time_words(*time, "after", *not_after)),
            CertificateError::NotValidYetContext { time, not_before } => {
                unverified(time_words(*time, "before", *not_before))
            }
            other => unverified(other.to_string()),
        },
        Error::General(why) if why == LEGACY_NAME => unverified(why.clone()),
        Error::InvalidMessage(_) => "http: server gave HTTP response to HTTPS client".to_owned(),
        Error::AlertReceived(alert) => format!("remote error: tls: {}", spaced(&format!("{alert:?}"))),
        other => format!("tls: {other}"),
    }
}

fn time_words(now: UnixTime, is: &str, bound: UnixTime) -> String {
    let shown = |at: UnixTime| time::format_seconds(i64::try_from(at.as_secs()).unwrap_or(i64::MAX));
    format!("certificate has expired or is not yet valid: current time {} is {is} {}", shown(now), shown(bound))
}

/// `presented`: as the library prints them, `DnsName("a")` and `IpAddress(1.2.3.4)`.
fn name_words(presented: &[String], host: &str) -> String {
    let names = |kind: &str| -> Vec<&str> {
        let inside = |name: &'_ String| -> Option<(usize, usize)> {
            let start = name.strip_prefix(kind)?.strip_prefix('(')?;
            Some((name.len() - start.len(), name.len() - 1))
        };
        let found = presented.iter().filter_map(|name| inside(name).map(|(start, end)| &name[start..end]));
        found.map(|name| name.trim_matches('"')).collect()
    };
    let is_ip = host.parse::<std::net::IpAddr>().is_ok();
    let valid = names(if is_ip { "IpAddress" } else { "DnsName" });
    match valid.is_empty() {
        true if is_ip => format!("cannot validate certificate for {host} because it doesn't contain any IP SANs"),
        true => format!("certificate is not valid for any names, but wanted to match {host}"),
        false => format!("certificate is valid for {}, not {host}", valid.join(", ")),
    }
}

/// `BadCertificate` as `bad certificate`.
fn spaced(name: &str) -> String {
    let mut out = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !out.is_empty() {
            out.push(' ');
        }
        out.extend(letter.to_lowercase());
    }
    out
}
