//! What evaluating costs, counted as Kubernetes counts it, so that no expression takes long.

use crate::functions::EvalError;
use crate::value::Value;

/// What one evaluation may cost.
pub const PER_CALL_LIMIT: u64 = 1_000_000;

pub const SELECT: u64 = 1;
pub const CREATE_LIST: u64 = 10;
pub const CREATE_MAP: u64 = 30;
pub const CREATE_STRUCT: u64 = 40;
/// No list has more items. What makes longer ones would cost more than any budget allows, or is no honest rule.
pub const LIST_MAX: usize = 1_000_000;
/// No text has more bytes, for the same reason.
pub const TEXT_MAX_BYTES: usize = 32 * 1024 * 1024;
/// A letter of a text costs so much of one step.
pub const TEXT: f64 = 0.1;
/// A letter of a pattern stands for so much of a step of matching.
pub const PATTERN: f64 = 0.25;
pub const CHECK: u64 = 350_000;

/// What may still be spent, and what was.
#[derive(Clone, Debug)]
pub struct Budget {
    spent: u64,
    limit: u64,
}

impl Budget {
    pub fn new(limit: u64) -> Self {
        Budget { spent: 0, limit }
    }

    /// The budget of one evaluation.
    pub fn per_call() -> Self {
        Budget::new(PER_CALL_LIMIT)
    }

    pub fn spent(&self) -> u64 {
        self.spent
    }

    pub fn charge(&mut self, cost: u64) -> Result<(), EvalError> {
        self.spent = self.spent.saturating_add(cost);
        if self.spent > self.limit { Err(EvalError::CostLimit) } else { Ok(()) }
    }
}

