//! Services with an address of each family, and what becomes of them when the flag changes.

use std::collections::BTreeSet;
use std::process::Command;

use rkube_testkit::{Finished, Rkube, Tool};

const IPV4: &str = "--service-cluster-ip-range=10.96.0.0/12";
const BOTH: &str = "--service-cluster-ip-range=10.96.0.0/12,fd00:10:96::/112";
const REVERSED: &str = "--service-cluster-ip-range=fd00:10:96::/112,10.96.0.0/12";
const FAMILIES: &str = "jsonpath={.spec.ipFamilyPolicy} {.spec.ipFamilies[*]} {.spec.clusterIPs[*]}";

#[test]
fn a_second_address_comes_and_goes() {
    let rkube = Rkube::start_with(env!("CARGO_BIN_EXE_rkube"), &["--store=memory", BOTH]);
    let Some(kubectl) = rkube.kubectl() else { return };
    kubectl.run(&["get", "servicecidr", "kubernetes"]).says("10.96.0.0/12,fd00:10:96::/112");
    let own = kubectl.run(&["get", "service", "kubernetes", "-o", FAMILIES]).stdout;
    assert_eq!(own, "SingleStack IPv4 10.96.0.1");

    make(&kubectl, "web", "clusterIP: 10.96.0.77");
    assert_eq!(addresses(&kubectl, "web"), ["10.96.0.77"]);
    set_policy(&kubectl, "web", "PreferDualStack");
    let both = addresses(&kubectl, "web");
    assert!(both[0] == "10.96.0.77" && both[1].starts_with("fd00:10:96::"), "{both:?}");
    assert_eq!(recorded(&kubectl, "web"), both.iter().cloned().collect());
    let record = kubectl.run(&["get", "ipaddress", &both[1], "-o", "yaml"]);
    record.says("ip-family: IPv6").says("name: web");

    // Another one cannot have it; when it is given back, it can.
    let manifest = |name: &str| service(name, &format!("clusterIP: '{}'", both[1]));
    let refused = Finished::run(&mut kubectl.command(&["create", "-f", "-"]), &manifest("other"));
    assert!(refused.expect_failure().stderr.contains("provided IP is already allocated"));
    set_policy(&kubectl, "web", "SingleStack");
    assert_eq!(addresses(&kubectl, "web"), ["10.96.0.77"]);
    assert_eq!(recorded(&kubectl, "web"), ["10.96.0.77".to_owned()].into());
    kubectl.run_with_input(&["create", "-f", "-"], &manifest("other"));
    assert_eq!(addresses(&kubectl, "other"), both[1..]);

    // What goes gives both back.
    make(
        &kubectl,
        "pair",
        "ipFamilyPolicy: RequireDualStack, clusterIP: 'fd00:10:96::99', clusterIPs: ['fd00:10:96::99', 10.96.0.99]",
    );
    let families = kubectl.run(&["get", "service", "pair", "-o", FAMILIES]).stdout;
    assert_eq!(families, "RequireDualStack IPv6 IPv4 fd00:10:96::99 10.96.0.99");
    kubectl.run(&["delete", "service", "pair"]);
    assert_eq!(recorded(&kubectl, "pair"), BTreeSet::new());
}

#[test]
fn a_cluster_gains_a_family_and_loses_it() {
    let mut rkube = Rkube::start_with(env!("CARGO_BIN_EXE_rkube"), &[IPV4]);
    let Some(kubectl) = rkube.kubectl() else { return };
    let refused = Finished::run(
        &mut kubectl.command(&["create", "-f", "-"]),
        &service("web", "ipFamilyPolicy: RequireDualStack"),
    );
    assert!(refused.expect_failure().stderr.contains("this cluster is not configured for dual-stack services"));
    make(&kubectl, "web", "ipFamilyPolicy: PreferDualStack");
    assert_eq!(addresses(&kubectl, "web").len(), 1);

    rkube.restart_with(&[BOTH]);
    let kubectl = rkube.kubectl().unwrap();
    kubectl.run(&["get", "servicecidr", "kubernetes"]).says("10.96.0.0/12,fd00:10:96::/112");
    // A service that has one address keeps to it until somebody says more.
    kubectl.run(&["label", "service", "web", "a=b"]);
    assert_eq!(addresses(&kubectl, "web").len(), 1);
    set_policy(&kubectl, "web", "RequireDualStack");
    assert_eq!(addresses(&kubectl, "web").len(), 2);

    // The range stays as it is; the order of the flag says which family is the default.
    rkube.restart_with(&[REVERSED]);
    let kubectl = rkube.kubectl().unwrap();
    kubectl.run(&["get", "servicecidr", "kubernetes"]).says("10.96.0.0/12,fd00:10:96::/112");
    kubectl
        .run(&["get", "events"])
        .says("does not match the controller flag configurations [fd00:10:96::/112 10.96.0.0/12]");
    make(&kubectl, "six", "");
    assert!(addresses(&kubectl, "six")[0].starts_with("fd00:10:96::"));

    rkube.restart_with(&[IPV4]);
    let kubectl = rkube.kubectl().unwrap();
    assert_eq!(recorded(&kubectl, "web").len(), 2);
    set_policy(&kubectl, "web", "SingleStack");
    assert_eq!(recorded(&kubectl, "web").len(), 1);
}

#[test]
fn ranges_that_cannot_be_are_refused_at_once() {
    let table = [
        ("10.0.0.0/16,10.1.0.0/16", "are both of IPv4"),
        ("10.0.0.0/16,fd00::/112,10.1.0.0/16", "not 3"),
        ("10.0.0.0/30", "too small"),
        ("fd00::/48", "too large"),
        ("10.0.0.0", "is no range of addresses"),
    ];
    for (range, why) in table {
        let mut up = Command::new(env!("CARGO_BIN_EXE_rkube"));
        up.args(["up", &format!("--service-cluster-ip-range={range}")]);
        let refused = Finished::run(&mut up, "").expect_failure();
        assert!(refused.stderr.contains(why), "{range}: {}", refused.stderr);
    }
}

fn service(name: &str, spec: &str) -> String {
    let separator = if spec.is_empty() { "" } else { ", " };
    format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: {name}}}\n\
         spec: {{selector: {{a: b}}, ports: [{{port: 80}}]{separator}{spec}}}\n"
    )
}

fn make(kubectl: &Tool, name: &str, spec: &str) {
    kubectl.run_with_input(&["create", "-f", "-"], &service(name, spec));
}

fn set_policy(kubectl: &Tool, name: &str, policy: &str) {
    let patch = format!("{{\"spec\":{{\"ipFamilyPolicy\":\"{policy}\"}}}}");
    kubectl.run(&["patch", "service", name, "-p", &patch]);
}

fn addresses(kubectl: &Tool, name: &str) -> Vec<String> {
    let printed = kubectl.run(&["get", "service", name, "-o", "jsonpath={.spec.clusterIPs[*]}"]).stdout;
    printed.split_whitespace().map(str::to_owned).collect()
}

/// The IPAddress objects of a service.
fn recorded(kubectl: &Tool, name: &str) -> BTreeSet<String> {
    let path = format!("jsonpath={{.items[?(@.spec.parentRef.name==\"{name}\")].metadata.name}}");
    let printed = kubectl.run(&["get", "ipaddresses", "-o", &path]).stdout;
    printed.split_whitespace().map(str::to_owned).collect()
}
