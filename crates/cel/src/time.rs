//! Points in time and spans of it, within the bounds that CEL sets.

use rkube_machinery::time;

/// The first second of the year 1.
const SECONDS_MIN: i64 = -62_135_596_800;
/// The last second of the year 9999.
const SECONDS_MAX: i64 = 253_402_300_799;
const NANOS: i64 = 1_000_000_000;
const DAY_SECONDS: i64 = 86_400;

/// A point in time. `zone` is the offset in which it was written, which shows when it is written again.
#[derive(Clone, Copy, Debug)]
pub struct Timestamp {
    pub seconds: i64,
    pub nanos: u32,
    pub zone_seconds: i64,
}

/// A time as calendars and clocks show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Civil {
    pub year: i64,
    /// From one.
    pub month: i64,
    pub day: i64,
    /// From zero.
    pub day_of_year: i64,
    /// From zero, which is Sunday.
    pub weekday: i64,
    pub hour: i64,
    pub minute: i64,
    pub second: i64,
}

impl Timestamp {
    pub fn parse(text: &str) -> Option<Timestamp> {
        let (seconds, nanos) = time::parse(text).ok()?;
        let zone_seconds = zone_of(text);
        Timestamp { seconds, nanos, zone_seconds }.checked()
    }

    pub fn from_seconds(seconds: i64) -> Option<Timestamp> {
        Timestamp { seconds, nanos: 0, zone_seconds: 0 }.checked()
    }

    fn checked(self) -> Option<Timestamp> {
        (SECONDS_MIN..=SECONDS_MAX).contains(&self.seconds).then_some(self)
    }

    /// Later by so many nanoseconds.
    pub fn plus(self, nanos: i64) -> Option<Timestamp> {
        let total = i64::from(self.nanos) + nanos.rem_euclid(NANOS);
        let seconds = self.seconds.checked_add(nanos.div_euclid(NANOS))?.checked_add(total.div_euclid(NANOS))?;
        Timestamp { seconds, nanos: total.rem_euclid(NANOS) as u32, ..self }.checked()
    }

    /// The nanoseconds from `other` to this.
    pub fn since(self, other: Timestamp) -> Option<i64> {
        let seconds = self.seconds.checked_sub(other.seconds)?;
        seconds.checked_mul(NANOS)?.checked_add(i64::from(self.nanos) - i64::from(other.nanos))
    }

    pub fn key(&self) -> (i64, u32) {
        (self.seconds, self.nanos)
    }

    /// As calendars and clocks show it at this offset from UTC.
    pub fn civil(&self, offset_seconds: i64) -> Civil {
        let local = self.seconds + offset_seconds;
        let (days, rest) = (local.div_euclid(DAY_SECONDS), local.rem_euclid(DAY_SECONDS));
        let (year, month, day) = time::civil_from_days(days);
        Civil {
            year,
            month,
            day,
            day_of_year: days - time::days_from_civil(year, 1, 1),
            weekday: (days + 4).rem_euclid(7),
            hour: rest / 3600,
            minute: rest / 60 % 60,
            second: rest % 60,
        }
    }

    /// RFC 3339 in the offset in which it was written.
    pub fn text(&self) -> String {
        let civil = self.civil(self.zone_seconds);
        let mut text = format!(
            "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}",
            civil.year, civil.month, civil.day, civil.hour, civil.minute, civil.second
        );
        if self.nanos > 0 {
            text.push_str(format!(".{:09}", self.nanos).trim_end_matches('0'));
        }
        let minutes = self.zone_seconds / 60;
        match minutes {
            0 => text.push('Z'),
            _ => {
                let sign = if minutes < 0 { '-' } else { '+' };
                text.push_str(&format!("{sign}{:02}:{:02}", minutes.abs() / 60, minutes.abs() % 60));
            }
        }
        text
    }
}

/// The nanoseconds of a duration as it is written.
pub fn parse_duration(text: &str) -> Option<i64> {
    time::parse_duration(text).ok()
}

/// The offset from UTC of a fixed one such as `+02:00`, or of UTC itself.
pub fn fixed_offset(zone: &str) -> Option<i64> {
    if zone.is_empty() || zone == "UTC" {
        return Some(0);
    }
    let (hours, minutes) = zone.split_once(':')?;
    let negative = hours.starts_with('-');
    let hours: i64 = hours.strip_prefix(['+', '-']).unwrap_or(hours).parse().ok()?;
    let minutes: i64 = minutes.parse().ok()?;
    let seconds = hours.checked_mul(3600)?.checked_add(minutes.checked_mul(60)?)?;
    Some(if negative { -seconds } else { seconds })
}

/// The offset at the end of an RFC 3339 text.
pub(crate) fn zone_of(text: &str) -> i64 {
    let start = text.len().saturating_sub(6);
    text.get(start..).filter(|zone| zone.starts_with(['+', '-'])).and_then(fixed_offset).unwrap_or(0)
}
