//! Amounts of resources: `100m`, `1536Mi`, `12e6`.
//!
//! A quantity is a whole number times a power of ten, and the family of suffixes in which it was written. Its text is
//! the one that Kubernetes would write back: the shortest without a fraction, or the given one where that is as good.

use std::cmp::Ordering;
use std::fmt;

use crate::value::Text;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Format,
    #[error("unable to parse numeric part of quantity")]
    Number,
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

/// The family of suffixes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `12Mi`
    BinarySi,
    /// `12M`
    DecimalSi,
    /// `12e6`
    DecimalExponent,
}

#[derive(Clone, Debug)]
pub struct Quantity {
    /// The amount is `mantissa * 10^exponent`.
    mantissa: i128,
    exponent: i32,
    format: Format,
    /// The text it was read from, where that is the text to write.
    text: Option<Text>,
}

/// The smallest amount is a billionth; below, amounts are rounded away from zero.
const EXPONENT_MIN: i32 = -9;
/// Mantissas keep below 10 to this, so that products with small factors fit.
const DIGITS_MAX: usize = 36;

impl Quantity {
    pub const ZERO: Quantity = Quantity { mantissa: 0, exponent: 0, format: Format::DecimalSi, text: None };

    pub fn new(value: i64, format: Format) -> Self {
        Quantity { mantissa: value.into(), exponent: 0, format, text: None }
    }

    /// A number of thousandths.
    pub fn from_milli(value: i64, format: Format) -> Self {
        Quantity { mantissa: value.into(), exponent: -3, format, text: None }
    }

    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        let parts = Parts::split(text)?;
        let (power, format) = interpret_suffix(parts.suffix).ok_or(QuantityError::Suffix)?;
        let digits = parts.whole.len() + parts.fraction.len();
        let exact = match power {
            Power::Ten(exponent) => {
                digits <= 18 && exponent.saturating_sub(parts.fraction.len() as i32) >= EXPONENT_MIN
            }
            Power::Two(exponent) => {
                parts.fraction.is_empty() && 14 - digits as i32 - (exponent as f32 * 3.0 / 10.0) as i32 >= 0
            }
        };
        let mut quantity = parts.amount(power, format)?;
        if exact && keeps_text(&parts, power) {
            quantity.text = Some(Text::new(text));
        } else if !exact {
            quantity.round_up(EXPONENT_MIN);
            quantity.limit_binary();
        }
        Ok(quantity)
    }

    /// The amount rounded away from zero to a whole number; at the edge of the range where it lies outside.
    pub fn value(&self) -> i64 {
        self.scaled(0)
    }

    /// The amount in thousandths, rounded and bounded as [`Quantity::value`].
    pub fn milli_value(&self) -> i64 {
        self.scaled(-3)
    }

    /// The amount, where it was written without a fraction and fits. `1000m` is one, but not written so.
    pub fn as_integer(&self) -> Option<i64> {
        let power = u32::try_from(self.exponent).ok()?;
        let whole = 10i128.checked_pow(power).and_then(|factor| self.mantissa.checked_mul(factor))?;
        i64::try_from(whole).ok()
    }

    pub fn as_f64(&self) -> f64 {
        self.mantissa as f64 * 10f64.powi(self.exponent)
    }

    pub fn format(&self) -> Format {
        self.format
    }

    pub fn is_zero(&self) -> bool {
        self.mantissa == 0
    }

    pub fn is_negative(&self) -> bool {
        self.mantissa < 0
    }

    /// Adds; a zero takes over the other's format.
    #[must_use]
    pub fn add(&self, other: &Quantity) -> Quantity {
        self.combine(other, i128::saturating_add)
    }

    /// Subtracts; a zero takes over the other's format.
    #[must_use]
    pub fn sub(&self, other: &Quantity) -> Quantity {
        self.combine(other, i128::saturating_sub)
    }

    #[must_use]
    pub fn negate(&self) -> Quantity {
        Quantity { mantissa: self.mantissa.saturating_neg(), text: None, ..*self }
    }

    fn combine(&self, other: &Quantity, operation: fn(i128, i128) -> i128) -> Quantity {
        let format = if self.is_zero() { other.format } else { self.format };
        let (left, right, exponent) = align(self, other);
        Quantity { mantissa: operation(left, right), exponent, format, text: None }
    }

    fn scaled(&self, exponent: i32) -> i64 {
        let mantissa = shift(self.mantissa, self.exponent.saturating_sub(exponent));
        mantissa.clamp(i64::MIN.into(), i64::MAX.into()) as i64
    }

    fn round_up(&mut self, exponent: i32) {
        if self.exponent < exponent {
            self.mantissa = shift(self.mantissa, self.exponent.saturating_sub(exponent));
            self.exponent = exponent;
        }
    }

    /// Binary amounts end at the largest 64-bit integer; below one they are decimal.
    fn limit_binary(&mut self) {
        if self.format != Format::BinarySi {
            return;
        }
        let one = Quantity::new(1, Format::BinarySi);
        let max = Quantity::new(i64::MAX, Format::BinarySi);
        let size = if self.is_negative() { self.negate() } else { self.clone() };
        if size > max {
            self.mantissa = if self.is_negative() { -i128::from(i64::MAX) } else { i64::MAX.into() };
            self.exponent = 0;
        } else if !size.is_zero() && size < one {
            self.format = Format::DecimalSi;
        }
    }

    /// The text as Kubernetes writes it back.
    pub fn to_text(&self) -> Text {
        self.text.clone().unwrap_or_else(|| Text::from(self.canonical()))
    }

    fn canonical(&self) -> String {
        if self.is_zero() {
            return "0".to_owned();
        }
        if self.format == Format::BinarySi {
            let whole = shift(self.mantissa, self.exponent);
            let exact = self.exponent >= 0 || shift(whole, -self.exponent) == self.mantissa;
            if exact && whole.unsigned_abs() >= 1024 {
                let (number, times) = divide_out(whole, 1024);
                return format!("{number}{}", BINARY.get(times as usize).unwrap_or(&""));
            }
        }
        let (number, times) = divide_out(self.mantissa, 10);
        let mut number = number.to_string();
        let mut exponent = self.exponent.saturating_add(times);
        while exponent % 3 != 0 {
            number.push('0');
            exponent -= 1;
        }
        match self.format {
            Format::DecimalExponent if exponent == 0 => number,
            Format::DecimalExponent => format!("{number}e{exponent}"),
            _ => {
                let known = DECIMAL.iter().find(|(_, power)| *power == exponent);
                format!("{number}{}", known.map_or("", |(suffix, _)| suffix))
            }
        }
    }
}

