//! Ports of services, and what they are on a pod.

use rkube_machinery::Text;
use serde::{Deserialize, Serialize};

use crate::pods::Pod;

/// A port as a service has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfService {
    pub name: Text,
    pub protocol: Text,
    pub app_protocol: Option<Text>,
    pub target: Target,
}

/// What a service's port leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    Number(i32),
    /// A container's port of this name.
    Name(Text),
}

/// A port as it is on a pod, and as Endpoints have it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Port {
    #[serde(default, skip_serializing_if = "Text::is_empty")]
    pub name: Text,
    pub port: i32,
    #[serde(default)]
    pub protocol: Text,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app_protocol: Option<Text>,
}

impl OfService {
    /// None: the pod has no such port.
    pub fn on(&self, pod: &Pod) -> Option<Port> {
        let port = match &self.target {
            Target::Number(number) => *number,
            Target::Name(name) => {
                let mut named = pod.network.ports.iter();
                named.find(|port| port.name == *name && port.protocol == self.protocol)?.port
            }
        };
        Some(Port {
            name: self.name.clone(),
            protocol: self.protocol.clone(),
            port,
            app_protocol: self.app_protocol.clone(),
        })
    }
}

/// Upstream orders ports by a hash of how Go prints them, and a list's order is seen: so that is what ours is, too.
impl Port {
    /// The order among the ports of Endpoints.
    pub fn order_in_endpoints(&self) -> u128 {
        fnv(format!("(v1.EndpointPort){}", self.go_fields()).as_bytes())
    }

    pub fn go_fields(&self) -> String {
        let Port { name, port, protocol, app_protocol } = self;
        let app_protocol = app_protocol.as_deref().unwrap_or("<nil>");
        format!(
            "{{Name:(string){name} Port:(int32){port} Protocol:(v1.Protocol){protocol} AppProtocol:(*string){app_protocol}}}"
        )
    }

    /// The order among the ports of an EndpointSlice.
    pub fn order_in_slice(&self) -> u128 {
        let Port { name, port, protocol, app_protocol } = self;
        let app_protocol = app_protocol.as_deref().unwrap_or("<nil>");
        let text = format!(
            "(v1.EndpointPort){{Name:(*string){name} Protocol:(*v1.Protocol){protocol} Port:(*int32){port} \
             AppProtocol:(*string){app_protocol}}}"
        );
        fnv(text.as_bytes())
    }
}

/// FNV-1a of 128 bits.
pub fn fnv(bytes: &[u8]) -> u128 {
    const BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    bytes.iter().fold(BASIS, |hash, byte| (hash ^ u128::from(*byte)).wrapping_mul(PRIME))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pods::{NamedPort, Network};

    #[test]
    fn ports_are_found_by_number_and_by_name() {
        let named = |name: &str, protocol: &str, port| NamedPort { name: name.into(), protocol: protocol.into(), port };
        let ports = [named("dns", "UDP", 53), named("dns", "TCP", 54), named("web", "TCP", 80)].into();
        let pod = Pod { network: Network { ports, ..Network::default() }, ..Pod::default() };
        let table = [
            (Target::Number(7), "TCP", Some(7)),
            (Target::Name("dns".into()), "TCP", Some(54)),
            (Target::Name("dns".into()), "UDP", Some(53)),
            (Target::Name("web".into()), "UDP", None),
            (Target::Name("none".into()), "TCP", None),
        ];
        for (target, protocol, expected) in table {
            let port = OfService { name: "x".into(), protocol: protocol.into(), app_protocol: None, target };
            assert_eq!(port.on(&pod).map(|port| port.port), expected, "{port:?}");
        }
    }

    #[test]
    fn the_order_is_upstreams() {
        let port = Port { name: "http".into(), port: 80, protocol: "TCP".into(), app_protocol: None };
        assert_eq!(port.order_in_endpoints(), 0x754b_003f_50f1_33a5_39c6_0d18_cfb3_0a55);
        let with_protocol = Port { app_protocol: Some("h2c".into()), ..port };
        assert_eq!(with_protocol.order_in_slice(), 0xeb07_b9ef_5470_399c_b9de_d941_71e4_4d47);
    }

    #[test]
    fn the_hash_is_the_published_one() {
        assert_eq!(fnv(b""), 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d);
        assert_eq!(fnv(b"a"), 0xd228_cb69_6f1a_8caf_7891_2b70_4e4a_8964);
        assert_eq!(fnv(b"foobar"), 0x343e_1662_793c_64bf_6f0d_3597_ba44_6f18);
    }
}
