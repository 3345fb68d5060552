//! Volumes, claims, and devices: what new objects get, and what a change may do.

use std::sync::Arc;

use rkube_kinds::kind::Part;
use rkube_kinds::{Kind, all};
use rkube_machinery::{Value, decode, json};

/// A right object of each kind in each version.
const SAMPLES: &[(&str, &str)] = &[
    (
        "v1 PersistentVolume",
        r#""spec":{"capacity":{"storage":"1Gi"},"accessModes":["ReadWriteOnce"],"hostPath":{"path":"/a"}}"#,
    ),
    (
        "v1 PersistentVolumeClaim",
        r#""spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}},
           "dataSource":{"kind":"PersistentVolumeClaim","name":"a"}}"#,
    ),
    ("storage.k8s.io/v1 StorageClass", r#""provisioner":"example.com/p""#),
    ("storage.k8s.io/v1 CSIDriver", r#""spec":{"tokenRequests":[{"audience":"a"}]}"#),
    ("storage.k8s.io/v1 CSINode", r#""spec":{"drivers":[{"name":"d.io","nodeID":"n","topologyKeys":["zone"]}]}"#),
    ("storage.k8s.io/v1 CSIStorageCapacity", r#""storageClassName":"c","capacity":"1Gi""#),
    (
        "storage.k8s.io/v1 VolumeAttachment",
        r#""spec":{"attacher":"d.io","nodeName":"n","source":{"persistentVolumeName":"pv"}}"#,
    ),
    ("storage.k8s.io/v1 VolumeAttributesClass", r#""driverName":"d.io","parameters":{"a":"b"}"#),
    ("storage.k8s.io/v1beta1 VolumeAttributesClass", r#""driverName":"d.io","parameters":{"a":"b"}"#),
    (
        "resource.k8s.io/v1 DeviceClass",
        r#""spec":{"selectors":[{"cel":{"expression":"device.driver == 'd.io'"}}],
           "config":[{"opaque":{"driver":"d.io","parameters":{"a":1}}}]}"#,
    ),
    ("resource.k8s.io/v1beta2 DeviceClass", r#""spec":{}"#),
    ("resource.k8s.io/v1beta1 DeviceClass", r#""spec":{}"#),
    (
        "resource.k8s.io/v1 ResourceClaim",
        r#""spec":{"devices":{"requests":[{"name":"a","exactly":{"deviceClassName":"c"}},
           {"name":"b","firstAvailable":[{"name":"x","deviceClassName":"c","allocationMode":"All"}]}],
           "constraints":[{"requests":["a","b/x"],"matchAttribute":"d.io/a"}]}}"#,
    ),
    (
        "resource.k8s.io/v1beta2 ResourceClaim",
        r#""spec":{"devices":{"requests":[{"name":"a","exactly":{"deviceClassName":"c"}}]}}"#,
    ),
    (
        "resource.k8s.io/v1beta1 ResourceClaim",
        r#""spec":{"devices":{"requests":[{"name":"a","deviceClassName":"c"},
           {"name":"b","firstAvailable":[{"name":"x","deviceClassName":"c"}]}]}}"#,
    ),
    (
        "resource.k8s.io/v1 ResourceClaimTemplate",
        r#""spec":{"metadata":{"labels":{"a":"b"}},
           "spec":{"devices":{"requests":[{"name":"a","exactly":{"deviceClassName":"c"}}]}}}"#,
    ),
    ("resource.k8s.io/v1beta2 ResourceClaimTemplate", r#""spec":{"spec":{"devices":{}}}"#),
    (
        "resource.k8s.io/v1beta1 ResourceClaimTemplate",
        r#""spec":{"spec":{"devices":{"requests":[{"name":"a","deviceClassName":"c","count":2}]}}}"#,
    ),
    (
        "resource.k8s.io/v1 ResourceSlice",
        r#""spec":{"driver":"d.io","pool":{"name":"p","generation":1,"resourceSliceCount":1},"allNodes":true,
           "devices":[{"name":"a","attributes":{"d.io/v":{"version":"1.0.0"}},"capacity":{"m":{"value":"1Gi"}},
           "taints":[{"key":"k","effect":"NoExecute"}]}]}"#,
    ),
    (
        "resource.k8s.io/v1beta2 ResourceSlice",
        r#""spec":{"driver":"d.io","pool":{"name":"p","generation":1,"resourceSliceCount":1},"nodeName":"n"}"#,
    ),
    (
        "resource.k8s.io/v1beta1 ResourceSlice",
        r#""spec":{"driver":"d.io","pool":{"name":"p","generation":1,"resourceSliceCount":1},"nodeName":"n",
           "devices":[{"name":"a","basic":{"attributes":{"a":{"int":1}}}}]}"#,
    ),
    ("resource.k8s.io/v1beta2 DeviceTaintRule", r#""spec":{"taint":{"key":"k","effect":"None"}}"#),
    (
        "resource.k8s.io/v1alpha3 DeviceTaintRule",
        r#""spec":{"deviceSelector":{"driver":"d.io","pool":"p"},"taint":{"key":"k","effect":"NoSchedule"}}"#,
    ),
    ("resource.k8s.io/v1alpha3 ResourcePoolStatusRequest", r#""spec":{"driver":"d.io"}"#),
];

fn find(name: &str) -> &'static Kind {
    let named = |kind: &&Arc<Kind>| format!("{} {}", kind.api_version(), kind.kind) == name;
    all().iter().find(named).unwrap_or_else(|| panic!("{name} is no kind"))
}

