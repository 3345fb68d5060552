//! What the kinds make of requests: default, prepare, validate, and the cells of tables.

use rkube_kinds::kind::Part;
use rkube_kinds::{Kind, find};
use rkube_machinery::{Value, decode, json};

fn kind(group: &str, resource: &str) -> &'static Kind {
    find(group, "v1", resource).expect("the kind is served")
}

fn read(kind: &Kind, text: &str) -> Value {
    let raw = json::parse(text.as_bytes()).expect("the text is JSON");
    let schema = kind.schema.table().expect("the type is in the table");
    let mut value = decode::decode(raw, schema).expect("the text fits the type").value;
    kind.rules.default(&mut value);
    match &kind.conversion {
        Some(conversion) => conversion.to_stored(value),
        None => value,
    }
}

/// The errors that creating this object gives.
fn create(kind: &Kind, text: &str) -> Vec<String> {
    let mut object = read(kind, text);
    kind.rules.prepare_create(&mut object);
    kind.validate_create(&object).0.iter().map(ToString::to_string).collect()
}

/// The errors that changing `old` into `new` gives.
fn update(kind: &Kind, part: Part, old: &str, new: &str) -> Vec<String> {
    let (old, mut object) = (read(kind, old), read(kind, new));
    kind.rules.prepare_update(part, &mut object, &old);
    kind.validate_update(part, &object, &old).0.iter().map(ToString::to_string).collect()
}

fn cells(kind: &Kind, text: &str, now: i64) -> String {
    let object = read(kind, text);
    let cells: Vec<String> = kind
        .columns
        .iter()
        .map(|column| match column.cell(&object, now) {
            Value::String(text) => format!("{text:?}"),
            other => json::to_string(&other),
        })
        .collect();
    cells.join(" ")
}

const META: &str = r#""metadata":{"name":"x","namespace":"default","resourceVersion":"1"}"#;

fn with_meta(rest: &str) -> String {
    format!("{{{META},{rest}}}")
}

