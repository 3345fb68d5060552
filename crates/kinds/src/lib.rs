//! The built-in kinds as a table.
//!
//! A kind is a folder with its rules and a line in [`TABLE`]. Everything else about it (routes, discovery, OpenAPI,
//! storage, watch cache, columns) follows from its row. All functions are pure: they take objects and the time, and
//! return objects, errors and cells.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod admission_review;
mod admissionregistration;
mod apiextensions;
mod apiregistration;
mod apiserverinternal;
mod apps;
mod authentication;
mod authorization;
mod autoscaling;
mod batch;
mod certificates;
pub mod columns;
mod coordination;
mod core;
pub mod custom;
mod discovery;
mod events;
pub mod fields;
mod flowcontrol;
pub mod kind;
pub mod lifecycle;
pub mod meta;
mod networking;
mod node;
mod policy;
mod rbac;
mod resource;
pub mod scale;
mod scheduling;
mod storage;
mod storagemigration;
pub mod strategy;

pub use kind::{Column, Kind, Row, Rules, ScalePaths, Scope, SelectorForm, Subresource};
use std::sync::{Arc, LazyLock};

pub use strategy::Strategy;

pub use self::admissionregistration::cel as admission_expressions;
pub use self::apiextensions::custom_resource_definition;
pub use self::core::{pod_spec, service};

/// A row for every built-in kind that is served.
static TABLE: &[&Row] = &[
    &core::component_status::KIND,
    &core::binding::KIND,
    &core::config_map::KIND,
    &core::endpoints::KIND,
    &core::event::KIND,
    &core::limit_range::KIND,
    &core::namespace::KIND,
    &core::node::KIND,
    &core::persistent_volume::KIND,
    &core::persistent_volume_claim::KIND,
    &core::pod::KIND,
    &core::pod_template::KIND,
    &core::replication_controller::KIND,
    &core::resource_quota::KIND,
    &core::secret::KIND,
    &core::service::KIND,
    &core::service_account::KIND,
    &admissionregistration::mutating_admission_policy::KIND,
    &admissionregistration::mutating_admission_policy::BETA,
    &admissionregistration::mutating_admission_policy::ALPHA,
    &admissionregistration::mutating_admission_policy_binding::KIND,
    &admissionregistration::mutating_admission_policy_binding::BETA,
    &admissionregistration::mutating_admission_policy_binding::ALPHA,
    &admissionregistration::mutating_webhook_configuration::KIND,
    &admissionregistration::validating_admission_policy::KIND,
    &admissionregistration::validating_admission_policy_binding::KIND,
    &admissionregistration::validating_webhook_configuration::KIND,
    &apiextensions::custom_resource_definition::KIND,
    &apiregistration::api_service::KIND,
    &apps::controller_revision::KIND,
    &apps::daemon_set::KIND,
    &apps::deployment::KIND,
    &apps::replica_set::KIND,
    &apps::stateful_set::KIND,
    &authentication::self_subject_review::KIND,
    &authentication::token_review::KIND,
    &authorization::local_subject_access_review::KIND,
    &authorization::self_subject_access_review::KIND,
    &authorization::self_subject_rules_review::KIND,
    &authorization::subject_access_review::KIND,
    &autoscaling::horizontal_pod_autoscaler::V2,
    &autoscaling::horizontal_pod_autoscaler::V1,
    &batch::cron_job::KIND,
    &batch::job::KIND,
    &certificates::certificate_signing_request::KIND,
    &certificates::cluster_trust_bundle::BETA,
    &certificates::cluster_trust_bundle::ALPHA,
    &certificates::pod_certificate_request::KIND,
    &coordination::lease::KIND,
    &coordination::lease_candidate::KIND,
    &coordination::lease_candidate::ALPHA,
    &discovery::endpoint_slice::KIND,
    &events::KIND,
    &flowcontrol::flow_schema::KIND,
    &flowcontrol::priority_level_configuration::KIND,
    &apiserverinternal::storage_version::KIND,
    &networking::ingress::KIND,
    &networking::ingress_class::KIND,
    &networking::ip_address::KIND,
    &networking::ip_address::BETA,
    &networking::network_policy::KIND,
    &networking::service_cidr::KIND,
    &networking::service_cidr::BETA,
    &node::runtime_class::KIND,
    &policy::pod_disruption_budget::KIND,
    &rbac::cluster_role::KIND,
    &rbac::cluster_role_binding::KIND,
    &rbac::role::KIND,
    &rbac::role_binding::KIND,
    &resource::device_class::KIND,
    &resource::resource_claim::KIND,
    &resource::resource_claim_template::KIND,
    &resource::resource_slice::KIND,
    &resource::device_class::BETA2,
    &resource::device_taint_rule::KIND,
    &resource::resource_claim::BETA2,
    &resource::resource_claim_template::BETA2,
    &resource::resource_slice::BETA2,
    &resource::device_class::BETA1,
    &resource::resource_claim::BETA1,
    &resource::resource_claim_template::BETA1,
    &resource::resource_slice::BETA1,
    &resource::device_taint_rule::ALPHA,
    &resource::resource_pool_status_request::KIND,
    &scheduling::priority_class::KIND,
    &scheduling::pod_group::KIND,
    &scheduling::workload::KIND,
    &storage::csi_driver::KIND,
    &storage::csi_node::KIND,
    &storage::csi_storage_capacity::KIND,
    &storage::storage_class::KIND,
    &storage::volume_attachment::KIND,
    &storage::volume_attributes_class::KIND,
    &storage::volume_attributes_class::BETA,
    &storagemigration::storage_version_migration::KIND,
];

