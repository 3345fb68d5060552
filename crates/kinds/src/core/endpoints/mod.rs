//! Endpoints: the addresses behind a service, in the form of old. EndpointSlice has taken its place.

mod columns;
mod validate;

use crate::strategy::{Repeat, Repeats, Strategy};
use rkube_machinery::Value;
use rkube_machinery::field::{Errors, Path};
use rkube_machinery::names::address;

use crate::columns::{AGE, NAME};
use crate::kind::{Column, Part, Row, Rules};

pub(crate) use validate::validate_endpoint_ip;

pub static KIND: Row = Row {
    kind: "Endpoints",
    resource: "endpoints",
    singular: "endpoints",
    short_names: &["ep"],
    type_name: "io.k8s.api.core.v1.Endpoints",
    storage_prefix: "services/endpoints",
    deprecation: "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
    columns: &[NAME, Column::text("Endpoints", "doc:io.k8s.api.core.v1.Endpoints subsets", columns::endpoints), AGE],
    strategy: Strategy {
        repeats_meta: Repeats::all(Repeat::UpdateFirst),
        create_on_update: true,
        ..Strategy::DEFAULTS
    },
    rules: &EndpointsRules,
    ..Row::DEFAULTS
};

const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
/// It writes addresses as they should be, so that they need no second look.
const CONTROLLER: &str = "endpoint-controller";
const SUBSETS: Path<'static> = Path::new("subsets");

struct EndpointsRules;

impl Rules for EndpointsRules {
    fn default(&self, endpoints: &mut Value) {
        for port in endpoints.list_mut("subsets").iter_mut().flat_map(|subset| subset.list_mut("ports")) {
            port.set_default("protocol", "TCP");
        }
    }

    fn validate_create(&self, endpoints: &Value, errors: &mut Errors) {
        validate::subsets(endpoints.list("subsets"), errors);
    }

    /// Subsets that do not change are let be: older versions may have found them fine.
    fn validate_update(&self, _part: Part, endpoints: &Value, old: &Value, errors: &mut Errors) {
        if endpoints.list("subsets") != old.list("subsets") {
            validate::subsets(endpoints.list("subsets"), errors);
        }
    }

    fn warnings(&self, endpoints: &Value, _old: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        if endpoints.at(&["metadata", "labels"]).str(MANAGED_BY) == CONTROLLER {
            return warnings;
        }
        for (index, subset) in endpoints.list("subsets").iter().enumerate() {
            let path = SUBSETS.index(index);
            for field in ["addresses", "notReadyAddresses"] {
                let path = path.child(field);
                for (index, address) in subset.list(field).iter().enumerate() {
                    let path = path.index(index);
                    warnings.extend(address::ip_warning(path.child("ip"), address.str("ip")));
                }
            }
        }
        warnings
    }
}
