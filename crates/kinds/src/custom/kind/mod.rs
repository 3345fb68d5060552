//! Kinds made of a definition: what its versions are served as, and in which form objects are stored.
//!
//! Pure: a definition's object in, [`Kind`]s out. Names are those that were accepted, which stand in its status.

mod columns;
mod json_path;
mod strategy;

use std::cmp::Ordering;
use std::sync::Arc;

use rkube_machinery::schema::Schema;
use rkube_machinery::schema::structural::Structural;
use rkube_machinery::{Text, Value, names};

use crate::kind::{
    Columns, CustomField, Kind, RulesRef, ScalePaths, Scope, SelectableFields, SelectorForm, Subresource,
};
use crate::strategy::{Repeat, Repeats, ResetFields, Strategy};
use strategy::CustomRules;

/// As discovery lists them.
const VERBS: &[&str] = &["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];

/// What a definition asks to be served.
pub struct Definition {
    /// The form in which objects are stored. Its version may itself not be served.
    pub stored: Arc<Kind>,
    /// The versions that are served, in the definition's order.
    pub versions: Vec<Arc<Kind>>,
    /// Versions that are neither served nor written any more. Objects may still be stored in them.
    pub unserved: Vec<Arc<Kind>>,
}

#[derive(Debug, thiserror::Error)]
pub enum DefinitionError {
    #[error("no version is the storage version")]
    NoStorageVersion,
    #[error("the schema of version {version} is not structural: {why}")]
    Schema { version: String, why: String },
}

impl Definition {
    /// Of a definition whose names were accepted.
    pub fn read(definition: &Value) -> Result<Definition, DefinitionError> {
        let spec = definition.get("spec");
        let versions = spec.list("versions");
        let storage = versions.iter().find(|version| version.bool("storage"));
        let storage = storage.ok_or(DefinitionError::NoStorageVersion)?;
        let stored = Arc::new(kind_of(definition, storage)?);
        let (mut served, mut unserved) = (Vec::new(), Vec::new());
        for version in versions {
            let is_stored = version.str("name") == storage.str("name");
            let kind = if is_stored { stored.clone() } else { Arc::new(kind_of(definition, version)?) };
            match version.bool("served") {
                true => served.push(kind),
                false if is_stored => {}
                false => unserved.push(kind),
            }
        }
        Ok(Definition { stored, versions: served, unserved })
    }

    /// Every version, once.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Kind>> {
        let storage = self.versions.iter().all(|kind| !Arc::ptr_eq(kind, &self.stored)).then_some(&self.stored);
        self.versions.iter().chain(&self.unserved).chain(storage)
    }
}

fn kind_of(definition: &Value, version: &Value) -> Result<Kind, DefinitionError> {
    let spec = definition.get("spec");
    let names = definition.get("status").get("acceptedNames");
    let (group, plural) = (spec.str("group"), names.str("plural"));
    let text = |name: &str| Text::from(names.str(name));
    let texts = |name: &str| names.list(name).iter().map(|name| Text::from(name.as_str())).collect();
    let schema = Arc::new(schema_of(version)?);
    let subresources = version.get("subresources");
    let scale = subresources.as_map().get("scale").map(scale_paths);
    let has_status = subresources.has("status");
    Ok(Kind {
        group: group.into(),
        version: version.str("name").into(),
        kind: text("kind"),
        list_kind: text("listKind"),
        resource: plural.into(),
        singular: text("singular"),
        short_names: texts("shortNames"),
        categories: texts("categories"),
        scope: if spec.str("scope") == "Cluster" { Scope::Cluster } else { Scope::Namespaced },
        verbs: VERBS,
        type_name: type_name(group, version.str("name"), names.str("kind")),
        storage_prefix: format!("{group}/{plural}").into(),
        deprecation: deprecation(definition, version),
        off_by_default: false,
        time_to_live_seconds: None,
        // What is stored in another version is converted where that can wait and fail: see the catalog.
        conversion: None,
        subresources: subresources_of(has_status, scale.is_some()),
        columns: Columns::Custom(columns::of_version(version)),
        selectable: SelectableFields::Custom(selectable(version)),
        strategy: strategy(has_status),
        rules: RulesRef::Shared(Arc::new(CustomRules::new(schema.clone(), has_status, scale.clone()))),
        scale,
        schema: Schema::Structural(schema),
    })
}

fn schema_of(version: &Value) -> Result<Structural, DefinitionError> {
    let document = version.get("schema").get("openAPIV3Schema");
    let read = Structural::read(document);
    let mut schema = read
        .map_err(|error| DefinitionError::Schema { version: version.str("name").to_owned(), why: error.to_string() })?;
    schema.prune_defaults();
    Ok(schema)
}

fn strategy(has_status: bool) -> Strategy {
    Strategy {
        checks_finalizers: false,
        repeats_meta: Repeats::all(Repeat::Nothing),
        unconditional_update: false,
        reset_fields: if has_status { ResetFields::STATUS_ALONE } else { ResetFields::NONE },
        ..Strategy::DEFAULTS
    }
}

fn subresources_of(status: bool, scale: bool) -> &'static [Subresource] {
    match (status, scale) {
        (false, false) => &[],
        (true, false) => &[Subresource::STATUS],
        (false, true) => &[Subresource::SCALE],
        (true, true) => &[Subresource::STATUS, Subresource::SCALE],
    }
}

fn scale_paths(scale: &Value) -> ScalePaths {
    ScalePaths {
        spec_replicas: path(scale.str("specReplicasPath")),
        status_replicas: path(scale.str("statusReplicasPath")),
        selector: path(scale.str("labelSelectorPath")),
        selector_form: SelectorForm::Text,
    }
}

fn selectable(version: &Value) -> Box<[CustomField]> {
    let field = |field: &Value| {
        let written = field.str("jsonPath");
        CustomField { label: written.strip_prefix('.').unwrap_or(written).into(), path: path(written) }
    };
    version.list("selectableFields").iter().map(field).collect()
}

/// The steps of `.spec.replicas`.
fn path(written: &str) -> Box<[Text]> {
    let names = written.strip_prefix('.').unwrap_or(written);
    names.split('.').filter(|name| !name.is_empty()).map(Text::from).collect()
}

/// `com.example.stable.v1.CronTab`.
fn type_name(group: &str, version: &str, kind: &str) -> Text {
    let mut parts: Vec<&str> = group.split('.').rev().collect();
    parts.extend([version, kind]);
    parts.join(".").into()
}

/// What clients of a deprecated version hear: the definition's words, or which version to use instead.
fn deprecation(definition: &Value, version: &Value) -> Text {
    if !version.bool("deprecated") {
        return Text::default();
    }
    if version.has("deprecationWarning") {
        return version.str("deprecationWarning").into();
    }
    let (group, kind) = (definition.get("spec").str("group"), definition.at(&["spec", "names", "kind"]).as_str());
    let name = version.str("name");
    let is_better = |other: &&Value| {
        other.bool("served")
            && !other.bool("deprecated")
            && names::compare_versions(other.str("name"), name) == Ordering::Less
    };
    let others = definition.get("spec").list("versions").iter();
    let best =
        others.filter(is_better).min_by(|left, right| names::compare_versions(left.str("name"), right.str("name")));
    match best {
        Some(better) => {
            format!("{group}/{name} {kind} is deprecated; use {group}/{} {kind}", better.str("name")).into()
        }
        None => format!("{group}/{name} {kind} is deprecated").into(),
    }
}

#[cfg(test)]
mod tests;