/// The object with its defaults, in the form of its version.
fn read(kind: &Kind, rest: &str) -> Value {
    let namespace = if kind.is_namespaced() { r#","namespace":"n""# } else { "" };
    let text = format!(r#"{{"metadata":{{"name":"x"{namespace},"uid":"u","resourceVersion":"1"}},{rest}}}"#);
    let raw = json::parse(text.as_bytes()).unwrap_or_else(|error| panic!("{error}: {text}"));
    let decoded = decode::decode(raw, kind.schema.table().expect("the type is in the table"))
        .unwrap_or_else(|error| panic!("{error}: {text}"));
    assert!(decoded.strict.is_empty(), "{:?}", decoded.strict);
    let mut object = decoded.value;
    kind.rules.default(&mut object);
    object
}

fn stored(kind: &Kind, object: Value) -> Value {
    match &kind.conversion {
        Some(conversion) => conversion.to_stored(object),
        None => object,
    }
}

fn texts(errors: rkube_machinery::field::Errors) -> Vec<String> {
    errors.0.iter().map(ToString::to_string).collect()
}

#[test]
fn right_objects_pass_and_may_stay_as_they_are() {
    for (name, rest) in SAMPLES {
        let kind = find(name);
        let object = read(kind, rest);
        let mut again = object.clone();
        kind.rules.default(&mut again);
        assert_eq!(again, object, "{name}: defaults are given once");
        let mut old = stored(kind, object);
        kind.rules.prepare_create(&mut old);
        assert_eq!(texts(kind.validate_create(&old)), Vec::<String>::new(), "{name}");
        for part in [Part::Main, Part::Status] {
            let mut new = old.clone();
            kind.rules.prepare_update(part, &mut new, &old);
            assert_eq!(texts(kind.validate_update(part, &new, &old)), Vec::<String>::new(), "{name}");
        }
    }
}

#[test]
fn every_version_reads_back_as_it_was() {
    for (name, rest) in SAMPLES {
        let kind = find(name);
        let Some(conversion) = &kind.conversion else { continue };
        let mut object = read(kind, rest);
        object.set("kind", kind.kind.clone());
        object.set("apiVersion", kind.api_version());
        decode::complete(&mut object, kind.schema.table().expect("the type is in the table"));
        let back = conversion.from_stored(conversion.to_stored(object.clone()));
        assert_eq!(json::to_string(&back), json::to_string(&object), "{name}");
    }
}

#[test]
fn kinds_of_this_file_are_all_there() {
    let mine = |kind: &&Arc<Kind>| {
        matches!(kind.group.as_str(), "storage.k8s.io" | "resource.k8s.io") || kind.kind.starts_with("PersistentVolume")
    };
    assert_eq!(all().iter().filter(mine).count(), SAMPLES.len());
}

#[test]
fn changes_that_are_refused() {
    let claim = r#""spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}"#;
    let table: &[(&str, &str, &str, &[&str])] = &[
        (
            "v1 PersistentVolumeClaim",
            claim,
            r#""spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}},"volumeMode":"Block"}"#,
            &["spec", "volumeMode"],
        ),
        (
            "v1 PersistentVolume",
            r#""spec":{"capacity":{"storage":"1Gi"},"accessModes":["ReadWriteOnce"],"hostPath":{"path":"/a"}}"#,
            r#""spec":{"capacity":{"storage":"2Gi"},"accessModes":["X"],"hostPath":{"path":"/b"}}"#,
            &["spec.accessModes", "spec.accessModes", "spec.persistentvolumesource"],
        ),
        (
            "storage.k8s.io/v1 StorageClass",
            r#""provisioner":"a""#,
            r#""provisioner":"b","reclaimPolicy":"Retain""#,
            &["provisioner", "reclaimPolicy"],
        ),
        (
            "storage.k8s.io/v1 CSIDriver",
            r#""spec":{}"#,
            r#""spec":{"attachRequired":false,"volumeLifecycleModes":["Ephemeral"]}"#,
            &["spec.attachedRequired", "spec.volumeLifecycleModes"],
        ),
    ];
    for (name, old, new, expected) in table {
        let kind = find(name);
        let (old, mut new) = (read(kind, old), read(kind, new));
        kind.rules.prepare_update(Part::Main, &mut new, &old);
        let errors = kind.validate_update(Part::Main, &new, &old);
        let fields: Vec<&str> = errors.0.iter().map(|error| error.field.as_str()).collect();
        assert_eq!(fields, *expected, "{name}");
    }
}

/// All values of the tree, each replaced once by `new`.
fn replaced(value: &Value, new: &Value, out: &mut Vec<Value>) {
    out.push(new.clone());
    let children: Vec<(usize, Value)> = match value {
        Value::Object(map) => map.iter().map(|(_, child)| child.clone()).enumerate().collect(),
        Value::Array(items) => items.iter().cloned().enumerate().collect(),
        _ => return,
    };
    for (index, child) in children {
        let mut changed = Vec::new();
        replaced(&child, new, &mut changed);
        for inner in changed {
            let mut copy = value.clone();
            match &mut copy {
                Value::Object(map) => {
                    if let Some((_, place)) = map.iter_mut().nth(index) {
                        *place = inner;
                    }
                }
                Value::Array(items) => items[index] = inner,
                _ => {}
            }
            out.push(copy);
        }
    }
}

#[test]
fn odd_objects_are_judged() {
    let odd = [
        r#"null"#,
        r#""""#,
        r#""Bad_Value!""#,
        r#""a/b/c""#,
        "-1",
        "0",
        "true",
        "[]",
        "{}",
        r#"[{"name":"x"},{"name":"x"}]"#,
    ];
    let mut judged = 0;
    for (name, rest) in SAMPLES {
        let kind = find(name);
        let old = stored(kind, read(kind, rest));
        let whole = json::parse(format!("{{{rest}}}").as_bytes()).expect("samples are JSON");
        for new in odd {
            let mut changed = Vec::new();
            replaced(&whole, &json::parse(new.as_bytes()).expect("it is JSON"), &mut changed);
            for mut object in changed {
                let namespace = if kind.is_namespaced() { "n" } else { "" };
                object.set("metadata", rkube_machinery::object! { "name": "x", "namespace": namespace });
                let Ok(decoded) = decode::decode(object, kind.schema.table().expect("it is in the table")) else {
                    continue;
                };
                let mut object = decoded.value;
                kind.rules.default(&mut object);
                let mut object = stored(kind, object);
                let mut update = object.clone();
                kind.rules.prepare_create(&mut object);
                let errors = kind.validate_create(&object);
                assert!(errors.0.iter().all(|error| !error.field.is_empty()), "{name}");
                for part in [Part::Main, Part::Status] {
                    kind.rules.prepare_update(part, &mut update, &old);
                    kind.validate_update(part, &update, &old);
                    kind.rules.warnings(&update, Some(&old));
                }
                for column in kind.columns.iter() {
                    column.cell(&object, 0);
                }
                judged += 1;
            }
        }
    }
    assert!(judged > 500, "{judged}");
}
