//! By which registries know a pod: the Secrets that it names.

use std::sync::Arc;

use base64::Engine as _;
use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use rkube_machinery::{Value, json};
use rkube_operator::kube::client::Body;
use rkube_runtime::api::Credentials;

use super::kubelet::Kubelet;

/// So many Secrets of a pod are looked at.
const SECRETS_MAX: usize = 64;

/// In the order in which they are tried; none at all where nothing fits.
pub async fn of_pod(kubelet: &Arc<Kubelet>, pod: &Value, image: &str) -> Vec<Option<Credentials>> {
    let namespace = pod.get("metadata").str("namespace");
    let mut found = Vec::new();
    for reference in pod.get("spec").list("imagePullSecrets").iter().take(SECRETS_MAX) {
        // One that is missing may not be needed: upstream says so in an event.
        match secret(kubelet, namespace, reference.str("name")).await {
            Some(secret) => found.extend(in_secret(&secret, image)),
            None => kubelet.tell(
                pod,
                "",
                true,
                "FailedToRetrieveImagePullSecret",
                format!(
                    "Unable to retrieve some image pull secrets ({}); attempting to pull the image may not succeed.",
                    reference.str("name")
                ),
            ),
        }
    }
    if found.is_empty() { vec![None] } else { found.into_iter().map(Some).collect() }
}

async fn secret(kubelet: &Arc<Kubelet>, namespace: &str, name: &str) -> Option<Value> {
    let request = Request::get(format!("/api/v1/namespaces/{namespace}/secrets/{name}")).body(Body::empty()).ok()?;
    let answer = kubelet.config.client.send(request).await.ok()?;
    if answer.status() != StatusCode::OK {
        return None;
    }
    json::parse(&answer.into_body().collect().await.ok()?.to_bytes()).ok()
}

/// What a Secret of either type has for the registry of this image, the most exact first.
fn in_secret(secret: &Value, image: &str) -> Vec<Credentials> {
    let data = secret.get("data");
    let decoded = |field: &str| {
        let text = data.as_map().get(field).map(Value::as_str)?;
        json::parse(&decode(text)?).ok()
    };
    let entries = match secret.str("type") {
        "kubernetes.io/dockerconfigjson" => decoded(".dockerconfigjson").map(|config| config.get("auths").clone()),
        "kubernetes.io/dockercfg" => decoded(".dockercfg"),
        _ => None,
    };
    let Some(entries) = entries else { return Vec::new() };
    let mut fitting: Vec<(usize, Credentials)> = entries
        .as_map()
        .iter()
        .filter_map(|(registry, entry)| Some((fit(registry, image)?, credentials(entry))))
        .collect();
    fitting.sort_by_key(|(length, _)| std::cmp::Reverse(*length));
    fitting.into_iter().map(|(_, credentials)| credentials).collect()
}

fn credentials(entry: &Value) -> Credentials {
    let pair = decode(entry.str("auth")).and_then(|bytes| String::from_utf8(bytes).ok());
    let (user, password) = pair.as_deref().and_then(|pair| pair.split_once(':')).unwrap_or_default();
    let or = |given: &str, other: &str| if given.is_empty() { other.to_owned() } else { given.to_owned() };
    Credentials {
        username: or(entry.str("username"), user),
        password: or(entry.str("password"), password),
        registry_token: entry.str("registrytoken").to_owned(),
        identity_token: entry.str("identitytoken").to_owned(),
    }
}

/// How exactly a registry, with or without a path, fits an image; None: not at all.
fn fit(registry: &str, image: &str) -> Option<usize> {
    let registry = registry.trim_start_matches("https://").trim_start_matches("http://").trim_end_matches('/');
    let registry = registry.trim_end_matches("/v1").trim_end_matches("/v2");
    let (host, path) = registry.split_once('/').unwrap_or((registry, ""));
    let has_host = image.split_once('/').is_some_and(|(first, _)| first.contains(['.', ':']) || first == "localhost");
    let (image_host, image_path) = match image.split_once('/') {
        Some((host, path)) if has_host => (host, path),
        _ => ("docker.io", image),
    };
    let hub = |host: &str| matches!(host, "docker.io" | "index.docker.io" | "registry-1.docker.io");
    let same_host = host == image_host || hub(host) && hub(image_host) || fits_pattern(host, image_host);
    (same_host && image_path.starts_with(path)).then_some(registry.len())
}

/// `*.example.com`: each star stands for one part of the name.
fn fits_pattern(pattern: &str, host: &str) -> bool {
    let (pattern, host): (Vec<&str>, Vec<&str>) = (pattern.split('.').collect(), host.split('.').collect());
    pattern.contains(&"*")
        && pattern.len() == host.len()
        && pattern.iter().zip(&host).all(|(part, name)| *part == "*" || part == name)
}

fn decode(text: &str) -> Option<Vec<u8>> {
    base64::engine::general_purpose::STANDARD.decode(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registries_fit_images() {
        for (registry, image, fits) in [
            ("https://index.docker.io/v1/", "busybox", true),
            ("https://index.docker.io/v1/", "library/busybox:1", true),
            ("registry.example.com", "registry.example.com/a/b", true),
            ("registry.example.com:5000", "registry.example.com/a/b", false),
            ("registry.example.com/a", "registry.example.com/a/b", true),
            ("registry.example.com/c", "registry.example.com/a/b", false),
            ("*.example.com", "registry.example.com/a/b", true),
            ("*.example.com", "a.b.example.com/x", false),
        ] {
            assert_eq!(fit(registry, image).is_some(), fits, "{registry} {image}");
        }
    }

    #[test]
    fn secrets_have_credentials() {
        // {"auths":{"r.example.com":{"auth":"dTpw"}}}
        let data = "eyJhdXRocyI6eyJyLmV4YW1wbGUuY29tIjp7ImF1dGgiOiJkVHB3In19fQ==";
        let text = format!(r#"{{"type":"kubernetes.io/dockerconfigjson","data":{{".dockerconfigjson":"{data}"}}}}"#);
        let secret = json::parse(text.as_bytes()).unwrap();
        let found = in_secret(&secret, "r.example.com/x");
        assert_eq!((found[0].username.as_str(), found[0].password.as_str()), ("u", "p"));
        assert!(in_secret(&secret, "other.example.com/x").is_empty());
    }
}
