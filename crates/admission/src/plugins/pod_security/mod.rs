//! PodSecurity: labels of a namespace say how far pods in it may reach out of their containers.

// tidy: types Namespace Pod PodTemplate Deployment CronJob Job

mod baseline;
mod policy;
mod restricted;

use std::collections::{HashMap, HashSet};

use rkube_machinery::{Map, Status, Value};

use crate::{Attributes, ImmediatePlugin, Objects};
use policy::{Level, Policy, Standard};

/// At most so many pods are looked at when a namespace becomes stricter.
const PODS_MAX: usize = 3000;
/// Subresources that do not change what a pod may do.
const HARMLESS: [&str; 8] = ["exec", "attach", "binding", "eviction", "log", "portforward", "proxy", "status"];
/// Kinds that make pods from a template, and where it is.
const TEMPLATES: [(&str, &str, &[&str]); 8] = [
    ("", "podtemplates", &["template"]),
    ("", "replicationcontrollers", &["spec", "template"]),
    ("apps", "replicasets", &["spec", "template"]),
    ("apps", "deployments", &["spec", "template"]),
    ("apps", "statefulsets", &["spec", "template"]),
    ("apps", "daemonsets", &["spec", "template"]),
    ("batch", "jobs", &["spec", "template"]),
    ("batch", "cronjobs", &["spec", "jobTemplate", "spec", "template"]),
];

/// One thing that a pod does and a standard forbids.
#[derive(Debug, PartialEq, Eq)]
pub struct Violation {
    pub reason: &'static str,
    pub detail: String,
}

pub struct PodSecurity {
    pub namespaces: Objects,
    pub pods: Objects,
}

impl PodSecurity {
    fn policy(&self, namespace: &str) -> Policy {
        let found = self.namespaces.find("", namespace);
        found.map_or_else(Policy::default, |namespace| Policy::of(|label| namespace.label(label)).0)
    }

    fn check_pod(&self, attributes: &mut Attributes<'_>, pod: &Value) -> Result<(), Status> {
        if HARMLESS.contains(&attributes.subresource) {
            return Ok(());
        }
        let policy = self.policy(attributes.namespace);
        if policy.is_privileged() || attributes.old.is_some_and(|old| !runs_others(pod, old)) {
            return Ok(());
        }
        let found = evaluate(policy.enforce, pod.get("metadata"), pod.get("spec"));
        if !found.is_empty() {
            let why = format!("violates PodSecurity \"{}\": {}", policy.enforce, details(&found));
            return Err(Status::forbidden(attributes.resource(), attributes.name, why));
        }
        warn(attributes, policy.warn, pod);
        Ok(())
    }

    fn check_namespace(&self, attributes: &mut Attributes<'_>, new: &Value) -> Result<(), Status> {
        let (policy, errors) = policy_of(new);
        let before = attributes.old.map(policy_of);
        let known = before.as_ref().is_some_and(|(_, known)| *known == errors);
        if !errors.is_empty() && !known {
            return Err(Status::invalid(&attributes.served.kind.group_kind(), attributes.name, &errors));
        }
        if let Some((before, _)) = before
            && policy.enforce.is_stricter_than(before.enforce)
        {
            let warnings = self.pods_against(new.get("metadata").str("name"), policy.enforce);
            attributes.warnings.extend(warnings);
        }
        Ok(())
    }

    /// Which pods that are there a new standard would not let in.
    fn pods_against(&self, namespace: &str, standard: Standard) -> Vec<String> {
        let pods = self.pods.within(namespace);
        let pods = first_of_each_controller(pods.iter().map(|pod| pod.value(0)).collect());
        let mut found: Vec<(String, String, usize)> = Vec::new();
        for pod in pods.iter().take(PODS_MAX) {
            let violations = evaluate(standard, pod.get("metadata"), pod.get("spec"));
            if violations.is_empty() {
                continue;
            }
            let reasons = violations.iter().map(|one| one.reason).collect::<Vec<_>>().join(", ");
            let name = pod.get("metadata").str("name");
            match found.iter_mut().find(|(known, _, _)| *known == reasons) {
                Some((_, first, count)) => {
                    if name < first.as_str() {
                        *first = name.to_owned();
                    }
                    *count += 1;
                }
                None => found.push((reasons, name.to_owned(), 1)),
            }
        }
        let mut warnings = Vec::new();
        if pods.len() > PODS_MAX {
            warnings.push(format!(
                "new PodSecurity enforce level only checked against the first {PODS_MAX} of {} existing pods",
                pods.len()
            ));
        }
        if !found.is_empty() {
            warnings.push(format!(
                "existing pods in namespace \"{namespace}\" violate the new PodSecurity enforce level \"{standard}\""
            ));
        }
        let mut lines: Vec<String> =
            found.into_iter().map(|(reasons, name, count)| counted(&reasons, &name, count)).collect();
        lines.sort();
        warnings.extend(lines);
        warnings
    }
}

impl ImmediatePlugin for PodSecurity {
    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        let is_pod = attributes.is_about("", "pods");
        attributes.is_create_or_update()
            && (is_pod || attributes.is("", "namespaces") || template_path(attributes).is_some())
    }

    fn validate(&self, attributes: &mut Attributes<'_>, object: &Value) -> Result<(), Status> {
        match attributes.served.kind.resource.as_str() {
            "pods" => self.check_pod(attributes, object),
            "namespaces" => self.check_namespace(attributes, object),
            _ => {
                if let Some(path) = template_path(attributes) {
                    let policy = self.policy(attributes.namespace);
                    warn(attributes, policy.warn, object.at(path));
                }
                Ok(())
            }
        }
    }
}

