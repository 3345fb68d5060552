//! ServiceAccount: who a pod is to the API.

use crate::strategy::{Repeat, Repeats, Strategy};
use rkube_machinery::{Value, object};

use crate::columns::{AGE, NAME};
use crate::kind::{Part, Row, Rules, Subresource};

pub static KIND: Row = Row {
    kind: "ServiceAccount",
    resource: "serviceaccounts",
    singular: "serviceaccount",
    short_names: &["sa"],
    type_name: "io.k8s.api.core.v1.ServiceAccount",
    storage_prefix: "serviceaccounts",
    subresources: &[Subresource {
        name: "token",
        verbs: &["create"],
        kind: Some("TokenRequest"),
        group_version: Some(("authentication.k8s.io", "v1")),
    }],
    columns: &[NAME, AGE],
    strategy: Strategy {
        repeats_meta: Repeats::all(Repeat::Whole),
        returns_deleted_object: true,
        ..Strategy::DEFAULTS
    },
    rules: &ServiceAccountRules,
    ..Row::DEFAULTS
};

const ENFORCE_MOUNTABLE_SECRETS: &str = "kubernetes.io/enforce-mountable-secrets";

struct ServiceAccountRules;

impl Rules for ServiceAccountRules {
    fn prepare_create(&self, object: &mut Value) {
        keep_names_of_secrets(object);
    }

    fn prepare_update(&self, _part: Part, object: &mut Value, _old: &Value) {
        keep_names_of_secrets(object);
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        let has = |object: &Value| object.at(&["metadata", "annotations"]).has(ENFORCE_MOUNTABLE_SECRETS);
        if old.is_some_and(has) || !has(object) {
            return Vec::new();
        }
        vec![format!(
            "metadata.annotations[{ENFORCE_MOUNTABLE_SECRETS}]: deprecated in v1.32+; prefer separate namespaces to \
             isolate access to mounted secrets"
        )]
    }
}

/// A reference to a secret says its name and nothing else: it lies in the same namespace.
fn keep_names_of_secrets(object: &mut Value) {
    for secret in object.list_mut("secrets") {
        let name = match secret.remove("name") {
            Some(name) if !name.is_empty() => object! { "name": name },
            _ => Value::object(),
        };
        *secret = name;
    }
}
