//! What pods get where their author says nothing, and that no pod makes the rules stumble.

use crate::common::kind;
use rkube_kinds::kind::Part;
use rkube_machinery::{Value, decode, json};

const RICH: &str = r#"{
  "metadata": {"name": "p", "namespace": "n", "labels": {"a": "b"}, "annotations": {
    "container.apparmor.security.beta.kubernetes.io/c": "runtime/default",
    "pod.beta.kubernetes.io/init-containers": "x"}},
  "spec": {
    "hostNetwork": true,
    "serviceAccount": "sa",
    "terminationGracePeriodSeconds": -5,
    "resources": {"limits": {"cpu": "4"}},
    "overhead": {"cpu": "100u"},
    "schedulingGates": [{"name": "g"}],
    "resourceClaims": [{"name": "d", "resourceClaimName": "x"}],
    "affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1,
      "podAffinityTerm": {"topologyKey": "z", "labelSelector": {}, "matchLabelKeys": ["a"], "namespaces": ["n"]}}]}},
    "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule", "minDomains": 1}],
    "volumes": [
      {"name": "a"},
      {"name": "b", "hostPath": {"path": "/"}},
      {"name": "c", "secret": {"secretName": "s", "items": [{"key": "k", "path": "p"}]}},
      {"name": "d", "configMap": {"name": "m"}},
      {"name": "e", "downwardAPI": {"items": [{"path": "f", "fieldRef": {"fieldPath": "metadata.name"}}]}},
      {"name": "f", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}},
        {"downwardAPI": {"items": [{"path": "g", "fieldRef": {"fieldPath": "metadata.name"}}]}}]}},
      {"name": "g", "iscsi": {"targetPortal": "p", "iqn": "iqn.2015-02.example.com:test", "lun": 0}},
      {"name": "h", "rbd": {"monitors": ["m"], "image": "i"}},
      {"name": "i", "azureDisk": {"diskName": "d", "diskURI": "https://x"}},
      {"name": "j", "scaleIO": {"gateway": "g", "system": "s", "secretRef": {"name": "x"}, "volumeName": "v"}},
      {"name": "k", "ephemeral": {"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}}}}}},
      {"name": "l", "image": {"reference": "r:1"}}
    ],
    "initContainers": [{"name": "s", "image": "i:1", "restartPolicy": "Always", "ports": [{"containerPort": 81}]}],
    "containers": [{"name": "c", "image": "i",
      "ports": [{"containerPort": 80, "name": "http"}],
      "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
              {"name": "B", "valueFrom": {"fileKeyRef": {"volumeName": "a", "path": "p", "key": "k"}}}],
      "resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}, "claims": [{"name": "d"}]},
      "livenessProbe": {"httpGet": {"port": "http"}, "timeoutSeconds": 0},
      "readinessProbe": {"grpc": {"port": 1}},
      "lifecycle": {"preStop": {"httpGet": {"port": 1}}},
      "volumeMounts": [{"name": "b", "mountPath": "/b"}],
      "securityContext": {"runAsUser": 1}}]
  },
  "status": {"podIP": "1.2.3.4", "containerStatuses": [{"name": "c", "state": {"running": {}}}]}
}"#;

fn decoded(raw: Value) -> Option<Value> {
    Some(decode::decode(raw, kind().schema.table().unwrap()).ok()?.value)
}

fn rich() -> Value {
    json::parse(RICH.as_bytes()).unwrap()
}

/// The field at the end of a path like `spec.volumes.0.name`, as JSON.
fn at(pod: &Value, path: &str) -> String {
    let value = path.split('.').fold(pod, |value, step| match step.parse::<usize>() {
        Ok(index) => &value.items()[index],
        Err(_) => value.get(step),
    });
    json::to_string(value)
}

