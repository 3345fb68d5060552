//! ValidatingWebhookConfiguration: webhooks that accept or reject what is written.

use super::Registered;
use super::webhook::WebhookRules;
use super::{CATEGORIES, GROUP, count};
use crate::columns::{AGE, NAME};
use crate::kind::{Column, Row, Scope};

pub static KIND: Row = Row {
    group: GROUP,
    kind: "ValidatingWebhookConfiguration",
    resource: "validatingwebhookconfigurations",
    singular: "validatingwebhookconfiguration",
    categories: CATEGORIES,
    scope: Scope::Cluster,
    type_name: "io.k8s.api.admissionregistration.v1.ValidatingWebhookConfiguration",
    storage_prefix: "validatingwebhookconfigurations",
    columns: &[
        NAME,
        Column {
            kind: "integer",
            ..Column::text(
                "Webhooks",
                "Webhooks indicates the number of webhooks registered in this configuration",
                |configuration, _| count(configuration.list("webhooks")),
            )
        },
        AGE,
    ],
    strategy: super::STRATEGY,
    rules: &Registered(WebhookRules { mutating: false }),
    ..Row::DEFAULTS
};