/// The text as Kubernetes writes it back.
impl fmt::Display for Quantity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.text {
            Some(text) => formatter.write_str(text),
            None => formatter.write_str(&self.canonical()),
        }
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        let (left, right, _) = align(self, other);
        left.cmp(&right)
    }
}
impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
/// Equal amounts are equal, however they are written.
impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for Quantity {}

impl std::str::FromStr for Quantity {
    type Err = QuantityError;
    fn from_str(text: &str) -> Result<Self, QuantityError> {
        Quantity::parse(text)
    }
}

const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
const DECIMAL: [(&str, i32); 10] =
    [("", 0), ("m", -3), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18), ("u", -6), ("n", -9)];

#[derive(Clone, Copy)]
enum Power {
    Ten(i32),
    Two(u32),
}

fn interpret_suffix(suffix: &str) -> Option<(Power, Format)> {
    if let Some((_, power)) = DECIMAL.iter().find(|(name, _)| *name == suffix) {
        return Some((Power::Ten(*power), Format::DecimalSi));
    }
    if let Some(times) = BINARY.iter().position(|name| *name == suffix) {
        return Some((Power::Two(times as u32 * 10), Format::BinarySi));
    }
    let exponent: i64 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
    Some((Power::Ten(exponent as i32), Format::DecimalExponent))
}

/// A quantity's text, taken apart. `whole` has no leading zeros.
struct Parts<'a> {
    negative: bool,
    whole: &'a str,
    fraction: &'a str,
    suffix: &'a str,
}

