//! Claims of the class `local-path`: directories of this machine, which outlive pods and rkube, and not their claims.

use std::path::{Path, PathBuf};

use rkube_testkit::images::TEST_IMAGE as IMAGE;
use rkube_testkit::{Rkube, Tool, eventually};
use rustix::fs::{Mode, OFlags};

use crate::{ready, start, wait_for};

const CLAIM: &str = "
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: NAME}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: SIZE}}}
";

const POD: &str = "
apiVersion: v1
kind: Pod
metadata: {name: NAME}
spec:
  terminationGracePeriodSeconds: 0
  restartPolicy: Never
  securityContext: {runAsUser: 1000}
  containers:
  - name: c
    image: IMAGE
    args: [sleep, '1000']
    volumeMounts: [{name: data, mountPath: /data}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: CLAIM}}]
";

const SET: &str = "
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 2
  serviceName: db
  selector: {matchLabels: {app: db}}
  persistentVolumeClaimRetentionPolicy: {whenDeleted: Delete, whenScaled: Retain}
  template:
    metadata: {labels: {app: db}}
    spec:
      terminationGracePeriodSeconds: 0
      containers:
      - name: c
        image: IMAGE
        args: [sh, -c, 'hostname >> /data/lives; sleep 1000']
        volumeMounts: [{name: data, mountPath: /data}]
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
";

fn claim(kubectl: &Tool, name: &str, size: &str) {
    kubectl.run_with_input(&["apply", "-f", "-"], &CLAIM.replace("NAME", name).replace("SIZE", size));
}

fn pod(kubectl: &Tool, name: &str, claim: &str) {
    let text = POD.replace("NAME", name).replace("CLAIM", claim).replace("IMAGE", IMAGE);
    kubectl.run_with_input(&["apply", "-f", "-"], &text);
}

