//! Short texts with a grammar of their own.

use rkube_cel::{Activation, Budget, Environment, Type, Value};
use rkube_machinery::decode::base64;
use rkube_machinery::quantity::Quantity;
use rkube_machinery::selector::{fields, labels};
use rkube_machinery::{names, time};

/// Label and field selectors: what is printed reads back the same.
pub fn selectors(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(selector) = labels::Selector::parse(text) {
        let printed = selector.to_string();
        let again = labels::Selector::parse(&printed).expect("what was printed can be read");
        assert_eq!(again.to_string(), printed);
        let label = |key: &str| key.starts_with('a').then_some("b");
        assert_eq!(again.matches_pairs(label), selector.matches_pairs(label));
    }
    if let Ok(selector) = fields::Selector::parse(text) {
        // Terms are sorted as they are written, and `a==b` is printed as `a=b`: the second time nothing moves.
        let reprint = |printed: &str| fields::Selector::parse(printed).expect("what was printed can be read");
        let again = reprint(&selector.to_string());
        assert_eq!(reprint(&again.to_string()).to_string(), again.to_string());
        let field = |key: &str| Some(if key.starts_with('a') { "b" } else { "" });
        assert_eq!(again.matches(field), selector.matches(field));
    }
    let _ = (names::dns1123_subdomain(text), names::qualified_name(text), names::label_value(text));
    let _ = (names::path_segment_name(text), names::is_http_path(text), names::percent(text));
    let _ = (names::address::parse_sloppy(text), names::address::Subnet::parse_sloppy(text));
}

/// Quantities, one after the other: canonical texts stay, and sums do not overflow.
pub fn quantities(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let mut sum = Quantity::ZERO;
    for part in text.split(',') {
        let Ok(quantity) = Quantity::parse(part) else { continue };
        let canonical = quantity.to_text();
        let again = Quantity::parse(&canonical).expect("a canonical quantity can be read");
        // Above 10^18 upstream drops the suffix, and so do we.
        if quantity.as_f64().abs() < 1e18 {
            assert_eq!(again.to_text(), canonical, "{part:?}");
            assert_eq!(again, quantity, "{part:?} {canonical:?}");
        }
        let _ = (quantity.value(), quantity.milli_value(), quantity.as_f64(), quantity.negate().to_text());
        let _ = sum.sub(&quantity).to_text();
        sum = sum.add(&quantity);
        let _ = (sum.to_text(), sum.cmp(&quantity), sum.is_zero(), sum.is_negative());
    }
}

/// Times, durations and base64.
pub fn times(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(Some(canonical)) = time::canonical_seconds(text) {
        assert!(time::canonical_seconds(&canonical).is_ok(), "{canonical}");
    }
    if let Ok(Some(canonical)) = time::canonical_micros(text) {
        assert!(time::canonical_micros(&canonical).is_ok(), "{canonical}");
    }
    if let Ok(nanos) = time::parse_duration(text) {
        assert_eq!(time::parse_duration(&time::format_duration(nanos)), Ok(nanos));
        let _ = time::human_duration(nanos);
    }
    if let Ok(plain) = base64::decode(bytes) {
        assert_eq!(base64::decode(base64::encode(&plain).as_bytes()), Ok(plain));
    }
    let _ = base64::canonical(text);
}

/// CEL: a text gets an answer, what is printed reads back the same, and no evaluation spends more than its budget.
pub fn expressions(bytes: &[u8]) {
    const BUDGET: u64 = 10_000;
    /// Parentheses that are printed count as levels: what is longer may be too deep to be read again.
    const PRINTED_MAX_BYTES: usize = 200;
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let environment = Environment::new().with_bind().variable("x", Type::Dyn);
    let Ok(tree) = environment.parse(text) else { return };
    let printed = tree.to_string();
    match environment.parse(&printed) {
        Ok(again) => assert_eq!(again.to_string(), printed),
        Err(issues) => assert!(printed.len() > PRINTED_MAX_BYTES, "{printed}: {issues}"),
    }
    if let Ok(program) = environment.compile(text) {
        let activation = Activation::new().value("x", Value::list(vec![Value::Int(1), Value::string("a")]));
        let _ = program.evaluate(&activation, &mut Budget::new(BUDGET));
    }
}
