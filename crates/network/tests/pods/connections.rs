//! Who reaches whom, and under which address.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

use crate::world::{API_PORT, GATEWAY, Namespace, SERVICE, World, may_run, outside, socket};
use rkube_runtime::api::PodNetwork;

fn gateway() -> IpAddr {
    GATEWAY.parse().unwrap()
}

#[test]
fn pods_and_their_host_reach_each_other_under_their_own_addresses() {
    if !may_run() {
        return;
    }
    let world = World::new();
    assert_eq!(world.network().problem(), None);
    assert_eq!(world.network().limitation(), None);
    let (one, other) = (world.pod(), world.pod());
    one.namespace.serve("0.0.0.0:80");
    assert_eq!(other.namespace.ask(one.at(80)).unwrap(), other.addresses[0]);
    assert_eq!(world.host.ask(one.at(80)).unwrap(), gateway());
    // Itself, by its own address and by loopback.
    assert_eq!(one.namespace.ask(one.at(80)).unwrap(), one.addresses[0]);
    assert_eq!(one.namespace.ask(socket("127.0.0.1:80")).unwrap().to_string(), "127.0.0.1");
    let on_host = world.host.serve("0.0.0.0:0");
    let on_host = SocketAddr::new(gateway(), on_host.port());
    assert_eq!(one.namespace.ask(on_host).unwrap(), one.addresses[0]);
}

#[test]
fn the_api_server_is_behind_its_service_address() {
    if !may_run() {
        return;
    }
    let world = World::new();
    let address = SocketAddr::new(gateway(), API_PORT);
    assert_eq!(world.network().api_addresses(), [address]);
    world.host.serve(&address.to_string());
    let pod = world.pod();
    assert_eq!(pod.namespace.ask(socket(SERVICE)).unwrap(), pod.addresses[0]);
    assert_eq!(world.host.ask(socket(SERVICE)).unwrap(), gateway());
    // Another service: nobody has it, and nobody waits for it.
    for from in [&pod.namespace, &world.host] {
        let error = from.ask(socket("10.96.0.10:53")).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
    }
}

#[test]
fn pods_go_out_under_the_hosts_address() {
    if !may_run() {
        return;
    }
    let world = World::new();
    let outside = outside(&world);
    outside.serve("192.0.2.2:80");
    let pod = world.pod();
    assert_eq!(pod.namespace.ask(socket("192.0.2.2:80")).unwrap().to_string(), "192.0.2.1");
}

/// Whoever drops the first packet of a connection delays it by a second.
#[test]
fn the_first_packet_arrives() {
    if !may_run() {
        return;
    }
    let world = World::new();
    let bind = |namespace: &Namespace, address: &str| {
        let socket = namespace.run(|| UdpSocket::bind(address).unwrap());
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        socket
    };
    let on_host = bind(&world.host, &format!("{GATEWAY}:1000"));
    let mut buffer = [0; 8];
    for _ in 0..40 {
        let namespace = Namespace::new();
        // Bound before there is a link, so that nothing lies between.
        let in_pod = bind(&namespace, "0.0.0.0:1000");
        let pod = world.pod_in(namespace, &[]).unwrap();
        on_host.send_to(b"question", pod.at(1000)).unwrap();
        let (_, sender) = in_pod.recv_from(&mut buffer).unwrap();
        in_pod.send_to(b"answer", sender).unwrap();
        on_host.recv_from(&mut buffer).unwrap();
    }
}
