//! What a priority level must look like.

use rkube_machinery::field::{Errors, Path};
use rkube_machinery::{Value, object};

use crate::flowcontrol::SPEC;

/// How older versions said that zero shares are meant; nothing that is stored has it.
const KEEPS_ZERO_SHARES: &str = "flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares";
const EXEMPT: &str = "exempt";
const QUEUES_MAX: i64 = 10_000_000;
/// So many bits of a hash may choose the queues of a flow.
const HASH_BITS_MAX: i64 = 60;

/// Everything but metadata and status.
pub fn level(level: &Value, errors: &mut Errors) {
    let meta = level.get("metadata");
    let name = meta.str("name");
    if meta.get("annotations").has(KEEPS_ZERO_SHARES) {
        let path = Path::new("metadata.annotations");
        errors.forbidden(path, format!("annotation '{KEEPS_ZERO_SHARES}' is forbidden"));
    }
    let spec = level.get("spec");
    validate_spec(name, spec, errors);
    match name {
        EXEMPT if spec.str("type") != "Exempt" || spec.has("limited") => {
            let detail = format!("spec of '{name}' except the 'spec.exempt' field must equal the fixed value");
            errors.invalid(SPEC, &shown(spec), detail);
        }
        "catch-all" if !is_catch_all(spec) => {
            errors.invalid(SPEC, &shown(spec), format!("spec of '{name}' must equal the fixed value"));
        }
        _ => {}
    }
}

fn validate_spec(name: &str, spec: &Value, errors: &mut Errors) {
    let kind = spec.str("type");
    let path = SPEC.child("type");
    if (name == EXEMPT) != (kind == "Exempt") {
        errors.invalid(path, kind, "must be 'Exempt' if and only if `name` is 'exempt'");
    }
    let (limited, exempt) = (SPEC.child("limited"), SPEC.child("exempt"));
    match kind {
        "Exempt" => {
            if spec.has("limited") {
                errors.forbidden(limited, "must be nil if the type is not Limited");
            }
            if spec.has("exempt") {
                validate_exempt(exempt, spec.get("exempt"), errors);
            }
        }
        "Limited" => {
            if spec.has("exempt") {
                errors.forbidden(exempt, "must be nil if the type is Limited");
            }
            if spec.has("limited") {
                validate_limited(limited, spec.get("limited"), errors);
            } else {
                errors.required(limited, "must not be empty when type is Limited");
            }
        }
        "" => errors.required(path, ""),
        other => errors.not_supported(path, other, &["Exempt", "Limited"]),
    }
}

fn validate_exempt(path: Path<'_>, exempt: &Value, errors: &mut Errors) {
    validate_shares(path, exempt, errors);
    validate_lendable(path, exempt, errors);
}

fn validate_limited(path: Path<'_>, limited: &Value, errors: &mut Errors) {
    validate_shares(path, limited, errors);
    validate_response(path.child("limitResponse"), limited.get("limitResponse"), errors);
    validate_lendable(path, limited, errors);
    let limit = limited.int("borrowingLimitPercent");
    if limit < 0 {
        let detail = "if specified, must be a non-negative integer";
        errors.invalid(path.child("borrowingLimitPercent"), limit, detail);
    }
}

fn validate_shares(path: Path<'_>, parent: &Value, errors: &mut Errors) {
    let shares = parent.int("nominalConcurrencyShares");
    if shares < 0 {
        errors.invalid(path.child("nominalConcurrencyShares"), shares, "must be a non-negative integer");
    }
}

fn validate_lendable(path: Path<'_>, parent: &Value, errors: &mut Errors) {
    let percent = parent.int("lendablePercent");
    if !(0..=100).contains(&percent) {
        errors.invalid(path.child("lendablePercent"), percent, "must be between 0 and 100, inclusive");
    }
}

