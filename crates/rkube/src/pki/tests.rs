//! First start, later starts, and starts on what should not be there.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use super::*;
use crate::host::SystemEntropy;
use rkube_cluster::certificates::tls;

const NOW_SECONDS: i64 = 1_800_000_000;
const YEAR_SECONDS: i64 = 365 * 24 * 60 * 60;

fn names(addresses: &[&str]) -> ServerNames {
    let mut names = ServerNames::default();
    names.add_dns("kubernetes.default.svc");
    addresses.iter().for_each(|address| names.add_address(address.parse().unwrap()));
    names
}

fn start(directory: &Path, addresses: &[&str], now_seconds: i64) -> Result<Pki, Error> {
    load_or_create(directory, &names(addresses), now_seconds, &SystemEntropy)
}

#[test]
fn the_first_start_writes_all_and_the_next_reuses_all() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path().join("pki");
    let first = start(&directory, &["127.0.0.1"], NOW_SECONDS).unwrap();
    let mode = |name: &str| fs::metadata(directory.join(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(""), 0o700);
    for name in ["ca.key", "apiserver.key", "admin.key", "sa.key"] {
        assert_eq!(mode(name), 0o600, "{name}");
    }
    let public = fs::read_to_string(directory.join("sa.pub")).unwrap();
    assert!(public.starts_with("-----BEGIN PUBLIC KEY"), "{public}");
    let second = start(&directory, &["127.0.0.1"], NOW_SECONDS + 60).unwrap();
    for (one, other) in [(&first.ca, &second.ca), (&first.server, &second.server), (&first.admin, &second.admin)] {
        assert_eq!((&one.certificate, &one.key), (&other.certificate, &other.key));
    }
    assert_eq!(first.service_account_key, second.service_account_key);
}

#[test]
fn the_server_is_renewed_for_a_name_or_before_it_expires() {
    let directory = tempfile::tempdir().unwrap();
    let mut before = start(directory.path(), &["127.0.0.1"], NOW_SECONDS).unwrap();
    let steps: &[(&[&str], i64, bool)] = &[
        (&["127.0.0.1", "10.96.0.1"], NOW_SECONDS, true),
        (&["127.0.0.1"], NOW_SECONDS, false),
        (&["127.0.0.1"], NOW_SECONDS + YEAR_SECONDS - issue::RENEW_BEFORE_SECONDS - 1, false),
        (&["127.0.0.1"], NOW_SECONDS + YEAR_SECONDS - issue::RENEW_BEFORE_SECONDS, true),
    ];
    for (addresses, now_seconds, renewed) in steps {
        let after = start(directory.path(), addresses, *now_seconds).unwrap();
        assert_eq!(before.server.certificate != after.server.certificate, *renewed, "{addresses:?} {now_seconds}");
        assert_eq!(before.server.key, after.server.key, "the key stays");
        assert_eq!(before.ca.certificate, after.ca.certificate);
        before = after;
    }
}

#[test]
fn a_new_authority_reissues_what_hangs_on_it() {
    let directory = tempfile::tempdir().unwrap();
    let first = start(directory.path(), &[], NOW_SECONDS).unwrap();
    fs::remove_file(directory.path().join("ca.crt")).unwrap();
    let second = start(directory.path(), &[], NOW_SECONDS).unwrap();
    assert_ne!(first.ca.certificate, second.ca.certificate);
    assert_ne!(first.admin.certificate, second.admin.certificate);
    assert!(Facts::read(&second.server.certificate).unwrap().is_signed_by(&second.ca.certificate));
}

#[test]
fn what_is_missing_damaged_or_expired_is_said() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    start(directory.path(), &[], NOW_SECONDS).unwrap();
    let expired = start(directory.path(), &[], NOW_SECONDS + 11 * YEAR_SECONDS);
    assert!(matches!(expired, Err(Error::Expired(_))));
    let key = fs::read(path("ca.key")).unwrap();
    fs::write(path("ca.key"), "nonsense").unwrap();
    assert!(matches!(start(directory.path(), &[], NOW_SECONDS), Err(Error::Damaged { .. })));
    fs::remove_file(path("ca.key")).unwrap();
    assert!(matches!(start(directory.path(), &[], NOW_SECONDS), Err(Error::Half { .. })));
    fs::write(path("ca.key"), key).unwrap();
    start(directory.path(), &[], NOW_SECONDS).unwrap();
}

/// Both sides of a connection in memory, with client authentication, as kubectl makes it.
#[test]
fn a_client_and_the_server_trust_each_other() {
    let directory = tempfile::tempdir().unwrap();
    let now_seconds = rkube_machinery::host::Clock::now_seconds(&crate::host::SystemClock);
    let pki = start(directory.path(), &["127.0.0.1"], now_seconds).unwrap();
    let mut server =
        rustls::ServerConnection::new(tls::server_config(&pki.server, Some(&pki.ca.certificate)).unwrap().into())
            .unwrap();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(tls::certificates(&pki.ca.certificate).unwrap().remove(0)).unwrap();
    let client = rustls::ClientConfig::builder_with_provider(tls::provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_client_auth_cert(
            tls::certificates(&pki.admin.certificate).unwrap(),
            tls::private_key(&pki.admin.key).unwrap(),
        )
        .unwrap();
    let mut client = rustls::ClientConnection::new(Arc::new(client), "127.0.0.1".try_into().unwrap()).unwrap();
    for _ in 0..4 {
        let mut wire = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut wire).unwrap();
        }
        let mut input = wire.as_slice();
        while !input.is_empty() {
            server.read_tls(&mut input).unwrap();
            server.process_new_packets().unwrap();
        }
        let mut wire = Vec::new();
        while server.wants_write() {
            server.write_tls(&mut wire).unwrap();
        }
        let mut input = wire.as_slice();
        while !input.is_empty() {
            client.read_tls(&mut input).unwrap();
            client.process_new_packets().unwrap();
        }
    }
    assert!(!client.is_handshaking() && !server.is_handshaking());
    assert_eq!(server.peer_certificates().map(<[_]>::len), Some(1));
}
