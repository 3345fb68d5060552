//! What server-side apply leaves out when it writes a part of a pod: all but that part.

/// Metadata, status and all of the spec that neither part writes, and these fields of the spec.
macro_rules! all_and {
    ($($field:literal),*) => {
        &[
            &["metadata"],
            &["status"],
            $(&["spec", $field],)*
            &["spec", "volumes"],
            &["spec", "restartPolicy"],
            &["spec", "terminationGracePeriodSeconds"],
            &["spec", "activeDeadlineSeconds"],
            &["spec", "dnsPolicy"],
            &["spec", "nodeSelector"],
            &["spec", "serviceAccountName"],
            &["spec", "serviceAccount"],
            &["spec", "automountServiceAccountToken"],
            &["spec", "nodeName"],
            &["spec", "hostNetwork"],
            &["spec", "hostPID"],
            &["spec", "hostIPC"],
            &["spec", "shareProcessNamespace"],
            &["spec", "securityContext"],
            &["spec", "imagePullSecrets"],
            &["spec", "hostname"],
            &["spec", "subdomain"],
            &["spec", "affinity"],
            &["spec", "schedulerName"],
            &["spec", "tolerations"],
            &["spec", "hostAliases"],
            &["spec", "priorityClassName"],
            &["spec", "priority"],
            &["spec", "dnsConfig"],
            &["spec", "readinessGates"],
            &["spec", "runtimeClassName"],
            &["spec", "enableServiceLinks"],
            &["spec", "preemptionPolicy"],
            &["spec", "overhead"],
            &["spec", "topologySpreadConstraints"],
            &["spec", "setHostnameAsFQDN"],
            &["spec", "os"],
            &["spec", "hostUsers"],
            &["spec", "schedulingGates"],
            &["spec", "resourceClaims"],
            &["spec", "resources"],
            &["spec", "hostnameOverride"],
            &["spec", "schedulingGroup"],
        ]
    };
}

/// All but `spec.ephemeralContainers`.
pub(super) const EPHEMERAL: &[&[&str]] = all_and!("containers", "initContainers");

/// All but the containers, of which only resources are written.
pub(super) const RESIZE: &[&[&str]] = all_and!("ephemeralContainers");
