//! Server-side apply.

use super::element::{PathElement, same};
use super::entries::{self, Entry};
use super::fields::{field_set, tidy, with_named_fields, without};
use super::merge::merge;
use super::owners::{Conflict, Refusal, Scene, strip};
use super::set::FieldSet;
use super::validate::validate;
use super::view::SchemaView;
use super::{Convert, Reset, WriteContext, has_text, last_applied, unfold};
use crate::status::{Cause, Status};
use crate::value::{Text, Value};

/// Who owns the fields of an object that had no owners when it was first applied to.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ApplyError {
    /// Others own fields to which the configuration gives other values.
    #[error("{message}")]
    Conflicts { message: String, causes: Vec<Cause> },
    #[error("{0}")]
    BadRequest(String),
    /// The configuration does not follow the schema. On the wire this is a server error without a reason.
    #[error("{0}")]
    Unusable(String),
}

impl From<ApplyError> for Status {
    fn from(error: ApplyError) -> Status {
        match error {
            ApplyError::Conflicts { message, causes } => Status::apply_conflict(message, causes),
            ApplyError::BadRequest(message) => Status::bad_request(message),
            ApplyError::Unusable(message) => Status { code: 500, message, ..Status::default() },
        }
    }
}

/// The live object (null: there is none) with the configuration merged into it, and who owns what afterwards.
///
/// Fields that this manager applied before and leaves out now are removed, unless somebody else owns them.
/// `config` is the document as it was sent: not decoded, not defaulted.
pub fn apply<S: SchemaView>(
    live: &Value,
    config: &Value,
    schema: S,
    context: &WriteContext<'_>,
    force: bool,
    reset: Reset<'_>,
    convert: Option<Convert<'_, S>>,
) -> Result<Value, ApplyError> {
    let zero;
    let live = match live.is_null() {
        true => {
            zero = empty_object(schema, context);
            &zero
        }
        false => live,
    };
    let unfolded = has_text(live).then(|| {
        let mut live = live.clone();
        unfold(&mut live);
        live
    });
    let live = unfolded.as_ref().unwrap_or(live);
    let known =
        entries::of(live).map_err(|error| ApplyError::Unusable(format!("failed to decode managed fields: {error}")))?;
    if !is_version(config.str("apiVersion"), context.api_version) || config.str("kind") != context.kind {
        return Err(ApplyError::BadRequest(format!("invalid object type: {}", kind_of(config))));
    }
    let scene = Scene { schema, context, reset, convert };
    let known = scene.first_entries(live, known)?;
    if matches!(config.get("metadata").get("managedFields"), Value::Array(_)) {
        return Err(ApplyError::BadRequest("metadata.managedFields must be nil".to_owned()));
    }
    validate(config, schema).map_err(|problem| {
        ApplyError::Unusable(format!("failed to create typed patch object ({}): {problem}", name_of(config)))
    })?;
    let by_kubectl = context.manager == last_applied::MANAGER;
    let again = by_kubectl.then(|| known.clone());
    let applied = match (scene.apply(live, config, known, force), again) {
        (Err(Refusal::Conflicts(conflicts)), Some(known)) => {
            // Whoever moves here from client-side apply owns what that last applied.
            let allowed = last_applied::allowed(live, schema, context).unwrap_or_default();
            let rest: Vec<_> = conflicts.into_iter().filter(|one| !allowed.contains(&one.path)).collect();
            match rest.is_empty() {
                true => scene.apply(live, config, known, true),
                false => Err(Refusal::Conflicts(rest)),
            }
        }
        (outcome, _) => outcome,
    };
    let (mut object, entries) = applied.map_err(|refusal| match refusal {
        Refusal::Conflicts(conflicts) => conflict_error(&conflicts),
        Refusal::Shape => ApplyError::Unusable("failed to compare objects: the object does not fit its schema".into()),
    })?;
    entries::put(&mut object, entries);
    if by_kubectl {
        last_applied::refresh(&mut object, config);
    }
    Ok(object)
}

