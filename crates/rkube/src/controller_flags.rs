//! The flags that tune controllers: those of kube-controller-manager, with its names, and its defaults unless their
//! settings say otherwise.

use std::num::NonZeroUsize;

use clap::Args;
use rkube_controllers::Settings;

use crate::flags::GoDuration;
use crate::signing_flags::SigningFlags;

#[derive(Debug, Args)]
#[command(next_help_heading = "Controllers")]
pub struct ControllerFlags {
    #[command(flatten)]
    pub signing: SigningFlags,

    /// How long certificates live that are asked for by CertificateSigningRequests, unless they want less
    #[arg(long, value_name = "DURATION", default_value = "8760h0m0s")]
    pub cluster_signing_duration: GoDuration,

    /// How long tokens of service accounts must be unused that were made by themselves and are in Secrets, until they are
    /// marked as invalid, and then until they are deleted
    #[arg(long, value_name = "DURATION", default_value = "8760h0m0s")]
    pub legacy_service_account_token_clean_up_period: GoDuration,

    /// How often the controllers look at all nodes
    #[arg(long, value_name = "DURATION", default_value = "5s")]
    pub node_monitor_period: GoDuration,

    /// How long a node may be silent before it is called unhealthy
    #[arg(long, value_name = "DURATION", default_value = "50s")]
    pub node_monitor_grace_period: GoDuration,

    /// The same for a node that has just started
    #[arg(long, value_name = "DURATION", default_value = "1m0s")]
    pub node_startup_grace_period: GoDuration,

    /// How often claims without a volume look for one again
    #[arg(long, value_name = "DURATION", default_value = "15s")]
    pub pvclaimbinder_sync_period: GoDuration,

    /// Have volumes made for claims, by the provisioners that their storage classes name
    #[arg(long, value_name = "true|false", default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    pub enable_dynamic_provisioning: bool,

    /// Leave volumes attached to nodes that do not answer, however long they are waited for
    #[arg(long, value_name = "true|false", default_value_t = false, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    pub disable_force_detach_on_timeout: bool,

    /// How often each HorizontalPodAutoscaler is looked at
    #[arg(long, value_name = "DURATION", default_value = "15s")]
    pub horizontal_pod_autoscaler_sync_period: GoDuration,

    /// How long autoscalers look back, to scale down to no less than they wanted in that time
    #[arg(long, value_name = "DURATION", default_value = "5m0s")]
    pub horizontal_pod_autoscaler_downscale_stabilization: GoDuration,

    /// How far from 1 the ratio of actual to desired metrics may be before autoscalers scale
    #[arg(long, value_name = "RATIO", default_value_t = 0.1)]
    pub horizontal_pod_autoscaler_tolerance: f64,

    /// How long after a pod's start autoscalers may skip its CPU usage
    #[arg(long, value_name = "DURATION", default_value = "5m0s")]
    pub horizontal_pod_autoscaler_cpu_initialization_period: GoDuration,

    /// How long after a pod's start autoscalers take changes of its readiness for initial ones
    #[arg(long, value_name = "DURATION", default_value = "30s")]
    pub horizontal_pod_autoscaler_initial_readiness_delay: GoDuration,

    /// How many HorizontalPodAutoscalers are worked on at a time
    #[arg(long, value_name = "COUNT", default_value = "5")]
    pub concurrent_horizontal_pod_autoscaler_syncs: NonZeroUsize,

    /// How many CronJobs are worked on at a time
    #[arg(long, value_name = "COUNT", default_value = "5")]
    pub concurrent_cron_job_syncs: NonZeroUsize,

    /// How many DaemonSets are worked on at a time
    #[arg(long, value_name = "COUNT", default_value = "2")]
    pub concurrent_daemonset_syncs: NonZeroUsize,

    /// How many Deployments are worked on at a time
    #[arg(long, value_name = "COUNT", default_value = "5")]
    pub concurrent_deployment_syncs: NonZeroUsize,

    /// How many services have their Endpoints written at a time
    #[arg(long, value_name = "COUNT", default_value = "5")]
    pub concurrent_endpoint_syncs: NonZeroUsize,

    /// How many pods get claims for their ephemeral volumes at a time
    #[arg(long, value_name = "COUNT", default_value = "5")]
    pub concurrent_ephemeralvolume_syncs: NonZeroUsize,

    /// Delete objects whose owners are gone. Without this, owners that are deleted in the foreground, or to leave orphans,
    /// stay until somebody else removes their finalizers
    #[arg(long, value_name = "true|false", default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    pub enable_garbage_collector: bool,

    /// How many objects are looked at, and deleted, at a time because their owners are gone
    #[arg(long, value_name = "COUNT", default_value = "256")]
    pub concurrent_gc_syncs: NonZeroUsize,

    /// How many Jobs are worked on at a time
    #[arg(long, value_name = "COUNT", default_value = "5")]
    pub concurrent_job_syncs: NonZeroUsize,

    /// How many namespaces that are to go are worked on at a time
    #[arg(long, value_name = "COUNT", default_value = "10")]
    pub concurrent_namespace_syncs: NonZeroUsize,

