//! Points in time and spans as Kubernetes writes them: RFC 3339 in UTC, Go's durations, and ages for people.
//!
//! Only arithmetic on the proleptic Gregorian calendar; no clock and no time zones but fixed offsets.

/// Go's zero time, `0001-01-01T00:00:00Z`, which is written as null.
pub const ZERO_SECONDS: i64 = -62_135_596_800;

const SECONDS_LAYOUT: &str = "2006-01-02T15:04:05Z07:00";
const MICROS_LAYOUT: &str = "2006-01-02T15:04:05.000000Z07:00";
const LOCAL_LAYOUT: &str = "2006-01-02T15:04:05";
const DATE_LAYOUT: &str = "2006-01-02";
const DAY_SECONDS: i64 = 86_400;

/// Seconds since 1970 as `2006-01-02T15:04:05Z`.
pub fn format_seconds(seconds: i64) -> String {
    let mut text = date_and_time(seconds);
    text.push('Z');
    text
}

/// Microseconds since 1970 as `2006-01-02T15:04:05.000000Z`.
pub fn format_micros(micros: i64) -> String {
    let mut text = date_and_time(micros.div_euclid(1_000_000));
    text.push_str(&format!(".{:06}Z", micros.rem_euclid(1_000_000)));
    text
}

fn date_and_time(seconds: i64) -> String {
    let (year, month, day) = civil_from_days(seconds.div_euclid(DAY_SECONDS));
    let rest = seconds.rem_euclid(DAY_SECONDS);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    if !(0..=9999).contains(&year) {
        return format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}");
    }
    // Every object that is written has such a text in it.
    let mut text = String::with_capacity("2006-01-02T15:04:05.000000Z".len());
    let parts =
        [(' ', year / 100), (' ', year % 100), ('-', month), ('-', day), ('T', hour), (':', minute), (':', second)];
    for (before, number) in parts {
        if before != ' ' {
            text.push(before);
        }
        text.push(char::from(b'0' + (number / 10) as u8));
        text.push(char::from(b'0' + (number % 10) as u8));
    }
    text
}

/// RFC 3339 as seconds since 1970 and nanoseconds. The error is worded as Go's `time.Parse` words it.
pub fn parse(text: &str) -> Result<(i64, u32), String> {
    Reader { whole: text, rest: text, layout: SECONDS_LAYOUT }.read()
}

/// RFC 3339 with exactly six digits behind the second, as seconds since 1970 and nanoseconds.
pub fn parse_micros(text: &str) -> Result<(i64, u32), String> {
    Reader { whole: text, rest: text, layout: MICROS_LAYOUT }.read()
}

/// A time of day without a zone, which is taken for UTC, as seconds since 1970 and nanoseconds.
pub fn parse_local(text: &str) -> Result<(i64, u32), String> {
    Reader { whole: text, rest: text, layout: LOCAL_LAYOUT }.read()
}

/// The first second of a day such as `2006-01-02`, since 1970.
pub fn parse_date(text: &str) -> Result<i64, String> {
    Reader { whole: text, rest: text, layout: DATE_LAYOUT }.read().map(|(seconds, _)| seconds)
}

/// The text in UTC to the second, as an object carries it; none for the zero time.
pub fn canonical_seconds(text: &str) -> Result<Option<String>, String> {
    let (seconds, nanos) = parse(text)?;
    Ok((seconds != ZERO_SECONDS || nanos != 0).then(|| format_seconds(seconds)))
}

/// The text in UTC with six digits, as an object carries it; none for the zero time.
pub fn canonical_micros(text: &str) -> Result<Option<String>, String> {
    let (seconds, nanos) = parse_micros(text)?;
    let micros = seconds * 1_000_000 + i64::from(nanos / 1000);
    Ok((seconds != ZERO_SECONDS || nanos != 0).then(|| format_micros(micros)))
}

