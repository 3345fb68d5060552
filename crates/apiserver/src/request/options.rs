//! The options of each verb, from the query or from a body (`DeleteOptions`), checked as Kubernetes checks them.

use rkube_kinds::meta::validate_field_manager;
use rkube_machinery::field::{BadValue, Errors, Path, quote};
use rkube_machinery::{GroupResource, Status, Value};

use super::query::Query;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldValidation {
    Ignore,
    #[default]
    Warn,
    Strict,
}

/// Options of a create, an update or a patch, as far as they are not taken as they stand in the query.
#[derive(Clone, Copy, Debug, Default)]
pub struct WriteOptions {
    pub dry_run: bool,
    pub field_validation: FieldValidation,
}

impl WriteOptions {
    /// `kind`: what errors call the options. `apply`: of a patch, whether it is an apply.
    pub fn of(query: &Query, kind: &str, apply: Option<bool>) -> Result<WriteOptions, Status> {
        let mut errors = Errors::new();
        if let Some(apply) = apply {
            if !apply && query.force.is_some() {
                errors.forbidden(Path::new("force"), "may not be specified for non-apply patch");
            }
            if apply && query.field_manager.is_empty() {
                errors.required(Path::new("fieldManager"), "is required for apply patch");
            }
        }
        validate_field_manager(Path::new("fieldManager"), &query.field_manager, &mut errors);
        let dry_run = check_dry_run(&query.dry_run, &mut errors);
        let field_validation = match query.field_validation.as_str() {
            "" | "Warn" => FieldValidation::Warn,
            "Strict" => FieldValidation::Strict,
            "Ignore" => FieldValidation::Ignore,
            other => {
                errors.not_supported(Path::new("fieldValidation"), other, &["", "Ignore", "Strict", "Warn"]);
                FieldValidation::default()
            }
        };
        finish(kind, &errors)?;
        Ok(WriteOptions { dry_run, field_validation })
    }

    /// Takes over whether a body inside the request wants a dry run. It may not say another thing than the query.
    pub fn agree_on_dry_run(&mut self, query: &Query, inner: &[Value]) -> Result<(), Status> {
        let inner: Vec<&str> = inner.iter().map(Value::as_str).collect();
        if !inner.is_empty() && !query.dry_run.is_empty() && query.dry_run != inner {
            let message = format!(
                "Non-matching dry-run options in request and content: [{}] and [{}]",
                query.dry_run.join(" "),
                inner.join(" ")
            );
            return Err(Status { code: 500, message, ..Status::default() });
        }
        self.dry_run |= !inner.is_empty();
        Ok(())
    }
}

/// What a deletion must find.
#[derive(Clone, Debug, Default)]
pub struct Preconditions {
    pub uid: Option<String>,
    pub resource_version: Option<String>,
}

impl Preconditions {
    /// Those of a `DeleteOptions`.
    pub fn of(options: &Value) -> Preconditions {
        let wanted = options.get("preconditions");
        let text = |key: &str| wanted.has(key).then(|| wanted.str(key).to_owned());
        Preconditions { uid: text("uid"), resource_version: text("resourceVersion") }
    }

    /// The object may not have changed since it had this version, unless the client named one itself.
    pub fn require_version(&mut self, version: &str) {
        self.resource_version.get_or_insert_with(|| version.to_owned());
    }

    /// We changed the object ourselves.
    pub fn moved_to(&mut self, revision: u64) {
        if let Some(version) = &mut self.resource_version {
            *version = revision.to_string();
        }
    }
}

/// Options of a deletion.
#[derive(Clone, Debug, Default)]
pub struct DeleteOptions {
    pub dry_run: bool,
    pub grace_period_seconds: Option<i64>,
    pub propagation_policy: Option<String>,
    pub orphan_dependents: Option<bool>,
    pub preconditions: Preconditions,
}

