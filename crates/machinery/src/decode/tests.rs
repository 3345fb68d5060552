//! What decoding promises, on samples of what a real server answers.

use super::*;
use crate::json::{parse, parse_exact, to_string};
use crate::object;
use crate::schema::TypeRef;

fn core(name: &str) -> &'static Type {
    TypeRef::find(&format!("io.k8s.api.core.v1.{name}")).unwrap().get()
}

fn decoded(name: &str, text: &str) -> Result<Decoded, DecodeError> {
    decode(parse(text.as_bytes()).unwrap(), core(name))
}

fn canonical(name: &str, text: &str) -> String {
    let mut value = decoded(name, text).unwrap().value;
    complete(&mut value, core(name));
    to_string(&value)
}

#[test]
fn empty_lists_and_maps_stay_until_the_object_is_complete() {
    let decoded = decoded("Container", r#"{"name":"c","command":[],"args":null}"#).unwrap();
    assert!(decoded.kept_empties);
    assert_eq!(to_string(&decoded.value), r#"{"name":"c","command":[],"resources":{}}"#);
    assert_eq!(canonical("Container", r#"{"name":"c","command":[]}"#), r#"{"name":"c","resources":{}}"#);
}

fn error(name: &str, text: &str) -> String {
    decoded(name, text).unwrap_err().to_string()
}

#[test]
fn fields_stand_in_order_with_zero_values_as_go_writes_them() {
    for (name, text, want) in [
        (
            "ConfigMap",
            r#"{"immutable":false,"data":{"b":"2","a":"1"},"metadata":{"labels":{},"name":"x"},"apiVersion":"v1","kind":"ConfigMap"}"#,
            r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"x"},"immutable":false,"data":{"a":"1","b":"2"}}"#,
        ),
        ("ConfigMap", "{}", r#"{"metadata":{}}"#),
        ("Service", "{}", r#"{"metadata":{},"spec":{},"status":{"loadBalancer":{}}}"#),
        ("Pod", "{}", r#"{"metadata":{},"spec":{"containers":null},"status":{}}"#),
        ("Pod", "null", r#"{"metadata":{},"spec":{"containers":null},"status":{}}"#),
        ("Container", r#"{"name":"c","stdin":false,"command":[]}"#, r#"{"name":"c","resources":{}}"#),
        ("ServicePort", r#"{"port":80}"#, r#"{"port":80,"targetPort":0}"#),
        ("ServicePort", r#"{"port":null,"targetPort":"web"}"#, r#"{"port":0,"targetPort":"web"}"#),
        ("Secret", r#"{"data":{"a":null,"b":"aGk="}}"#, r#"{"metadata":{},"data":{"a":"","b":"aGk="}}"#),
        ("Secret", r#"{"data":{"a":[104,105]}}"#, r#"{"metadata":{},"data":{"a":"aGk="}}"#),
        ("NodeSpec", r#"{"podCIDRs":["a",null]}"#, r#"{"podCIDRs":["a",""]}"#),
        ("ServiceSpec", r#"{"ports":[null]}"#, r#"{"ports":[{"port":0,"targetPort":0}]}"#),
        (
            "ResourceRequirements",
            r#"{"limits":{"memory":"1024Ki","cpu":1.5,"x":null}}"#,
            r#"{"limits":{"cpu":"1500m","memory":"1Mi","x":"0"}}"#,
        ),
        (
            "PodCondition",
            r#"{"lastTransitionTime":"2020-01-01T01:00:00.5+01:00"}"#,
            r#"{"type":"","status":"","lastProbeTime":null,"lastTransitionTime":"2020-01-01T00:00:00Z"}"#,
        ),
    ] {
        assert_eq!(canonical(name, text), want, "{name} {text}");
    }
}

#[test]
fn wrong_types_are_worded_as_go_words_them() {
    let prefix = "json: cannot unmarshal";
    for (name, text, want) in [
        ("ConfigMap", r#"{"data":[]}"#, "array into Go struct field ConfigMap.data of type map[string]string"),
        ("ConfigMap", r#"{"metadata":[]}"#, "array into Go struct field ConfigMap.metadata of type v1.ObjectMeta"),
        ("ConfigMap", r#"{"kind":7}"#, "number into Go struct field ConfigMap.TypeMeta.kind of type string"),
        ("ConfigMap", "[]", "array into Go value of type v1.ConfigMap"),
        ("Secret", r#"{"type":7}"#, "number into Go struct field Secret.type of type v1.SecretType"),
        ("Secret", r#"{"data":{"a":1}}"#, "number into Go struct field Secret.data of type []uint8"),
        (
            "Service",
            r#"{"spec":{"ports":[{"port":"x"}]}}"#,
            "string into Go struct field ServicePort.spec.ports.port of type int32",
        ),
        (
            "Service",
            r#"{"spec":{"ports":[{"port":1.5}]}}"#,
            "number 1.5 into Go struct field ServicePort.spec.ports.port of type int32",
        ),
        ("Node", r#"{"spec":{"taints":[[]]}}"#, "array into Go struct field NodeSpec.spec.taints of type v1.Taint"),
        ("Node", r#"{"spec":{"podCIDRs":[7]}}"#, "number into Go struct field NodeSpec.spec.podCIDRs of type string"),
        (
            "Pod",
            r#"{"metadata":{"labels":{"a":7}}}"#,
            "number into Go struct field ObjectMeta.metadata.labels of type string",
        ),
        (
            "Pod",
            r#"{"spec":{"containers":[{"readinessProbe":{"tcpSocket":{"port":99999999999}}}]}}"#,
            "number 99999999999 into Go struct field \
             TCPSocketAction.spec.containers.readinessProbe.ProbeHandler.tcpSocket.port of type int32",
        ),
        (
            "Pod",
            r#"{"metadata":{"creationTimestamp":5}}"#,
            "number into Go struct field ObjectMeta.metadata.creationTimestamp of type string",
        ),
        // The first of several.
        (
            "ConfigMap",
            r#"{"data":[],"metadata":[]}"#,
            "array into Go struct field ConfigMap.data of type map[string]string",
        ),
    ] {
        assert_eq!(error(name, text), format!("{prefix} {want}"), "{name} {text}");
    }
}

#[test]
fn numbers_are_named_as_they_were_written() {
    let read = |name: &str, text: &str| {
        let value = parse_exact(text.as_bytes()).unwrap();
        match decode(value, core(name)) {
            Ok(decoded) => to_string(&decoded.value),
            Err(error) => error.to_string(),
        }
    };
    for (name, text, want) in [
        (
            "ServicePort",
            r#"{"port":1e400}"#,
            "json: cannot unmarshal number 1e400 into Go struct field ServicePort.port of type int32",
        ),
        (
            "ServicePort",
            r#"{"port":1.0}"#,
            "json: cannot unmarshal number 1.0 into Go struct field ServicePort.port of type int32",
        ),
        (
            "ServicePort",
            r#"{"targetPort":1E5}"#,
            "json: cannot unmarshal number 1E5 into Go struct field ServicePort.targetPort of type int32",
        ),
        (
            "ServicePort",
            r#"{"name":1.5}"#,
            "json: cannot unmarshal number into Go struct field ServicePort.name of type string",
        ),
        (
            "LimitRangeItem",
            r#"{"max":{"cpu":1e5,"memory":1.5}}"#,
            r#"{"type":"","max":{"cpu":"100e3","memory":"1500m"}}"#,
        ),
    ] {
        assert_eq!(read(name, text), want, "{name} {text}");
    }
}

#[test]
fn refused_texts_are_reported_first() {
    for (name, text, want) in [
        (
            "Pod",
            r#"{"metadata":[],"spec":{"containers":[{"resources":{"limits":{"cpu":"x"}}}]}}"#,
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
        ("Secret", r#"{"data":{"a":"Bad_Value!"},"type":7}"#, "illegal base64 data at input byte 3"),
        (
            "Pod",
            r#"{"metadata":{"creationTimestamp":"x"}}"#,
            "parsing time \"x\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"x\" as \"2006\"",
        ),
    ] {
        assert_eq!(error(name, text), want);
    }
}

#[test]
fn unknown_and_repeated_fields_are_strict_errors() {
    let text = r#"{"metadata":{"unknownField":1,"name":"a","name":"b"},"Spec":{},
        "spec":{"containers":[{"name":"x","bad":{"a":1,"a":2}}],"nodeSelector":{"k":"1","j":"2","k":"3"}},"kind":"a","kind":"b"}"#;
    let decoded = decoded("Pod", text).unwrap();
    assert_eq!(
        decoded.strict,
        [
            r#"unknown field "metadata.unknownField""#,
            r#"duplicate field "metadata.name""#,
            r#"unknown field "Spec""#,
            r#"unknown field "spec.containers[0].bad""#,
            r#"duplicate field "spec.nodeSelector.k""#,
            r#"duplicate field "kind""#,
        ]
    );
    assert_eq!(decoded.value.get("metadata").str("name"), "b");
    assert_eq!(decoded.value.at(&["spec", "nodeSelector"]).str("k"), "3");
    assert_eq!(decoded.value.str("kind"), "b");
}

#[test]
fn json_schemas_are_read_by_their_own_rules() {
    let kind = TypeRef::find("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps").unwrap().get();
    let read = |text: &str| decode(parse(text.as_bytes()).unwrap(), kind);
    let value = read(
        r#"{"items":{"type":"string","nope":1},"additionalProperties":true,"default":{"b":1,"a":1.5},
        "dependencies":{"a":["x"],"b":{}},"maximum":3}"#,
    )
    .unwrap();
    assert!(value.strict.is_empty());
    assert_eq!(
        to_string(&value.value),
        r#"{"default":{"a":1.5,"b":1},"maximum":3,"items":{"type":"string"},"additionalProperties":true,"dependencies":{"a":["x"],"b":{}}}"#
    );
    assert_eq!(read(r#"{"additionalProperties":3}"#).unwrap_err().to_string(), "boolean or JSON schema expected");
    assert_eq!(
        read(r#"{"properties":{"a":{"items":{"externalDocs":{"url":1}}}}}"#).unwrap_err().to_string(),
        "json: cannot unmarshal number into Go struct field JSONSchemaProps.properties.items.externalDocs.url of type string"
    );
}

#[test]
fn numbers_are_what_their_text_reads_as() {
    let kind = TypeRef::find("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps").unwrap().get();
    // What is stored is read as JSON alone: an update compares the two.
    for text in ["0", "1.0", "1.5", "-3", "1e3", "9007199254740993", "123456789012345678901", "1e400"] {
        let text = format!(r#"{{"maximum":{text}}}"#);
        let Ok(decoded) = decode(parse_exact(text.as_bytes()).unwrap(), kind) else { continue };
        assert_eq!(parse(to_string(&decoded.value).as_bytes()).unwrap(), decoded.value, "{text}");
        assert_eq!(direct(text.as_bytes(), kind).unwrap().value, decoded.value, "{text}");
    }
}

#[test]
fn every_type_takes_an_empty_object_and_stays_as_it_is() {
    for kind in TypeRef::all().map(TypeRef::get) {
        let once = decode(Value::object(), kind).unwrap().value;
        let mut twice = once.clone();
        complete(&mut twice, kind);
        assert_eq!(to_string(&twice), to_string(&once), "{}", kind.name);
        let again = decode(once.clone(), kind).map(|decoded| to_string(&decoded.value));
        assert_eq!(again, Ok(to_string(&once)), "{}", kind.name);
        assert_eq!(to_string(&complete::zero_struct(kind)), to_string(&once), "{}", kind.name);
    }
}

#[test]
fn complete_restores_order_and_zero_values() {
    let mut pod =
        decoded("Pod", r#"{"metadata":{"name":"a"},"kind":"Pod","spec":{"containers":[{"name":"c"}]}}"#).unwrap().value;
    let spec = pod.get_mut("spec");
    spec.set("dnsPolicy", "");
    spec.set("restartPolicy", "Always");
    spec.set("volumes", vec![crate::object! { "name": "v" }]);
    spec.object_mut("nodeSelector").set("a", "b");
    spec.array_mut("containers").push(crate::object! { "image": "i", "name": "d" });
    pod.remove("status");
    pod.set("apiVersion", "v1");
    complete(&mut pod, core("Pod"));
    let want = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"},"spec":{"volumes":[{"name":"v"}],"containers":[{"name":"c","resources":{}},{"name":"d","image":"i","resources":{}}],"restartPolicy":"Always","nodeSelector":{"a":"b"}},"status":{}}"#;
    assert_eq!(to_string(&pod), want);
}

#[test]
fn the_type_is_read_before_the_rest() {
    let read = |text: &str| type_meta(&parse(text.as_bytes()).unwrap());
    assert_eq!(read(r#"{"kind":"Pod","apiVersion":"v1"}"#), Ok(("v1".into(), "Pod".into())));
    assert_eq!(
        read(r#"{"kind":7}"#).unwrap_err().to_string(),
        "json: cannot unmarshal number into Go struct field .kind of type string"
    );
}

#[test]
fn one_step_gives_what_two_steps_give_or_gives_up() {
    let schema = TypeRef::find("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps").unwrap();
    let deep = |depth: usize| format!(r#"{{"default":{}{}}}"#, "[".repeat(depth), "]".repeat(depth));
    let (deepest, too_deep) = (deep(crate::json::DEPTH_MAX - 1), deep(crate::json::DEPTH_MAX));
    for (kind, text, accepted) in [
        (core("Pod"), r#" { "spec" : {"containers":[{"name":"c","resources":{}}]} , "kind":"Pod"} "#, true),
        (
            core("Pod"),
            r#"{"metadata":{"creationTimestamp":null},"status":{},"spec":{"containers":[],"nodeName":null}}"#,
            true,
        ),
        (core("ConfigMap"), r#"{"data":{"b":"\u00e9\n","a":null},"metadata":{"labels":null}}"#, true),
        (core("ResourceRequirements"), r#"{"limits":{"memory":"1024Ki","cpu":1.5,"x":null}}"#, true),
        (core("Secret"), r#"{"data":{"a":[104,105],"b":"aGk","c":null}}"#, false),
        (core("Secret"), r#"{"data":{"a":[104,105],"b":"aGk=","c":null}}"#, true),
        (core("ServiceSpec"), r#"{"ports":[null,{"targetPort":"web"}],"clusterIPs":[]}"#, true),
        (
            schema.get(),
            r#"{"items":[{"a":1}],"additionalProperties":true,"dependencies":{"a":["x"],"b":{"type":"x"}}}"#,
            true,
        ),
        (schema.get(), r#"{"default":{"b":1,"a":[1.5,{}],"b":2},"enum":[1,"x",null]}"#, true),
        (schema.get(), r#"{"additionalProperties":3}"#, false),
        (schema.get(), &deepest, true),
        (schema.get(), &too_deep, false),
        (core("Pod"), r#"{"spec":{"nodeName":7}}"#, false),
        (core("Pod"), r#"{"spec":{"priority":1.0}}"#, false),
        (core("Pod"), r#"{"spec":{"priority":4294967296}}"#, false),
        (core("Pod"), r#"{"spec":[]}"#, false),
        (core("Pod"), r#"{"Spec":{}}"#, false),
        (core("Pod"), r#"{"spec":{},"spec":{}}"#, false),
        (core("Pod"), r#"{"kind":null}"#, false),
        (core("Pod"), r#"{"kind":"a","kind":"a"}"#, false),
        (core("Pod"), r#"{"metadata":{"labels":{"b":"","a":"","b":""}}}"#, false),
        (core("Pod"), r#"{"metadata":{"creationTimestamp":"x"}}"#, false),
        (core("Pod"), r#"{"spec":{}} x"#, false),
        (core("Pod"), r#"{"spec":{},}"#, false),
        (core("Pod"), r#"{"spec":{}"#, false),
        (core("Pod"), "null", false),
        (core("Pod"), "", false),
    ] {
        let once = direct(text.as_bytes(), kind);
        assert_eq!(once.is_some(), accepted, "{text}");
        if let Some(once) = once {
            let twice = decode(parse(text.as_bytes()).unwrap(), kind).unwrap();
            assert_eq!(format!("{once:?}"), format!("{twice:?}"), "{text}");
        }
    }
    assert!(direct(b"{\"kind\":\"\xff\"}", core("Pod")).is_none());
}

#[test]
fn depth_has_a_bound_that_a_small_stack_bears() {
    let kind = TypeRef::find("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps").unwrap().get();
    let run = move || {
        for field in ["not", "items", "additionalProperties"] {
            let nested = |depth: usize| format!("{}{{}}{}", format!("{{\"{field}\":").repeat(depth), "}".repeat(depth));
            let read = |depth: usize| decode(parse(nested(depth).as_bytes()).unwrap(), kind);
            let mut value = read(STRUCT_DEPTH_MAX - 1).unwrap().value;
            complete(&mut value, kind);
            assert_eq!(to_string(&value), nested(STRUCT_DEPTH_MAX - 1));
            let once = |depth: usize| direct(nested(depth).as_bytes(), kind);
            assert_eq!(once(STRUCT_DEPTH_MAX - 1).map(|it| it.value), Some(value));
            assert!(once(STRUCT_DEPTH_MAX).is_none());
            assert_eq!(read(STRUCT_DEPTH_MAX).unwrap_err().to_string(), "exceeded max depth");
            assert!(read(crate::json::DEPTH_MAX - 1).is_err());
        }
    };
    std::thread::Builder::new().stack_size(2 << 20).spawn(run).unwrap().join().unwrap();
}

#[test]
fn trees_are_converted_as_upstream_converts_them() {
    let converted = |name: &str, text: &str| {
        convert(parse(text.as_bytes()).unwrap(), core(name)).map(|it| to_string(&it.value)).map_err(|it| it.to_string())
    };
    for (name, text, why) in [
        ("Pod", r#"{"spec":[]}"#, "cannot restore struct from: slice"),
        ("Pod", r#"{"spec":"x"}"#, "cannot restore struct from: string"),
        ("Pod", r#"{"metadata":{"labels":[]}}"#, "cannot restore map from slice"),
        ("Pod", r#"{"metadata":{"labels":{"a":1}}}"#, "cannot convert int64 to string"),
        ("Pod", r#"{"metadata":{"labels":{"a":true}}}"#, "unrecognized type: string"),
        ("Pod", r#"{"metadata":{"finalizers":{}}}"#, "cannot restore slice from map"),
        (
            "Pod",
            r#"{"metadata":{"creationTimestamp":1}}"#,
            "json: cannot unmarshal number into Go value of type string",
        ),
        ("Pod", r#"{"spec":{"dnsPolicy":1}}"#, "cannot convert int64 to v1.DNSPolicy"),
        ("Pod", r#"{"spec":{"priority":"x"}}"#, "unrecognized type: int32"),
        ("Pod", r#"{"spec":{"priority":1.5}}"#, "cannot convert float64 to int32"),
        // The struct's order counts, not the document's.
        ("Pod", r#"{"spec":{"priority":"x","hostNetwork":1},"metadata":[]}"#, "cannot restore struct from: slice"),
        ("Pod", r#"{"spec":{"priority":"x","hostNetwork":1}}"#, "unrecognized type: bool"),
        ("Secret", r#"{"data":{"a":"1"}}"#, "error decoding from json: illegal base64 data at input byte 0"),
        ("Secret", r#"{"data":{"a":1}}"#, "cannot restore slice from int64"),
        ("ServicePort", r#"{"targetPort":[]}"#, "json: cannot unmarshal array into Go value of type int32"),
    ] {
        assert_eq!(converted(name, text), Err(why.to_owned()), "{text}");
    }
    for (name, text, value) in [
        ("PodSpec", r#"{"priority":4294967297,"containers":[]}"#, r#"{"containers":[],"priority":1}"#),
        ("PodSpec", r#"{"priority":3.0,"containers":[]}"#, r#"{"containers":[],"priority":3}"#),
        ("Secret", r#"{"data":{"a":[104,361],"b":null}}"#, r#"{"metadata":{},"data":{"a":"aGk=","b":""}}"#),
    ] {
        assert_eq!(converted(name, text).as_deref(), Ok(value));
    }
    let text = r#"{"z":1,"spec":{"nodeSelector":{"a":"b"},"volumes":[{"x":1}]},"metadata":{"y":1}}"#;
    let strict = convert(parse(text.as_bytes()).unwrap(), core("Pod")).unwrap().strict;
    assert_eq!(strict, ["unknown field \"metadata.y\"", "unknown field \"spec.volumes[0].x\"", "unknown field \"z\""]);
}

#[test]
fn what_is_stored_has_no_empty_lists() {
    let role = TypeRef::find("io.k8s.api.rbac.v1.Role").unwrap().get();
    let mut value = object! { "rules": Value::Array(Vec::new()) };
    complete(&mut value, role);
    assert_eq!(value.get("rules"), &Value::Array(Vec::new()));
    settle(&mut value, role);
    assert_eq!(value, object! { "metadata": Value::object(), "rules": Value::Null });
}
