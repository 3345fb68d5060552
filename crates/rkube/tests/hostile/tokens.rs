//! Tokens of service accounts and certificates of clients: forged ones, those of others, and those whose time is over.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use rcgen::{CertificateParams, DnType, IsCa, Issuer, KeyPair};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use rkube_testkit::{Rkube, eventually};
use serde_json::{Value, json};

use crate::client::{Answer, Client};
use crate::{is_well, start, start_durable};

const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

fn post(client: &Client, path: &str, body: &Value) -> Answer {
    client.request("POST", path, &[], body.to_string().as_bytes()).unwrap()
}

/// What the server says to who has nothing but this token.
fn ask(client: &Client, token: &str) -> u16 {
    let bearer = format!("Bearer {token}");
    client.without_certificate().request("GET", "/api", &[("Authorization", &bearer)], b"").unwrap().status
}

/// An account of its own, and its uid.
fn make_account(client: &Client, name: &str) -> String {
    let made = post(client, ACCOUNTS, &json!({ "metadata": { "name": name } }));
    assert_eq!(made.status, 201);
    made.json()["metadata"]["uid"].as_str().unwrap().to_owned()
}

fn request_token(client: &Client, account: &str, spec: &Value) -> String {
    let made = post(client, &format!("{ACCOUNTS}/{account}/token"), &json!({ "spec": spec }));
    assert_eq!(made.status, 201);
    made.json()["status"]["token"].as_str().unwrap().to_owned()
}

fn payload(token: &str) -> Value {
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(token.split('.').nth(1).unwrap()).unwrap()).unwrap()
}

/// Signs claims with a key in PEM, as the server would.
fn sign(key: &str, header: &str, claims: &Value) -> String {
    let der = STANDARD.decode(key.lines().filter(|line| !line.starts_with('-')).collect::<String>()).unwrap();
    let random = SystemRandom::new();
    let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &der, &random).unwrap();
    let encode = |text: &[u8]| URL_SAFE_NO_PAD.encode(text);
    let text = format!("{header}.{}", encode(claims.to_string().as_bytes()));
    format!("{text}.{}", encode(pair.sign(&random, text.as_bytes()).unwrap().as_ref()))
}

