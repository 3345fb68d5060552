//! APIService: which server answers for a group and version.

use crate::strategy::{NameRule, Repeat, Repeats, ResetFields, Strategy};
use rkube_machinery::field::{Errors, Path, quote};
use rkube_machinery::{Value, names, object};

use crate::columns::{AGE, NAME};
use crate::fields::carry;
use crate::kind::{Column, Part, Row, Rules, Scope, Subresource};

pub static KIND: Row = Row {
    group: "apiregistration.k8s.io",
    kind: "APIService",
    resource: "apiservices",
    singular: "apiservice",
    categories: &["api-extensions"],
    scope: Scope::Cluster,
    type_name: "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.APIService",
    storage_prefix: "apiregistration.k8s.io/apiservices",
    subresources: &[Subresource::STATUS],
    columns: &[
        NAME,
        Column::text("Service", "The reference to the service that hosts this API endpoint.", service),
        Column::text("Available", "Whether this service is available.", available),
        AGE,
    ],
    strategy: Strategy {
        name_rule: NameRule::PathSegment,
        checks_finalizers: false,
        repeats_meta: Repeats { main: Repeat::WholeFirst, status: Repeat::Update, other: Repeat::Update },
        unconditional_update: false,
        reset_fields: ResetFields::STATUS_ALONE,
        ..Strategy::DEFAULTS
    },
    rules: &ApiServiceRules,
    ..Row::DEFAULTS
};

const GROUP_PRIORITY_MAX: i64 = 20_000;
const VERSION_PRIORITY_MAX: i64 = 1000;
const METADATA: Path<'static> = Path::new("metadata");
const SPEC: Path<'static> = Path::new("spec");
const STATUS: Path<'static> = Path::new("status");

struct ApiServiceRules;

impl Rules for ApiServiceRules {
    fn default(&self, api_service: &mut Value) {
        if let Some(service) = api_service.find_mut("spec").and_then(|spec| spec.find_mut("service")) {
            service.set_if_absent("port", 443);
        }
    }

    /// What the server answers itself is there from the first.
    fn prepare_create(&self, api_service: &mut Value) {
        api_service.remove("status");
        if api_service.get("spec").has("service") {
            return;
        }
        let condition = object! {
            "type": "Available", "status": "True",
            "lastTransitionTime": api_service.get("metadata").get("creationTimestamp").clone(),
            "reason": "Local", "message": "Local APIServices are always available",
        };
        api_service.set("status", object! { "conditions": vec![condition] });
    }

    fn validate_create(&self, api_service: &Value, errors: &mut Errors) {
        validate(api_service, errors);
    }

    fn prepare_update(&self, part: Part, api_service: &mut Value, old: &Value) {
        if part != Part::Status {
            return carry(api_service, old, "status");
        }
        carry(api_service, old, "spec");
        for field in ["labels", "annotations", "finalizers", "ownerReferences"] {
            carry(api_service.object_mut("metadata"), old.get("metadata"), field);
        }
    }

    fn validate_update(&self, part: Part, api_service: &Value, _old: &Value, errors: &mut Errors) {
        if part == Part::Status {
            validate_status(api_service.get("status"), errors);
        } else {
            validate(api_service, errors);
        }
    }
}

fn validate(api_service: &Value, errors: &mut Errors) {
    let spec = api_service.get("spec");
    let (group, version) = (spec.str("group"), spec.str("version"));
    validate_name(api_service.get("metadata"), group, version, errors);
    if group.is_empty() {
        if version != "v1" {
            errors.required(SPEC.child("group"), "only v1 may have an empty group and it better be legacy kube");
        }
    } else {
        for message in names::dns1123_subdomain(group) {
            errors.invalid(SPEC.child("group"), group, message);
        }
    }
    for message in names::dns1035_label(version) {
        errors.invalid(SPEC.child("version"), version, message);
    }
    for (field, max) in [("groupPriorityMinimum", GROUP_PRIORITY_MAX), ("versionPriority", VERSION_PRIORITY_MAX)] {
        let priority = spec.int(field);
        if !(1..=max).contains(&priority) {
            errors.invalid(SPEC.child(field), priority, format!("must be positive and less than {max}"));
        }
    }
    validate_server(spec, errors);
}

/// The name says the version and the group.
fn validate_name(metadata: &Value, group: &str, version: &str, errors: &mut Errors) {
    let wanted = format!("{version}.{group}");
    for field in ["generateName", "name"] {
        let name = metadata.str(field);
        if !name.is_empty() && name != wanted && names::path_segment_name(name).is_empty() {
            let detail = format!("must be `spec.version+\".\"+spec.group`: {}", quote(&wanted));
            errors.invalid(METADATA.child(field), name, detail);
        }
    }
}

fn validate_server(spec: &Value, errors: &mut Errors) {
    let bundle_bytes =
        rkube_machinery::decode::base64::decode(spec.str("caBundle").as_bytes()).map_or(0, |ca| ca.len());
    let insecure = spec.bool("insecureSkipTLSVerify");
    if !spec.has("service") {
        if bundle_bytes > 0 {
            let shown = format!("{bundle_bytes} bytes");
            errors.invalid(SPEC.child("caBundle"), shown, "local APIServices may not have a caBundle");
        }
        if insecure {
            let detail = "local APIServices may not have insecureSkipTLSVerify";
            errors.invalid(SPEC.child("insecureSkipTLSVerify"), insecure, detail);
        }
        return;
    }
    let (path, service) = (SPEC.child("service"), spec.get("service"));
    for field in ["namespace", "name"] {
        if service.str(field).is_empty() {
            errors.required(path.child(field), "");
        }
    }
    let port = service.int("port");
    let messages = names::port_number(port);
    if !messages.is_empty() {
        errors.invalid(path.child("port"), port, format!("port is not valid: {}", messages.join(", ")));
    }
    if insecure && bundle_bytes > 0 {
        errors.invalid(SPEC.child("insecureSkipTLSVerify"), insecure, "may not be true if caBundle is present");
    }
}

fn validate_status(status: &Value, errors: &mut Errors) {
    let path = STATUS.child("conditions");
    for (index, condition) in status.list("conditions").iter().enumerate() {
        let value = condition.str("status");
        if !matches!(value, "True" | "False" | "Unknown") {
            errors.not_supported(path.index(index).child("status"), value, &["True", "False", "Unknown"]);
        }
    }
}

fn service(api_service: &Value, _now: i64) -> Value {
    let service = api_service.at(&["spec", "service"]);
    if service.is_null() {
        return "Local".into();
    }
    format!("{}/{}", service.str("namespace"), service.str("name")).into()
}

fn available(api_service: &Value, _now: i64) -> Value {
    let mut conditions = api_service.get("status").list("conditions").iter();
    let Some(condition) = conditions.find(|condition| condition.str("type") == "Available") else {
        return "Unknown".into();
    };
    match (condition.str("status"), condition.str("reason")) {
        (status @ "True", _) | (status, "") => status.into(),
        (status, reason) => format!("{status} ({reason})").into(),
    }
}
