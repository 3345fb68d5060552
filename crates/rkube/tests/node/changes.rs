//! What pods see of the cluster, and that they see it change.

use rkube_testkit::eventually;
use rkube_testkit::images::TEST_IMAGE as IMAGE;

use crate::{ready, start};

const READER: &str = "
apiVersion: v1
kind: Pod
metadata: {name: reader, labels: {colour: red}}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: reader
    image: IMAGE
    args: [sleep, '1000']
    env:
    - {name: MY_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
    - {name: SETTING, valueFrom: {configMapKeyRef: {name: settings, key: mode}}}
    - {name: SAID, value: 'it is $(SETTING)'}
    securityContext: {runAsUser: 1000, runAsGroup: 3000, readOnlyRootFilesystem: true}
    volumeMounts:
    - {name: settings, mountPath: /settings}
    - {name: self, mountPath: /self}
    - {name: scratch, mountPath: /scratch}
  securityContext: {fsGroup: 2000}
  volumes:
  - {name: settings, configMap: {name: settings}}
  - {name: self, downwardAPI: {items: [{path: labels, fieldRef: {fieldPath: metadata.labels}}]}}
  - {name: scratch, emptyDir: {medium: Memory, sizeLimit: 1Mi}}
";

#[test]
fn a_pod_sees_its_surroundings_change() {
    let Some((_rkube, kubectl)) = start(&[]) else { return };
    kubectl.run(&["create", "configmap", "settings", "--from-literal=mode=slow"]);
    kubectl.run_with_input(&["apply", "-f", "-"], &READER.replace("IMAGE", IMAGE));
    ready(&kubectl, "pod/reader");
    let exec = |script: &str| kubectl.attempt(&["exec", "reader", "--", "sh", "-c", script]);
    exec("echo $MY_NAME $SAID; id")
        .expect_success()
        .says("reader it is slow")
        .says("uid=1000")
        .says("gid=3000")
        .says("2000");
    exec("echo x > /here").expect_failure();
    exec("echo x > /scratch/here && cat /scratch/here").expect_success().says("x");
    exec("cat /settings/mode").expect_success().says("slow");
    kubectl.run(&["create", "configmap", "settings", "--from-literal=mode=fast", "--dry-run=client", "-o", "yaml"]);
    kubectl.run(&["patch", "configmap", "settings", "-p", r#"{"data":{"mode":"fast"}}"#]);
    kubectl.run(&["label", "pod", "reader", "--overwrite", "colour=blue"]);
    for (script, expected) in [("cat /settings/mode", "fast"), ("cat /self/labels", "colour=\"blue\"")] {
        eventually(expected, || {
            let found = exec(script);
            if found.stdout.contains(expected) { Ok(()) } else { Err(found.stdout + &found.stderr) }
        });
    }
    // The token that it has is one that the server knows, and its authority the server's.
    let token = exec("cat /var/run/secrets/kubernetes.io/serviceaccount/token").expect_success().stdout;
    let review = format!(
        r#"{{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","spec":{{"token":"{}"}}}}"#,
        token.trim()
    );
    let said = kubectl.run_with_input(&["create", "-o", "jsonpath={.status.user.username}", "-f", "-"], &review);
    said.says("system:serviceaccount:default:default");
}
