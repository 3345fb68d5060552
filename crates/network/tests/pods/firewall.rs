//! Beside the firewalls of others.

use rkube_network::Network;
use rkube_network::netlink::Socket;
use rkube_network::netlink::nftables::{BaseChain, Family, Hook, Transaction, rules_known_as};

use crate::world::{API_PORT, GATEWAY, SERVICE, World, may_run, outside, socket};

/// What `iptables -P FORWARD DROP` and `iptables -P INPUT DROP` make.
fn drop_by_default(world: &World) {
    world.host.run(|| {
        let mut transaction = Transaction::of(Family::Ipv4, "filter");
        transaction.add_table();
        for (name, hook) in [("FORWARD", Hook::Forward), ("INPUT", Hook::Input)] {
            transaction.add_base_chain(name, BaseChain { kind: "filter", hook, priority: 0, drops: true });
        }
        transaction.commit(&mut Socket::netfilter().unwrap(), "cannot make the firewall").unwrap();
    });
}

/// How many rules are ours in it.
fn ours(world: &World) -> usize {
    world.host.run(|| {
        let mut socket = Socket::netfilter().unwrap();
        let mut count =
            |chain| rules_known_as(&mut socket, Family::Ipv4, "filter", chain, "rkube: pods").unwrap().len();
        count("FORWARD") + count("INPUT")
    })
}

#[test]
fn pods_pass_a_firewall_that_drops_by_default() {
    if !may_run() {
        return;
    }
    let mut world = World::new();
    let outside = outside(&world);
    outside.serve("192.0.2.2:80");
    world.host.serve(&format!("{GATEWAY}:{API_PORT}"));
    let pod = world.pod();
    drop_by_default(&world);
    assert_eq!(ours(&world), 0);
    world.restart();
    assert_eq!(ours(&world), 3);
    assert_eq!(pod.namespace.ask(socket("192.0.2.2:80")).unwrap().to_string(), "192.0.2.1");
    assert_eq!(pod.namespace.ask(socket(SERVICE)).unwrap(), pod.addresses[0]);
    // Once is enough.
    world.restart();
    assert_eq!(ours(&world), 3);
    world.stop();
    world.host.run(|| Network::tear_down("rkube", &world.config.state_directory)).unwrap();
    assert_eq!(ours(&world), 0);
}
