//! The index against a twin that looks at every binding and every rule, over random roles and bindings.

use rkube_catalog::Snapshot;
use rkube_machinery::{Text, Value, json, object};

use super::*;
use crate::authorize::{Authorizers, Mode, ResourceAttributes};
use crate::{AUTHENTICATED, MASTERS};

const SETS: usize = 10_000;
const SEED: u64 = 0x2545_f491_4f6c_dd1d;

struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) as usize % end
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }

    fn some(&mut self, of: &[&str], max: usize) -> Vec<Value> {
        (0..self.below(max) + 1).map(|_| Value::from(self.one(of))).collect()
    }
}

const VERBS: &[&str] = &["get", "list", "create", "*"];
const GROUPS: &[&str] = &["", "apps", "*"];
const RESOURCES: &[&str] = &["pods", "pods/log", "deployments", "deployments/scale", "*/scale", "*"];
const NAMES: &[&str] = &["a", "b", ""];
const PATHS: &[&str] = &["/x", "/x/*", "/y", "*", "/x/y**"];
const NAMESPACES: &[&str] = &["n1", "n2"];
const ROLES: &[&str] = &["r0", "r1", "r2", "r3", "r4"];

fn rule(dice: &mut Dice) -> Value {
    if dice.below(4) == 0 {
        return object! { "verbs": dice.some(VERBS, 2), "nonResourceURLs": dice.some(PATHS, 2) };
    }
    let mut rule = object! {
        "verbs": dice.some(VERBS, 2), "apiGroups": dice.some(GROUPS, 2), "resources": dice.some(RESOURCES, 2),
    };
    if dice.below(3) == 0 {
        rule.set("resourceNames", dice.some(NAMES, 2));
    }
    rule
}

fn role(dice: &mut Dice) -> Value {
    let rules: Vec<Value> = (0..dice.below(3)).map(|_| rule(dice)).collect();
    object! { "rules": rules }
}

fn binding(dice: &mut Dice, role: &str) -> Value {
    let kind = if dice.below(2) == 0 { "Role" } else { "ClusterRole" };
    let subjects: Vec<Value> = (0..dice.below(3))
        .map(|_| match dice.below(4) {
            0 => object! { "kind": "User", "name": dice.one(&["u1", "u2", "system:serviceaccount:n1:s"]) },
            1 => object! { "kind": "ServiceAccount", "name": "s", "namespace": dice.one(&["", "n1", "n2"]) },
            _ => object! { "kind": "Group", "name": dice.one(&["g1", "g2"]) },
        })
        .collect();
    object! { "subjects": subjects, "roleRef": object! { "kind": kind, "name": role } }
}

/// What is stored, without any order.
#[derive(Default)]
struct Twin {
    roles: Vec<(ObjectName, Value)>,
    bindings: Vec<(ObjectName, Value)>,
}

impl Twin {
    fn put(of: &mut Vec<(ObjectName, Value)>, name: &ObjectName, object: Option<Value>) {
        of.retain(|(other, _)| other != name);
        of.extend(object.map(|object| (name.clone(), object)));
    }

    fn bound<'a>(
        &'a self,
        user: &'a User,
        namespace: &'a str,
    ) -> impl Iterator<Item = (ObjectName, Option<&'a Value>)> {
        let here = move |name: &ObjectName| name.namespace.is_empty() || name.namespace == namespace;
        let bindings = self.bindings.iter().filter(move |(name, binding)| here(name) && is_bound(user, name, binding));
        bindings.map(|(name, binding)| {
            let reference = binding.get("roleRef");
            let namespace = if reference.str("kind") == "Role" { name.namespace.clone() } else { Text::default() };
            let wanted = ObjectName { namespace, name: reference.str("name").into() };
            let role = self.roles.iter().find(|(name, _)| *name == wanted).map(|(_, role)| role);
            (wanted, role)
        })
    }

    fn allows(&self, user: &User, asked: &Attributes<'_>) -> bool {
        self.bound(user, asked.namespace())
            .any(|(_, role)| role.is_some_and(|role| role.list("rules").iter().any(|rule| rule_allows(rule, asked))))
    }
}

