//! Who is asked, what about, and what answers are worth, as tables.

use std::sync::Arc;

use rkube_access::{MASTERS, User};
use rkube_catalog::{Resource, Served};
use rkube_extensions::webhook::Address;
use rkube_kinds::admission_review::{Review, ReviewVersion};
use rkube_machinery::host::Clock;
use rkube_machinery::{Text, json, object};
use rkube_store::Memory;

use super::request::{Subject, request};
use super::*;
use crate::attributes::tests::creation;
use crate::{ObjectKind, Operation, OperationOptions};

struct NoTime;

impl Clock for NoTime {
    fn now_micros(&self) -> i64 {
        0
    }
}

struct Nowhere;

impl Resolver for Nowhere {
    fn resolve(&self, _: &str, _: &str, _: u16) -> Result<Vec<Address>, String> {
        Err("nowhere".to_owned())
    }
}

async fn catalog() -> Arc<Catalog> {
    Catalog::start(Arc::new(Memory::new()), rkube_kinds::all(), Arc::new(NoTime)).await.unwrap()
}

fn parse(text: &str) -> Value {
    json::parse(text.as_bytes()).unwrap()
}

/// A configuration with one webhook for everything, and these fields.
fn configuration(name: &str, fields: &str) -> Value {
    let all = r#"[{"operations":["*"],"apiGroups":["*"],"apiVersions":["*"],"resources":["*/*"]}]"#;
    let mut hook = object! { "name": "a.example.com", "rules": parse(all), "matchPolicy": "Equivalent" };
    hook.set("namespaceSelector", Value::object());
    hook.set("objectSelector", Value::object());
    for (key, value) in parse(fields).as_map().iter() {
        hook.set(key, value.clone());
    }
    object! { "metadata": object! { "name": name }, "webhooks": vec![hook] }
}

fn rule(group: &str, version: &str, resource: &str) -> String {
    format!(
        r#""rules":[{{"operations":["*"],"apiGroups":["{group}"],"apiVersions":["{version}"],"resources":["{resource}"]}}]"#
    )
}

