//! EndpointSlice: a part of the addresses behind a service.

mod columns;
mod validate;

use crate::strategy::{Repeat, Repeats, Strategy};
use rkube_machinery::Value;
use rkube_machinery::field::{Errors, Path};
use rkube_machinery::names::{self, address};

use crate::columns::{AGE, NAME};
use crate::core::pod_spec::checks::Seen;
use crate::core::pod_spec::go_form::same_plain;
use crate::fields::texts;
use crate::kind::{Column, Part, Row, Rules};
use crate::meta;

pub static KIND: Row = Row {
    group: "discovery.k8s.io",
    kind: "EndpointSlice",
    resource: "endpointslices",
    singular: "endpointslice",
    type_name: "io.k8s.api.discovery.v1.EndpointSlice",
    storage_prefix: "endpointslices",
    columns: &[
        NAME,
        Column::text("AddressType", "doc:io.k8s.api.discovery.v1.EndpointSlice addressType", |slice, _| {
            slice.str("addressType").into()
        }),
        Column::text("Ports", "doc:io.k8s.api.discovery.v1.EndpointSlice ports", columns::ports),
        Column::text("Endpoints", "doc:io.k8s.api.discovery.v1.EndpointSlice endpoints", columns::endpoints),
        AGE,
    ],
    strategy: Strategy { repeats_meta: Repeats::all(Repeat::New), has_generation: true, ..Strategy::DEFAULTS },
    rules: &EndpointSliceRules,
    ..Row::DEFAULTS
};

const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// They write addresses as they should be, so that they need no second look.
const CONTROLLERS: [&str; 2] = ["endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io"];
const HOSTNAME: &str = "kubernetes.io/hostname";
const ENDPOINTS: Path<'static> = Path::new("endpoints");

struct EndpointSliceRules;

impl Rules for EndpointSliceRules {
    fn default(&self, slice: &mut Value) {
        for port in slice.list_mut("ports") {
            port.set_if_absent("name", "");
            port.set_if_absent("protocol", "TCP");
        }
    }

    fn prepare_create(&self, slice: &mut Value) {
        drop_topology(slice, &[]);
    }

    fn validate_create(&self, slice: &Value, errors: &mut Errors) {
        validate::slice(slice, None, errors);
    }

    /// Labels count as a change of the slice: they say whose it is. So does a topology, even though it is dropped.
    fn prepare_update(&self, _part: Part, slice: &mut Value, old: &Value) {
        let labels = |slice: &Value| slice.at(&["metadata", "labels"]).clone();
        let mut changed = !meta::same(&labels(slice), &labels(old));
        let has_topology = slice.list("endpoints").iter().any(|endpoint| endpoint.has("deprecatedTopology"));
        if has_topology && !same_plain(slice.get("endpoints"), old.get("endpoints")) {
            drop_topology(slice, old.list("endpoints"));
            changed = true;
        }
        if changed {
            let generation = old.get("metadata").int("generation");
            slice.object_mut("metadata").set("generation", generation.wrapping_add(1));
        }
    }

    fn validate_update(&self, _part: Part, slice: &Value, old: &Value, errors: &mut Errors) {
        validate::slice(slice, Some(old), errors);
        if slice.str("addressType") != old.str("addressType") {
            errors.invalid(Path::new("addressType"), slice.str("addressType"), "field is immutable");
        }
    }

    fn warnings(&self, slice: &Value, old: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        if old.is_none() && slice.str("addressType") == "FQDN" {
            warnings.push("spec.addressType: FQDN endpoints are deprecated".to_owned());
        }
        if CONTROLLERS.contains(&slice.at(&["metadata", "labels"]).str(MANAGED_BY)) {
            return warnings;
        }
        for (index, endpoint) in slice.list("endpoints").iter().enumerate() {
            let path = ENDPOINTS.index(index);
            let path = path.child("addresses");
            let addresses = texts(endpoint, "addresses").enumerate();
            warnings.extend(addresses.filter_map(|(index, ip)| address::ip_warning(path.index(index), ip)));
        }
        warnings
    }
}

/// The topology is not written any more. Of one that the object has from old only the node's name stays.
fn drop_topology(slice: &mut Value, old: &[Value]) {
    let old = Seen::of(old.iter().map(|old| old.get("deprecatedTopology").str(HOSTNAME)));
    for endpoint in slice.list_mut("endpoints") {
        let Some(topology) = endpoint.remove("deprecatedTopology") else { continue };
        let node = topology.str(HOSTNAME);
        let known = !node.is_empty() && old.has(node);
        if known && !endpoint.has("nodeName") && names::dns1123_subdomain(node).is_empty() {
            endpoint.set("nodeName", node);
        }
    }
}

#[cfg(test)]
mod tests {
    use rkube_machinery::object;

    use super::*;

    #[test]
    fn a_topology_counts_only_if_it_says_something() {
        let slice = |endpoint: Value| object! { "metadata": object! { "generation": 1 }, "endpoints": vec![endpoint] };
        let address = || -> Value { vec!["10.1.2.3".into()].into() };
        let old = slice(object! { "addresses": address() });
        let table = [(Value::object(), 1), (object! { "a": "b" }, 2)];
        for (topology, want) in table {
            let mut new = slice(object! { "addresses": address(), "deprecatedTopology": topology });
            EndpointSliceRules.prepare_update(Part::Main, &mut new, &old);
            assert_eq!(new.get("metadata").int("generation"), want);
        }
    }
}