impl<'a> Parts<'a> {
    fn split(text: &'a str) -> Result<Self, QuantityError> {
        if text.is_empty() {
            return Err(QuantityError::Format);
        }
        let negative = text.starts_with('-');
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        let number = unsigned.trim_start_matches('0');
        let (whole, rest) = split_digits(number);
        let (fraction, suffix) = rest.strip_prefix('.').map_or(("", rest), split_digits);
        let letters = suffix.trim_start_matches(|letter| "eEinumkKMGTP".contains(letter));
        let power = letters.strip_prefix(['-', '+']).unwrap_or(letters);
        if !power.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(QuantityError::Format);
        }
        Ok(Parts { negative, whole: if whole.is_empty() { "0" } else { whole }, fraction, suffix })
    }

    fn amount(&self, power: Power, format: Format) -> Result<Quantity, QuantityError> {
        // Digits that the mantissa cannot hold only move the exponent.
        let mut mantissa: i128 = 0;
        let mut exponent: i32 = 0;
        for (index, digit) in self.whole.bytes().chain(self.fraction.bytes()).enumerate() {
            let behind_point = index >= self.whole.len();
            if mantissa < 10i128.pow(DIGITS_MAX as u32 - 1) {
                mantissa = mantissa * 10 + i128::from(digit - b'0');
                exponent -= i32::from(behind_point);
            } else {
                exponent += i32::from(!behind_point);
            }
        }
        match power {
            Power::Ten(power) => exponent = exponent.saturating_add(power),
            Power::Two(power) => mantissa = mantissa.saturating_mul(1 << power),
        }
        let mantissa = if self.negative { -mantissa } else { mantissa };
        Ok(Quantity { mantissa, exponent, format, text: None })
    }
}

fn split_digits(text: &str) -> (&str, &str) {
    let count = text.bytes().take_while(u8::is_ascii_digit).count();
    text.split_at(count)
}

/// Whether Kubernetes writes the given text back, as it does with most that are canonical and with some that are not.
fn keeps_text(parts: &Parts<'_>, power: Power) -> bool {
    match power {
        Power::Two(_) => parts.whole.parse::<u64>().is_ok_and(|value| value & 7 != 0),
        Power::Ten(exponent) => {
            let shifted_ends = |zeros: usize| {
                let mut digits = parts.fraction.bytes().rev().chain(parts.whole.bytes().rev());
                digits.by_ref().take(zeros).filter(|digit| *digit == b'0').count() == zeros
            };
            (exponent - parts.fraction.len() as i32) % 3 == 0 && !shifted_ends(3) && !parts.whole.starts_with('0')
        }
    }
}

/// `mantissa * 10^places`, rounded away from zero, at the edge of the range where it lies outside.
fn shift(mantissa: i128, places: i32) -> i128 {
    let factor = 10i128.checked_pow(places.unsigned_abs());
    match (places < 0, factor) {
        (_, _) if mantissa == 0 => 0,
        (false, Some(factor)) => mantissa.saturating_mul(factor),
        (false, None) => i128::MAX * mantissa.signum(),
        (true, Some(factor)) => mantissa / factor + mantissa.signum() * i128::from(mantissa % factor != 0),
        (true, None) => mantissa.signum(),
    }
}

/// Both mantissas at the smaller of the two exponents.
fn align(left: &Quantity, right: &Quantity) -> (i128, i128, i32) {
    let exponent = match (left.is_zero(), right.is_zero()) {
        (true, _) => right.exponent,
        (_, true) => left.exponent,
        _ => left.exponent.min(right.exponent),
    };
    let at = |quantity: &Quantity| shift(quantity.mantissa, quantity.exponent.saturating_sub(exponent));
    (at(left), at(right), exponent)
}

