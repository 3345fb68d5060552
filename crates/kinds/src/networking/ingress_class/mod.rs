//! IngressClass: a kind of ingress, and the controller that serves it.

use crate::strategy::{Repeat, Repeats, Strategy};
use rkube_machinery::Value;
use rkube_machinery::field::{Errors, Path};
use rkube_machinery::names;

use super::GROUP;
use super::ingress::required_segment;
use crate::columns::{AGE, NAME, NONE};
use crate::core::pod_spec::checks::{dns_label, dns_subdomain};
use crate::kind::{Column, Part, Row, Rules, Scope};

pub static KIND: Row = Row {
    group: GROUP,
    kind: "IngressClass",
    resource: "ingressclasses",
    singular: "ingressclass",
    scope: Scope::Cluster,
    type_name: "io.k8s.api.networking.v1.IngressClass",
    storage_prefix: "ingressclasses",
    columns: &[
        Column { cell: name, ..NAME },
        Column::text("Controller", "Controller that is responsible for handling this class", |class, _| {
            class.get("spec").str("controller").into()
        }),
        Column::text("Parameters", "A reference to a resource with additional parameters", parameters),
        AGE,
    ],
    strategy: Strategy { repeats_meta: Repeats::all(Repeat::UpdateFirst), has_generation: true, ..Strategy::DEFAULTS },
    rules: &IngressClassRules,
    ..Row::DEFAULTS
};

const DEFAULT: &str = "ingressclass.kubernetes.io/is-default-class";
const CONTROLLER_MAX_BYTES: usize = 250;
const SPEC: Path<'static> = Path::new("spec");

struct IngressClassRules;

impl Rules for IngressClassRules {
    fn default(&self, class: &mut Value) {
        if let Some(parameters) = class.find_mut("spec").and_then(|spec| spec.find_mut("parameters")) {
            parameters.set_if_absent("scope", "Cluster");
        }
    }

    fn validate_create(&self, class: &Value, errors: &mut Errors) {
        let spec = class.get("spec");
        let controller = spec.str("controller");
        if controller.len() > CONTROLLER_MAX_BYTES {
            errors.too_long(SPEC.child("controller"), CONTROLLER_MAX_BYTES);
        }
        names::domain_prefixed_path(SPEC.child("controller"), controller, errors);
        if spec.has("parameters") {
            validate_parameters(SPEC.child("parameters"), spec.get("parameters"), errors);
        }
    }

    fn validate_update(&self, _part: Part, class: &Value, old: &Value, errors: &mut Errors) {
        let (controller, before) = (class.get("spec").str("controller"), old.get("spec").str("controller"));
        if controller != before {
            errors.invalid(SPEC.child("controller"), controller, "field is immutable");
        }
        self.validate_create(class, errors);
    }
}

fn validate_parameters(path: Path<'_>, parameters: &Value, errors: &mut Errors) {
    if parameters.has("apiGroup") {
        dns_subdomain(path.child("apiGroup"), parameters.str("apiGroup"), errors);
    }
    for field in ["kind", "name"] {
        required_segment(path.child(field), parameters.str(field), errors);
    }
    if !parameters.has("scope") {
        return errors.required(path.child("scope"), "");
    }
    let namespace = path.child("namespace");
    match (parameters.str("scope"), parameters.has("namespace")) {
        ("Namespace", false) => errors.required(namespace, "`parameters.scope` is set to 'Namespace'"),
        ("Namespace", true) => dns_label(namespace, parameters.str("namespace"), errors),
        ("Cluster", true) => errors.forbidden(namespace, "`parameters.scope` is set to 'Cluster'"),
        ("Cluster", false) => {}
        (other, _) => errors.not_supported(path.child("scope"), other, &["Cluster", "Namespace"]),
    }
}

fn name(class: &Value, _now: i64) -> Value {
    let meta = class.get("metadata");
    let is_default = meta.get("annotations").str(DEFAULT) == "true";
    if is_default { format!("{} (default)", meta.str("name")).into() } else { meta.str("name").into() }
}

fn parameters(class: &Value, _now: i64) -> Value {
    let parameters = class.get("spec").get("parameters");
    if parameters.is_null() {
        return NONE.into();
    }
    let (kind, name) = (parameters.str("kind"), parameters.str("name"));
    if parameters.has("apiGroup") {
        return format!("{kind}.{}/{name}", parameters.str("apiGroup")).into();
    }
    format!("{kind}/{name}").into()
}
