//! The query's options, and those that stand in a body (`DeleteOptions`), checked as Kubernetes checks them.

use std::time::Duration;

use percent_encoding::percent_decode;
use rkube_kinds::meta::validate_field_manager;
use rkube_machinery::field::{Errors, Path, quote};
use rkube_machinery::{Status, time};

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
    /// Whether an apply may take fields from others, where that is said.
    pub force: Option<bool>,
    pub label_selector: String,
    pub field_selector: String,
    pub watch: bool,
    pub allow_watch_bookmarks: bool,
    pub send_initial_events: Option<bool>,
    pub resource_version: Option<String>,
    pub version_match: Option<VersionMatch>,
    pub timeout_seconds: Option<i64>,
    pub limit: usize,
    pub continue_token: String,
    pub grace_period_seconds: Option<i64>,
    pub propagation_policy: Option<String>,
    pub orphan_dependents: Option<bool>,
    pub include_object: String,
    /// What only some subresources read, in the order given.
    pub others: Vec<(String, String)>,
    raw_dry_run: Vec<String>,
    raw_field_validation: String,
    raw_version_match: String,
    timeout: String,
    /// What is wrong with numbers that lists and watches read, and with those that deletions read.
    bad_list: Option<String>,
    bad_delete: Option<String>,
}

/// No request that is not meant to last takes longer.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(60);

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
            "force" => self.force = Some(truth(&value)),
            "labelSelector" => self.label_selector = value,
            "fieldSelector" => self.field_selector = value,
            "watch" => self.watch = truth(&value),
            "allowWatchBookmarks" => self.allow_watch_bookmarks = truth(&value),
            "sendInitialEvents" => self.send_initial_events = Some(truth(&value)),
            "resourceVersion" if !value.is_empty() => self.resource_version = Some(value),
            "resourceVersionMatch" => self.raw_version_match = value,
            "timeout" if self.timeout.is_empty() => self.timeout = value,
            "timeoutSeconds" => {
                self.timeout_seconds = number(&value, &mut self.bad_list);
            }
            "limit" => {
                let limit = number(&value, &mut self.bad_list);
                self.limit = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(0);
            }
            "continue" => self.continue_token = value,
            "gracePeriodSeconds" => self.grace_period_seconds = number(&value, &mut self.bad_delete),
            "propagationPolicy" => self.propagation_policy = Some(value),
            "orphanDependents" => self.orphan_dependents = Some(truth(&value)),
            "includeObject" => self.include_object = value,
            _ => self.others.push((key.to_owned(), value)),
        }
    }

    /// How long the request may take.
    pub fn time_limit(&self) -> Result<Duration, Status> {
        if self.timeout.is_empty() {
            return Ok(REQUEST_TIME_MAX);
        }
        let nanos = time::parse_duration(&self.timeout)
            .map_err(|error| Status::bad_request(format!("invalid timeout specified in the request URL - {error}")))?;
        let asked = u64::try_from(nanos).ok().filter(|nanos| *nanos > 0).map(Duration::from_nanos);
        Ok(asked.map_or(REQUEST_TIME_MAX, |asked| asked.min(REQUEST_TIME_MAX)))
    }

    /// How fields are to be validated, where the query says.
    pub fn given_field_validation(&self) -> &str {
        &self.raw_field_validation
    }

    /// Whether the query has a word on dry runs, whichever.
    pub fn speaks_of_dry_run(&self) -> bool {
        !self.raw_dry_run.is_empty()
    }

    /// Checks the options of a write. `patch`: whether `force` may be given, and whether this is an apply.
    pub fn check_write(&mut self, options_kind: &str, apply: Option<bool>) -> Result<(), Status> {
        let mut errors = Errors::new();
        if let Some(apply) = apply {
            if !apply && self.force.is_some() {
                errors.forbidden(Path::new("force"), "may not be specified for non-apply patch");
            }
            if apply && self.field_manager.is_empty() {
                errors.required(Path::new("fieldManager"), "is required for apply patch");
            }
        }
        validate_field_manager(Path::new("fieldManager"), &self.field_manager, &mut errors);
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
        refuse(self.bad_delete.as_ref())?;
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
        self.check_dry_run(&mut errors);
        finish("DeleteOptions", &errors)
    }

    /// Takes what a `DeleteOptions` body says in place of the query, which then counts for nothing.
    pub fn take_delete_body(&mut self, body: &rkube_machinery::Value) {
        self.bad_delete = None;
        self.grace_period_seconds = body.get("gracePeriodSeconds").as_int();
        self.propagation_policy = body.has("propagationPolicy").then(|| body.str("propagationPolicy").to_owned());
        self.orphan_dependents = body.get("orphanDependents").as_bool();
        self.raw_dry_run = body.list("dryRun").iter().map(|value| value.as_str().to_owned()).collect();
    }

    /// Takes over whether a body inside the request wants a dry run. It may not say another thing than the query.
    pub fn agree_on_dry_run(&mut self, inner: &[rkube_machinery::Value]) -> Result<(), Status> {
        let inner: Vec<&str> = inner.iter().map(rkube_machinery::Value::as_str).collect();
        if !inner.is_empty() && !self.raw_dry_run.is_empty() && self.raw_dry_run != inner {
            let message = format!(
                "Non-matching dry-run options in request and content: [{}] and [{}]",
                self.raw_dry_run.join(" "),
                inner.join(" ")
            );
            return Err(Status { code: 500, message, ..Status::default() });
        }
        self.dry_run |= !inner.is_empty();
        Ok(())
    }

    /// Checks the options of a list or watch.
    pub fn check_list(&mut self, watch_list: bool) -> Result<(), Status> {
        refuse(self.bad_list.as_ref())?;
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
        let from_now = matches!(self.resource_version.as_deref(), None | Some("0"));
        if watch_list && self.send_initial_events.is_none() && !match_given && from_now {
            // Such a watch begins with what is there, as if that had been asked for.
            if !self.continue_token.is_empty() {
                errors.forbidden(path, "resourceVersionMatch is forbidden when continue is provided");
            }
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
        if self.raw_dry_run.iter().any(|value| value != "All") {
            let shown =
                format!("[{}]", self.raw_dry_run.iter().map(|value| quote(value)).collect::<Vec<_>>().join(","));
            errors.not_supported(Path::new("dryRun"), BadText(shown), &["All"]);
        }
        self.dry_run = !self.raw_dry_run.is_empty();
    }
}