/// Every built-in kind that is served.
pub fn all() -> &'static [Arc<Kind>] {
    static ALL: LazyLock<Vec<Arc<Kind>>> = LazyLock::new(|| TABLE.iter().map(|row| Arc::new(Kind::of(row))).collect());
    &ALL
}

/// The built-in kind that is served at this group, version and plural name.
pub fn find(group: &str, version: &str, resource: &str) -> Option<&'static Arc<Kind>> {
    all().iter().find(|kind| kind.is(group, resource) && kind.version == version)
}

/// Features of kinds that are off unless they are turned on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Gates {
    /// `maxUnavailable` of StatefulSets is kept, and has a default.
    pub max_unavailable_stateful_set: bool,
}

/// Kinds as they are with these gates.
pub fn gated(mut kinds: Vec<Arc<Kind>>, gates: &Gates) -> Vec<Arc<Kind>> {
    if gates.max_unavailable_stateful_set {
        for kind in kinds.iter_mut().filter(|kind| kind.is("apps", "statefulsets")) {
            *kind = Arc::new(apps::stateful_set::with_max_unavailable());
        }
    }
    kinds
}

#[cfg(test)]
mod tests {
    use rkube_machinery::{TypeRef, Value};

    use super::*;

    #[test]
    fn max_unavailable_of_stateful_sets_is_kept_where_its_gate_is_on() {
        let kept = |gate: bool, rolling: &str| {
            let kinds = gated(all().to_vec(), &Gates { max_unavailable_stateful_set: gate });
            let kind = kinds.iter().find(|kind| kind.is("apps", "statefulsets")).unwrap();
            let text =
                format!(r#"{{"spec":{{"updateStrategy":{{"type":"RollingUpdate","rollingUpdate":{rolling}}}}}}}"#);
            let mut set = rkube_machinery::json::parse(text.as_bytes()).unwrap();
            kind.rules.default(&mut set);
            kind.rules.prepare_create(&mut set);
            set.at(&["spec", "updateStrategy", "rollingUpdate", "maxUnavailable"]).clone()
        };
        assert_eq!(kept(true, r#"{"maxUnavailable":3}"#), Value::from(3));
        assert_eq!(kept(true, "{}"), Value::from(1), "this is the default");
        assert!(kept(false, r#"{"maxUnavailable":3}"#).is_null());
        assert!(kept(false, "{}").is_null());
    }

    #[test]
    fn rows_are_whole() {
        for (index, row) in TABLE.iter().enumerate() {
            let schema =
                TypeRef::find(row.type_name).unwrap_or_else(|| panic!("{} is not in the schema table", row.type_name));
            assert_eq!(schema.short_name(), row.kind);
            assert!(schema.type_meta, "{} is no object of its own", row.kind);
            assert!(!row.resource.is_empty() && !row.singular.is_empty() && !row.verbs.is_empty());
            assert!(row.verbs.is_sorted(), "{}: verbs stand in order", row.kind);
            let same = TABLE.iter().filter(|other| {
                other.group == row.group && other.version == row.version && other.resource == row.resource
            });
            assert_eq!(same.count(), 1, "{} is there twice", row.resource);
            let mut distinct: Vec<_> = row.columns.iter().map(|column| column.name).collect();
            distinct.sort_unstable();
            distinct.dedup();
            assert_eq!(distinct.len(), row.columns.len(), "{}: columns have names of their own", row.kind);
            for column in row.columns {
                assert!(["string", "integer", "boolean", "date", "number"].contains(&column.kind));
                let cell = (column.cell)(&Value::object(), 0);
                assert!(!matches!(cell, Value::Array(_) | Value::Object(_)), "{}: a cell is no list", column.name);
            }
            assert!(index == 0 || TABLE[index - 1].group <= row.group, "groups stand together");
        }
        for kind in all() {
            assert!(kind.storage_prefix.is_empty() || kind.allows("get"), "{} is stored", kind.kind);
        }
    }
}
