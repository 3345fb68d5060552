//! The checks of what all objects have in common: `metadata`.
//!
//! [`Kind`] runs them around a kind's own rules, in the order in which clients know the errors; nothing else needs to
//! call them, except for metadata inside objects (templates) and label selectors.

use crate::strategy::{NameRule, Repeat};
use rkube_machinery::field::{BadValue, Errors, Path, is_printable, quote};
use rkube_machinery::{Map, Value, names};

use crate::core::pod_spec::checks::Seen;
use crate::kind::{Kind, Part};

/// All keys and values of an object's annotations together.
const ANNOTATIONS_MAX_BYTES: usize = 256 * 1024;
const FIELD_MANAGER_MAX_BYTES: usize = 128;
const SUBRESOURCE_MAX_BYTES: usize = 256;
const CONDITION_REASON_MAX_BYTES: usize = 1024;
const CONDITION_MESSAGE_MAX_BYTES: usize = 32 * 1024;
const METADATA: Path<'static> = Path::new("metadata");

impl Kind {
    /// All that is wrong with a new object, after [`crate::Rules::prepare_create`].
    pub fn validate_create(&self, object: &Value) -> Errors {
        let mut errors = Errors::new();
        let rule = self.strategy.name_rule;
        if rule != NameRule::Common {
            self.validate_meta(object.get("metadata"), &mut errors);
        }
        self.rules.validate_create(object, &mut errors);
        if errors.is_empty() && matches!(rule, NameRule::Common | NameRule::LongName | NameRule::Own) {
            validate(METADATA, object.get("metadata"), self.is_namespaced(), NameRule::PathSegment, &mut errors);
        }
        errors
    }

    /// All that is wrong with a change, after [`crate::Rules::prepare_update`].
    ///
    /// Most kinds look at the metadata a second time, so that clients read such errors twice in the causes.
    pub fn validate_update(&self, part: Part, object: &Value, old: &Value) -> Errors {
        let (meta, old_meta) = (object.get("metadata"), old.get("metadata"));
        let mut errors = Errors::new();
        validate(METADATA, meta, self.is_namespaced(), NameRule::PathSegment, &mut errors);
        if errors.is_empty() {
            validate_stays(METADATA, meta, old_meta, &mut errors);
        } else {
            validate_update(METADATA, meta, old_meta, &mut errors);
        }
        let repeat = self.strategy.repeats_meta.of(part);
        let right = errors.is_empty()
            && (!self.strategy.checks_finalizers || knows_finalizers(meta))
            && (repeat == Repeat::Update || self.knows_prefix(meta));
        let repeat = if right { Repeat::Nothing } else { repeat };
        if matches!(repeat, Repeat::WholeFirst | Repeat::WholeAround | Repeat::New) {
            self.validate_meta(meta, &mut errors);
        }
        if matches!(repeat, Repeat::Update | Repeat::Whole | Repeat::WholeFirst | Repeat::UpdateFirst) {
            self.validate_meta_update(meta, old_meta, &mut errors);
        }
        if repeat == Repeat::UpdateFirst {
            self.validate_meta(meta, &mut errors);
        }
        self.rules.validate_update(part, object, old, &mut errors);
        if repeat == Repeat::Whole {
            self.validate_meta(meta, &mut errors);
        }
        if repeat == Repeat::WholeAround {
            self.validate_meta_update(meta, old_meta, &mut errors);
        }
        errors
    }

    /// Whether the kind takes what the name was generated from: what a name may begin with is a matter of the kind.
    fn knows_prefix(&self, meta: &Value) -> bool {
        let (rule, prefix) = (self.strategy.name_rule, meta.str("generateName"));
        prefix.is_empty() || check_prefix(rule, prefix).is_empty() && check_name(rule, meta.str("name")).is_empty()
    }

    fn validate_meta(&self, meta: &Value, errors: &mut Errors) {
        validate(METADATA, meta, self.is_namespaced(), self.strategy.name_rule, errors);
        self.validate_finalizers(meta, errors);
    }

    fn validate_meta_update(&self, meta: &Value, old: &Value, errors: &mut Errors) {
        validate_update(METADATA, meta, old, errors);
        self.validate_finalizers(meta, errors);
    }

    fn validate_finalizers(&self, meta: &Value, errors: &mut Errors) {
        if self.strategy.checks_finalizers {
            validate_known_finalizers(METADATA, meta, errors);
        }
    }
}

