//! Addresses and node ports of services, as objects that everybody sees.

use std::collections::BTreeSet;
use std::time::Duration;

use rkube_testkit::{Etcd, Rkube, Tool};

use crate::start;

const ADDRESSES: usize = 30;
const PORTS: usize = 20;

#[test]
fn two_control_planes_never_hand_out_the_same() {
    let Some(etcd) = Etcd::start() else { return };
    let store = format!("--store=etcd={}", etcd.url());
    let flags = [store.as_str(), "--service-cluster-ip-range=10.9.0.0/27", "--service-node-port-range=30000-30019"];
    let one = Rkube::start_with(env!("CARGO_BIN_EXE_rkube"), &flags);
    let secret = format!("--join-secret-file={}", one.data_directory().join("join-secret").display());
    let other = Rkube::start_with(env!("CARGO_BIN_EXE_rkube"), &[&flags[..], &[secret.as_str()]].concat());
    let servers = [one, other];
    let Some(first) = servers[0].kubectl() else { return };
    let second = servers[1].kubectl().unwrap();

    // Both at once until everything is taken; one address is that of the `kubernetes` service.
    let manifests = |side: &str| (0..PORTS).map(|number| service(&format!("{side}{number}"))).collect::<String>();
    let fill = |kubectl: &Tool, side: &str| {
        let mut create = kubectl.command(&["create", "-f", "-"]);
        rkube_testkit::Finished::run(&mut create, &manifests(side)).stderr
    };
    let refused = std::thread::scope(|scope| {
        let left = scope.spawn(|| fill(&first, "a"));
        fill(&second, "b") + &left.join().unwrap()
    });
    assert!(refused.contains("failed to allocate a nodePort: range is full"), "{refused}");
    let (addresses, ports) = taken(&first);
    assert_eq!((addresses.len(), ports.len()), (PORTS + 1, PORTS));
    assert_eq!(unique(&addresses), PORTS + 1, "{addresses:?}");
    assert_eq!(unique(&ports), PORTS, "{ports:?}");
    assert_eq!(recorded(&second), addresses.iter().cloned().collect());

    // What failed gave its address back: exactly the rest is left.
    for number in 0..ADDRESSES - PORTS - 1 {
        let kubectl = if number % 2 == 0 { &first } else { &second };
        kubectl.run(&["create", "service", "clusterip", &format!("c{number}"), "--tcp=80"]);
    }
    let full = second.attempt(&["create", "service", "clusterip", "full", "--tcp=80"]).expect_failure();
    assert!(
        full.stderr.contains("failed to allocate a serviceIP for Service \"full\": range is full"),
        "{}",
        full.stderr
    );

    // What one gives back the other can have.
    let freed = first.run(&["get", "service", "c0", "-o", "jsonpath={.spec.clusterIP}"]).stdout;
    first.run(&["delete", "service", "c0"]);
    second.run(&["create", "service", "clusterip", "again", "--tcp=80", &format!("--clusterip={freed}")]);
}

#[test]
fn an_address_is_an_object_that_comes_and_goes_with_its_service() {
    let rkube = start();
    let Some(kubectl) = rkube.kubectl() else { return };
    kubectl.run(&["create", "service", "clusterip", "web", "--tcp=80", "--clusterip=10.96.0.77"]);
    kubectl.run(&["get", "ipaddress", "10.96.0.77"]).says("services/default/web");
    // Somebody takes the record away: it is there again.
    kubectl.run(&["delete", "ipaddress", "10.96.0.77"]);
    kubectl.run(&["wait", "--for=create", "ipaddress/10.96.0.77", "--timeout=10s"]);
    kubectl.run(&["get", "events"]).says("Cluster IP [IPv4]: 10.96.0.77 is not allocated; repairing");
    kubectl.run(&["delete", "service", "web"]);
    kubectl.attempt(&["get", "ipaddress", "10.96.0.77"]).expect_failure();
}

#[test]
fn a_range_of_addresses_stays_while_it_is_needed() {
    let rkube = start();
    let Some(kubectl) = rkube.kubectl() else { return };
    let range =
        "apiVersion: networking.k8s.io/v1\nkind: ServiceCIDR\nmetadata: {name: more}\nspec: {cidrs: [10.7.0.0/24]}\n";
    kubectl.run_with_input(&["create", "-f", "-"], range);
    kubectl.run(&["wait", "--for=condition=Ready", "servicecidr/more", "--timeout=10s"]);
    kubectl.run(&["create", "service", "clusterip", "web", "--tcp=80", "--clusterip=10.7.0.9"]);
    kubectl.run(&["delete", "servicecidr", "more", "--wait=false"]);
    kubectl.run(&["wait", "--for=condition=Ready=False", "servicecidr/more", "--timeout=10s"]);
    let late = kubectl.attempt(&["create", "service", "clusterip", "late", "--tcp=80", "--clusterip=10.7.0.10"]);
    let late = late.expect_failure();
    assert!(late.stderr.contains("the provided network does not match the current range"), "{}", late.stderr);
    kubectl.run(&["delete", "service", "web"]);
    kubectl.run(&["wait", "--for=delete", "servicecidr/more", &format!("--timeout={}s", LIMIT.as_secs())]);
}

/// A range goes ten seconds after it was asked to, at the earliest.
const LIMIT: Duration = Duration::from_secs(30);

fn service(name: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: Service\nmetadata: {{name: {name}}}\nspec: {{type: NodePort, ports: [{{port: 80}}]}}\n"
    )
}

/// The addresses and node ports that services say they have.
fn taken(kubectl: &Tool) -> (Vec<String>, Vec<String>) {
    let words = |path: &str| {
        let printed = kubectl.run(&["get", "services", "-o", &format!("jsonpath={path}")]).stdout;
        printed.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    (words("{.items[*].spec.clusterIP}"), words("{.items[*].spec.ports[*].nodePort}"))
}

fn recorded(kubectl: &Tool) -> BTreeSet<String> {
    let printed = kubectl.run(&["get", "ipaddresses", "-o", "jsonpath={.items[*].metadata.name}"]).stdout;
    printed.split_whitespace().map(str::to_owned).collect()
}

fn unique(list: &[String]) -> usize {
    list.iter().collect::<BTreeSet<_>>().len()
}
