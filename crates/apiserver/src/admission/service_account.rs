//! ServiceAccount: every pod runs as a service account that is there, and gets its token.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use rkube_machinery::host::Entropy;
use rkube_machinery::{Status, Value, names, object};

use super::{Attributes, Operation, Plugin};
use crate::cache;
use crate::registry::generate_name;
use crate::resources::Resources;

const DEFAULT: &str = "default";
const MIRROR: &str = "kubernetes.io/config.mirror";
const MOUNT_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const VOLUME_PREFIX: &str = "kube-api-access-";
const ENFORCE_MOUNTABLE: &str = "kubernetes.io/enforce-mountable-secrets";
const TOKEN_SECONDS: i64 = 3607;
/// The default account is made by a controller right after its namespace: wait a little for it.
const DEFAULT_ATTEMPTS: usize = 10;
const ATTEMPT_DELAY: Duration = Duration::from_millis(100);

pub struct ServiceAccount {
    accounts: Option<Arc<cache::Resource>>,
    entropy: Arc<dyn Entropy>,
}

impl ServiceAccount {
    pub fn new(resources: &Resources, entropy: &Arc<dyn Entropy>) -> Self {
        let accounts = resources.find("", "v1", "serviceaccounts").and_then(|served| served.cache.clone());
        ServiceAccount { accounts, entropy: entropy.clone() }
    }

    async fn account(&self, attributes: &Attributes, pod: &Value, name: &str) -> Result<Arc<cache::Object>, Status> {
        let attempts = if name == DEFAULT { DEFAULT_ATTEMPTS } else { 1 };
        for attempt in 0..attempts {
            if attempt > 0 {
                tokio::time::sleep(ATTEMPT_DELAY).await;
            }
            let found =
                self.accounts.as_ref().and_then(|accounts| accounts.get(&accounts.key(&attributes.namespace, name)));
            if let Some(entry) = found {
                return Ok(entry.object);
            }
        }
        let messages = names::path_segment_name(name);
        let detail = if messages.is_empty() {
            format!("serviceaccount \"{name}\" not found")
        } else {
            format!("invalid resource name \"{name}\": [{}]", messages.join(" "))
        };
        let why = format!("error looking up service account {}/{name}: {detail}", attributes.namespace);
        Err(attributes.forbidden(pod, why))
    }

    async fn admit(&self, attributes: &Attributes, pod: &mut Value) -> Result<(), Status> {
        if pod.get("metadata").map("annotations").contains(MIRROR) {
            return check_mirror(attributes, pod);
        }
        let spec = pod.object_mut("spec");
        if spec.str("serviceAccountName").is_empty() {
            spec.set("serviceAccountName", DEFAULT);
        }
        // The old name of the field says the same.
        let name = spec.str("serviceAccountName").to_owned();
        spec.set("serviceAccount", name.as_str());
        let account = self.account(attributes, pod, &name).await?;
        let account = account.tree();
        let spec = pod.object_mut("spec");
        let automount = spec.get("automountServiceAccountToken").as_bool();
        if automount.or(account.get("automountServiceAccountToken").as_bool()).unwrap_or(true) {
            self.mount_token(spec);
        }
        if spec.list("imagePullSecrets").is_empty() && !account.list("imagePullSecrets").is_empty() {
            let secrets: Vec<Value> =
                account.list("imagePullSecrets").iter().map(|secret| object! { "name": secret.str("name") }).collect();
            spec.set("imagePullSecrets", secrets);
        }
        check_secrets(attributes, pod, account)
    }

    fn mount_token(&self, spec: &mut Value) {
        let existing = spec
            .list("volumes")
            .iter()
            .map(|volume| volume.str("name"))
            .find(|name| name.starts_with(VOLUME_PREFIX))
            .map(str::to_owned);
        let name = existing.clone().unwrap_or_else(|| generate_name(VOLUME_PREFIX, &*self.entropy));
        let mut needed = false;
        for list in ["initContainers", "containers"] {
            for container in spec.list_mut(list) {
                if !container.list("volumeMounts").iter().any(|mount| mount.str("mountPath") == MOUNT_PATH) {
                    let mount = object! { "name": name.as_str(), "readOnly": true, "mountPath": MOUNT_PATH };
                    container.array_mut("volumeMounts").push(mount);
                    needed = true;
                }
            }
        }
        if needed && existing.is_none() {
            spec.array_mut("volumes").push(object! { "name": name.as_str(), "projected": token_volume() });
        }
    }
}

fn token_volume() -> Value {
    let items = vec![object! { "key": "ca.crt", "path": "ca.crt" }];
    let field = object! { "apiVersion": "v1", "fieldPath": "metadata.namespace" };
    let files = vec![object! { "path": "namespace", "fieldRef": field }];
    object! {
        "sources": vec![
            object! { "serviceAccountToken": object! { "expirationSeconds": TOKEN_SECONDS, "path": "token" } },
            object! { "configMap": object! { "name": "kube-root-ca.crt", "items": items } },
            object! { "downwardAPI": object! { "items": files } },
        ],
        "defaultMode": 420,
    }
}

