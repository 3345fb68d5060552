//! What calls of functions can cost, and how large their results can be.

use super::{Entries, Estimator, Part, Range};
use crate::ast::{Expr, Kind, Literal};
use crate::cost::{CHECK, CREATE_LIST, CREATE_STRUCT, PATTERN, TEXT};
use crate::types::Type;

/// The longest pattern of a named format.
const FORMAT_PATTERN_MAX: f64 = 128.0;
const FORMAT_SIZE_MAX: u64 = 64;

/// A cost, and the size of the result where that is known.
type Estimate = (Range, Option<Range>);

impl Estimator<'_> {
    /// A call with this signature, with what its arguments cost.
    pub(super) fn function(
        &mut self,
        expr: &Expr,
        function: &str,
        overload: &str,
        target: Option<&Part<'_>>,
        arguments: &[Part<'_>],
        costs: &[Range],
    ) -> Estimate {
        let sum = costs.iter().fold(Range::ZERO, |sum, cost| sum.plus(*cost));
        let found = self
            .by_overload(overload, target, arguments)
            .or_else(|| self.by_function(function, overload, target, arguments));
        if let Some((cost, size)) = found {
            return (cost.plus(sum), size);
        }
        match (overload, costs) {
            ("logical_or" | "logical_and", [one, other]) => {
                return (Range { min: one.min, max: one.plus(*other).max }, None);
            }
            ("conditional", [condition, one, other]) => {
                let size = known(&arguments[1]).union(known(&arguments[2]));
                let entries = Entries::union(self.entries_of(arguments[1].expr), self.entries_of(arguments[2].expr));
                self.entries.extend(entries.map(|entries| (expr.id, entries)));
                return (condition.plus(one.union(*other)), Some(size));
            }
            _ => {}
        }
        let (cost, size) = self.standard(expr, overload, target, arguments).unwrap_or((Range::ONE, None));
        (cost.plus(sum), size)
    }

    /// The functions of the language itself.
    fn standard(
        &mut self,
        expr: &Expr,
        overload: &str,
        target: Option<&Part<'_>>,
        arguments: &[Part<'_>],
    ) -> Option<Estimate> {
        Some(match (overload, target, arguments) {
            ("string_format", Some(target), _) => (known(target).scaled(TEXT), None),
            ("string_to_bytes", _, [value]) => {
                let size = known(value);
                (size.scaled(TEXT), Some(Range { min: size.min, max: size.max.wrapping_mul(4) }))
            }
            ("bytes_to_string", _, [value]) => {
                let size = known(value);
                (size.scaled(TEXT), Some(Range { min: size.min / 4, max: size.max }))
            }
            ("strings_quote", _, [value]) => {
                let size = known(value);
                let quoted = Range { min: size.min.wrapping_add(2), max: size.max.wrapping_mul(2).wrapping_add(2) };
                (size.scaled(TEXT), Some(quoted))
            }
            ("starts_with_string" | "ends_with_string", _, [part]) => (known(part).scaled(TEXT), None),
            ("in_list", _, [_, list]) => (known(list), None),
            ("matches_string", Some(text), [pattern]) => {
                let text = known(text).plus(Range::ONE).scaled(TEXT);
                (text.times(known(pattern).scaled(PATTERN)), None)
            }
            ("contains_string", Some(text), [part]) => (known(text).scaled(TEXT).times(known(part).scaled(TEXT)), None),
            ("add_string" | "add_bytes" | "add_list", _, [one, other]) => {
                let size = known(one).plus(known(other));
                let entries = Entries::union(self.entries_of(one.expr), self.entries_of(other.expr));
                self.entries.extend(entries.map(|entries| (expr.id, entries)));
                let cost = if overload == "add_list" { Range::ONE } else { size.scaled(TEXT) };
                (cost, Some(size))
            }
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
                _,
                [one, other],
            ) => {
                let max = known(one).max.min(known(other).max);
                (Range { min: u64::from(max > 0), max }.scaled(TEXT), None)
            }
            _ => return None,
        })
    }

    /// The functions on lists and sets.
    fn by_overload(&self, overload: &str, target: Option<&Part<'_>>, arguments: &[Part<'_>]) -> Option<Estimate> {
        let new_list =
            |factor: f64, size: Range| (size.scaled(factor).plus(Range::exactly(1 + CREATE_LIST)), Some(size));
        Some(match (overload, target, arguments) {
            ("list_slice", Some(target), [start, end]) => {
                let size = self.size_or_unknown(target);
                let length = whole(end, size.max).wrapping_sub(whole(start, 0));
                new_list(1.0, Range::exactly(length))
            }
            ("lists_range", None, [end]) => new_list(1.0, Range::exactly(whole(end, u64::MAX))),
            ("list_reverse", Some(target), []) => new_list(1.0, self.size_or_unknown(target)),
            ("list_flatten" | "list_flatten_int", Some(target), _) => {
                let depth = arguments.first().map_or(1, |depth| whole(depth, u64::MAX));
                new_list(depth as f64, self.size_or_unknown(target))
            }
            ("list_distinct", Some(target), []) => {
                let size = self.size_or_unknown(target);
                new_list(2.0, size.times(size))
            }
            (sort, Some(target), []) if sort.starts_with("list_") && sort.ends_with("_sort") => {
                let size = self.size_or_unknown(target);
                new_list(sort_factor(sort), size.times(size))
            }
            (sort, Some(_), [keys]) if sort.ends_with("_sortByAssociatedKeys") => {
                let size = self.size_or_unknown(keys);
                new_list(sort_factor(sort), size.times(size))
            }
            (
                "list_sets_contains_list" | "list_sets_intersects_list" | "list_sets_equivalent_list",
                _,
                [one, other],
            ) => {
                let factor = if overload == "list_sets_equivalent_list" { 2.0 } else { 1.0 };
                let pairs = self.size_or_unknown(one).times(self.size_or_unknown(other));
                (pairs.scaled(factor).plus(Range::ONE), None)
            }
            _ => return None,
        })
    }

    /// The functions that Kubernetes adds.
    fn by_function(
        &self,
        function: &str,
        overload: &str,
        target: Option<&Part<'_>>,
        arguments: &[Part<'_>],
    ) -> Option<Estimate> {
        let first = || arguments.first().map(|part| self.size_or_unknown(part));
        let receiver = || target.map(|part| self.size_or_unknown(part));
        let address = Range { min: 4, max: 16 };
        Some(match function {
            "check" => (Range::exactly(CHECK), None),
            _ if crate::cost::is_nominal(function) => (Range::ONE, None),
            "fieldSelector" | "labelSelector" if arguments.len() == 1 => {
                let length = first()?;
                let requirements = length.scaled(0.5).scaled((CREATE_LIST + CREATE_STRUCT) as f64);
                (Range::exactly(CREATE_LIST).plus(length.scaled(TEXT)).plus(requirements), None)
            }
            "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => (self.traversal(target?), None),
            "url" | "jsonpatch.escapeKey" if arguments.len() == 1 => (first()?.scaled(TEXT), first()),
            "lowerAscii" | "upperAscii" | "substring" | "trim" => (receiver()?.scaled(TEXT), receiver()),
            "replace" if arguments.len() >= 2 => {
                let size = receiver()?;
                let (old, new) = (first()?, self.size_or_unknown(&arguments[1]));
                (size.scaled(2.0 * TEXT), Some(replaced(size, old, new)))
            }
            "split" => {
                let size = receiver()?;
                let max = arguments.get(1).and_then(literal).map_or(size.max, |limit| limit as u64);
                (size.scaled(2.0 * TEXT), Some(Range { min: 0, max }))
            }
            "join" => {
                let size = self.joined(target?, arguments.first());
                (size.scaled(TEXT), Some(size))
            }
            "find" | "findAll" if !arguments.is_empty() => {
                let size = receiver()?;
                let cost = size.plus(Range::ONE).scaled(TEXT).times(first()?.scaled(PATTERN));
                (cost, Some(Range { min: 0, max: size.max }))
            }
            "ip" if overload == "cidr_ip" => (Range::ONE, None),
            "cidr" | "isIP" | "isCIDR" | "ip" | "quantity" | "isQuantity" | "semver" | "isSemver" => {
                (first()?.scaled(TEXT), None)
            }
            "ip.isCanonical" => (first()?.scaled(2.0 * TEXT), None),
            "containsIP" | "containsCIDR" => {
                let mut cost = address.plus(address).scaled(TEXT);
                if function == "containsCIDR" {
                    cost = cost.plus(address.scaled(TEXT)).plus(Range::ONE);
                }
                if overload.ends_with("_string") {
                    cost = cost.plus(first()?.scaled(TEXT));
                }
                (cost, None)
            }
            "validate" => (first()?.scaled(TEXT).scaled(FORMAT_PATTERN_MAX * PATTERN), None),
            "_==_" => match arguments {
                [one, other] if one.of == other.of => (equality(&one.of, other)?, None),
                _ => return None,
            },
            _ => return None,
        })
    }

    /// Going through all elements, or all letters.
    fn traversal(&self, target: &Part<'_>) -> Range {
        let size = self.size_or_unknown(target);
        match target.of.parameters().first() {
            Some(Type::String | Type::Bytes) => {
                let element = self.items(target);
                size.times(Range::ONE.plus(element.scaled(TEXT)))
            }
            Some(_) => size,
            None => size.scaled(TEXT),
        }
    }

    fn joined(&self, list: &Part<'_>, separator: Option<&Part<'_>>) -> Range {
        let count = self.size_or_unknown(list);
        let size = if list.of.parameters().is_empty() { Range::ZERO } else { count.times(self.items(list)) };
        let Some(separator) = separator else { return size };
        let gaps = Range { min: count.min.saturating_sub(1), max: count.max.saturating_sub(1) };
        size.plus(self.size_or_unknown(separator).times(gaps))
    }

    /// How large the elements of the list can be.
    fn items(&self, list: &Part<'_>) -> Range {
        if list.path.is_empty() {
            return Range::UNKNOWN;
        }
        let mut path = list.path.clone();
        path.push("@items".to_owned());
        self.sizes.size(&path).unwrap_or(Range::UNKNOWN)
    }

    fn size_or_unknown(&self, part: &Part<'_>) -> Range {
        let said = || self.sizes.size(&part.path).filter(|_| !part.path.is_empty());
        part.size.or_else(said).unwrap_or(Range::UNKNOWN)
    }
}

