//! Lists and maps with a bound: where there are too many items, nothing else is said about them.

use rkube_machinery::Value;
use rkube_machinery::field::{Errors, Path};

use crate::core::pod_spec::checks::Seen;

/// Keys longer than what fits are shown with their middle left out; never shorter than this.
const SHOWN_MIN_BYTES: usize = 16;

/// Checks each item.
pub(super) fn slice(
    path: Path<'_>,
    items: &[Value],
    max: usize,
    errors: &mut Errors,
    mut check: impl FnMut(Path<'_>, &Value, &mut Errors),
) {
    if items.len() > max {
        return errors.too_many(path, items.len(), max);
    }
    for (index, item) in items.iter().enumerate() {
        check(path.index(index), item, errors);
    }
}

/// Checks each item, and that keys differ.
pub(super) fn set(
    path: Path<'_>,
    items: &[Value],
    max: usize,
    key: fn(&Value) -> &str,
    errors: &mut Errors,
    check: impl FnMut(Path<'_>, &Value, &mut Errors),
) {
    slice(path, items, max, errors, check);
    if items.len() > max {
        return;
    }
    let mut seen = Seen::new();
    for (index, item) in items.iter().enumerate() {
        if !seen.add(key(item)) {
            errors.duplicate(path.index(index), key(item));
        }
    }
}

/// Checks each key, whose errors stand at the map itself, and each item.
pub(super) fn map(
    path: Path<'_>,
    items: &Value,
    shown_max_bytes: usize,
    errors: &mut Errors,
    mut check_key: impl FnMut(Path<'_>, &str, &mut Errors),
    mut check: impl FnMut(Path<'_>, &Value, &mut Errors),
) {
    for (key, item) in items.as_map().iter() {
        check_key(path, key, errors);
        if key.len() > shown_max_bytes.max(SHOWN_MIN_BYTES) {
            check(path.key(&shortened(key, shown_max_bytes.max(SHOWN_MIN_BYTES))), item, errors);
        } else {
            check(path.key(key), item, errors);
        }
    }
}

fn shortened(key: &str, max_bytes: usize) -> String {
    const MARK: &str = "...";
    let left = max_bytes - MARK.len();
    let head = String::from_utf8_lossy(&key.as_bytes()[..left.div_ceil(2)]);
    let tail = String::from_utf8_lossy(&key.as_bytes()[key.len() - left / 2..]);
    format!("{head}{MARK}{tail}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_keys_lose_their_middle() {
        assert_eq!(shortened(&"a".repeat(30), 16), format!("{}...{}", "a".repeat(7), "a".repeat(6)));
        assert!(shortened(&"ä".repeat(30), 16).contains("..."));
    }
}
