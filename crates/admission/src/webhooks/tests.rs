//! Who is asked, what about, and what answers are worth, as tables.

use std::sync::Arc;

use rkube_access::{MASTERS, User};
use rkube_catalog::{Resource, Served};
use rkube_extensions::webhook::Address;
use rkube_machinery::decode::base64;
use rkube_machinery::host::Clock;
use rkube_machinery::{Text, json, object};
use rkube_store::Memory;

use super::patch::Expected;
use super::review::{Answer, Review, ReviewVersion, Subject, Unusable};
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
    let request = review::request(&attributes, subject);
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

fn ask<'a>(version: ReviewVersion, request: &'a Value) -> Review<'a> {
    Review { version, uid: "u-1", request, object: r#"{"a":1}"#, old: "null" }
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
    let request = review::request(&attributes, Subject { served: other, kind: ObjectKind::of(other) });
    let body = String::from_utf8(ask(ReviewVersion::V1, &request).body()).unwrap();
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

/// The answer's response (and the rest of it, where it is not as it should be), and what it is worth.
#[test]
fn answers_are_checked() {
    let request = Value::object();
    let read = |version, answer: &str, mutating| ask(version, &request).read("a.b.c", answer.as_bytes(), mutating);
    let v1 = |response: &str, mutating| {
        let answer =
            format!(r#"{{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{response}}}"#);
        read(ReviewVersion::V1, &answer, mutating)
    };
    let patch = base64::encode(b"[]");
    assert_eq!(v1(r#"{"uid":"u-1","allowed":true}"#, false), Ok(Answer::default()));
    let with_patch = format!(r#"{{"uid":"u-1","allowed":true,"patchType":"JSONPatch","patch":"{patch}"}}"#);
    let expected = Answer { patch: Some((b"[]".to_vec(), "JSONPatch".to_owned())), ..Answer::default() };
    assert_eq!(v1(&with_patch, true), Ok(expected));
    let told = v1(r#"{"uid":"u-1","allowed":true,"warnings":["w"],"auditAnnotations":{"k":"v"}}"#, true).unwrap();
    assert_eq!(told.warnings, ["w"]);
    assert_eq!(told.annotations, [("a.b.c/k".to_owned(), "v".to_owned())]);
    let invalid = [
        ("null".to_owned(), true, "webhook response was absent"),
        (r#"{"uid":"x","allowed":true}"#.to_owned(), true, r#"expected response.uid="u-1", got "x""#),
        (with_patch.clone(), false, "validating webhook may not return response.patch"),
        (
            r#"{"uid":"u-1","patchType":"JSONPatch"}"#.to_owned(),
            false,
            "validating webhook may not return response.patchType",
        ),
        (
            r#"{"uid":"u-1","patchType":"JSONPatch"}"#.to_owned(),
            true,
            "webhook returned response.patchType but not response.patch",
        ),
        (
            format!(r#"{{"uid":"u-1","patch":"{patch}"}}"#),
            true,
            "webhook returned response.patch but not response.patchType",
        ),
        (with_patch.replace("JSONPatch", ""), true, r#"webhook returned invalid response.patchType of """#),
    ];
    for (response, mutating, why) in invalid {
        assert_eq!(v1(&response, mutating), Err(Unusable::Invalid(why.to_owned())), "{response}");
    }
    let whole = [
        (
            r#"{"response":{"uid":"u-1"}}"#,
            Unusable::Invalid(
                "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got /, Kind=".to_owned(),
            ),
        ),
        (
            r#"{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview"}"#,
            Unusable::Unreadable(
                "converting (v1beta1.AdmissionReview) to (v1.AdmissionReview): unknown conversion".to_owned(),
            ),
        ),
        (
            r#"{"response":{"allowed":"yes"}}"#,
            Unusable::Unreadable(
                "json: cannot unmarshal string into Go struct field AdmissionResponse.response.allowed of type bool"
                    .to_owned(),
            ),
        ),
    ];
    for (answer, expected) in whole {
        assert_eq!(read(ReviewVersion::V1, answer, true), Err(expected));
    }
    // The older version asks for less.
    let old = format!(r#"{{"response":{{"allowed":true,"patch":"{patch}"}}}}"#);
    assert!(read(ReviewVersion::V1Beta1, &old, true).unwrap().patch.is_some());
    assert_eq!(read(ReviewVersion::V1Beta1, &old, false), Ok(Answer::default()));
}

#[test]
fn refusals_keep_the_webhooks_words() {
    let request = Value::object();
    let refused = |status: &str| {
        let answer = format!(
            r#"{{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":
            {{"uid":"u-1","allowed":false,"status":{status}}}}}"#
        );
        let answer = ask(ReviewVersion::V1, &request).read("a.b.c", answer.as_bytes(), false).unwrap();
        *answer.refusal.unwrap()
    };
    let denied = r#"admission webhook "a.b.c" denied the request"#;
    let table = [
        ("null", 400, format!("{denied} without explanation")),
        (r#"{"message":"no"}"#, 400, format!("{denied}: no")),
        (r#"{"reason":"Odd"}"#, 400, format!("{denied}: Odd")),
        (r#"{"reason":"Odd","message":"no","code":403}"#, 403, format!("{denied}: no")),
        (r#"{"code":200,"status":"Success"}"#, 400, format!("{denied} without explanation")),
        (r#"{"code":100000}"#, u16::MAX, format!("{denied} without explanation")),
    ];
    for (status, code, message) in table {
        let refused = refused(status);
        assert_eq!((refused.code, &refused.message), (code, &message));
        let shown = refused.to_value();
        assert_eq!((shown.str("status"), shown.str("message")), ("Failure", message.as_str()));
    }
    let full = refused(r#"{"code":429,"reason":"Odd","details":{"retryAfterSeconds":3,"name":"n"}}"#);
    assert_eq!(full.details.as_ref().unwrap().retry_after_seconds, 3);
    assert_eq!((full.to_value().str("reason"), full.to_value().get("details").str("name")), ("Odd", "n"));
}

#[test]
fn patches_make_objects_of_the_same_kind() {
    let kind = rkube_kinds::find("", "v1", "configmaps").unwrap();
    let expected = Expected { api_version: "v1", name: "ConfigMap", kind: Some(kind), table: None };
    let object = r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"c"},"data":{"k":"v"}}"#;
    let apply = |patch: &str| {
        let operations = patch::operations(patch.as_bytes()).map_err(Status::bad_request)?.unwrap();
        patch::apply(object, &operations, &expected).map(|value| json::to_string(&value))
    };
    let failed = |patch: &str| apply(patch).unwrap_err().message;
    assert_eq!(
        apply(r#"[{"op":"add","path":"/data/b","value":"w"},{"op":"add","path":"/unknown","value":1}]"#).unwrap(),
        r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"c"},"data":{"b":"w","k":"v"}}"#
    );
    assert_eq!(apply(r#"[{"op":"remove","path":"/kind"}]"#).unwrap(), object);
    let table = [
        ("junk", "invalid character 'j' looking for beginning of value"),
        ("{}", "json: cannot unmarshal object into Go value of type jsonpatch.Patch"),
        ("[1]", "json: cannot unmarshal number into Go value of type jsonpatch.Operation"),
        (
            r#"[{"op":"add","path":"/data","value":[1]}]"#,
            "Internal error occurred: json: cannot unmarshal array into Go struct field ConfigMap.data of type map[string]string",
        ),
        (
            r#"[{"op":"replace","path":"/kind","value":"Nope"}]"#,
            "Internal error occurred: no kind \"Nope\" is registered for version \"v1\" in scheme \"pkg/api/legacyscheme/scheme.go:30\"",
        ),
        (
            r#"[{"op":"replace","path":"/kind","value":"Pod"},{"op":"remove","path":"/data"}]"#,
            "Internal error occurred: converting (v1.Pod) to (v1.ConfigMap): unknown conversion",
        ),
        (
            r#"[{"op":"remove","path":"/nope"}]"#,
            "Internal error occurred: error in remove for path: '/nope': Unable to remove nonexistent key: nope: missing value",
        ),
    ];
    for (patch, message) in table {
        assert_eq!(failed(patch), message, "{patch}");
    }
    for nothing in ["[]", "null"] {
        assert_eq!(patch::operations(nothing.as_bytes()), Ok(None));
    }
}
