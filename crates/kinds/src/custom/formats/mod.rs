//! The formats of strings that Kubernetes knows, and what is of them.
//!
//! A format that is not here says nothing of a value. Go's packages and regular expressions decide upstream; where they
//! take odd things, so does this.

mod codes;
mod mail;

use std::sync::OnceLock;

use rkube_cel::compile_pattern;
use rkube_machinery::names::address::{self, Subnet};
use rkube_machinery::{names, time};

use crate::admissionregistration::go_url;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    BsonObjectId,
    Uri,
    Email,
    Hostname,
    Ipv4,
    Ipv6,
    Cidr,
    Mac,
    Uuid,
    Uuid3,
    Uuid4,
    Uuid5,
    Isbn,
    Isbn10,
    Isbn13,
    CreditCard,
    Ssn,
    HexColor,
    RgbColor,
    Byte,
    Password,
    Date,
    Duration,
    DateTime,
    ShortName,
    LongName,
}

/// The longest name of a format, without dashes.
const NAME_MAX: usize = 12;
const HOSTNAME_MAX_BYTES: usize = 255;
const LABEL_MAX_BYTES: usize = 63;

impl Format {
    /// The format of this name. Dashes in names do not matter.
    pub fn find(name: &str) -> Option<Format> {
        let mut letters = [0; NAME_MAX];
        let mut count = 0;
        for byte in name.bytes().filter(|byte| *byte != b'-') {
            *letters.get_mut(count)? = byte;
            count += 1;
        }
        Some(match &letters[..count] {
            b"bsonobjectid" => Format::BsonObjectId,
            b"uri" => Format::Uri,
            b"email" => Format::Email,
            b"hostname" => Format::Hostname,
            b"ipv4" => Format::Ipv4,
            b"ipv6" => Format::Ipv6,
            b"cidr" => Format::Cidr,
            b"mac" => Format::Mac,
            b"uuid" => Format::Uuid,
            b"uuid3" => Format::Uuid3,
            b"uuid4" => Format::Uuid4,
            b"uuid5" => Format::Uuid5,
            b"isbn" => Format::Isbn,
            b"isbn10" => Format::Isbn10,
            b"isbn13" => Format::Isbn13,
            b"creditcard" => Format::CreditCard,
            b"ssn" => Format::Ssn,
            b"hexcolor" => Format::HexColor,
            b"rgbcolor" => Format::RgbColor,
            b"byte" => Format::Byte,
            b"password" => Format::Password,
            b"date" => Format::Date,
            b"duration" => Format::Duration,
            b"datetime" => Format::DateTime,
            b"k8sshortname" => Format::ShortName,
            b"k8slongname" => Format::LongName,
            _ => return None,
        })
    }

    /// Whether the text is of this format.
    pub fn takes(self, text: &str) -> bool {
        match self {
            Format::BsonObjectId => text.len() == 24 && text.bytes().all(|byte| byte.is_ascii_hexdigit()),
            Format::Uri => go_url::is_request_uri(text),
            Format::Email => mail::is_address(text),
            Format::Hostname => is_hostname(text),
            Format::Ipv4 => text.contains('.') && address::parse_sloppy(text).is_some(),
            Format::Ipv6 => text.contains(':') && text.parse::<std::net::IpAddr>().is_ok(),
            Format::Cidr => Subnet::parse_sloppy(text).is_some(),
            Format::Mac => codes::is_mac(text),
            Format::Uuid => codes::is_uuid(text, None),
            Format::Uuid3 => codes::is_uuid(text, Some(b'3')),
            Format::Uuid4 => codes::is_uuid(text, Some(b'4')),
            Format::Uuid5 => codes::is_uuid(text, Some(b'5')),
            Format::Isbn => codes::is_isbn10(text) || codes::is_isbn13(text),
            Format::Isbn10 => codes::is_isbn10(text),
            Format::Isbn13 => codes::is_isbn13(text),
            Format::CreditCard => codes::is_credit_card(text),
            Format::Ssn => codes::is_ssn(text),
            Format::HexColor => codes::is_hex_color(text),
            Format::RgbColor => codes::is_rgb_color(text),
            Format::Byte => codes::is_base64(text),
            Format::Password => true,
            Format::Date => is_date(text),
            Format::Duration => is_duration(text),
            Format::DateTime => is_date_time(text),
            Format::ShortName => names::short_name(text).is_empty(),
            Format::LongName => names::long_name(text).is_empty(),
        }
    }
}

/// One label, in which a dash may be second, or labels with dashes inside and a last one of letters.
fn is_hostname(text: &str) -> bool {
    text.len() <= HOSTNAME_MAX_BYTES
        && text.split('.').all(|label| label.len() <= LABEL_MAX_BYTES)
        && (is_single_label(text) || is_domain(text))
}

fn is_single_label(text: &str) -> bool {
    let mut letters = text.chars();
    let starts = letters.next().is_some_and(is_label_letter);
    let rest = letters.as_str();
    starts && rest.strip_prefix('-').unwrap_or(rest).chars().all(is_label_letter)
}