fn is_bound(user: &User, binding_name: &ObjectName, binding: &Value) -> bool {
    binding.list("subjects").iter().any(|subject| match subject.str("kind") {
        "User" => subject.str("name") == user.name,
        "Group" => user.is_in(subject.str("name")),
        _ => {
            let own = subject.str("namespace");
            let namespace = if own.is_empty() { binding_name.namespace.as_str() } else { own };
            !namespace.is_empty() && user.name == format!("system:serviceaccount:{namespace}:{}", subject.str("name"))
        }
    })
}

fn rule_allows(rule: &Value, asked: &Attributes<'_>) -> bool {
    let has = |field: &str, wanted: &str| rule.list(field).iter().any(|one| one.as_str() == wanted);
    let any = |field: &str, wanted: &str| has(field, "*") || has(field, wanted);
    match asked {
        Attributes::Path { verb, path } => {
            let fits = |pattern: &str| match pattern.strip_suffix('*') {
                Some(start) => path.starts_with(start.trim_end_matches('*')),
                None => pattern == *path,
            };
            any("verbs", verb) && rule.list("nonResourceURLs").iter().any(|pattern| fits(pattern.as_str()))
        }
        Attributes::Resource(asked) => {
            let resource = match asked.subresource {
                "" => any("resources", asked.resource),
                part => {
                    any("resources", &format!("{}/{part}", asked.resource)) || has("resources", &format!("*/{part}"))
                }
            };
            let named = rule.list("resourceNames").is_empty() || has("resourceNames", asked.name);
            any("verbs", asked.verb) && any("apiGroups", asked.group) && resource && named
        }
    }
}

fn users() -> Vec<User> {
    let user = |name: &str, groups: &[&str]| User {
        name: name.into(),
        groups: groups.iter().map(|group| (*group).into()).collect(),
        ..User::default()
    };
    vec![user("u1", &[]), user("u2", &["g1"]), user("system:serviceaccount:n1:s", &["g2", "g1"]), user("", &["g2"])]
}

fn question<'a>(dice: &mut Dice) -> Attributes<'a> {
    let verb = dice.one(&["get", "list", "delete", "create"]);
    if dice.below(4) == 0 {
        return Attributes::Path { verb, path: dice.one(&["/x", "/x/y", "/y", "/z", "/x/yz"]) };
    }
    Attributes::Resource(ResourceAttributes {
        verb,
        group: dice.one(&["", "apps", "batch"]),
        resource: dice.one(&["pods", "deployments", "jobs"]),
        subresource: dice.one(&["", "", "log", "scale"]),
        namespace: dice.one(&["", "n1", "n2", "n3"]),
        name: dice.one(&["", "a", "c"]),
        ..ResourceAttributes::default()
    })
}

fn check(index: &Index, twin: &Twin, dice: &mut Dice, set: usize) {
    for user in users() {
        for _ in 0..4 {
            let asked = question(dice);
            let namespace = asked.namespace();
            let found = index.allows(&user, namespace, &Asked::of(&asked));
            assert_eq!(found, twin.allows(&user, &asked), "set {set}: {user:?} {asked:?}");
            let missing: BTreeSet<ObjectName> =
                twin.bound(&user, namespace).filter(|(_, role)| role.is_none()).map(|(name, _)| name).collect();
            assert_eq!(index.missing(&user, namespace), missing, "set {set}: {user:?} {asked:?}");
        }
    }
}

