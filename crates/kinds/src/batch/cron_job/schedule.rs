//! The syntax of schedules: five fields as cron has them, or a word such as `@daily`.

use rkube_machinery::field::quote;
use rkube_machinery::time;

use super::time_zone;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ScheduleError {
    #[error("empty spec string")]
    Empty,
    /// What a zone without anything behind it makes of the parser that others use.
    #[error("invalid schedule format: runtime error: slice bounds out of range [:-1]")]
    NoSchedule,
    #[error("provided bad location {0}: {1}")]
    Zone(String, time_zone::ZoneError),
    #[error("failed to parse duration {0}: {1}")]
    Duration(String, String),
    #[error("unrecognized descriptor: {0}")]
    Descriptor(String),
    #[error("expected exactly 5 fields, found {count}: [{fields}]")]
    FieldCount { count: usize, fields: String },
    #[error("too many hyphens: {0}")]
    Hyphens(String),
    #[error("too many slashes: {0}")]
    Slashes(String),
    #[error("failed to parse int from {text}: strconv.Atoi: parsing {}: {why}", quote(text))]
    Number { text: String, why: &'static str },
    #[error("negative number ({0}) not allowed: {1}")]
    Negative(i64, String),
    #[error("beginning of range ({0}) below minimum ({1}): {2}")]
    BelowMinimum(i64, i64, String),
    #[error("end of range ({0}) above maximum ({1}): {2}")]
    AboveMaximum(i64, i64, String),
    #[error("beginning of range ({0}) beyond end of range ({1}): {2}")]
    Backwards(i64, i64, String),
    #[error("step of range should be a positive number: {0}")]
    Step(String),
}

/// What a field may say. Names stand for numbers from `low` on.
struct Bounds {
    low: i64,
    high: i64,
    names: &'static [&'static str],
}

