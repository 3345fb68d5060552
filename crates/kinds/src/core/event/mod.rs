//! Event: something that happened to an object. It vanishes after an hour.
//!
//! The same objects are served in `events.k8s.io`, in another form and under stricter rules.

pub(crate) mod conversion;
pub(crate) mod rules;
pub(crate) mod selectable;

use crate::strategy::{NameRule, Repeat, Repeats, Strategy};
use rkube_machinery::Value;

use crate::columns::{NAME, since};
use crate::kind::{Column, Row};

pub static KIND: Row = Row {
    kind: "Event",
    resource: "events",
    singular: "event",
    short_names: &["ev"],
    type_name: "io.k8s.api.core.v1.Event",
    storage_prefix: STORAGE_PREFIX,
    time_to_live_seconds: Some(TIME_TO_LIVE_SECONDS),
    columns: COLUMNS,
    selectable: selectable::LEGACY,
    strategy: Strategy {
        name_rule: NameRule::Common,
        repeats_meta: Repeats::all(Repeat::Nothing),
        create_on_update: true,
        ..Strategy::DEFAULTS
    },
    rules: &rules::Legacy,
    ..Row::DEFAULTS
};

pub(crate) const STORAGE_PREFIX: &str = "events";
pub(crate) const TIME_TO_LIVE_SECONDS: u64 = 3600;

pub(crate) const COLUMNS: &[Column] = &[
    Column::text("Last Seen", "doc:io.k8s.api.core.v1.Event lastTimestamp", last_seen),
    Column::text("Type", "doc:io.k8s.api.core.v1.Event type", |event, _| event.str("type").into()),
    Column::text("Reason", "doc:io.k8s.api.core.v1.Event reason", |event, _| event.str("reason").into()),
    Column::text("Object", "doc:io.k8s.api.core.v1.Event involvedObject", target),
    Column::wide("Subobject", "doc:io.k8s.api.core.v1.ObjectReference fieldPath", |event, _| {
        event.get("involvedObject").str("fieldPath").into()
    }),
    Column::wide("Source", "doc:io.k8s.api.core.v1.Event source", source),
    Column::text("Message", "doc:io.k8s.api.core.v1.Event message", |event, _| event.str("message").trim().into()),
    Column::wide("First Seen", "doc:io.k8s.api.core.v1.Event firstTimestamp", first_seen),
    Column::wide("Count", "doc:io.k8s.api.core.v1.Event count", count),
    Column { priority: 1, ..NAME },
];

fn first_seen(event: &Value, now: i64) -> Value {
    let field = if event.has("firstTimestamp") { "firstTimestamp" } else { "eventTime" };
    since(event.str(field), now).into()
}

fn last_seen(event: &Value, now: i64) -> Value {
    if event.has("series") {
        return since(event.get("series").str("lastObservedTime"), now).into();
    }
    if event.has("lastTimestamp") {
        return since(event.str("lastTimestamp"), now).into();
    }
    first_seen(event, now)
}

fn count(event: &Value, _now: i64) -> Value {
    if event.has("series") {
        return event.get("series").int("count").into();
    }
    // An event that stands alone has no count in the new form.
    event.int("count").max(i64::from(event.int("count") == 0)).into()
}

fn target(event: &Value, _now: i64) -> Value {
    let object = event.get("involvedObject");
    let kind = object.str("kind").to_lowercase();
    match object.str("name") {
        "" => kind.into(),
        name => format!("{kind}/{name}").into(),
    }
}

fn source(event: &Value, _now: i64) -> Value {
    let either = |first: &'static str, second: &'static str| match event.get("source").str(first) {
        "" => event.str(second).to_owned(),
        text => text.to_owned(),
    };
    let component = either("component", "reportingComponent");
    match either("host", "reportingInstance").as_str() {
        "" => component.into(),
        instance => format!("{component}, {instance}").into(),
    }
}
