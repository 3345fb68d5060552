//! The rules of an aggregated role, by the roles that there are.

use std::sync::Arc;

use k8s_openapi::api::rbac::v1::PolicyRule;

use super::RoleView;

/// The rules of all roles that one of the selectors takes: by selector, then by name, each once. None for a role that is
/// no sum, or whose rules are these already.
pub fn missing_sum(role: &RoleView, all: &[Arc<RoleView>]) -> Option<Vec<PolicyRule>> {
    let selectors = role.selectors.as_ref()?;
    let mut parts: Vec<&RoleView> =
        all.iter().map(|part| &**part).filter(|part| part.item.name != role.item.name).collect();
    parts.sort_by(|one, other| one.item.name.cmp(&other.item.name));
    let mut sum: Vec<PolicyRule> = Vec::new();
    for selector in selectors {
        let chosen = parts.iter().filter(|part| selector.matches_pairs(|key| part.label(key)));
        for rule in chosen.flat_map(|part| part.rules()) {
            if !sum.contains(&rule) {
                sum.push(rule);
            }
        }
    }
    (sum != role.rules()).then_some(sum)
}

#[cfg(test)]
mod tests {
    use rkube_operator::Item;
    use serde_json::{Value, json};

    use super::*;

    fn view(role: &Value) -> Arc<RoleView> {
        let name = role["metadata"]["name"].as_str().unwrap();
        let item = Item {
            namespace: "".into(),
            name: name.into(),
            uid: "".into(),
            revision: 1,
            json: role.to_string().into(),
        };
        Arc::new(RoleView::read(&item).unwrap())
    }

    fn rule(verb: &str) -> Value {
        json!({ "verbs": [verb], "apiGroups": [""], "resources": ["pods"] })
    }

    fn part(name: &str, label: &str, verbs: &[&str]) -> Arc<RoleView> {
        let rules: Vec<Value> = verbs.iter().map(|verb| rule(verb)).collect();
        view(&json!({ "metadata": { "name": name, "labels": { "to": label } }, "rules": rules }))
    }

    fn sum(name: &str, labels: &[&str], verbs: &[&str]) -> Arc<RoleView> {
        let selectors: Vec<Value> = labels.iter().map(|label| json!({ "matchLabels": { "to": label } })).collect();
        let rules: Vec<Value> = verbs.iter().map(|verb| rule(verb)).collect();
        let aggregation = json!({ "clusterRoleSelectors": selectors });
        view(
            &json!({ "metadata": { "name": name, "labels": { "to": labels[0] } }, "rules": rules, "aggregationRule": aggregation }),
        )
    }

    fn verbs(role: &RoleView, all: &[Arc<RoleView>]) -> Option<Vec<String>> {
        missing_sum(role, all).map(|rules| rules.into_iter().flat_map(|rule| rule.verbs).collect())
    }

    #[test]
    fn sums_are_in_the_order_of_selectors_and_names() {
        let parts = vec![
            part("c", "x", &["get", "list"]),
            part("a", "x", &["watch", "list"]),
            part("b", "y", &["create", "get"]),
            part("d", "z", &["delete"]),
        ];
        let all = |role: &Arc<RoleView>| parts.iter().chain([role]).cloned().collect::<Vec<_>>();
        let new = sum("s", &["y", "x"], &[]);
        let want = ["create", "get", "watch", "list"];
        assert_eq!(verbs(&new, &all(&new)).unwrap(), want);
        let done = sum("s", &["y", "x"], &want);
        assert_eq!(verbs(&done, &all(&done)), None);
        assert_eq!(verbs(&parts[0], &parts), None, "no sum");
        // Nothing is left of what nobody says any more.
        let alone = sum("s", &["none"], &["get"]);
        assert_eq!(verbs(&alone, std::slice::from_ref(&alone)).unwrap(), Vec::<String>::new());
    }
}