const MONTHS: &[&str] = &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: &[&str] = &["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
/// Minute, hour, day of the month, month, day of the week.
const FIELDS: [Bounds; 5] = [
    Bounds { low: 0, high: 59, names: &[] },
    Bounds { low: 0, high: 23, names: &[] },
    Bounds { low: 1, high: 31, names: &[] },
    Bounds { low: 1, high: 12, names: MONTHS },
    Bounds { low: 0, high: 6, names: DAYS },
];
const DESCRIPTORS: &[&str] = &["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];

/// Whether this is a schedule.
pub(super) fn check(schedule: &str) -> Result<(), ScheduleError> {
    if schedule.is_empty() {
        return Err(ScheduleError::Empty);
    }
    let mut rest = schedule;
    if let Some(zoned) = schedule.strip_prefix("TZ=").or_else(|| schedule.strip_prefix("CRON_TZ=")) {
        let (zone, tail) = zoned.split_once(' ').ok_or(ScheduleError::NoSchedule)?;
        time_zone::find(zone).map_err(|error| ScheduleError::Zone(zone.to_owned(), error))?;
        rest = tail.trim();
    }
    if rest.starts_with('@') {
        return check_descriptor(rest);
    }
    let fields: Vec<&str> = rest.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        return Err(ScheduleError::FieldCount { count: fields.len(), fields: fields.join(" ") });
    }
    let ranges = fields.iter().zip(&FIELDS).flat_map(|(field, bounds)| field.split(',').map(move |one| (one, bounds)));
    ranges.filter(|(range, _)| !range.is_empty()).try_for_each(|(range, bounds)| check_range(range, bounds))
}

fn check_descriptor(text: &str) -> Result<(), ScheduleError> {
    if DESCRIPTORS.contains(&text) {
        return Ok(());
    }
    match text.strip_prefix("@every ") {
        Some(duration) => match time::parse_duration(duration) {
            Ok(_) => Ok(()),
            Err(error) => Err(ScheduleError::Duration(text.to_owned(), error)),
        },
        None => Err(ScheduleError::Descriptor(text.to_owned())),
    }
}

/// `*`, `5`, `1-5` or `mon-fri`, each with a step behind a slash or without.
fn check_range(text: &str, bounds: &Bounds) -> Result<(), ScheduleError> {
    let mut halves = text.split('/');
    let (range, step) = (halves.next().unwrap_or_default(), halves.next());
    let mut ends = range.split('-');
    let (first, second, more) = (ends.next().unwrap_or_default(), ends.next(), ends.next().is_some());
    let (start, mut end) = match (first, second) {
        ("*" | "?", _) => (bounds.low, bounds.high),
        (first, None) => {
            let start = number_or_name(first, bounds)?;
            (start, start)
        }
        (first, Some(second)) => {
            let start = number_or_name(first, bounds)?;
            if more {
                return Err(ScheduleError::Hyphens(text.to_owned()));
            }
            (start, number_or_name(second, bounds)?)
        }
    };
    let mut every = 1;
    if let Some(step) = step {
        if halves.next().is_some() {
            return Err(ScheduleError::Slashes(text.to_owned()));
        }
        every = number(step)?;
        if second.is_none() {
            end = bounds.high;
        }
    }
    if start < bounds.low {
        return Err(ScheduleError::BelowMinimum(start, bounds.low, text.to_owned()));
    }
    if end > bounds.high {
        return Err(ScheduleError::AboveMaximum(end, bounds.high, text.to_owned()));
    }
    if start > end {
        return Err(ScheduleError::Backwards(start, end, text.to_owned()));
    }
    if every == 0 { Err(ScheduleError::Step(text.to_owned())) } else { Ok(()) }
}

fn number_or_name(text: &str, bounds: &Bounds) -> Result<i64, ScheduleError> {
    let named = bounds.names.iter().zip(bounds.low..).find(|(name, _)| name.eq_ignore_ascii_case(text));
    named.map_or_else(|| number(text), |(_, number)| Ok(number))
}

fn number(text: &str) -> Result<i64, ScheduleError> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let numeric = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse::<i64>() {
        Ok(number) if number < 0 => Err(ScheduleError::Negative(number, text.to_owned())),
        Ok(number) => Ok(number),
        Err(_) => {
            let why = if numeric { "value out of range" } else { "invalid syntax" };
            Err(ScheduleError::Number { text: text.to_owned(), why })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules() {
        let table = [
            ("* * * * *", ""),
            ("*/5 0-6,12 1 jan MON-fri", ""),
            ("0 0 ? * SUN", ""),
            ("5/10 * * * *", ""),
            (", * * * *", ""),
            ("@daily", ""),
            ("@every 1h30m", ""),
            ("TZ=Europe/Paris @hourly", ""),
            ("CRON_TZ= * * * * *", ""),
            ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
            ("x", "expected exactly 5 fields, found 1: [x]"),
            ("60 * * * *", "end of range (60) above maximum (59): 60"),
            ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
            ("* * * * 7", "end of range (7) above maximum (6): 7"),
            ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
            ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
            ("*/1/2 * * * *", "too many slashes: */1/2"),
            ("*/0 * * * *", "step of range should be a positive number: */0"),
            ("*/-1 * * * *", "negative number (-1) not allowed: -1"),
            ("a * * * *", "failed to parse int from a: strconv.Atoi: parsing \"a\": invalid syntax"),
            ("-1 * * * *", "failed to parse int from : strconv.Atoi: parsing \"\": invalid syntax"),
            (
                "99999999999999999999 * * * *",
                "failed to parse int from 99999999999999999999: strconv.Atoi: parsing \"99999999999999999999\": \
                 value out of range",
            ),
            ("@never", "unrecognized descriptor: @never"),
            ("@every x", "failed to parse duration @every x: time: invalid duration \"x\""),
            ("TZ=UTC", "invalid schedule format: runtime error: slice bounds out of range [:-1]"),
            ("TZ=Mars 0 * * * *", "provided bad location Mars: unknown time zone Mars"),
        ];
        for (schedule, want) in table {
            let found = check(schedule).err().map(|error| error.to_string()).unwrap_or_default();
            assert_eq!(found, want, "{schedule}");
        }
    }
}