#[test]
fn the_index_knows_what_a_look_at_everything_knows() {
    let mut dice = Dice(SEED);
    for set in 0..SETS {
        let (mut index, mut twin) = (Index::default(), Twin::default());
        // Now and then many roles, so that they are combined.
        let many: Vec<String> = (0..50).map(|number| format!("m{number}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let (names, steps) = if set % 100 == 0 { (many.as_slice(), 300) } else { (ROLES, 12) };
        for step in 0..steps {
            let namespace = dice.one(&["", "n1", "n2"]);
            let name = ObjectName { namespace: namespace.into(), name: dice.one(names).into() };
            let is_removed = dice.below(5) == 0;
            if dice.below(2) == 0 {
                let object = (!is_removed).then(|| role(&mut dice));
                match &object {
                    Some(role) => index.put_role(name.clone(), role),
                    None => index.remove_role(&name),
                }
                Twin::put(&mut twin.roles, &name, object);
            } else {
                let object = (!is_removed).then(|| {
                    let role = dice.one(names).to_owned();
                    binding(&mut dice, &role)
                });
                match &object {
                    Some(binding) => index.put_binding(name.clone(), binding),
                    None => index.remove_binding(&name),
                }
                Twin::put(&mut twin.bindings, &name, object);
            }
            if step % 4 == 3 && (steps < 100 || step % 50 > 45) {
                check(&index, &twin, &mut dice, set);
            }
        }
        index.retain_bindings(|_| false);
        assert!(index.is_empty(), "set {set}: something is left");
        assert!(NAMESPACES.iter().all(|namespace| index.bindings_of(&users()[1], namespace).is_empty()));
    }
}

/// A catalog whose caches hold these objects.
fn catalog(objects: &[(&str, &str)]) -> Snapshot {
    let catalog = Snapshot::unfed(rkube_kinds::all());
    fill(&catalog, objects, 1);
    catalog
}

fn fill(catalog: &Snapshot, objects: &[(&str, &str)], revision: u64) {
    for resource in ["roles", "clusterroles", "rolebindings", "clusterrolebindings"] {
        let of = objects.iter().filter(|(name, _)| *name == resource);
        let values: Vec<Value> = of.map(|(_, text)| json::parse(text.as_bytes()).unwrap()).collect();
        catalog.resource(GROUP, "v1", resource).unwrap().fill(&values, revision);
    }
}

const READER: (&str, &str) = (
    "clusterroles",
    r#"{"metadata":{"name":"reader"},"rules":[{"verbs":["get"],"apiGroups":[""],"resources":["pods"]},
        {"verbs":["get"],"nonResourceURLs":["/x"]}]}"#,
);
const BOUND: (&str, &str) = (
    "clusterrolebindings",
    r#"{"metadata":{"name":"b"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"reader"},
        "subjects":[{"kind":"Group","name":"other"},{"kind":"ServiceAccount","name":"s","namespace":"n"},
        {"kind":"Group","name":"system:authenticated"}]}"#,
);
const BOUND_HERE: (&str, &str) = (
    "rolebindings",
    r#"{"metadata":{"name":"here","namespace":"n"},"roleRef":{"kind":"Role","name":"gone"},
        "subjects":[{"kind":"User","name":"u"},{"kind":"ServiceAccount","name":"s"}]}"#,
);

fn asks<'a>(verb: &'a str, resource: &'a str, namespace: &'a str) -> Attributes<'a> {
    Attributes::Resource(ResourceAttributes { verb, resource, namespace, ..ResourceAttributes::default() })
}

