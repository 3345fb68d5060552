//! Sets of completion indexes: few ranges, however many indexes they have.

use std::fmt;

/// Ranges with their ends, in order, none next to another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Indexes(Vec<(i64, i64)>);

impl Indexes {
    /// Reads what [`Indexes`] are written as; indexes beyond the completions are left out, and so is what cannot be read.
    pub fn parse(text: &str, completions: i64) -> Indexes {
        let mut ranges: Vec<(i64, i64)> = Vec::new();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let mut ends = part.split('-').map(str::parse::<i64>);
            let Some(Ok(first)) = ends.next() else { continue };
            if first >= completions {
                break;
            }
            let last = match ends.next() {
                None => first,
                Some(Ok(last)) => last.min(completions - 1),
                Some(Err(_)) => continue,
            };
            match ranges.last_mut() {
                Some(before) if before.1 == first - 1 => before.1 = last,
                _ => ranges.push((first, last)),
            }
        }
        Indexes(ranges)
    }

    /// These and others, which need no order.
    pub fn with(&self, others: impl IntoIterator<Item = i64>) -> Indexes {
        let mut others: Vec<i64> = others.into_iter().collect();
        others.sort_unstable();
        self.union(&Indexes(others.into_iter().map(|index| (index, index)).collect()))
    }

    pub fn union(&self, other: &Indexes) -> Indexes {
        let mut all: Vec<(i64, i64)> = self.0.iter().chain(&other.0).copied().collect();
        all.sort_unstable();
        let mut ranges: Vec<(i64, i64)> = Vec::with_capacity(all.len());
        for (first, last) in all {
            match ranges.last_mut() {
                Some(before) if first <= before.1 + 1 => before.1 = before.1.max(last),
                _ => ranges.push((first, last)),
            }
        }
        Indexes(ranges)
    }

    pub fn total(&self) -> i64 {
        self.0.iter().map(|(first, last)| last - first + 1).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn has(&self, index: i64) -> bool {
        let place = self.0.partition_point(|(_, last)| *last < index);
        self.0.get(place).is_some_and(|(first, _)| *first <= index)
    }

    /// How many indexes are in both.
    pub fn shared(&self, other: &Indexes) -> i64 {
        let (mut ours, mut theirs, mut shared) = (self.0.iter().peekable(), other.0.iter().peekable(), 0);
        while let (Some(one), Some(two)) = (ours.peek(), theirs.peek()) {
            shared += (one.1.min(two.1) - one.0.max(two.0) + 1).max(0);
            if one.1 < two.1 {
                ours.next();
            } else {
                theirs.next();
            }
        }
        shared
    }

    /// The first so many below the completions that are none of these.
    pub fn missing(&self, count: usize, completions: i64) -> Vec<i64> {
        let (mut missing, mut next) = (Vec::new(), 0);
        for (first, last) in self.0.iter().copied().chain([(completions, completions)]) {
            let room = count - missing.len();
            missing.extend((next..first.min(completions)).take(room));
            next = next.max(last + 1);
            if missing.len() == count {
                break;
            }
        }
        missing
    }
}

impl fmt::Display for Indexes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (first, last)) in self.0.iter().enumerate() {
            let comma = if place > 0 { "," } else { "" };
            match last - first {
                0 => write!(formatter, "{comma}{first}")?,
                1 => write!(formatter, "{comma}{first},{last}")?,
                _ => write!(formatter, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_are_read_and_written_as_upstream_does() {
        // A text, the completions, and the same in the shortest form.
        let table = [
            ("", 9, ""),
            ("1,3-5,7", 9, "1,3-5,7"),
            ("0,1,2,3", 9, "0-3"),
            ("0,1", 9, "0,1"),
            ("1-3,4", 9, "1-4"),
            ("1,5-9,11", 7, "1,5,6"),
            ("1,x,3-y,5", 9, "1,5"),
            ("12", 9, ""),
        ];
        for (text, completions, expected) in table {
            assert_eq!(Indexes::parse(text, completions).to_string(), expected, "{text}");
        }
    }

    #[test]
    fn indexes_are_joined_counted_and_searched() {
        let some = Indexes::parse("1,3-5", 100);
        assert_eq!(some.with([9, 2, 5]).to_string(), "1-5,9");
        assert_eq!(some.union(&Indexes::parse("0-9", 100)).to_string(), "0-9");
        assert_eq!((some.total(), Indexes::default().total()), (4, 0));
        assert_eq!((0..7).filter(|index| some.has(*index)).collect::<Vec<_>>(), [1, 3, 4, 5]);
        assert_eq!(some.missing(3, 100), [0, 2, 6]);
        assert_eq!(some.missing(9, 7), [0, 2, 6]);
        assert_eq!(Indexes::default().missing(2, 1), [0]);
        assert!(some.missing(0, 100).is_empty());
        assert_eq!(some.shared(&Indexes::parse("0-3,5-7", 100)), 3);
        assert_eq!(some.shared(&Indexes::default()), 0);
    }
}
