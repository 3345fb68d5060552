//! Which resources of quotas a kind has to do with.

use rkube_machinery::{Text, Value};

use crate::{Measure, Scopes, amounts, pods, resource_claims, services, volume_claims};

/// Of these nothing is stored, or nobody ever counted them.
const IGNORED: &[(&str, &str)] = &[
    ("", "bindings"),
    ("", "componentstatuses"),
    ("", "events"),
    ("events.k8s.io", "events"),
    ("authentication.k8s.io", "tokenreviews"),
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "localsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
];
/// Kinds that quotas count by their bare names, too.
const LEGACY: &[&str] = &["configmaps", "replicationcontrollers", "resourcequotas", "secrets"];

/// How objects of a kind are measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Evaluator {
    Pods,
    Services,
    VolumeClaims,
    ResourceClaims,
    /// By their number, under a name, or two.
    Count {
        name: Text,
        legacy: Option<&'static str>,
    },
}

impl Evaluator {
    /// None: objects of this kind are not counted.
    pub fn of(group: &str, resource: &str) -> Option<Evaluator> {
        if IGNORED.contains(&(group, resource)) {
            return None;
        }
        Some(match (group, resource) {
            ("", "pods") => Evaluator::Pods,
            ("", "services") => Evaluator::Services,
            ("", "persistentvolumeclaims") => Evaluator::VolumeClaims,
            ("resource.k8s.io", "resourceclaims") => Evaluator::ResourceClaims,
            _ => {
                let legacy = LEGACY.iter().copied().find(|legacy| group.is_empty() && *legacy == resource);
                Evaluator::Count { name: count_name(group, resource), legacy }
            }
        })
    }

    /// Whether objects of this kind may take of this resource.
    pub fn counts(&self, name: &str) -> bool {
        match self {
            Evaluator::Pods => pods::counts(name),
            Evaluator::Services => services::RESOURCES.contains(&name),
            Evaluator::VolumeClaims => volume_claims::counts(name),
            Evaluator::ResourceClaims => resource_claims::counts(name),
            Evaluator::Count { name: own, legacy } => own == name || *legacy == Some(name),
        }
    }

    /// What an object takes, and which scopes it is in.
    pub fn measure(&self, object: &Value) -> Measure {
        match self {
            Evaluator::Pods => pods::measure(object),
            Evaluator::Services => services::measure(object),
            Evaluator::VolumeClaims => volume_claims::measure(object),
            Evaluator::ResourceClaims => resource_claims::measure(object),
            Evaluator::Count { name, legacy } => {
                let names = [Some(name.clone()), legacy.map(Text::new_static)].into_iter().flatten();
                let usage = names.map(|name| (name, amounts::count(1))).collect();
                Measure { scopes: Scopes::None, usage, expires: None }
            }
        }
    }

    /// What containers say, where a quota may want it said.
    pub fn containers(&self, object: &Value) -> Vec<crate::Container> {
        if *self == Evaluator::Pods { pods::containers(object) } else { Vec::new() }
    }
}

/// The kind, by group and resource, whose objects take of a resource of a quota. It may not be there.
pub fn kind_of(name: &str) -> Option<(&str, &str)> {
    if let Some(kind) = name.strip_prefix("count/") {
        let (resource, group) = kind.split_once('.').unwrap_or((kind, ""));
        return Some((group, resource)).filter(|kind| !IGNORED.contains(kind));
    }
    if pods::counts(name) {
        return Some(("", "pods"));
    }
    if services::RESOURCES.contains(&name) {
        return Some(("", "services"));
    }
    if volume_claims::counts(name) {
        return Some(("", "persistentvolumeclaims"));
    }
    if resource_claims::counts(name) {
        return Some(("resource.k8s.io", "resourceclaims"));
    }
    LEGACY.contains(&name).then_some(("", name))
}

fn count_name(group: &str, resource: &str) -> Text {
    if group.is_empty() {
        return Text::from(format!("count/{resource}"));
    }
    Text::from(format!("count/{resource}.{group}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_and_names_find_each_other() {
        let table = [
            ("pods", Some(("", "pods"))),
            ("count/pods", Some(("", "pods"))),
            ("limits.memory", Some(("", "pods"))),
            ("requests.hugepages-2Mi", Some(("", "pods"))),
            ("hugepages-1Gi", Some(("", "pods"))),
            ("requests.example.com/gpu", Some(("", "pods"))),
            ("requests.deviceclass.resource.kubernetes.io/gpu", Some(("", "pods"))),
            ("example.com/gpu", None),
            ("requests.kubernetes.io/x", None),
            ("services.nodeports", Some(("", "services"))),
            ("requests.storage", Some(("", "persistentvolumeclaims"))),
            ("gold.storageclass.storage.k8s.io/requests.storage", Some(("", "persistentvolumeclaims"))),
            ("gold.storageclass.storage.k8s.io/persistentvolumeclaims", Some(("", "persistentvolumeclaims"))),
            ("gold.storageclass.storage.k8s.io/limits", None),
            ("gpu.deviceclass.resource.k8s.io/devices", Some(("resource.k8s.io", "resourceclaims"))),
            ("count/resourceclaims.resource.k8s.io", Some(("resource.k8s.io", "resourceclaims"))),
            ("secrets", Some(("", "secrets"))),
            ("resourcequotas", Some(("", "resourcequotas"))),
            ("count/deployments.apps", Some(("apps", "deployments"))),
            ("count/widgets.a.example.com", Some(("a.example.com", "widgets"))),
            ("count/events", None),
            ("count/events.events.k8s.io", None),
            ("limitranges", None),
        ];
        for (name, expected) in table {
            let found = kind_of(name);
            assert_eq!(found, expected, "{name}");
            if let Some((group, resource)) = found {
                assert!(Evaluator::of(group, resource).unwrap().counts(name), "{name}");
            }
        }
        assert_eq!(Evaluator::of("", "events"), None);
    }

    #[test]
    fn most_kinds_are_counted() {
        let usage = |group, resource| {
            let measure = Evaluator::of(group, resource).unwrap().measure(&Value::Null);
            amounts::to_text(&measure.usage)
        };
        assert_eq!(usage("", "configmaps"), "configmaps=1,count/configmaps=1");
        assert_eq!(usage("apps", "deployments"), "count/deployments.apps=1");
        // The name alone does not make it one of the old ones.
        assert_eq!(usage("example.com", "secrets"), "count/secrets.example.com=1");
    }
}