#[test]
fn decisions_come_with_their_reasons() {
    let catalog = catalog(&[READER, BOUND, BOUND_HERE]);
    let authorizers = Authorizers::new(&catalog);
    let user = |name: &str, group: &str| User { name: name.into(), groups: vec![group.into()], ..User::default() };
    let table = [
        (
            user("u", AUTHENTICATED),
            asks("get", "pods", "n"),
            Decision::Allow,
            r#"RBAC: allowed by ClusterRoleBinding "b" of ClusterRole "reader" to Group "system:authenticated""#,
        ),
        (
            user("system:serviceaccount:n:s", ""),
            Attributes::Path { verb: "get", path: "/x" },
            Decision::Allow,
            r#"RBAC: allowed by ClusterRoleBinding "b" of ClusterRole "reader" to ServiceAccount "s/n""#,
        ),
        (
            user("u", AUTHENTICATED),
            asks("list", "pods", "n"),
            Decision::NoOpinion,
            r#"RBAC: role.rbac.authorization.k8s.io "gone" not found"#,
        ),
        (user("u", AUTHENTICATED), asks("list", "pods", ""), Decision::NoOpinion, ""),
        (user("u", ""), asks("get", "pods", "m"), Decision::NoOpinion, ""),
        (user("u", MASTERS), asks("get", "pods", "m"), Decision::Allow, ""),
    ];
    for (user, asked, decision, reason) in table {
        let verdict = authorizers.verdict(&user, &asked);
        assert_eq!((verdict.decision, verdict.reason.as_str()), (decision, reason), "{user:?} {asked:?}");
        assert_eq!(authorizers.allow(&user, &asked), decision == Decision::Allow);
    }
    let rules = authorizers.rules(&user("system:serviceaccount:n:s", AUTHENTICATED), "n");
    assert_eq!((rules.rules.len(), rules.is_incomplete), (2, false));
    assert_eq!(rules.error, r#"role.rbac.authorization.k8s.io "gone" not found"#);
    assert!(authorizers.rules(&user("nobody", ""), "n").rules.is_empty());
}

#[test]
fn what_is_stored_counts_at_once() {
    let catalog = catalog(&[READER]);
    let authorizers = Authorizers::new(&catalog);
    let user = User { groups: vec![AUTHENTICATED.into()], ..User::default() };
    let asked = asks("get", "pods", "n");
    assert!(!authorizers.allow(&user, &asked));
    fill(&catalog, &[READER, BOUND], 2);
    assert!(authorizers.allow(&user, &asked));
    fill(&catalog, &[BOUND], 3);
    assert!(!authorizers.allow(&user, &asked));
    let reason = authorizers.verdict(&user, &asked).reason;
    assert_eq!(reason, r#"RBAC: clusterrole.rbac.authorization.k8s.io "reader" not found"#);
    fill(&catalog, &[READER], 4);
    assert_eq!(authorizers.verdict(&user, &asked).reason, "");
}

fn rules(text: &str) -> Vec<Rule> {
    Rule::all_of(&json::parse(text.as_bytes()).unwrap())
}

#[test]
fn rules_cover_others() {
    let owned = Coverage::of_role(
        &json::parse(
            br#"{"rules":[{"verbs":["get","list"],"apiGroups":[""],"resources":["pods","*/scale"]},
                {"verbs":["*"],"apiGroups":["*"],"resources":["jobs"],"resourceNames":["a"]},
                {"verbs":["get"],"nonResourceURLs":["/x/*"]}]}"#,
        )
        .unwrap(),
    );
    let table = [
        (r#"{"verbs":["get"],"apiGroups":[""],"resources":["pods"]}"#, ""),
        (r#"{"verbs":["get"],"apiGroups":[""],"resources":["pods"],"resourceNames":["z"]}"#, ""),
        (r#"{"verbs":["get"],"apiGroups":[""],"resources":["any/scale","*/scale"]}"#, ""),
        (r#"{"verbs":["*"],"apiGroups":["*"],"resources":["jobs"],"resourceNames":["a"]}"#, ""),
        (r#"{"verbs":["get"],"nonResourceURLs":["/x/y","/x/*"]}"#, ""),
        (
            r#"{"verbs":["get","delete","*"],"apiGroups":["","apps"],"resources":["pods"]}"#,
            "{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"delete\" \"*\"]}\n\
             {APIGroups:[\"apps\"], Resources:[\"pods\"], Verbs:[\"get\" \"delete\" \"*\"]}",
        ),
        (
            r#"{"verbs":["get"],"apiGroups":["batch"],"resources":["jobs"]}"#,
            r#"{APIGroups:["batch"], Resources:["jobs"], Verbs:["get"]}"#,
        ),
        (
            r#"{"verbs":["get"],"apiGroups":["batch"],"resources":["jobs"],"resourceNames":["a","b"]}"#,
            r#"{APIGroups:["batch"], Resources:["jobs"], ResourceNames:["b"], Verbs:["get"]}"#,
        ),
        (
            r#"{"verbs":["get","put"],"nonResourceURLs":["/x","/x/y"]}"#,
            "{NonResourceURLs:[\"/x\"], Verbs:[\"get\"]}\n{NonResourceURLs:[\"/x\"], Verbs:[\"put\"]}\n\
             {NonResourceURLs:[\"/x/y\"], Verbs:[\"put\"]}",
        ),
    ];
    for (rule, missing) in table {
        let found = owned.covers(&rules(&format!(r#"{{"rules":[{rule}]}}"#)));
        assert_eq!(found.err().map(|uncovered| uncovered.describe()).unwrap_or_default(), missing, "{rule}");
    }
    let many: Vec<Text> = (0..1000).map(|number| format!("x{number}").into()).collect();
    let huge = Rule { verbs: many.clone(), groups: many.clone(), resources: many, ..Rule::default() };
    assert_eq!(owned.covers(&[huge]), Err(Uncovered::TooMany));
}

#[test]
fn modes_say_who_is_asked() {
    let catalog = catalog(&[]);
    let asked = asks("get", "pods", "n");
    assert!(!Authorizers::new(&catalog).allow(&User::default(), &asked));
    let open = Authorizers::of_modes(&catalog, &[Mode::Rbac, Mode::AlwaysAllow]);
    assert!(open.allow(&User::default(), &asked));
    assert_eq!(open.rules(&User::default(), "n").rules.len(), 2);
}
