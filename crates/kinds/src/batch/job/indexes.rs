//! Lists of indexes as a job's status and policies write them: `0-2,5,7-9`.

use rkube_machinery::field::quote;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum IndexError {
    #[error(
        "the fragment {} violates the requirement that an index interval can have at most two parts separated by '-'",
        quote(.0)
    )]
    Parts(String),
    #[error("cannot convert string to integer for index: {}", quote(.0))]
    Number(String),
    #[error("too large index: {}", quote(.0))]
    TooLarge(String),
    #[error("non-increasing order, previous: {0}, current: {1}")]
    Order(i64, i64),
}

/// How many indexes the list has, all of them below `completions` and in ascending order.
pub(super) fn count(list: &str, completions: i64) -> Result<i64, IndexError> {
    if list.is_empty() {
        return Ok(0);
    }
    let mut last: Option<i64> = None;
    let mut total = 0;
    for interval in list.split(',') {
        let (first, end) = parse(interval, completions)?;
        if let Some(last) = last.filter(|last| *last >= first) {
            return Err(IndexError::Order(last, first));
        }
        total += end - first + 1;
        last = Some(end);
    }
    Ok(total)
}

/// The first index that two lists share. Intervals that cannot be read are passed over.
pub(super) fn overlap(left: &str, right: &str, completions: i64) -> Option<i64> {
    let mut left = left.split(',').filter_map(|interval| parse(interval, completions).ok()).peekable();
    let mut right = right.split(',').filter_map(|interval| parse(interval, completions).ok()).peekable();
    while let (Some(one), Some(other)) = (left.peek().copied(), right.peek().copied()) {
        if one.0 <= other.1 && other.0 <= one.1 {
            return Some(one.0.max(other.0));
        }
        if one.0 <= other.0 {
            left.next();
        } else {
            right.next();
        }
    }
    None
}

fn parse(interval: &str, completions: i64) -> Result<(i64, i64), IndexError> {
    let mut parts = interval.split('-');
    let (first, end) = (parts.next().unwrap_or_default(), parts.next());
    if parts.next().is_some() {
        return Err(IndexError::Parts(interval.to_owned()));
    }
    let number = |text: &str| {
        let number: i64 = text.parse().map_err(|_| IndexError::Number(text.to_owned()))?;
        if number >= completions { Err(IndexError::TooLarge(text.to_owned())) } else { Ok(number) }
    };
    let first = number(first)?;
    let Some(end) = end else { return Ok((first, first)) };
    let end = number(end)?;
    if first >= end { Err(IndexError::Order(first, end)) } else { Ok((first, end)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists() {
        let table = [
            ("", Ok(0)),
            ("0", Ok(1)),
            ("0-2,5,7-9", Ok(7)),
            (
                "1-2-3",
                Err("the fragment \"1-2-3\" violates the requirement that an index interval can have at most \
                           two parts separated by '-'"),
            ),
            ("1,1", Err("non-increasing order, previous: 1, current: 1")),
            ("3-1", Err("non-increasing order, previous: 3, current: 1")),
            ("10", Err("too large index: \"10\"")),
            ("1,", Err("cannot convert string to integer for index: \"\"")),
        ];
        for (list, want) in table {
            assert_eq!(count(list, 10).map_err(|error| error.to_string()), want.map_err(str::to_owned), "{list}");
        }
    }

    #[test]
    fn overlaps() {
        let table =
            [("0-2,5", "3-4", None), ("0-5", "3,7", Some(3)), ("x,4", "4", Some(4)), ("8", "1-3,x,7-9", Some(8))];
        for (left, right, want) in table {
            assert_eq!(overlap(left, right, 10), want, "{left} {right}");
        }
    }
}
