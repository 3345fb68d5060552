//! What every template of pods shares with pods: the defaults, checks and warnings of a pod spec.
//!
//! All of it works on any object with `metadata` and `spec` of a pod: pods themselves and the templates of workloads.

mod affinity;
pub(crate) mod amounts;
pub(crate) mod annotations;
pub(crate) mod checks;
pub(crate) mod claim_template;
pub(crate) mod containers;
mod defaults;
pub(crate) mod diff;
pub(crate) mod disabled;
mod env;
pub(crate) mod go_form;
mod image;
mod mounts;
mod network;
mod options;
mod overlaps;
pub(crate) mod pod_resources;
mod port_warnings;
mod probes;
pub(crate) mod projected;
pub(crate) mod resources;
mod scheduling;
pub(crate) mod security;
mod spec;
pub(crate) mod storage_sources;
mod topology;
pub(crate) mod volume_defaults;
pub(crate) mod volumes;
pub(crate) mod warnings;
mod windows;

pub use affinity::validate_node_selector;
pub use claim_template::{validate_claim_spec, validate_claim_template};
pub(crate) use defaults::drop_init_annotations;
pub use defaults::{default_pod_spec, default_pod_template, sync_service_account};
pub use disabled::drop_disabled;
pub use options::PodOptions;
pub use projected::validate_signer_name;
pub(crate) use resources::is_native as is_native_resource;
pub use scheduling::validate_tolerations;
pub use spec::{validate_pod_spec, validate_pod_template};
pub use volume_defaults::default_claim_spec;
pub use volumes::validate_driver_name;
pub use warnings::{pod_warnings, template_warnings};
