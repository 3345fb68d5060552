//! Ingress: which hosts and paths, asked for from outside, lead to which services.

mod columns;
mod validate;

pub(super) use validate::required_segment;

use crate::strategy::{Repeat, Repeats, ResetFields, Strategy};
use rkube_machinery::Value;
use rkube_machinery::field::{Errors, Path};
use rkube_machinery::names::address;

use super::GROUP;
use crate::columns::{AGE, NAME};
use crate::fields::carry;
use crate::kind::{Column, Part, Row, Rules, Subresource};

pub static KIND: Row = Row {
    group: GROUP,
    kind: "Ingress",
    resource: "ingresses",
    singular: "ingress",
    short_names: &["ing"],
    type_name: "io.k8s.api.networking.v1.Ingress",
    storage_prefix: "ingress",
    subresources: &[Subresource::STATUS],
    columns: &[
        NAME,
        Column::text(
            "Class",
            "The name of the IngressClass resource that should be used for additional configuration",
            columns::class,
        ),
        Column::text(
            "Hosts",
            "Hosts that incoming requests are matched against before the ingress rule",
            columns::hosts,
        ),
        Column::text(
            "Address",
            "Address is a list containing ingress points for the load-balancer",
            columns::addresses,
        ),
        Column::text("Ports", "Ports of TLS configurations that open", columns::ports),
        AGE,
    ],
    strategy: Strategy {
        repeats_meta: Repeats { main: Repeat::UpdateFirst, status: Repeat::Update, other: Repeat::Update },
        has_generation: true,
        reset_fields: ResetFields::STATUS,
        ..Strategy::DEFAULTS
    },
    rules: &IngressRules,
    ..Row::DEFAULTS
};

/// The class as it was said before there was a field for it.
const CLASS: &str = "kubernetes.io/ingress.class";

struct IngressRules;

impl Rules for IngressRules {
    fn prepare_create(&self, ingress: &mut Value) {
        ingress.remove("status");
    }

    fn validate_create(&self, ingress: &Value, errors: &mut Errors) {
        validate::spec(ingress.get("spec"), None, errors);
        validate::class_said_twice(ingress, errors);
    }

    fn prepare_update(&self, part: Part, ingress: &mut Value, old: &Value) {
        carry(ingress, old, if part == Part::Status { "spec" } else { "status" });
    }

    fn validate_update(&self, part: Part, ingress: &Value, old: &Value, errors: &mut Errors) {
        if part == Part::Status {
            validate::status(ingress, old, errors);
        } else {
            validate::spec(ingress.get("spec"), Some(old.get("spec")), errors);
        }
    }

    fn warnings(&self, ingress: &Value, old: Option<&Value>) -> Vec<String> {
        let annotated = ingress.at(&["metadata", "annotations"]).has(CLASS);
        if old.is_some() || !annotated || ingress.get("spec").has("ingressClassName") {
            return Vec::new();
        }
        vec![format!("annotation \"{CLASS}\" is deprecated, please use 'spec.ingressClassName' instead")]
    }

    fn status_warnings(&self, ingress: &Value) -> Vec<String> {
        let path = Path::new("status.loadBalancer.ingress");
        let points = ingress.at(&["status", "loadBalancer"]).list("ingress").iter().enumerate();
        points
            .filter(|(_, point)| !point.str("ip").is_empty())
            .filter_map(|(index, point)| address::ip_warning(path.index(index), point.str("ip")))
            .collect()
    }
}
