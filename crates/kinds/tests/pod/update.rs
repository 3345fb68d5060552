//! What may change of a pod, by which of its parts.

use rkube_kinds::kind::Part;
use rkube_kinds::pod_spec;
use rkube_machinery::field::{Errors, Path};
use rkube_machinery::{Value, decode, json};

use crate::common::kind;

const EPHEMERAL: Part = Part::Other("ephemeralcontainers");
const RESIZE: Part = Part::Other("resize");

fn parse(text: &str) -> Value {
    json::parse(text.as_bytes()).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn stored(text: &str) -> Value {
    let mut pod = decode::decode(parse(text), kind().schema.table().unwrap()).unwrap().value;
    kind().rules.default(&mut pod);
    kind().rules.prepare_create(&mut pod);
    pod.object_mut("metadata").set("resourceVersion", "1");
    pod
}

fn base() -> Value {
    stored(
        r#"{"metadata":{"name":"p","namespace":"n"},"spec":{"containers":[{"name":"c","image":"i:1",
            "resources":{"requests":{"cpu":"1"}}}]}}"#,
    )
}

/// The field of this path set to this value; removed where it is null.
fn set(pod: &mut Value, path: &str, value: &str) {
    let mut at = pod;
    let mut steps: Vec<&str> = path.split('.').collect();
    let last = steps.pop().unwrap();
    for step in steps {
        at = match step.parse::<usize>() {
            Ok(index) => match at {
                Value::Array(items) => &mut items[index],
                _ => panic!("no list at {step} in {path}"),
            },
            Err(_) => at.get_mut(step),
        };
    }
    match parse(value) {
        Value::Null => {
            at.remove(last);
        }
        value => at.set(last, value),
    }
}

fn errors(part: Part, old: &Value, changes: &[(&str, &str)]) -> Vec<String> {
    let mut new = old.clone();
    for (path, value) in changes {
        set(&mut new, path, value);
    }
    kind().rules.default(&mut new);
    kind().rules.prepare_update(part, &mut new, old);
    kind().validate_update(part, &new, old).0.iter().map(ToString::to_string).collect()
}

