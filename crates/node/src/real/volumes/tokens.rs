//! Tokens of service accounts that pods show, asked for under the node's identity and renewed before they end.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use rkube_machinery::host::{Clock, Entropy};
use rkube_machinery::{Text, Value, object, time};

use super::objects::{Missing, ObjectReader};

/// No token is used for longer.
const AGE_MAX_SECONDS: i64 = 24 * 60 * 60;
/// Renewals are spread by so much.
const JITTER_MAX_SECONDS: u64 = 10;

pub struct Tokens {
    objects: ObjectReader,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    held: Mutex<HashMap<Key, Token>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    pod_uid: Text,
    account: Text,
    audience: Text,
    seconds: i64,
}

#[derive(Clone)]
struct Token {
    text: Text,
    expires_seconds: i64,
    lives_seconds: i64,
}

impl Tokens {
    pub fn new(objects: ObjectReader, clock: Arc<dyn Clock>, entropy: Arc<dyn Entropy>) -> Tokens {
        Tokens { objects, clock, entropy, held: Mutex::default() }
    }

    /// The token of a pod for this projection.
    pub async fn get(&self, pod: &Value, projection: &Value) -> Result<Text, String> {
        let key = Key {
            pod_uid: pod.get("metadata").str("uid").into(),
            account: pod.get("spec").str("serviceAccountName").into(),
            audience: projection.str("audience").into(),
            seconds: projection.get("expirationSeconds").as_int().unwrap_or(3600),
        };
        let held = self.held.lock().get(&key).cloned();
        let now = self.clock.now_seconds();
        let jitter = (self.entropy.next_u64() % JITTER_MAX_SECONDS) as i64;
        if let Some(token) = held.as_ref().filter(|token| !token.is_due(now, jitter)) {
            return Ok(token.text.clone());
        }
        match self.request(pod, &key).await {
            Ok(token) => {
                let text = token.text.clone();
                self.held.lock().insert(key, token);
                Ok(text)
            }
            Err(why) => match held {
                None => Err(format!("failed to fetch token: {why}")),
                Some(token) if token.expires_seconds < now => {
                    Err(format!("token {} expired and refresh failed: {why}", key.account))
                }
                Some(token) => {
                    tracing::warn!(account = %key.account, why, "a token cannot be renewed; the old one still counts");
                    Ok(token.text)
                }
            },
        }
    }

    /// Forgets those of a pod that is gone.
    pub fn forget(&self, pod_uid: &str) {
        self.held.lock().retain(|key, _| key.pod_uid != pod_uid);
    }

    async fn request(&self, pod: &Value, key: &Key) -> Result<Token, String> {
        let metadata = pod.get("metadata");
        let audiences = Some(key.audience.clone()).filter(|audience| !audience.is_empty());
        let request = object! {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": object! {
                "audiences": audiences.into_iter().map(Value::from).collect::<Vec<_>>(),
                "expirationSeconds": key.seconds,
                "boundObjectRef": object! {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "name": metadata.str("name"),
                    "uid": metadata.str("uid"),
                },
            },
        };
        let path = format!("/api/v1/namespaces/{}/serviceaccounts/{}/token", metadata.str("namespace"), key.account);
        let answer = self.objects.create(&path, &request).await.map_err(|missing| match missing {
            Missing::NotFound => format!("serviceaccounts {:?} not found", key.account.as_str()),
            Missing::Refused(why) => why,
        })?;
        let status = answer.get("status");
        let (expires_seconds, _) = time::parse(status.str("expirationTimestamp"))?;
        let lives_seconds = answer.get("spec").get("expirationSeconds").as_int().unwrap_or(key.seconds);
        Ok(Token { text: status.str("token").into(), expires_seconds, lives_seconds })
    }
}

impl Token {
    /// After four fifths of its life, and after a day.
    fn is_due(&self, now_seconds: i64, jitter_seconds: i64) -> bool {
        let issued = self.expires_seconds - self.lives_seconds;
        now_seconds > issued + AGE_MAX_SECONDS - jitter_seconds
            || now_seconds > self.expires_seconds - self.lives_seconds * 20 / 100 - jitter_seconds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_renewed_after_four_fifths_of_their_life_or_a_day() {
        let hour = Token { text: "t".into(), expires_seconds: 3600, lives_seconds: 3600 };
        assert!(!hour.is_due(2880, 0));
        assert!(hour.is_due(2881, 0));
        assert!(hour.is_due(2875, 10));
        let year = Token { text: "t".into(), expires_seconds: 31_536_000, lives_seconds: 31_536_000 };
        assert!(!year.is_due(AGE_MAX_SECONDS, 0));
        assert!(year.is_due(AGE_MAX_SECONDS + 1, 0));
    }
}
