//! The flow schemas that every cluster has, unchangeable: `exempt` and `catch-all`.

use rkube_machinery::{Value, object};

use crate::fields::texts;

/// Whether this is not the spec of a fixed schema, or is what that one's must be.
pub fn is_as_fixed(name: &str, spec: &Value) -> bool {
    match name {
        "exempt" => is_all_of(spec, "exempt", 1, None, &["system:masters"]),
        "catch-all" => {
            is_all_of(spec, "catch-all", 10000, Some("ByUser"), &["system:unauthenticated", "system:authenticated"])
        }
        _ => true,
    }
}

/// All requests of these groups go to this level.
fn is_all_of(spec: &Value, level: &str, precedence: i64, method: Option<&str>, groups: &[&str]) -> bool {
    let distinguisher = spec.get("distinguisherMethod");
    let [rule] = spec.list("rules") else { return false };
    let ([resources], [urls]) = (rule.list("resourceRules"), rule.list("nonResourceRules")) else { return false };
    let everything = |rule: &Value, fields: &[&str]| fields.iter().all(|field| texts(rule, field).eq(["*"]));
    let is_group = |subject: &Value| {
        subject.str("kind") == "Group" && subject.has("group") && !subject.has("user") && !subject.has("serviceAccount")
    };
    spec.get("priorityLevelConfiguration").str("name") == level
        && spec.int("matchingPrecedence") == precedence
        && distinguisher.is_null() == method.is_none()
        && distinguisher.str("type") == method.unwrap_or_default()
        && rule.list("subjects").iter().all(is_group)
        && rule.list("subjects").iter().map(|subject| subject.get("group").str("name")).eq(groups.iter().copied())
        && everything(resources, &["verbs", "apiGroups", "resources", "namespaces"])
        && resources.bool("clusterScope")
        && everything(urls, &["verbs", "nonResourceURLs"])
}

/// The spec as a message shows it: fields by Go's names, all of them.
pub fn shown(spec: &Value) -> Value {
    object! {
        "PriorityLevelConfiguration": object! { "Name": spec.get("priorityLevelConfiguration").str("name") },
        "MatchingPrecedence": spec.int("matchingPrecedence"),
        "DistinguisherMethod": pointer(spec.get("distinguisherMethod"), |method| object! { "Type": method.str("type") }),
        "Rules": list(spec.get("rules"), |rule| object! {
            "Subjects": list(rule.get("subjects"), subject),
            "ResourceRules": list(rule.get("resourceRules"), |rule| object! {
                "Verbs": rule.get("verbs").clone(), "APIGroups": rule.get("apiGroups").clone(),
                "Resources": rule.get("resources").clone(), "ClusterScope": rule.bool("clusterScope"),
                "Namespaces": rule.get("namespaces").clone(),
            }),
            "NonResourceRules": list(rule.get("nonResourceRules"), |rule| object! {
                "Verbs": rule.get("verbs").clone(), "NonResourceURLs": rule.get("nonResourceURLs").clone(),
            }),
        }),
    }
}

fn subject(subject: &Value) -> Value {
    let named = |who: &Value| object! { "Name": who.str("name") };
    object! {
        "Kind": subject.str("kind"),
        "User": pointer(subject.get("user"), named),
        "Group": pointer(subject.get("group"), named),
        "ServiceAccount": pointer(subject.get("serviceAccount"), |account| object! {
            "Namespace": account.str("namespace"), "Name": account.str("name"),
        }),
    }
}

fn pointer(value: &Value, form: impl Fn(&Value) -> Value) -> Value {
    if value.is_null() { Value::Null } else { form(value) }
}

fn list(value: &Value, form: impl Fn(&Value) -> Value) -> Value {
    pointer(value, |value| Value::Array(value.items().iter().map(&form).collect()))
}

#[cfg(test)]
mod tests {
    use rkube_machinery::json;

    use super::*;

    fn exempt() -> Value {
        let all = || Value::from(vec![Value::from("*")]);
        object! {
            "priorityLevelConfiguration": object! { "name": "exempt" }, "matchingPrecedence": 1,
            "rules": vec![object! {
                "subjects": vec![object! { "kind": "Group", "group": object! { "name": "system:masters" } }],
                "resourceRules": vec![object! {
                    "verbs": all(), "apiGroups": all(), "resources": all(), "clusterScope": true, "namespaces": all(),
                }],
                "nonResourceRules": vec![object! { "verbs": all(), "nonResourceURLs": all() }],
            }],
        }
    }

    #[test]
    fn fixed_ones_are_known() {
        let mut spec = exempt();
        assert!(is_as_fixed("exempt", &spec));
        assert!(is_as_fixed("mine", &spec));
        assert!(!is_as_fixed("catch-all", &spec));
        spec.set("matchingPrecedence", 2);
        assert!(!is_as_fixed("exempt", &spec));
    }

    #[test]
    fn shown_as_go_does() {
        assert_eq!(
            json::to_string(&shown(&exempt())),
            "{\"PriorityLevelConfiguration\":{\"Name\":\"exempt\"},\"MatchingPrecedence\":1,\
             \"DistinguisherMethod\":null,\"Rules\":[{\"Subjects\":[{\"Kind\":\"Group\",\"User\":null,\
             \"Group\":{\"Name\":\"system:masters\"},\"ServiceAccount\":null}],\"ResourceRules\":[{\"Verbs\":[\"*\"],\
             \"APIGroups\":[\"*\"],\"Resources\":[\"*\"],\"ClusterScope\":true,\"Namespaces\":[\"*\"]}],\
             \"NonResourceRules\":[{\"Verbs\":[\"*\"],\"NonResourceURLs\":[\"*\"]}]}]}"
        );
    }
}