#[test]
fn little_of_a_spec_may_change() {
    let old = base();
    let none: &[&str] = &[];
    assert_eq!(errors(Part::Main, &old, &[("spec.containers.0.image", r#""i:2""#)]), none);
    assert_eq!(errors(Part::Main, &old, &[("spec.activeDeadlineSeconds", "5")]), none);
    assert_eq!(errors(Part::Main, &old, &[("spec.tolerations", r#"[{"operator":"Exists"}]"#)]), none);
    assert_eq!(
        errors(Part::Main, &old, &[("spec.hostNetwork", "true")]),
        ["spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,\
          `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing \
          tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously \
          negative)\n@@ -46,7 +46,7 @@\n  \"AutomountServiceAccountToken\": null,\n  \"NodeName\": \"\",\n  \
          \"SecurityContext\": {\n-  \"HostNetwork\": false,\n+  \"HostNetwork\": true,\n   \"HostPID\": false,\n   \
          \"HostIPC\": false,\n   \"ShareProcessNamespace\": null,\n"]
    );
    assert_eq!(
        errors(Part::Main, &old, &[("spec.containers", r#"[{"name":"c","image":"i"},{"name":"d","image":"i"}]"#)]),
        ["spec.containers: Forbidden: pod updates may not add or remove containers"]
    );
    assert_eq!(
        errors(Part::Main, &old, &[("metadata.annotations", r#"{"kubernetes.io/config.mirror":"x"}"#)]),
        [
            "metadata.annotations[kubernetes.io/config.mirror]: Invalid value: \"x\": must set spec.nodeName if mirror \
             pod annotation is set",
            "metadata.annotations[kubernetes.io/config.mirror]: Forbidden: may not add mirror pod annotation",
            "metadata.annotations[kubernetes.io/config.mirror]: Invalid value: \"x\": must set spec.nodeName if mirror \
             pod annotation is set",
        ]
    );
}

#[test]
fn deadlines_and_tolerations_only_tighten() {
    let mut old = base();
    set(&mut old, "spec.activeDeadlineSeconds", "5");
    set(&mut old, "spec.tolerations", r#"[{"key":"a","operator":"Exists","effect":"NoExecute"}]"#);
    assert_eq!(
        errors(Part::Main, &old, &[("spec.activeDeadlineSeconds", "6")]),
        ["spec.activeDeadlineSeconds: Invalid value: 6: must be less than or equal to previous value"]
    );
    assert_eq!(
        errors(Part::Main, &old, &[("spec.activeDeadlineSeconds", "null")]),
        ["spec.activeDeadlineSeconds: Invalid value: null: must not update from a positive integer to nil value"]
    );
    assert_eq!(
        errors(Part::Main, &old, &[("spec.tolerations", "[]")]),
        ["spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds"]
    );
    let longer = r#"[{"key":"a","operator":"Exists","effect":"NoExecute","tolerationSeconds":1}]"#;
    assert_eq!(errors(Part::Main, &old, &[("spec.tolerations", longer)]), [""; 0]);
}

#[test]
fn gated_pods_may_narrow_their_nodes() {
    let old = stored(
        r#"{"metadata":{"name":"p","namespace":"n"},"spec":{"containers":[{"name":"c","image":"i"}],
            "nodeSelector":{"a":"b"},"schedulingGates":[{"name":"x"},{"name":"y"}],"affinity":{"nodeAffinity":{
            "requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[
            {"key":"k","operator":"Exists"}]}]}}}}}"#,
    );
    let terms = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms";
    let more = r#"[{"matchExpressions":[{"key":"k","operator":"Exists"},{"key":"l","operator":"Exists"}]}]"#;
    assert_eq!(errors(Part::Main, &old, &[("spec.nodeSelector", r#"{"a":"b","c":"d"}"#), (terms, more)]), [""; 0]);
    assert_eq!(errors(Part::Main, &old, &[("spec.schedulingGates", r#"[{"name":"y"}]"#)]), [""; 0]);
    assert_eq!(
        errors(Part::Main, &old, &[("spec.schedulingGates", r#"[{"name":"z"}]"#)]),
        ["spec.schedulingGates[0].name: Forbidden: only deletion is allowed, but found new scheduling gate 'z'"]
    );
    assert_eq!(
        errors(Part::Main, &old, &[("spec.nodeSelector", r#"{"c":"d"}"#)]),
        ["spec.nodeSelector: Invalid value: {\"c\":\"d\"}: only additions to spec.nodeSelector are allowed (no \
          mutations or deletions)"]
    );
    let other = r#"[{"matchExpressions":[{"key":"l","operator":"Exists"}]}]"#;
    assert_eq!(
        errors(Part::Main, &old, &[(terms, other)]),
        [format!(
            "{terms}[0]: Invalid value: {{\"MatchExpressions\":[{{\"Key\":\"l\",\"Operator\":\"Exists\",\"Values\":null}}],\
             \"MatchFields\":null}}: only additions are allowed (no mutations or deletions)"
        )]
    );
}

#[test]
fn generation_counts_changes_of_the_spec() {
    let old = base();
    let mut new = old.clone();
    set(&mut new, "spec.containers.0.image", r#""i:2""#);
    set(&mut new, "status.phase", r#""Running""#);
    kind().rules.prepare_update(Part::Main, &mut new, &old);
    assert_eq!(new.get("metadata").int("generation"), 2);
    assert_eq!(new.get("status").str("phase"), "Pending");
    let mut new = old.clone();
    set(&mut new, "metadata.labels", r#"{"a":"b"}"#);
    set(&mut new, "spec.containers.0.resources.requests.cpu", r#""1000m""#);
    kind().rules.prepare_update(Part::Main, &mut new, &old);
    assert_eq!(new.get("metadata").int("generation"), 1);
}

#[test]
fn status_is_checked() {
    let mut old = base();
    set(&mut old, "status.containerStatuses", r#"[{"name":"c","state":{"terminated":{"exitCode":0}}}]"#);
    set(&mut old, "spec.restartPolicy", r#""Never""#);
    let alive = r#"[{"name":"c","state":{"running":{}}}]"#;
    let table: &[(&str, &str, &[&str])] = &[
        ("status.phase", r#""Running""#, &[]),
        (
            "status.containerStatuses",
            alive,
            &["status.containerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state"],
        ),
        ("status.qosClass", r#""Guaranteed""#, &["status.qosClass: Invalid value: \"Guaranteed\": field is immutable"]),
        (
            "status.podIPs",
            r#"[{"ip":"1.2.3.4"},{"ip":"1.2.3.5"}]"#,
            &[
                "status.podIPs: Invalid value: [{\"IP\":\"1.2.3.4\"},{\"IP\":\"1.2.3.5\"}]: may specify no more than one IP for each IP family",
            ],
        ),
        (
            "status.podIPs",
            r#"[{"ip":"x"}]"#,
            &["status.podIPs[0]: Invalid value: \"x\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"],
        ),
        (
            "status.hostIPs",
            r#"[{"ip":"1.2.3.4"}]"#,
            &["status.hostIPs[0].ip: Invalid value: \"1.2.3.4\": must be equal to `hostIP`"],
        ),
        (
            "status.observedGeneration",
            "-1",
            &["status.observedGeneration: Invalid value: -1: must be a non-negative integer"],
        ),
        (
            "status.conditions",
            r#"[{"type":"Ready","status":"True"},{"type":"a.b/","status":"True"}]"#,
            &[
                "status.conditions[1].Type: Invalid value: \"a.b/\": name part must be non-empty",
                "status.conditions[1].Type: Invalid value: \"a.b/\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
            ],
        ),
        (
            "status.resourceClaimStatuses",
            r#"[{"name":"x"}]"#,
            &[
                "status.resourceClaimStatuses[0].name: Invalid value: \"x\": must match the name of an entry in `spec.resourceClaims`",
            ],
        ),
    ];
    for (path, value, want) in table {
        assert_eq!(errors(Part::Status, &old, &[(path, value)]), *want, "{path} {value}");
    }
    set(&mut old, "spec.restartPolicy", r#""Always""#);
    assert_eq!(errors(Part::Status, &old, &[("status.containerStatuses", alive)]), [""; 0]);
}

#[test]
fn status_keeps_what_it_does_not_say() {
    let mut old = base();
    set(&mut old, "status.observedGeneration", "3");
    set(&mut old, "status.conditions", r#"[{"type":"Ready","status":"False","observedGeneration":2}]"#);
    let mut new = old.clone();
    set(&mut new, "status", r#"{"phase":"Running","podIP":"1.2.3.4","conditions":[{"type":"Ready","status":"True"}]}"#);
    set(&mut new, "spec.nodeName", r#""n""#);
    kind().rules.default(&mut new);
    kind().rules.prepare_update(Part::Status, &mut new, &old);
    let status = new.get("status");
    assert_eq!((status.int("observedGeneration"), status.str("qosClass")), (3, "Burstable"));
    assert_eq!(status.list("conditions")[0].int("observedGeneration"), 2);
    assert_eq!(status.list("podIPs")[0].str("ip"), "1.2.3.4");
    assert_eq!(new.get("spec").str("nodeName"), "");
}

#[test]
fn ephemeral_containers_are_only_added() {
    let mut old = base();
    let one = r#"[{"name":"e","image":"i"}]"#;
    assert_eq!(errors(EPHEMERAL, &old, &[("spec.ephemeralContainers", one)]), [""; 0]);
    set(&mut old, "spec.ephemeralContainers", one);
    kind().rules.default(&mut old);
    assert_eq!(
        errors(EPHEMERAL, &old, &[("spec.ephemeralContainers", "null")]),
        ["spec.ephemeralContainers: Forbidden: existing ephemeral containers \"e\" may not be removed\n"]
    );
    let changed = errors(EPHEMERAL, &old, &[("spec.ephemeralContainers.0.image", r#""j""#)]);
    assert_eq!(
        changed,
        [
            "spec.ephemeralContainers: Forbidden: existing ephemeral containers \"e\" may not be changed\n@@ -1,6 +1,6 @@\n \
          {\n  \"Name\": \"e\",\n- \"Image\": \"i\",\n+ \"Image\": \"j\",\n  \"Command\": null,\n  \"Args\": null,\n  \
          \"WorkingDir\": \"\",\n"
        ]
    );
    set(&mut old, "metadata.annotations", r#"{"kubernetes.io/config.mirror":"x"}"#);
    assert_eq!(errors(EPHEMERAL, &old, &[]), ["[]: Forbidden: static pods do not support ephemeral containers"]);
}

#[test]
fn resizing_changes_cpu_and_memory() {
    let old = base();
    let resources = "spec.containers.0.resources";
    assert_eq!(errors(RESIZE, &old, &[(resources, r#"{"requests":{"cpu":"2"}}"#)]), [""; 0]);
    assert_eq!(errors(RESIZE, &old, &[("spec.containers.0.image", r#""x""#)]), [""; 0]);
    assert_eq!(
        errors(RESIZE, &old, &[(resources, r#"{"requests":{"memory":"1"}}"#)]),
        ["spec.containers[0].resources.requests: Forbidden: resource requests cannot be removed"]
    );
    assert_eq!(
        errors(RESIZE, &old, &[(resources, r#"{"requests":{"cpu":"1","ephemeral-storage":"1"}}"#)]),
        ["spec: Forbidden: only cpu and memory resources are mutable"]
    );
    assert_eq!(
        errors(RESIZE, &old, &[("spec.containers.0.name", r#""d""#)]),
        ["spec.containers[0].name: Forbidden: containers may not be renamed or reordered on resize"]
    );
    let full = r#"{"requests":{"cpu":"1","memory":"1"},"limits":{"cpu":"1","memory":"1"}}"#;
    assert_eq!(
        errors(RESIZE, &old, &[(resources, full)]),
        ["spec: Invalid value: \"Burstable\": Pod QOS Class may not change as a result of resizing"]
    );
}

#[test]
fn deletion_waits_as_long_as_the_pod_says() {
    let rules = &kind().rules;
    let mut pod = base();
    assert_eq!(rules.grace_period_seconds(&pod, Some(5)), Some(0));
    set(&mut pod, "spec.nodeName", r#""n""#);
    assert_eq!(rules.grace_period_seconds(&pod, None), Some(30));
    assert_eq!(rules.grace_period_seconds(&pod, Some(-1)), Some(1));
    set(&mut pod, "status.phase", r#""Succeeded""#);
    assert_eq!(rules.grace_period_seconds(&pod, None), Some(0));
}

#[test]
fn templates_are_checked_too() {
    let mut template = parse(
        r#"{"metadata":{"labels":{"a":"b c"}},"spec":{"containers":[{"name":"c","image":" i"}],"ephemeralContainers":[{"name":"e","image":"i"}]}}"#,
    );
    pod_spec::default_pod_spec(template.get_mut("spec"));
    let mut errors = Errors::new();
    pod_spec::validate_pod_template(Path::new("template"), &template, &pod_spec::PodOptions::for_create(), &mut errors);
    let fields: Vec<_> = errors.0.iter().map(|error| error.field.as_str()).collect();
    assert_eq!(fields, ["template.labels", "template.spec.ephemeralContainers"]);
    let warnings =
        pod_spec::template_warnings(Path::new("template"), &parse(r#"{"spec":{"terminationGracePeriodSeconds":-1}}"#));
    assert_eq!(
        warnings,
        [
            "template.spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1"
        ]
    );
}
