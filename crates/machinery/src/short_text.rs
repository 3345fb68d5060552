//! Comparing short texts, eight bytes at a time: field names are compared more often than anything else is done.

use std::cmp::Ordering;

/// Texts up to this length are compared without a call.
const SHORT: usize = 16;

/// Whether both are the same text.
#[inline]
pub(crate) fn same(left: &str, right: &str) -> bool {
    let (left, right) = (left.as_bytes(), right.as_bytes());
    left.len() == right.len() && if left.len() <= SHORT { ends(left) == ends(right) } else { left == right }
}

/// As texts are ordered, by bytes.
#[inline]
pub(crate) fn order(left: &str, right: &str) -> Ordering {
    match head(left.as_bytes()).cmp(&head(right.as_bytes())) {
        Ordering::Equal => left.cmp(right),
        unequal => unequal,
    }
}

/// The first letters as a number: texts are ordered as these are, where they differ.
#[inline]
pub(crate) fn first(text: &str) -> u64 {
    head(text.as_bytes())
}

/// A number that is the same for the same text. `seed` makes it another one.
#[inline]
pub(crate) fn hash(text: &str, seed: u64) -> u64 {
    let bytes = text.as_bytes();
    let (first, last) = ends(bytes);
    let mixed = (first ^ last.rotate_left(29) ^ bytes.len() as u64).wrapping_add(seed);
    let mixed = (mixed ^ mixed >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed >> 40
}

/// One bit of 32, of a text's ends and its length: texts that have others are not the same.
#[inline]
pub(crate) fn mark(text: &str) -> u32 {
    let [first, .., last] = text.as_bytes() else { return 1 };
    1 << ((usize::from(*first) + 3 * usize::from(*last) + 21 * text.len()) & 31)
}

/// The first and the last eight bytes, which overlap; of a shorter text, all of it.
#[inline]
fn ends(bytes: &[u8]) -> (u64, u64) {
    match (bytes.first_chunk::<8>(), bytes.last_chunk::<8>()) {
        (Some(first), Some(last)) => (u64::from_be_bytes(*first), u64::from_be_bytes(*last)),
        _ => (head(bytes), 0),
    }
}

/// The first eight bytes as a number that orders as they do; zeros stand for those that are not there.
#[inline]
fn head(bytes: &[u8]) -> u64 {
    if let Some(first) = bytes.first_chunk::<8>() {
        return u64::from_be_bytes(*first);
    }
    match (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        (Some(first), Some(last)) => {
            let last = u64::from(u32::from_be_bytes(*last));
            u64::from(u32::from_be_bytes(*first)) << 32 | last << (8 * (8 - bytes.len()))
        }
        _ => bytes.iter().enumerate().fold(0, |number, (index, byte)| number | u64::from(*byte) << (56 - 8 * index)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn agrees_with_the_standard_library(left in "[ab\\x00]{0,20}", right in "[ab\\x00]{0,20}") {
            prop_assert_eq!(same(&left, &right), left == right);
            prop_assert_eq!(order(&left, &right), left.cmp(&right));
            prop_assert!(same(&left, &left));
            prop_assert_eq!(order(&left, &left), Ordering::Equal);
            if left == right {
                prop_assert_eq!(hash(&left, 7), hash(&right, 7));
                prop_assert_eq!(mark(&left), mark(&right));
            }
        }
    }
}