    /// How often namespaces that are to go are looked at at least; 0 for no such limit
    #[arg(long, value_name = "DURATION", default_value = "5m0s")]
    pub namespace_sync_period: GoDuration,

    /// How many ReplicaSets are worked on at a time
    #[arg(long, value_name = "COUNT", default_value = "5")]
    pub concurrent_replicaset_syncs: NonZeroUsize,

    /// How many ReplicationControllers are worked on at a time
    #[arg(long, value_name = "COUNT", default_value = "5")]
    pub concurrent_rc_syncs: NonZeroUsize,

    /// How many services have their EndpointSlices written at a time
    #[arg(long, value_name = "COUNT", default_value = "5")]
    pub concurrent_service_endpoint_syncs: NonZeroUsize,

    /// How many Secrets and service accounts are looked at because of tokens at a time
    #[arg(long, value_name = "COUNT", default_value = "5")]
    pub concurrent_serviceaccount_token_syncs: NonZeroUsize,

    /// How many StatefulSets are worked on at a time
    #[arg(long, value_name = "COUNT", default_value = "5")]
    pub concurrent_statefulset_syncs: NonZeroUsize,

    /// How many Jobs that have ended are looked at at a time
    #[arg(long, value_name = "COUNT", default_value = "5")]
    pub concurrent_ttl_after_finished_syncs: NonZeroUsize,

    /// How many Endpoints are mirrored at a time
    #[arg(long, value_name = "COUNT", default_value = "5")]
    pub mirroring_concurrent_service_endpoint_syncs: NonZeroUsize,

    /// How long changes of pods are gathered before the Endpoints of their services are written
    #[arg(long, value_name = "DURATION", default_value = "0s")]
    pub endpoint_updates_batch_period: GoDuration,

    /// How long changes of pods are gathered before the EndpointSlices of their services are written
    #[arg(long, value_name = "DURATION", default_value = "0s")]
    pub endpointslice_updates_batch_period: GoDuration,

    /// How long changes of Endpoints are gathered before they are mirrored
    #[arg(long, value_name = "DURATION", default_value = "0s")]
    pub mirroring_endpointslice_updates_batch_period: GoDuration,

    /// How many endpoints are in one EndpointSlice at most
    #[arg(long, value_name = "COUNT", default_value = "100", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub max_endpoints_per_slice: u16,

    /// How many addresses of a subset of Endpoints are mirrored at most
    #[arg(long, value_name = "COUNT", default_value = "1000", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub mirroring_max_endpoints_per_subset: u16,

    /// How many ResourceClaims are made or released at a time
    #[arg(long, value_name = "COUNT", default_value = "50")]
    pub concurrent_resourceclaim_syncs: NonZeroUsize,

    /// How many pods are evicted at a time because of tainted devices
    #[arg(long, value_name = "COUNT", default_value = "8")]
    pub concurrent_device_taint_eviction_syncs: NonZeroUsize,

    /// How many ValidatingAdmissionPolicies are checked at a time
    #[arg(long, value_name = "COUNT", default_value = "5")]
    pub concurrent_validating_admission_policy_status_syncs: NonZeroUsize,

    /// How many nodes per second, in a zone that is healthy, get the taint by which pods leave a node that is lost
    #[arg(long, value_name = "RATE", default_value_t = 0.1)]
    pub node_eviction_rate: f32,

    /// The same in a zone that is not, if it is large; in a smaller one there are none then
    #[arg(long, value_name = "RATE", default_value_t = 0.01)]
    pub secondary_node_eviction_rate: f32,

    /// A zone of more nodes than this is large
    #[arg(long, value_name = "COUNT", default_value_t = 50)]
    pub large_cluster_size_threshold: usize,

    /// The part of a zone's nodes, and three at least, that has to be lost for the zone to count as unhealthy
    #[arg(long, value_name = "PART", default_value_t = 0.55)]
    pub unhealthy_zone_threshold: f32,

    /// How many pods that came to an end are kept before the oldest are deleted; 0 or less for any number
    #[arg(long, value_name = "COUNT", default_value_t = 12_500, allow_negative_numbers = true)]
    pub terminated_pod_gc_threshold: i32,

    /// How often what is used of every ResourceQuota is found out anew; 0 for never
    #[arg(long, value_name = "DURATION", default_value = "5m0s")]
    pub resource_quota_sync_period: GoDuration,

    /// How many ResourceQuotas are looked at at a time
    #[arg(long, value_name = "COUNT", default_value = "5")]
    pub concurrent_resource_quota_syncs: NonZeroUsize,
}