#[test]
fn forged_tokens_are_worth_nothing() {
    let rkube = start();
    let client = Client::of(&rkube);
    let uid = make_account(&client, "a");
    let token = request_token(&client, "a", &json!({}));
    assert_eq!(ask(&client, &token), 200);
    let (header, claims) = (token.split('.').next().unwrap(), payload(&token));
    let own = std::fs::read_to_string(rkube.data_directory().join("pki/sa.key")).unwrap();
    let other = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap().serialize_pem();
    let with = |field: &str, value: Value| {
        let mut claims = claims.clone();
        claims[field] = value;
        claims
    };
    assert_eq!(ask(&client, &sign(&own, header, &claims)), 200);
    let none = URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#);
    let body = token.split('.').nth(1).unwrap();
    let account =
        |name: &str, uid: &str| json!({ "namespace": "default", "serviceaccount": { "name": name, "uid": uid } });
    let legacy = json!({ "iss": "kubernetes/serviceaccount", "sub": "system:serviceaccount:default:a",
        "kubernetes.io/serviceaccount/namespace": "default", "kubernetes.io/serviceaccount/secret.name": "s",
        "kubernetes.io/serviceaccount/service-account.name": "a", "kubernetes.io/serviceaccount/service-account.uid": uid });
    let table = [
        ("of another key", sign(&other, header, &claims)),
        ("without a signature", format!("{header}.{body}.")),
        ("of no algorithm", format!("{none}.{body}.")),
        ("of another algorithm", format!("{}.{body}.AAAA", URL_SAFE_NO_PAD.encode(r#"{"alg":"HS256"}"#))),
        ("altered", token.replace(body, &URL_SAFE_NO_PAD.encode(with("sub", "x".into()).to_string()))),
        ("expired", sign(&own, header, &with("exp", 1.into()))),
        ("not valid yet", sign(&own, header, &with("nbf", 99_999_999_999_u64.into()))),
        ("for others", sign(&own, header, &with("aud", json!(["others"])))),
        ("by others", sign(&own, header, &with("iss", "https://others".into()))),
        ("of an account that is not there", sign(&own, header, &with("kubernetes.io", account("b", &uid)))),
        ("of an account before this one", sign(&own, header, &with("kubernetes.io", account("a", "1")))),
        ("of a Secret that is not there", sign(&own, header, &legacy)),
        ("nonsense", "a.b.c".to_owned()),
        ("not even that", "x".to_owned()),
    ];
    for (what, token) in table {
        assert_eq!(ask(&client, &token), 401, "{what}");
    }
    let review = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
        "spec": { "token": sign(&own, header, &with("exp", 1.into())) } });
    let review = post(&client, "/apis/authentication.k8s.io/v1/tokenreviews", &review).json();
    assert_eq!(review["status"]["error"], "[invalid bearer token, service account token has expired]");
    is_well(&rkube);
}

#[test]
fn tokens_outlive_the_key_that_signed_them_as_long_as_it_is_known() {
    let mut rkube = start_durable();
    make_account(&Client::of(&rkube), "a");
    let old = request_token(&Client::of(&rkube), "a", &json!({}));
    let directory = tempfile::tempdir().unwrap();
    let key = directory.path().join("new.key");
    std::fs::write(&key, KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384).unwrap().serialize_pem()).unwrap();
    let signs = format!("--service-account-signing-key-file={}", key.display());
    let knows = format!("--service-account-key-file={}", rkube.data_directory().join("pki/sa.pub").display());
    rkube.restart_with(&[&signs, &knows]);
    let client = Client::of(&rkube);
    let new = request_token(&client, "a", &json!({}));
    assert_eq!((ask(&client, &old), ask(&client, &new)), (200, 200));
    let keys = client.get("/openid/v1/jwks");
    assert_eq!(keys.header("content-type"), Some("application/jwk-set+json"));
    assert_eq!(keys.header("cache-control"), Some("public, max-age=3600"));
    let algorithms: Vec<Value> = keys.json()["keys"].as_array().unwrap().iter().map(|key| key["alg"].clone()).collect();
    assert_eq!(algorithms, ["ES256", "ES384"]);
    let document = client.get("/.well-known/openid-configuration");
    assert_eq!(document.header("content-type"), Some("application/json"));
    assert_eq!(document.json()["issuer"], ISSUER);

    // With another issuer first the tokens of the old one are good as long as it is named.
    let issuers =
        ["--service-account-issuer=https://new", &format!("--service-account-issuer={ISSUER}")].map(str::to_owned);
    rkube.restart_with(&[&signs, &issuers[0], &issuers[1], "--service-account-max-token-expiration=2h"]);
    let client = Client::of(&rkube);
    assert_eq!((ask(&client, &old), ask(&client, &new)), (401, 200));
    let asked = post(&client, &format!("{ACCOUNTS}/a/token"), &json!({ "spec": { "expirationSeconds": 86_400 } }));
    let warning = "299 - \"requested expiration of 86400 seconds shortened to 7200 seconds\"";
    assert_eq!(asked.header("warning"), Some(warning));
    let claims = payload(asked.json()["status"]["token"].as_str().unwrap());
    assert_eq!((&claims["iss"], &claims["aud"]), (&"https://new".into(), &json!(["https://new", ISSUER])));
    rkube.restart_with(&[&signs, &issuers[0]]);
    assert_eq!(ask(&Client::of(&rkube), &new), 401);
    is_well(&rkube);
}

