use rkube_machinery::names::address::Subnet;
use rkube_machinery::object;

use super::super::pools::IpRange;
use super::*;

fn pools() -> Pools {
    let range = IpRange::new(Subnet::parse_sloppy("10.0.0.0/24").unwrap());
    Pools { addresses: vec![Addresses::new(range)], ports: Ports::default() }
}

fn create(pools: &mut Pools, spec: Value) -> Result<Value, String> {
    let mut service = object! { "spec": spec };
    let plan = begin_create(&mut service, &pools.families()).map_err(|error| error.to_string())?;
    plan.carry_out(&mut service, pools, &mut || 0, false).map_err(|error| error.to_string())?;
    Ok(service)
}

fn port(number: i64, node_port: i64, protocol: &str) -> Value {
    object! { "name": protocol, "port": number, "nodePort": node_port, "protocol": protocol }
}

#[test]
fn a_new_service_gets_an_address() {
    let mut pools = pools();
    let service = create(&mut pools, object! { "type": "ClusterIP" }).unwrap();
    let spec = service.get("spec");
    assert_eq!(spec.str("clusterIP"), "10.0.0.17");
    assert_eq!(spec.list("clusterIPs"), ["10.0.0.17".into()]);
    assert_eq!(spec.list("ipFamilies"), ["IPv4".into()]);
    assert_eq!(spec.str("ipFamilyPolicy"), "SingleStack");
    pools.release(&Claims::of(&service));
    assert!(!pools.addresses[0].has("10.0.0.17".parse().unwrap()));
}

#[test]
fn an_address_is_had_once() {
    let mut pools = pools();
    let spec = || object! { "type": "ClusterIP", "clusterIP": "10.0.0.5" };
    assert!(create(&mut pools, spec()).is_ok());
    assert_eq!(
        create(&mut pools, spec()).unwrap_err(),
        "spec.clusterIPs: Invalid value: [\"10.0.0.5\"]: failed to allocate IP 10.0.0.5: provided IP is already allocated"
    );
    let wrong = create(&mut pools, object! { "type": "ClusterIP", "ipFamilyPolicy": "RequireDualStack" });
    assert_eq!(
        wrong.unwrap_err(),
        "spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": this cluster is not configured for dual-stack services"
    );
}

#[test]
fn protocols_share_a_node_port() {
    let mut pools = pools();
    let ports = vec![port(53, 0, "TCP"), port(53, 30053, "UDP"), port(80, 0, "TCP")];
    let service = create(&mut pools, object! { "type": "NodePort", "ports": ports }).unwrap();
    let taken: Vec<i64> = node_ports(service.get("spec")).collect();
    assert_eq!(taken, [30053, 30053, 30086]);
    let again =
        create(&mut pools, object! { "type": "NodePort", "ports": vec![port(1, 0, "TCP"), port(2, 30053, "UDP")] });
    assert_eq!(again.unwrap_err(), "spec.ports[1].nodePort: Invalid value: 30053: provided port is already allocated");
    // What the failed one had taken is free again.
    assert!(!pools.ports.has(30087));
}

#[test]
fn a_change_of_type_releases() {
    let mut pools = pools();
    let old = create(&mut pools, object! { "type": "NodePort", "ports": vec![port(80, 0, "TCP")] }).unwrap();
    let mut service = old.clone();
    service.object_mut("spec").set("type", "ExternalName");
    let plan = begin_update(&mut service, &old, &pools.families()).unwrap();
    assert_eq!(plan.release, Claims::of(&old));
    assert!(plan.addresses.is_empty() && plan.ports.is_empty());
}

#[test]
fn what_was_allocated_may_be_left_out() {
    let mut pools = pools();
    let old = create(&mut pools, object! { "type": "NodePort", "ports": vec![port(80, 0, "TCP")] }).unwrap();
    let ports = vec![port(80, 0, "TCP"), port(81, 0, "UDP")];
    let mut service = object! { "spec": object! { "type": "NodePort", "ports": ports } };
    let plan = begin_update(&mut service, &old, &pools.families()).unwrap();
    plan.carry_out(&mut service, &mut pools, &mut || 0, false).unwrap();
    let spec = service.get("spec");
    assert_eq!(spec.str("clusterIP"), old.get("spec").str("clusterIP"));
    assert_eq!(node_ports(spec).collect::<Vec<_>>(), [30086, 30087]);
    assert_eq!(plan.release, Claims::default());
}

#[test]
fn a_dry_run_takes_nothing() {
    let mut pools = pools();
    let mut service = object! { "spec": object! { "type": "NodePort", "ports": vec![port(80, 0, "TCP")] } };
    let plan = begin_create(&mut service, &pools.families()).unwrap();
    let taken = plan.carry_out(&mut service, &mut pools, &mut || 0, true).unwrap();
    assert_eq!(taken, Claims::default());
    assert_eq!(node_ports(service.get("spec")).collect::<Vec<_>>(), [DRY_RUN_PORT]);
}
