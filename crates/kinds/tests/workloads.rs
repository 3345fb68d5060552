//! The rules of the kinds that make pods from a template.

use rkube_kinds::kind::Part;
use rkube_kinds::{Kind, find};
use rkube_machinery::{Value, decode, json};

const TEMPLATE: &str =
    r#""template": {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}}"#;
const SELECTOR: &str = r#""selector": {"matchLabels": {"app": "a"}}"#;
const MISMATCH: &str = "`selector` does not match template `labels`";
const NEGATIVE: &str = "must be greater than or equal to 0";

fn kind(resource: &str) -> &'static Kind {
    let group = if matches!(resource, "podtemplates" | "replicationcontrollers") { "" } else { "apps" };
    find(group, "v1", resource).expect("the kind is served")
}

fn decoded(kind: &Kind, text: &str) -> Value {
    let raw = json::parse(text.as_bytes()).unwrap_or_else(|error| panic!("{error}: {text}"));
    let schema = kind.schema.table().expect("the type is in the table");
    let mut value = decode::decode(raw, schema).unwrap_or_else(|error| panic!("{error}: {text}")).value;
    kind.rules.default(&mut value);
    value
}

/// A new object with this spec.
fn made(kind: &Kind, spec: &str) -> Value {
    let mut object =
        decoded(kind, &format!(r#"{{"metadata": {{"name": "x", "namespace": "n"}}, "spec": {{{spec}}}}}"#));
    kind.rules.prepare_create(&mut object);
    object
}

fn whole(kind: &Kind, more: &str) -> Value {
    let comma = if more.is_empty() { "" } else { ", " };
    made(kind, &format!("{SELECTOR}, {TEMPLATE}{comma}{more}"))
}

fn errors(kind: &Kind, object: &Value) -> Vec<String> {
    kind.validate_create(object).0.iter().map(ToString::to_string).collect()
}

/// The old object with these fields, given as a JSON merge patch, changed; and what is wrong with that.
fn changed(kind: &Kind, part: Part, old: &Value, patch: &str) -> (Value, Vec<String>) {
    let mut old = old.clone();
    old.object_mut("metadata").set("resourceVersion", "1");
    let mut object = old.clone();
    merge(&mut object, &json::parse(patch.as_bytes()).unwrap_or_else(|error| panic!("{error}: {patch}")));
    kind.rules.default(&mut object);
    kind.rules.prepare_update(part, &mut object, &old);
    let errors = kind.validate_update(part, &object, &old).0.iter().map(ToString::to_string).collect();
    (object, errors)
}

fn merge(object: &mut Value, patch: &Value) {
    for (key, value) in patch.as_map().iter() {
        match value {
            Value::Null => drop(object.remove(key)),
            Value::Object(_) => merge(object.object_mut(key), value),
            other => object.set(key, other.clone()),
        }
    }
}

#[test]
fn a_second_default_changes_nothing() {
    let rich = r#""replicas": 0, "serviceName": "s", "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {}},
        "volumeClaimTemplates": [{"metadata": {"name": "v"}, "status": {"capacity": {"storage": "1n"}}}]"#;
    for resource in ["deployments", "replicasets", "statefulsets", "daemonsets", "replicationcontrollers"] {
        let kind = kind(resource);
        let rich = match resource {
            "statefulsets" => format!("{SELECTOR}, {TEMPLATE}, {rich}"),
            "replicationcontrollers" => TEMPLATE.to_owned(),
            _ => format!("{SELECTOR}, {TEMPLATE}"),
        };
        for spec in [rich.as_str(), ""] {
            let first = decoded(kind, &format!(r#"{{"metadata": {{"name": "x"}}, "spec": {{{spec}}}}}"#));
            let mut second = first.clone();
            kind.rules.default(&mut second);
            assert_eq!(first, second, "{resource} {spec}");
        }
    }
}

#[test]
fn old_annotations_go() {
    let text =
        r#"{"template": {"metadata": {"annotations": {"pod.beta.kubernetes.io/init-containers": "[]", "a": "b"}}}}"#;
    let template = decoded(kind("podtemplates"), text);
    let annotations = template.at(&["template", "metadata", "annotations"]);
    assert_eq!(annotations.as_map().keys().map(|key| key.as_str()).collect::<Vec<_>>(), ["a"]);
}

#[test]
fn right_objects_pass() {
    for resource in ["deployments", "replicasets", "statefulsets", "daemonsets"] {
        let kind = kind(resource);
        assert_eq!(errors(kind, &whole(kind, "")), Vec::<String>::new(), "{resource}");
    }
    let kind = kind("replicationcontrollers");
    let controller = made(kind, TEMPLATE);
    assert_eq!(errors(kind, &controller), Vec::<String>::new());
    assert_eq!(controller.get("metadata").map("labels"), controller.get("spec").map("selector"));
}

#[test]
fn nothing_is_said() {
    let labels = format!("spec.template.metadata.labels: Invalid value: null: {MISMATCH}");
    let containers = "spec.template.spec.containers: Required value".to_owned();
    let selector = "spec.selector: Required value".to_owned();
    for (resource, want) in [
        ("deployments", vec![selector.clone(), labels.clone(), containers.clone()]),
        ("replicasets", vec![selector.clone(), labels.clone(), containers.clone()]),
        ("statefulsets", vec![selector.clone(), labels.clone(), containers.clone()]),
        ("daemonsets", vec![labels, containers]),
        ("replicationcontrollers", vec![selector, "spec.template: Required value".to_owned()]),
    ] {
        let kind = kind(resource);
        assert_eq!(errors(kind, &made(kind, "")), want, "{resource}");
    }
}

#[test]
fn selectors_and_templates_must_fit() {
    for (resource, owner) in [
        ("deployments", "deployment"),
        ("replicasets", "deployment"),
        ("statefulsets", "statefulset"),
        ("daemonsets", "daemonset"),
    ] {
        let kind = kind(resource);
        let empty = made(kind, &format!(r#""selector": {{}}, {TEMPLATE}"#));
        let want = format!("spec.selector: Invalid value: {{}}: empty selector is invalid for {owner}");
        assert_eq!(errors(kind, &empty), [want], "{resource}");
        let other = made(kind, &format!(r#""selector": {{"matchLabels": {{"app": "b"}}}}, {TEMPLATE}"#));
        let want = format!("spec.template.metadata.labels: Invalid value: {{\"app\":\"a\"}}: {MISMATCH}");
        assert_eq!(errors(kind, &other), [want], "{resource}");
    }
    for (resource, owner) in [
        ("deployments", "ReplicaSet"),
        ("replicasets", "ReplicaSet"),
        ("statefulsets", "StatefulSet"),
        ("daemonsets", "DaemonSet"),
    ] {
        let kind = kind(resource);
        let mut object = whole(kind, "");
        let spec = object.object_mut("spec").object_mut("template").object_mut("spec");
        spec.set("restartPolicy", "Never");
        spec.set("activeDeadlineSeconds", 5);
        let want = [
            "spec.template.spec.restartPolicy: Unsupported value: \"Never\": supported values: \"Always\"".to_owned(),
            format!(
                "spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in {owner} is not Supported"
            ),
        ];
        assert_eq!(errors(kind, &object), want, "{resource}");
    }
}

#[test]
fn deployments_are_checked() {
    let kind = kind("deployments");
    for (spec, want) in [
        (r#""replicas": -1"#, vec![format!("spec.replicas: Invalid value: -1: {NEGATIVE}")]),
        (
            r#""strategy": {"type": "Recreate", "rollingUpdate": {}}"#,
            vec![
                "spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'"
                    .into(),
            ],
        ),
        (
            r#""strategy": {"type": "Other", "rollingUpdate": {"maxSurge": "5%"}}"#,
            vec![
                "spec.strategy: Unsupported value: {\"Type\":\"Other\",\"RollingUpdate\":{\"MaxUnavailable\":0,\
                 \"MaxSurge\":\"5%\"}}: supported values: \"Recreate\", \"RollingUpdate\""
                    .into(),
            ],
        ),
        (
            r#""strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": "0%"}}"#,
            vec![
                "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: \"0%\": may not be 0 when `maxSurge` is 0"
                    .into(),
            ],
        ),
        (
            r#""strategy": {"rollingUpdate": {"maxSurge": -1, "maxUnavailable": "101%"}}"#,
            vec![
                format!("spec.strategy.rollingUpdate.maxSurge: Invalid value: -1: {NEGATIVE}"),
                "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: \"101%\": must not be greater than 100%"
                    .into(),
            ],
        ),
        (
            r#""minReadySeconds": 5, "progressDeadlineSeconds": 5, "revisionHistoryLimit": -2"#,
            vec![
                format!("spec.revisionHistoryLimit: Invalid value: -2: {NEGATIVE}"),
                "spec.progressDeadlineSeconds: Invalid value: 5: must be greater than minReadySeconds".into(),
            ],
        ),
    ] {
        assert_eq!(errors(kind, &whole(kind, spec)), want, "{spec}");
    }
}

#[test]
fn generations_count_changes() {
    let scale = r#"{"spec": {"replicas": 7, "minReadySeconds": 1}}"#;
    let label = r#"{"metadata": {"labels": {"a": "b"}}}"#;
    let note = r#"{"metadata": {"annotations": {"a": "b"}}}"#;
    let image = r#"{"spec": {"template": {"metadata": {"annotations": {"a": "b"}}}}}"#;
    let same = r#"{"spec": {"template": {"spec": {"volumes": [], "nodeSelector": {}}}}}"#;
    for (resource, patch, want, template) in [
        ("deployments", scale, 2, ""),
        ("deployments", label, 1, ""),
        ("deployments", note, 2, ""),
        ("deployments", same, 1, ""),
        ("replicasets", scale, 2, ""),
        ("replicasets", note, 1, ""),
        ("statefulsets", image, 2, ""),
        ("statefulsets", same, 1, ""),
        ("daemonsets", r#"{"spec": {"minReadySeconds": 1}}"#, 2, "1"),
        ("daemonsets", image, 2, "2"),
        ("daemonsets", r#"{"metadata": {"annotations": {"deprecated.daemonset.template.generation": "9"}}}"#, 1, "1"),
    ] {
        let kind = kind(resource);
        let (object, errors) = changed(kind, Part::Main, &whole(kind, ""), patch);
        assert_eq!(errors, Vec::<String>::new(), "{resource} {patch}");
        let metadata = object.get("metadata");
        assert_eq!(metadata.int("generation"), want, "{resource} {patch}");
        let counted = metadata.get("annotations").str("deprecated.daemonset.template.generation");
        assert_eq!(counted, template, "{resource} {patch}");
    }
}

#[test]
fn selectors_never_change() {
    for resource in ["deployments", "replicasets", "daemonsets"] {
        let kind = kind(resource);
        let patch = r#"{"spec": {"selector": {"matchLabels": {"b": "c"}},
            "template": {"metadata": {"labels": {"b": "c"}}}}}"#;
        let (_, errors) = changed(kind, Part::Main, &whole(kind, ""), patch);
        let want = "spec.selector: Invalid value: {\"matchLabels\":{\"app\":\"a\",\"b\":\"c\"}}: field is immutable";
        assert_eq!(errors, [want], "{resource}");
    }
}

#[test]
fn daemon_sets_roll_one_way() {
    let kind = kind("daemonsets");
    let path = "spec.updateStrategy.rollingUpdate";
    for (rolling, want) in [
        (
            r#"{"maxSurge": 1}"#,
            vec![format!("{path}.maxSurge: Invalid value: 1: may not be set when maxUnavailable is non-zero")],
        ),
        (
            r#"{"maxUnavailable": 0}"#,
            vec![format!("{path}.maxUnavailable: Required value: cannot be 0 when maxSurge is 0")],
        ),
        (r#"{"maxUnavailable": 0, "maxSurge": "100%"}"#, vec![]),
        (
            r#"{"maxUnavailable": "200%"}"#,
            vec![format!("{path}.maxUnavailable: Invalid value: \"200%\": must not be greater than 100%")],
        ),
    ] {
        let set = whole(kind, &format!(r#""updateStrategy": {{"rollingUpdate": {rolling}}}"#));
        assert_eq!(errors(kind, &set), want, "{rolling}");
    }
    let set = whole(kind, r#""updateStrategy": {"type": "x"}"#);
    let want = "spec.updateStrategy: Unsupported value: {\"Type\":\"x\",\"RollingUpdate\":null}: supported values: \
                \"RollingUpdate\", \"OnDelete\"";
    assert_eq!(errors(kind, &set), [want]);
}

const CLAIMS: &str = r#""volumeClaimTemplates": [{"metadata": {"name": "v"}, "spec": {"accessModes": ["ReadWriteOnce"],
    "resources": {"requests": {"storage": "1Gi"}}}}]"#;

#[test]
fn stateful_sets_are_checked() {
    let kind = kind("statefulsets");
    for (spec, want) in [
        (
            r#""podManagementPolicy": "x""#,
            vec!["spec.podManagementPolicy: Invalid value: \"x\": must be 'OrderedReady' or 'Parallel'".to_owned()],
        ),
        (
            r#""updateStrategy": {"type": "OnDelete", "rollingUpdate": {"partition": 2}}"#,
            vec![
                "spec.updateStrategy.rollingUpdate: Invalid value: {\"Partition\":2,\"MaxUnavailable\":null}: only \
                 allowed for updateStrategy 'RollingUpdate'"
                    .into(),
            ],
        ),
        (
            r#""updateStrategy": {"type": "x"}"#,
            vec![
                "spec.updateStrategy: Invalid value: {\"Type\":\"x\",\"RollingUpdate\":null}: must be 'RollingUpdate' \
                 or 'OnDelete'"
                    .into(),
            ],
        ),
        (
            r#""persistentVolumeClaimRetentionPolicy": {"whenScaled": "x"}"#,
            vec![
                "spec.persistentVolumeClaimRetentionPolicy.whenScaled: Unsupported value: \"x\": supported values: \
                 \"Retain\", \"Delete\""
                    .into(),
            ],
        ),
        (
            r#""ordinals": {"start": -1}, "volumeClaimTemplates": [{"metadata": {"name": "v"}}]"#,
            vec![
                "spec.volumeClaimTemplates[0].spec.accessModes: Required value: at least 1 access mode is required"
                    .into(),
                "spec.volumeClaimTemplates[0].spec.resources[storage]: Required value".into(),
                format!("spec.ordinals.start: Invalid value: -1: {NEGATIVE}"),
            ],
        ),
    ] {
        assert_eq!(errors(kind, &whole(kind, spec)), want, "{spec}");
    }
    let mut set = whole(kind, CLAIMS);
    let pod = set.object_mut("spec").object_mut("template").object_mut("spec");
    pod.set("hostname", "Not_A_Name");
    let mounts = json::parse(br#"[{"name": "v", "mountPath": "/v"}, {"name": "w", "mountPath": "/w"}]"#);
    pod.list_mut("containers")[0].set("volumeMounts", mounts.expect("the text is JSON"));
    let want = "spec.template.spec.containers[0].volumeMounts[1].name: Not found: \"w\"";
    assert_eq!(errors(kind, &set), [want]);
}

#[test]
fn little_of_a_stateful_set_may_change() {
    let kind = kind("statefulsets");
    let old = whole(kind, CLAIMS);
    for (patch, allowed) in [
        (r#"{"spec": {"replicas": 5, "ordinals": {"start": 1}, "minReadySeconds": 3}}"#, true),
        (r#"{"spec": {"updateStrategy": {"type": "OnDelete", "rollingUpdate": null}}}"#, true),
        (r#"{"spec": {"serviceName": "s"}}"#, false),
        (r#"{"spec": {"podManagementPolicy": "Parallel"}}"#, false),
        (r#"{"spec": {"volumeClaimTemplates": []}}"#, false),
    ] {
        let (_, errors) = changed(kind, Part::Main, &old, patch);
        assert_eq!(errors.is_empty(), allowed, "{patch}: {errors:?}");
        assert!(allowed || errors[0].starts_with("spec: Forbidden: updates to statefulset spec for fields other than"));
    }
}

#[test]
fn statuses_are_checked() {
    let more = "cannot be greater than status.replicas";
    for (resource, status, want) in [
        (
            "deployments",
            r#"{"replicas": 1, "updatedReplicas": 2, "readyReplicas": 1, "availableReplicas": -1}"#,
            vec![
                format!("status.availableReplicas: Invalid value: -1: {NEGATIVE}"),
                format!("status.updatedReplicas: Invalid value: 2: {more}"),
            ],
        ),
        (
            "replicasets",
            r#"{"replicas": 1, "fullyLabeledReplicas": 2, "availableReplicas": 1}"#,
            vec![
                format!("status.fullyLabeledReplicas: Invalid value: 2: {more}"),
                "status.availableReplicas: Invalid value: 1: cannot be greater than readyReplicas".into(),
            ],
        ),
        (
            "statefulsets",
            r#"{"replicas": 1, "currentReplicas": 2, "availableReplicas": 1}"#,
            vec![
                format!("status.currentReplicas: Invalid value: 2: {more}"),
                "status.availableReplicas: Invalid value: 1: cannot be greater than status.readyReplicas".into(),
            ],
        ),
        ("daemonsets", r#"{"numberReady": -1}"#, vec![format!("status.numberReady: Invalid value: -1: {NEGATIVE}")]),
    ] {
        let kind = kind(resource);
        let (_, errors) = changed(kind, Part::Status, &whole(kind, ""), &format!(r#"{{"status": {status}}}"#));
        assert_eq!(errors, want, "{resource}");
    }
    for resource in ["deployments", "statefulsets", "daemonsets"] {
        let kind = kind(resource);
        let mut old = whole(kind, "");
        old.object_mut("status").set("collisionCount", 2);
        let (_, errors) = changed(kind, Part::Status, &old, r#"{"status": {"collisionCount": null}}"#);
        assert_eq!(errors, ["status.collisionCount: Invalid value: 0: cannot be decremented"], "{resource}");
    }
}

#[test]
fn warnings_are_given() {
    let kind = kind("statefulsets");
    let set = whole(kind, &format!(r#"{}, "revisionHistoryLimit": -1"#, CLAIMS.replace("1Gi", "1500m")));
    let fraction = "fractional byte value \"1500m\" is invalid, must be an integer";
    let limit =
        "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended";
    assert_eq!(
        kind.rules.warnings(&set, None),
        [format!("spec.volumeClaimTemplates[0].resources.requests[storage]: {fraction}"), limit.to_owned()]
    );
    assert_eq!(
        kind.rules.warnings(&set, Some(&set)),
        [format!("spec.volumeClaimTemplates[0].Spec.resources.requests[storage]: {fraction}"), limit.to_owned()]
    );
}

#[test]
fn revisions_hold_an_object() {
    let kind = kind("controllerrevisions");
    let made = |data: &str| {
        decoded(kind, &format!(r#"{{"metadata": {{"name": "x", "namespace": "n"}}, "revision": -1{data}}}"#))
    };
    let number = format!("revision: Invalid value: -1: {NEGATIVE}");
    for (data, want) in [
        (r#", "data": {"a": 1}"#, None),
        ("", Some("data: Required value: data is mandatory")),
        (r#", "data": null"#, Some("data: Required value: data is mandatory")),
        (r#", "data": [1]"#, Some("data: Required value: data must be a valid JSON object")),
    ] {
        let want: Vec<String> = [Some(number.as_str()), want].into_iter().flatten().map(str::to_owned).collect();
        assert_eq!(errors(kind, &made(data)), want, "{data}");
    }
    let (_, errors) = changed(kind, Part::Main, &made(r#", "data": {"a": 1}"#), r#"{"revision": 1, "data": {"a": 2}}"#);
    assert_eq!(errors, ["data: Invalid value: {\"a\":2}: field is immutable"]);
    let owned = decoded(
        kind,
        r#"{"metadata": {"name": "x", "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet",
            "name": "web", "uid": "u", "controller": true}]}}"#,
    );
    assert_eq!(kind.columns.iter().nth(1).unwrap().cell(&owned, 0), Value::from("statefulset.apps/web"));
}

#[test]
fn replication_controllers_keep_what_they_cannot_say() {
    let kind = kind("replicationcontrollers");
    let mut old = made(kind, TEMPLATE);
    let annotations = old.object_mut("metadata").object_mut("annotations");
    annotations.set("non-convertible.kubernetes.io/other", "v");
    annotations.set("non-convertible.kubernetes.io/spec.selector", "v");
    let patch = r#"{"spec": {"selector": {"b": "c"}, "template": {"metadata": {"labels": {"b": "c"}}}}}"#;
    let (_, errors) = changed(kind, Part::Main, &old, patch);
    let want = [
        "other: Not found: \"v\": unknown non-convertible field",
        "spec.selector: Invalid value: {\"app\":\"a\",\"b\":\"c\"}: cannot update non-convertible selector",
    ];
    assert_eq!(errors, want);
}
