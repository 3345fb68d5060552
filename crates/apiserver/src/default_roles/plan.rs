//! What is to be done about a default role or binding, by what is there.
// tidy: types ClusterRole ClusterRoleBinding Role RoleBinding

use rkube_access::authorize::Rule;
use rkube_access::authorize::rbac::{Coverage, Uncovered};
use rkube_machinery::{Text, Value, object};

const AUTO_UPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";

#[derive(Debug, PartialEq)]
pub enum Plan {
    Nothing,
    /// What is there is to become this: it keeps what people have added.
    Update(Value),
    /// What is there binds another role, which cannot change.
    Recreate,
    /// Something is to be done, but people want it as it is.
    Protected,
}

/// `expected`: the default; `existing`: what is there.
pub fn plan(expected: &Value, existing: &Value) -> Plan {
    let is_protected = existing.get("metadata").get("annotations").str(AUTO_UPDATE) == "false";
    let plan = match expected.has("roleRef") {
        true => plan_binding(expected, existing),
        false => plan_role(expected, existing),
    };
    match plan {
        Plan::Nothing => Plan::Nothing,
        _ if is_protected => Plan::Protected,
        plan => plan,
    }
}

fn plan_role(expected: &Value, existing: &Value) -> Plan {
    let mut role = existing.clone();
    let mut changed = merge_metadata(expected, &mut role);
    if let Err(uncovered) = Coverage::of_role(existing).covers(&Rule::all_of(expected)) {
        let missing = match uncovered {
            Uncovered::Rules(rules) => rules.iter().map(rule_value).collect(),
            Uncovered::TooMany => expected.list("rules").to_vec(),
        };
        role.array_mut("rules").extend(missing);
        changed = true;
    }
    let (wanted, there) = (expected.get("aggregationRule"), existing.get("aggregationRule"));
    if wanted.is_null() && !there.is_null() {
        role.remove("aggregationRule");
        changed = true;
    }
    let known = there.list("clusterRoleSelectors");
    let missing: Vec<Value> =
        wanted.list("clusterRoleSelectors").iter().filter(|selector| !known.contains(selector)).cloned().collect();
    if !missing.is_empty() {
        role.object_mut("aggregationRule").array_mut("clusterRoleSelectors").extend(missing);
        changed = true;
    }
    if changed { Plan::Update(role) } else { Plan::Nothing }
}

fn plan_binding(expected: &Value, existing: &Value) -> Plan {
    let (wanted, there) = (expected.get("roleRef"), existing.get("roleRef"));
    if ["apiGroup", "kind", "name"].iter().any(|field| wanted.str(field) != there.str(field)) {
        return Plan::Recreate;
    }
    let mut binding = existing.clone();
    let mut changed = merge_metadata(expected, &mut binding);
    for subject in expected.list("subjects") {
        let is_subject = |other: &Value| {
            ["kind", "apiGroup", "name", "namespace"].iter().all(|field| subject.str(field) == other.str(field))
        };
        if !existing.list("subjects").iter().any(is_subject) {
            binding.array_mut("subjects").push(subject.clone());
            changed = true;
        }
    }
    if changed { Plan::Update(binding) } else { Plan::Nothing }
}

/// Adds labels and annotations that are missing; those that are there stay as they are.
fn merge_metadata(expected: &Value, object: &mut Value) -> bool {
    let mut changed = false;
    for field in ["labels", "annotations"] {
        for (key, value) in expected.get("metadata").map(field).iter() {
            if !object.get("metadata").get(field).has(key) {
                object.object_mut("metadata").object_mut(field).set(key, value.clone());
                changed = true;
            }
        }
    }
    changed
}

fn rule_value(rule: &Rule) -> Value {
    let texts = |texts: &[Text]| Value::Array(texts.iter().cloned().map(Value::from).collect());
    let mut value = object! { "verbs": texts(&rule.verbs) };
    let lists = [
        ("apiGroups", &rule.groups),
        ("resources", &rule.resources),
        ("resourceNames", &rule.names),
        ("nonResourceURLs", &rule.paths),
    ];
    for (field, list) in lists.into_iter().filter(|(_, list)| !list.is_empty()) {
        value.set(field, texts(list));
    }
    value
}

#[cfg(test)]
mod tests {
    use super::super::table::objects;
    use super::*;
    use crate::features::Features;

    fn default(kind: &str, name: &str) -> Value {
        let is = |object: &&Value| object.str("kind") == kind && object.get("metadata").str("name") == name;
        objects(&Features::default()).iter().find(is).unwrap().clone()
    }

    #[test]
    fn what_is_as_it_should_be_stays() {
        for object in objects(&Features::default()) {
            assert_eq!(plan(&object, &object), Plan::Nothing);
        }
    }

    #[test]
    fn what_is_missing_is_added_and_what_is_more_is_kept() {
        let role = default("ClusterRole", "system:basic-user");
        let extra = object! { "verbs": vec![Value::from("get")], "nonResourceURLs": vec![Value::from("/x")] };
        let mut changed = role.clone();
        *changed.array_mut("rules") = vec![extra.clone()];
        changed.object_mut("metadata").remove("annotations");
        changed.object_mut("metadata").object_mut("labels").set("mine", "yes");
        let Plan::Update(planned) = plan(&role, &changed) else { panic!("nothing is planned") };
        // What is missing comes in its smallest parts.
        assert_eq!(planned.list("rules").len(), 4);
        assert_eq!(planned.list("rules")[0], extra);
        assert_eq!(planned.get("metadata").get("annotations").str(AUTO_UPDATE), "true");
        assert_eq!(planned.get("metadata").map("labels").len(), 2);
        assert_eq!(plan(&role, &planned), Plan::Nothing);

        let binding = default("ClusterRoleBinding", "system:public-info-viewer");
        let mut changed = binding.clone();
        changed.array_mut("subjects").remove(0);
        let Plan::Update(planned) = plan(&binding, &changed) else { panic!("nothing is planned") };
        assert_eq!(planned.list("subjects").len(), 2);
        changed.object_mut("roleRef").set("name", "another");
        assert_eq!(plan(&binding, &changed), Plan::Recreate);
        changed.object_mut("metadata").object_mut("annotations").set(AUTO_UPDATE, "false");
        assert_eq!(plan(&binding, &changed), Plan::Protected);
        changed.object_mut("metadata").object_mut("annotations").set(AUTO_UPDATE, "true");
        changed.object_mut("roleRef").set("name", "system:public-info-viewer");
        let protected = |mut object: Value| {
            object.object_mut("metadata").object_mut("annotations").set(AUTO_UPDATE, "false");
            object
        };
        assert_eq!(plan(&binding, &protected(changed)), Plan::Protected);
        // To be protected alone is nothing to be done about.
        assert_eq!(plan(&binding, &protected(binding.clone())), Plan::Nothing);
    }

    #[test]
    fn sums_stay_sums() {
        let role = default("ClusterRole", "admin");
        let mut changed = role.clone();
        *changed.array_mut("rules") = default("ClusterRole", "cluster-admin").list("rules").to_vec();
        assert_eq!(plan(&role, &changed), Plan::Nothing);
        changed.remove("aggregationRule");
        let Plan::Update(planned) = plan(&role, &changed) else { panic!("nothing is planned") };
        assert_eq!(planned.get("aggregationRule"), role.get("aggregationRule"));
        let plain = default("ClusterRole", "cluster-admin");
        let mut changed = plain.clone();
        changed.set("aggregationRule", role.get("aggregationRule").clone());
        assert_eq!(plan(&plain, &changed), Plan::Update(plain));
    }
}