/// The metadata of an object that stands on its own.
pub fn validate(path: Path<'_>, meta: &Value, namespaced: bool, rule: NameRule, errors: &mut Errors) {
    let prefix = meta.str("generateName");
    if !prefix.is_empty() {
        for message in check_prefix(rule, prefix) {
            errors.invalid(path.child("generateName"), prefix, message);
        }
    }
    let name = meta.str("name");
    if name.is_empty() {
        errors.required(path.child("name"), "name or generateName is required");
    } else {
        for message in check_name(rule, name) {
            errors.invalid(path.child("name"), name, message);
        }
    }
    validate_namespace(path, meta.str("namespace"), namespaced, errors);
    let generation = meta.int("generation");
    if generation < 0 {
        errors.invalid(path.child("generation"), generation, "must be greater than or equal to 0");
    }
    validate_labels(path.child("labels"), meta.map("labels"), errors);
    validate_annotations(path.child("annotations"), meta.map("annotations"), errors);
    validate_owner_references(path.child("ownerReferences"), meta.list("ownerReferences"), errors);
    validate_finalizers(path.child("finalizers"), meta.get("finalizers"), errors);
    validate_managed_fields(path.child("managedFields"), meta.list("managedFields"), errors);
}

/// The metadata of a new object once more: for kinds whose updates look at it in an order of their own.
pub fn validate_again(object: &Value, namespaced: bool, rule: NameRule, errors: &mut Errors) {
    let meta = object.get("metadata");
    validate(METADATA, meta, namespaced, rule, errors);
    validate_known_finalizers(METADATA, meta, errors);
}

/// The change of metadata once more.
pub fn validate_update_again(object: &Value, old: &Value, errors: &mut Errors) {
    let meta = object.get("metadata");
    validate_update(METADATA, meta, old.get("metadata"), errors);
    validate_known_finalizers(METADATA, meta, errors);
}

/// What a change of metadata may not do, and what metadata must look like in any case.
pub fn validate_update(path: Path<'_>, meta: &Value, old: &Value, errors: &mut Errors) {
    validate_stays(path, meta, old, errors);
    validate_labels(path.child("labels"), meta.map("labels"), errors);
    validate_annotations(path.child("annotations"), meta.map("annotations"), errors);
    validate_owner_references(path.child("ownerReferences"), meta.list("ownerReferences"), errors);
    validate_managed_fields(path.child("managedFields"), meta.list("managedFields"), errors);
}

fn validate_stays(path: Path<'_>, meta: &Value, old: &Value, errors: &mut Errors) {
    if old.has("deletionTimestamp") {
        validate_no_new_finalizers(path.child("finalizers"), meta.list("finalizers"), old.list("finalizers"), errors);
    }
    if meta.str("resourceVersion").is_empty() {
        errors.invalid(path.child("resourceVersion"), "", "must be specified for an update");
    }
    if meta.int("generation") < old.int("generation") {
        errors.invalid(path.child("generation"), meta.int("generation"), "must not be decremented");
    }
    for field in ["name", "namespace", "uid"] {
        if meta.str(field) != old.str(field) {
            errors.invalid(path.child(field), meta.str(field), "field is immutable");
        }
    }
    for field in ["creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        validate_immutable(path.child(field), meta.get(field), old.get(field), errors);
    }
}

/// A field that may not change; null and empty are the same.
pub fn validate_immutable(path: Path<'_>, value: &Value, old: &Value, errors: &mut Errors) {
    if !same(value, old) {
        errors.invalid(path, value, "field is immutable");
    }
}

/// Whether two values are alike where null, an empty list and an empty map are the same.
pub fn same(left: &Value, right: &Value) -> bool {
    let nothing = |value: &Value| match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    };
    left == right || (nothing(left) && nothing(right))
}

pub fn check_name(rule: NameRule, name: &str) -> Vec<String> {
    match rule {
        NameRule::Subdomain => names::dns1123_subdomain(name),
        NameRule::LongName => names::long_name(name),
        NameRule::Own => Vec::new(),
        NameRule::Label => names::dns1123_label(name),
        NameRule::Label1035 => names::dns1035_label(name),
        NameRule::IpAddress => names::address::ip_messages(name),
        NameRule::ConfigMapKey => names::config_map_key(name),
        NameRule::PathSegment | NameRule::Common => names::path_segment_name(name),
    }
}

