//! MutatingWebhookConfiguration: webhooks that may change what is written.

use super::Registered;
use super::webhook::WebhookRules;
use super::{CATEGORIES, GROUP, count};
use crate::columns::{AGE, NAME};
use crate::kind::{Column, Row, Scope};

pub static KIND: Row = Row {
    group: GROUP,
    kind: "MutatingWebhookConfiguration",
    resource: "mutatingwebhookconfigurations",
    singular: "mutatingwebhookconfiguration",
    categories: CATEGORIES,
    scope: Scope::Cluster,
    type_name: "io.k8s.api.admissionregistration.v1.MutatingWebhookConfiguration",
    storage_prefix: "mutatingwebhookconfigurations",
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
    rules: &Registered(WebhookRules { mutating: true }),
    ..Row::DEFAULTS
};