/// Divides by `factor` as often as nothing is left over; says how often.
fn divide_out(mut number: i128, factor: i128) -> (i128, i32) {
    let mut times = 0;
    while number != 0 && number % factor == 0 {
        number /= factor;
        times += 1;
    }
    (number, times)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn canonical(text: &str) -> String {
        Quantity::parse(text).unwrap().to_string()
    }

    #[test]
    fn texts_are_canonical() {
        for (text, want) in [
            ("0", "0"),
            ("0Ki", "0"),
            ("000", "0"),
            ("-", "0"),
            ("1", "1"),
            ("1.5", "1500m"),
            ("0.5", "500m"),
            ("100m", "100m"),
            ("1000m", "1"),
            ("1100m", "1100m"),
            ("1000", "1k"),
            ("1000k", "1M"),
            ("12E", "12E"),
            ("0.1n", "1n"),
            ("-0.1n", "-1n"),
            ("1Ki", "1Ki"),
            ("1024Ki", "1Mi"),
            ("8Mi", "8Mi"),
            ("1.5Gi", "1536Mi"),
            ("0.5Ki", "512"),
            ("1.1Mi", "1153433600m"),
            ("0.0001Ki", "102400u"),
            ("100Ei", "9223372036854775807"),
            ("-100Ei", "-9223372036854775807"),
            ("12e6", "12e6"),
            ("1e3", "1e3"),
            ("1E3", "1E3"),
            ("1000e3", "1e6"),
            ("10e-1", "1"),
            ("15e-1", "1500e-3"),
            // Texts that upstream keeps although there are shorter ones.
            ("+5", "+5"),
            ("05", "05"),
            ("1.500", "1.500"),
            ("123456789012345678901234567890", "123456789012345678901234567890"),
        ] {
            assert_eq!(canonical(text), want, "{text}");
        }
    }

    #[test]
    fn bad_texts_are_told_apart() {
        for (text, want) in [
            ("", QuantityError::Format),
            ("x", QuantityError::Format),
            ("1x", QuantityError::Format),
            ("1 Gi", QuantityError::Format),
            ("1.2.3", QuantityError::Format),
            ("1mm", QuantityError::Suffix),
            ("1ki", QuantityError::Suffix),
            ("1e", QuantityError::Suffix),
            ("1K", QuantityError::Suffix),
            ("1Mi5", QuantityError::Suffix),
        ] {
            assert_eq!(Quantity::parse(text).unwrap_err(), want, "{text}");
        }
    }

    #[test]
    fn amounts_compare_and_add() {
        let parse = |text: &str| Quantity::parse(text).unwrap();
        assert_eq!(parse("1Gi"), parse("1024Mi"));
        assert!(parse("1G") < parse("1Gi"));
        assert!(parse("-1") < parse("0") && parse("0") < parse("1n"));
        assert!(parse("1e30") > parse("1E"));
        assert_eq!(parse("1Gi").add(&parse("512Mi")).to_string(), "1536Mi");
        assert_eq!(parse("100m").add(&parse("900m")).to_string(), "1");
        assert_eq!(parse("0").add(&parse("1Ki")).to_string(), "1Ki");
        assert_eq!(parse("1").sub(&parse("1500m")).to_string(), "-500m");
        assert_eq!((parse("1500m").value(), parse("-1500m").value()), (2, -2));
        assert_eq!((parse("1.5").milli_value(), parse("1Ki").milli_value()), (1500, 1_024_000));
        assert_eq!(parse("1e40").value(), i64::MAX);
        assert!(parse("-1").is_negative() && parse("0.0").is_zero());
        // More digits than a mantissa holds: nothing overflows.
        let huge = parse("9e29").add(&parse("0.00000001"));
        assert_eq!(huge.to_string(), "900000000000000000000000000000000000010e-9");
        assert!(parse("-9e29").sub(&huge).sub(&huge).negate().value() > 0);
    }

    proptest! {
        #[test]
        fn canonical_texts_stay(text in "[+-]?[0-9]{1,20}(\\.[0-9]{0,12})?(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|e[0-9]|e-[0-9])?") {
            let once = Quantity::parse(&text).unwrap();
            let again = Quantity::parse(&once.to_string()).unwrap();
            // Above 10^18 upstream drops the suffix, and so do we.
            if once.as_f64().abs() < 1e18 {
                prop_assert_eq!(&once, &again);
                prop_assert_eq!(once.to_string(), again.to_string());
            }
        }

        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,12}") {
            let _ = Quantity::parse(&text);
        }
    }
}
