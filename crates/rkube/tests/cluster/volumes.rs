//! Claims, volumes and their classes go when nobody uses them, and not before.

use rkube_testkit::eventually;

use crate::start;

const OBJECTS: &str = r#"
apiVersion: v1
kind: PersistentVolume
metadata: {name: disk}
spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], hostPath: {path: /data}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}, volumeAttributesClassName: gold}
---
apiVersion: storage.k8s.io/v1
kind: VolumeAttributesClass
metadata: {name: gold}
driverName: disks.example.com
parameters: {speed: fast}
---
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  nodeName: n1
  containers: [{name: c, image: i}]
  volumes: [{name: v, persistentVolumeClaim: {claimName: data}}]
"#;

#[test]
fn what_is_in_use_stays_until_it_is_not() {
    let rkube = start();
    let Some(kubectl) = rkube.kubectl() else { return };
    kubectl.run_with_input(&["create", "-f", "-"], OBJECTS);
    kubectl.run(&["delete", "persistentvolume", "disk", "--timeout=60s"]);
    kubectl.run(&["delete", "persistentvolumeclaim/data", "volumeattributesclass/gold", "--wait=false"]);
    // Whoever looks at it once more has looked at it while it was in use.
    kubectl.run(&["annotate", "persistentvolumeclaim/data", "volumeattributesclass/gold", "seen=once"]);
    let names = || kubectl.run(&["get", "persistentvolumeclaims,volumeattributesclasses", "-o", "name"]).stdout;
    assert_eq!(names().lines().count(), 2, "{}", names());
    kubectl.run(&["delete", "pod", "web", "--force"]);
    eventually("the claim and its class go", || match names().trim() {
        "" => Ok(()),
        left => Err(left.to_owned()),
    });
}