#[test]
fn secrets_have_what_their_type_asks_for() {
    let secrets = kind("", "secrets");
    let table: &[(&str, &[&str])] = &[
        (r#""stringData":{"a":"b"}"#, &[]),
        (r#""type":"kubernetes.io/tls","data":{"tls.crt":""}"#, &["data[tls.key]: Required value"]),
        (r#""type":"kubernetes.io/ssh-auth""#, &["data[ssh-privatekey]: Required value"]),
        (
            r#""type":"kubernetes.io/service-account-token""#,
            &["metadata.annotations[kubernetes.io/service-account.name]: Required value"],
        ),
        (
            r#""type":"kubernetes.io/dockerconfigjson","stringData":{".dockerconfigjson":"{"}"#,
            &["data[.dockerconfigjson]: Invalid value: \"<secret contents redacted>\": unexpected end of JSON input"],
        ),
        (
            r#""type":"kubernetes.io/dockercfg","stringData":{".dockercfg":"[]"}"#,
            &[
                "data[.dockercfg]: Invalid value: \"<secret contents redacted>\": json: cannot unmarshal array into Go value \
               of type map[string]interface {}",
            ],
        ),
    ];
    for (rest, errors) in table {
        assert_eq!(create(secrets, &with_meta(rest)), *errors, "{rest}");
    }
    let written = read(secrets, &with_meta(r#""data":{"a":"Zg=="},"stringData":{"a":"hi"}"#));
    assert_eq!(written.map("data").str("a"), "aGk=");
    assert_eq!(written.str("type"), "Opaque");
    assert_eq!(
        update(secrets, Part::Main, &with_meta(r#""immutable":true"#), &with_meta(r#""type":"x","data":{"a":"Zg=="}"#)),
        [
            "type: Invalid value: \"x\": field is immutable",
            "immutable: Forbidden: field is immutable when `immutable` is set",
            "data: Forbidden: field is immutable when `immutable` is set",
        ]
    );
}

#[test]
fn namespaces_keep_their_finalizers() {
    let namespaces = kind("", "namespaces");
    let mut namespace = read(namespaces, r#"{"metadata":{"name":"a"}}"#);
    namespaces.rules.prepare_create(&mut namespace);
    assert_eq!(namespace.at(&["metadata", "labels"]).str("kubernetes.io/metadata.name"), "a");
    assert_eq!(namespace.get("spec").list("finalizers"), ["kubernetes".into()]);
    assert!(namespaces.rules.keep_until_finalized(&namespace));
    let meta = r#""metadata":{"name":"a","resourceVersion":"1"}"#;
    assert_eq!(
        update(
            namespaces,
            Part::Other("finalize"),
            &format!("{{{meta}}}"),
            &format!(r#"{{{meta},"spec":{{"finalizers":["bad"]}}}}"#)
        ),
        [
            "spec.finalizers[0]: Invalid value: \"bad\": name is neither a standard finalizer name nor is it fully qualified"
        ]
    );
    assert_eq!(
        update(
            namespaces,
            Part::Status,
            &format!("{{{meta}}}"),
            &format!(r#"{{{meta},"status":{{"phase":"Terminating"}}}}"#)
        ),
        ["status.Phase: Invalid value: \"Terminating\": may only be 'Active' if `deletionTimestamp` is empty"]
    );
}

#[test]
fn services_are_checked_by_type() {
    let services = kind("", "services");
    let table: &[(&str, &[&str])] = &[
        (r#""spec":{"ports":[{"port":80}]}"#, &[]),
        (r#""spec":{"type":"ExternalName"}"#, &["spec.externalName: Required value"]),
        (
            r#""spec":{"ports":[{"port":80,"nodePort":30000},{"name":"b","port":80}]}"#,
            &[
                "spec.ports[0].name: Required value",
                "spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'",
                "spec.ports[1]: Duplicate value: {\"Name\":\"\",\"Protocol\":\"TCP\",\"AppProtocol\":null,\"Port\":80,\
                 \"TargetPort\":0,\"NodePort\":0}",
            ],
        ),
        (
            r#""spec":{"ports":[{"port":80}],"externalIPs":["127.0.0.1","010.0.0.1"]}"#,
            &[
                "spec.externalIPs[0]: Invalid value: \"127.0.0.1\": may not be in the loopback range (127.0.0.0/8, ::1/128)",
                "spec.externalIPs[1]: Invalid value: \"010.0.0.1\": must not have leading 0s",
            ],
        ),
        (
            r#""spec":{"ports":[{"port":80}],"clusterIP":"10.0.0.1","clusterIPs":["None","10.0.0.1"]}"#,
            &[
                "spec.clusterIPs: Invalid value: [\"None\",\"10.0.0.1\"]: first value must match `clusterIP`",
                "spec.clusterIPs: Invalid value: [\"None\",\"10.0.0.1\"]: 'None' must be the first and only value",
            ],
        ),
        (
            r#""spec":{"ports":[{"port":80}],"trafficDistribution":"x","loadBalancerClass":"a.b/c"}"#,
            &[
                "spec.loadBalancerClass: Forbidden: may only be used when `type` is 'LoadBalancer'",
                "spec.trafficDistribution: Unsupported value: \"x\": supported values: \"PreferClose\", \"PreferSameZone\", \
                 \"PreferSameNode\"",
            ],
        ),
    ];
    for (rest, errors) in table {
        assert_eq!(create(services, &with_meta(rest)), *errors, "{rest}");
    }
    let spec = |rest: &str| with_meta(&format!(r#""spec":{{"ports":[{{"port":80}}],{rest}}}"#));
    assert_eq!(
        update(
            services,
            Part::Main,
            &spec(r#""clusterIP":"10.0.0.1","clusterIPs":["10.0.0.1"]"#),
            &spec(r#""clusterIP":"10.0.0.2","clusterIPs":["10.0.0.2"]"#)
        ),
        ["spec.clusterIPs[0]: Invalid value: [\"10.0.0.2\"]: may not change once set"]
    );
}

#[test]
fn a_service_that_loses_its_type_loses_what_that_needed() {
    let services = kind("", "services");
    let balanced = r#""spec":{"type":"LoadBalancer","clusterIP":"10.0.0.1","clusterIPs":["10.0.0.1"],
        "ipFamilies":["IPv4"],"ipFamilyPolicy":"SingleStack","ports":[{"port":80,"nodePort":30000}]},
        "status":{"loadBalancer":{"ingress":[{"ip":"1.2.3.4"}]}}"#;
    let old = read(services, &with_meta(balanced));
    let mut service = old.clone();
    let spec = service.object_mut("spec");
    spec.set("type", "ExternalName");
    spec.set("externalName", "a.example.com");
    services.rules.prepare_update(Part::Main, &mut service, &old);
    services.rules.canonicalize(&mut service);
    let left = service.get("spec").as_map().keys().map(ToString::to_string).collect::<Vec<_>>().join(",");
    assert_eq!(left, "ports,type,sessionAffinity,externalName");
    assert!(!service.get("spec").list("ports")[0].has("nodePort"));
    assert!(service.get("status").map("loadBalancer").is_empty());
    assert!(services.validate_update(Part::Main, &service, &old).is_empty());
}

#[test]
fn nodes_keep_what_they_were_given() {
    let nodes = kind("", "nodes");
    let node = |spec: &str| format!(r#"{{"metadata":{{"name":"n","resourceVersion":"1"}},"spec":{{{spec}}}}}"#);
    assert_eq!(
        update(
            nodes,
            Part::Main,
            &node(r#""podCIDR":"10.0.0.0/24","providerID":"a""#),
            &node(r#""podCIDR":"10.0.1.0/24","providerID":"b""#)
        ),
        [
            "spec.podCIDRs: Forbidden: node updates may not change podCIDR except from \"\" to valid",
            "spec.providerID: Forbidden: node updates may not change providerID except from \"\" to valid",
        ]
    );
    assert_eq!(
        create(nodes, &node(r#""taints":[{"key":"a","effect":"NoSchedule"},{"key":"a","effect":"NoSchedule"}]"#)),
        [
            "metadata.taints[1]: Duplicate value: {\"Key\":\"a\",\"Value\":\"\",\"Effect\":\"NoSchedule\",\"TimeAdded\":null}: \
          taints must be unique by key and effect pair"
        ]
    );
}

#[test]
fn events_are_stricter_in_their_own_group() {
    let (legacy, new) = (kind("", "events"), kind("events.k8s.io", "events"));
    assert!(create(legacy, &with_meta(r#""involvedObject":{"namespace":"default"},"count":1"#)).is_empty());
    assert_eq!(
        create(legacy, &with_meta(r#""involvedObject":{"namespace":"other"}"#)),
        ["involvedObject.namespace: Invalid value: \"other\": does not match event.namespace"]
    );
    assert_eq!(
        create(new, &with_meta(r#""regarding":{"namespace":"default"},"type":"x","deprecatedCount":1"#)),
        [
            "eventTime: Required value",
            "type: Invalid value: \"\": has invalid value: x",
            "count: Invalid value: \"\": needs to be unset",
        ]
    );
    assert_eq!(new.group_kind().to_string(), "Event");
}

#[test]
fn cells_say_what_people_look_for() {
    let at = 1_767_225_600 + 3600;
    let created = r#""metadata":{"name":"x","creationTimestamp":"2026-01-01T00:00:00Z","labels":{"node-role.kubernetes.io/b":"",
        "kubernetes.io/role":"a"}}"#;
    assert_eq!(
        cells(kind("", "nodes"), &format!(r#"{{{created},"spec":{{"unschedulable":true}}}}"#), at),
        r#""x" "Unknown,SchedulingDisabled" "a,b" "60m" "" "<none>" "<none>" "<unknown>" "<unknown>" "<unknown>""#
    );
    let spec = r#""spec":{"type":"LoadBalancer","clusterIPs":["10.0.0.1"],"externalIPs":["1.1.1.1"],"selector":{"b":"2","a":"1"},
        "ports":[{"port":80,"nodePort":30000},{"port":81}]},"status":{"loadBalancer":{"ingress":[{"hostname":"h"},{"ip":"2.2.2.2"}]}}"#;
    assert_eq!(
        cells(kind("", "services"), &format!("{{{created},{spec}}}"), at),
        r#""x" "LoadBalancer" "10.0.0.1" "2.2.2.2,h,1.1.1.1" "80:30000/TCP,81/TCP" "60m" "a=1,b=2""#
    );
    let event = r#""involvedObject":{"kind":"Pod","name":"p","fieldPath":"f"},"reason":"R","type":"Normal","message":" m ",
        "source":{"component":"c","host":"h"},"firstTimestamp":"2026-01-01T00:00:00Z","lastTimestamp":"2026-01-01T00:59:00Z""#;
    assert_eq!(
        cells(kind("", "events"), &format!("{{{created},{event}}}"), at),
        r#""60s" "Normal" "R" "pod/p" "f" "c, h" "m" "60m" 1 "x""#
    );
}
