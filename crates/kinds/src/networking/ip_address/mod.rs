//! IPAddress: an address of a service that is taken, by the object's name, and by whom.

use crate::strategy::{NameRule, Repeat, Repeats, Strategy};
use rkube_machinery::field::{Errors, Path};
use rkube_machinery::names;
use rkube_machinery::{Value, object};

use super::ingress::required_segment;
use super::{FROM_BETA, GROUP};
use crate::columns::{AGE, NAME, NONE};
use crate::core::pod_spec::checks::{dns_subdomain, each};
use crate::kind::{Column, Part, Row, Rules, Scope};

pub static KIND: Row = STABLE;

pub static BETA: Row = Row {
    version: "v1beta1",
    type_name: "io.k8s.api.networking.v1beta1.IPAddress",
    off_by_default: true,
    deprecation: "networking.k8s.io/v1beta1 IPAddress is deprecated in v1.34+, unavailable in v1.37+",
    conversion: Some(FROM_BETA),
    ..STABLE
};

const STABLE: Row = Row {
    group: GROUP,
    kind: "IPAddress",
    resource: "ipaddresses",
    singular: "ipaddress",
    short_names: &["ip"],
    scope: Scope::Cluster,
    type_name: "io.k8s.api.networking.v1.IPAddress",
    storage_prefix: "ipaddresses",
    columns: COLUMNS,
    strategy: Strategy {
        name_rule: NameRule::IpAddress,
        repeats_meta: Repeats::all(Repeat::WholeFirst),
        ..Strategy::DEFAULTS
    },
    rules: &IpAddressRules,
    ..Row::DEFAULTS
};

const COLUMNS: &[Column] = &[
    NAME,
    Column::text("ParentRef", "doc:io.k8s.api.networking.v1.IPAddressSpec parentRef", parent),
    Column { name: "", ..AGE },
];

const FIELDS: [&str; 4] = ["group", "resource", "namespace", "name"];
const SPEC: Path<'static> = Path::new("spec");

struct IpAddressRules;

impl Rules for IpAddressRules {
    fn validate_create(&self, address: &Value, errors: &mut Errors) {
        let path = SPEC.child("parentRef");
        let parent = address.get("spec").get("parentRef");
        if parent.is_null() {
            return errors.required(path, "");
        }
        // The core group has an empty name.
        if !parent.str("group").is_empty() {
            dns_subdomain(path.child("group"), parent.str("group"), errors);
        }
        required_segment(path.child("resource"), parent.str("resource"), errors);
        required_segment(path.child("name"), parent.str("name"), errors);
        let namespace = parent.str("namespace");
        if !namespace.is_empty() {
            each(path.child("namespace"), namespace, names::path_segment_name(namespace), errors);
        }
    }

    fn validate_update(&self, part: Part, address: &Value, old: &Value, errors: &mut Errors) {
        self.validate_create(address, errors);
        let (parent, before) = (address.at(&["spec", "parentRef"]), old.at(&["spec", "parentRef"]));
        let same =
            parent.is_null() == before.is_null() && FIELDS.iter().all(|field| parent.str(field) == before.str(field));
        if !same && part == Part::Main {
            errors.invalid(SPEC.child("parentRef"), &shown(parent), "field is immutable");
        }
    }
}

/// The reference as a message shows it: fields by Go's names.
fn shown(parent: &Value) -> Value {
    if parent.is_null() {
        return Value::Null;
    }
    object! {
        "Group": parent.str("group"), "Resource": parent.str("resource"), "Namespace": parent.str("namespace"),
        "Name": parent.str("name"),
    }
}

fn parent(address: &Value, _now: i64) -> Value {
    let parent = address.at(&["spec", "parentRef"]);
    if parent.is_null() {
        return NONE.into();
    }
    let mut text = parent.str("resource").to_lowercase();
    if !parent.str("group").is_empty() {
        text = format!("{text}.{}", parent.str("group").to_lowercase());
    }
    for part in [parent.str("namespace"), parent.str("name")].into_iter().skip_while(|part| part.is_empty()) {
        text.push('/');
        text.push_str(part);
    }
    text.into()
}