#[tokio::test]
async fn webhooks_see_what_they_ask_for() {
    let catalog = catalog().await;
    let labelled = |name: &str| object! { "metadata": object! { "name": name, "labels": object! { "env": "prod" } } };
    catalog.resource("", "v1", "namespaces").unwrap().fill(&[labelled("prod")], 1);
    let user = User::default();
    let selector = |field: &str| format!(r#"{{"{field}":{{"matchLabels":{{"env":"prod"}}}}}}"#);
    let by_namespace = selector("namespaceSelector");
    let by_object = selector("objectSelector");
    // What a webhook asks for; group, version, resource and subresource of a request, its namespace, whether the new and
    // the old object have the label; the version in which the webhook sees it, or none, or an error.
    type Row<'a> = (String, (&'a str, &'a str, &'a str, &'a str), &'a str, (bool, bool), Result<&'a str, u16>);
    let hpa = |version| ("autoscaling", version, "horizontalpodautoscalers", "");
    let table: Vec<Row<'_>> = vec![
        ("{}".to_owned(), ("", "v1", "pods", ""), "other", (false, false), Ok("v1")),
        ("{}".to_owned(), ("", "v1", "pods", "exec"), "other", (false, false), Ok("v1")),
        (by_namespace.clone(), ("", "v1", "pods", ""), "prod", (false, false), Ok("v1")),
        (by_namespace.clone(), ("", "v1", "nodes", ""), "", (false, false), Ok("v1")),
        (by_namespace.clone(), ("", "v1", "namespaces", ""), "new", (true, false), Ok("v1")),
        (by_namespace.clone(), ("", "v1", "namespaces", ""), "new", (false, true), Ok("")),
        (by_namespace.clone(), ("", "v1", "namespaces", "status"), "prod", (false, false), Ok("v1")),
        (by_namespace.clone(), ("", "v1", "pods", ""), "absent", (false, false), Err(404)),
        // Who is not asked anyway hears of no error.
        (
            by_namespace.replacen('{', &format!("{{{},", rule("apps", "v1", "pods")), 1),
            ("", "v1", "pods", ""),
            "absent",
            (false, false),
            Ok(""),
        ),
        (by_object.clone(), ("", "v1", "pods", ""), "prod", (true, false), Ok("v1")),
        (by_object.clone(), ("", "v1", "pods", ""), "prod", (false, true), Ok("v1")),
        (by_object.clone(), ("", "v1", "pods", ""), "prod", (false, false), Ok("")),
        (format!("{{{}}}", rule("autoscaling", "v1", "*")), hpa("v2"), "a", (false, false), Ok("autoscaling/v1")),
        (format!("{{{}}}", rule("autoscaling", "v2", "*")), hpa("v2"), "a", (false, false), Ok("autoscaling/v2")),
        (
            format!(r#"{{{},"matchPolicy":"Exact"}}"#, rule("autoscaling", "v1", "*")),
            hpa("v2"),
            "a",
            (false, false),
            Ok(""),
        ),
        (
            format!("{{{}}}", rule("events.k8s.io", "v1", "events")),
            ("", "v1", "events", ""),
            "a",
            (false, false),
            Ok("events.k8s.io/v1"),
        ),
        (format!("{{{}}}", rule("", "v2", "pods")), ("", "v1", "pods", ""), "a", (false, false), Ok("")),
    ];
    for (fields, (group, version, resource, subresource), namespace, (new, old), expected) in table {
        let served = catalog.find(group, version, resource).unwrap();
        let plain = object! { "metadata": Value::object() };
        let (object, old) = (if new { labelled("o") } else { plain.clone() }, if old { labelled("o") } else { plain });
        let mut attributes = creation(&served, &user);
        attributes.operation = Operation::Update;
        (attributes.namespace, attributes.subresource, attributes.old) = (namespace, subresource, Some(&old));
        let hook = &Hook::of(&configuration("c", &fields), &(Arc::new(Nowhere) as Arc<dyn Resolver>))[0];
        let found = matching::target(hook, &attributes, &object, &catalog);
        let found = found.map_err(|status| status.code);
        let found = found.map(|target| target.map(|target| target.subject(&attributes).kind.api_version.to_owned()));
        assert_eq!(found.map(Option::unwrap_or_default), expected.map(str::to_owned), "{fields} {resource}");
    }
}

#[tokio::test]
async fn configurations_are_exempt_and_who_wants_nothing_is_not_asked() {
    let catalog = catalog().await;
    let configurations = catalog.resource(GROUP, "v1", "validatingwebhookconfigurations").unwrap();
    let user = User::default();
    let metrics = Arc::default();
    let authorizers = Arc::new(Authorizers::new(&catalog.snapshot()));
    let entropy: Arc<dyn Entropy> = Arc::new(Zeros);
    let [_, (_, plugin)] = plugins(&catalog, &authorizers, &entropy, &metrics);
    let handles = |group: &str, resource: &str| {
        let served = catalog.find(group, "v1", resource).unwrap();
        plugin.handles(&creation(&served, &user))
    };
    assert!(!handles("", "pods"));
    configurations.fill(&[configuration("c", "{}")], 1);
    assert!(handles("", "pods"), "a configuration counts from the next request on");
    for resource in ["validatingwebhookconfigurations", "mutatingwebhookconfigurations", "validatingadmissionpolicies"]
    {
        assert!(!handles(GROUP, resource), "{resource}");
    }
    configurations.fill(&[configuration("c", &format!("{{{}}}", rule("", "v1", "services")))], 2);
    assert!(!handles("", "pods") && handles("", "services"));
    configurations.fill(&[], 3);
    assert!(!handles("", "services"));
}

struct Zeros;

impl Entropy for Zeros {
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill(0);
    }
}

/// What is kept of a configuration that did not change, connections included.
#[test]
fn what_did_not_change_is_kept() {
    let resource: Arc<Resource> = rkube_catalog::Snapshot::unfed(rkube_kinds::all())
        .resource(GROUP, "v1", "mutatingwebhookconfigurations")
        .unwrap();
    let source = Source::new(Some(resource.clone()), Arc::new(Nowhere));
    resource.fill(&[configuration("b", "{}"), configuration("a", "{}")], 1);
    let first = source.hooks().all.clone();
    assert_eq!(
        first.iter().map(|hook| hook.id.as_str()).collect::<Vec<_>>(),
        ["a/a.example.com/0", "b/a.example.com/0"]
    );
    assert!(Arc::ptr_eq(&first[0], &source.hooks().all[0]));
}