fn template_path(attributes: &Attributes<'_>) -> Option<&'static [&'static str]> {
    TEMPLATES.iter().find(|(group, resource, _)| attributes.is(group, resource)).map(|(_, _, path)| *path)
}

fn policy_of(namespace: &Value) -> (Policy, rkube_machinery::field::Errors) {
    let labels: &Map = namespace.get("metadata").map("labels");
    Policy::of(|label| labels.get(label).map(Value::as_str))
}

fn warn(attributes: &mut Attributes<'_>, standard: Standard, pod: &Value) {
    let found = evaluate(standard, pod.get("metadata"), pod.get("spec"));
    if !found.is_empty() {
        attributes.warnings.push(format!("would violate PodSecurity \"{standard}\": {}", details(&found)));
    }
}

/// Everything that the standard forbids: by the name of the check, those of the lower level first.
fn evaluate(standard: Standard, metadata: &Value, spec: &Value) -> Vec<Violation> {
    let pod = policy::Pod { annotations: metadata.map("annotations"), spec, minor: standard.minor() };
    match standard.level {
        Level::Privileged => Vec::new(),
        Level::Baseline => baseline::check(&pod, &[]),
        Level::Restricted => {
            let mut found = baseline::check(&pod, restricted::replaces(pod.minor));
            found.extend(restricted::check(&pod));
            found
        }
    }
}

fn details(found: &[Violation]) -> String {
    let one = |violation: &Violation| match violation.detail.as_str() {
        "" => violation.reason.to_owned(),
        detail => format!("{} ({detail})", violation.reason),
    };
    found.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn counted(reasons: &str, name: &str, count: usize) -> String {
    match count {
        1 => format!("{name}: {reasons}"),
        2 => format!("{name} (and 1 other pod): {reasons}"),
        _ => format!("{name} (and {} other pods): {reasons}", count - 1),
    }
}

/// Pods of one controller are alike: one of each comes before the rest.
fn first_of_each_controller(pods: Vec<Value>) -> Vec<Value> {
    let mut seen = HashSet::new();
    let (mut first, mut rest) = (Vec::new(), Vec::new());
    for pod in pods {
        let owners = pod.get("metadata").list("ownerReferences").iter();
        let controller =
            owners.filter(|owner| owner.bool("controller")).map(|owner| owner.str("uid").to_owned()).next();
        match controller {
            Some(uid) if !seen.insert(uid.clone()) => rest.push(pod),
            _ => first.push(pod),
        }
    }
    first.extend(rest);
    first
}

/// Whether an update changes what runs.
fn runs_others(pod: &Value, old: &Value) -> bool {
    let (spec, before) = (pod.get("spec"), old.get("spec"));
    let differ = |field: &str| {
        let (new, old) = (spec.list(field), before.list(field));
        new.len() != old.len() || new.iter().zip(old).any(|(new, old)| new.str("image") != old.str("image"))
    };
    // The first of a name counts.
    let images: HashMap<&str, &str> =
        before.list("ephemeralContainers").iter().rev().map(|old| (old.str("name"), old.str("image"))).collect();
    let mut debuggers = spec.list("ephemeralContainers").iter();
    let added = debuggers.any(|one| images.get(one.str("name")) != Some(&one.str("image")));
    differ("containers") || differ("initContainers") || added
}

#[cfg(test)]
mod tests {
    use rkube_machinery::object;

    use super::*;

    fn found(level: &str, spec: &Value) -> String {
        let standard = Standard { level: Level::parse(level).unwrap(), version: None };
        details(&evaluate(standard, &Value::Null, spec))
    }

    #[test]
    fn a_plain_pod_is_no_restricted_one() {
        let spec = object! { "containers": vec![object! { "name": "c", "image": "i" }] };
        assert_eq!(found("baseline", &spec), "");
        assert_eq!(
            found("restricted", &spec),
            "allowPrivilegeEscalation != false (container \"c\" must set securityContext.allowPrivilegeEscalation=false), unrestricted capabilities (container \"c\" must set securityContext.capabilities.drop=[\"ALL\"]), runAsNonRoot != true (pod or container \"c\" must set securityContext.runAsNonRoot=true), seccompProfile (pod or container \"c\" must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\")"
        );
    }

    #[test]
    fn what_reaches_the_host_is_named() {
        let container = object! {
            "name": "c",
            "ports": vec![object! { "hostPort": 80 }],
            "securityContext": object! { "privileged": true, "capabilities": object! { "add": vec![Value::from("SYS_ADMIN")] } },
        };
        let spec = object! {
            "hostNetwork": true,
            "volumes": vec![object! { "name": "v", "hostPath": object! { "path": "/" } }],
            "containers": vec![container],
        };
        assert_eq!(
            found("baseline", &spec),
            "non-default capabilities (container \"c\" must not include \"SYS_ADMIN\" in securityContext.capabilities.add), host namespaces (hostNetwork=true), hostPath volumes (volume \"v\"), hostPort (container \"c\" uses hostPort 80), privileged (container \"c\" must not set securityContext.privileged=true)"
        );
        assert_eq!(found("privileged", &spec), "");
    }
}
