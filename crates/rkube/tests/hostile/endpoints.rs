//! The endpoints of the service `kubernetes`, while servers come, go and fall over.

use rkube_testkit::{Etcd, Rkube, eventually};
use serde_json::Value;

use crate::client::Client;
use crate::is_well;

const BINARY: &str = env!("CARGO_BIN_EXE_rkube");
const ENDPOINTS: &str = "/api/v1/namespaces/default/endpoints/kubernetes";
const SLICE: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes";

/// Waits until both objects have these addresses.
fn await_addresses(rkube: &Rkube, wanted: &[&str]) {
    let client = Client::of(rkube);
    eventually("the endpoints follow", || {
        let (endpoints, slice) = (client.get(ENDPOINTS), client.get(SLICE));
        if endpoints.status != 200 || slice.status != 200 {
            return Err(format!("{} {}", endpoints.status, slice.status));
        }
        let all = |list: &Value| list.as_array().cloned().unwrap_or_default();
        let (endpoints, slice) = (endpoints.json(), slice.json());
        let mut of_endpoints: Vec<Value> = Vec::new();
        for subset in all(&endpoints["subsets"]) {
            of_endpoints.extend(all(&subset["addresses"]).iter().map(|address| address["ip"].clone()));
        }
        let of_slice: Vec<Value> =
            all(&slice["endpoints"]).iter().map(|endpoint| endpoint["addresses"][0].clone()).collect();
        let right = of_endpoints == wanted && (of_slice == wanted || endpoints["subsets"][1].is_object());
        if right { Ok(()) } else { Err(format!("{of_endpoints:?} {of_slice:?}")) }
    });
}

#[test]
fn a_server_that_fell_over_is_not_among_the_endpoints() {
    let mut rkube = Rkube::start_with(BINARY, &["--advertise-address=192.0.2.77"]);
    await_addresses(&rkube, &["192.0.2.77"]);
    rkube.kill9();
    rkube.restart_with(&["--advertise-address=192.0.2.78"]);
    await_addresses(&rkube, &["192.0.2.78"]);
    rkube.restart_with(&["--advertise-address=127.0.0.1"]);
    // Endpoints cannot have a loopback address, and the one before has taken itself out.
    await_addresses(&rkube, &[]);
    is_well(&rkube);
}

#[test]
fn servers_on_one_etcd_are_all_endpoints() {
    let Some(etcd) = Etcd::start() else { return };
    let store = format!("--store=etcd={}", etcd.url());
    let first = Rkube::start_with(BINARY, &[&store, "--advertise-address=192.0.2.77"]);
    let secret = format!("--join-secret-file={}", first.data_directory().join("join-secret").display());
    await_addresses(&first, &["192.0.2.77"]);
    let mut second = Rkube::start_with(BINARY, &[&store, &secret, "--advertise-address=192.0.2.78"]);
    await_addresses(&first, &both(&first, &second));
    second.terminate();
    await_addresses(&first, &["192.0.2.77"]);
    second.restart();
    await_addresses(&first, &both(&first, &second));
    second.kill9();
    await_addresses(&first, &["192.0.2.77"]);
    is_well(&first);
}

/// The addresses in the order of their ports: here each server has one of its own.
fn both(first: &Rkube, second: &Rkube) -> [&'static str; 2] {
    let port = |rkube: &Rkube| rkube.url().rsplit_once(':').unwrap().1.parse::<u16>().unwrap();
    if port(first) < port(second) { ["192.0.2.77", "192.0.2.78"] } else { ["192.0.2.78", "192.0.2.77"] }
}
