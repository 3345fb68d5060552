//! Whether a webhook is to be asked about a request, and in which version of its objects.

use rkube_catalog::Catalog;
use rkube_machinery::selector::labels::Selector;
use rkube_machinery::{GroupResource, Status, Value};

use super::form::Target;
use super::hook::Hook;
use super::rules::{Asked, Rule};
use crate::Attributes;

/// Kinds that decide what webhooks and policies do are never shown to webhooks, so that nobody locks themselves out.
const EXEMPT_GROUP: &str = "admissionregistration.k8s.io";
const EXEMPT_KINDS: [&str; 6] = [
    "ValidatingWebhookConfiguration",
    "MutatingWebhookConfiguration",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
];

pub fn is_exempt(attributes: &Attributes<'_>) -> bool {
    let group = attributes.kind.api_version.rsplit_once('/').map_or("", |(group, _)| group);
    group == EXEMPT_GROUP && EXEMPT_KINDS.contains(&attributes.kind.kind)
}

/// In which version the webhook is to see the request; none where it is not asked. `object` is the new one as it is now.
pub fn target(
    hook: &Hook,
    attributes: &Attributes<'_>,
    object: &Value,
    catalog: &Catalog,
) -> Result<Option<Target>, Status> {
    let Some(target) = by_rules(hook, attributes, catalog) else { return Ok(None) };
    let namespace = in_namespace(hook, attributes, object, catalog);
    if namespace == Ok(false) {
        return Ok(None);
    }
    let selected = selected(hook, attributes, object);
    if selected == Ok(false) {
        return Ok(None);
    }
    namespace.and(selected).map(|_| Some(target))
}

/// Rules are tried on what the request names first, then, where the webhook wants it, on what is the same objects.
fn by_rules(hook: &Hook, attributes: &Attributes<'_>, catalog: &Catalog) -> Option<Target> {
    let served = attributes.served;
    let kind = &served.kind;
    let asked = Asked {
        operation: attributes.operation,
        group: &kind.group,
        version: &kind.version,
        resource: &kind.resource,
        subresource: attributes.subresource,
        namespace: attributes.namespace,
    };
    if hook.matches(&asked) {
        return Some(Target::Own);
    }
    // Most webhooks that do not match are not about this resource at all.
    let is_about = |rule: &Rule| {
        rule.operations.has(asked.operation) && rule.resources().any(|name| name == "*" || *name == kind.resource)
    };
    if !hook.equivalent || !hook.rules.iter().any(is_about) {
        return None;
    }
    let snapshot = catalog.snapshot();
    let others = || {
        snapshot.named(&kind.resource).iter().filter(|other| {
            other.api_version != served.api_version
                && other.is_equivalent(served)
                && (asked.subresource.is_empty() || other.kind.subresource(asked.subresource).is_some())
        })
    };
    // Earlier rules count first.
    hook.rules.iter().find_map(|rule| {
        let mut others = others();
        let found = others
            .find(|other| rule.matches(&Asked { group: &other.kind.group, version: &other.kind.version, ..asked }));
        found.cloned().map(Target::Other)
    })
}

fn in_namespace(hook: &Hook, attributes: &Attributes<'_>, object: &Value, catalog: &Catalog) -> Result<bool, Status> {
    let is_about_namespaces = attributes.served.kind.resource == "namespaces";
    if attributes.namespace.is_empty() && !is_about_namespaces {
        return Ok(true);
    }
    let selector = hook.namespaces.as_ref().map_err(Status::internal)?;
    if selector.is_everything() {
        return Ok(true);
    }
    if is_about_namespaces && attributes.subresource.is_empty() && attributes.is_create_or_update() {
        return Ok(selector.matches(object.get("metadata").map("labels")));
    }
    let namespaces = catalog.resource("", "v1", "namespaces");
    let found = namespaces.and_then(|namespaces| namespaces.find("", attributes.namespace));
    match found {
        Some(namespace) => Ok(selector.matches_pairs(|key| namespace.object.label(key))),
        None => Err(Status::not_found(&GroupResource::new("", "namespaces"), attributes.namespace)),
    }
}

/// Whether the object is selected, as it was or as it is to be.
fn selected(hook: &Hook, attributes: &Attributes<'_>, object: &Value) -> Result<bool, Status> {
    let selector = hook.objects.as_ref().map_err(Status::internal)?;
    if selector.is_everything() {
        return Ok(true);
    }
    Ok(is_selected(selector, object) || attributes.old.is_some_and(|old| is_selected(selector, old)))
}

/// What has no metadata is selected by nobody.
fn is_selected(selector: &Selector, object: &Value) -> bool {
    let metadata = object.get("metadata");
    !metadata.is_null() && selector.matches(metadata.map("labels"))
}