/// A pod that a node made by itself refers to nothing in the cluster.
fn check_mirror(attributes: &Attributes, pod: &Value) -> Result<(), Status> {
    let spec = pod.get("spec");
    if !spec.str("serviceAccountName").is_empty() {
        return Err(attributes.forbidden(pod, "a mirror pod may not reference service accounts"));
    }
    let volumes = spec.list("volumes");
    if volumes.iter().any(|volume| volume.has("secret")) || !secret_names(spec).is_empty() {
        return Err(attributes.forbidden(pod, "a mirror pod may not reference secrets"));
    }
    let projected = volumes.iter().flat_map(|volume| volume.get("projected").list("sources"));
    if projected.into_iter().any(|source| source.has("serviceAccountToken")) {
        return Err(attributes.forbidden(pod, "a mirror pod may not use ServiceAccountToken volume projections"));
    }
    Ok(())
}

/// Secrets that containers name in their environment.
fn secret_names(spec: &Value) -> Vec<String> {
    let containers = ["initContainers", "containers", "ephemeralContainers"].iter().flat_map(|list| spec.list(list));
    let mut names = Vec::new();
    for container in containers {
        let from_env = container.list("env").iter().map(|env| env.at(&["valueFrom", "secretKeyRef"]));
        let from_all = container.list("envFrom").iter().map(|env| env.get("secretRef"));
        names.extend(
            from_env
                .chain(from_all)
                .map(|reference| reference.str("name"))
                .filter(|name| !name.is_empty())
                .map(str::to_owned),
        );
    }
    names
}

/// Where an account says so, its pods may use only the secrets that it lists.
fn check_secrets(attributes: &Attributes, pod: &Value, account: &Value) -> Result<(), Status> {
    if !matches!(
        account.get("metadata").map("annotations").str(ENFORCE_MOUNTABLE),
        "true" | "True" | "TRUE" | "t" | "T" | "1"
    ) {
        return Ok(());
    }
    let spec = pod.get("spec");
    let account_name = account.get("metadata").str("name");
    let listed = |name: &str| account.list("secrets").iter().any(|secret| secret.str("name") == name);
    for name in
        spec.list("volumes").iter().map(|volume| volume.get("secret").str("secretName")).filter(|name| !name.is_empty())
    {
        if !listed(name) {
            let why = format!(
                "volume with secret.secretName=\"{name}\" is not allowed because service account {account_name} does not reference that secret"
            );
            return Err(attributes.forbidden(pod, why));
        }
    }
    for (list, word) in [("initContainers", "init container"), ("containers", "container")] {
        for container in spec.list(list) {
            check_environment(attributes, pod, container, word, account_name, &listed)?;
        }
    }
    let pull = |name: &str| account.list("imagePullSecrets").iter().any(|secret| secret.str("name") == name);
    for (index, secret) in spec.list("imagePullSecrets").iter().enumerate() {
        if !pull(secret.str("name")) {
            let why = format!(
                "imagePullSecrets[{index}].name=\"{}\" is not allowed because service account {account_name} does not reference that imagePullSecret",
                secret.str("name")
            );
            return Err(attributes.forbidden(pod, why));
        }
    }
    Ok(())
}

fn check_environment(
    attributes: &Attributes,
    pod: &Value,
    container: &Value,
    word: &str,
    account: &str,
    listed: &dyn Fn(&str) -> bool,
) -> Result<(), Status> {
    let name = container.str("name");
    for env in container.list("env") {
        let secret = env.at(&["valueFrom", "secretKeyRef"]);
        if !secret.is_null() && !listed(secret.str("name")) {
            let why = format!(
                "{word} {name} with envVar {} referencing secret.secretName=\"{}\" is not allowed because service account {account} does not reference that secret",
                env.str("name"),
                secret.str("name")
            );
            return Err(attributes.forbidden(pod, why));
        }
    }
    for env in container.list("envFrom") {
        let secret = env.get("secretRef");
        if !secret.is_null() && !listed(secret.str("name")) {
            let why = format!(
                "{word} {name} with envFrom referencing secret.secretName=\"{}\" is not allowed because service account {account} does not reference that secret",
                secret.str("name")
            );
            return Err(attributes.forbidden(pod, why));
        }
    }
    Ok(())
}

impl Plugin for ServiceAccount {
    fn handles(&self, attributes: &Attributes) -> bool {
        attributes.operation == Operation::Create && attributes.is("", "pods")
    }

    fn mutate<'a>(
        &'a self,
        attributes: &'a mut Attributes,
        object: &'a mut Value,
        _old: Option<&'a Value>,
    ) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(self.admit(attributes, object))
    }
}
