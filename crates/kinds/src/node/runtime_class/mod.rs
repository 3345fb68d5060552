//! RuntimeClass: a way to run containers that some nodes have.

use crate::strategy::{Repeat, Repeats, Strategy};
use rkube_machinery::field::{BadValue, ErrorType, Errors, Path};
use rkube_machinery::{Value, names};

use crate::columns::{AGE, NAME};
use crate::core::pod_spec::checks::Seen;
use crate::core::pod_spec::go_form::go_json;
use crate::core::pod_spec::{self, PodOptions, resources, warnings};
use crate::kind::{Column, Part, Row, Rules, Scope};
use crate::meta;

pub static KIND: Row = Row {
    group: "node.k8s.io",
    kind: "RuntimeClass",
    resource: "runtimeclasses",
    singular: "runtimeclass",
    scope: Scope::Cluster,
    type_name: "io.k8s.api.node.v1.RuntimeClass",
    storage_prefix: "runtimeclasses",
    // Nothing documents the handler: metadata, which has no such field, is asked for it.
    columns: &[NAME, Column::text("Handler", "", |class, _| class.str("handler").into()), AGE],
    strategy: Strategy {
        checks_finalizers: false,
        repeats_meta: Repeats::all(Repeat::WholeFirst),
        create_on_update: true,
        unconditional_update: false,
        ..Strategy::DEFAULTS
    },
    rules: &RuntimeClassRules,
    ..Row::DEFAULTS
};

const HANDLER: Path<'static> = Path::new("handler");
const SCHEDULING: Path<'static> = Path::new("scheduling");

struct RuntimeClassRules;

impl Rules for RuntimeClassRules {
    fn validate_create(&self, class: &Value, errors: &mut Errors) {
        let handler = class.str("handler");
        if handler.is_empty() {
            errors.required(HANDLER, "");
        } else {
            for message in names::dns1123_label(handler) {
                errors.invalid(HANDLER, handler, message);
            }
        }
        if class.has("overhead") {
            let amounts = class.get("overhead").get("podFixed");
            resources::validate_overhead(Path::new("overhead"), amounts, &PodOptions::for_create(), errors);
        }
        let scheduling = class.get("scheduling");
        meta::validate_labels(SCHEDULING.child("nodeSelector"), scheduling.map("nodeSelector"), errors);
        validate_tolerations(SCHEDULING.child("tolerations"), scheduling.list("tolerations"), errors);
    }

    fn validate_update(&self, _part: Part, class: &Value, old: &Value, errors: &mut Errors) {
        self.validate_create(class, errors);
        if class.str("handler") != old.str("handler") {
            errors.invalid(HANDLER, class.str("handler"), "field is immutable");
        }
    }

    fn warnings(&self, class: &Value, _old: Option<&Value>) -> Vec<String> {
        let selector = class.get("scheduling").map("nodeSelector");
        let old_labels = selector.keys().filter_map(|key| warnings::old_node_label(key));
        old_labels.map(|words| format!("scheduling.nodeSelector: {words}")).collect()
    }
}

/// As those of pods, each once.
fn validate_tolerations(path: Path<'_>, tolerations: &[Value], errors: &mut Errors) {
    pod_spec::validate_tolerations(path, tolerations, &PodOptions::for_create(), errors);
    let mut seen = Seen::new();
    for (index, toleration) in tolerations.iter().enumerate() {
        if !seen.add(["key", "operator", "value", "effect"].map(|field| toleration.str(field))) {
            let shown = BadValue::Text(go_json("Toleration", toleration));
            errors.push(ErrorType::Duplicate, path.index(index), Some(shown), "");
        }
    }
}
