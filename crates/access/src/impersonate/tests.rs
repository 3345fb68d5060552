//! Who may act as whom, by which right, and what the others are told.

use super::*;
use crate::authorize::ResourceAttributes;

fn user(name: &str, groups: &[&str]) -> User {
    User { name: name.into(), groups: groups.iter().map(|group| (*group).into()).collect(), ..User::default() }
}

/// `verb group/resource/subresource namespace/name` or `verb path`.
fn words(attributes: &Attributes<'_>) -> String {
    match *attributes {
        Attributes::Path { verb, path } => format!("{verb} {path}"),
        Attributes::Resource(ResourceAttributes { verb, group, resource, subresource, namespace, name, .. }) => {
            format!("{verb} {group}/{resource}/{subresource} {namespace}/{name}")
        }
    }
}

fn listing_pods() -> Attributes<'static> {
    let asked =
        ResourceAttributes { verb: "list", version: "v1", resource: "pods", namespace: "n", ..Default::default() };
    Attributes::Resource(asked)
}

fn allow(allowed: bool) -> Result<(), String> {
    if allowed { Ok(()) } else { Err(String::new()) }
}

/// Asks as `requester`, who is allowed what `rights` say.
fn ask(requester: &User, wanted: &User, rights: &[&str]) -> Result<Impersonated, Denied> {
    let allows = |_: &User, attributes: &Attributes<'_>| allow(rights.contains(&words(attributes).as_str()));
    Impersonation::default().decide(wanted, requester, &listing_pods(), &allows)
}

fn shown(found: &Impersonated) -> String {
    format!("{} {} [{}]", found.user.name, found.user.groups.join(","), found.constraint)
}

#[test]
fn rights_decide_as_whom() {
    const ON: &str = "impersonate-on:user-info:list /pods/ n/";
    let table: &[(User, &[&str], &str)] = &[
        (user("bob", &[]), &["impersonate /users/ /bob"], "bob system:authenticated []"),
        (
            user("bob", &[]),
            &[ON, "impersonate:user-info authentication.k8s.io/users/ /bob"],
            "bob system:authenticated [impersonate:user-info]",
        ),
        (
            user("bob", &["a", "system:masters"]),
            &["impersonate /users/ /bob", "impersonate /groups/ /a", "impersonate /groups/ /system:masters"],
            "bob a,system:masters,system:authenticated []",
        ),
        (
            user("bob", &["system:unauthenticated"]),
            &["impersonate /users/ /bob", "impersonate /groups/ /system:unauthenticated"],
            "bob system:unauthenticated []",
        ),
        (
            user("system:anonymous", &[]),
            &["impersonate /users/ /system:anonymous"],
            "system:anonymous system:unauthenticated []",
        ),
        (
            user("bob", &["a", "b", "c", "d"]),
            &[
                ON,
                "impersonate:user-info authentication.k8s.io/users/ /bob",
                "impersonate:user-info authentication.k8s.io/groups/ /*",
            ],
            "bob a,b,c,d,system:authenticated [impersonate:user-info]",
        ),
        (
            user("system:serviceaccount:n:a", &[]),
            &["impersonate /serviceaccounts/ n/a"],
            "system:serviceaccount:n:a system:serviceaccounts,system:serviceaccounts:n,system:authenticated []",
        ),
        (
            user("system:serviceaccount:n:a", &["b"]),
            &["impersonate /serviceaccounts/ n/a", "impersonate /groups/ /b"],
            "system:serviceaccount:n:a b,system:authenticated []",
        ),
        (
            user("system:serviceaccount:n:a", &[]),
            &[
                "impersonate-on:serviceaccount:list /pods/ n/",
                "impersonate:serviceaccount authentication.k8s.io/serviceaccounts/ n/a",
            ],
            "system:serviceaccount:n:a system:serviceaccounts,system:serviceaccounts:n,system:authenticated [impersonate:serviceaccount]",
        ),
        (
            user("system:node:m", &[]),
            &[
                "impersonate-on:arbitrary-node:list /pods/ n/",
                "impersonate:arbitrary-node authentication.k8s.io/nodes/ /m",
            ],
            "system:node:m system:nodes,system:authenticated [impersonate:arbitrary-node]",
        ),
        // The old way knows no nodes.
        (user("system:node:m", &[]), &["impersonate /users/ /system:node:m"], "system:node:m system:authenticated []"),
    ];
    for (wanted, rights, want) in table {
        let found = ask(&user("alice", &[]), wanted, rights).map(|found| shown(&found));
        assert_eq!(found.as_deref(), Ok(*want), "{wanted:?}");
        // None of the rights can be spared.
        for spared in 0..rights.len() {
            let fewer: Vec<&str> =
                rights.iter().enumerate().filter(|(at, _)| *at != spared).map(|(_, right)| *right).collect();
            assert!(ask(&user("alice", &[]), wanted, &fewer).is_err(), "{wanted:?} without {}", rights[spared]);
        }
    }
}