/// The merged object could not be read as its kind: a value has the right form for the schema but makes no sense, such
/// as a quantity without digits.
pub fn unreadable(config: &Value, why: &str) -> ApplyError {
    let (name, kind) = (name_of(config), kind_of(config));
    ApplyError::Unusable(format!(
        "failed to convert new object ({name}) to proper version: unable to convert unstructured object to {kind}: {why}"
    ))
}

/// The merged object has an annotation that stands for a field and cannot be read as one.
pub fn unconvertible(config: &Value, why: &str) -> ApplyError {
    ApplyError::Unusable(format!("failed to convert to unversioned ({}): {why}", name_of(config)))
}

impl<S: SchemaView> Scene<'_, S> {
    /// The owners before the first apply: one who owns all that is there.
    fn first_entries(&self, live: &Value, mut known: Vec<Entry>) -> Result<Vec<Entry>, ApplyError> {
        if known.is_empty() {
            let context = WriteContext { manager: BEFORE_FIRST_APPLY, ..*self.context };
            let scene = Scene { context: &context, schema: self.schema, reset: self.reset, convert: self.convert };
            if !scene.track(&Value::Null, live, &mut known) {
                let why = "failed to create manager for existing fields: the object does not fit its schema";
                return Err(ApplyError::Unusable(why.to_owned()));
            }
        }
        Ok(known)
    }

    fn apply(
        &self,
        live: &Value,
        config: &Value,
        mut entries: Vec<Entry>,
        force: bool,
    ) -> Result<(Value, Vec<Entry>), Refusal> {
        self.reconcile(live, &mut entries);
        let merged = merge(Some(live), Some(config), self.schema).unwrap_or_else(Value::object);
        let mut fields = field_set(config, self.schema);
        self.reset.filter(&mut fields);
        let own = Entry::new(self.context, true, fields);
        let last = entries.iter().position(|entry| entry.is_same(&own)).map(|index| entries.remove(index));
        let time = last.as_ref().and_then(|last| last.time.clone());
        entries.push(own.clone());
        let merged = match last {
            Some(last) if !last.fields.is_empty() => self.prune(merged, &entries, &last),
            _ => merged,
        };
        self.pass_on(live, &merged, &mut entries, Some(&own), force)?;
        let unchanged = same(live, &merged);
        entries.retain_mut(|entry| {
            if entry.is_same(&own) {
                strip(entry);
                entry.time = if unchanged { time.clone() } else { Some(Text::new(self.context.time)) };
            }
            !entry.fields.is_empty()
        });
        let object = if unchanged { live.clone() } else { tidy(merged, self.schema) };
        Ok((object, entries))
    }

    /// Removes what the manager applied last time, did not apply now, and nobody else owns.
    fn prune(&self, merged: Value, entries: &[Entry], last: &Entry) -> Value {
        let version = &last.api_version;
        let (whole, schema) = match self.is_current(version) {
            true => (merged, self.schema),
            false => match self.in_version(&merged, version) {
                Some(converted) => converted,
                None => return merged,
            },
        };
        let named = |set: &FieldSet| with_named_fields(set, Some(schema));
        let last_fields = named(&last.fields);
        let pruned = without(&whole, &last_fields, schema);
        let pruned = match self.add_back_owned(&whole, pruned, schema, entries, version) {
            // Only what the manager itself applied last time may go.
            Some(pruned) => {
                let mut gone = named(&field_set(&whole, schema));
                gone.subtract(&named(&field_set(&pruned, schema)));
                without(&whole, &gone.intersection(&last_fields), schema)
            }
            None => whole,
        };
        match self.is_current(version) {
            true => pruned,
            false => self.in_version(&pruned, self.context.api_version).map_or(pruned, |(pruned, _)| pruned),
        }
    }

    /// Puts back what was removed and somebody owns, version by version, the one of the last apply first. None where
    /// there is no way back to that version.
    fn add_back_owned(
        &self,
        whole: &Value,
        pruned: Value,
        schema: S,
        entries: &[Entry],
        last_version: &str,
    ) -> Option<Value> {
        let mut owned: Vec<(&str, Vec<FieldSet>)> = vec![(last_version, Vec::new())];
        for entry in entries {
            let version = if self.convert.is_none() { last_version } else { &entry.api_version };
            match owned.iter_mut().find(|(other, _)| *other == version) {
                Some((_, sets)) => sets.push(entry.fields.clone()),
                None => owned.push((version, vec![entry.fields.clone()])),
            }
        }
        let owned: Vec<(&str, FieldSet)> =
            owned.into_iter().map(|(version, sets)| (version, entries::union(sets))).collect();
        let mut pruned = without_unowned(whole, &pruned, &owned[0].1, schema);
        for (version, owned) in &owned[1..] {
            let converted = (self.in_version(whole, version), self.in_version(&pruned, version));
            if let (Some((whole, schema)), Some((part, _))) = converted {
                let part = without_unowned(&whole, &part, owned, schema);
                pruned = self.in_version(&part, last_version)?.0;
            }
        }
        Some(pruned)
    }
}

