//! ServiceAccount: every pod runs as a service account that is there, and gets its token.

// tidy: types Pod ServiceAccount Secret

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use rkube_catalog::Object;
use rkube_machinery::host::Entropy;
use rkube_machinery::names::generated::generate_name;
use rkube_machinery::{Status, Text, Value, names, object};

use crate::{Attributes, Objects, Plugin, Step};

const DEFAULT: &str = "default";
const MIRROR: &str = "kubernetes.io/config.mirror";
const MOUNT_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const VOLUME_PREFIX: &str = "kube-api-access-";
const ENFORCE_MOUNTABLE: &str = "kubernetes.io/enforce-mountable-secrets";
const TOKEN_SECONDS: i64 = 3607;
/// The default account is made by a controller right after its namespace: wait a little for it.
const RETRIES_MAX: usize = 9;
const RETRY_DELAY: Duration = Duration::from_millis(100);

pub struct ServiceAccount {
    pub accounts: Objects,
    pub entropy: Arc<dyn Entropy>,
}

impl Plugin for ServiceAccount {
    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        attributes.is_create() && attributes.is("", "pods")
    }

    fn mutate<'a>(&'a self, attributes: &'a mut Attributes<'_>, pod: &'a mut Value) -> Step<'a> {
        if pod.get("metadata").map("annotations").contains(MIRROR) {
            return Step::Now(check_mirror(attributes, pod));
        }
        let spec = pod.object_mut("spec");
        if spec.str("serviceAccountName").is_empty() {
            spec.set("serviceAccountName", DEFAULT);
        }
        // The old name of the field says the same.
        let name = spec.get("serviceAccountName").clone();
        spec.set("serviceAccount", name.clone());
        match self.accounts.find(attributes.namespace, name.as_str()) {
            None if name.as_str() == DEFAULT => Step::Later(Box::pin(async move {
                let account = self.wait_for(attributes.namespace, DEFAULT).await;
                self.run_as(attributes, pod, account.as_deref())
            })),
            account => Step::Now(self.run_as(attributes, pod, account.as_deref())),
        }
    }
}

impl ServiceAccount {
    /// The account, should it come in time.
    async fn wait_for(&self, namespace: &str, name: &str) -> Option<Arc<Object>> {
        for _ in 0..RETRIES_MAX {
            tokio::time::sleep(RETRY_DELAY).await;
            if let Some(account) = self.accounts.find(namespace, name) {
                return Some(account);
            }
        }
        None
    }

    /// Gives the pod what its account gives, and refuses what the account does not have.
    fn run_as(&self, attributes: &Attributes<'_>, pod: &mut Value, account: Option<&Object>) -> Result<(), Status> {
        let Some(account) = account else {
            let why = missing(attributes.namespace, pod.get("spec").str("serviceAccountName"));
            return Err(attributes.forbidden(pod, why));
        };
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
                    let path = Text::new_static(MOUNT_PATH);
                    let mount = object! { "name": name.as_str(), "readOnly": true, "mountPath": path };
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

fn missing(namespace: &str, name: &str) -> String {
    let messages = names::path_segment_name(name);
    let detail = if messages.is_empty() {
        format!("serviceaccount \"{name}\" not found")
    } else {
        format!("invalid resource name \"{name}\": [{}]", messages.join(" "))
    };
    format!("error looking up service account {namespace}/{name}: {detail}")
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
fn check_mirror(attributes: &Attributes<'_>, pod: &Value) -> Result<(), Status> {
    let spec = pod.get("spec");
    if !spec.str("serviceAccountName").is_empty() {
        return Err(attributes.forbidden(pod, "a mirror pod may not reference service accounts"));
    }
    let volumes = spec.list("volumes");
    if volumes.iter().any(|volume| volume.has("secret")) || names_secret(spec) {
        return Err(attributes.forbidden(pod, "a mirror pod may not reference secrets"));
    }
    let projected = volumes.iter().flat_map(|volume| volume.get("projected").list("sources"));
    if projected.into_iter().any(|source| source.has("serviceAccountToken")) {
        return Err(attributes.forbidden(pod, "a mirror pod may not use ServiceAccountToken volume projections"));
    }
    Ok(())
}

/// Whether a container names a secret in its environment.
fn names_secret(spec: &Value) -> bool {
    let containers = ["initContainers", "containers", "ephemeralContainers"].iter().flat_map(|list| spec.list(list));
    let mut references = containers.flat_map(|container| {
        let from_env = container.list("env").iter().map(|env| env.at(&["valueFrom", "secretKeyRef"]));
        from_env.chain(container.list("envFrom").iter().map(|env| env.get("secretRef")))
    });
    references.any(|reference| !reference.str("name").is_empty())
}

/// Where an account says so, its pods may use only the secrets that it lists.
fn check_secrets(attributes: &Attributes<'_>, pod: &Value, account: &Value) -> Result<(), Status> {
    if !matches!(
        account.get("metadata").map("annotations").str(ENFORCE_MOUNTABLE),
        "true" | "True" | "TRUE" | "t" | "T" | "1"
    ) {
        return Ok(());
    }
    let spec = pod.get("spec");
    let account_name = account.get("metadata").str("name");
    let names = |list: &str| account.list(list).iter().map(|secret| secret.str("name")).collect::<HashSet<_>>();
    let (secrets, pull) = (names("secrets"), names("imagePullSecrets"));
    let listed = |name: &str| secrets.contains(name);
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
    for (index, secret) in spec.list("imagePullSecrets").iter().enumerate() {
        if !pull.contains(secret.str("name")) {
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
    attributes: &Attributes<'_>,
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