#[test]
fn fields_are_filled_in() {
    let mut pod = decoded(rich()).unwrap();
    kind().rules.default(&mut pod);
    let table = [
        ("spec.dnsPolicy", r#""ClusterFirst""#),
        ("spec.restartPolicy", r#""Always""#),
        ("spec.schedulerName", r#""default-scheduler""#),
        ("spec.enableServiceLinks", "true"),
        ("spec.terminationGracePeriodSeconds", "1"),
        ("spec.serviceAccountName", r#""sa""#),
        ("spec.overhead.cpu", r#""1m""#),
        ("spec.resources.requests.cpu", r#""500m""#),
        ("spec.volumes.0.emptyDir", "{}"),
        ("spec.volumes.1.hostPath.type", r#""""#),
        ("spec.volumes.2.secret.defaultMode", "420"),
        ("spec.volumes.3.configMap.defaultMode", "420"),
        ("spec.volumes.4.downwardAPI.items.0.fieldRef.apiVersion", r#""v1""#),
        ("spec.volumes.5.projected.sources.0.serviceAccountToken.expirationSeconds", "3600"),
        ("spec.volumes.5.projected.sources.1.downwardAPI.items.0.fieldRef.apiVersion", r#""v1""#),
        ("spec.volumes.6.iscsi.iscsiInterface", r#""default""#),
        ("spec.volumes.7.rbd.keyring", r#""/etc/ceph/keyring""#),
        ("spec.volumes.8.azureDisk.kind", r#""Shared""#),
        ("spec.volumes.8.azureDisk.readOnly", "false"),
        ("spec.volumes.9.scaleIO.fsType", r#""xfs""#),
        ("spec.volumes.10.ephemeral.volumeClaimTemplate.spec.volumeMode", r#""Filesystem""#),
        ("spec.volumes.11.image.pullPolicy", r#""IfNotPresent""#),
        ("spec.initContainers.0.ports.0.hostPort", "81"),
        ("spec.containers.0.ports.0.hostPort", "80"),
        ("spec.containers.0.ports.0.protocol", r#""TCP""#),
        ("spec.containers.0.imagePullPolicy", r#""Always""#),
        ("spec.containers.0.env.0.valueFrom.fieldRef.apiVersion", r#""v1""#),
        ("spec.containers.0.env.1.valueFrom.fileKeyRef.optional", "false"),
        ("spec.containers.0.resources.requests", r#"{"cpu":"500m","memory":"1Gi"}"#),
        ("spec.containers.0.livenessProbe.timeoutSeconds", "1"),
        ("spec.containers.0.livenessProbe.httpGet.path", r#""/""#),
        ("spec.containers.0.livenessProbe.httpGet.scheme", r#""HTTP""#),
        ("spec.containers.0.readinessProbe.grpc.service", r#""""#),
        ("spec.containers.0.lifecycle.preStop.httpGet.scheme", r#""HTTP""#),
        ("status.podIPs", r#"[{"ip":"1.2.3.4"}]"#),
    ];
    for (path, want) in table {
        assert_eq!(at(&pod, path), want, "{path}");
    }
    assert!(!at(&pod, "metadata.annotations").contains("init-containers"));
}

#[test]
fn a_second_time_changes_nothing() {
    let mut pod = decoded(rich()).unwrap();
    kind().rules.default(&mut pod);
    let once = pod.clone();
    kind().rules.default(&mut pod);
    assert_eq!(pod, once);
    kind().rules.prepare_create(&mut pod);
    assert_eq!(kind().validate_create(&pod).0, []);
}

/// All paths to fields and items of a value.
fn paths(value: &Value, prefix: &[String], out: &mut Vec<Vec<String>>) {
    let mut visit = |step: String, value: &Value| {
        let path = [prefix, &[step]].concat();
        out.push(path.clone());
        paths(value, &path, out);
    };
    match value {
        Value::Object(map) => map.iter().for_each(|(key, value)| visit(key.to_string(), value)),
        Value::Array(items) => items.iter().enumerate().for_each(|(index, value)| visit(index.to_string(), value)),
        _ => {}
    }
}

fn replace(value: &mut Value, path: &[String], by: &Value) {
    match (value, path) {
        (value, []) => *value = by.clone(),
        (Value::Array(items), [step, rest @ ..]) => replace(&mut items[step.parse::<usize>().unwrap()], rest, by),
        (value, [step, rest @ ..]) => replace(value.get_mut(step), rest, by),
    }
}

/// One field at a time becomes something odd: whatever comes of it, there is an answer.
#[test]
fn odd_pods_get_an_answer() {
    let rules = &kind().rules;
    let mut old = decoded(rich()).unwrap();
    rules.default(&mut old);
    rules.prepare_create(&mut old);
    let mut all = Vec::new();
    paths(&rich(), &[], &mut all);
    let odd = ["null", "{}", "[]", r#""ä/..""#, "-1", "99999999999"];
    let mut answers = 0;
    for path in &all {
        for text in odd {
            let mut raw = rich();
            replace(&mut raw, path, &json::parse(text.as_bytes()).unwrap());
            let Some(mut pod) = decoded(raw) else { continue };
            rules.default(&mut pod);
            for part in [Part::Main, Part::Status, Part::Other("ephemeralcontainers"), Part::Other("resize")] {
                let mut new = pod.clone();
                rules.prepare_update(part, &mut new, &old);
                kind().validate_update(part, &new, &old);
                rules.warnings(&new, Some(&old));
            }
            rules.prepare_create(&mut pod);
            kind().validate_create(&pod);
            rules.warnings(&pod, None);
            for column in kind().columns.iter() {
                column.cell(&pod, 0);
            }
            drop(kind().selectable.values(&pod));
            answers += 1;
        }
    }
    assert!(answers > 300, "{answers}");
}
