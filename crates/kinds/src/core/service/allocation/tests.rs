use std::collections::BTreeSet;

use rkube_machinery::names::address::Subnet;
use rkube_machinery::object;

use super::super::pools::{IpRange, PortRange};
use super::*;

const FAMILIES: [Family; 1] = [Family::V4];
const BOTH: [Family; 2] = [Family::V4, Family::V6];
const REVERSED: [Family; 2] = [Family::V6, Family::V4];

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

/// `policy=P families=4,6 addresses=A,B type=T selector=no`, each of which may be left out.
fn spec(text: &str) -> Value {
    let mut spec = object! { "type": "ClusterIP", "selector": object! { "a": "b" } };
    for (name, value) in text.split_whitespace().map(|word| word.split_once('=').unwrap()) {
        let list = || value.split(',').map(Value::from).collect::<Vec<_>>();
        match name {
            "policy" => spec.set("ipFamilyPolicy", value),
            "families" => {
                spec.set("ipFamilies", value.split(',').map(|v| format!("IPv{v}").into()).collect::<Vec<_>>())
            }
            "addresses" => {
                spec.set("clusterIP", list()[0].clone());
                spec.set("clusterIPs", list());
            }
            "selector" => drop(spec.remove("selector")),
            _ => spec.set(name, value),
        }
    }
    spec
}

/// What became of the policy and the families, and what the plan says; or the error.
fn outcome(service: &Value, plan: Result<Plan, AllocationError>) -> String {
    let plan = match plan {
        Ok(plan) => plan,
        Err(error) => return error.to_string(),
    };
    let spec = service.get("spec");
    let families: String = texts(spec, "ipFamilies").map(|family| &family[3..]).collect();
    let mut text = format!("{} {families}", spec.str("ipFamilyPolicy"));
    for want in &plan.addresses {
        let address = want.address.map_or("any".to_owned(), |address| address.to_string());
        text += &format!(" +{}:{address}", &want.family.name()[3..]);
    }
    for address in &plan.release.addresses {
        text += &format!(" -{address}");
    }
    text
}

#[test]
fn new_services_have_the_families_that_they_ask_for() {
    const NONE: &str = "not configured on this cluster";
    let table: &[(&[Family], &str, &str)] = &[
        (&BOTH, "", "SingleStack 4 +4:any"),
        (&REVERSED, "", "SingleStack 6 +6:any"),
        (&BOTH, "policy=PreferDualStack", "PreferDualStack 46 +4:any +6:any"),
        (&REVERSED, "policy=PreferDualStack", "PreferDualStack 64 +6:any +4:any"),
        (&FAMILIES, "policy=PreferDualStack", "PreferDualStack 4 +4:any"),
        (&BOTH, "policy=RequireDualStack families=6", "RequireDualStack 64 +6:any +4:any"),
        (&BOTH, "policy=RequireDualStack type=NodePort", "RequireDualStack 46 +4:any +6:any"),
        (&BOTH, "families=6", "SingleStack 6 +6:any"),
        (&FAMILIES, "families=6", NONE),
        (&FAMILIES, "policy=PreferDualStack families=4,6", NONE),
        (
            &BOTH,
            "families=4,6",
            "must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified",
        ),
        (&BOTH, "addresses=fd00::5", "SingleStack 6 +6:fd00::5"),
        (&FAMILIES, "addresses=fd00::5", "IPv6 is not configured on this cluster"),
        (&BOTH, "policy=PreferDualStack addresses=fd00::5", "PreferDualStack 64 +6:fd00::5 +4:any"),
        (&BOTH, "policy=PreferDualStack addresses=10.0.0.5,fd00::5", "PreferDualStack 46 +4:10.0.0.5 +6:fd00::5"),
        (
            &BOTH,
            "addresses=10.0.0.5,fd00::5",
            "must be 'RequireDualStack' or 'PreferDualStack' when multiple cluster IPs are specified",
        ),
        (&BOTH, "addresses=10.0.0.5 families=6", "expected an IPv6 value as indicated by `ipFamilies[0]`"),
        (
            &BOTH,
            "policy=PreferDualStack addresses=10.0.0.5,10.0.0.6",
            "may specify no more than one IP for each IP family",
        ),
        (&BOTH, "addresses=None", "SingleStack 4"),
        (&BOTH, "addresses=None policy=PreferDualStack", "PreferDualStack 46"),
        (&FAMILIES, "addresses=None selector=no", "RequireDualStack 46"),
        (&REVERSED, "addresses=None selector=no", "RequireDualStack 64"),
        (&FAMILIES, "addresses=None selector=no policy=SingleStack families=6", "SingleStack 6"),
        (&BOTH, "type=ExternalName", " "),
    ];
    for (cluster, asked, expected) in table {
        let mut service = object! { "spec": spec(asked) };
        let plan = begin_create(&mut service, cluster);
        let found = outcome(&service, plan);
        assert!(
            found == *expected || (found.contains("Invalid value") && found.ends_with(expected)),
            "{asked}: {found}"
        );
    }
}

