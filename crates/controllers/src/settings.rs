//! What the flags of kube-controller-manager say of controllers. A field has the name of its flag, and
//! its default where it does not say otherwise.

use std::time::Duration;

/// What is off unless it is turned on.
#[derive(Clone, Copy, Debug, Default)]
pub struct FeatureGates {
    pub cluster_trust_bundle: bool,
    pub max_unavailable_stateful_set: bool,
    pub pod_certificate_request: bool,
    pub storage_version_api: bool,
    pub storage_version_migrator: bool,
}

/// However short a period is, nothing is looked at more often: a loop without a pause would leave no time for others.
pub(crate) const PERIOD_MIN: Duration = Duration::from_millis(10);

/// Waits until all is to be looked at again.
pub(crate) async fn pause(period: Duration) {
    tokio::time::sleep(period.max(PERIOD_MIN)).await;
}

#[derive(Clone, Debug)]
pub struct Settings {
    pub feature_gates: FeatureGates,
    /// How long a namespace that is to go is left alone. No flag: Kubernetes takes five seconds.
    pub namespace_grace: Duration,
    /// How often namespaces that are to go are looked at at least; zero for no such limit.
    pub namespace_sync_period: Duration,
    /// How long certificates live that are asked for, unless a request wants less.
    pub cluster_signing_duration: Duration,
    /// How long tokens of service accounts must be unused that were made by themselves, until they go.
    pub legacy_service_account_token_clean_up_period: Duration,
    /// How often all nodes are looked at.
    pub node_monitor_period: Duration,
    /// How long a node may be silent.
    pub node_monitor_grace_period: Duration,
    /// The same for one that never said how it is.
    pub node_startup_grace_period: Duration,
    /// How often claims without a volume look for one again.
    pub pvclaimbinder_sync_period: Duration,
    /// Whether volumes are made for claims.
    pub enable_dynamic_provisioning: bool,
    /// Whether volumes stay attached to nodes that do not answer, however long they are waited for.
    pub disable_force_detach_on_timeout: bool,
    /// Whether objects go whose owners are gone.
    pub enable_garbage_collector: bool,
    /// So many nodes per second are tainted in a zone that is well, so that pods leave them.
    pub node_eviction_rate: f32,
    /// The same in a large zone that is not.
    pub secondary_node_eviction_rate: f32,
    /// A zone of more nodes is large.
    pub large_cluster_size_threshold: usize,
    /// Such a part of a zone's nodes has to be lost for it to be unwell.
    pub unhealthy_zone_threshold: f32,
    /// So many pods that came to an end are kept; 0 for any number.
    pub terminated_pod_gc_threshold: usize,
    /// How often each autoscaler is looked at.
    pub horizontal_pod_autoscaler_sync_period: Duration,
    /// No fewer pods than were wanted at any time in so long.
    pub horizontal_pod_autoscaler_downscale_stabilization: Duration,
    /// How far from 1 the ratio of what is to what should be may be.
    pub horizontal_pod_autoscaler_tolerance: f64,
    /// How long after a pod's start its CPU usage counts only when it is ready.
    pub horizontal_pod_autoscaler_cpu_initialization_period: Duration,
    /// A pod that became unready so soon after its start was never ready.
    pub horizontal_pod_autoscaler_initial_readiness_delay: Duration,
    // How many of each are worked on at a time.
    pub concurrent_horizontal_pod_autoscaler_syncs: usize,
    pub concurrent_cron_job_syncs: usize,
    pub concurrent_daemonset_syncs: usize,
    pub concurrent_deployment_syncs: usize,
    pub concurrent_endpoint_syncs: usize,
    pub concurrent_ephemeralvolume_syncs: usize,
    /// Upstream has 20. Here their writes share what the store does for durability.
    pub concurrent_gc_syncs: usize,
    pub concurrent_job_syncs: usize,
    pub concurrent_namespace_syncs: usize,
    pub concurrent_replicaset_syncs: usize,
    pub concurrent_rc_syncs: usize,
    pub concurrent_service_endpoint_syncs: usize,
    pub concurrent_serviceaccount_token_syncs: usize,
    pub concurrent_statefulset_syncs: usize,
    pub concurrent_ttl_after_finished_syncs: usize,
    pub mirroring_concurrent_service_endpoint_syncs: usize,
    pub concurrent_resourceclaim_syncs: usize,
    pub concurrent_device_taint_eviction_syncs: usize,
    pub concurrent_validating_admission_policy_status_syncs: usize,
    /// How long changes of pods are gathered before the Endpoints of their services are written.
    pub endpoint_updates_batch_period: Duration,
    /// The same of EndpointSlices.
    pub endpointslice_updates_batch_period: Duration,
    /// The same of changes of Endpoints before they are mirrored.
    pub mirroring_endpointslice_updates_batch_period: Duration,
    /// So many endpoints are in one EndpointSlice at most.
    pub max_endpoints_per_slice: usize,
    /// No more addresses of a subset of Endpoints are mirrored.
    pub mirroring_max_endpoints_per_subset: usize,
    /// How often what is used of every quota is found out anew; zero for never.
    pub resource_quota_sync_period: Duration,
    /// How many quotas are looked at at a time.
    pub concurrent_resource_quota_syncs: usize,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            feature_gates: FeatureGates::default(),
            namespace_grace: Duration::ZERO,
            namespace_sync_period: Duration::from_secs(5 * 60),
            cluster_signing_duration: Duration::from_secs(8760 * 60 * 60),
            legacy_service_account_token_clean_up_period: Duration::from_secs(8760 * 60 * 60),
            node_monitor_period: Duration::from_secs(5),
            node_monitor_grace_period: Duration::from_secs(50),
            node_startup_grace_period: Duration::from_secs(60),
            pvclaimbinder_sync_period: Duration::from_secs(15),
            enable_dynamic_provisioning: true,
            disable_force_detach_on_timeout: false,
            enable_garbage_collector: true,
            node_eviction_rate: 0.1,
            secondary_node_eviction_rate: 0.01,
            large_cluster_size_threshold: 50,
            unhealthy_zone_threshold: 0.55,
            terminated_pod_gc_threshold: 12_500,
            horizontal_pod_autoscaler_sync_period: Duration::from_secs(15),
            horizontal_pod_autoscaler_downscale_stabilization: Duration::from_secs(5 * 60),
            horizontal_pod_autoscaler_tolerance: 0.1,
            horizontal_pod_autoscaler_cpu_initialization_period: Duration::from_secs(5 * 60),
            horizontal_pod_autoscaler_initial_readiness_delay: Duration::from_secs(30),
            concurrent_horizontal_pod_autoscaler_syncs: 5,
            concurrent_cron_job_syncs: 5,
            concurrent_daemonset_syncs: 2,
            concurrent_deployment_syncs: 5,
            concurrent_endpoint_syncs: 5,
            concurrent_ephemeralvolume_syncs: 5,
            concurrent_gc_syncs: 256,
            concurrent_job_syncs: 5,
            concurrent_namespace_syncs: 10,
            concurrent_replicaset_syncs: 5,
            concurrent_rc_syncs: 5,
            concurrent_service_endpoint_syncs: 5,
            concurrent_serviceaccount_token_syncs: 5,
            concurrent_statefulset_syncs: 5,
            concurrent_ttl_after_finished_syncs: 5,
            mirroring_concurrent_service_endpoint_syncs: 5,
            concurrent_resourceclaim_syncs: 50,
            concurrent_device_taint_eviction_syncs: 8,
            concurrent_validating_admission_policy_status_syncs: 5,
            endpoint_updates_batch_period: Duration::ZERO,
            endpointslice_updates_batch_period: Duration::ZERO,
            mirroring_endpointslice_updates_batch_period: Duration::ZERO,
            max_endpoints_per_slice: 100,
            mirroring_max_endpoints_per_subset: 1000,
            resource_quota_sync_period: Duration::from_secs(5 * 60),
            concurrent_resource_quota_syncs: 5,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn every_pause_takes_time() {
        for (period, expected) in [(Duration::ZERO, PERIOD_MIN), (PERIOD_MIN * 2, PERIOD_MIN * 2)] {
            let begun = tokio::time::Instant::now();
            pause(period).await;
            assert_eq!(begun.elapsed(), expected);
        }
    }
}
