//! Semantic versions: `1.36.0-beta.1+build`.

use std::cmp::Ordering;

/// A version; what stands behind `+` does not count.
#[derive(Clone, Copy, Debug, Default)]
pub struct Version<'a> {
    numbers: [u64; 3],
    /// Behind the dash; empty for a release.
    preview: &'a str,
}

impl<'a> Version<'a> {
    pub fn parse(text: &'a str) -> Option<Self> {
        let mut parts = text.splitn(3, '.');
        let (major, minor, rest) = (parts.next()?, parts.next()?, parts.next()?);
        let (rest, build) = rest.split_once('+').map_or((rest, None), |(rest, build)| (rest, Some(build)));
        let (patch, preview) = rest.split_once('-').map_or((rest, None), |(patch, preview)| (patch, Some(preview)));
        let is_word =
            |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        let fits = |word: &str| is_word(word) && (!is_digits(word) || number(word).is_some());
        let right = build.is_none_or(|build| build.split('.').all(is_word))
            && preview.is_none_or(|preview| preview.split('.').all(fits));
        right.then_some(Version {
            numbers: [number(major)?, number(minor)?, number(patch)?],
            preview: preview.unwrap_or_default(),
        })
    }
}

impl Ord for Version<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        let previews = || match (self.preview, other.preview) {
            ("", "") => Ordering::Equal,
            ("", _) => Ordering::Greater,
            (_, "") => Ordering::Less,
            (left, right) => compare_previews(left, right),
        };
        self.numbers.cmp(&other.numbers).then_with(previews)
    }
}

impl PartialOrd for Version<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Version<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Version<'_> {}

/// Word by word: numbers by value and before texts; who has fewer words comes first.
fn compare_previews(left: &str, right: &str) -> Ordering {
    let (mut left, mut right) = (left.split('.'), right.split('.'));
    loop {
        let order = match (left.next(), right.next()) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => Ordering::Less,
            (Some(_), None) => Ordering::Greater,
            (Some(left), Some(right)) => match (number(left), number(right)) {
                (Some(left), Some(right)) => left.cmp(&right),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => left.cmp(right),
            },
        };
        if order != Ordering::Equal {
            return order;
        }
    }
}

fn is_digits(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

/// A number without leading zeros.
fn number(text: &str) -> Option<u64> {
    let plain = is_digits(text) && (text.len() == 1 || !text.starts_with('0'));
    if plain { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_and_ordered() {
        let order = ["0.0.0", "1.2.3-1", "1.2.3-2", "1.2.3-alpha", "1.2.3-alpha.1", "1.2.3", "1.10.0", "2.0.0+x.y"];
        let read = order.map(|text| Version::parse(text).unwrap_or_else(|| panic!("{text}")));
        assert!(read.windows(2).all(|pair| pair[0] < pair[1]));
        assert_eq!(read[0], Version::default());
        for bad in
            ["", "1", "1.2", "v1.2.3", "01.2.3", "1.2.3-", "1.2.3-01", "1.2.3+", "1.2.3-a..b", "1.2.x", "1.2.3.4"]
        {
            assert_eq!(Version::parse(bad), None, "{bad}");
        }
    }
}