fn is_domain(text: &str) -> bool {
    let Some((labels, last)) = text.rsplit_once('.') else { return false };
    let is_label = |label: &str| {
        let at_end = |letter: Option<char>| letter.is_some_and(is_label_letter);
        let inside = |letter: char| letter == '-' || is_label_letter(letter);
        at_end(label.chars().next()) && at_end(label.chars().next_back()) && label.chars().all(inside)
    };
    let is_letter = |letter: char| letter.is_ascii_alphabetic() || !letter.is_ascii() && is_of(Class::Letter, letter);
    labels.split('.').all(is_label) && last.chars().count() >= 2 && last.chars().all(is_letter)
}

fn is_label_letter(letter: char) -> bool {
    match letter.is_ascii() {
        true => letter.is_ascii_alphanumeric() || "$+<=>^`|~".contains(letter),
        false => is_of(Class::Letter, letter) || is_of(Class::Symbol, letter),
    }
}

#[derive(Clone, Copy)]
enum Class {
    Letter,
    Symbol,
}

/// Whether Unicode has the letter in this class.
fn is_of(class: Class, letter: char) -> bool {
    static LETTERS: OnceLock<Option<rkube_cel::Regex>> = OnceLock::new();
    static SYMBOLS: OnceLock<Option<rkube_cel::Regex>> = OnceLock::new();
    let (place, pattern) = match class {
        Class::Letter => (&LETTERS, r"^\p{L}$"),
        Class::Symbol => (&SYMBOLS, r"^\p{S}$"),
    };
    let pattern = place.get_or_init(|| compile_pattern(pattern).ok());
    pattern.as_ref().is_some_and(|pattern| pattern.is_match(letter.encode_utf8(&mut [0; 4])))
}