#[test]
fn a_secret_holds_a_token_as_long_as_it_is_there() {
    let rkube = start();
    let client = Client::of(&rkube);
    make_account(&client, "a");
    let secret = |name: &str, account: &str| {
        json!({ "metadata": { "name": name, "annotations": { "kubernetes.io/service-account.name": account } },
            "type": "kubernetes.io/service-account-token" })
    };
    assert_eq!(post(&client, SECRETS, &secret("s", "a")).status, 201);
    let filled = eventually("the secret is filled", || {
        let found = client.get(&format!("{SECRETS}/s")).json();
        if found["data"]["token"].is_string() { Ok(found) } else { Err(found.to_string()) }
    });
    let text = |key: &str| String::from_utf8(STANDARD.decode(filled["data"][key].as_str().unwrap()).unwrap()).unwrap();
    let authority = std::fs::read_to_string(rkube.data_directory().join("pki/ca.crt")).unwrap();
    assert_eq!((text("namespace"), text("ca.crt")), ("default".to_owned(), authority));
    assert!(filled["metadata"]["annotations"]["kubernetes.io/service-account.uid"].is_string());
    let token = text("token");
    assert_eq!(ask(&client, &token), 200);
    eventually("its use is noticed", || {
        let found = client.get(&format!("{SECRETS}/s")).json();
        let used = &found["metadata"]["labels"]["kubernetes.io/legacy-token-last-used"];
        if used.is_string() { Ok(()) } else { Err(found.to_string()) }
    });
    assert_eq!(client.request("DELETE", &format!("{SECRETS}/s"), &[], b"").unwrap().status, 200);
    assert_eq!(ask(&client, &token), 401);
    let gone = |name: &str| {
        let path = format!("{SECRETS}/{name}");
        eventually("the secret is gone", || match client.get(&path).status {
            404 => Ok(()),
            other => Err(other.to_string()),
        });
    };
    // Of an account that is not there, and of one that goes.
    assert_eq!(post(&client, SECRETS, &secret("of-nobody", "nobody")).status, 201);
    gone("of-nobody");
    assert_eq!(post(&client, SECRETS, &secret("t", "a")).status, 201);
    assert_eq!(client.request("DELETE", &format!("{ACCOUNTS}/a"), &[], b"").unwrap().status, 200);
    gone("t");
    is_well(&rkube);
}

#[test]
fn certificates_of_known_authorities_are_taken_and_no_others() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let authority = |name: &str| {
        let key = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
        let mut parameters = CertificateParams::new(Vec::new()).unwrap();
        parameters.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        parameters.distinguished_name.push(DnType::CommonName, name);
        let certificate = parameters.self_signed(&key).unwrap().pem();
        (certificate, Issuer::new(parameters, key))
    };
    let leaf_until = |issuer: &Issuer<'_, KeyPair>, names: &[&str], until: Option<time::OffsetDateTime>| {
        let key = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
        let mut parameters =
            CertificateParams::new(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()).unwrap();
        parameters.distinguished_name.push(DnType::CommonName, "carol");
        parameters.distinguished_name.push(DnType::OrganizationName, "system:masters");
        parameters.not_after = until.unwrap_or(parameters.not_after);
        (parameters.signed_by(&key, issuer).unwrap().pem(), key.serialize_pem())
    };
    let leaf = |issuer: &Issuer<'_, KeyPair>, names: &[&str]| leaf_until(issuer, names, None);
    let (known, known_issuer) = authority("known");
    let (_, other_issuer) = authority("other");
    let (certificate, key) = leaf(&known_issuer, &["127.0.0.1"]);
    for (name, text) in [("ca.crt", &known), ("tls.crt", &certificate), ("tls.key", &key)] {
        std::fs::write(path(name), text).unwrap();
    }
    let flags = [("client-ca-file", "ca.crt"), ("tls-cert-file", "tls.crt"), ("tls-private-key-file", "tls.key")]
        .map(|(flag, file)| format!("--{flag}={}", path(file).display()));
    let rkube = Rkube::start_with(env!("CARGO_BIN_EXE_rkube"), &["--store=memory", &flags[0], &flags[1], &flags[2]]);
    // The server shows the certificate that it was given, which hangs on the authority that it was given.
    let address = rkube.url().trim_start_matches("https://").to_owned();
    let asked =
        |pair: &(String, String)| Client::with(&known, &pair.0, &pair.1, &address).request("GET", "/api", &[], b"");
    assert_eq!(asked(&leaf(&known_issuer, &[])).unwrap().status, 200);
    let refused = asked(&leaf(&other_issuer, &[])).unwrap();
    assert_eq!((refused.status, refused.json()["reason"].as_str()), (401, Some("Unauthorized")), "another authority's");
    let soon = time::OffsetDateTime::now_utc() + Duration::from_secs(3);
    let (certificate, key) = leaf_until(&known_issuer, &[], Some(soon));
    let mut connection = Client::with(&known, &certificate, &key, &address).connect().unwrap();
    eventually("a certificate ends before its connection does", || {
        let answer = connection.request("GET", "/api", &[], b"").unwrap();
        if answer.status == 401 { Ok(()) } else { Err(format!("{}", answer.status)) }
    });
    let file = |name: &str| std::fs::read_to_string(rkube.data_directory().join("pki").join(name)).unwrap();
    assert_eq!(asked(&(file("admin.crt"), file("admin.key"))).unwrap().status, 200);
}