/// The whole without what the part has lost and nobody owns.
fn without_unowned<S: SchemaView>(whole: &Value, part: &Value, owned: &FieldSet, schema: S) -> Value {
    let mut gone = with_named_fields(&field_set(whole, schema), Some(schema));
    gone.subtract(&with_named_fields(&field_set(part, schema), Some(schema)));
    gone.subtract(&with_named_fields(owned, Some(schema)));
    without(whole, &gone, schema)
}

fn empty_object<S: SchemaView>(schema: S, context: &WriteContext<'_>) -> Value {
    let mut object = schema.zero();
    object.set("kind", context.kind);
    object.set("apiVersion", context.api_version);
    object
}

fn conflict_error(conflicts: &[Conflict]) -> ApplyError {
    let text = |path: &[PathElement]| {
        let mut text = String::new();
        path.iter().for_each(|element| element.describe(&mut text));
        text
    };
    let cause = |conflict: &Conflict| Cause {
        reason: "FieldManagerConflict".to_owned(),
        message: format!("conflict with {}", conflict.manager),
        field: text(&conflict.path),
    };
    let causes = conflicts.iter().map(cause).collect();
    let message = match conflicts {
        [one] => {
            format!("Apply failed with 1 conflict: conflict with {}: {}", one.manager, text(&one.path))
        }
        many => {
            let mut lines = Vec::new();
            let mut last = "";
            for conflict in many {
                if conflict.identifier != last {
                    lines.push(format!("conflicts with {}:", conflict.manager));
                    last = &conflict.identifier;
                }
                lines.push(format!("- {}", text(&conflict.path)));
            }
            format!("Apply failed with {} conflicts: {}", many.len(), lines.join("\n"))
        }
    };
    ApplyError::Conflicts { message, causes }
}

/// The object's name and kind as messages have them: `default/web; apps/v1, Kind=Deployment`.
fn name_of(object: &Value) -> String {
    let metadata = object.get("metadata");
    format!("{}/{}; {}", metadata.str("namespace"), metadata.str("name"), kind_of(object))
}

fn kind_of(object: &Value) -> String {
    let (group, version) = match object.str("apiVersion") {
        "" => ("", ""),
        version => version.split_once('/').unwrap_or(("", version)),
    };
    // A version that makes no sense leaves nothing of the kind either.
    if version.contains('/') {
        return "/, Kind=".to_owned();
    }
    format!("{group}/{version}, Kind={}", object.str("kind"))
}

/// Whether both name the same version; without a group the slash may stand, too.
fn is_version(given: &str, wanted: &str) -> bool {
    given == wanted || given.strip_prefix('/').is_some_and(|version| version == wanted && !wanted.contains('/'))
}