/// A name to which random letters will be added: it may end with a dash.
pub fn check_prefix(rule: NameRule, prefix: &str) -> Vec<String> {
    if matches!(rule, NameRule::PathSegment | NameRule::Common) {
        return names::path_segment_prefix(prefix);
    }
    if matches!(rule, NameRule::IpAddress | NameRule::ConfigMapKey) {
        return check_name(rule, prefix);
    }
    if matches!(rule, NameRule::LongName | NameRule::Own) {
        return Vec::new();
    }
    match prefix.strip_suffix('-') {
        // The letter before the dash goes too, whatever it is, as it does upstream.
        Some(rest) if !rest.is_empty() => {
            let mut masked = rest.to_owned();
            masked.pop();
            masked.push('a');
            check_name(rule, &masked)
        }
        _ => check_name(rule, prefix),
    }
}

fn validate_namespace(path: Path<'_>, namespace: &str, namespaced: bool, errors: &mut Errors) {
    let path = path.child("namespace");
    match (namespaced, namespace.is_empty()) {
        (true, true) => errors.required(path, ""),
        (true, false) => {
            for message in names::dns1123_label(namespace) {
                errors.invalid(path, namespace, message);
            }
        }
        (false, false) => errors.forbidden(path, "not allowed on this type"),
        (false, true) => {}
    }
}

pub fn validate_labels(path: Path<'_>, labels: &Map, errors: &mut Errors) {
    for (key, value) in labels.iter() {
        validate_label_name(path, key, errors);
        for message in names::label_value(value.as_str()) {
            errors.invalid(path, value.as_str(), message);
        }
    }
}

pub fn validate_label_name(path: Path<'_>, name: &str, errors: &mut Errors) {
    for message in names::qualified_name(name) {
        errors.invalid(path, name, message);
    }
}

/// Keys are label keys in which case does not matter.
pub fn validate_annotations(path: Path<'_>, annotations: &Map, errors: &mut Errors) {
    let mut size = 0;
    for (key, value) in annotations.iter() {
        let messages = if key.bytes().any(|byte| byte.is_ascii_uppercase()) {
            names::qualified_name(&key.to_lowercase())
        } else {
            names::qualified_name(key)
        };
        for message in messages {
            errors.invalid(path, key.as_str(), message);
        }
        size += key.len() + value.as_str().len();
    }
    if size > ANNOTATIONS_MAX_BYTES {
        errors.too_long(path, ANNOTATIONS_MAX_BYTES);
    }
}

fn validate_owner_references(path: Path<'_>, references: &[Value], errors: &mut Errors) {
    let mut controller: Option<&Value> = None;
    for reference in references {
        validate_owner_reference(path, reference, errors);
        if !reference.bool("controller") {
            continue;
        }
        if let Some(first) = controller {
            let detail = format!(
                "Only one reference can have Controller set to true. Found \"true\" in references for {}/{} and {}/{}",
                first.str("kind"),
                first.str("name"),
                reference.str("kind"),
                reference.str("name")
            );
            errors.invalid(path, &Value::Array(references.to_vec()), detail);
        } else {
            controller = Some(reference);
        }
    }
}

fn validate_owner_reference(path: Path<'_>, reference: &Value, errors: &mut Errors) {
    let api_version = reference.str("apiVersion");
    // More than one slash reads as nothing at all.
    let (group, version) = match api_version.split_once('/') {
        None => ("", api_version),
        Some((_, version)) if version.contains('/') => ("", ""),
        Some((group, version)) => (group, version),
    };
    if version.is_empty() {
        errors.invalid(path.child("apiVersion"), api_version, "version must not be empty");
    }
    for field in ["kind", "name", "uid"] {
        if reference.str(field).is_empty() {
            errors.invalid(path.child(field), "", "must not be empty");
        }
    }
    if group.is_empty() && version == "v1" && reference.str("kind") == "Event" {
        errors.invalid(path, reference, "/v1, Kind=Event is disallowed from being an owner");
    }
}

fn validate_finalizers(path: Path<'_>, finalizers: &Value, errors: &mut Errors) {
    for finalizer in finalizers.items() {
        for message in names::qualified_name(finalizer.as_str()) {
            errors.invalid(path, finalizer.as_str(), message);
        }
    }
    let has = |name: &str| finalizers.items().iter().any(|finalizer| finalizer.as_str() == name);
    if has("orphan") && has("foregroundDeletion") {
        errors.invalid(path, finalizers, "finalizer orphan and foregroundDeletion cannot be both set");
    }
}

/// A finalizer either has a domain or is one that Kubernetes itself has.
pub fn validate_known_finalizers(path: Path<'_>, meta: &Value, errors: &mut Errors) {
    let path = path.child("finalizers");
    for (index, finalizer) in meta.list("finalizers").iter().enumerate() {
        validate_known_finalizer(path.index(index), finalizer.as_str(), errors);
    }
}

