//! The kinds of `events.k8s.io`: Event in its new form. Objects lie where the core group's events lie, in their form.

use crate::core::event::{COLUMNS, STORAGE_PREFIX, TIME_TO_LIVE_SECONDS, conversion, rules, selectable};
use crate::kind::{Row, RowConversion};
use crate::strategy::{NameRule, Repeat, Repeats, Strategy};

pub static KIND: Row = Row {
    group: "events.k8s.io",
    kind: "Event",
    resource: "events",
    singular: "event",
    short_names: &["ev"],
    type_name: "io.k8s.api.events.v1.Event",
    storage_prefix: STORAGE_PREFIX,
    time_to_live_seconds: Some(TIME_TO_LIVE_SECONDS),
    conversion: Some(RowConversion {
        group: "",
        to_stored: conversion::to_stored,
        from_stored: conversion::from_stored,
    }),
    columns: COLUMNS,
    selectable: selectable::NEW,
    strategy: Strategy {
        name_rule: NameRule::Common,
        repeats_meta: Repeats::all(Repeat::Nothing),
        create_on_update: true,
        ..Strategy::DEFAULTS
    },
    rules: &rules::New,
    ..Row::DEFAULTS
};