fn validate_response(path: Path<'_>, response: &Value, errors: &mut Errors) {
    let queuing = path.child("queuing");
    match (response.str("type"), response.has("queuing")) {
        ("Reject", true) => {
            errors.forbidden(queuing, "must be nil if limited.limitResponse.type is not Limited");
        }
        ("Reject", false) => {}
        ("Queue", true) => validate_queuing(queuing, response.get("queuing"), errors),
        ("Queue", false) => {
            errors.required(queuing, "must not be empty if limited.limitResponse.type is Limited");
        }
        ("", _) => errors.required(path.child("type"), ""),
        (other, _) => errors.not_supported(path.child("type"), other, &["Queue", "Reject"]),
    }
}

fn validate_queuing(path: Path<'_>, queuing: &Value, errors: &mut Errors) {
    let (queues, hand, limit) = (queuing.int("queues"), queuing.int("handSize"), queuing.int("queueLengthLimit"));
    if limit <= 0 {
        errors.invalid(path.child("queueLengthLimit"), limit, "must be positive");
    }
    if queues <= 0 {
        errors.invalid(path.child("queues"), queues, "must be positive");
    } else if queues > QUEUES_MAX {
        errors.invalid(path.child("queues"), queues, format!("must not be greater than {QUEUES_MAX}"));
    }
    let path = path.child("handSize");
    if hand <= 0 {
        errors.invalid(path, hand, "must be positive");
    } else if hand > queues {
        errors.invalid(path, hand, format!("should not be greater than queues ({queues})"));
    } else if hash_bits(queues, hand) > HASH_BITS_MAX {
        let detail = format!(
            "required entropy bits of deckSize {queues} and handSize {hand} should not be greater than {HASH_BITS_MAX}"
        );
        errors.invalid(path, hand, detail);
    }
}

/// How many bits of a hash it takes to deal a hand out of so many queues; both are 32 bit numbers.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)]
fn hash_bits(queues: i64, hand: i64) -> i64 {
    ((queues as f64).log2() * hand as f64).ceil() as i64
}

/// The level for all that no flow schema has a place for.
fn is_catch_all(spec: &Value) -> bool {
    let limited = spec.get("limited");
    spec.str("type") == "Limited"
        && !spec.has("exempt")
        && limited.int("nominalConcurrencyShares") == 5
        && limited.get("limitResponse").str("type") == "Reject"
        && !limited.get("limitResponse").has("queuing")
        && limited.get("lendablePercent").as_int() == Some(0)
        && !limited.has("borrowingLimitPercent")
}

/// The spec as a message shows it: fields by Go's names, all of them.
fn shown(spec: &Value) -> Value {
    let (limited, exempt) = (spec.get("limited"), spec.get("exempt"));
    let response = limited.get("limitResponse");
    let queuing = response.get("queuing");
    let queuing = object! {
        "Queues": queuing.int("queues"), "HandSize": queuing.int("handSize"),
        "QueueLengthLimit": queuing.int("queueLengthLimit"),
    };
    let queuing = if response.has("queuing") { queuing } else { Value::Null };
    let limited = object! {
        "NominalConcurrencyShares": limited.int("nominalConcurrencyShares"),
        "LimitResponse": object! { "Type": response.str("type"), "Queuing": queuing },
        "LendablePercent": limited.get("lendablePercent").clone(),
        "BorrowingLimitPercent": limited.get("borrowingLimitPercent").clone(),
    };
    let exempt = object! {
        "NominalConcurrencyShares": exempt.get("nominalConcurrencyShares").clone(),
        "LendablePercent": exempt.get("lendablePercent").clone(),
    };
    object! {
        "Type": spec.str("type"),
        "Limited": if spec.has("limited") { limited } else { Value::Null },
        "Exempt": if spec.has("exempt") { exempt } else { Value::Null },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hands_and_bits() {
        for (queues, hand, bits) in [(64, 8, 48), (128, 6, 42), (1, 1, 0), (512, 7, 63), (10_000_000, 3, 70)] {
            assert_eq!(hash_bits(queues, hand), bits, "{queues} {hand}");
        }
    }
}
