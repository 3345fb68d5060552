//! What containers ask for and what they are limited to.

use std::collections::BTreeSet;

use rkube_machinery::field::{BadValue, ErrorType, Errors, Path};
use rkube_machinery::{Value, names};

use super::amounts;
use super::checks::{self, NOT_NEGATIVE, each};
use super::options::PodOptions;

/// Resources that have a meaning of their own without a domain.
const STANDARD: &[&str] = &[
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "storage",
    "requests.storage",
    "services.nodeports",
    "services.loadbalancers",
];

/// Of [`STANDARD`], those that are counted.
const COUNTED: &[&str] = &[
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];

/// The claims of a pod, by the names its containers use.
pub(super) type ClaimNames<'a> = BTreeSet<&'a str>;

type NameCheck = fn(Path<'_>, &str, &mut Errors);

/// The requirements of a container.
pub(super) fn validate_requirements(
    path: Path<'_>,
    requirements: &Value,
    claims: &ClaimNames<'_>,
    options: &PodOptions,
    errors: &mut Errors,
) {
    validate(path, requirements, validate_container_resource, claims, options, errors);
}

/// The requirements of a pod as a whole.
pub(super) fn validate_pod_requirements(
    path: Path<'_>,
    requirements: &Value,
    claims: &ClaimNames<'_>,
    options: &PodOptions,
    errors: &mut Errors,
) {
    validate(path, requirements, validate_pod_resource, claims, options, errors);
}

/// What a pod costs beyond its containers.
pub(crate) fn validate_overhead(path: Path<'_>, overhead: &Value, options: &PodOptions, errors: &mut Errors) {
    let mut requirements = Value::object();
    requirements.set("limits", overhead.clone());
    validate(path, &requirements, validate_container_resource, &ClaimNames::new(), options, errors);
}

fn validate(
    path: Path<'_>,
    requirements: &Value,
    check_name: NameCheck,
    claims: &ClaimNames<'_>,
    options: &PodOptions,
    errors: &mut Errors,
) {
    let (mut huge_pages, mut compute) = (false, false);
    let limits_path = path.child("limits");
    for field in ["limits", "requests"] {
        let path = path.child(field);
        for (name, amount) in requirements.map(field).iter() {
            let item = path.key(name);
            check_name(item, name, errors);
            validate_amount(item, name, amount, errors);
            if field == "requests" {
                match requirements.map("limits").get(name) {
                    Some(limit) => compare_with_limit(path, name, amount, limit, errors),
                    None if is_overcommit_allowed(name) => {}
                    None => errors.required(limits_path, "Limit must be set for non overcommitable resources"),
                }
            }
            if amounts::is_huge_page(name) {
                huge_pages = true;
                if !options.any_huge_pages && !amounts::divides(name, amount) {
                    let words = format!("{} is not positive integer multiple of {name}", amount.as_str());
                    errors.invalid(item, amount, words);
                }
            }
            compute |= name == "cpu" || name == "memory";
        }
    }
    if huge_pages && !compute {
        errors.forbidden(path, "HugePages require cpu or memory");
    }
    validate_claims(path.child("claims"), requirements.list("claims"), claims, errors);
}

/// The request for a resource against its limit.
fn compare_with_limit(path: Path<'_>, name: &str, amount: &Value, limit: &Value, errors: &mut Errors) {
    if amount == limit {
        return;
    }
    let order = amounts::of(amount).cmp(&amounts::of(limit));
    let limit = limit.as_str();
    if order.is_ne() && !is_overcommit_allowed(name) {
        errors.invalid(path, amount, format!("must be equal to {name} limit of {limit}"));
    } else if order.is_gt() {
        errors.invalid(path, amount, format!("must be less than or equal to {name} limit of {limit}"));
    }
}

/// An amount of a resource: not negative, and whole where the resource is counted.
pub(crate) fn validate_amount(path: Path<'_>, name: &str, amount: &Value, errors: &mut Errors) {
    if amounts::is_negative(amount) {
        errors.invalid(path, amount, NOT_NEGATIVE);
    }
    if (COUNTED.contains(&name) || is_extended(name)) && !amounts::is_whole(amount) {
        errors.invalid(path, amount, "must be an integer");
    }
}

fn validate_claims(path: Path<'_>, claims: &[Value], known: &ClaimNames<'_>, errors: &mut Errors) {
    let mut seen: BTreeSet<(&str, &str)> = BTreeSet::new();
    for (index, claim) in claims.iter().enumerate() {
        let path = path.index(index);
        let (name, request) = (claim.str("name"), claim.str("request"));
        if name.is_empty() {
            errors.required(path, "");
            continue;
        }
        if seen.contains(&(name, "")) {
            errors.duplicate(path, name);
        } else {
            if !request.is_empty() {
                checks::dns_label(path.child("request"), request, errors);
            }
            if seen.contains(&(name, request)) {
                errors.duplicate(path, format!("{name}/{request}"));
            } else if request.is_empty() {
                for _ in seen.range((name, "")..).take_while(|(other, _)| *other == name) {
                    errors.duplicate(path, name);
                }
            }
            seen.insert((name, request));
        }
        // All known names are said: not more often than anybody would read.
        if !known.contains(name) && !errors.is_full() {
            let names: Vec<&str> = known.iter().copied().collect();
            let words = "must be one of the names in pod.spec.resourceClaims";
            let words = match names.is_empty() {
                true => format!("{words} which is empty"),
                false => format!("{words}: {}", names.join(", ")),
            };
            errors.push(ErrorType::NotFound, path, Some(BadValue::from(name)), &words);
        }
    }
}

/// The name of a resource that Kubernetes knows, or one with a domain; says whether it is.
pub(crate) fn validate_resource(path: Path<'_>, name: &str, errors: &mut Errors) -> bool {
    let messages = names::qualified_name(name);
    if !messages.is_empty() {
        each(path, name, messages, errors);
        return false;
    }
    let standard = name.contains('/') || STANDARD.contains(&name) || is_quota_huge_page(name);
    if !standard {
        errors.invalid(path, name, "must be a standard resource type or fully qualified");
    }
    standard
}

/// The name of a resource that containers can have.
pub(crate) fn validate_container_resource(path: Path<'_>, name: &str, errors: &mut Errors) {
    if matches!(name, "cpu" | "memory" | "ephemeral-storage") {
        return;
    }
    validate_resource(path, name, errors);
    if !name.contains('/') {
        if !amounts::is_huge_page(name) {
            errors.invalid(path, name, "must be a standard resource for containers");
        }
    } else if !is_native(name) && !is_extended(name) {
        errors.invalid(path, name, "doesn't follow extended resource name standard");
    }
}

fn validate_pod_resource(path: Path<'_>, name: &str, errors: &mut Errors) {
    if validate_resource(path, name, errors) && !is_pod_level(name) {
        errors.not_supported(path, name, &["cpu", "hugepages-", "memory"]);
    }
}

/// Resources that a pod can have as a whole.
pub(crate) fn is_pod_level(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || amounts::is_huge_page(name)
}

/// Huge pages by the names that containers and quotas use.
pub(crate) fn is_quota_huge_page(name: &str) -> bool {
    amounts::is_huge_page(name) || name.starts_with("requests.hugepages-")
}

/// Resources of Kubernetes itself.
pub(crate) fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Resources of others.
pub(crate) fn is_extended(name: &str) -> bool {
    !is_native(name) && !name.starts_with("requests.") && names::qualified_name(&format!("requests.{name}")).is_empty()
}

/// Whether requests may be lower than limits.
pub(crate) fn is_overcommit_allowed(name: &str) -> bool {
    is_native(name) && !amounts::is_huge_page(name)
}
