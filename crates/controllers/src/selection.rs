//! Which controllers run: what `--controllers` says, in the syntax of kube-controller-manager.

/// Controllers of Kubernetes that are off unless they are asked for.
const OFF_BY_DEFAULT: [&str; 3] =
    ["bootstrap-signer-controller", "token-cleaner-controller", "selinux-warning-controller"];

/// Every controller that Kubernetes has, with the name that it had before. Not all of them are here yet.
pub const KNOWN: [(&str, &str); 49] = [
    ("bootstrap-signer-controller", "bootstrapsigner"),
    ("certificatesigningrequest-approving-controller", "csrapproving"),
    ("certificatesigningrequest-cleaner-controller", "csrcleaner"),
    ("certificatesigningrequest-signing-controller", "csrsigning"),
    ("clusterrole-aggregation-controller", "clusterrole-aggregation"),
    ("cronjob-controller", "cronjob"),
    ("daemonset-controller", "daemonset"),
    ("deployment-controller", "deployment"),
    ("device-taint-eviction-controller", ""),
    ("disruption-controller", "disruption"),
    ("endpoints-controller", "endpoint"),
    ("endpointslice-controller", "endpointslice"),
    ("endpointslice-mirroring-controller", "endpointslicemirroring"),
    ("ephemeral-volume-controller", "ephemeral-volume"),
    ("garbage-collector-controller", "garbagecollector"),
    ("horizontal-pod-autoscaler-controller", "horizontalpodautoscaling"),
    ("job-controller", "job"),
    ("kube-apiserver-serving-clustertrustbundle-publisher-controller", ""),
    ("legacy-serviceaccount-token-cleaner-controller", "legacy-service-account-token-cleaner"),
    ("namespace-controller", "namespace"),
    ("node-ipam-controller", "nodeipam"),
    ("node-lifecycle-controller", "nodelifecycle"),
    ("persistentvolume-attach-detach-controller", "attachdetach"),
    ("persistentvolume-binder-controller", "persistentvolume-binder"),
    ("persistentvolume-expander-controller", "persistentvolume-expander"),
    ("persistentvolume-protection-controller", "pv-protection"),
    ("persistentvolumeclaim-protection-controller", "pvc-protection"),
    ("pod-garbage-collector-controller", "podgc"),
    ("podcertificaterequest-cleaner-controller", ""),
    ("podgroup-protection-controller", ""),
    ("replicaset-controller", "replicaset"),
    ("replicationcontroller-controller", "replicationcontroller"),
    ("resourceclaim-controller", "resource-claim-controller"),
    ("resourcepoolstatusrequest-controller", ""),
    ("resourcequota-controller", "resourcequota"),
    ("root-ca-certificate-publisher-controller", "root-ca-cert-publisher"),
    ("selinux-warning-controller", ""),
    ("service-cidr-controller", ""),
    ("serviceaccount-controller", "serviceaccount"),
    ("serviceaccount-token-controller", "serviceaccount-token"),
    ("statefulset-controller", "statefulset"),
    ("storage-version-migrator-controller", "svm"),
    ("storageversion-garbage-collector-controller", "storage-version-gc"),
    ("taint-eviction-controller", ""),
    ("token-cleaner-controller", "tokencleaner"),
    ("ttl-after-finished-controller", "ttl-after-finished"),
    ("ttl-controller", "ttl"),
    ("validatingadmissionpolicy-status-controller", ""),
    ("volumeattributesclass-protection-controller", ""),
];

/// Controllers that Kubernetes does not have.
const OWN: [&str; 1] = [crate::local_path_provisioner::NAME];

/// Which controllers are to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    /// In the given order, by their present names: of several that name one controller the first counts.
    given: Vec<String>,
}

impl Default for Selection {
    /// All that are on by default.
    fn default() -> Self {
        Selection { given: vec!["*".to_owned()] }
    }
}

impl Selection {
    /// `*` for all that are on by default, `name` for one, `-name` for all but it; separated by commas.
    pub fn parse(text: &str) -> Result<Selection, String> {
        let given = text.split(',').filter(|name| !name.is_empty()).map(|name| {
            let (sign, bare) = name.strip_prefix('-').map_or(("", name), |bare| ("-", bare));
            match present_name(bare) {
                _ if name == "*" => Ok(name.to_owned()),
                Some(present) => Ok(format!("{sign}{present}")),
                None => Err(format!("{bare:?} is not in the list of known controllers")),
            }
        });
        Ok(Selection { given: given.collect::<Result<_, _>>()? })
    }

    /// Whether this controller is to run.
    pub fn has(&self, name: &str) -> bool {
        let named = self.given.iter().find(|given| given.strip_prefix('-').unwrap_or(given) == name);
        match named {
            Some(given) => !given.starts_with('-'),
            None => self.given.iter().any(|given| given == "*") && !OFF_BY_DEFAULT.contains(&name),
        }
    }

    /// What was asked for by name and is not among these: there is no such controller yet.
    pub fn missing<'a>(&'a self, there: &[&str]) -> Vec<&'a str> {
        let asked = self.given.iter().map(String::as_str).filter(|name| !name.starts_with('-') && *name != "*");
        asked.filter(|name| !there.contains(name)).collect()
    }
}

impl std::str::FromStr for Selection {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Selection::parse(text)
    }
}

fn present_name(name: &str) -> Option<&'static str> {
    let known = KNOWN.iter().find(|known| known.0 == name || !name.is_empty() && known.1 == name);
    known.map(|known| known.0).or_else(|| OWN.into_iter().find(|own| *own == name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_syntax_is_that_of_kube_controller_manager() {
        // What is given, and whether these run: garbage collector, namespaces, a signer that is off by default.
        let table = [
            ("*", [true, true, false]),
            ("", [false, false, false]),
            ("namespace-controller", [false, true, false]),
            ("*,-garbage-collector-controller", [false, true, false]),
            ("-garbagecollector,*", [false, true, false]),
            ("*,bootstrapsigner", [true, true, true]),
            ("namespace,-namespace-controller", [false, true, false]),
            ("-namespace,namespace-controller", [false, false, false]),
        ];
        let names = ["garbage-collector-controller", "namespace-controller", "bootstrap-signer-controller"];
        for (given, expected) in table {
            let selection = Selection::parse(given).unwrap();
            assert_eq!(names.map(|name| selection.has(name)), expected, "{given}");
        }
    }

    #[test]
    fn a_name_that_never_was_is_an_error() {
        for given in ["*,-none", "none,*"] {
            let error = Selection::parse(given).unwrap_err();
            assert_eq!(error, "\"none\" is not in the list of known controllers");
        }
        assert!(Selection::parse("-").is_err());
    }

    #[test]
    fn what_is_asked_for_and_not_there_is_named() {
        let selection = Selection::parse("*,ttl,-job,namespace").unwrap();
        assert_eq!(selection.missing(&["namespace-controller"]), ["ttl-controller"]);
    }
}
