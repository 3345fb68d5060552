//! Whether a range of service addresses may go, as pure functions.

use k8s_openapi::api::networking::v1::ServiceCIDR;
use rkube_machinery::names::address::{self, Subnet};

/// Whether nothing is lost when this range goes: all of it lies in other ranges, or no address depends on it alone.
pub fn may_go(range: &ServiceCIDR, all: &[impl AsRef<ServiceCIDR>], addresses: &[String]) -> bool {
    let others: Vec<Subnet> = all
        .iter()
        .map(AsRef::as_ref)
        .filter(|other| other.metadata.name != range.metadata.name)
        .flat_map(subnets)
        .collect();
    let own = subnets(range);
    if own.iter().all(|subnet| others.iter().any(|other| contains(*other, *subnet))) {
        return true;
    }
    let parsed = addresses.iter().filter_map(|text| address::parse_sloppy(text));
    let mut inside = parsed.filter(|address| own.iter().any(|subnet| subnet.contains(*address)));
    inside.all(|address| others.iter().any(|other| other.contains(address)))
}

fn subnets(range: &ServiceCIDR) -> Vec<Subnet> {
    let cidrs = range.spec.as_ref().and_then(|spec| spec.cidrs.as_ref());
    cidrs.into_iter().flatten().filter_map(|cidr| Subnet::parse_sloppy(cidr)).collect()
}

fn contains(outer: Subnet, inner: Subnet) -> bool {
    outer.length <= inner.length && outer.contains(inner.address)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::api::networking::v1::ServiceCIDRSpec;

    use super::*;

    fn range(name: &str, cidr: &str) -> Arc<ServiceCIDR> {
        let mut range = ServiceCIDR::default();
        range.metadata.name = Some(name.to_owned());
        range.spec = Some(ServiceCIDRSpec { cidrs: Some(vec![cidr.to_owned()]) });
        Arc::new(range)
    }

    #[test]
    fn ranges_stay_while_addresses_need_them() {
        let one = range("one", "10.0.0.0/24");
        // Another range (or none), the addresses that are taken, and whether the range may go.
        let table = [
            ("", "", true),
            ("", "10.0.0.7", false),
            ("", "10.0.1.7", true),
            ("10.0.0.0/16", "10.0.0.7", true),
            ("10.0.0.0/30", "10.0.0.2 10.0.0.7", false),
        ];
        for (other, taken, expected) in table {
            let mut all = vec![one.clone()];
            if !other.is_empty() {
                all.push(range("other", other));
            }
            let taken: Vec<String> = taken.split_whitespace().map(str::to_owned).collect();
            assert_eq!(may_go(&one, &all, &taken), expected, "{other} {taken:?}");
        }
    }
}