/// Walks a text along Go's layout, element by element.
struct Reader<'a> {
    whole: &'a str,
    rest: &'a str,
    layout: &'static str,
}

impl Reader<'_> {
    fn read(mut self) -> Result<(i64, u32), String> {
        let year = self.year()?;
        self.skip("-")?;
        let month = self.two_digits("01", 1..=12, "month", true)?;
        self.skip("-")?;
        let day = self.two_digits("02", 0..=99, "day", true)?;
        let (seconds, nanos) = if self.layout == DATE_LAYOUT { (0, 0) } else { self.time_of_day()? };
        if !self.rest.is_empty() {
            return Err(self.message(&format!(": extra text: {}", quote(self.rest))));
        }
        if day < 1 || day > days_in(year, month) {
            return Err(self.message(": day out of range"));
        }
        Ok((days_from_civil(year, month, day) * DAY_SECONDS + seconds, nanos))
    }

    /// Seconds since midnight in UTC, and nanoseconds.
    fn time_of_day(&mut self) -> Result<(i64, u32), String> {
        self.skip("T")?;
        let hour = self.two_digits("15", 0..=23, "hour", false)?;
        self.skip(":")?;
        let minute = self.two_digits("04", 0..=59, "minute", true)?;
        self.skip(":")?;
        let second = self.two_digits("05", 0..=59, "second", true)?;
        let nanos = if self.layout == MICROS_LAYOUT { self.six_digits()? } else { self.fraction() };
        let offset = if self.layout == LOCAL_LAYOUT { 0 } else { self.offset()? };
        Ok((hour * 3600 + minute * 60 + second - offset, nanos))
    }

    fn year(&mut self) -> Result<i64, String> {
        let digits = self.rest.as_bytes().get(..4).filter(|digits| digits.iter().all(u8::is_ascii_digit));
        let Some(digits) = digits else { return Err(self.mismatch("2006")) };
        let year = number(digits);
        self.rest = &self.rest[4..];
        Ok(year)
    }

    fn two_digits(
        &mut self,
        element: &str,
        range: std::ops::RangeInclusive<i64>,
        name: &str,
        fixed: bool,
    ) -> Result<i64, String> {
        let bytes = self.rest.as_bytes();
        let count = bytes.iter().take(2).take_while(|byte| byte.is_ascii_digit()).count();
        if count == 0 || (fixed && count == 1) {
            return Err(self.mismatch(element));
        }
        let read = number(&bytes[..count]);
        self.rest = &self.rest[count..];
        if !range.contains(&read) {
            return Err(self.message(&format!(": {name} out of range")));
        }
        Ok(read)
    }

    /// Digits behind the second may stand there although the layout has none.
    fn fraction(&mut self) -> u32 {
        let bytes = self.rest.as_bytes();
        if !matches!(bytes.first(), Some(b'.' | b',')) {
            return 0;
        }
        let count = bytes[1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        if count == 0 {
            return 0;
        }
        let nanos = nanos(&bytes[1..=count]);
        self.rest = &self.rest[1 + count..];
        nanos
    }

    fn six_digits(&mut self) -> Result<u32, String> {
        let digits = self
            .rest
            .as_bytes()
            .get(..7)
            .filter(|seven| matches!(seven[0], b'.' | b',') && seven[1..].iter().all(u8::is_ascii_digit));
        let Some(digits) = digits else { return Err(self.mismatch(".000000")) };
        let nanos = nanos(&digits[1..]);
        self.rest = &self.rest[7..];
        Ok(nanos)
    }

    /// Seconds east of UTC.
    fn offset(&mut self) -> Result<i64, String> {
        if let Some(rest) = self.rest.strip_prefix('Z') {
            self.rest = rest;
            return Ok(0);
        }
        let Some(&[sign, h1, h2, b':', m1, m2]) = self.rest.as_bytes().first_chunk::<6>() else {
            return Err(self.mismatch("Z07:00"));
        };
        let digits = [h1, h2, m1, m2];
        if !matches!(sign, b'+' | b'-') || !digits.iter().all(u8::is_ascii_digit) {
            return Err(self.mismatch("Z07:00"));
        }
        let (hours, minutes) = (number(&digits[..2]), number(&digits[2..]));
        self.rest = &self.rest[6..];
        if hours > 24 {
            return Err(self.message(": time zone offset hour out of range"));
        }
        if minutes > 60 {
            return Err(self.message(": time zone offset minute out of range"));
        }
        let seconds = (hours * 60 + minutes) * 60;
        Ok(if sign == b'-' { -seconds } else { seconds })
    }

    fn skip(&mut self, text: &str) -> Result<(), String> {
        match self.rest.strip_prefix(text) {
            Some(rest) => self.rest = rest,
            None => return Err(self.mismatch(text)),
        }
        Ok(())
    }

    fn mismatch(&self, element: &str) -> String {
        format!(
            "parsing time {} as \"{}\": cannot parse {} as \"{element}\"",
            quote(self.whole),
            self.layout,
            quote(self.rest)
        )
    }

    fn message(&self, message: &str) -> String {
        format!("parsing time {}{message}", quote(self.whole))
    }
}

