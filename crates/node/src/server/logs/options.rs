//! What may be asked for: `PodLogOptions` as a query.

use http::StatusCode;
use rkube_machinery::time;

use crate::server::query::Query;

const NANOS: i128 = 1_000_000_000;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogOptions {
    pub follow: bool,
    pub previous: bool,
    pub timestamps: bool,
    /// Lines from before this are left out: nanoseconds since 1970.
    pub since_nanos: Option<i128>,
    pub tail_lines: Option<u64>,
    pub limit_bytes: Option<u64>,
    pub stream: Selection,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Selection {
    #[default]
    All,
    Stdout,
    Stderr,
}

/// What is answered to a query that cannot be followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    Undecodable,
    Invalid,
}

impl Refusal {
    pub fn answer(self) -> (StatusCode, &'static str) {
        match self {
            Refusal::Undecodable => (StatusCode::BAD_REQUEST, r#"{"message": "Unable to decode query."}"#),
            Refusal::Invalid => (StatusCode::UNPROCESSABLE_ENTITY, r#"{"message": "Invalid request."}"#),
        }
    }
}

impl LogOptions {
    pub fn parse(query: &Query, now_micros: i64) -> Result<LogOptions, Refusal> {
        let tail = match query.get("tail").filter(|tail| !tail.is_empty()) {
            // An old name, under which all of it can be asked for.
            Some("all") => None,
            Some(tail) => Some(integer(tail)?),
            None => query.get("tailLines").map(integer).transpose()?,
        };
        let since_seconds = query.get("sinceSeconds").map(integer).transpose()?;
        let since_time = query.get("sinceTime").map(instant).transpose()?.flatten();
        let limit = query.get("limitBytes").map(integer).transpose()?;
        let stream = match query.get("stream") {
            None | Some("All") => Selection::All,
            Some("Stdout") => Selection::Stdout,
            Some("Stderr") => Selection::Stderr,
            Some(_) => return Err(Refusal::Invalid),
        };
        let is_invalid = tail.is_some_and(|lines| lines < 0)
            || limit.is_some_and(|bytes| bytes < 1)
            || since_seconds.is_some_and(|seconds| seconds < 1)
            || (since_seconds.is_some() && since_time.is_some())
            || (stream != Selection::All && tail.is_some());
        if is_invalid {
            return Err(Refusal::Invalid);
        }
        let since_seconds = since_seconds.map(|seconds| i128::from(now_micros) * 1_000 - i128::from(seconds) * NANOS);
        Ok(LogOptions {
            follow: flag(query.get("follow")),
            previous: flag(query.get("previous")),
            timestamps: flag(query.get("timestamps")),
            since_nanos: since_seconds.or(since_time),
            tail_lines: tail.and_then(|lines| u64::try_from(lines).ok()),
            limit_bytes: limit.and_then(|bytes| u64::try_from(bytes).ok()),
            stream,
        })
    }
}

/// As upstream reads a boolean of a query.
fn flag(text: Option<&str>) -> bool {
    text.is_some_and(|text| text != "0" && !text.eq_ignore_ascii_case("false"))
}

fn integer(text: &str) -> Result<i64, Refusal> {
    text.parse().map_err(|_| Refusal::Undecodable)
}

fn instant(text: &str) -> Result<Option<i128>, Refusal> {
    if text.is_empty() || text == "null" {
        return Ok(None);
    }
    let (seconds, nanos) = time::parse(text).map_err(|_| Refusal::Undecodable)?;
    Ok(Some(i128::from(seconds) * NANOS + i128::from(nanos)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(query: &str) -> Result<LogOptions, Refusal> {
        LogOptions::parse(&Query::parse(query), 1_000_000_000_000)
    }

    #[test]
    fn what_may_be_asked_for() {
        let options = parse("follow=true&timestamps=1&previous=false&tailLines=5&limitBytes=7&sinceSeconds=3").unwrap();
        let expected = LogOptions {
            follow: true,
            timestamps: true,
            tail_lines: Some(5),
            limit_bytes: Some(7),
            since_nanos: Some((1_000_000 - 3) * NANOS),
            ..LogOptions::default()
        };
        assert_eq!(options, expected);
        assert_eq!(parse(""), Ok(LogOptions::default()));
        assert_eq!(parse("tail=all&tailLines=3").unwrap().tail_lines, None);
        assert_eq!(parse("tail=4").unwrap().tail_lines, Some(4));
        assert_eq!(parse("sinceTime=1970-01-01T00:00:01.5Z").unwrap().since_nanos, Some(1_500_000_000));
        assert_eq!(parse("stream=Stderr").unwrap().stream, Selection::Stderr);
    }

    #[test]
    fn what_may_not() {
        for query in ["tailLines=x", "limitBytes=", "sinceTime=yesterday", "sinceSeconds=1.5"] {
            assert_eq!(parse(query), Err(Refusal::Undecodable), "{query}");
        }
        let invalid = [
            "tailLines=-1",
            "limitBytes=0",
            "sinceSeconds=0",
            "sinceSeconds=1&sinceTime=2020-01-01T00:00:00Z",
            "stream=Stdin",
            "stream=Stdout&tailLines=1",
        ];
        for query in invalid {
            assert_eq!(parse(query), Err(Refusal::Invalid), "{query}");
        }
    }
}
