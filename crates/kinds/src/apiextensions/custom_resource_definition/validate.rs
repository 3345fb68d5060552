//! The rules of a definition as a whole, in upstream's order.

use rkube_machinery::Value;
use rkube_machinery::field::{Errors, Path};
use rkube_machinery::names::dns1123_subdomain;

use super::internal::Internal;
use super::options::DefinitionOptions;
use super::{SPEC, STATUS, approval, conversion, names, schema, search, selectable, version};

/// `old` is there on updates.
pub fn validate(definition: &Value, old: Option<&Value>, options: &DefinitionOptions<'_>, errors: &mut Errors) {
    let internal = Internal::of(definition.get("spec"));
    validate_spec(&internal, options, errors);
    if let Some(old) = old {
        validate_immutable_fields(internal.spec, old.get("spec"), options, errors);
    }
    names::validate_status(definition, errors);
    validate_stored_versions(definition, errors);
    approval::validate(definition, old, errors);
    let preserved = old.is_some_and(|old| old.get("spec").bool("preserveUnknownFields"));
    if internal.preserves_unknown_fields() && !preserved {
        let detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema \
                      instead";
        errors.invalid(SPEC.child("preserveUnknownFields"), true, detail);
    }
}

fn validate_spec(internal: &Internal<'_>, options: &DefinitionOptions<'_>, errors: &mut Errors) {
    let spec = internal.spec;
    validate_group(spec.str("group"), errors);
    match spec.str("scope") {
        "" => errors.required(SPEC.child("scope"), ""),
        "Cluster" | "Namespaced" => {}
        other => errors.not_supported(SPEC.child("scope"), other, &["Cluster", "Namespaced"]),
    }
    let preserves = internal.preserves_unknown_fields();
    validate_has_schemas(internal, options, errors);
    let has_defaults = internal.schemas().any(search::has_defaults);
    if has_defaults && preserves {
        let detail = "must be false in order to use defaults in the schema";
        errors.invalid(SPEC.child("preserveUnknownFields"), true, detail);
    }
    let mut options = options.clone();
    options.require_structural |= !preserves || has_defaults || internal.schemas().any(search::has_extensions);
    let options = &options;

    validate_versions(internal, options, errors);
    names::validate_spec(SPEC.child("names"), spec.get("names"), errors);
    let shared = &internal.shared;
    let first = spec.list("versions").first().map_or("", |version| version.str("name"));
    let is_unchanged = options.unchanged_schemas.contains(first);
    let path = SPEC.child("validation");
    schema::validate(path, shared.schema, internal.has_any_status(), is_unchanged, options, errors);
    version::validate_subresources(SPEC.child("subresources"), shared.subresources, errors);
    version::validate_columns(SPEC.child("additionalPrinterColumns"), shared.columns, errors);
    selectable::validate_shared(shared, options, errors);
    conversion::validate(SPEC.child("conversion"), spec, options, errors);
}

fn validate_group(group: &str, errors: &mut Errors) {
    let path = SPEC.child("group");
    if group.is_empty() {
        return errors.required(path, "");
    }
    let messages = dns1123_subdomain(group);
    if !messages.is_empty() {
        errors.invalid(path, group, messages.join(","));
    } else if !group.contains('.') {
        errors.invalid(path, group, "should be a domain with at least one dot");
    }
}

impl Internal<'_> {
    /// The indices of the versions without a schema.
    pub fn missing_schemas(&self) -> impl Iterator<Item = usize> + '_ {
        let is_shared = self.shared.schema.has("openAPIV3Schema");
        let versions = self.versions.iter().enumerate();
        let missing = versions.filter(move |(_, version)| !is_shared && !version.parts.schema.has("openAPIV3Schema"));
        missing.map(|(index, _)| index)
    }
}

fn validate_has_schemas(internal: &Internal<'_>, options: &DefinitionOptions<'_>, errors: &mut Errors) {
    if !options.require_schema && internal.preserves_unknown_fields() {
        return;
    }
    let versions = SPEC.child("versions");
    for index in internal.missing_schemas() {
        let version = versions.index(index);
        let schema = version.child("schema");
        if options.require_schema {
            errors.required(schema.child("openAPIV3Schema"), "");
        } else if internal.versions[index].value.bool("served") {
            errors.required(schema.child("openAPIV3Schema"), "because otherwise all fields are pruned");
        }
    }
}

fn validate_versions(internal: &Internal<'_>, options: &DefinitionOptions<'_>, errors: &mut Errors) {
    let path = SPEC.child("versions");
    for (index, version) in internal.versions.iter().enumerate() {
        let path = path.index(index);
        let name = version.value.str("name");
        names::validate_label(path.child("name"), name, errors);
        version::validate(path, version, internal.has_status(name), options, errors);
    }
    let names: Vec<&str> = internal.versions.iter().map(|version| version.value.str("name")).collect();
    if names.iter().enumerate().any(|(index, name)| names[..index].contains(name)) {
        errors.invalid(path, internal.shown_versions(), "must contain unique version names");
    }
    if internal.versions.iter().filter(|version| version.value.bool("storage")).count() != 1 {
        let detail = "must have exactly one version marked as storage version";
        errors.invalid(path, internal.shown_versions(), detail);
    }
    // Old clients know the first version under a field of its own.
    if let Some(first) = names.first().filter(|name| !name.is_empty()) {
        names::validate_label(SPEC.child("version"), first, errors);
    }
}

/// Scope and kind decide where objects are stored, group and plural are in the definition's own name.
fn validate_immutable_fields(spec: &Value, old: &Value, options: &DefinitionOptions<'_>, errors: &mut Errors) {
    let (names_path, names, old_names) = (SPEC.child("names"), spec.get("names"), old.get("names"));
    if options.fixed_names {
        validate_immutable(SPEC.child("scope"), spec.str("scope"), old.str("scope"), errors);
        validate_immutable(names_path.child("kind"), names.str("kind"), old_names.str("kind"), errors);
    }
    validate_immutable(SPEC.child("group"), spec.str("group"), old.str("group"), errors);
    validate_immutable(names_path.child("plural"), names.str("plural"), old_names.str("plural"), errors);
}

fn validate_immutable(path: Path<'_>, value: &str, old: &str, errors: &mut Errors) {
    if value != old {
        errors.invalid(path, value, "field is immutable");
    }
}

/// Every version in which there may be objects is still there.
fn validate_stored_versions(definition: &Value, errors: &mut Errors) {
    let path = STATUS.child("storedVersions");
    let stored = definition.get("status").get("storedVersions");
    if stored.items().is_empty() {
        return errors.invalid(path, stored, "must have at least one stored version");
    }
    let versions = definition.get("spec").list("versions");
    for version in versions.iter().filter(|version| version.bool("storage")) {
        let name = version.get("name");
        if !stored.items().contains(name) {
            errors.invalid(path, stored, format!("must have the storage version {}", name.as_str()));
        }
    }
    for (index, name) in stored.items().iter().enumerate() {
        let is_there = versions.iter().any(|version| version.get("name") == name);
        // Of several of a name upstream speaks of the last.
        if is_there || stored.items()[index + 1..].contains(name) {
            continue;
        }
        let name = name.as_str();
        let detail = format!(
            "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions \
             until a storage migration ensures no data remains persisted in {name} and removes {name} from \
             status.storedVersions"
        );
        errors.invalid(path.index(index), name, detail);
    }
}
