//! Keys in all their forms, and tokens that are right, wrong and forged. The keys in `test_keys` are for nothing else; their
//! ids are those that kube-apiserver gives them.

use std::sync::atomic::{AtomicU64, Ordering};

use super::discovery::OpenId;
use super::*;

const RSA: &str = include_str!("test_keys/rsa-pkcs1.pem");
const RSA_CERTIFICATE: &str = include_str!("test_keys/rsa.crt");
const P256: &str = include_str!("test_keys/p256-sec1.pem");
const P256_PUBLIC: &str = include_str!("test_keys/p256.pub");
const P384: &str = include_str!("test_keys/p384-sec1.pem");
const P521: &str = include_str!("test_keys/p521-sec1.pem");

struct Counter(AtomicU64);

impl Entropy for Counter {
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill(self.0.fetch_add(1, Ordering::Relaxed) as u8);
    }
}

fn signer(key: &str, others: &[&str]) -> Signer {
    let keys = others.iter().map(|pem| (*pem).to_owned()).collect();
    let issuers = vec!["https://new".to_owned(), "https://old".to_owned()];
    Signer::new(&TokenOptions { signing_key: key.to_owned(), keys, issuers, ..TokenOptions::default() }).unwrap()
}

fn claims() -> Claims<'static> {
    let audiences = vec!["https://new".to_owned()];
    Claims {
        namespace: "n",
        name: "a",
        uid: "u",
        audiences,
        issued: 1000,
        expires: 2000,
        warns: None,
        bound: Vec::new(),
    }
}

fn sign(signer: &Signer) -> String {
    signer.sign(&claims(), &Counter(AtomicU64::new(0))).unwrap()
}

fn part(token: &str, place: usize) -> String {
    String::from_utf8(URL_SAFE_NO_PAD.decode(token.split('.').nth(place).unwrap()).unwrap()).unwrap()
}

#[test]
fn keys_are_read_in_every_form() {
    let rsa = "oXboZBa0G90dT-5rtT449Tqp4_hn08Vlzm_tPccWCGo";
    let p256 = "zcOdu0HNBj1STq2mbXlpi8pkJwHCIRcfSLr3bOtxp44";
    let table = [
        (RSA, "RS256", rsa),
        (include_str!("test_keys/rsa-pkcs8.pem"), "RS256", rsa),
        (RSA_CERTIFICATE, "RS256", rsa),
        (include_str!("test_keys/rsa.pub"), "RS256", rsa),
        (P256, "ES256", p256),
        (include_str!("test_keys/p256-pkcs8.pem"), "ES256", p256),
        (P256_PUBLIC, "ES256", p256),
        (P384, "ES384", "opAcLTbAYKUn1Omp-eqNREYYM0soqQXqOKUiRuxdrlo"),
    ];
    for (pem, algorithm, id) in table {
        let keys = VerifyingKey::all(pem).unwrap();
        let shown: Vec<_> = keys.iter().map(|key| (key.algorithm(), key.id.as_str())).collect();
        assert_eq!(shown, [(algorithm, id)]);
    }
    assert_eq!(VerifyingKey::all(include_str!("test_keys/p256-parameters.pem")).unwrap().len(), 1);
    assert_eq!(VerifyingKey::all(&[RSA, P256_PUBLIC].concat()).unwrap().len(), 2);
}

#[test]
fn keys_that_cannot_be_used_are_said() {
    for (pem, words) in [(P521, "P-256 or P-384"), ("", "valid RSA or ECDSA"), ("nonsense", "valid RSA or ECDSA")] {
        let error = VerifyingKey::all(pem).err().unwrap();
        assert!(error.contains(words), "{error}");
        let options = TokenOptions { signing_key: pem.to_owned(), ..TokenOptions::default() };
        assert!(Signer::new(&options).is_err());
    }
    assert!(SigningKey::new(P256_PUBLIC).is_err());
    let damaged = P256.replacen('A', "!", 1);
    assert!(SigningKey::new(&damaged).is_err());
}

