//! API versions in the order in which clients prefer them.

use std::cmp::Ordering;

/// How stable a version is, and its numbers.
type Rank = (u8, u64, u64);

/// `v2` before `v1` before `v1beta2` before `v1beta1` before `v1alpha1` before names that are no versions, which go by
/// the alphabet.
pub fn compare_versions(left: &str, right: &str) -> Ordering {
    match (rank(left), rank(right)) {
        (Some(left), Some(right)) => right.cmp(&left),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => left.cmp(right),
    }
}

fn rank(version: &str) -> Option<Rank> {
    let number = |digits: &str| match digits.bytes().all(|byte| byte.is_ascii_digit()) {
        true => digits.parse::<i64>().ok().and_then(|number| u64::try_from(number).ok()),
        false => None,
    };
    let rest = version.strip_prefix('v')?;
    for (stability, word) in [(1, "beta"), (0, "alpha")] {
        if let Some((major, minor)) = rest.split_once(word) {
            return Some((stability, number(major)?, number(minor)?));
        }
    }
    Some((2, number(rest)?, 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_as_clients_expect() {
        let mut versions = ["v1alpha1", "foo10", "v1beta2", "v1", "v11", "v2", "foo1", "v1beta1", "v", "vbeta1", "v+1"];
        versions.sort_by(|left, right| compare_versions(left, right));
        let expected = ["v11", "v2", "v1", "v1beta2", "v1beta1", "v1alpha1", "foo1", "foo10", "v", "v+1", "vbeta1"];
        assert_eq!(versions, expected);
    }
}
