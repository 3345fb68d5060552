//! The query taken apart: every option that it may carry, for whichever verb. What a verb makes of its options is in
//! [`super::options`].

use std::time::Duration;

use percent_encoding::percent_decode;
use rkube_machinery::field::quote;
use rkube_machinery::{Status, time};

#[derive(Debug, Default)]
pub struct Query {
    pub pretty: Option<bool>,
    /// As given: what is no `All` is an error of the verbs that know dry runs.
    pub dry_run: Vec<String>,
    pub field_manager: String,
    /// As given; empty: the query has no word on it.
    pub field_validation: String,
    /// Whether an apply may take fields from others, where that is said.
    pub force: Option<bool>,
    pub label_selector: String,
    pub field_selector: String,
    pub watch: bool,
    pub allow_watch_bookmarks: bool,
    pub send_initial_events: Option<bool>,
    pub resource_version: Option<String>,
    /// As given.
    pub resource_version_match: String,
    pub timeout_seconds: Option<i64>,
    pub limit: usize,
    pub continue_token: String,
    pub grace_period_seconds: Option<i64>,
    pub propagation_policy: Option<String>,
    pub orphan_dependents: Option<bool>,
    pub include_object: String,
    /// What only some subresources read, in the order given.
    pub others: Vec<(String, String)>,
    timeout: String,
    /// What is wrong with numbers that lists and watches read, and with those that deletions read.
    pub(super) bad_list: Option<String>,
    pub(super) bad_delete: Option<String>,
}

/// No request that is not meant to last takes longer.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(60);

impl Query {
    pub fn parse(text: &str) -> Query {
        let mut query = Query::default();
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            query.take(&unescape(key), unescape(value));
        }
        query
    }

    fn take(&mut self, key: &str, value: String) {
        match key {
            "pretty" => self.pretty = Some(!matches!(value.as_str(), "false" | "0")),
            "dryRun" => self.dry_run.push(value),
            "fieldManager" => self.field_manager = value,
            "fieldValidation" => self.field_validation = value,
            "force" => self.force = Some(truth(&value)),
            "labelSelector" => self.label_selector = value,
            "fieldSelector" => self.field_selector = value,
            "watch" => self.watch = truth(&value),
            "allowWatchBookmarks" => self.allow_watch_bookmarks = truth(&value),
            "sendInitialEvents" => self.send_initial_events = Some(truth(&value)),
            "resourceVersion" if !value.is_empty() => self.resource_version = Some(value),
            "resourceVersionMatch" => self.resource_version_match = value,
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
    fn options_are_read() {
        let query = Query::parse("limit=5&labelSelector=a%3Db%2Cc&watch=true&dryRun=All&fieldValidation=Strict");
        assert_eq!(query.limit, 5);
        assert_eq!(query.label_selector, "a=b,c");
        assert!(query.watch);
        assert_eq!((query.dry_run, query.field_validation.as_str()), (vec!["All".to_owned()], "Strict"));
        assert_eq!(Query::parse("timeout=5").time_limit().unwrap_err().code, 400);
        assert_eq!(Query::parse("timeout=5s").time_limit().unwrap(), Duration::from_secs(5));
        assert_eq!(Query::parse("timeout=-5s").time_limit().unwrap(), REQUEST_TIME_MAX);
    }
}