/// What a call cost. `overload` is its signature, where only one fits.
pub fn call(function: &str, overload: &str, arguments: &[Value<'_>], result: Option<&Value<'_>>) -> u64 {
    by_overload(overload, arguments, result)
        .or_else(|| by_function(function, overload, arguments, result))
        .unwrap_or_else(|| standard(overload, arguments))
}

/// Whether what a call costs depends on its result. All others are charged for before they run, so that none runs that
/// cannot be paid.
pub fn is_by_result(function: &str, overload: &str) -> bool {
    matches!(overload, "list_slice" | "lists_range" | "list_reverse") || function == "join"
}

/// The sizes of values, as costs count them.
fn size(value: &Value<'_>) -> u64 {
    match value {
        Value::Object(object) => object.fields.len() as u64,
        Value::Optional(Some(inner)) => size(inner),
        Value::Ip(address) => {
            if address.is_ipv4() {
                4
            } else {
                16
            }
        }
        Value::Cidr(cidr) => u64::from(cidr.bits).div_ceil(8),
        other => other.size().map_or(1, |size| size as u64),
    }
}

fn text(size: u64) -> u64 {
    (size as f64 * TEXT).ceil() as u64
}

fn pattern(text_size: u64, pattern_size: u64) -> u64 {
    let text = ((1.0 + text_size as f64) * TEXT).ceil() as u64;
    text * (pattern_size as f64 * PATTERN).ceil() as u64
}

fn new_list(factor: f64, size: u64) -> u64 {
    (size as f64 * factor) as u64 + 1 + CREATE_LIST
}

/// Comparing all elements with one another.
fn self_compare(value: &Value<'_>) -> u64 {
    let Value::List(list) = value else { return 1 };
    let factor = match list.items.first() {
        Some(Value::String(_) | Value::Bytes(_)) => 2.0 + TEXT,
        _ => 2.0,
    };
    new_list(factor, (list.items.len() as u64).pow(2))
}

fn by_overload(overload: &str, arguments: &[Value<'_>], result: Option<&Value<'_>>) -> Option<u64> {
    Some(match overload {
        "list_slice" | "lists_range" | "list_reverse" => new_list(1.0, result.map_or(1, size)),
        "list_flatten" => new_list(1.0, size(&arguments[0])),
        "list_flatten_int" => match arguments[1] {
            Value::Int(depth) => new_list(depth as f64, size(&arguments[0])),
            _ => return None,
        },
        "list_distinct" => self_compare(&arguments[0]),
        sort if sort.starts_with("list_") && sort.ends_with("_sort") => self_compare(&arguments[0]),
        sort if sort.ends_with("_sortByAssociatedKeys") => self_compare(&arguments[1]),
        "list_sets_contains_list" | "list_sets_intersects_list" => {
            1 + size(&arguments[0]).saturating_mul(size(&arguments[1]))
        }
        "list_sets_equivalent_list" => 1 + 2 * size(&arguments[0]).saturating_mul(size(&arguments[1])),
        _ => return None,
    })
}

fn by_function(function: &str, overload: &str, arguments: &[Value<'_>], result: Option<&Value<'_>>) -> Option<u64> {
    let first = arguments.first().map(size);
    let second = arguments.get(1).map(size);
    Some(match function {
        "check" => CHECK,
        _ if is_nominal(function) => 1,
        "fieldSelector" | "labelSelector" => {
            let length = second?;
            let requirements = (length as f64 * 0.5).ceil() * (CREATE_LIST + CREATE_STRUCT) as f64;
            CREATE_LIST + text(length) + requirements as u64
        }
        "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => traversal(&arguments[0]),
        "url"
        | "lowerAscii"
        | "upperAscii"
        | "substring"
        | "trim"
        | "jsonpatch.escapeKey"
        | "cidr"
        | "isIP"
        | "isCIDR"
        | "quantity"
        | "isQuantity"
        | "semver"
        | "isSemver" => text(first?),
        "replace" | "split" | "ip.isCanonical" => (first? as f64 * 2.0 * TEXT).ceil() as u64,
        "join" => (result.map_or(1, size) as f64 * 2.0 * TEXT).ceil() as u64,
        "find" | "findAll" => pattern(first?, second?),
        "ip" if overload == "cidr_ip" => 1,
        "ip" => text(first?),
        "containsIP" => {
            let parse = if overload == "cidr_contains_ip_string" { text(second?) } else { 0 };
            text(2 * first?) + parse
        }
        "containsCIDR" => {
            let parse = if overload == "cidr_contains_cidr_string" { text(second?) } else { 0 };
            text(2 * first?) + text(first?) + 1 + parse
        }
        "validate" => match arguments {
            [Value::Format(format), value] => pattern(size(value), format_pattern(format)),
            _ => return None,
        },
        "_==_" => match arguments[0] {
            Value::Quantity(_)
            | Value::Ip(_)
            | Value::Cidr(_)
            | Value::Format(_)
            | Value::Url(_)
            | Value::Semver(_)
            | Value::Authorization(_) => 1,
            _ => return None,
        },
        _ => return None,
    })
}

/// Whether a call of the function costs one, whatever it is called with.
pub fn is_nominal(function: &str) -> bool {
    matches!(
        function,
        "serviceAccount"
            | "path"
            | "group"
            | "resource"
            | "subresource"
            | "namespace"
            | "name"
            | "allowed"
            | "reason"
            | "error"
            | "errored"
            | "masked"
            | "prefixLength"
            | "family"
            | "isUnspecified"
            | "isLoopback"
            | "isLinkLocalMulticast"
            | "isLinkLocalUnicast"
            | "isGlobalUnicast"
            | "format.named"
            | "sign"
            | "asInteger"
            | "isInteger"
            | "asApproximateFloat"
            | "isGreaterThan"
            | "isLessThan"
            | "compareTo"
            | "add"
            | "sub"
            | "major"
            | "minor"
            | "patch"
            | "getScheme"
            | "getHostname"
            | "getHost"
            | "getPort"
            | "getEscapedPath"
            | "getQuery"
    )
}

/// How long the pattern of a format is.
fn format_pattern(format: &str) -> u64 {
    match format {
        "dns1123Label" | "dns1035Label" | "dns1123LabelPrefix" | "dns1035LabelPrefix" => 30,
        "dns1123Subdomain" | "dns1123SubdomainPrefix" | "qualifiedName" => 60,
        "labelValue" => 40,
        "uri" => 1103,
        "uuid" => 70,
        "byte" => 84,
        _ => 71,
    }
}

fn standard(overload: &str, arguments: &[Value<'_>]) -> u64 {
    match (overload, arguments) {
        (
            "starts_with_string" | "ends_with_string" | "string_to_bytes" | "bytes_to_string" | "strings_quote"
            | "string_format",
            [value, ..],
        ) => text(size(value)),
        ("in_list", [_, list]) => size(list),
        (
            "less_string"
            | "greater_string"
            | "less_equals_string"
            | "greater_equals_string"
            | "less_bytes"
            | "greater_bytes"
            | "less_equals_bytes"
            | "greater_equals_bytes"
            | "equals"
            | "not_equals",
            [one, other],
        ) => text(size(one).min(size(other))),
        ("add_string" | "add_bytes", [one, other]) => text(size(one) + size(other)),
        ("matches_string", [value, regex]) => pattern(size(value), size(regex)),
        ("contains_string", [value, part]) => text(size(value)) * text(size(part)),
        _ => 1,
    }
}

/// Going through all of a value.
fn traversal(value: &Value<'_>) -> u64 {
    match value {
        Value::String(text) => (text.len() as f64 * TEXT) as u64,
        Value::Bytes(bytes) => (bytes.len() as f64 * TEXT) as u64,
        Value::List(list) => list.items.iter().map(traversal).sum(),
        Value::Map(map) => map.iter().map(|(key, value)| traversal(key) + traversal(value)).sum(),
        Value::Object(object) => object.fields.values().map(|value| 1 + traversal(value)).sum(),
        Value::View(view) => view.opened().map_or(1, |opened| traversal(&opened)),
        _ => 1,
    }
}
