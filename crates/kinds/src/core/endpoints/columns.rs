//! What a table says of endpoints.

use rkube_machinery::Value;

use crate::columns::NONE;

/// So many addresses are named; the rest are counted.
const SHOWN_MAX: usize = 3;

/// Ready addresses, each with each of its ports.
pub fn endpoints(endpoints: &Value, _now: i64) -> Value {
    let subsets = endpoints.list("subsets");
    if subsets.is_empty() {
        return NONE.into();
    }
    let mut shown: Vec<String> = Vec::new();
    let mut count = 0;
    for subset in subsets {
        let addresses = subset.list("addresses");
        let ports = subset.list("ports");
        for port in ports.iter().map(Some).chain(ports.is_empty().then_some(None)) {
            count += addresses.len();
            let room = SHOWN_MAX - shown.len();
            shown.extend(addresses.iter().take(room).map(|address| place(address.str("ip"), port)));
        }
    }
    let text = shown.join(",");
    if count > SHOWN_MAX { format!("{text} + {} more...", count - SHOWN_MAX).into() } else { text.into() }
}

fn place(ip: &str, port: Option<&Value>) -> String {
    match port {
        None => ip.to_owned(),
        Some(port) if ip.contains(':') => format!("[{ip}]:{}", port.int("port")),
        Some(port) => format!("{ip}:{}", port.int("port")),
    }
}

#[cfg(test)]
mod tests {
    use rkube_machinery::object;

    use super::*;

    #[test]
    fn addresses_are_counted() {
        let address = |ip: &str| object! { "ip": ip };
        let port = |number: i64| object! { "port": number };
        let subset = |ips: &[&str], ports: &[i64]| {
            let addresses: Vec<Value> = ips.iter().map(|ip| address(ip)).collect();
            let ports: Vec<Value> = ports.iter().map(|number| port(*number)).collect();
            object! { "addresses": addresses, "ports": ports }
        };
        let table: &[(Vec<Value>, &str)] = &[
            (vec![], "<none>"),
            (vec![subset(&[], &[80])], ""),
            (vec![subset(&["10.0.0.1"], &[])], "10.0.0.1"),
            (vec![subset(&["10.0.0.1", "fd00::1"], &[80])], "10.0.0.1:80,[fd00::1]:80"),
            (vec![subset(&["1.1.1.1", "1.1.1.2"], &[80, 81])], "1.1.1.1:80,1.1.1.2:80,1.1.1.1:81 + 1 more..."),
        ];
        for (subsets, want) in table {
            let object = object! { "subsets": subsets.clone() };
            assert_eq!(endpoints(&object, 0).as_str(), *want);
        }
    }
}