/// The directories that claims have.
fn directories(rkube: &Rkube) -> Vec<PathBuf> {
    let found = std::fs::read_dir(rkube.data_directory().join("volumes"));
    found.into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

/// Neither claims nor volumes nor directories.
fn nothing_is_left(rkube: &Rkube, kubectl: &Tool) {
    wait_for(kubectl, &["get", "persistentvolumeclaims,persistentvolumes", "-o", "name"], "");
    assert_eq!(directories(rkube), Vec::<PathBuf>::new());
}

/// Some event of an object says this.
fn told(kubectl: &Tool, name: &str, text: &str) {
    let field = format!("involvedObject.name={name}");
    eventually(text, || {
        let found = kubectl.run(&["get", "events", "--field-selector", &field, "-o", "jsonpath={.items[*].message}"]);
        if found.stdout.contains(text) { Ok(()) } else { Err(found.stdout) }
    });
}

fn refused(kubectl: &Tool, object: &str, why: &str) {
    let said = kubectl.attempt_with_input(&["create", "-f", "-"], object).expect_failure().stderr;
    assert!(said.contains(why), "{said}");
}

#[test]
fn a_volume_outlives_pods_and_goes_with_its_claim() {
    let Some((mut rkube, kubectl)) = start(&["--store=embedded"]) else { return };
    claim(&kubectl, "data", "1Gi");
    told(&kubectl, "data", "waiting for first consumer to be created before binding");
    let class = "jsonpath={.spec.storageClassName} {.status.phase}";
    wait_for(&kubectl, &["get", "persistentvolumeclaim", "data", "-o", class], "local-path Pending");
    assert_eq!(directories(&rkube), Vec::<PathBuf>::new());
    pod(&kubectl, "writer", "data");
    ready(&kubectl, "pod/writer");
    kubectl.run(&["exec", "writer", "--", "sh", "-c", "echo kept > /data/file"]);
    wait_for(&kubectl, &["get", "persistentvolumeclaim", "data", "-o", class], "local-path Bound");
    let [directory] = &*directories(&rkube) else { panic!("one directory: {:?}", directories(&rkube)) };
    assert_eq!(std::fs::read_to_string(directory.join("file")).unwrap(), "kept\n");

    rkube.kill9();
    rkube.restart();
    let kubectl = rkube.kubectl().unwrap();
    kubectl.run(&["exec", "writer", "--", "cat", "/data/file"]).says("kept");
    kubectl.run(&["delete", "pod", "writer"]);
    pod(&kubectl, "reader", "data");
    ready(&kubectl, "pod/reader");
    kubectl.run(&["exec", "reader", "--", "cat", "/data/file"]).says("kept");

    // Who is in use goes when its user does, and then at once.
    kubectl.run(&["delete", "persistentvolumeclaim", "data", "--wait=false"]);
    kubectl.run(&["exec", "reader", "--", "cat", "/data/file"]).says("kept");
    kubectl.run(&["delete", "pod", "reader"]);
    nothing_is_left(&rkube, &kubectl);
}

#[test]
fn a_stateful_set_finds_its_data_again() {
    let Some((mut rkube, kubectl)) = start(&["--store=embedded"]) else { return };
    kubectl.run_with_input(&["apply", "-f", "-"], &SET.replace("IMAGE", IMAGE));
    kubectl.run(&["rollout", "status", "statefulset/db", "--timeout=50s"]);
    assert_eq!(directories(&rkube).len(), 2);
    kubectl.run(&["delete", "pod", "db-0", "db-1"]);
    rkube.restart();
    let kubectl = rkube.kubectl().unwrap();
    kubectl.run(&["rollout", "status", "statefulset/db", "--timeout=50s"]);
    for pod in ["db-0", "db-1"] {
        let lives = kubectl.run(&["exec", pod, "--", "cat", "/data/lives"]).stdout;
        assert_eq!(lives.lines().collect::<Vec<_>>(), [pod, pod]);
    }
    assert_eq!(directories(&rkube).len(), 2);
    kubectl.run(&["scale", "statefulset", "db", "--replicas=1"]);
    wait_for(&kubectl, &["get", "pods", "-o", "name"], "pod/db-0");
    assert_eq!(directories(&rkube).len(), 2);
    kubectl.run(&["delete", "statefulset", "db"]);
    nothing_is_left(&rkube, &kubectl);
}

const FORGED: &str = "
apiVersion: v1
kind: PersistentVolume
metadata:
  name: forged
  annotations: {pv.kubernetes.io/provisioned-by: rkube.io/local-path}
  finalizers: [external-provisioner.volume.kubernetes.io/finalizer]
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  persistentVolumeReclaimPolicy: Delete
  storageClassName: local-path
  claimRef: {apiVersion: v1, kind: PersistentVolumeClaim, namespace: default, name: gone, uid: '1'}
  hostPath: {path: VICTIM}
";

/// As a container could, deeper than the stack of who removes it.
fn make_deep(directory: &Path) {
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut current = rustix::fs::open(directory, flags, Mode::empty()).unwrap();
    for _ in 0..20_000 {
        rustix::fs::mkdirat(&current, "d", Mode::RWXU).unwrap();
        current = rustix::fs::openat(&current, "d", flags, Mode::empty()).unwrap();
    }
}

#[test]
fn nothing_but_its_own_directory_goes_with_a_claim() {
    let Some((rkube, kubectl)) = start(&[]) else { return };
    let victim = rkube.scratch_directory().join("victim");
    std::fs::create_dir(&victim).unwrap();
    std::fs::write(victim.join("file"), "precious").unwrap();
    for name in ["..", "../../etc", "a/b", "a%2fb"] {
        let text = CLAIM.replace("NAME", &format!("{name:?}")).replace("SIZE", "1Gi");
        refused(&kubectl, &text, "metadata.name");
    }
    let nothing = CLAIM.replace("NAME", "nothing").replace("SIZE", "0");
    refused(&kubectl, &nothing, "must be greater than zero");

    // No size is too large, as none is reserved. What is in the volume leads out of it.
    claim(&kubectl, "data", "7Ei");
    pod(&kubectl, "writer", "data");
    ready(&kubectl, "pod/writer");
    let link = format!("ln -s {} /data/out", victim.display());
    kubectl.run(&["exec", "writer", "--", "sh", "-c", &link]);
    // No container is led out of its volume by it.
    let through = POD.replace("mountPath: /data", "mountPath: /data, subPath: out").replace("CLAIM", "data");
    kubectl.run_with_input(&["apply", "-f", "-"], &through.replace("NAME", "through").replace("IMAGE", IMAGE));
    let reason = "jsonpath={.status.containerStatuses[0].state.waiting.reason}";
    wait_for(&kubectl, &["get", "pod", "through", "-o", reason], "CreateContainerConfigError");
    let up = through.replace("subPath: out", "subPath: ../../x").replace("NAME", "up").replace("IMAGE", IMAGE);
    refused(&kubectl, &up, "must not contain '..'");
    make_deep(&directories(&rkube)[0]);
    kubectl.run(&["delete", "pod", "writer", "through"]);

    // Somebody on the machine has put a link in its place.
    claim(&kubectl, "linked", "1");
    pod(&kubectl, "user", "linked");
    ready(&kubectl, "pod/user");
    kubectl.run(&["delete", "pod", "user"]);
    let mut all = directories(&rkube).into_iter();
    let linked = all.find(|path| path.to_string_lossy().ends_with("_default_linked")).unwrap();
    std::fs::remove_dir(&linked).unwrap();
    std::os::unix::fs::symlink(&victim, &linked).unwrap();
    // And somebody with rights in the cluster says that a directory is one of these.
    kubectl.run_with_input(&["create", "-f", "-"], &FORGED.replace("VICTIM", &victim.display().to_string()));
    kubectl.run(&["delete", "persistentvolume", "forged"]);
    kubectl.run(&["delete", "persistentvolumeclaim", "data", "linked"]);
    nothing_is_left(&rkube, &kubectl);
    assert_eq!(std::fs::read_to_string(victim.join("file")).unwrap(), "precious");
}
