//! What a document says it is (`apiVersion`, `kind`), held against what the resource takes, with upstream's words for
//! what does not fit.
//!
//! Upstream decodes whatever kinds its schemes know and only then finds that it cannot turn them into what it wants, so
//! that the answer depends on what is known: also lists, options, and versions that have not been served for long.

use rkube_kinds::Kind;
use rkube_machinery::{Text, TypeRef};

/// How a document's type suits the resource.
#[derive(Debug, PartialEq, Eq)]
pub enum Fit {
    Same,
    /// The form that upstream keeps in memory. Its fields have other names: nothing of a document is found in it.
    Internal,
    /// The same kind in another version.
    OtherVersion,
}

#[derive(Debug, thiserror::Error)]
pub enum Misfit {
    #[error("unexpected GroupVersion string: {0}")]
    GroupVersion(String),
    #[error("Object 'apiVersion' is missing in '{document}'")]
    NoVersion { document: String },
    #[error("no kind \"{kind}\" is registered for version \"{api_version}\" in scheme \"{scheme}\"")]
    Unknown { kind: String, api_version: String, scheme: &'static str },
    #[error("converting ({version}.{kind}) to ({package}.{wanted}): unknown conversion")]
    Unrelated { version: String, kind: String, package: String, wanted: Text, schema: Option<TypeRef> },
}

/// A document's type: what it says, completed by what the resource takes.
#[derive(Clone, Debug)]
pub struct Named {
    pub group: String,
    pub version: String,
    pub kind: String,
}

impl Named {
    /// What a document that stands alone is. Where it says nothing, it is what the resource takes.
    pub fn read(api_version: &str, kind: &str, wanted: &Kind) -> Result<Named, Misfit> {
        let mut named = Named::parse(api_version, kind)?;
        if named.version.is_empty() && (named.group.is_empty() || named.group == wanted.group) {
            named.group = wanted.group.to_string();
            named.version = wanted.version.to_string();
        }
        Ok(named.or_kind(wanted))
    }

    /// What a patched object is. Without a version it is taken for the form in memory.
    pub fn read_patched(api_version: &str, kind: &str, wanted: &Kind) -> Result<Named, Misfit> {
        let mut named = Named::parse(api_version, kind)?;
        let group = internal_group(wanted);
        if named.version.is_empty() && (named.group.is_empty() || named.group == group) {
            named.group = group.to_owned();
            named.version = INTERNAL.to_owned();
        }
        Ok(named.or_kind(wanted))
    }

    fn parse(api_version: &str, kind: &str) -> Result<Named, Misfit> {
        let (group, version) = match api_version.split_once('/') {
            None => ("", api_version),
            Some((_, version)) if version.contains('/') => {
                return Err(Misfit::GroupVersion(api_version.to_owned()));
            }
            Some(parts) => parts,
        };
        Ok(Named { group: group.to_owned(), version: version.to_owned(), kind: kind.to_owned() })
    }

    fn or_kind(mut self, wanted: &Kind) -> Named {
        if self.kind.is_empty() {
            self.kind = wanted.kind.to_string();
        }
        self
    }

    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// Whether the resource can take it. `document` gives the document's text for messages.
    pub fn check(&self, wanted: &Kind, document: impl Fn() -> String) -> Result<Fit, Misfit> {
        if self.group == wanted.group && self.version == wanted.version && self.kind == wanted.kind {
            return Ok(Fit::Same);
        }
        if self.version.is_empty() {
            return Err(Misfit::NoVersion { document: document() });
        }
        let scheme = Scheme::of(&wanted.group);
        let schema = self.schema(scheme);
        let same_kind = self.kind == wanted.kind
            && (self.group == wanted.group || self.group == "extensions" || self.kind == "Event");
        if self.version == INTERNAL && same_kind {
            return Ok(Fit::Internal);
        }
        if schema.is_none() && !self.is_retired(scheme) && !self.is_event(scheme) {
            let (kind, api_version) = (self.kind.clone(), self.api_version());
            return Err(Misfit::Unknown { kind, api_version, scheme: scheme.name() });
        }
        if same_kind {
            return Ok(Fit::OtherVersion);
        }
        let (version, kind) = (self.version.clone(), self.kind.clone());
        let package = internal_package(internal_group(wanted)).to_owned();
        Err(Misfit::Unrelated { version, kind, package, wanted: wanted.kind.clone(), schema })
    }

