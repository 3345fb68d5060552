//! Texts whose format says that they are something else: durations, dates and bytes.

use rkube_machinery::decode::base64;
use rkube_machinery::time;
use rkube_machinery::value::Text;

use crate::functions::{Outcome, failed};
use crate::time::{Timestamp, zone_of};
use crate::value::Value;

const HOUR_NANOS: i64 = 3_600_000_000_000;

/// Words for units of time. A word of the last column may be longer than it stands there.
const UNITS: [(&[&str], &str, i64); 8] = [
    (&["ns"], "nano", 1),
    (&["us", "µs"], "micro", 1_000),
    (&["ms"], "milli", 1_000_000),
    (&["s"], "sec", 1_000_000_000),
    (&["m"], "min", 60_000_000_000),
    (&["h", "hr"], "hour", HOUR_NANOS),
    (&["d"], "day", 24 * HOUR_NANOS),
    (&["w", "wk"], "week", 7 * 24 * HOUR_NANOS),
];

/// The text as a value of its format.
pub fn value(format: &str, text: &Text) -> Outcome<'static> {
    match format {
        "duration" => match duration(text) {
            Ok(nanos) => Ok(Value::Duration(nanos)),
            Err(reason) => failed(format!("Invalid duration {text}: {reason}")),
        },
        "date" => match time::parse_date(text) {
            Ok(seconds) => Ok(Value::Timestamp(Timestamp { seconds, nanos: 0, zone_seconds: 0 })),
            Err(reason) => failed(format!("Invalid date formatted string {text}: {reason}")),
        },
        "date-time" => match date_time(text) {
            Ok(at) => Ok(Value::Timestamp(at)),
            Err(reason) => failed(format!("Invalid date-time formatted string {text}: {reason}")),
        },
        "byte" => match bytes(text) {
            Ok(bytes) => Ok(Value::Bytes(bytes.into())),
            Err(at) => {
                let reason = format!("illegal base64 data at input byte {at}");
                failed(format!("Invalid byte formatted string {text}: {reason}"))
            }
        },
        _ => Ok(Value::String(text.clone().into())),
    }
}

/// As Go writes durations, or in words: `2 days 3 hours`.
fn duration(text: &str) -> Result<i64, String> {
    if let Ok(nanos) = time::parse_duration(text) {
        return Ok(nanos);
    }
    let mut total: Option<i64> = None;
    let mut rest = text;
    while let Some(start) = rest.find(|letter: char| letter.is_ascii_digit()) {
        let from = &rest[start..];
        let digits = from.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(from.len());
        let after = from[digits..].trim_start_matches(['\t', '\n', '\u{c}', '\r', ' ']);
        let word = after.find(|letter: char| !(letter.is_ascii_alphabetic() || letter == 'µ')).unwrap_or(after.len());
        rest = &after[word..];
        if word == 0 {
            continue;
        }
        let count: i64 = from[..digits].parse().map_err(|_| {
            let quoted = rkube_machinery::field::quote(&from[..digits]);
            format!("strconv.Atoi: parsing {quoted}: value out of range")
        })?;
        for nanos in units(&after[..word].to_lowercase()) {
            total = Some(total.unwrap_or(0).wrapping_add(count.wrapping_mul(nanos)));
        }
    }
    total.ok_or_else(|| format!("unable to parse {text} as duration"))
}

/// The nanoseconds of all units that the word can mean.
fn units(word: &str) -> impl Iterator<Item = i64> {
    UNITS
        .iter()
        .filter_map(move |(exact, prefix, nanos)| (exact.contains(&word) || word.starts_with(prefix)).then_some(*nanos))
}

fn date_time(text: &str) -> Result<Timestamp, String> {
    if text.is_empty() {
        return Ok(Timestamp { seconds: 0, nanos: 0, zone_seconds: 0 });
    }
    if let Ok((seconds, nanos)) = time::parse(text) {
        return Ok(Timestamp { seconds, nanos, zone_seconds: zone_of(text) });
    }
    time::parse_local(text).map(|(seconds, nanos)| Timestamp { seconds, nanos, zone_seconds: 0 })
}

/// Base64 in the alphabet of URLs; the error is the offset that Go reports.
fn bytes(text: &str) -> Result<Vec<u8>, usize> {
    let letters = text.bytes().map(|byte| match byte {
        b'-' => b'+',
        b'_' => b'/',
        // Letters of the other alphabet are wrong here.
        b'+' | b'/' => b'!',
        other => other,
    });
    base64::decode(&letters.collect::<Vec<u8>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_in_words() {
        for (text, nanos) in [
            ("90s", 90 * 1_000_000_000),
            ("1 day", 24 * HOUR_NANOS),
            ("2 weeks 1 hour", 337 * HOUR_NANOS),
            ("1d", 24 * HOUR_NANOS),
            ("3 µs", 3_000),
        ] {
            assert_eq!(duration(text), Ok(nanos), "{text}");
        }
        assert_eq!(duration("x"), Err("unable to parse x as duration".to_owned()));
    }

    #[test]
    fn bytes_of_urls() {
        assert_eq!(bytes("aGVsbG8="), Ok(b"hello".to_vec()));
        assert_eq!(bytes("-_-_"), Ok(vec![0xfb, 0xff, 0xbf]));
        assert_eq!(bytes("ab+/"), Err(2));
    }

    #[test]
    fn times_without_a_zone() {
        assert!(date_time("2026-01-02T03:04:05").is_ok());
        let wrong = date_time("nope").expect_err("is no time");
        assert_eq!(wrong, "parsing time \"nope\" as \"2006-01-02T15:04:05\": cannot parse \"nope\" as \"2006\"");
    }
}
