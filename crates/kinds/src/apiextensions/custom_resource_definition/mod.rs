//! CustomResourceDefinition: a kind that is made at run time.
//!
//! Upstream validates definitions in a form of its own, in which what all versions share stands beside the versions
//! ([`internal`]). Clients know that form from the paths of errors: `spec.validation.openAPIV3Schema`.

pub mod approval;
mod conversion;
mod defaults;
mod formats;
mod internal;
mod lists;
mod names;
mod options;
mod rules;
mod schema;
mod search;
mod selectable;
mod validate;
mod version;
mod walk;

use rkube_machinery::field::{Errors, Path};
use rkube_machinery::{Value, object};

use self::internal::Internal;
use self::options::DefinitionOptions;
use crate::admissionregistration::client_config;
use crate::columns::{CREATED_AT, NAME};
use crate::fields::carry;
use crate::kind::{Part, Row, Rules, Scope, Subresource};
use crate::strategy::{NameRule, ResetFields, Strategy};

pub static KIND: Row = Row {
    group: GROUP,
    kind: "CustomResourceDefinition",
    resource: RESOURCE,
    singular: "customresourcedefinition",
    short_names: &["crd", "crds"],
    categories: &["api-extensions"],
    scope: Scope::Cluster,
    type_name: "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition",
    storage_prefix: "apiextensions.k8s.io/customresourcedefinitions",
    subresources: &[Subresource::STATUS],
    columns: &[NAME, CREATED_AT],
    strategy: Strategy {
        name_rule: NameRule::Common,
        checks_finalizers: false,
        unconditional_update: false,
        has_generation: true,
        reset_fields: ResetFields::STATUS,
        marks_before_deletion: true,
        ..Strategy::DEFAULTS
    },
    rules: &CustomResourceDefinitionRules,
    ..Row::DEFAULTS
};

pub const GROUP: &str = "apiextensions.k8s.io";
pub const VERSION: &str = "v1";
pub const RESOURCE: &str = "customresourcedefinitions";

/// Holds a definition until its objects are gone.
pub const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

const SPEC: Path<'static> = Path::new("spec");
const STATUS: Path<'static> = Path::new("status");

struct CustomResourceDefinitionRules;

impl Rules for CustomResourceDefinitionRules {
    fn default(&self, definition: &mut Value) {
        default_spec(definition.object_mut("spec"));
        if definition.get("status").list("storedVersions").is_empty() {
            store_storage_version(definition);
        }
    }

    fn prepare_create(&self, definition: &mut Value) {
        definition.remove("status");
        store_storage_version(definition);
    }

    fn validate_create(&self, definition: &Value, errors: &mut Errors) {
        names::validate_metadata(definition, errors);
        validate::validate(definition, None, &DefinitionOptions::of_new(), errors);
    }

    fn prepare_update(&self, part: Part, definition: &mut Value, old: &Value) {
        if part == Part::Status {
            // Upstream means to keep the metadata and does not; clients may change it here.
            return carry(definition, old, "spec");
        }
        carry(definition, old, "status");
        store_storage_version(definition);
    }

    fn validate_update(&self, part: Part, definition: &Value, old: &Value, errors: &mut Errors) {
        if part == Part::Status {
            return names::validate_status(definition, errors);
        }
        let (new, old_spec) = (Internal::of(definition.get("spec")), Internal::of(old.get("spec")));
        validate::validate(definition, Some(old), &DefinitionOptions::of_update(&new, old, &old_spec), errors);
    }

    fn warnings(&self, definition: &Value, old: Option<&Value>) -> Vec<String> {
        formats::warnings(definition.get("spec"), old.map(|old| old.get("spec")))
    }

    /// The first deletion waits for the objects of the kind, whatever finalizers there are.
    fn keep_until_finalized(&self, definition: &Value) -> bool {
        !definition.get("metadata").has("deletionTimestamp")
    }

    fn prepare_deletion(&self, definition: &mut Value) {
        let metadata = definition.object_mut("metadata");
        // Only a deletion that has just been marked says so: a second one changes nothing.
        if metadata.remove("deletionGracePeriodSeconds").is_none() {
            return;
        }
        // Upstream marks definitions itself, without a new generation.
        metadata.set("generation", metadata.int("generation") - 1);
        let now = metadata.get("deletionTimestamp").clone();
        let finalizers = metadata.array_mut("finalizers");
        if !finalizers.iter().any(|finalizer| finalizer.as_str() == CLEANUP_FINALIZER) {
            finalizers.push(CLEANUP_FINALIZER.into());
        }
        let condition = object! {
            "type": "Terminating", "status": "True", "lastTransitionTime": now, "reason": "InstanceDeletionPending",
            "message": "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
        };
        set_condition(definition, condition);
    }
}

/// Puts the condition in the place of the one of its type. The time of a status that stays the same is the old one.
pub fn set_condition(definition: &mut Value, mut condition: Value) {
    let conditions = definition.object_mut("status").array_mut("conditions");
    match conditions.iter_mut().find(|found| found.str("type") == condition.str("type")) {
        None => conditions.push(condition),
        Some(found) => {
            if found.str("status") == condition.str("status") && found.has("lastTransitionTime") {
                carry(&mut condition, found, "lastTransitionTime");
            }
            carry(&mut condition, found, "observedGeneration");
            *found = condition;
        }
    }
}

/// Takes the condition of this type away.
pub fn remove_condition(definition: &mut Value, kind: &str) {
    let has = |condition: &Value| condition.str("type") == kind;
    if definition.get("status").list("conditions").iter().any(has) {
        definition.object_mut("status").array_mut("conditions").retain(|condition| !has(condition));
    }
}

/// Whether the certificates by which a conversion webhook is known, if any, can be used.
pub fn has_usable_bundle(definition: &Value) -> bool {
    conversion::check_bundle(definition.at(&["spec", "conversion", "webhook", "clientConfig"])).is_ok()
}

/// Whether the condition of this type is there and true.
pub fn is_condition_true(definition: &Value, kind: &str) -> bool {
    let conditions = definition.get("status").list("conditions");
    conditions.iter().find(|condition| condition.str("type") == kind).is_some_and(|found| found.str("status") == "True")
}

fn default_spec(spec: &mut Value) {
    let names = spec.object_mut("names");
    let kind = names.str("kind").to_owned();
    if !kind.is_empty() {
        names.set_default("singular", kind.to_lowercase());
        names.set_default("listKind", format!("{kind}List"));
    }
    spec.set_if_absent("conversion", object! { "strategy": "None" });
    let webhook = spec.find_mut("conversion").and_then(|conversion| conversion.find_mut("webhook"));
    if let Some(config) = webhook.and_then(|webhook| webhook.find_mut("clientConfig")) {
        client_config::default(config);
    }
}

/// The version in which objects are stored from now on belongs to those in which there may be some.
fn store_storage_version(definition: &mut Value) {
    let mut versions = definition.get("spec").list("versions").iter();
    let Some(storage) = versions.find(|version| version.bool("storage")) else { return };
    let name = storage.get("name").clone();
    let stored = definition.object_mut("status").array_mut("storedVersions");
    if !stored.contains(&name) {
        stored.push(name);
    }
}