fn is_date(text: &str) -> bool {
    let bytes = text.as_bytes();
    if bytes.len() != 10 || bytes[4] != b'-' || bytes[7] != b'-' {
        return false;
    }
    let number = |part: &[u8]| {
        let digits = part.iter().all(u8::is_ascii_digit);
        digits.then(|| part.iter().fold(0, |number, digit| number * 10 + i64::from(digit - b'0')))
    };
    let (Some(year), Some(month), Some(day)) = (number(&bytes[..4]), number(&bytes[5..7]), number(&bytes[8..])) else {
        return false;
    };
    // A day that the month does not have comes back as one of the next month.
    (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && time::civil_from_days(time::days_from_civil(year, month, day)) == (year, month, day)
}

fn is_date_time(text: &str) -> bool {
    let split = text.find(['t', 'T']);
    let Some((date, rest)) = split.map(|at| (&text[..at], &text[at + 1..])) else { return false };
    let clock = rest.split(['t', 'T']).next().unwrap_or(rest);
    let bytes = clock.as_bytes();
    let two = |at: usize, max: &[u8; 2]| {
        let part = bytes.get(at..at + 2);
        part.is_some_and(|part| part.iter().all(u8::is_ascii_digit) && part <= &max[..])
    };
    let colons = bytes.get(2) == Some(&b':') && bytes.get(5) == Some(&b':');
    is_date(date) && colons && two(0, b"23") && two(3, b"59") && two(6, b"59") && ends_clock(&clock[8..])
}

/// What may follow the seconds: any letter and digits, and a zone.
fn ends_clock(rest: &str) -> bool {
    let is_zone = |zone: &str| {
        let zone = zone.as_bytes();
        let digits = |at: usize| zone[at].is_ascii_digit() && zone[at + 1].is_ascii_digit();
        matches!(zone, b"z" | b"Z")
            || zone.len() == 6 && matches!(zone[0], b'+' | b'-') && zone[3] == b':' && digits(1) && digits(4)
    };
    if is_zone(rest) {
        return true;
    }
    let mut letters = rest.chars();
    let Some(point) = letters.next().filter(|letter| *letter != '\n') else { return false };
    let zone = rest[point.len_utf8()..].trim_start_matches(|letter: char| letter.is_ascii_digit());
    zone.len() < rest.len() - point.len_utf8() && is_zone(zone)
}

/// A duration of Go, or one in words: `3 days`.
fn is_duration(text: &str) -> bool {
    if time::parse_duration(text).is_ok() {
        return true;
    }
    let mut rest = text;
    let mut found = false;
    while let Some(start) = rest.find(|letter: char| letter.is_ascii_digit()) {
        let digits = &rest[start..];
        let after = digits.trim_start_matches(|letter: char| letter.is_ascii_digit());
        let number = &digits[..digits.len() - after.len()];
        let unit_on = after.trim_start_matches(['\t', '\n', '\u{c}', '\r', ' ']);
        let end = unit_on.find(|letter: char| !(letter.is_ascii_alphabetic() || letter == 'µ'));
        let unit = &unit_on[..end.unwrap_or(unit_on.len())];
        rest = &unit_on[unit.len()..];
        if unit.is_empty() {
            continue;
        }
        if number.parse::<i64>().is_err() {
            return false;
        }
        found |= is_unit(&unit.to_lowercase());
    }
    found
}

fn is_unit(unit: &str) -> bool {
    const SHORT: [&str; 11] = ["ns", "us", "µs", "ms", "s", "m", "h", "hr", "d", "w", "wk"];
    const LONG: [&str; 8] = ["nano", "micro", "milli", "sec", "min", "hour", "day", "week"];
    SHORT.contains(&unit) || LONG.iter().any(|prefix| unit.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_of_their_formats() {
        let table: &[(&str, &[&str], &[&str])] = &[
            ("bsonobjectid", &["507f1f77bcf86cd799439011"], &["507f1f77bcf86cd79943901", "x07f1f77bcf86cd799439011"]),
            ("uri", &["http://a.b/c?d", "/a", "mailto:x", "*", "a:b"], &["", "a/b", "http://a b", "http://[::1", "\n"]),
            (
                "email",
                &["a@b", "A B <a@b.c>", "\"a b\"@c", "a@[127.0.0.1]", "a@b (c)", "g: a@b;"],
                &["", "a", "a@", "@b", "a..b@c", "a@b c", "<a@b", "g:;", "g: a@b, c@d;"],
            ),
            (
                "hostname",
                &["a", "a-", "a-b", "a-b.cd", "x.example.com", "1.xy", "a☃.com", "münchen.de"],
                &["", "-a", "a_b", "a-b-c", "a.b", "a.1b", "a..bc", ".ab"],
            ),
            ("ipv4", &["1.2.3.4", "01.2.3.4", "::ffff:1.2.3.4"], &["1.2.3", "::1", "256.1.1.1"]),
            ("ipv6", &["::1", "2001:db8::1"], &["1.2.3.4", "::1%eth0", ":::"]),
            ("cidr", &["10.0.0.0/8", "::/0", "10.0.0.1/08"], &["10.0.0.0", "10.0.0.0/33"]),
            (
                "mac",
                &["01:23:45:67:89:ab", "01-23-45-67-89-ab", "0123.4567.89ab", "0123456789ab"],
                &["01:23:45:67:89", "01:23-45:67:89:ab", "0123.4567.89a", "x1:23:45:67:89:ab"],
            ),
            (
                "uuid",
                &["123e4567-e89b-12d3-a456-426614174000", "123E4567e89b12d3a456426614174000"],
                &["123e4567-e89b-12d3-a456-42661417400", "123e4567--e89b12d3a456426614174000"],
            ),
            ("uuid3", &["123e4567-e89b-32d3-a456-426614174000"], &["123e4567-e89b-42d3-a456-426614174000"]),
            (
                "uuid4",
                &["123e4567-e89b-42d3-a456-426614174000"],
                &["123e4567-e89b-42d3-c456-426614174000", "123e4567-e89b-52d3-a456-426614174000"],
            ),
            ("uuid5", &["123e4567-e89b-52d3-b456-426614174000"], &["123e4567-e89b-32d3-a456-426614174000"]),
            ("isbn", &["0321751043", "978-0321751041", "080442957X"], &["0321751044", "978-0321751042", "x"]),
            ("isbn10", &["0-321-75104-3"], &["9780321751041"]),
            ("isbn13", &["9780321751041"], &["0321751043"]),
            ("creditcard", &["4111-1111-1111-1111", "x4111111111111111"], &["4111111111111112", "1"]),
            ("ssn", &["123-45-6789", "123 45 6789"], &["123456789", "123-45-678"]),
            ("hexcolor", &["#fff", "FFFFFF"], &["#ffff", "ggg"]),
            ("rgbcolor", &["rgb(0,255, 10)", "rgb( 1 , 2 , 3 )"], &["rgb(256,0,0)", "rgb(01,0,0)", "rgb(1,2)"]),
            ("byte", &["AAEC", "AA==", "AAE="], &["", "A", "AA=", "AA-_"]),
            ("password", &["", "x"], &[]),
            ("date", &["2024-02-29", "0000-01-01"], &["2023-02-29", "2024-13-01", "24-01-01", "2024-1-01"]),
            ("duration", &["1h", "3 days", "2weeks and 1 MIN", "0"], &["", "x", "3", "3 moons"]),
            (
                "date-time",
                &[
                    "2024-01-01T10:00:00Z",
                    "2024-01-01t10:00:00.5+99:99",
                    "2024-01-01T10:00:00x5z",
                    "2024-01-01T10:00:00ZT",
                ],
                &[
                    "2024-01-01",
                    "2024-01-01T10:00:60Z",
                    "2024-01-01T10:00:00",
                    "2024-01-01T24:00:00Z",
                    "2024-01-01T10:00:00.Z",
                ],
            ),
            ("k8s-short-name", &["a-b1"], &["A", "a.b", ""]),
            ("k8s-long-name", &["a.b-c"], &["A", "a..b"]),
        ];
        for (name, valid, invalid) in table {
            let format = Format::find(name).unwrap();
            for text in *valid {
                assert!(format.takes(text), "{name}: {text}");
            }
            for text in *invalid {
                assert!(!format.takes(text), "{name}: {text}");
            }
        }
        assert_eq!(Format::find("date--time"), Some(Format::DateTime));
        assert_eq!(Format::find("int32"), None);
        assert_eq!(Format::find("a-much-longer-name-than-any"), None);
    }
}