    /// The type in the table, where the scheme knows it.
    fn schema(&self, scheme: Scheme) -> Option<TypeRef> {
        let find =
            |package: &str| TypeRef::find(&format!("{package}.{}", self.kind)).filter(|schema| schema.get().type_meta);
        let in_version =
            || rkube_kinds::all().iter().find(|row| row.group == self.group && row.version == self.version);
        let everywhere =
            META_KINDS.contains(&self.kind.as_str()) && in_version().is_some_and(|_| Scheme::of(&self.group) == scheme);
        let bare = self.group.is_empty() && self.version == "v1" && BARE_KINDS.contains(&self.kind.as_str());
        if everywhere || bare {
            return find(META_PACKAGE);
        }
        let row = in_version().filter(|_| Scheme::of(&self.group) == scheme)?;
        find(row.type_name.rsplit_once('.')?.0)
    }

    /// Whether it is what watches are made of, which is no kind of the table.
    fn is_event(&self, scheme: Scheme) -> bool {
        let known = |row: &Kind| row.group == self.group && row.version == self.version;
        self.kind == "WatchEvent"
            && Scheme::of(&self.group) == scheme
            && rkube_kinds::all().iter().any(|row| known(row))
    }

    /// Whether it is of a version that the scheme knows and nobody serves.
    fn is_retired(&self, scheme: Scheme) -> bool {
        let api_version = self.api_version();
        let kind = self.kind.strip_suffix("List").unwrap_or(&self.kind);
        scheme == Scheme::Main
            && RETIRED.iter().any(|(version, kinds)| *version == api_version && kinds.split(' ').any(|it| it == kind))
    }
}

const INTERNAL: &str = "__internal";
const META_PACKAGE: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

/// Kinds that every group has.
const META_KINDS: [&str; 6] =
    ["CreateOptions", "DeleteOptions", "GetOptions", "ListOptions", "PatchOptions", "UpdateOptions"];

/// Kinds that belong to no group.
const BARE_KINDS: [&str; 5] = ["Status", "APIVersions", "APIGroup", "APIGroupList", "APIResourceList"];

/// Versions that are still known, with their kinds; not those that are served.
const RETIRED: &[(&str, &str)] = &[
    ("admissionregistration.k8s.io/v1beta1", "ValidatingWebhookConfiguration MutatingWebhookConfiguration"),
    ("apps/v1beta1", "Deployment DeploymentRollback Scale StatefulSet ControllerRevision"),
    ("apps/v1beta2", "Deployment Scale StatefulSet DaemonSet ReplicaSet ControllerRevision"),
    ("authentication.k8s.io/v1beta1", "SelfSubjectReview TokenReview"),
    (
        "authorization.k8s.io/v1beta1",
        "SelfSubjectRulesReview SelfSubjectAccessReview SubjectAccessReview LocalSubjectAccessReview",
    ),
    ("batch/v1beta1", "CronJob"),
    ("certificates.k8s.io/v1beta1", "CertificateSigningRequest"),
    ("coordination.k8s.io/v1beta1", "Lease"),
    ("discovery.k8s.io/v1beta1", "EndpointSlice"),
    ("events.k8s.io/v1beta1", "Event"),
    ("extensions/v1beta1", "Deployment DeploymentRollback Scale DaemonSet Ingress ReplicaSet NetworkPolicy"),
    ("flowcontrol.apiserver.k8s.io/v1beta1", "FlowSchema PriorityLevelConfiguration"),
    ("flowcontrol.apiserver.k8s.io/v1beta2", "FlowSchema PriorityLevelConfiguration"),
    ("flowcontrol.apiserver.k8s.io/v1beta3", "FlowSchema PriorityLevelConfiguration"),
    ("networking.k8s.io/v1beta1", "Ingress IngressClass"),
    ("node.k8s.io/v1alpha1", "RuntimeClass"),
    ("node.k8s.io/v1beta1", "RuntimeClass"),
    ("policy/v1beta1", "PodDisruptionBudget Eviction"),
    ("rbac.authorization.k8s.io/v1alpha1", "Role RoleBinding ClusterRole ClusterRoleBinding"),
    ("rbac.authorization.k8s.io/v1beta1", "Role RoleBinding ClusterRole ClusterRoleBinding"),
    ("scheduling.k8s.io/v1beta1", "PriorityClass"),
    ("storage.k8s.io/v1beta1", "StorageClass VolumeAttachment CSIDriver CSINode CSIStorageCapacity"),
];

/// Upstream is three servers in one, and each knows its own kinds alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scheme {
    Main,
    Aggregator,
    Extensions,
}

