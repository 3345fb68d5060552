//! Feature gates: what can be turned on and off. A gate is a field and a line in [`Features::set`].

use rkube_kinds::Gates;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    /// `sendInitialEvents`: a watch that begins with the list.
    pub watch_list: bool,
    /// gzip for large answers.
    pub response_compression: bool,
    /// The authority of the API server is published as a ClusterTrustBundle, where these are served.
    pub cluster_trust_bundle: bool,
    /// `maxUnavailable` of StatefulSets.
    pub max_unavailable_stateful_set: bool,
    /// PodCertificateRequests that are too old are deleted, where these are served.
    pub pod_certificate_request: bool,
    /// StorageVersions lose what servers that are gone have written there, where these are served.
    pub storage_version_api: bool,
    /// StorageVersionMigrations are carried out, where these are served.
    pub storage_version_migrator: bool,
}

impl Default for Features {
    fn default() -> Self {
        Features {
            watch_list: true,
            response_compression: true,
            cluster_trust_bundle: false,
            max_unavailable_stateful_set: false,
            pod_certificate_request: false,
            storage_version_api: false,
            storage_version_migrator: false,
        }
    }
}

impl Features {
    /// The names of all gates, as `--feature-gates` takes them.
    pub const NAMES: [&'static str; 7] = [
        "APIResponseCompression",
        "ClusterTrustBundle",
        "MaxUnavailableStatefulSet",
        "PodCertificateRequest",
        "StorageVersionAPI",
        "StorageVersionMigrator",
        "WatchList",
    ];

    /// Turns a gate on or off; false where there is no such gate.
    #[must_use]
    pub fn set(&mut self, name: &str, on: bool) -> bool {
        match name {
            "APIResponseCompression" => self.response_compression = on,
            "ClusterTrustBundle" => self.cluster_trust_bundle = on,
            "MaxUnavailableStatefulSet" => self.max_unavailable_stateful_set = on,
            "PodCertificateRequest" => self.pod_certificate_request = on,
            "StorageVersionAPI" => self.storage_version_api = on,
            "StorageVersionMigrator" => self.storage_version_migrator = on,
            "WatchList" => self.watch_list = on,
            _ => return false,
        }
        true
    }

    /// Those that change what kinds are like.
    pub(crate) fn of_kinds(&self) -> Gates {
        Gates { max_unavailable_stateful_set: self.max_unavailable_stateful_set }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_a_gate() {
        let mut features = Features::default();
        assert!(Features::NAMES.iter().all(|name| features.set(name, false)));
        assert!(!features.watch_list && !features.response_compression);
        assert!(!features.set("Nothing", true));
    }
}
