//! Which bytes names are made of, by a table: names are looked at on every write.

pub(super) const LOWER: u8 = 1;
pub(super) const LOWER_DASH: u8 = 2;
pub(super) const LOWER_DASH_UNDERSCORE: u8 = 4;
pub(super) const ALPHANUMERIC: u8 = 8;
pub(super) const ALPHANUMERIC_DASH: u8 = 16;
/// Letters, digits, dashes, underscores and dots.
pub(super) const KEY: u8 = 32;

pub(super) fn is_label(bytes: &[u8]) -> bool {
    framed(bytes, LOWER, LOWER_DASH)
}

/// Labels with dots between them: a dash stands behind no dot, a dot behind a letter or digit, and one of these is last.
pub(super) fn is_subdomain(value: &str) -> bool {
    let is_lower = |byte: u8| CLASSES[usize::from(byte)] & LOWER != 0;
    let mut before = b'.';
    for byte in value.bytes() {
        if !(is_lower(byte) || byte == b'-' && before != b'.' || byte == b'.' && is_lower(before)) {
            return false;
        }
        before = byte;
    }
    is_lower(before)
}

/// Not empty, all of `inner`, the first and the last of `edge`.
pub(super) fn framed(bytes: &[u8], edge: u8, inner: u8) -> bool {
    let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else { return false };
    CLASSES[usize::from(*first)] & CLASSES[usize::from(*last)] & edge != 0 && all_of(bytes, inner)
}

/// Whether all bytes are of this class. Most are, so that it looks at all of them.
pub(super) fn all_of(bytes: &[u8], class: u8) -> bool {
    bytes.iter().fold(class, |common, byte| common & CLASSES[usize::from(*byte)]) != 0
}

/// Which of the classes above a byte is of.
static CLASSES: [u8; 256] = {
    let mut classes = [0; 256];
    let mut byte: u8 = 0;
    while byte < 128 {
        classes[byte as usize] = match byte {
            b'a'..=b'z' | b'0'..=b'9' => {
                LOWER | LOWER_DASH | LOWER_DASH_UNDERSCORE | ALPHANUMERIC | ALPHANUMERIC_DASH | KEY
            }
            b'A'..=b'Z' => ALPHANUMERIC | ALPHANUMERIC_DASH | KEY,
            b'-' => LOWER_DASH | LOWER_DASH_UNDERSCORE | ALPHANUMERIC_DASH | KEY,
            b'_' => LOWER_DASH_UNDERSCORE | KEY,
            b'.' => KEY,
            _ => 0,
        };
        byte += 1;
    }
    classes
};

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn subdomains_are_labels_with_dots_between_them(text in "[aZ0.-]{0,8}") {
            let is_label = |label: &str| {
                let is_edge = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
                let bytes = label.as_bytes();
                let inner = bytes.iter().all(|byte| is_edge(byte) || *byte == b'-');
                inner && bytes.first().is_some_and(is_edge) && bytes.last().is_some_and(is_edge)
            };
            prop_assert_eq!(super::is_label(text.as_bytes()), is_label(&text));
            prop_assert_eq!(is_subdomain(&text), text.split('.').all(is_label));
        }
    }

    #[test]
    fn classes_are_what_they_are_called() {
        for byte in 0..=255u8 {
            let lower = byte.is_ascii_lowercase() || byte.is_ascii_digit();
            let either = byte.is_ascii_alphanumeric();
            let is = |class: u8| all_of(&[byte], class);
            assert_eq!(is(LOWER), lower);
            assert_eq!(is(LOWER_DASH), lower || byte == b'-');
            assert_eq!(is(LOWER_DASH_UNDERSCORE), lower || b"-_".contains(&byte));
            assert_eq!(is(ALPHANUMERIC), either);
            assert_eq!(is(ALPHANUMERIC_DASH), either || byte == b'-');
            assert_eq!(is(KEY), either || b"-_.".contains(&byte));
        }
    }
}