fn number(digits: &[u8]) -> i64 {
    digits.iter().fold(0, |number, digit| number * 10 + i64::from(digit - b'0'))
}

fn nanos(digits: &[u8]) -> u32 {
    let kept = &digits[..digits.len().min(9)];
    number(kept) as u32 * 10u32.pow(9 - kept.len() as u32)
}

/// A text in quotes as the time package quotes: what is not printable ASCII byte by byte.
fn quote(text: &str) -> String {
    let mut out = String::from("\"");
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => {
                out.push('\\');
                out.push(char::from(byte));
            }
            b' '..=b'~' | 0x7f => out.push(char::from(byte)),
            other => out.push_str(&format!("\\x{other:02x}")),
        }
    }
    out.push('"');
    out
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

/// Days since 1970-01-01. Years are counted from March, so that the leap day comes last.
pub fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// Year, month and day of a day since 1970-01-01.
pub fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// Nanoseconds of a Go duration such as `1h15m30.5s`; the error is worded as Go words it.
pub fn parse_duration(text: &str) -> Result<i64, String> {
    let invalid = || format!("time: invalid duration {}", quote(text));
    let (negative, mut rest) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let whole = rest.bytes().take_while(u8::is_ascii_digit).count();
        let after = &rest[whole..];
        let fraction = after.strip_prefix('.').map(|tail| tail.bytes().take_while(u8::is_ascii_digit).count());
        if whole == 0 && fraction.unwrap_or(0) == 0 {
            return Err(invalid());
        }
        let unit_start = whole + fraction.map_or(0, |count| count + 1);
        let tail = &rest[unit_start..];
        let unit_length = tail.bytes().take_while(|byte| *byte != b'.' && !byte.is_ascii_digit()).count();
        if unit_length == 0 {
            return Err(format!("time: missing unit in duration {}", quote(text)));
        }
        let unit = &tail[..unit_length];
        let Some(size) = unit_nanos(unit) else {
            return Err(format!("time: unknown unit {} in duration {}", quote(unit), quote(text)));
        };
        let count: u64 = if whole == 0 { 0 } else { rest[..whole].parse().map_err(|_| invalid())? };
        let part = fraction.map_or(0, |digits| fraction_nanos(&after[1..=digits], size));
        total = count
            .checked_mul(size)
            .and_then(|nanos| nanos.checked_add(part))
            .and_then(|nanos| nanos.checked_add(total))
            .filter(|nanos| *nanos <= 1 << 63)
            .ok_or_else(invalid)?;
        rest = &tail[unit_length..];
    }
    match (negative, i64::try_from(total)) {
        (false, Ok(nanos)) => Ok(nanos),
        (true, Ok(nanos)) => Ok(-nanos),
        (true, Err(_)) => Ok(i64::MIN),
        (false, Err(_)) => Err(invalid()),
    }
}

