//! An example of every kind, applied with kubectl: all are accepted, and applying them again changes nothing.

use std::path::Path;

use rkube_testkit::Rkube;

/// What cannot be applied, or not twice: reviews, bindings and component statuses are not stored, nobody may say when an
/// object was deleted, and an apply takes away what the server added to an applied list: taints of new nodes, selectors of
/// pods with these keys. A controller writes the status of ServiceCIDRs whenever it gets to it, and another deletes what has
/// an owner that does not exist. Webhooks would be called, and nobody answers. A quota would refuse the other examples.
const LEFT_OUT: &[&str] = &[
    "Review\nmetadata:",
    "\nkind: Binding\n",
    "\nkind: ComponentStatus\n",
    "deletionTimestamp",
    "podCIDR",
    "matchLabelKeys",
    "\nkind: ServiceCIDR\n",
    "ownerReferences",
    "WebhookConfiguration\n",
    "\nkind: ResourceQuota\n",
];

pub fn manifests() -> String {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../kinds/tests/examples");
    let mut paths: Vec<_> = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let texts: Vec<String> = paths.iter().map(|path| std::fs::read_to_string(path).unwrap()).collect();
    let documents = texts.iter().flat_map(|text| text.split("\n---\n"));
    let kept = documents.filter(|document| !LEFT_OUT.iter().any(|words| document.contains(words)));
    kept.collect::<Vec<_>>().join("\n---\n")
}

#[test]
fn examples_of_every_kind_are_applied_once() {
    let binary = env!("CARGO_BIN_EXE_rkube");
    // Others would write what they find out of budgets, autoscalers and claims.
    let controllers = "--controllers=serviceaccount-controller,root-ca-certificate-publisher-controller";
    let rkube = Rkube::start_with(binary, &["--store=memory", "--runtime-config=api/all=true", controllers]);
    let Some(kubectl) = rkube.kubectl() else { return };
    let manifests = manifests();
    let apply = || kubectl.run_with_input(&["apply", "--server-side", "-f", "-"], &manifests).stdout;
    let versions = || {
        let columns = "custom-columns=KIND:.kind,NAME:.metadata.name,VERSION:.metadata.resourceVersion";
        kubectl.run_with_input(&["get", "-o", columns, "-f", "-"], &manifests).stdout
    };
    let applied = apply();
    assert_eq!(applied.lines().count(), manifests.split("\n---\n").count(), "{applied}");
    let before = versions();
    apply();
    assert_eq!(versions(), before, "an apply that changes nothing leaves no trace");
}
