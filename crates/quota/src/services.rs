//! Services: themselves, their ports on nodes, and their load balancers.

use rkube_machinery::{Text, Value};

use crate::amounts::count;
use crate::{Amounts, Measure, Scopes};

pub const RESOURCES: &[&str] = &["count/services", "services", "services.loadbalancers", "services.nodeports"];

pub fn measure(service: &Value) -> Measure {
    let spec = service.get("spec");
    let ports = spec.list("ports");
    let kind = spec.str("type");
    let on_nodes = match kind {
        "NodePort" => ports.len(),
        // Where none are to be allocated, those count that are asked for by number.
        "LoadBalancer" if spec.get("allocateLoadBalancerNodePorts").as_bool() == Some(false) => {
            ports.iter().filter(|port| port.int("nodePort") != 0).count()
        }
        "LoadBalancer" => ports.len(),
        _ => 0,
    };
    let amounts = [1, 1, i64::from(kind == "LoadBalancer"), on_nodes as i64];
    let usage: Amounts =
        RESOURCES.iter().zip(amounts).map(|(name, amount)| (Text::new_static(name), count(amount))).collect();
    Measure { scopes: Scopes::None, usage, expires: None }
}

#[cfg(test)]
mod tests {
    use rkube_machinery::object;

    use super::*;
    use crate::amounts::to_text;

    #[test]
    fn services_take_ports_by_their_type() {
        let ports = || vec![object! { "port": 1, "nodePort": 30_000 }, object! { "port": 2 }];
        let table = [
            (object! { "type": "ClusterIP", "ports": ports() }, 0, 0),
            (object! { "type": "ExternalName" }, 0, 0),
            (object! { "type": "NodePort", "ports": ports() }, 0, 2),
            (object! { "type": "LoadBalancer", "ports": ports() }, 1, 2),
            (object! { "type": "LoadBalancer", "ports": ports(), "allocateLoadBalancerNodePorts": true }, 1, 2),
            (object! { "type": "LoadBalancer", "ports": ports(), "allocateLoadBalancerNodePorts": false }, 1, 1),
        ];
        for (spec, balancers, ports) in table {
            let measure = measure(&object! { "spec": spec });
            let expected =
                format!("count/services=1,services=1,services.loadbalancers={balancers},services.nodeports={ports}");
            assert_eq!(to_text(&measure.usage), expected);
        }
    }
}
