//! The query's options, and those that stand in a body (`DeleteOptions`), checked as Kubernetes checks them.

use percent_encoding::percent_decode;
use rkube_machinery::Status;
use rkube_machinery::field::{Errors, Path, quote};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldValidation {
    Ignore,
    #[default]
    Warn,
    Strict,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionMatch {
    NotOlderThan,
    Exact,
}

/// Every option that a query may carry, for whichever verb.
#[derive(Clone, Debug, Default)]
pub struct Options {
    pub pretty: Option<bool>,
    pub dry_run: bool,
    pub field_manager: String,
    pub field_validation: FieldValidation,
    pub force: bool,
    pub label_selector: String,
    pub field_selector: String,
    pub watch: bool,
    pub allow_watch_bookmarks: bool,
    pub send_initial_events: Option<bool>,
    pub resource_version: Option<String>,
    pub version_match: Option<VersionMatch>,
    pub timeout_seconds: Option<u64>,
    pub limit: usize,
    pub continue_token: String,
    pub grace_period_seconds: Option<i64>,
    pub propagation_policy: String,
    pub orphan_dependents: Option<bool>,
    pub include_object: String,
    raw_dry_run: Vec<String>,
    raw_field_validation: String,
    raw_version_match: String,
    bad: Option<String>,
}

impl Options {
    pub fn parse(query: &str) -> Options {
        let mut options = Options::default();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            options.take(&unescape(key), unescape(value));
        }
        options
    }

    fn take(&mut self, key: &str, value: String) {
        match key {
            "pretty" => self.pretty = Some(!matches!(value.as_str(), "false" | "0")),
            "dryRun" => self.raw_dry_run.push(value),
            "fieldManager" => self.field_manager = value,
            "fieldValidation" => self.raw_field_validation = value,
            "force" => self.force = truth(&value),
            "labelSelector" => self.label_selector = value,
            "fieldSelector" => self.field_selector = value,
            "watch" => self.watch = truth(&value),
            "allowWatchBookmarks" => self.allow_watch_bookmarks = truth(&value),
            "sendInitialEvents" => self.send_initial_events = Some(truth(&value)),
            "resourceVersion" if !value.is_empty() => self.resource_version = Some(value),
            "resourceVersionMatch" => self.raw_version_match = value,
            "timeoutSeconds" => {
                self.timeout_seconds = self.number(&value).and_then(|number| u64::try_from(number).ok())
            }
            "limit" => self.limit = self.number(&value).and_then(|number| usize::try_from(number).ok()).unwrap_or(0),
            "continue" => self.continue_token = value,
            "gracePeriodSeconds" => self.grace_period_seconds = self.number(&value),
            "propagationPolicy" => self.propagation_policy = value,
            "orphanDependents" => self.orphan_dependents = Some(truth(&value)),
            "includeObject" => self.include_object = value,
            _ => {}
        }
    }

    fn number(&mut self, value: &str) -> Option<i64> {
        if value.is_empty() {
            return None;
        }
        match value.parse() {
            Ok(number) => Some(number),
            Err(_) => {
                let digits = value.trim_start_matches(['-', '+']);
                let number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
                let why = if number { "value out of range" } else { "invalid syntax" };
                self.bad = Some(format!("strconv.ParseInt: parsing {}: {why}", quote(value)));
                None
            }
        }
    }

    /// Checks the options of a write. `patch`: whether `force` may be given, and whether this is an apply.
    pub fn check_write(&mut self, options_kind: &str, apply: Option<bool>) -> Result<(), Status> {
        self.check_numbers()?;
        let mut errors = Errors::new();
        if let Some(apply) = apply {
            if !apply && self.force {
                errors.forbidden(Path::new("force"), "may not be specified for non-apply patch");
            }
            if apply && self.field_manager.is_empty() {
                errors.required(Path::new("fieldManager"), "is required for apply patch");
            }
        }
        check_field_manager(&self.field_manager, &mut errors);
        self.check_dry_run(&mut errors);
        match self.raw_field_validation.as_str() {
            "" | "Warn" => self.field_validation = FieldValidation::Warn,
            "Strict" => self.field_validation = FieldValidation::Strict,
            "Ignore" => self.field_validation = FieldValidation::Ignore,
            other => errors.not_supported(Path::new("fieldValidation"), other, &["", "Ignore", "Strict", "Warn"]),
        }
        finish(options_kind, &errors)
    }

    /// Checks the options of a deletion.
    pub fn check_delete(&mut self) -> Result<(), Status> {
        self.check_numbers()?;
        let mut errors = Errors::new();
        if self.orphan_dependents.is_some() && !self.propagation_policy.is_empty() {
            errors.invalid(
                Path::new("propagationPolicy"),
                self.propagation_policy.as_str(),
                "orphanDependents and deletionPropagation cannot be both set",
            );
        }
        if !matches!(self.propagation_policy.as_str(), "" | "Foreground" | "Background" | "Orphan") {
            errors.not_supported(
                Path::new("propagationPolicy"),
                self.propagation_policy.as_str(),
                &["Foreground", "Background", "Orphan", "nil"],
            );
        }
        self.check_dry_run(&mut errors);
        finish("DeleteOptions", &errors)
    }

    /// Takes what a `DeleteOptions` body says in place of the query.
    pub fn take_delete_body(&mut self, body: &rkube_machinery::Value) {
        if let Some(seconds) = body.get("gracePeriodSeconds").as_int() {
            self.grace_period_seconds = Some(seconds);
        }
        if body.has("propagationPolicy") {
            self.propagation_policy = body.str("propagationPolicy").to_owned();
        }
        if let Some(orphan) = body.get("orphanDependents").as_bool() {
            self.orphan_dependents = Some(orphan);
        }
        self.raw_dry_run.extend(body.list("dryRun").iter().map(|value| value.as_str().to_owned()));
    }

    /// Checks the options of a list or watch.
    pub fn check_list(&mut self, watch_list: bool) -> Result<(), Status> {
        self.check_numbers()?;
        let mut errors = Errors::new();
        let path = Path::new("resourceVersionMatch");
        self.version_match = match self.raw_version_match.as_str() {
            "NotOlderThan" => Some(VersionMatch::NotOlderThan),
            "Exact" => Some(VersionMatch::Exact),
            _ => None,
        };
        let given = !self.raw_version_match.is_empty();
        if self.watch {
            self.check_watch(given, watch_list, &mut errors);
            return finish("ListOptions", &errors);
        }
        if self.send_initial_events.is_some() {
            errors.forbidden(Path::new("sendInitialEvents"), "sendInitialEvents is forbidden for list");
        }
        if given && self.resource_version.is_none() {
            errors.forbidden(path, "resourceVersionMatch is forbidden unless resourceVersion is provided");
        }
        if given && !self.continue_token.is_empty() {
            errors.forbidden(path, "resourceVersionMatch is forbidden when continue is provided");
        }
        if given && self.version_match.is_none() {
            errors.not_supported(path, self.raw_version_match.as_str(), &["Exact", "NotOlderThan", ""]);
        }
        if self.version_match == Some(VersionMatch::Exact) && self.resource_version.as_deref() == Some("0") {
            errors.forbidden(path, "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"");
        }
        finish("ListOptions", &errors)
    }

    fn check_watch(&self, match_given: bool, watch_list: bool, errors: &mut Errors) {
        let path = Path::new("resourceVersionMatch");
        let right = self.version_match == Some(VersionMatch::NotOlderThan);
        if self.send_initial_events.is_some() && !right {
            errors.forbidden(path, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan");
        }
        if self.send_initial_events.is_some() && !watch_list {
            let why = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled";
            errors.forbidden(Path::new("sendInitialEvents"), why);
        }
        if !match_given {
            return;
        }
        if self.send_initial_events.is_none() {
            errors.forbidden(path, "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided");
        }
        if !right {
            errors.not_supported(path, self.raw_version_match.as_str(), &["NotOlderThan"]);
        }
        if !self.continue_token.is_empty() {
            errors.forbidden(path, "resourceVersionMatch is forbidden when continue is provided");
        }
    }

    fn check_dry_run(&mut self, errors: &mut Errors) {
        self.raw_dry_run.retain(|value| !value.is_empty());
        if self.raw_dry_run.iter().any(|value| value != "All") {
            let shown =
                format!("[{}]", self.raw_dry_run.iter().map(|value| quote(value)).collect::<Vec<_>>().join(","));
            errors.not_supported(Path::new("dryRun"), BadText(shown), &["All"]);
        }
        self.dry_run = !self.raw_dry_run.is_empty();
    }

    fn check_numbers(&self) -> Result<(), Status> {
        match &self.bad {
            Some(text) => Err(Status::bad_request(text.clone())),
            None => Ok(()),
        }
    }
}

struct BadText(String);
impl From<BadText> for rkube_machinery::field::BadValue {
    fn from(text: BadText) -> Self {
        rkube_machinery::field::BadValue::Text(text.0)
    }
}

const FIELD_MANAGER_MAX: usize = 128;

fn check_field_manager(manager: &str, errors: &mut Errors) {
    let path = Path::new("fieldManager");
    if manager.len() > FIELD_MANAGER_MAX {
        errors.too_long(path, FIELD_MANAGER_MAX);
    }
    if manager.chars().any(char::is_control) {
        errors.invalid(path, manager, "should only contain printable characters");
    }
}

fn finish(kind: &str, errors: &Errors) -> Result<(), Status> {
    if errors.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(&rkube_machinery::GroupResource::new("meta.k8s.io", kind), "", errors))
}

fn truth(value: &str) -> bool {
    !matches!(value, "false" | "0")
}

fn unescape(text: &str) -> String {
    let plain: Vec<u8> = text.bytes().map(|byte| if byte == b'+' { b' ' } else { byte }).collect();
    percent_decode(&plain).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_and_checked() {
        let mut options =
            Options::parse("limit=5&labelSelector=a%3Db%2Cc&watch=true&dryRun=All&fieldValidation=Strict");
        options.check_write("CreateOptions", None).unwrap();
        assert_eq!(options.limit, 5);
        assert_eq!(options.label_selector, "a=b,c");
        assert!(options.watch && options.dry_run);
        assert_eq!(options.field_validation, FieldValidation::Strict);
        assert_eq!(Options::parse("limit=x").check_list(true).unwrap_err().code, 400);
        assert_eq!(Options::parse("fieldValidation=x").check_write("CreateOptions", None).unwrap_err().code, 422);
    }
}