impl DeleteOptions {
    pub fn of_query(query: &Query) -> Result<DeleteOptions, Status> {
        refuse(query.bad_delete.as_ref())?;
        let options = DeleteOptions {
            dry_run: false,
            grace_period_seconds: query.grace_period_seconds,
            propagation_policy: query.propagation_policy.clone(),
            orphan_dependents: query.orphan_dependents,
            preconditions: Preconditions::default(),
        };
        options.checked(&query.dry_run)
    }

    /// Those of a body. Where there is one, the query counts for nothing.
    pub fn of_body(body: &Value) -> Result<DeleteOptions, Status> {
        let dry_run: Vec<String> = body.list("dryRun").iter().map(|value| value.as_str().to_owned()).collect();
        let options = DeleteOptions {
            dry_run: false,
            grace_period_seconds: body.get("gracePeriodSeconds").as_int(),
            propagation_policy: body.has("propagationPolicy").then(|| body.str("propagationPolicy").to_owned()),
            orphan_dependents: body.get("orphanDependents").as_bool(),
            preconditions: Preconditions::of(body),
        };
        options.checked(&dry_run)
    }

    /// The object of this uid, no other of its name.
    pub fn of_uid(uid: &str) -> DeleteOptions {
        let preconditions = Preconditions { uid: Some(uid.to_owned()), resource_version: None };
        DeleteOptions { preconditions, ..DeleteOptions::default() }
    }