fn unit_nanos(unit: &str) -> Option<u64> {
    Some(match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    })
}

fn fraction_nanos(digits: &str, unit: u64) -> u64 {
    let kept = &digits[..digits.len().min(18)];
    let numerator = u128::from(kept.parse::<u64>().unwrap_or(0));
    (numerator * u128::from(unit) / 10u128.pow(kept.len() as u32)) as u64
}

/// Nanoseconds as Go writes a duration: `1h15m30.5s`, `300ms`, `0s`.
pub fn format_duration(nanos: i64) -> String {
    let sign = if nanos < 0 { "-" } else { "" };
    let size = nanos.unsigned_abs();
    let decimal = |unit: u64, name: &str| {
        let digits = unit.ilog10() as usize;
        let fraction = if digits == 0 { String::new() } else { format!(".{:0digits$}", size % unit) };
        format!("{sign}{}{}{name}", size / unit, fraction.trim_end_matches('0').trim_end_matches('.'))
    };
    match size {
        0 => "0s".to_owned(),
        1..1_000 => decimal(1, "ns"),
        1_000..1_000_000 => decimal(1_000, "µs"),
        1_000_000..1_000_000_000 => decimal(1_000_000, "ms"),
        _ => {
            let seconds = size / 1_000_000_000;
            let fraction = format!(".{:09}", size % 1_000_000_000);
            let fraction = fraction.trim_end_matches('0').trim_end_matches('.');
            match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
                (0, 0, second) => format!("{sign}{second}{fraction}s"),
                (0, minute, second) => format!("{sign}{minute}m{second}{fraction}s"),
                (hour, minute, second) => format!("{sign}{hour}h{minute}m{second}{fraction}s"),
            }
        }
    }
}