#[test]
fn tokens_of_every_key_are_good_here_and_elsewhere() {
    for key in [RSA, P256, P384] {
        let own = signer(key, &[]);
        let token = sign(&own);
        assert!(own.read(&token).unwrap().is_ok());
        // After a rotation the old key verifies, by its certificate, too.
        let verifies = if key == RSA { RSA_CERTIFICATE } else { key };
        let next = signer(if key == P256 { RSA } else { P256 }, &[verifies]);
        assert!(next.read(&token).unwrap().is_ok());
        let other = signer(if key == P256 { RSA } else { P256 }, &[]);
        assert_eq!(other.read(&token).unwrap().unwrap_err(), "invalid signature, no keys found");
    }
}

#[test]
fn a_token_says_what_kubernetes_says() {
    let own = signer(P256, &[]);
    let pod = Binding { kind: "pod".to_owned(), name: "p".to_owned(), uid: "pu".to_owned() };
    let node = Binding { kind: "node".to_owned(), name: "m".to_owned(), uid: String::new() };
    let claims = Claims { warns: Some(1500), bound: vec![pod, node], ..claims() };
    let token = own.sign(&claims, &Counter(AtomicU64::new(0))).unwrap();
    assert_eq!(part(&token, 0), r#"{"alg":"ES256","kid":"zcOdu0HNBj1STq2mbXlpi8pkJwHCIRcfSLr3bOtxp44"}"#);
    let want = r#"{"aud":["https://new"],"exp":2000,"iat":1000,"iss":"https://new","jti":"00000000-0000-4000-8000-000000000000","kubernetes.io":{"namespace":"n","node":{"name":"m"},"pod":{"name":"p","uid":"pu"},"serviceaccount":{"name":"a","uid":"u"},"warnafter":1500},"nbf":1000,"sub":"system:serviceaccount:n:a"}"#;
    assert_eq!(part(&token, 1), want);
    let legacy = own.sign_legacy(&LegacyClaims { namespace: "n", name: "a", uid: "u", secret: "s" }).unwrap();
    let want = r#"{"iss":"kubernetes/serviceaccount","kubernetes.io/serviceaccount/namespace":"n","kubernetes.io/serviceaccount/secret.name":"s","kubernetes.io/serviceaccount/service-account.name":"a","kubernetes.io/serviceaccount/service-account.uid":"u","sub":"system:serviceaccount:n:a"}"#;
    assert_eq!(part(&legacy, 1), want);
}

#[test]
fn what_is_not_ours_is_not_read() {
    let own = signer(P256, &[RSA]);
    let good = sign(&own);
    let (header, rest) = good.split_once('.').unwrap();
    let (payload, signature) = rest.split_once('.').unwrap();
    let encode = |text: &str| URL_SAFE_NO_PAD.encode(text);
    let crypto = "go-jose/go-jose: error in cryptographic primitive";
    let other_issuer = encode(&part(&good, 1).replace("https://new", "https://x"));
    let altered = encode(&part(&good, 1).replace(r#""name":"a""#, r#""name":"b""#));
    let id = &own.key.public.id;
    let named = |algorithm: &str| encode(&format!(r#"{{"alg":"{algorithm}","kid":"{id}"}}"#));
    // `None`: not of ours at all.
    let table = [
        (good.clone(), Some("")),
        (format!("{}.{payload}.{signature}", encode(r#"{"alg":"ES256"}"#)), Some(crypto)),
        (format!("{header}.{altered}.{signature}"), Some(crypto)),
        (format!("{header}.{other_issuer}.{signature}"), None),
        (format!("{header}.{payload}."), Some(crypto)),
        (format!("{}.{payload}.", named("none")), Some(crypto)),
        (format!("{}.{payload}.{signature}", named("HS256")), Some(crypto)),
        (format!("{}.{payload}.{signature}", named("RS256")), Some(crypto)),
        (
            format!("{}.{payload}.{signature}", encode(r#"{"alg":"ES256","kid":"x"}"#)),
            Some("invalid signature, no keys found"),
        ),
        (format!("{header}.{payload}.{}", encode("x")), Some(crypto)),
        (format!("{header}.{payload}.{signature}.x"), None),
        ("junk".to_owned(), None),
        ("a.b.c".to_owned(), None),
        ("..".to_owned(), None),
        (String::new(), None),
    ];
    for (token, want) in table {
        let found = own.read(&token).map(|read| read.err().unwrap_or_default());
        assert_eq!(found.as_deref(), want, "{token}");
    }
}

#[test]
fn audiences_must_meet() {
    let own = signer(P256, &[]);
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<String>>();
    let said =
        |audiences: &[&str]| object! { "aud": audiences.iter().map(|one| Value::from(*one)).collect::<Vec<_>>() };
    assert_eq!(own.matching(&said(&["x", "https://old"]), own.audiences()), Ok(texts(&["https://old"])));
    // One that names none is for this server alone.
    assert_eq!(own.matching(&Value::object(), own.audiences()), Ok(texts(&["https://new", "https://old"])));
    assert!(own.matching(&Value::object(), &texts(&["x"])).is_err());
    let words = r#"token audiences ["other"] is invalid for the target audiences ["https://new" "https://old"]"#;
    assert_eq!(own.matching(&said(&["other"]), own.audiences()), Err(words.to_owned()));
}

#[test]
fn tokens_of_an_hour_are_extended_for_pods() {
    let options = TokenOptions { signing_key: P256.to_owned(), extends: true, ..TokenOptions::default() };
    let own = Signer::new(&options).unwrap();
    let ours = [DEFAULT_ISSUER.to_owned()];
    assert_eq!(own.extended_seconds(3607, &ours), Some(EXTENDED_SECONDS));
    assert_eq!(own.extended_seconds(3600, &ours), None);
    assert_eq!(own.extended_seconds(3607, &["x".to_owned()]), None);
    assert_eq!(signer(P256, &[]).extended_seconds(3607, &ours), None);
}

#[test]
fn others_can_discover_the_keys() {
    let own = signer(P256, &[RSA_CERTIFICATE, P384]);
    let documents = OpenId::new(&own, "", "192.0.2.2:6443").unwrap();
    let want = r#"{"issuer":"https://new","jwks_uri":"https://192.0.2.2:6443/openid/v1/jwks","response_types_supported":["id_token"],"subject_types_supported":["public"],"id_token_signing_alg_values_supported":["ES256","ES384","RS256"]}"#;
    assert_eq!(documents.configuration, want);
    let [rsa, p384, p256] = r#"{"use":"sig","kty":"RSA","kid":"oXboZBa0G90dT-5rtT449Tqp4_hn08Vlzm_tPccWCGo","alg":"RS256","n":"yk9FjnAXa0Mx0imuLMph1Xz0VmUpb-7k6HNKD3WbxvYTfbWyNal8LTJpLaZKpcKs2p2ii9CBkspe6rEVodaUjz99BDMmE-3scYxZnVfj5lK0ZaS8Vk8GPIweTDQdlfRArTCH43iXdwsgEuWmU3sM-oI-ya7bin33py09alUdbF15gxuqWbFh7hEpMpQqXKMpPBIWAo6YCiBfZMsp7ssWQmPSffau0r3RLT42EdWpfKqijJkYfzgCBgVcMieM9ExB2sceSBver9rgNgvgZJ8r8GSQuQw-NJhX5pqLCvKuTr_5Jek48B-9akYseh0mnHr_ybNZa6rl6OUkq5KXy7Zh8w","e":"AQAB"}
{"use":"sig","kty":"EC","kid":"opAcLTbAYKUn1Omp-eqNREYYM0soqQXqOKUiRuxdrlo","crv":"P-384","alg":"ES384","x":"X-JXKwCylL5v9Ie5vAhQ4oRTQv2VQ0O3VFR8-n_8Epkt_tXnIZk3yLknW9YF75Wa","y":"olqfcWBUo3IuWzBe4GMlg_XrR9jezKrYQlT8r4s-54WCXqoAvaVyMb_8oq5L2E5c"}
{"use":"sig","kty":"EC","kid":"zcOdu0HNBj1STq2mbXlpi8pkJwHCIRcfSLr3bOtxp44","crv":"P-256","alg":"ES256","x":"Lkw8G-ksSdKUdEyxN-IYDJYrNz1yvMYSdbPOY0K4sg8","y":"jEXFKm3lYsmQIWnk8Mcv52n8xi9EOxuZOHstw6Tzpo8"}"#
        .lines()
        .collect::<Vec<_>>()
        .try_into()
        .unwrap();
    assert_eq!(documents.keys, format!(r#"{{"keys":[{rsa},{p384},{p256}]}}"#));
    assert!(OpenId::new(&own, "https://keys", "h").unwrap().configuration.contains(r#""jwks_uri":"https://keys""#));
    assert!(OpenId::new(&own, "http://keys", "h").is_err());
    for issuer in ["http://x", "plain", "https://x?y", "https://x#y"] {
        let issuers = vec![issuer.to_owned()];
        let options = TokenOptions { signing_key: P256.to_owned(), issuers, ..TokenOptions::default() };
        assert!(OpenId::new(&Signer::new(&options).unwrap(), "", "h").is_err(), "{issuer}");
    }
}

#[test]
fn a_token_of_a_secret_is_worth_what_the_secret_is() {
    use base64::engine::general_purpose::STANDARD;
    let own = signer(P256, &[]);
    let token = own.sign_legacy(&LegacyClaims { namespace: "n", name: "a", uid: "u", secret: "s" }).unwrap();
    let claims = own.read(&token).unwrap().unwrap();
    let snapshot = Snapshot::unfed(rkube_kinds::all());
    let put = |resource: &str, mut object: Value, name: &str| {
        let metadata = object.object_mut("metadata");
        metadata.set("name", name);
        metadata.set("namespace", "n");
        metadata.set_if_absent("uid", "u");
        snapshot.resource("", "v1", resource).unwrap().fill(&[object], 1);
    };
    let holding = |token: &str| object! { "data": object! { "token": STANDARD.encode(token) } };
    let ask = || legacy::look_up(&claims, &token, &snapshot).map(|found| found.user().name.to_string());
    assert_eq!(ask().unwrap_err(), "Token has been invalidated");
    put("secrets", holding("another"), "s");
    assert_eq!(ask().unwrap_err(), "Token does not match server's copy");
    put("secrets", holding(&token), "s");
    assert_eq!(ask().unwrap_err(), r#"serviceaccounts "a" not found"#);
    put("serviceaccounts", object! { "metadata": object! { "uid": "other" } }, "a");
    assert_eq!(ask().unwrap_err(), "ServiceAccount UID (other) does not match claim (u)");
    put("serviceaccounts", Value::object(), "a");
    assert_eq!(ask().unwrap(), "system:serviceaccount:n:a");
    let found = legacy::look_up(&claims, &token, &snapshot).unwrap();
    assert_eq!((found.warning(), found.check_not_invalidated(), found.is_marked_used(0)), (None, Ok(()), false));
    let labels = object! { "kubernetes.io/legacy-token-last-used": "1970-01-02", "kubernetes.io/legacy-token-invalid-since": "1970-01-01" };
    let mut marked = holding(&token);
    marked.object_mut("metadata").set("labels", labels);
    put("secrets", marked, "s");
    put("serviceaccounts", object! { "secrets": vec![object! { "name": "s" }] }, "a");
    let found = legacy::look_up(&claims, &token, &snapshot).unwrap();
    assert!(found.warning().is_some() && found.check_not_invalidated().unwrap_err().contains("secret n/s"));
    assert!(found.is_marked_used(0) && found.is_marked_used(86_400) && !found.is_marked_used(172_800));
    let mut going = holding(&token);
    going.object_mut("metadata").set("deletionTimestamp", "1970-01-01T00:00:00Z");
    put("secrets", going, "s");
    assert_eq!(ask().unwrap_err(), "Token has been invalidated");
}