fn known(part: &Part<'_>) -> Range {
    part.size.unwrap_or(Range::UNKNOWN)
}

fn literal(part: &Part<'_>) -> Option<i64> {
    match part.expr.kind {
        Kind::Literal(Literal::Int(value)) => Some(value),
        _ => None,
    }
}

/// The number that is written there, if one is.
fn whole(part: &Part<'_>, otherwise: u64) -> u64 {
    literal(part).map_or(otherwise, |value| value.max(0) as u64)
}

fn sort_factor(overload: &str) -> f64 {
    if overload.starts_with("list_string_") || overload.starts_with("list_bytes_") { 2.0 + TEXT } else { 2.0 }
}

fn equality(of: &Type, other: &Part<'_>) -> Option<Range> {
    match of.name() {
        "net.IP"
        | "net.CIDR"
        | "kubernetes.Quantity"
        | "kubernetes.Semver"
        | "kubernetes.authorization.Authorizer"
        | "kubernetes.authorization.PathCheck"
        | "kubernetes.authorization.GroupCheck"
        | "kubernetes.authorization.ResourceCheck"
        | "kubernetes.authorization.Decision" => Some(Range::ONE),
        "kubernetes.NamedFormat" => Some(Range { min: 1, max: FORMAT_SIZE_MAX }.scaled(TEXT)),
        "kubernetes.URL" => Some(Range { min: 1, max: other.size.map_or(1, |size| size.max) }.scaled(TEXT)),
        _ => None,
    }
}

/// The size of a text in which texts of one size are replaced by those of another.
fn replaced(size: Range, old: Range, new: Range) -> Range {
    let times = |size: u64, old: u64| (size as f64 / old as f64).ceil() as u64;
    let (most, kept_most) = match old.min {
        0 => (size.max.saturating_add(1), size.max),
        old if new.max <= old => (0, size.max),
        old => (times(size.max, old), 0),
    };
    let (least, kept_least) = match old.max {
        0 => (size.min.saturating_add(1), size.min),
        old if old <= new.min => (0, size.min),
        old => (times(size.min, old), 0),
    };
    Range { min: least, max: most }.times(new).plus(Range { min: kept_least, max: kept_most })
}
