//! ServiceCIDR: a range from which services get their addresses.

use crate::strategy::{ResetFields, Strategy};
use rkube_machinery::field::{Errors, Path};
use rkube_machinery::names::address::{self, Subnet};
use rkube_machinery::{Value, object};

use super::{FROM_BETA, GROUP};
use crate::columns::{AGE, NAME};
use crate::fields::{carry, carry_metadata, texts};
use crate::kind::{Column, Part, Row, Rules, Scope, Subresource};

pub static KIND: Row = STABLE;

pub static BETA: Row = Row {
    version: "v1beta1",
    type_name: "io.k8s.api.networking.v1beta1.ServiceCIDR",
    off_by_default: true,
    deprecation: "networking.k8s.io/v1beta1 ServiceCIDR is deprecated in v1.34+, unavailable in v1.37+",
    conversion: Some(FROM_BETA),
    ..STABLE
};

const STABLE: Row = Row {
    group: GROUP,
    kind: "ServiceCIDR",
    resource: "servicecidrs",
    singular: "servicecidr",
    scope: Scope::Cluster,
    type_name: "io.k8s.api.networking.v1.ServiceCIDR",
    storage_prefix: "servicecidrs",
    subresources: &[Subresource::STATUS],
    columns: COLUMNS,
    strategy: Strategy { reset_fields: ResetFields::STATUS_ALONE, ..Strategy::DEFAULTS },
    rules: &ServiceCidrRules,
    ..Row::DEFAULTS
};

const COLUMNS: &[Column] =
    &[NAME, Column::text("CIDRs", "doc:io.k8s.api.networking.v1.ServiceCIDRSpec cidrs", cidrs), AGE];

const CIDRS: Path<'static> = Path::new("spec.cidrs");
const CIDRS_MAX: usize = 2;

struct ServiceCidrRules;

impl Rules for ServiceCidrRules {
    fn prepare_create(&self, range: &mut Value) {
        range.remove("status");
    }

    fn validate_create(&self, range: &Value, errors: &mut Errors) {
        let spec = range.get("spec");
        let cidrs = spec.list("cidrs");
        if cidrs.is_empty() {
            return errors.required(CIDRS, "at least one CIDR required");
        }
        if cidrs.len() > CIDRS_MAX {
            let shown = object! { "CIDRs": spec.get("cidrs").clone() };
            return errors.invalid(CIDRS, &shown, "may only hold up to 2 values");
        }
        for (index, cidr) in texts(spec, "cidrs").enumerate() {
            address::cidr(CIDRS.index(index), cidr, errors);
        }
        let mut families = texts(spec, "cidrs").map(is_ipv6);
        let (first, second) = (families.next().flatten(), families.next().flatten());
        if first.is_some() && first == second {
            let detail = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64";
            errors.invalid(CIDRS, spec.get("cidrs"), detail);
        }
    }

    fn prepare_update(&self, part: Part, range: &mut Value, old: &Value) {
        if part == Part::Status {
            carry(range, old, "spec");
            carry_metadata(range, old);
        } else {
            carry(range, old, "status");
        }
    }

    /// Ranges stay; a second one may be added.
    fn validate_update(&self, part: Part, range: &Value, old: &Value, errors: &mut Errors) {
        if part == Part::Status {
            return;
        }
        let (cidrs, before) = (range.get("spec").list("cidrs"), old.get("spec").list("cidrs"));
        let immutable = |index: usize, errors: &mut Errors| {
            if cidrs[index] != before[index] {
                errors.invalid(CIDRS.index(index), &cidrs[index], "field is immutable");
            }
        };
        match (before.len(), cidrs.len()) {
            (old, new) if old == new => (0..old).for_each(|index| immutable(index, errors)),
            (1, 2) => {
                immutable(0, errors);
                self.validate_create(range, errors);
            }
            _ => errors.invalid(CIDRS, range.get("spec").get("cidrs"), "field is immutable"),
        }
    }
}

/// The family of a subnet; none where it is no subnet.
fn is_ipv6(cidr: &str) -> Option<bool> {
    // An IPv4 address inside IPv6 is an IPv4 one here.
    Subnet::parse_sloppy(cidr).map(|subnet| subnet.address.to_canonical().is_ipv6())
}

fn cidrs(range: &Value, _now: i64) -> Value {
    texts(range.get("spec"), "cidrs").collect::<Vec<_>>().join(",").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_leaves_the_rest_alone() {
        let old = object! {
            "metadata": object! { "name": "a", "uid": "1", "labels": object! { "a": "b" } },
            "spec": object! { "cidrs": vec!["10.0.0.0/24".into()] },
        };
        let mut new = object! { "metadata": object! { "name": "a", "uid": "2" }, "status": Value::object() };
        ServiceCidrRules.prepare_update(Part::Status, &mut new, &old);
        assert_eq!(new.get("spec"), old.get("spec"));
        assert_eq!(new.at(&["metadata", "labels"]), old.at(&["metadata", "labels"]));
        // A wrong identity is to be refused, not mended.
        assert_eq!(new.get("metadata").str("uid"), "2");
    }
}
