//! Of pure functions that need more than one of them.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use rkube_machinery::{Value, json};

use super::env::{self, ObjectKind, Objects, Read, Sources};

fn objects() -> Objects {
    let object = |text: &str| Read::Found(Arc::new(json::parse(text.as_bytes()).unwrap()));
    HashMap::from([
        ((ObjectKind::ConfigMap, "settings".into()), object(r#"{"data":{"COLOR":"red","1.x":"odd"}}"#)),
        ((ObjectKind::Secret, "keys".into()), object(r#"{"data":{"TOKEN":"c2VjcmV0"}}"#)),
        ((ObjectKind::ConfigMap, "none".into()), Read::NotFound("configmap \"none\" not found".to_owned())),
        ((ObjectKind::Secret, "none".into()), Read::NotFound("secret \"none\" not found".to_owned())),
    ])
}

fn make(container: &str, volume: Option<PathBuf>) -> Result<Vec<(String, String)>, String> {
    let container = json::parse(container.as_bytes()).unwrap();
    let pod = json::parse(br#"{"metadata":{"name":"p","namespace":"n"},"spec":{"nodeName":"node"}}"#).unwrap();
    let services = [("SVC_SERVICE_HOST".to_owned(), "10.0.0.1".to_owned()), ("COLOR".to_owned(), "svc".to_owned())];
    let made = env::make(&Sources {
        pod: &pod,
        container: &container,
        objects: &objects(),
        services: &services,
        addresses: &["10.1.1.1".parse().unwrap()],
        host_addresses: &[],
        allocatable: &Value::Null,
        volume: &|name| volume.clone().filter(|_| name == "files"),
    });
    made.map(|variables| variables.entries().to_vec())
}

#[test]
fn variables_come_in_order_and_expand_earlier_ones() {
    let made = make(
        r#"{"name":"c","envFrom":[{"configMapRef":{"name":"settings"}},{"prefix":"S_","secretRef":{"name":"keys"}},
            {"configMapRef":{"name":"none","optional":true}}],
            "env":[{"name":"A","value":"$(COLOR)-$(S_TOKEN)-$(SVC_SERVICE_HOST)-$(LATER)"},{"name":"LATER","value":"x"},
            {"name":"COLOR","value":"blue"},{"name":"IP","valueFrom":{"fieldRef":{"fieldPath":"status.podIP"}}},
            {"name":"T","valueFrom":{"secretKeyRef":{"name":"keys","key":"TOKEN"}}},
            {"name":"O","valueFrom":{"configMapKeyRef":{"name":"settings","key":"no","optional":true}}},
            {"name":"E","value":""}]}"#,
        None,
    )
    .unwrap();
    let expected = [
        ("COLOR", "blue"),
        ("1.x", "odd"),
        ("S_TOKEN", "secret"),
        ("A", "red-secret-10.0.0.1-$(LATER)"),
        ("LATER", "x"),
        ("IP", "10.1.1.1"),
        ("T", "secret"),
        ("E", ""),
        ("SVC_SERVICE_HOST", "10.0.0.1"),
    ];
    let mut made: Vec<(&str, &str)> = made.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    // The keys of one object have no order.
    made[..2].sort_by_key(|(name, _)| *name != "COLOR");
    assert_eq!(made, expected);
}

#[test]
fn what_is_missing_is_said_in_upstreams_words() {
    let table = [
        (r#""envFrom":[{"configMapRef":{"name":"none"}}]"#, "configmap \"none\" not found"),
        (r#""env":[{"name":"A","valueFrom":{"secretKeyRef":{"name":"none","key":"k"}}}]"#, "secret \"none\" not found"),
        (
            r#""env":[{"name":"A","valueFrom":{"secretKeyRef":{"name":"keys","key":"k"}}}]"#,
            "couldn't find key k in Secret n/keys",
        ),
        (
            r#""env":[{"name":"A","valueFrom":{"configMapKeyRef":{"name":"settings","key":"k"}}}]"#,
            "couldn't find key k in ConfigMap n/settings",
        ),
        (
            r#""env":[{"name":"A","valueFrom":{"fileKeyRef":{"volumeName":"x","path":"e","key":"k"}}}]"#,
            "cannot find the volume \"x\" referenced by FileKeyRef",
        ),
        (r#""env":[{"name":"A","valueFrom":{"fieldRef":{"fieldPath":"spec.x"}}}]"#, "unsupported fieldPath: spec.x"),
    ];
    for (fields, expected) in table {
        assert_eq!(make(&format!(r#"{{"name":"c",{fields}}}"#), None), Err(expected.to_owned()), "{fields}");
    }
}

#[test]
fn files_of_variables_are_read_inside_of_their_volume() {
    let root = tempfile::tempdir().unwrap();
    let volume = root.path().join("volume");
    std::fs::create_dir(&volume).unwrap();
    std::fs::write(volume.join("good.env"), "K='v'\n").unwrap();
    std::fs::write(root.path().join("host.env"), "K='host'\n").unwrap();
    std::os::unix::fs::symlink("../host.env", volume.join("out.env")).unwrap();
    std::os::unix::fs::symlink(root.path().join("host.env"), volume.join("absolute.env")).unwrap();
    let of = |path: &str| {
        let container = format!(
            r#"{{"name":"c","env":[{{"name":"A","valueFrom":{{"fileKeyRef":{{"volumeName":"files","path":"{path}","key":"K"}}}}}}]}}"#
        );
        make(&container, Some(volume.clone())).map(|made| made[0].1.clone())
    };
    assert_eq!(of("good.env"), Ok("v".to_owned()));
    for path in ["out.env", "absolute.env", "../host.env", "none.env"] {
        assert_eq!(of(path), Err("couldn't parse env file".to_owned()), "{path}");
    }
}