pub fn validate_known_finalizer(path: Path<'_>, finalizer: &str, errors: &mut Errors) {
    if !is_known_finalizer(finalizer) {
        errors.invalid(path, finalizer, "name is neither a standard finalizer name nor is it fully qualified");
    }
}

fn knows_finalizers(meta: &Value) -> bool {
    meta.list("finalizers").iter().all(|finalizer| is_known_finalizer(finalizer.as_str()))
}

fn is_known_finalizer(finalizer: &str) -> bool {
    finalizer.contains('/') || matches!(finalizer, "kubernetes" | "orphan" | "foregroundDeletion")
}

fn validate_no_new_finalizers(path: Path<'_>, finalizers: &[Value], old: &[Value], errors: &mut Errors) {
    let old = Seen::of(old.iter().map(Value::as_str));
    let mut extra: Vec<&str> = finalizers.iter().map(Value::as_str).filter(|finalizer| !old.has(finalizer)).collect();
    if extra.is_empty() {
        return;
    }
    extra.sort_unstable();
    extra.dedup();
    let list: Vec<String> = extra.into_iter().map(quote).collect();
    errors.forbidden(
        path,
        format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
            list.join(", ")
        ),
    );
}

fn validate_managed_fields(path: Path<'_>, entries: &[Value], errors: &mut Errors) {
    for (index, entry) in entries.iter().enumerate() {
        let path = path.index(index);
        let operation = entry.str("operation");
        if operation != "Apply" && operation != "Update" {
            errors.invalid(path.child("operation"), operation, "must be `Apply` or `Update`");
        }
        let fields_type = entry.str("fieldsType");
        if !fields_type.is_empty() && fields_type != "FieldsV1" {
            errors.invalid(path.child("fieldsType"), fields_type, "must be `FieldsV1`");
        }
        validate_field_manager(path.child("manager"), entry.str("manager"), errors);
        if entry.str("subresource").len() > SUBRESOURCE_MAX_BYTES {
            errors.too_long(path.child("subresource"), SUBRESOURCE_MAX_BYTES);
        }
    }
}

/// The name of a field manager: short and printable.
pub fn validate_field_manager(path: Path<'_>, manager: &str, errors: &mut Errors) {
    if manager.len() > FIELD_MANAGER_MAX_BYTES {
        errors.too_long(path, FIELD_MANAGER_MAX_BYTES);
    }
    // Most are plain, and then there is nothing to look up.
    if manager.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return;
    }
    for (position, letter) in manager.char_indices() {
        if !is_printable(letter) {
            let code = letter as u32;
            errors.invalid(path, manager, format!("invalid character U+{code:04X} (at position {position})"));
        }
    }
}

/// The conditions of a status: each type once, and each condition whole.
pub fn validate_conditions(path: Path<'_>, conditions: &[Value], errors: &mut Errors) {
    let mut seen = Seen::new();
    for (index, condition) in conditions.iter().enumerate() {
        let path = path.index(index);
        let kind = condition.str("type");
        if !seen.add(kind) {
            errors.duplicate(path.child("type"), kind);
        }
        validate_condition(path, condition, errors);
    }
}

fn validate_condition(path: Path<'_>, condition: &Value, errors: &mut Errors) {
    validate_label_name(path.child("type"), condition.str("type"), errors);
    let status = condition.str("status");
    if !matches!(status, "True" | "False" | "Unknown") {
        errors.not_supported(path.child("status"), status, &["False", "True", "Unknown"]);
    }
    let generation = condition.int("observedGeneration");
    if generation < 0 {
        errors.invalid(path.child("observedGeneration"), generation, "must be greater than or equal to zero");
    }
    if !condition.has("lastTransitionTime") {
        errors.required(path.child("lastTransitionTime"), "");
    }
    let reason = condition.str("reason");
    if reason.is_empty() {
        errors.required(path.child("reason"), "");
    } else {
        for message in names::condition_reason(reason) {
            errors.invalid(path.child("reason"), reason, message);
        }
        if reason.len() > CONDITION_REASON_MAX_BYTES {
            errors.too_long(path.child("reason"), CONDITION_REASON_MAX_BYTES);
        }
    }
    if condition.str("message").len() > CONDITION_MESSAGE_MAX_BYTES {
        errors.too_long(path.child("message"), CONDITION_MESSAGE_MAX_BYTES);
    }
}

