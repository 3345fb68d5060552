//! Numbers and codes with a fixed form: UUIDs, ISBNs, MAC addresses, colours, base64.

/// With a version where one is given, and then with the variant that such UUIDs have.
pub(super) fn is_uuid(text: &str, version: Option<u8>) -> bool {
    const DASHES_BEFORE: [usize; 4] = [8, 12, 16, 20];
    const DIGITS: usize = 32;
    const VERSION_AT: usize = 12;
    const VARIANT_AT: usize = 16;
    let mut digits = 0;
    let mut dashed = false;
    for byte in text.bytes() {
        if byte == b'-' && !dashed && DASHES_BEFORE.contains(&digits) {
            dashed = true;
            continue;
        }
        let fits = match (digits, version) {
            (VERSION_AT, Some(version)) => byte == version,
            (VARIANT_AT, Some(b'4' | b'5')) => matches!(byte.to_ascii_lowercase(), b'8' | b'9' | b'a' | b'b'),
            _ => byte.is_ascii_hexdigit(),
        };
        if !fits {
            return false;
        }
        digits += 1;
        dashed = false;
    }
    digits == DIGITS
}

/// In pairs with colons or dashes, in fours with points, or without anything between; 6, 8 or 20 bytes.
pub(super) fn is_mac(text: &str) -> bool {
    let bytes = text.as_bytes();
    let (size, separator) = match (bytes.get(2), bytes.get(4)) {
        (Some(separator @ (b':' | b'-')), _) => (2, Some(*separator)),
        (_, Some(b'.')) => (4, Some(b'.')),
        _ => (2, None),
    };
    let groups: Vec<&[u8]> = match separator {
        Some(separator) => bytes.split(|byte| *byte == separator).collect(),
        None => bytes.chunks(size).collect(),
    };
    let is_group = |group: &&[u8]| group.len() == size && group.iter().all(u8::is_ascii_hexdigit);
    matches!(groups.len() * size / 2, 6 | 8 | 20) && groups.iter().all(is_group)
}

pub(super) fn is_isbn10(text: &str) -> bool {
    let letters = without_blanks(text);
    let [head @ .., last] = &letters[..] else { return false };
    if letters.len() != 10 || !head.iter().all(u8::is_ascii_digit) || !(last.is_ascii_digit() || *last == b'X') {
        return false;
    }
    let sum: u32 = (1..).zip(head).map(|(place, digit)| place * u32::from(digit - b'0')).sum();
    let last = if *last == b'X' { 10 } else { u32::from(last - b'0') };
    (sum + 10 * last).is_multiple_of(11)
}

pub(super) fn is_isbn13(text: &str) -> bool {
    let letters = without_blanks(text);
    if letters.len() != 13 || !letters.iter().all(u8::is_ascii_digit) {
        return false;
    }
    let weigh = |(place, digit): (usize, &u8)| u32::from(digit - b'0') * if place % 2 == 0 { 1 } else { 3 };
    let sum: u32 = letters[..12].iter().enumerate().map(weigh).sum();
    u32::from(letters[12] - b'0') == (10 - sum % 10) % 10
}

fn without_blanks(text: &str) -> Vec<u8> {
    text.bytes().filter(|byte| !matches!(byte, b'\t' | b'\n' | 0xc | b'\r' | b' ' | b'-')).collect()
}

/// The digits in the text, whatever is between them: of a known issuer, and with a right check digit.
pub(super) fn is_credit_card(text: &str) -> bool {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_digit).map(|digit| digit - b'0').collect();
    let issued = matches!(
        (digits.as_slice(), digits.len()),
        ([4, ..], 13 | 16)
            | ([5, 1..=5, ..] | [6, 0, 1, 1, ..] | [6, 5, ..] | [3, 5, ..], 16)
            | ([3, 4 | 7, ..] | [2, 1, 3, 1, ..] | [1, 8, 0, 0, ..], 15)
            | ([3, 0, 0..=5, ..] | [3, 6 | 8, ..], 14)
    );
    let weigh = |(place, digit): (usize, &u8)| match (place % 2, u32::from(*digit) * 2) {
        (0, doubled) => doubled / 2,
        (_, doubled @ 10..) => doubled - 9,
        (_, doubled) => doubled,
    };
    issued && digits.iter().rev().enumerate().map(weigh).sum::<u32>().is_multiple_of(10)
}

pub(super) fn is_ssn(text: &str) -> bool {
    let fits = |(place, byte): (usize, u8)| match place {
        3 | 6 => matches!(byte, b'-' | b' '),
        _ => byte.is_ascii_digit(),
    };
    text.len() == 11 && text.bytes().enumerate().all(fits)
}

pub(super) fn is_hex_color(text: &str) -> bool {
    let digits = text.strip_prefix('#').unwrap_or(text);
    matches!(digits.len(), 3 | 6) && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}

pub(super) fn is_rgb_color(text: &str) -> bool {
    let Some(inner) = text.strip_prefix("rgb(").and_then(|rest| rest.strip_suffix(')')) else { return false };
    let is_part = |part: &str| {
        let part = part.trim_matches(['\t', '\n', '\u{c}', '\r', ' ']);
        let plain = part == "0" || !part.starts_with('0');
        plain && part.bytes().all(|byte| byte.is_ascii_digit()) && part.parse::<u8>().is_ok()
    };
    inner.split(',').count() == 3 && inner.split(',').all(is_part)
}

/// Standard base64 with padding, of at least one byte.
pub(super) fn is_base64(text: &str) -> bool {
    let body = text.trim_end_matches('=');
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    !body.is_empty() && text.len().is_multiple_of(4) && text.len() - body.len() <= 2 && body.bytes().all(is_letter)
}