    fn checked(mut self, dry_run: &[String]) -> Result<DeleteOptions, Status> {
        let mut errors = Errors::new();
        if let Some(policy) = &self.propagation_policy {
            let path = Path::new("propagationPolicy");
            if self.orphan_dependents.is_some() {
                errors.invalid(path, policy.as_str(), "orphanDependents and deletionPropagation cannot be both set");
            }
            if !matches!(policy.as_str(), "Foreground" | "Background" | "Orphan") {
                errors.not_supported(path, policy.as_str(), &["Foreground", "Background", "Orphan", "nil"]);
            }
        }
        self.dry_run = check_dry_run(dry_run, &mut errors);
        finish("DeleteOptions", &errors)?;
        Ok(self)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionMatch {
    NotOlderThan,
    Exact,
}

/// Options of a list or a watch, as far as they are not taken as they stand in the query.
#[derive(Clone, Copy, Debug)]
pub struct ListOptions {
    pub version_match: Option<VersionMatch>,
}

impl ListOptions {
    /// `watch_list`: whether watches may begin with a list.
    pub fn of(query: &Query, watch: bool, watch_list: bool) -> Result<ListOptions, Status> {
        refuse(query.bad_list.as_ref())?;
        let mut errors = Errors::new();
        let version_match = match query.resource_version_match.as_str() {
            "NotOlderThan" => Some(VersionMatch::NotOlderThan),
            "Exact" => Some(VersionMatch::Exact),
            _ => None,
        };
        match watch {
            true => check_watch(query, version_match, watch_list, &mut errors),
            false => check_list(query, version_match, &mut errors),
        }
        finish("ListOptions", &errors)?;
        Ok(ListOptions { version_match })
    }
}

fn check_list(query: &Query, version_match: Option<VersionMatch>, errors: &mut Errors) {
    let path = Path::new("resourceVersionMatch");
    let given = !query.resource_version_match.is_empty();
    if query.send_initial_events.is_some() {
        errors.forbidden(Path::new("sendInitialEvents"), "sendInitialEvents is forbidden for list");
    }
    if given && query.resource_version.is_none() {
        errors.forbidden(path, "resourceVersionMatch is forbidden unless resourceVersion is provided");
    }
    if given && !query.continue_token.is_empty() {
        errors.forbidden(path, "resourceVersionMatch is forbidden when continue is provided");
    }
    if given && version_match.is_none() {
        errors.not_supported(path, query.resource_version_match.as_str(), &["Exact", "NotOlderThan", ""]);
    }
    if version_match == Some(VersionMatch::Exact) && query.resource_version.as_deref() == Some("0") {
        errors.forbidden(path, "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"");
    }
}

fn check_watch(query: &Query, version_match: Option<VersionMatch>, watch_list: bool, errors: &mut Errors) {
    let path = Path::new("resourceVersionMatch");
    let given = !query.resource_version_match.is_empty();
    let right = version_match == Some(VersionMatch::NotOlderThan);
    if query.send_initial_events.is_some() && !right {
        errors.forbidden(path, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan");
    }
    if query.send_initial_events.is_some() && !watch_list {
        let why = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled";
        errors.forbidden(Path::new("sendInitialEvents"), why);
    }
    let from_now = matches!(query.resource_version.as_deref(), None | Some("0"));
    if watch_list && query.send_initial_events.is_none() && !given && from_now {
        // Such a watch begins with what is there, as if that had been asked for.
        if !query.continue_token.is_empty() {
            errors.forbidden(path, "resourceVersionMatch is forbidden when continue is provided");
        }
    }
    if !given {
        return;
    }
    if query.send_initial_events.is_none() {
        errors.forbidden(path, "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided");
    }
    if !right {
        errors.not_supported(path, query.resource_version_match.as_str(), &["NotOlderThan"]);
    }
    if !query.continue_token.is_empty() {
        errors.forbidden(path, "resourceVersionMatch is forbidden when continue is provided");
    }
}

/// Whether a dry run is wanted.
fn check_dry_run(given: &[String], errors: &mut Errors) -> bool {
    if given.iter().any(|value| value != "All") {
        let shown = format!("[{}]", given.iter().map(|value| quote(value)).collect::<Vec<_>>().join(","));
        errors.not_supported(Path::new("dryRun"), BadText(shown), &["All"]);
    }
    !given.is_empty()
}

struct BadText(String);

impl From<BadText> for BadValue {
    fn from(text: BadText) -> Self {
        BadValue::Text(text.0)
    }
}

fn refuse(bad: Option<&String>) -> Result<(), Status> {
    bad.map_or(Ok(()), |text| Err(Status::bad_request(text.clone())))
}

fn finish(kind: &str, errors: &Errors) -> Result<(), Status> {
    if errors.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(&GroupResource::new("meta.k8s.io", kind), "", errors))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_words_on_dry_runs_must_agree() {
        let agree = |query: &str, inner: &[&str]| {
            let query = Query::parse(query);
            let mut options = WriteOptions::of(&query, "CreateOptions", None).unwrap();
            let inner: Vec<_> = inner.iter().map(|word| Value::from(*word)).collect();
            options.agree_on_dry_run(&query, &inner).map(|()| options.dry_run)
        };
        assert_eq!(agree("", &[]), Ok(false));
        assert_eq!(agree("", &["All"]), Ok(true));
        assert_eq!(agree("dryRun=All", &[]), Ok(true));
        assert_eq!(agree("dryRun=All", &["All"]), Ok(true));
        let message = "Non-matching dry-run options in request and content: [All] and [All All]";
        assert_eq!(agree("dryRun=All", &["All", "All"]).unwrap_err().message, message);
    }

    #[test]
    fn options_are_checked() {
        let write = |query: &str| WriteOptions::of(&Query::parse(query), "CreateOptions", None);
        let code = |refused: Result<(), Status>| refused.map_err(|status| status.code);
        let delete = |query: &str| code(DeleteOptions::of_query(&Query::parse(query)).map(drop));
        let options = write("dryRun=All&fieldValidation=Strict").unwrap();
        assert!(options.dry_run);
        assert_eq!(options.field_validation, FieldValidation::Strict);
        assert!(write("limit=x&gracePeriodSeconds=").is_ok());
        assert_eq!(code(write("fieldValidation=x").map(drop)), Err(422));
        assert_eq!(code(ListOptions::of(&Query::parse("limit=x"), false, true).map(drop)), Err(400));
        assert_eq!(delete("gracePeriodSeconds="), Err(400));
        assert_eq!(delete("propagationPolicy="), Err(422));
        let patch = WriteOptions::of(&Query::parse("force=false"), "PatchOptions", Some(false));
        assert_eq!(code(patch.map(drop)), Err(422));
    }
}
