//! What only some users have: Endpoints by hand, roles that are sums of others, requests for certificates, tokens by which
//! nodes could join.

use http::Method;
use rkube_machinery::decode::base64;
use rkube_machinery::time;
use serde_json::{Value, json};

use super::objects::Kind;
use super::{Made, Workload};

/// By `openssl req -new -subj /O=dev/CN=jane`.
const REQUEST: &str = include_str!("request.pem");
/// What nodes that join ask for, to be signed with their tokens.
const INFO: &str = "/api/v1/namespaces/kube-public/configmaps";
/// So long tokens last at most, in seconds.
const TOKEN_SECONDS: u64 = 3600;

/// One for a certificate of a client.
pub(super) fn request(name: &str) -> Value {
    json!({
        "metadata": { "name": name },
        "spec": {
            "signerName": "kubernetes.io/kube-apiserver-client", "usages": ["client auth"],
            "request": base64::encode(REQUEST.as_bytes()), "expirationSeconds": 3600,
        },
    })
}

impl Workload {
    /// Nodes could join.
    pub(super) async fn inform(&self) {
        let data = json!({ "kubeconfig": "apiVersion: v1\nkind: Config\n" });
        self.send(Method::POST, INFO, &json!({ "metadata": { "name": "cluster-info" }, "data": data })).await;
    }

    /// One of a few verbs of pods, or the sum of all that have a label.
    pub(super) fn role(&self, name: &str) -> Value {
        let label = json!({ "to": self.pick(&["a", "b"]) });
        if self.below(2) == 0 {
            let selectors = json!([{ "matchLabels": label }]);
            return json!({ "metadata": { "name": name }, "aggregationRule": { "clusterRoleSelectors": selectors } });
        }
        json!({ "metadata": { "name": name, "labels": label }, "rules": [self.rule()] })
    }

    fn rule(&self) -> Value {
        json!({ "apiGroups": [""], "resources": ["pods"], "verbs": [self.pick(&["get", "list", "watch"])] })
    }

    pub(super) fn token(&self, name: &str) -> Value {
        let id = name.rsplit('-').next().unwrap_or_default();
        let mut data = json!({ "token-id": id, "token-secret": "0123456789abcdef", "usage-bootstrap-signing": "true" });
        if self.below(4) > 0 {
            data["expiration"] = json!(self.expiration(self.below(TOKEN_SECONDS)));
        }
        json!({ "metadata": { "name": name }, "type": "bootstrap.kubernetes.io/token", "stringData": data })
    }

    /// In so many seconds.
    fn expiration(&self, seconds: u64) -> String {
        time::format_seconds(self.clock.now_seconds().saturating_add_unsigned(seconds))
    }

    /// So that nothing is left to happen when it does.
    pub(super) async fn expire(&self, made: &Made) {
        let secret = self.send(Method::GET, &made.path(), &Value::Null).await.unwrap_or_default();
        if secret["data"]["expiration"].is_string() {
            self.patch(&made.path(), &json!({ "stringData": { "expiration": self.expiration(30) } })).await;
        }
    }

    /// Where the Service is.
    pub(super) async fn write_endpoints(&self, made: &Made) {
        let collection = format!("/api/v1/namespaces/{}/endpoints", made.namespace);
        let addresses = |least: u64| -> Vec<Value> {
            (0..self.below(3) + least).map(|_| json!({ "ip": format!("192.0.2.{}", self.below(250) + 1) })).collect()
        };
        let ports = json!([{ "name": "p", "port": self.below(2) + 8080 }]);
        let subsets = match self.below(5) {
            0 => json!([]),
            1 => json!([{ "addresses": addresses(1), "notReadyAddresses": addresses(1), "ports": ports }]),
            _ => json!([{ "addresses": addresses(1), "ports": ports }]),
        };
        let endpoints = json!({ "metadata": { "name": made.name }, "subsets": subsets });
        if self.send(Method::POST, &collection, &endpoints).await.is_none() {
            self.patch(&format!("{collection}/{}", made.name), &json!({ "subsets": subsets })).await;
        }
    }

    /// What else is said of it than when it was made.
    pub(super) async fn adjust_other(&self, made: &Made) {
        let path = made.path();
        match made.kind {
            Kind::Mirrored if self.below(4) == 0 => {
                let endpoints = format!("/api/v1/namespaces/{}/endpoints/{}", made.namespace, made.name);
                self.send(Method::DELETE, &endpoints, &json!({})).await;
            }
            Kind::Mirrored => self.write_endpoints(made).await,
            Kind::Role => self.change_role(&path).await,
            Kind::Request => {
                let answer = if self.below(3) == 0 { "Denied" } else { "Approved" };
                let condition = json!({ "type": answer, "status": "True", "reason": "Asked", "message": "by a user" });
                self.patch(&format!("{path}/approval"), &json!({ "status": { "conditions": [condition] } })).await;
            }
            Kind::Token => {
                let expiration = self.expiration(self.below(TOKEN_SECONDS));
                self.patch(&path, &json!({ "stringData": { "expiration": expiration } })).await;
            }
            _ => self.patch(&path, &json!({ "spec": { "replicas": self.below(5) } })).await,
        }
    }

    /// Its rules are others, or it is part of another sum, or of none any more.
    async fn change_role(&self, path: &str) {
        let role = self.send(Method::GET, path, &Value::Null).await.unwrap_or_default();
        // What somebody else says are the rules of an empty sum stays so, in Kubernetes too: the controller applies none.
        if self.below(2) == 0 && role["aggregationRule"].is_null() {
            return self.patch(path, &json!({ "rules": [self.rule()] })).await;
        }
        let label = self.pick(&["a", "b", "none"]);
        self.patch(path, &json!({ "metadata": { "labels": { "to": label } } })).await;
    }
}