/// An age in two or three significant figures, as kubectl shows it: `61m`, `5d3h`.
pub fn human_duration(seconds: i64) -> String {
    let two = |large: i64, large_unit: char, small: i64, small_unit: char| match small {
        0 => format!("{large}{large_unit}"),
        small => format!("{large}{large_unit}{small}{small_unit}"),
    };
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let days = hours / 24;
    match (seconds, minutes, hours) {
        (..-1, ..) => "<invalid>".to_owned(),
        (-1, ..) => "0s".to_owned(),
        (..120, ..) => format!("{seconds}s"),
        (_, ..10, _) => two(minutes, 'm', seconds % 60, 's'),
        (_, ..180, _) => format!("{minutes}m"),
        (.., ..8) => two(hours, 'h', minutes % 60, 'm'),
        (.., ..48) => format!("{hours}h"),
        (.., ..192) => two(days, 'd', hours % 24, 'h'),
        (.., ..17_520) => format!("{days}d"),
        (.., ..70_080) => two(days / 365, 'y', days % 365, 'd'),
        _ => format!("{}y", days / 365),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_and_read() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_700_000_000, "2023-11-14T22:13:20Z"),
            (-1, "1969-12-31T23:59:59Z"),
            (ZERO_SECONDS, "0001-01-01T00:00:00Z"),
            (253_402_300_799, "9999-12-31T23:59:59Z"),
        ] {
            assert_eq!(format_seconds(seconds), text);
            assert_eq!(parse(text), Ok((seconds, 0)));
        }
        assert_eq!(format_micros(1_500_000), "1970-01-01T00:00:01.500000Z");
        assert_eq!(format_micros(-1), "1969-12-31T23:59:59.999999Z");
        assert_eq!(parse("1970-01-01T02:00:00.25+02:00"), Ok((0, 250_000_000)));
        assert_eq!(parse("1970-01-01T0:00:00-00:30"), Ok((1800, 0)));
        assert_eq!(parse_micros("1970-01-01T00:00:00.000001Z"), Ok((0, 1000)));
        assert_eq!(canonical_seconds("0001-01-01T00:00:00Z"), Ok(None));
        assert_eq!(canonical_seconds("2020-01-01T01:00:00.9+01:00"), Ok(Some("2020-01-01T00:00:00Z".to_owned())));
    }

    #[test]
    fn bad_times_are_worded_as_go_words_them() {
        let layout = "as \"2006-01-02T15:04:05Z07:00\"";
        for (text, want) in [
            ("x", format!("parsing time \"x\" {layout}: cannot parse \"x\" as \"2006\"")),
            ("", format!("parsing time \"\" {layout}: cannot parse \"\" as \"2006\"")),
            ("2020", format!("parsing time \"2020\" {layout}: cannot parse \"\" as \"-\"")),
            ("2020-1-1", format!("parsing time \"2020-1-1\" {layout}: cannot parse \"1-1\" as \"01\"")),
            ("2020-13-01T00:00:00Z", "parsing time \"2020-13-01T00:00:00Z\": month out of range".to_owned()),
            ("2021-02-29T00:00:00Z", "parsing time \"2021-02-29T00:00:00Z\": day out of range".to_owned()),
            ("2020-01-01T24:00:00Z", "parsing time \"2020-01-01T24:00:00Z\": hour out of range".to_owned()),
            (
                "2020-01-01T00:00:00",
                format!("parsing time \"2020-01-01T00:00:00\" {layout}: cannot parse \"\" as \"Z07:00\""),
            ),
            (
                "2020-01-01T00:00:00Zé",
                "parsing time \"2020-01-01T00:00:00Z\\xc3\\xa9\": extra text: \"\\xc3\\xa9\"".to_owned(),
            ),
        ] {
            assert_eq!(parse(text), Err(want));
        }
        assert_eq!(
            parse_micros("2020-01-01T00:00:00Z").unwrap_err(),
            "parsing time \"2020-01-01T00:00:00Z\" as \"2006-01-02T15:04:05.000000Z07:00\": cannot parse \"Z\" as \".000000\""
        );
    }

    #[test]
    fn durations_are_read_and_written() {
        for (text, nanos, written) in [
            ("0", 0, "0s"),
            ("5s", 5_000_000_000, "5s"),
            ("90m", 5_400_000_000_000, "1h30m0s"),
            ("-1.5h", -5_400_000_000_000, "-1h30m0s"),
            ("1h15m30.918s", 4_530_918_000_000, "1h15m30.918s"),
            ("300ms", 300_000_000, "300ms"),
            ("1500us", 1_500_000, "1.5ms"),
            (".5ns", 0, "0s"),
            ("7ns", 7, "7ns"),
        ] {
            assert_eq!(parse_duration(text), Ok(nanos), "{text}");
            assert_eq!(format_duration(nanos), written);
        }
        for (text, want) in [
            ("", "time: invalid duration \"\""),
            ("x", "time: invalid duration \"x\""),
            ("5", "time: missing unit in duration \"5\""),
            ("5x", "time: unknown unit \"x\" in duration \"5x\""),
            ("9999999h", "time: invalid duration \"9999999h\""),
        ] {
            assert_eq!(parse_duration(text).unwrap_err(), want);
        }
    }

    #[test]
    fn ages_are_short() {
        for (seconds, want) in [
            (-2, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (3_660, "61m"),
            (3 * 3600, "3h"),
            (3 * 3600 + 60, "3h1m"),
            (8 * 3600 + 60, "8h"),
            (47 * 3600, "47h"),
            (5 * 86_400 + 3 * 3600, "5d3h"),
            (8 * 86_400 + 3600, "8d"),
            (729 * 86_400, "729d"),
            (730 * 86_400, "2y"),
            (731 * 86_400, "2y1d"),
            (3_000 * 86_400, "8y"),
        ] {
            assert_eq!(human_duration(seconds), want, "{seconds}");
        }
    }
}