#[test]
fn refusals_are_of_the_first_mode() {
    let extra = |key: &str, value: &str| User { extra: vec![(key.into(), vec![value.into()])], ..user("bob", &[]) };
    const ON: &str = "impersonate-on:user-info:list /pods/ n/";
    const AS_BOB: &str = "impersonate:user-info authentication.k8s.io/users/ /bob";
    let cannot = |verb: &str, resource: &str| {
        format!(
            r#"User "alice" cannot {verb} resource "{resource}" in API group "authentication.k8s.io" at the cluster scope"#
        )
    };
    let groups = cannot("impersonate:user-info", "groups");
    let extras = cannot("impersonate:user-info", "userextras");
    let table: Vec<(User, &[&str], &str, String)> = vec![
        (
            user("bob", &[]),
            &[],
            "pods.",
            r#"User "alice" cannot impersonate-on:user-info:list resource "pods" in API group "" in the namespace "n""#
                .to_owned(),
        ),
        (user("bob", &[]), &[ON], "users.authentication.k8s.io bob", cannot("impersonate:user-info", "users")),
        (user("bob", &["a"]), &[ON, AS_BOB], "groups.authentication.k8s.io a", groups.clone()),
        (
            user("bob", &["system:masters"]),
            &[ON, AS_BOB],
            "groups.authentication.k8s.io system:masters",
            format!("{groups}: impersonating the system:masters group is not allowed"),
        ),
        (
            user("bob", &[""]),
            &[ON, AS_BOB],
            "groups.authentication.k8s.io ",
            format!("{groups}: impersonating the empty string group is not allowed"),
        ),
        (
            extra("scopes", "view"),
            &[ON, AS_BOB],
            "userextras.authentication.k8s.io ",
            format!(
                r#"{extras}: impersonating an invalid key in extra is not allowed: extra.key: Invalid value: "scopes": must be a domain-prefixed path (such as "acme.io/foo")"#
            ),
        ),
        (
            extra("a.io/scopes", "view"),
            &[ON, AS_BOB],
            "userextras.authentication.k8s.io view",
            cannot("impersonate:user-info", "userextras/a.io/scopes"),
        ),
        (
            extra("a.io/scopes", ""),
            &[ON, AS_BOB],
            "userextras.authentication.k8s.io ",
            format!("{extras}: impersonating the empty string value in extra is not allowed"),
        ),
        (
            User { uid: "7".into(), ..user("bob", &[]) },
            &[ON, AS_BOB],
            "uids.authentication.k8s.io 7",
            cannot("impersonate:user-info", "uids"),
        ),
        // With groups, no constrained mode is for service accounts.
        (
            user("system:serviceaccount:n:a", &["b"]),
            &[],
            "serviceaccounts. a",
            r#"User "alice" cannot impersonate resource "serviceaccounts" in API group "" in the namespace "n""#
                .to_owned(),
        ),
    ];
    for (wanted, rights, about, why) in table {
        let denied = ask(&user("alice", &[]), &wanted, rights).unwrap_err();
        assert_eq!(denied.why, why);
        assert_eq!(format!("{}.{} {}", denied.resource, denied.group, denied.name).trim_end(), about.trim_end());
    }
}

#[test]
fn an_account_of_a_node_acts_as_that_node() {
    let mut agent = user("system:serviceaccount:n:agent", &[]);
    agent.extra = vec![
        ("authentication.kubernetes.io/node-name".into(), vec!["m".into()]),
        ("authentication.kubernetes.io/credential-id".into(), vec!["x".into()]),
    ];
    let rights = [
        "impersonate-on:associated-node:list /pods/ n/",
        "impersonate:associated-node authentication.k8s.io/nodes/ /*",
    ];
    let allows = |asking: &User, attributes: &Attributes<'_>| {
        let keys = "authentication.kubernetes.io/credential-id,authentication.kubernetes.io/node-name";
        let as_any = matches!(asking.extra.as_slice(), [(_, values)] if values.join(",") == keys);
        allow(as_any && rights.contains(&words(attributes).as_str()))
    };
    let decide = |wanted: &str| {
        Impersonation::default().decide(&user(wanted, &[]), &agent, &listing_pods(), &allows).map(|found| shown(&found))
    };
    let own = "system:node:m system:nodes,system:authenticated [impersonate:associated-node]";
    assert_eq!(decide("system:node:m").as_deref(), Ok(own));
    let other = r#"User "system:serviceaccount:n:agent" cannot impersonate-on:arbitrary-node:list resource "pods" in API group "" in the namespace "n""#;
    assert_eq!(decide("system:node:other").unwrap_err().why, other);
}

#[test]
fn the_mode_that_was_allowed_last_is_tried_first() {
    let impersonation = Impersonation::default();
    let decide = |wanted: &str| {
        let allows = |_: &User, attributes: &Attributes<'_>| allow(words(attributes) == "impersonate /users/ /bob");
        impersonation.decide(&user(wanted, &[]), &user("alice", &[]), &listing_pods(), &allows)
    };
    let before = decide("carol").unwrap_err();
    assert_eq!(before.resource, "pods");
    assert!(decide("bob").is_ok());
    let after = decide("carol").unwrap_err();
    assert_eq!((after.resource.as_str(), after.group.as_str()), ("users", ""));
}

#[test]
fn what_is_remembered_has_a_bound() {
    let impersonation = Impersonation::default();
    for number in 0..=REMEMBERED_MAX {
        impersonation.remember(&number.to_string().into(), Mode::Legacy);
    }
    assert_eq!(impersonation.latest.lock().len(), 1);
}

#[test]
fn names_of_nodes_and_accounts() {
    assert_eq!(account_of("system:serviceaccount:a:b.c"), Some(("a", "b.c")));
    for other in [
        "system:serviceaccount:a",
        "system:serviceaccount:a:b:c",
        "system:serviceaccount:A:b",
        "a:b",
        "system:serviceaccount::b",
    ] {
        assert_eq!(account_of(other), None, "{other}");
    }
    assert_eq!(node_of("system:node:a.b"), Some("a.b"));
    assert_eq!((node_of("system:node:"), node_of("system:node:A_"), node_of("a")), (None, None, None));
}