/// A label selector. `lenient` lets label values pass that no label can have: an old object's selector has such.
pub fn validate_label_selector(path: Path<'_>, selector: &Value, lenient: bool, errors: &mut Errors) {
    validate_labels(path.child("matchLabels"), selector.map("matchLabels"), errors);
    let expressions = path.child("matchExpressions");
    for (index, requirement) in selector.list("matchExpressions").iter().enumerate() {
        validate_requirement(expressions.index(index), requirement, lenient, errors);
    }
}

fn validate_requirement(path: Path<'_>, requirement: &Value, lenient: bool, errors: &mut Errors) {
    let values = requirement.list("values");
    match requirement.str("operator") {
        "In" | "NotIn" if values.is_empty() => {
            errors.required(path.child("values"), "must be specified when `operator` is 'In' or 'NotIn'");
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.forbidden(path.child("values"), detail);
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        other => errors.invalid(path.child("operator"), other, "not a valid selector operator"),
    }
    validate_label_name(path.child("key"), requirement.str("key"), errors);
    if lenient {
        return;
    }
    for (index, value) in values.iter().enumerate() {
        for message in names::label_value(value.as_str()) {
            errors.invalid(path.child("values").index(index), BadValue::from(value), message);
        }
    }
}

#[cfg(test)]
mod tests {
    use rkube_machinery::object;

    use super::*;

    fn texts(errors: &Errors) -> Vec<String> {
        errors.0.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_right_object_passes() {
        let meta = object! {
            "name": "a", "namespace": "default", "labels": object! { "app.io/x": "y" },
            "annotations": object! { "App.io/X": "any thing" },
            "finalizers": vec!["example.com/wait".into()],
        };
        let mut errors = Errors::new();
        validate(METADATA, &meta, true, NameRule::Subdomain, &mut errors);
        assert_eq!(texts(&errors), Vec::<String>::new());
    }

    #[test]
    fn errors_come_in_order() {
        let owner =
            |kind: &str| object! { "apiVersion": "v1", "kind": kind, "name": "n", "uid": "u", "controller": true };
        let meta = object! {
            "generateName": "a_-", "labels": object! { "x": "-" },
            "ownerReferences": vec![owner("Pod"), owner("Event")],
            "finalizers": vec!["orphan".into(), "foregroundDeletion".into()],
        };
        let mut errors = Errors::new();
        validate(METADATA, &meta, false, NameRule::Label, &mut errors);
        let texts = texts(&errors);
        assert_eq!(texts[0], "metadata.name: Required value: name or generateName is required");
        assert!(texts[1].starts_with("metadata.labels: Invalid value: \"-\": a valid label must be"));
        assert_eq!(
            texts[2],
            "metadata.ownerReferences: Invalid value: {\"apiVersion\":\"v1\",\"kind\":\"Event\",\"name\":\"n\",\
             \"uid\":\"u\",\"controller\":true}: /v1, Kind=Event is disallowed from being an owner"
        );
        assert!(texts[3].ends_with("Found \"true\" in references for Pod/n and Event/n"));
        assert_eq!(
            texts[4],
            "metadata.finalizers: Invalid value: [\"orphan\",\"foregroundDeletion\"]: finalizer orphan and \
             foregroundDeletion cannot be both set"
        );
    }

    #[test]
    fn what_a_change_may_not_do() {
        let old = object! {
            "name": "a", "uid": "1", "creationTimestamp": "2026-01-01T00:00:00Z",
            "deletionTimestamp": "2026-01-02T00:00:00Z", "resourceVersion": "1", "generation": 2,
        };
        let meta = object! { "name": "b", "uid": "1", "finalizers": vec!["a.b/z".into(), "a.b/c".into()] };
        let mut errors = Errors::new();
        validate_update(METADATA, &meta, &old, &mut errors);
        assert_eq!(
            texts(&errors),
            [
                "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found \
                 new finalizers []string{\"a.b/c\", \"a.b/z\"}",
                "metadata.resourceVersion: Invalid value: \"\": must be specified for an update",
                "metadata.generation: Invalid value: 0: must not be decremented",
                "metadata.name: Invalid value: \"b\": field is immutable",
                "metadata.creationTimestamp: Invalid value: null: field is immutable",
                "metadata.deletionTimestamp: Invalid value: null: field is immutable",
            ]
        );
    }

    #[test]
    fn long_names_are_counted_in_bytes() {
        let long = "x".repeat(300);
        assert_eq!(check_name(NameRule::LongName, &long), ["must be no more than 253 bytes"]);
        assert_eq!(check_name(NameRule::Subdomain, &long), ["must be no more than 253 characters"]);
    }
}