impl ControllerFlags {
    pub fn settings(&self) -> Settings {
        Settings {
            cluster_signing_duration: self.cluster_signing_duration.0,
            legacy_service_account_token_clean_up_period: self.legacy_service_account_token_clean_up_period.0,
            node_monitor_period: self.node_monitor_period.0,
            node_monitor_grace_period: self.node_monitor_grace_period.0,
            node_startup_grace_period: self.node_startup_grace_period.0,
            pvclaimbinder_sync_period: self.pvclaimbinder_sync_period.0,
            enable_dynamic_provisioning: self.enable_dynamic_provisioning,
            disable_force_detach_on_timeout: self.disable_force_detach_on_timeout,
            horizontal_pod_autoscaler_sync_period: self.horizontal_pod_autoscaler_sync_period.0,
            horizontal_pod_autoscaler_downscale_stabilization: self.horizontal_pod_autoscaler_downscale_stabilization.0,
            horizontal_pod_autoscaler_tolerance: self.horizontal_pod_autoscaler_tolerance,
            horizontal_pod_autoscaler_cpu_initialization_period: {
                self.horizontal_pod_autoscaler_cpu_initialization_period.0
            },
            horizontal_pod_autoscaler_initial_readiness_delay: self.horizontal_pod_autoscaler_initial_readiness_delay.0,
            concurrent_horizontal_pod_autoscaler_syncs: self.concurrent_horizontal_pod_autoscaler_syncs.get(),
            concurrent_cron_job_syncs: self.concurrent_cron_job_syncs.get(),
            concurrent_daemonset_syncs: self.concurrent_daemonset_syncs.get(),
            concurrent_deployment_syncs: self.concurrent_deployment_syncs.get(),
            concurrent_endpoint_syncs: self.concurrent_endpoint_syncs.get(),
            concurrent_ephemeralvolume_syncs: self.concurrent_ephemeralvolume_syncs.get(),
            enable_garbage_collector: self.enable_garbage_collector,
            concurrent_gc_syncs: self.concurrent_gc_syncs.get(),
            concurrent_job_syncs: self.concurrent_job_syncs.get(),
            namespace_sync_period: self.namespace_sync_period.0,
            concurrent_namespace_syncs: self.concurrent_namespace_syncs.get(),
            concurrent_replicaset_syncs: self.concurrent_replicaset_syncs.get(),
            concurrent_rc_syncs: self.concurrent_rc_syncs.get(),
            concurrent_service_endpoint_syncs: self.concurrent_service_endpoint_syncs.get(),
            concurrent_serviceaccount_token_syncs: self.concurrent_serviceaccount_token_syncs.get(),
            concurrent_statefulset_syncs: self.concurrent_statefulset_syncs.get(),
            concurrent_ttl_after_finished_syncs: self.concurrent_ttl_after_finished_syncs.get(),
            mirroring_concurrent_service_endpoint_syncs: self.mirroring_concurrent_service_endpoint_syncs.get(),
            endpoint_updates_batch_period: self.endpoint_updates_batch_period.0,
            endpointslice_updates_batch_period: self.endpointslice_updates_batch_period.0,
            mirroring_endpointslice_updates_batch_period: self.mirroring_endpointslice_updates_batch_period.0,
            max_endpoints_per_slice: self.max_endpoints_per_slice.into(),
            mirroring_max_endpoints_per_subset: self.mirroring_max_endpoints_per_subset.into(),
            concurrent_resourceclaim_syncs: self.concurrent_resourceclaim_syncs.get(),
            concurrent_device_taint_eviction_syncs: self.concurrent_device_taint_eviction_syncs.get(),
            concurrent_validating_admission_policy_status_syncs: {
                self.concurrent_validating_admission_policy_status_syncs.get()
            },
            node_eviction_rate: self.node_eviction_rate,
            secondary_node_eviction_rate: self.secondary_node_eviction_rate,
            large_cluster_size_threshold: self.large_cluster_size_threshold,
            unhealthy_zone_threshold: self.unhealthy_zone_threshold,
            terminated_pod_gc_threshold: usize::try_from(self.terminated_pod_gc_threshold).unwrap_or(0),
            resource_quota_sync_period: self.resource_quota_sync_period.0,
            concurrent_resource_quota_syncs: self.concurrent_resource_quota_syncs.get(),
            ..Settings::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        flags: ControllerFlags,
    }

    #[test]
    fn defaults_of_flags_are_those_of_the_controllers() {
        let line = Line::try_parse_from(["rkube"]).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(format!("{:?}", line.flags.settings()), format!("{:?}", Settings::default()));
    }

    #[test]
    fn the_garbage_collector_can_be_left_out() {
        for (flag, expected) in [("--enable-garbage-collector", true), ("--enable-garbage-collector=false", false)] {
            let line = Line::try_parse_from(["rkube", flag]).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(line.flags.settings().enable_garbage_collector, expected, "{flag}");
        }
    }

    #[test]
    fn what_cannot_work_is_refused() {
        for flag in [
            "--concurrent-job-syncs=0",
            "--concurrent-gc-syncs=0",
            "--concurrent-resource-quota-syncs=0",
            "--max-endpoints-per-slice=0",
            "--max-endpoints-per-slice=1001",
            "--mirroring-max-endpoints-per-subset=0",
        ] {
            assert!(Line::try_parse_from(["rkube", flag]).is_err(), "{flag}");
        }
    }
}
