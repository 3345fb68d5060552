//! What others need to verify tokens of this cluster by themselves: OpenID's discovery document and key set.

use rkube_machinery::{Value, json, object};

use super::Signer;

pub const CONFIGURATION_PATH: &str = "/.well-known/openid-configuration";
pub const KEYS_PATH: &str = "/openid/v1/jwks";

/// Both documents, as they are sent.
pub struct OpenId {
    pub configuration: String,
    pub keys: String,
}

impl OpenId {
    /// `keys_url`: where the keys are, if not at this server, which is known as `host`. `Err`: why there are no documents.
    pub fn new(signer: &Signer, keys_url: &str, host: &str) -> Result<OpenId, String> {
        let issuer = signer.issuer();
        if !issuer.starts_with("https://") {
            return Err(format!("issuer URL must use https scheme, got: {issuer}"));
        }
        for (mark, words) in [('?', "a query"), ('#', "a fragment")] {
            if issuer.contains(mark) {
                return Err(format!("issuer URL may not include {words}, got: {issuer}"));
            }
        }
        let keys_url = match keys_url {
            "" => format!("https://{host}{KEYS_PATH}"),
            url if url.starts_with("https://") => url.to_owned(),
            url => return Err(format!("jwksURI requires https scheme, parsed as: {url}")),
        };
        let mut algorithms: Vec<&str> = signer.verifying.iter().map(|key| key.algorithm()).collect();
        algorithms.sort_unstable();
        algorithms.dedup();
        let algorithms: Vec<Value> = algorithms.into_iter().map(Value::from).collect();
        let configuration = object! {
            "issuer": issuer,
            "jwks_uri": keys_url,
            "response_types_supported": vec![Value::from("id_token")],
            "subject_types_supported": vec![Value::from("public")],
            "id_token_signing_alg_values_supported": algorithms,
        };
        let keys: Vec<Value> = signer.verifying.iter().map(|key| key.web_key.clone()).collect();
        let keys = object! { "keys": keys };
        Ok(OpenId { configuration: json::to_string(&configuration), keys: json::to_string(&keys) })
    }
}