#[test]
fn conditions_decide() {
    let snapshot = rkube_catalog::Snapshot::unfed(rkube_kinds::all());
    let served = snapshot.find("", "v1", "pods").unwrap();
    let user = User { name: "ann".into(), groups: vec![MASTERS.into()], ..User::default() };
    let mut attributes = creation(served, &user);
    attributes.name = "p";
    attributes.options = OperationOptions::Write { field_manager: "m", field_validation: "" };
    let subject = Subject { served, kind: ObjectKind::of(served) };
    let request = request(&attributes, subject);
    let object = object! { "metadata": object! { "name": "p" } };
    let inputs = Inputs { object: &object, old: &Value::Null, request: &request };
    let authorizers = Arc::new(Authorizers::new(&snapshot));
    let unknown = |text: &str| Matched::Unknown(text.to_owned());
    let missing = "expression 'object.a' resulted in error: no such key: a";
    let table = [
        (vec![], Matched::Yes),
        (vec!["true", "object.metadata.name == 'p' && oldObject == null"], Matched::Yes),
        (vec!["true", "false"], Matched::No),
        (vec!["object.a", "false"], Matched::No),
        (vec!["object.a", "true"], unknown(missing)),
        (vec!["object.a", "object.a"], unknown(missing)),
        (
            vec!["object.a", "object.b"],
            unknown(&format!("[{missing}, expression 'object.b' resulted in error: no such key: b]")),
        ),
        (vec!["request.userInfo.username == 'ann' && request.operation == 'CREATE'"], Matched::Yes),
        (vec!["request.options.fieldManager == 'm' && !has(request.subResource)"], Matched::Yes),
        (vec!["authorizer.requestResource.check('create').allowed()"], Matched::Yes),
        (vec!["authorizer.serviceAccount('a', 'b').path('/x').check('get').allowed()"], Matched::No),
        (vec!["authorizer.requestResource.check('a').allowed()"; 8], {
            unknown("validation failed due to running out of cost budget, no further validation rules will be run")
        }),
    ];
    for (expressions, expected) in table {
        let conditions: Vec<Value> =
            expressions.iter().map(|expression| object! { "name": "x", "expression": *expression }).collect();
        let conditions = super::conditions::Conditions::compile(&conditions);
        assert_eq!(conditions.evaluate(&inputs, &attributes, &authorizers), expected, "{expressions:?}");
    }
}

#[test]
fn questions_have_all_fields_in_order() {
    let snapshot = rkube_catalog::Snapshot::unfed(rkube_kinds::all());
    let served: &Arc<Served> = snapshot.find("autoscaling", "v2", "horizontalpodautoscalers").unwrap();
    let other = snapshot.find("autoscaling", "v1", "horizontalpodautoscalers").unwrap();
    let extra = vec![(Text::from("k"), vec![Text::from("v")])];
    let user = User { name: "ann".into(), uid: "7".into(), groups: vec!["g".into()], extra };
    let mut attributes = creation(served, &user);
    (attributes.name, attributes.subresource, attributes.dry_run) = ("h", "status", true);
    let request = request(&attributes, Subject { served: other, kind: ObjectKind::of(other) });
    let review =
        Review { version: ReviewVersion::V1, uid: "u-1", request: &request, object: r#"{"a":1}"#, old: "null" };
    let body = String::from_utf8(review.body()).unwrap();
    let expected = concat!(
        r#"{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"u-1","#,
        r#""kind":{"group":"autoscaling","version":"v1","kind":"HorizontalPodAutoscaler"},"#,
        r#""resource":{"group":"autoscaling","version":"v1","resource":"horizontalpodautoscalers"},"subResource":"status","#,
        r#""requestKind":{"group":"autoscaling","version":"v2","kind":"HorizontalPodAutoscaler"},"#,
        r#""requestResource":{"group":"autoscaling","version":"v2","resource":"horizontalpodautoscalers"},"#,
        r#""requestSubResource":"status","name":"h","namespace":"default","operation":"CREATE","#,
        r#""userInfo":{"username":"ann","uid":"7","groups":["g"],"extra":{"k":["v"]}},"#,
        r#""object":{"a":1},"oldObject":null,"dryRun":true,"options":null}}"#,
        "\n"
    );
    assert_eq!(body, expected);
}
