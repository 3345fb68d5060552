//! What all nodes may do alike: verbs, groups, resources. Resources that nodes have a part of only are not among these.

use super::super::{Attributes, ResourceAttributes};

type Rule = (&'static [&'static str], &'static [&'static str], &'static [&'static str]);

const READ: &[&str] = &["get", "list", "watch"];

const RULES: &[Rule] = &[
    (&["create"], &["authentication.k8s.io"], &["tokenreviews"]),
    (&["create"], &["authorization.k8s.io"], &["subjectaccessreviews", "localsubjectaccessreviews"]),
    (READ, &[""], &["services"]),
    (&["create", "update", "patch"], &["", "events.k8s.io"], &["events"]),
    (&["get"], &[""], &["endpoints"]),
    (&["create", "get", "list", "watch"], &["certificates.k8s.io"], &["certificatesigningrequests"]),
    (READ, &["certificates.k8s.io"], &["clustertrustbundles"]),
    (READ, &["storage.k8s.io"], &["csidrivers"]),
    (READ, &["node.k8s.io"], &["runtimeclasses"]),
];

pub fn allow(attributes: &Attributes<'_>) -> bool {
    let Attributes::Resource(ResourceAttributes { verb, group, resource, subresource: "", .. }) = attributes else {
        return false;
    };
    RULES.iter().any(|(verbs, groups, resources)| {
        verbs.contains(verb) && groups.contains(group) && resources.contains(resource)
    })
}