struct BadText(String);
impl From<BadText> for rkube_machinery::field::BadValue {
    fn from(text: BadText) -> Self {
        rkube_machinery::field::BadValue::Text(text.0)
    }
}

/// Reads a number as Go does; says in `bad` what is wrong with it.
pub fn number(text: &str, bad: &mut Option<String>) -> Option<i64> {
    let parsed = text.parse();
    if parsed.is_err() {
        let digits = text.trim_start_matches(['-', '+']);
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        let why = if is_number { "value out of range" } else { "invalid syntax" };
        bad.get_or_insert_with(|| format!("strconv.ParseInt: parsing {}: {why}", quote(text)));
    }
    parsed.ok()
}

fn refuse(bad: Option<&String>) -> Result<(), Status> {
    bad.map_or(Ok(()), |text| Err(Status::bad_request(text.clone())))
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
    fn two_words_on_dry_runs_must_agree() {
        let agree = |query: &str, inner: &[&str]| {
            let mut options = Options::parse(query);
            options.check_write("CreateOptions", None).unwrap();
            let inner: Vec<_> = inner.iter().map(|word| rkube_machinery::Value::from(*word)).collect();
            options.agree_on_dry_run(&inner).map(|()| options.dry_run)
        };
        assert_eq!(agree("", &[]), Ok(false));
        assert_eq!(agree("", &["All"]), Ok(true));
        assert_eq!(agree("dryRun=All", &[]), Ok(true));
        assert_eq!(agree("dryRun=All", &["All"]), Ok(true));
        let message = "Non-matching dry-run options in request and content: [All] and [All All]";
        assert_eq!(agree("dryRun=All", &["All", "All"]).unwrap_err().message, message);
    }

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
        assert!(Options::parse("limit=x&gracePeriodSeconds=").check_write("CreateOptions", None).is_ok());
        assert_eq!(Options::parse("gracePeriodSeconds=").check_delete().unwrap_err().code, 400);
        assert_eq!(Options::parse("propagationPolicy=").check_delete().unwrap_err().code, 422);
        assert_eq!(Options::parse("force=false").check_write("PatchOptions", Some(false)).unwrap_err().code, 422);
        assert_eq!(Options::parse("timeout=5").time_limit().unwrap_err().code, 400);
        assert_eq!(Options::parse("timeout=5s").time_limit().unwrap(), Duration::from_secs(5));
        assert_eq!(Options::parse("timeout=-5s").time_limit().unwrap(), REQUEST_TIME_MAX);
        assert_eq!(Options::parse("fieldValidation=x").check_write("CreateOptions", None).unwrap_err().code, 422);
    }
}
