//! Coming and going: of pods, of the process, of all of it; and what is refused.

use std::net::SocketAddr;

use rkube_network::{Config, Network};
use rkube_runtime::api::{Attachment, Error, PodNetwork, PortMapping, Protocol};

use rustix::thread::{CapabilitySet, CapabilitySets};

use crate::world::{Namespace, World, may_run, socket, subnet};

/// What `ip` shows of the host: links, addresses, routes and neighbours.
fn state(world: &World) -> String {
    ["-brief link", "-brief addr", "route", "neigh"].map(|what| world.host.ip(&format!("{what} show"))).join("\n")
}

/// The links of pods that are gone take a moment.
fn becomes(world: &World, expected: &str) {
    for _ in 0..2000 {
        if state(world) == expected {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert_eq!(state(world), expected);
}

#[test]
fn nothing_is_left() {
    if !may_run() {
        return;
    }
    let host_port = PortMapping { protocol: Protocol::Tcp, container_port: 80, host_port: 8080, host_ip: None };
    let mut world = World::new();
    let before = state(&world);
    let pod = world.pod_with(std::slice::from_ref(&host_port)).unwrap();
    assert_ne!(state(&world), before);
    assert!(world.has_rules());
    world.detach(&pod);
    becomes(&world, &before);
    // Twice is once.
    world.detach(&pod);
    let directory = world.config.state_directory.clone();
    let records = || std::fs::read_dir(directory.join("sandboxes")).unwrap().count();
    assert_eq!(records(), 0);

    // One whose namespace is gone before it is detached.
    let pod = world.pod_with(std::slice::from_ref(&host_port)).unwrap();
    let sandbox = pod.sandbox.clone();
    drop(pod);
    world.wait(world.network().detach(&sandbox)).unwrap();
    assert_eq!(records(), 0);
    becomes(&world, &before);

    let (_stays, _too) = (world.pod_with(&[host_port]).unwrap(), world.pod());
    let tear_down = |world: &World| world.host.run(|| Network::tear_down("rkube", &directory));
    assert!(matches!(tear_down(&world), Err(Error::WrongState(_))), "it is in use");
    assert!(world.has_rules());
    world.stop();
    tear_down(&world).unwrap();
    assert_eq!(world.links(), ["lo"]);
    assert_eq!(world.host.ip("route show"), "");
    assert!(!directory.exists());
    assert!(!world.has_rules());
    // Where nothing is, nothing is to be done.
    tear_down(&world).unwrap();
}

#[test]
fn another_life_goes_on_with_the_pods_that_are_there() {
    if !may_run() {
        return;
    }
    let mut world = World::new();
    let host_port = |port| PortMapping { protocol: Protocol::Tcp, container_port: 80, host_port: port, host_ip: None };
    let kept = world.pod_with(&[host_port(8080)]).unwrap();
    let gone = world.pod_with(&[host_port(8081)]).unwrap();
    kept.namespace.serve("0.0.0.0:80");
    gone.namespace.serve("0.0.0.0:80");
    world.restart();
    for port in [8080, 8081] {
        world.host.ask(SocketAddr::new("127.0.0.1".parse().unwrap(), port)).unwrap();
    }
    world.wait(world.network().retain(vec![kept.sandbox.clone(), "never-seen".to_owned()])).unwrap();
    world.host.ask(socket("127.0.0.1:8080")).unwrap();
    world.host.ask(socket("127.0.0.1:8081")).unwrap_err();
    // Its loopback alone is left.
    assert_eq!(gone.namespace.ip("-brief link show").lines().count(), 1);
    assert_eq!(world.links().len(), 3);
    let next = world.pod();
    assert_ne!(next.addresses, kept.addresses);
    next.namespace.ask(kept.at(80)).unwrap();
    world.detach(&kept);
    world.host.ask(socket("127.0.0.1:8080")).unwrap_err();
}

/// As a firewall does that is started anew.
#[test]
fn what_others_removed_is_made_again() {
    if !may_run() {
        return;
    }
    let mut world = World::new();
    let pod = world.pod();
    pod.namespace.serve("0.0.0.0:80");
    world.host.ip("link del rkube0");
    assert!(world.host.ask(pod.at(80)).is_err());
    world.restart();
    world.host.ask(pod.at(80)).unwrap();
}

#[test]
fn a_hundred_at_once() {
    if !may_run() {
        return;
    }
    let world = World::new();
    let before = state(&world);
    let namespaces: Vec<Namespace> = (0..100).map(|_| Namespace::new()).collect();
    let network = world.network();
    let attach = |(number, namespace): (usize, &Namespace)| {
        network.attach(Attachment {
            sandbox: format!("many-{number}"),
            network_namespace: namespace.path(),
            ports: Vec::new(),
        })
    };
    let addresses = world.wait(futures::future::join_all(namespaces.iter().enumerate().map(attach)));
    let addresses: std::collections::BTreeSet<_> = addresses.into_iter().map(|one| one.unwrap()[0]).collect();
    assert_eq!(addresses.len(), 100);
    namespaces[0].serve("0.0.0.0:80");
    namespaces[99].ask(SocketAddr::new(*addresses.first().unwrap(), 80)).unwrap();
    let names: Vec<String> = (0..100).map(|number| format!("many-{number}")).collect();
    for detached in world.wait(futures::future::join_all(names.iter().map(|name| network.detach(name)))) {
        detached.unwrap();
    }
    becomes(&world, &before);
}

/// The next sandbox may come before the links of the last are gone: under its address, or under its id.
#[test]
fn one_after_the_other() {
    if !may_run() {
        return;
    }
    let world = World::with(|config| config.pod_ranges = vec![subnet("10.244.0.0/29")]);
    let namespaces: Vec<Namespace> = (0..20).map(|_| Namespace::new()).collect();
    for namespace in &namespaces {
        let attachment =
            Attachment { sandbox: "same".to_owned(), network_namespace: namespace.path(), ports: Vec::new() };
        let addresses = world.wait(world.network().attach(attachment)).unwrap();
        namespace.serve("0.0.0.0:80");
        world.host.ask(SocketAddr::new(addresses[0], 80)).unwrap();
        world.wait(world.network().detach("same")).unwrap();
    }
    for _ in 0..20 {
        let pod = world.pod();
        pod.namespace.serve("0.0.0.0:80");
        world.host.ask(pod.at(80)).unwrap();
        world.detach(&pod);
    }
}

#[test]
fn a_range_has_an_end() {
    if !may_run() {
        return;
    }
    let world = World::with(|config| config.pod_ranges = vec![subnet("10.244.0.0/29")]);
    let pods: Vec<_> = (0..5).map(|_| world.pod()).collect();
    let error = world.pod_with(&[]).err().unwrap();
    assert_eq!(error.to_string(), "no address of 10.244.0.0/29 is free for another pod");
    world.detach(&pods[2]);
    assert_eq!(world.pod().addresses, pods[2].addresses);
}

#[test]
fn both_families() {
    if !may_run() {
        return;
    }
    let world = World::with(|config| {
        config.gateways.push("fd00:244::1".parse().unwrap());
        config.cluster_ranges.push(subnet("fd00:244::/56"));
        config.pod_ranges.push(subnet("fd00:244::/64"));
        config.service_ranges.push(subnet("fd00:96::/112"));
    });
    assert_eq!((world.network().problem(), world.network().limitation()), (None, None));
    let host_port = PortMapping { protocol: Protocol::Tcp, container_port: 80, host_port: 8080, host_ip: None };
    let (one, other) = (world.pod_with(&[host_port]).unwrap(), world.pod());
    assert_eq!(one.addresses.len(), 2);
    one.namespace.serve("[::]:80");
    let at = SocketAddr::new(one.addresses[1], 80);
    assert_eq!(other.namespace.ask(at).unwrap(), other.addresses[1]);
    assert_eq!(world.host.ask(at).unwrap().to_string(), "fd00:244::1");
    assert_eq!(one.namespace.ask(socket("[fd00:244::1]:8080")).unwrap().to_string(), "fd00:244::1");
    other.namespace.ask(one.at(80)).unwrap();
    let error = other.namespace.ask(socket("[fd00:96::a]:53")).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
}

#[test]
fn what_cannot_be_attached_leaves_nothing() {
    if !may_run() {
        return;
    }
    let world = World::new();
    let before = state(&world);
    let attach = |sandbox: &str, namespace: &str| {
        let (sandbox, network_namespace) = (sandbox.to_owned(), namespace.into());
        world.wait(world.network().attach(Attachment { sandbox, network_namespace, ports: Vec::new() }))
    };
    let own = world.host.path();
    let own = own.to_str().unwrap();
    assert!(matches!(attach("a", own), Err(Error::CreateFailed(_))));
    assert!(matches!(attach("../a", own), Err(Error::CreateFailed(_))));
    attach("a", "/proc/1/nothing").unwrap_err();
    attach("a", "/dev/null").unwrap_err();
    // One that has such a link already.
    let taken = Namespace::new();
    taken.ip("link add eth0 type bridge");
    attach("a", taken.path().to_str().unwrap()).unwrap_err();
    becomes(&world, &before);
    assert_eq!(world.pod().addresses[0].to_string(), "10.244.0.4");
}

#[test]
fn without_a_range_there_is_none_yet() {
    if !may_run() {
        return;
    }
    let world = World::with(|config| config.pod_ranges.clear());
    assert_eq!(world.network().problem().as_deref(), Some("the node has no range of addresses for its pods yet"));
    assert!(matches!(world.pod_with(&[]).err(), Some(Error::Unsupported(_))));
    // The API server can be reached before.
    assert_eq!(world.network().api_addresses().len(), 1);
    world.wait(world.network().set_pod_ranges(vec![subnet("10.244.7.0/24")])).unwrap();
    assert_eq!(world.network().problem(), None);
    assert_eq!(world.pod().addresses[0].to_string(), "10.244.7.2");
}

#[test]
fn who_may_not_is_told_so() {
    if !may_run() {
        return;
    }
    let mut world = World::new();
    world.stop();
    let config = world.config.clone();
    let problem = world.host.run(|| {
        let sets = rustix::thread::capabilities(None).unwrap();
        let without = sets.effective - CapabilitySet::NET_ADMIN;
        rustix::thread::set_capabilities(None, CapabilitySets { effective: without, ..sets }).unwrap();
        // The network's thread inherits what this one has.
        let network = world.wait(Network::start(config));
        let attachment =
            Attachment { sandbox: "a".to_owned(), network_namespace: "/proc/1/ns/net".into(), ports: Vec::new() };
        let error = world.wait(network.attach(attachment)).unwrap_err();
        assert!(matches!(error, Error::Unsupported(_)), "{error}");
        assert_eq!(network.api_addresses(), []);
        world.wait(network.detach("a")).unwrap();
        network.problem().unwrap()
    });
    assert!(
        problem.starts_with("rkube may not change the network of this host") && problem.contains("root"),
        "{problem}"
    );
}

#[test]
fn one_at_a_time() {
    if !may_run() {
        return;
    }
    let world = World::new();
    let config = Config { state_directory: world.config.state_directory.join("other"), ..world.config.clone() };
    let second = world.host.run(|| world.wait(Network::start(config)));
    assert!(second.problem().is_some_and(|problem| problem.starts_with("another rkube has")));
    let error = world.wait(second.attach(Attachment {
        sandbox: "a".to_owned(),
        network_namespace: "/proc/1/ns/net".into(),
        ports: Vec::new(),
    }));
    assert!(error.unwrap_err().to_string().contains("another rkube"));
    let pod = world.pod();
    world.wait(second.retain(Vec::new())).unwrap();
    world.wait(second.detach(&pod.sandbox)).unwrap();
    pod.namespace.serve("0.0.0.0:80");
    world.host.ask(pod.at(80)).unwrap();
}