#[test]
fn services_gain_and_lose_a_second_address() {
    const ONE: &str = "policy=SingleStack families=4 addresses=10.0.0.5";
    const TWO: &str = "policy=PreferDualStack families=4,6 addresses=10.0.0.5,fd00::5";
    let table: &[(&[Family], &str, &str, &str)] = &[
        (&BOTH, ONE, "policy=PreferDualStack", "PreferDualStack 46 +6:any"),
        (&BOTH, ONE, "policy=RequireDualStack", "RequireDualStack 46 +6:any"),
        (&FAMILIES, ONE, "policy=PreferDualStack", "PreferDualStack 4"),
        (&FAMILIES, ONE, "policy=RequireDualStack", "this cluster is not configured for dual-stack services"),
        (&BOTH, ONE, "policy=PreferDualStack addresses=10.0.0.5,fd00::7", "PreferDualStack 46 +6:fd00::7"),
        (&BOTH, TWO, "policy=SingleStack", "SingleStack 4 -fd00::5"),
        (&BOTH, TWO, "policy=SingleStack families=4,6", "SingleStack 4 -fd00::5"),
        (&BOTH, TWO, "policy=SingleStack families=4 addresses=10.0.0.5", "SingleStack 4 -fd00::5"),
        (&BOTH, TWO, "families=4,6", "PreferDualStack 46"),
        (&BOTH, TWO, "families=4", "must be 'SingleStack' to release the secondary IP family"),
        (&BOTH, TWO, "addresses=10.0.0.5", "must be 'SingleStack' to release the secondary cluster IP"),
        (&BOTH, TWO, "type=ExternalName", "  -10.0.0.5 -fd00::5"),
        (&BOTH, "type=ExternalName", "policy=PreferDualStack", "PreferDualStack 46 +4:any +6:any"),
        // The cluster lost a family, or has gained one: a service that only prefers two is left as it is.
        (&FAMILIES, TWO, "policy=PreferDualStack families=4,6", "PreferDualStack 46"),
        (
            &BOTH,
            "policy=PreferDualStack families=4 addresses=10.0.0.5",
            "policy=PreferDualStack families=4",
            "PreferDualStack 4",
        ),
    ];
    for (cluster, old, new, expected) in table {
        let old = object! { "spec": spec(old) };
        let mut service = object! { "spec": spec(new) };
        let plan = begin_update(&mut service, &old, cluster);
        let found = outcome(&service, plan);
        assert!(found == *expected || (found.contains("Invalid value") && found.ends_with(expected)), "{new}: {found}");
    }
}

#[test]
fn a_refusal_shows_a_place_for_each_family() {
    let mut service = object! { "spec": spec("policy=PreferDualStack addresses=10.0.0.5") };
    let plan = begin_create(&mut service, &BOTH).unwrap();
    let refusal = plan.addresses[0].refuse(&mut service, &PoolError::AddressTaken).to_string();
    let expected = "spec.clusterIPs: Invalid value: [\"10.0.0.5\",\"\"]: failed to allocate IP 10.0.0.5: \
                    provided IP is already allocated";
    assert_eq!(refusal, expected);
    plan.addresses[0].write(&mut service, "10.0.0.5".parse().unwrap());
    plan.addresses[1].write(&mut service, "fd00::5".parse().unwrap());
    assert_eq!(service.get("spec").list("clusterIPs"), ["10.0.0.5".into(), "fd00::5".into()]);
    assert_eq!(service.get("spec").str("clusterIP"), "10.0.0.5");
}
