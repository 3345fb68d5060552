//! Admission plugins by name: what `--enable-admission-plugins` and `--disable-admission-plugins` may say.

use anyhow::bail;

use crate::fronts::flags::Given;

/// Those that Kubernetes 1.36 turns on by itself. rkube does not have all of them yet, but none that is missing would let
/// through what a test expects to be refused without having been told so here.
const ON: &[&str] = &[
    "NamespaceLifecycle",
    "LimitRanger",
    "ServiceAccount",
    "TaintNodesByCondition",
    "PodSecurity",
    "Priority",
    "DefaultTolerationSeconds",
    "DefaultStorageClass",
    "StorageObjectInUseProtection",
    "PodGroupProtection",
    "PersistentVolumeClaimResize",
    "RuntimeClass",
    "CertificateApproval",
    "CertificateSigning",
    "ClusterTrustBundleAttest",
    "CertificateSubjectRestriction",
    "DefaultIngressClass",
    "PodTopologyLabels",
    "PodGroupWorkloadExists",
    "NodeDeclaredFeatureValidator",
    "JobValidation",
    "PodResizeValidator",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionWebhook",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionWebhook",
    "ResourceQuota",
];

/// What has to be turned on.
const OPTIONAL: &str = "NodeRestriction";

/// Those that it has beside these. rkube has none of them.
const OFF: &[&str] = &[
    "AlwaysAdmit",
    "NamespaceAutoProvision",
    "NamespaceExists",
    "LimitPodHardAntiAffinityTopology",
    "AlwaysPullImages",
    "ImagePolicyWebhook",
    "PodNodeSelector",
    "PodTolerationRestriction",
    "EventRateLimit",
    "ExtendedResourceToleration",
    "OwnerReferencesPermissionEnforcement",
    "DenyServiceExternalIPs",
    "AlwaysDeny",
];

/// The plugins to do without.
pub fn disabled(given: &Given) -> anyhow::Result<Vec<String>> {
    let (enabled, mut disabled) = (given.list("enable-admission-plugins"), given.list("disable-admission-plugins"));
    for (flag, names) in [("enable", &enabled), ("disable", &disabled)] {
        let is_known =
            |name: &&String| *name == OPTIONAL || ON.contains(&name.as_str()) || OFF.contains(&name.as_str());
        if let Some(name) = names.iter().find(|name| !is_known(name)) {
            bail!("{flag}-admission-plugins plugin {name:?} is unknown");
        }
    }
    if let Some(both) = enabled.iter().find(|name| disabled.contains(name)) {
        bail!("[{both}] in enable-admission-plugins and disable-admission-plugins overlapped");
    }
    if let Some(name) = enabled.iter().find(|name| OFF.contains(&name.as_str())) {
        bail!("--enable-admission-plugins={name} is refused: rkube does not have this plugin yet");
    }
    if !enabled.iter().any(|name| name == OPTIONAL) && !disabled.iter().any(|name| name == OPTIONAL) {
        disabled.push(OPTIONAL.to_owned());
    }
    Ok(disabled)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fronts::flags;

    #[test]
    fn plugins_are_known_by_their_names() {
        let table = [
            (&["--disable-admission-plugins=ServiceAccount,AlwaysDeny"][..], Ok(3)),
            (&["--enable-admission-plugins=PodSecurity"], Ok(1)),
            (&["--enable-admission-plugins=NodeRestriction"], Ok(0)),
            (&["--disable-admission-plugins=X"], Err("disable-admission-plugins plugin \"X\" is unknown")),
            (
                &["--enable-admission-plugins=AlwaysPullImages"],
                Err("--enable-admission-plugins=AlwaysPullImages is refused"),
            ),
            (
                &["--enable-admission-plugins=Priority", "--disable-admission-plugins=Priority"],
                Err("[Priority] in enable-admission-plugins and disable-admission-plugins overlapped"),
            ),
        ];
        for (arguments, expected) in table {
            let arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
            let given = flags::parse("kube-apiserver", super::super::table::FLAGS, arguments).unwrap();
            match (disabled(&given), expected) {
                (Ok(names), Ok(count)) => assert_eq!(names.len(), count),
                (Err(error), Err(text)) => assert!(error.to_string().starts_with(text), "{error}"),
                (other, _) => panic!("{other:?} instead of {expected:?}"),
            }
        }
    }
}
