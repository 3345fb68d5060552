//! Feature gates: what can be turned on and off. A gate is a field and a line in [`Features::set`].

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    /// `sendInitialEvents`: a watch that begins with the list.
    pub watch_list: bool,
    /// gzip for large answers.
    pub response_compression: bool,
    /// The authority of the API server is published as a ClusterTrustBundle, where these are served.
    pub cluster_trust_bundle: bool,
    /// PodCertificateRequests that are too old are deleted, where these are served.
    pub pod_certificate_request: bool,
}

impl Default for Features {
    fn default() -> Self {
        Features {
            watch_list: true,
            response_compression: true,
            cluster_trust_bundle: false,
            pod_certificate_request: false,
        }
    }
}

impl Features {
    /// The names of all gates, as `--feature-gates` takes them.
    pub const NAMES: [&'static str; 4] =
        ["APIResponseCompression", "ClusterTrustBundle", "PodCertificateRequest", "WatchList"];

    /// Turns a gate on or off; false where there is no such gate.
    #[must_use]
    pub fn set(&mut self, name: &str, on: bool) -> bool {
        match name {
            "APIResponseCompression" => self.response_compression = on,
            "ClusterTrustBundle" => self.cluster_trust_bundle = on,
            "PodCertificateRequest" => self.pod_certificate_request = on,
            "WatchList" => self.watch_list = on,
            _ => return false,
        }
        true
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