impl Scheme {
    fn of(group: &str) -> Scheme {
        match group {
            "apiregistration.k8s.io" => Scheme::Aggregator,
            "apiextensions.k8s.io" => Scheme::Extensions,
            _ => Scheme::Main,
        }
    }

    /// Where upstream's source makes it.
    fn name(self) -> &'static str {
        match self {
            Scheme::Main => "k8s.io/kubernetes/pkg/api/legacyscheme/scheme.go:30",
            Scheme::Aggregator => "k8s.io/kube-aggregator/pkg/apiserver/scheme/scheme.go:28",
            Scheme::Extensions => "k8s.io/apiextensions-apiserver/pkg/apiserver/apiserver.go:55",
        }
    }
}

/// The group whose form the kind has in upstream's memory.
pub fn internal_group(kind: &Kind) -> &str {
    kind.conversion.as_ref().map_or(&kind.group, |conversion| &conversion.group)
}

/// The Go package of a group's forms in memory.
pub fn internal_package(group: &str) -> &str {
    match group {
        "" => "core",
        "internal.apiserver.k8s.io" => "apiserverinternal",
        group => group.split('.').next().unwrap_or(group),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(group: &str, resource: &str) -> &'static Kind {
        rkube_kinds::all().iter().find(|row| row.group == group && row.resource == resource).unwrap()
    }

    #[test]
    fn bodies_of_other_types_are_told_apart() {
        let maps = row("", "configmaps");
        let unknown = |kind: &str, version: &str| {
            let scheme = Scheme::Main.name();
            format!("no kind \"{kind}\" is registered for version \"{version}\" in scheme \"{scheme}\"")
        };
        let unrelated = |from: &str| format!("converting ({from}) to (core.ConfigMap): unknown conversion");
        for (api_version, kind, want) in [
            ("v1", "ConfigMap", "Same".to_owned()),
            ("", "", "Same".to_owned()),
            ("/v1", "ConfigMap", "Same".to_owned()),
            ("__internal", "ConfigMap", "Internal".to_owned()),
            ("a/b/c", "ConfigMap", "unexpected GroupVersion string: a/b/c".to_owned()),
            ("apps/", "ConfigMap", "Object 'apiVersion' is missing in '{}'".to_owned()),
            ("v9", "ConfigMap", unknown("ConfigMap", "v9")),
            ("v1", "PodSpec", unknown("PodSpec", "v1")),
            ("apiregistration.k8s.io/v1", "APIService", unknown("APIService", "apiregistration.k8s.io/v1")),
            ("apps/v1", "Deployment", unrelated("v1.Deployment")),
            ("v1", "PodList", unrelated("v1.PodList")),
            ("v1", "DeleteOptions", unrelated("v1.DeleteOptions")),
            ("v1", "Status", unrelated("v1.Status")),
            ("apps/v1beta1", "StatefulSet", unrelated("v1beta1.StatefulSet")),
        ] {
            let named = Named::read(api_version, kind, maps).and_then(|named| named.check(maps, || "{}".to_owned()));
            assert_eq!(named.map_or_else(|error| error.to_string(), |fit| format!("{fit:?}")), want, "{api_version}");
        }
        let deployments = row("apps", "deployments");
        let fit = |version: &str| Named::read(version, "Deployment", deployments)?.check(deployments, String::new);
        assert_eq!(fit("apps/").unwrap(), Fit::Same);
        assert_eq!(fit("extensions/v1beta1").unwrap(), Fit::OtherVersion);
        let patched = Named::read_patched("", "", maps).unwrap().check(maps, String::new);
        assert_eq!(patched.unwrap(), Fit::Internal);
    }
}
