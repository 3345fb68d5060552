//! Ports of the host that lead to pods.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use rkube_runtime::api::{PodNetwork, PortMapping, Protocol};

use crate::world::{GATEWAY, Namespace, World, may_run, outside, socket};

fn port(host_port: u16, container_port: u16) -> PortMapping {
    PortMapping { protocol: Protocol::Tcp, container_port, host_port, host_ip: None }
}

#[test]
fn a_host_port_leads_to_its_pod_from_everywhere() {
    if !may_run() {
        return;
    }
    let world = World::new();
    let outside = outside(&world);
    let pod = world.pod_with(&[port(8080, 80)]).unwrap();
    let other = world.pod();
    pod.namespace.serve("0.0.0.0:80");
    let from = |namespace: &Namespace, address: &str| namespace.ask(socket(address)).unwrap().to_string();
    assert_eq!(from(&outside, "192.0.2.1:8080"), "192.0.2.2");
    assert_eq!(from(&world.host, "127.0.0.1:8080"), GATEWAY);
    assert_eq!(from(&world.host, "192.0.2.1:8080"), "192.0.2.1");
    assert_eq!(from(&other.namespace, "192.0.2.1:8080"), other.addresses[0].to_string());
    // Itself: the answer has to come back by the host.
    assert_eq!(from(&pod.namespace, "192.0.2.1:8080"), GATEWAY);
    assert_eq!(from(&pod.namespace, &format!("{GATEWAY}:8080")), GATEWAY);
    // Only the host's own addresses lead there.
    assert!(world.host.ask(other.at(8080)).is_err());

    world.detach(&pod);
    for (namespace, address) in [(&outside, "192.0.2.1:8080"), (&world.host, "127.0.0.1:8080")] {
        let error = namespace.ask(socket(address)).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused, "{address}");
    }
}

#[test]
fn a_host_port_of_one_address_is_of_that_one_alone() {
    if !may_run() {
        return;
    }
    let world = World::new();
    let outside = outside(&world);
    let at = |address: &str| PortMapping { host_ip: Some(address.parse().unwrap()), ..port(8080, 80) };
    let one = world.pod_with(&[at("192.0.2.1")]).unwrap();
    let other = world.pod_with(&[at("127.0.0.1")]).unwrap();
    one.namespace.serve("0.0.0.0:80");
    other.namespace.serve("0.0.0.0:80");
    let accepted =
        |pod: &Namespace| pod.run(|| std::fs::read_to_string("/proc/thread-self/net/tcp").unwrap().lines().count());
    let before = (accepted(&one.namespace), accepted(&other.namespace));
    assert_eq!(outside.ask(socket("192.0.2.1:8080")).unwrap().to_string(), "192.0.2.2");
    assert!(accepted(&one.namespace) > before.0 && accepted(&other.namespace) == before.1);
    assert_eq!(world.host.ask(socket("127.0.0.1:8080")).unwrap().to_string(), GATEWAY);
    assert!(accepted(&other.namespace) > before.1);
    // The gateway's is neither of both.
    assert!(world.host.ask(socket(&format!("{GATEWAY}:8080"))).is_err());

    let error = world.pod_with(&[port(8080, 80)]).err().unwrap().to_string();
    assert_eq!(error, "host port 8080/TCP is used by another pod");
    world.pod_with(&[PortMapping { protocol: Protocol::Udp, ..port(8080, 80) }]).unwrap();
    world.detach(&one);
    world.detach(&other);
    world.pod_with(&[port(8080, 80)]).unwrap();
}

#[test]
fn datagrams_find_their_way_too() {
    if !may_run() {
        return;
    }
    let world = World::new();
    let pod = world.pod_with(&[PortMapping { protocol: Protocol::Udp, ..port(5353, 53) }]).unwrap();
    let server = pod.namespace.run(|| UdpSocket::bind("0.0.0.0:53").unwrap());
    let client = world.host.run(|| UdpSocket::bind("127.0.0.1:0").unwrap());
    client.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    server.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    client.send_to(b"question", "127.0.0.1:5353").unwrap();
    let mut buffer = [0; 32];
    let (length, asker) = server.recv_from(&mut buffer).unwrap();
    assert_eq!((&buffer[..length], asker.ip().to_string().as_str()), (&b"question"[..], GATEWAY));
    server.send_to(b"answer", asker).unwrap();
    let (length, answerer) = client.recv_from(&mut buffer).unwrap();
    assert_eq!((&buffer[..length], answerer), (&b"answer"[..], socket("127.0.0.1:5353")));
}

/// A sender that never rests is remembered by the kernel with the way that its first datagram took.
#[test]
fn datagrams_find_the_pod_that_came_later() {
    if !may_run() {
        return;
    }
    let world = World::new();
    let outside = outside(&world);
    let mapping = PortMapping { protocol: Protocol::Udp, ..port(8125, 8125) };
    let client = outside.run(|| UdpSocket::bind("192.0.2.2:0").unwrap());
    // Who is not there may say so: the next call fails then.
    let send = |text: &str| while client.send_to(text.as_bytes(), "192.0.2.1:8125").is_err() {};
    send("to nobody");
    send("to nobody");
    for round in ["first", "second"] {
        let pod = world.pod_with(std::slice::from_ref(&mapping)).unwrap();
        let server = pod.namespace.run(|| UdpSocket::bind("0.0.0.0:8125").unwrap());
        server.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        send(round);
        let mut buffer = [0; 32];
        loop {
            let (length, sender) = server.recv_from(&mut buffer).expect(round);
            server.send_to(b"answer", sender).unwrap();
            // One from before may have waited on its way.
            if &buffer[..length] == round.as_bytes() {
                break;
            }
        }
        world.detach(&pod);
        send("to nobody");
    }
}

/// Links of pods with host ports route loopback addresses: what listens on the host's alone must stay out of their reach.
#[test]
fn the_hosts_loopback_is_out_of_reach() {
    if !may_run() {
        return;
    }
    let world = World::new();
    let pod = world.pod_with(&[port(8080, 80)]).unwrap();
    let secret = world.host.run(|| UdpSocket::bind("127.0.0.1:0").unwrap());
    let open = world.host.run(|| UdpSocket::bind("0.0.0.0:0").unwrap());
    secret.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    open.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    // A pod that sends its loopback's packets out.
    pod.namespace.ip("addr del 127.0.0.1/8 dev lo");
    pod.namespace.ip("route add 127.0.0.0/8 via 10.244.0.1 dev eth0 onlink");
    pod.namespace.run(|| {
        std::fs::write("/proc/sys/net/ipv4/conf/all/route_localnet", "1").unwrap();
        let socket = UdpSocket::bind(SocketAddr::new(pod.addresses[0], 0)).unwrap();
        let target = SocketAddr::new("127.0.0.1".parse().unwrap(), secret.local_addr().unwrap().port());
        // It may be refused here already.
        let _ = socket.send_to(b"x", target);
        let target = SocketAddr::new(GATEWAY.parse().unwrap(), open.local_addr().unwrap().port());
        socket.send_to(b"y", target).unwrap();
    });
    let mut buffer = [0; 8];
    // What was sent later has arrived: so would have what was sent before.
    assert_eq!(open.recv(&mut buffer).unwrap(), 1);
    assert!(secret.recv(&mut buffer).is_err());
    assert_eq!(world.network().problem(), None);
}
