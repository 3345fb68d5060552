//! Signs the kubeconfig of `kube-public/cluster-info` with every token that is for that, so that a node that knows nothing
//! but a token can tell that it talks to the right cluster.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use ring::hmac;
use rkube_machinery::decode::base64;
use rkube_operator::kube::Error;
use rkube_operator::kube::api::{Api, PostParams};
use rkube_operator::{Outcome, Queue};
use serde_json::json;

use super::{Lasts, Token, tokens};
use crate::Context;

const NAME: &str = "bootstrap-signer-controller";
const WORKERS: usize = 1;
const MAP_NAMESPACE: &str = "kube-public";
const MAP: &str = "cluster-info";
const CONTENT: &str = "kubeconfig";
const SIGNATURE: &str = "jws-kubeconfig-";
const SECRET_NAME: &str = "bootstrap-token-";

pub async fn run(context: Context) {
    let Context { client, caches, clock, .. } = context;
    let queue: Queue<&'static str> = Queue::new();
    let adding = queue.clone();
    let tokens = tokens(&caches).on_change(move |_| adding.add(MAP));
    let adding = queue.clone();
    let maps = caches.named::<ConfigMap>(MAP).on_change(move |change| {
        if change.key.namespace == MAP_NAMESPACE && change.new.is_some() {
            adding.add(MAP);
        }
    });
    tokens.synced().await;
    maps.synced().await;
    let watched = Arc::new((tokens, maps));
    rkube_operator::run(NAME, queue, WORKERS, move |_| {
        let (client, clock, watched) = (client.clone(), clock.clone(), watched.clone());
        async move {
            let (tokens, maps) = &*watched;
            let Some(map) = maps.get(MAP_NAMESPACE, MAP) else { return Ok(Outcome::Unchanged) };
            let Some(signed) = sign(&map, &tokens.all(), clock.now_micros()) else { return Ok(Outcome::Unchanged) };
            let api: Api<ConfigMap> = Api::namespaced(client, MAP_NAMESPACE);
            match api.replace(MAP, &PostParams::default(), &signed).await {
                Err(Error::Api(status)) if status.code == 404 => Ok(Outcome::Wrote),
                written => written.map(|_| Outcome::Wrote),
            }
        }
    })
    .await;
}

/// The map with the signatures that it should have; none if it has them.
fn sign(map: &ConfigMap, tokens: &[Arc<Token>], now_micros: i64) -> Option<ConfigMap> {
    let data = map.data.as_ref()?;
    let content = data.get(CONTENT)?;
    let wanted: BTreeMap<String, String> = tokens
        .iter()
        .filter(|token| is_good(token, now_micros))
        .map(|token| (format!("{SIGNATURE}{}", token.id), signature(content, &token.id, &token.secret)))
        .collect();
    let is_signature = |key: &String| key.starts_with(SIGNATURE);
    let mut found = data.iter().filter(|(key, _)| is_signature(key));
    if found.clone().count() == wanted.len() && found.all(|(key, value)| wanted.get(key) == Some(value)) {
        return None;
    }
    let mut signed = map.clone();
    let data = signed.data.get_or_insert_default();
    data.retain(|key, _| !is_signature(key));
    data.extend(wanted);
    Some(signed)
}

fn is_good(token: &Token, now_micros: i64) -> bool {
    let is_named_so = token.name.strip_prefix(SECRET_NAME) == Some(token.id.as_str());
    let is_id = token.id.len() == 6 && token.id.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    is_named_so && is_id && !token.secret.is_empty() && token.signs && token.lasts(now_micros) != Lasts::Over
}

/// A JSON web signature (HS256) without its content.
fn signature(content: &str, id: &str, secret: &str) -> String {
    // The keys of the header stand in this order.
    let header = url_safe(json!({ "alg": "HS256", "kid": id }).to_string().as_bytes());
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let signature = hmac::sign(&key, format!("{header}.{}", url_safe(content.as_bytes())).as_bytes());
    format!("{header}..{}", url_safe(signature.as_ref()))
}

fn url_safe(bytes: &[u8]) -> String {
    base64::encode(bytes).trim_end_matches('=').replace('+', "-").replace('/', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(id: &str) -> Token {
        Token {
            name: format!("{SECRET_NAME}{id}"),
            id: id.to_owned(),
            secret: "1234567890abcdef".to_owned(),
            signs: true,
            ..Token::default()
        }
    }

    /// What kubeadm's library computes for the same.
    #[test]
    fn signatures_are_those_of_kubernetes() {
        let expected = "eyJhbGciOiJIUzI1NiIsImtpZCI6Impvc2h1YSJ9..VShe2taLd-YTrmWuRkcL_8QTNDHYxQIEBsAYYiIj1_8";
        assert_eq!(
            signature(
                "Hello from the other side. I must have called a thousand times.",
                "joshua",
                "my voice is my passcode"
            ),
            expected
        );
    }

    #[test]
    fn only_good_tokens_sign_and_old_signatures_go() {
        let expired = Token { expiration: "2020-01-01T00:00:00Z".to_owned(), ..token("aaaaa2") };
        let elsewhere = Token { name: "other".to_owned(), ..token("aaaaa3") };
        let quiet = Token { signs: false, ..token("aaaaa4") };
        let tokens = [token("aaaaa1"), expired, elsewhere, quiet].map(Arc::new);
        let now = 1_800_000_000_000_000;
        let data = [("kubeconfig", "x"), ("jws-kubeconfig-gone", "y"), ("other", "z")];
        let data = data.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let map = ConfigMap { data: Some(data.into()), ..ConfigMap::default() };
        let signed = sign(&map, &tokens, now).unwrap();
        let keys: Vec<_> = signed.data.iter().flatten().map(|(key, _)| key.as_str()).collect();
        assert_eq!(keys, ["jws-kubeconfig-aaaaa1", "kubeconfig", "other"]);
        assert_eq!(sign(&signed, &tokens, now), None);
        assert_eq!(sign(&ConfigMap::default(), &tokens, now), None, "there is nothing to sign");
    }
}
