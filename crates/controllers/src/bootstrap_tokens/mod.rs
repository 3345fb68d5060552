//! Bootstrap tokens, by which nodes join: Secrets of type `bootstrap.kubernetes.io/token` in `kube-system`. [`sign`] keeps
//! signatures of the ConfigMap `kube-public/cluster-info` in it, one for each token that is for that, and [`clean`]
//! deletes tokens that are expired. Both are off unless they are asked for.

mod clean;
mod sign;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Secret;
use rkube_machinery::decode::base64;
use rkube_machinery::{Text, time};
use rkube_operator::kube::core::ApiResource;
use rkube_operator::{Caches, Informer, Item, Selection};
use serde::Deserialize;

pub use clean::run as clean;
pub use sign::run as sign;

const NAMESPACE: &str = "kube-system";
const TYPE: &str = "bootstrap.kubernetes.io/token";

/// A token as its Secret has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Token {
    /// Of the Secret.
    name: String,
    uid: String,
    id: String,
    secret: String,
    /// As text, since what cannot be read is over.
    expiration: String,
    signs: bool,
}

/// Until when something lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lasts {
    Forever,
    /// So many microseconds.
    For(u64),
    Over,
}

impl Token {
    fn lasts(&self, now_micros: i64) -> Lasts {
        if self.expiration.is_empty() {
            return Lasts::Forever;
        }
        let Ok((seconds, nanoseconds)) = time::parse(&self.expiration) else { return Lasts::Over };
        let ends = seconds.saturating_mul(1_000_000).saturating_add(i64::from(nanoseconds / 1000));
        match u64::try_from(ends.saturating_sub(now_micros)) {
            Ok(left) if left > 0 => Lasts::For(left),
            _ => Lasts::Over,
        }
    }
}

fn tokens(caches: &Caches) -> Informer<Token> {
    let selection = Selection { namespace: Some(Text::from(NAMESPACE)), ..Selection::default() };
    caches.view(&ApiResource::erase::<Secret>(&()), selection, read)
}

#[derive(Deserialize)]
struct RawSecret {
    #[serde(rename = "type")]
    kind: Option<String>,
    data: Option<BTreeMap<String, String>>,
}

/// Most Secrets hold no tokens, and need not be read.
fn read(item: &Item) -> Option<Token> {
    if !std::str::from_utf8(&item.json).ok()?.contains(TYPE) {
        return None;
    }
    let raw: RawSecret = item.parse().ok().filter(|raw: &RawSecret| raw.kind.as_deref() == Some(TYPE))?;
    let data = raw.data.unwrap_or_default();
    let text = |key: &str| {
        let bytes = data.get(key).and_then(|text| base64::decode(text.as_bytes()).ok()).unwrap_or_default();
        String::from_utf8(bytes).unwrap_or_default()
    };
    Some(Token {
        name: item.name.to_string(),
        uid: item.uid.to_string(),
        id: text("token-id"),
        secret: text("token-secret"),
        expiration: text("expiration"),
        signs: text("usage-bootstrap-signing") == "true",
    })
}
