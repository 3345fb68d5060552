use std::collections::BTreeSet;

use rkube_machinery::names::address::Subnet;
use rkube_machinery::object;

use super::super::pools::{IpRange, PortRange};
use super::*;

const FAMILIES: [Family; 1] = [Family::V4];

/// Everything that is taken, in memory.
#[derive(Default)]
struct Taken {
    addresses: BTreeSet<IpAddr>,
    ports: BTreeSet<u16>,
}

impl Taken {
    fn carry_out(&mut self, plan: &Plan, service: &mut Value) -> Result<(), AllocationError> {
        let range = IpRange::new(Subnet::parse_sloppy("10.0.0.0/24").unwrap());
        for want in &plan.addresses {
            let address = want.address.or_else(|| range.pick(0, |address| !self.addresses.contains(&address))).unwrap();
            if !self.addresses.insert(address) {
                return Err(want.refuse(service, &PoolError::AddressTaken));
            }
            want.write(service, address);
        }
        let range = PortRange::new(30000, 32767);
        for want in &plan.ports {
            let port = match want.port {
                Some(port) => range.check(port).map_err(|error| want.refuse(&error))?,
                None => range.pick(0, |port| !self.ports.contains(&port)).unwrap(),
            };
            if !self.ports.insert(port) {
                return Err(want.refuse(&PoolError::PortTaken));
            }
            want.write(service, i64::from(port));
        }
        Ok(())
    }
}

fn create(taken: &mut Taken, spec: Value) -> Result<Value, String> {
    let mut service = object! { "spec": spec };
    let plan = begin_create(&mut service, &FAMILIES).map_err(|error| error.to_string())?;
    taken.carry_out(&plan, &mut service).map_err(|error| error.to_string())?;
    Ok(service)
}

fn port(number: i64, node_port: i64, protocol: &str) -> Value {
    object! { "name": protocol, "port": number, "nodePort": node_port, "protocol": protocol }
}

#[test]
fn a_new_service_gets_an_address() {
    let mut taken = Taken::default();
    let service = create(&mut taken, object! { "type": "ClusterIP" }).unwrap();
    let spec = service.get("spec");
    assert_eq!(spec.str("clusterIP"), "10.0.0.17");
    assert_eq!(spec.list("clusterIPs"), ["10.0.0.17".into()]);
    assert_eq!(spec.list("ipFamilies"), ["IPv4".into()]);
    assert_eq!(spec.str("ipFamilyPolicy"), "SingleStack");
    assert_eq!(Claims::of(&service).addresses, ["10.0.0.17".parse::<IpAddr>().unwrap()]);
}

#[test]
fn an_address_is_had_once() {
    let mut taken = Taken::default();
    let spec = || object! { "type": "ClusterIP", "clusterIP": "10.0.0.5" };
    assert!(create(&mut taken, spec()).is_ok());
    assert_eq!(
        create(&mut taken, spec()).unwrap_err(),
        "spec.clusterIPs: Invalid value: [\"10.0.0.5\"]: failed to allocate IP 10.0.0.5: provided IP is already allocated"
    );
    let wrong = create(&mut taken, object! { "type": "ClusterIP", "ipFamilyPolicy": "RequireDualStack" });
    assert_eq!(
        wrong.unwrap_err(),
        "spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": this cluster is not configured for dual-stack services"
    );
}

#[test]
fn protocols_share_a_node_port() {
    let mut taken = Taken::default();
    let ports = vec![port(53, 0, "TCP"), port(53, 30053, "UDP"), port(80, 0, "TCP")];
    let service = create(&mut taken, object! { "type": "NodePort", "ports": ports }).unwrap();
    assert_eq!(node_ports(service.get("spec")).collect::<Vec<_>>(), [30053, 30053, 30086]);
    let again =
        create(&mut taken, object! { "type": "NodePort", "ports": vec![port(1, 0, "TCP"), port(2, 30053, "UDP")] });
    assert_eq!(again.unwrap_err(), "spec.ports[1].nodePort: Invalid value: 30053: provided port is already allocated");
}

#[test]
fn a_change_of_type_releases() {
    let mut taken = Taken::default();
    let old = create(&mut taken, object! { "type": "NodePort", "ports": vec![port(80, 0, "TCP")] }).unwrap();
    let mut service = old.clone();
    service.object_mut("spec").set("type", "ExternalName");
    let plan = begin_update(&mut service, &old, &FAMILIES).unwrap();
    assert_eq!(plan.release, Claims::of(&old));
    assert!(plan.addresses.is_empty() && plan.ports.is_empty());
}

#[test]
fn what_was_allocated_may_be_left_out() {
    let mut taken = Taken::default();
    let old = create(&mut taken, object! { "type": "NodePort", "ports": vec![port(80, 0, "TCP")] }).unwrap();
    let ports = vec![port(80, 0, "TCP"), port(81, 0, "UDP")];
    let mut service = object! { "spec": object! { "type": "NodePort", "ports": ports } };
    let plan = begin_update(&mut service, &old, &FAMILIES).unwrap();
    taken.carry_out(&plan, &mut service).unwrap();
    let spec = service.get("spec");
    assert_eq!(spec.str("clusterIP"), old.get("spec").str("clusterIP"));
    assert_eq!(node_ports(spec).collect::<Vec<_>>(), [30086, 30087]);
    assert_eq!(plan.release, Claims::default());
}
