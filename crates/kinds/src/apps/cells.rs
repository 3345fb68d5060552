//! Columns and cells that kinds with a template of pods share.

use rkube_machinery::Value;
use rkube_machinery::selector::labels::Selector;

use crate::columns::NONE;
use crate::kind::Column;

pub(crate) const CONTAINERS_WORDS: &str = "Names of each container in the template.";
pub(crate) const IMAGES_WORDS: &str = "Images referenced by each container in the template.";

/// The names of the containers in `spec.template`.
pub(crate) const CONTAINERS: Column =
    Column::wide("Containers", CONTAINERS_WORDS, |object, _| of_containers(object.at(&["spec", "template"]), "name"));

/// The images of the containers in `spec.template`.
pub(crate) const IMAGES: Column =
    Column::wide("Images", IMAGES_WORDS, |object, _| of_containers(object.at(&["spec", "template"]), "image"));

/// A column of numbers that is always shown.
pub(crate) const fn number(name: &'static str, description: &'static str, cell: fn(&Value, i64) -> Value) -> Column {
    Column { kind: "integer", ..Column::text(name, description, cell) }
}

/// This field of all containers of the template, with commas between.
pub(crate) fn of_containers(template: &Value, field: &str) -> Value {
    let containers = template.get("spec").list("containers");
    let texts: Vec<&str> = containers.iter().map(|container| container.str(field)).collect();
    texts.join(",").into()
}

pub(crate) fn desired(object: &Value, _now: i64) -> Value {
    object.get("spec").int("replicas").into()
}

pub(crate) fn current(object: &Value, _now: i64) -> Value {
    object.get("status").int("replicas").into()
}

pub(crate) fn ready(object: &Value, _now: i64) -> Value {
    object.get("status").int("readyReplicas").into()
}

/// Ready pods of those that are asked for: `1/3`.
pub(crate) fn ready_of_desired(object: &Value, _now: i64) -> Value {
    format!("{}/{}", object.get("status").int("readyReplicas"), object.get("spec").int("replicas")).into()
}

/// `spec.selector` as text, with words for one that selects everything or is wrong.
pub(crate) fn selector(object: &Value, _now: i64) -> Value {
    match Selector::from_label_selector(object.at(&["spec", "selector"])) {
        Ok(selector) if selector.requirements().is_empty() => NONE.into(),
        Ok(selector) => selector.to_string().into(),
        Err(_) => "<error>".into(),
    }
}
