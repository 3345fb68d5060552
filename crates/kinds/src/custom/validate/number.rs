//! Numbers: their types and formats, bounds and factors.

use rkube_machinery::Value;
use rkube_machinery::field::{BadValue, go_float};
use rkube_machinery::schema::structural::Trail;
use rkube_machinery::schema::structural::{JsonType, ValueValidation};

use super::failure::{Failure, What};
use super::node::Node;

/// The largest whole number that JSON numbers are exact for.
const EXACT_MAX: f64 = 9_007_199_254_740_991.0;
const EPSILON: f64 = 1e-9;
/// The first float beyond the largest integer.
const INT_END: f64 = 9_223_372_036_854_775_808.0;

#[derive(Clone, Copy)]
pub(super) enum Number {
    Int(i64),
    Float(f64),
}

impl Number {
    pub(super) fn of(value: &Value) -> Option<Number> {
        match value {
            Value::Int(number) => Some(Number::Int(*number)),
            Value::Float(number) => Some(Number::Float(*number)),
            _ => None,
        }
    }

    fn as_float(self) -> f64 {
        match self {
            Number::Int(number) => number as f64,
            Number::Float(number) => number,
        }
    }

    fn text(self) -> String {
        match self {
            Number::Int(number) => number.to_string(),
            Number::Float(number) => go_float(number),
        }
    }
}

/// Whether a number counts as whole: it is, or it is positive and a rounding error above one that is.
pub(super) fn is_whole(number: f64) -> bool {
    if !number.is_finite() || number.abs() > EXACT_MAX {
        return false;
    }
    let whole = number.trunc();
    number == whole || whole > 0.0 && (number - whole) / (number + whole) < EPSILON
}

/// The number without its fraction. What no integer holds becomes the smallest one, as on the machines that Kubernetes
/// is built for.
pub(super) fn to_int(number: f64) -> i64 {
    if (i64::MIN as f64..INT_END).contains(&number) { number as i64 } else { i64::MIN }
}

/// Calls `fail` with everything that is wrong with the number.
pub(super) fn check(node: Node<'_>, number: Number, trail: &Trail<'_>, fail: &mut dyn FnMut(&dyn Fn() -> Failure)) {
    let kind = Kind::of(node);
    if !kind.takes(number) {
        fail(&|| kind.refusal("Checked", trail));
    }
    let Some(validation) = node.validation() else { return };
    if let Some(factor) = validation.multiple_of {
        let native = kind.takes(Number::Float(factor));
        if !native {
            fail(&|| kind.refusal("MultipleOf", trail));
        }
        check_factor(number, factor, native, trail, fail);
    }
    for bound in [Bound::minimum(validation), Bound::maximum(validation)].into_iter().flatten() {
        let native = kind.takes(Number::Float(bound.limit));
        if !native {
            fail(&|| kind.refusal(bound.boundary, trail));
        }
        bound.check(number, native, trail, fail);
    }
}

/// The type and format that a number must have a place in.
struct Kind<'a> {
    name: &'static str,
    format: &'a str,
}

impl<'a> Kind<'a> {
    fn of(node: Node<'a>) -> Self {
        match node.types() {
            [json_type @ (JsonType::Integer | JsonType::Number)] => {
                Kind { name: json_type.name(), format: node.format().map_or("", |format| format.name) }
            }
            _ => Kind { name: "", format: "" },
        }
    }

    fn takes(&self, number: Number) -> bool {
        match (self.name, self.format, number) {
            ("integer", "int32", Number::Int(number)) => i32::try_from(number).is_ok(),
            ("integer", "int32", Number::Float(number)) => {
                number == number.trunc() && (f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&number)
            }
            ("integer", _, Number::Float(number)) => {
                number == number.trunc() && (i64::MIN as f64..INT_END).contains(&number)
            }
            ("number", "float", number) => (number.as_float() as f32).is_finite(),
            _ => true,
        }
    }

    fn refusal(&self, what: &str, trail: &Trail<'_>) -> Failure {
        let (name, place) = (self.name, trail.validator_path());
        Failure::of_all(match self.format {
            "" => format!("{what} value must be of type {name} (default format) in {place}"),
            format => format!("{what} value must be of type {name} with format {format} in {place}"),
        })
    }
}

fn check_factor(
    number: Number,
    factor: f64,
    native: bool,
    trail: &Trail<'_>,
    fail: &mut dyn FnMut(&dyn Fn() -> Failure),
) {
    let (factor, fits) = match number {
        Number::Int(number) if native => {
            let factor = to_int(factor);
            (Number::Int(factor), factor > 0 && number % factor == 0)
        }
        number => {
            let number = number.as_float();
            let quotient = if factor < 1.0 { 1.0 / factor * number } else { number / factor };
            (Number::Float(factor), is_whole(quotient))
        }
    };
    let invalid = |number: Number| What::Invalid(BadValue::Text(number.text()));
    if factor.as_float() <= 0.0 {
        fail(&|| {
            let words = format!(
                "factor MultipleOf declared for {} must be positive: {}",
                trail.validator_path(),
                factor.text()
            );
            Failure::with_message(trail, invalid(factor), words)
        });
    } else if !fits {
        let shown = if native { number } else { Number::Float(number.as_float()) };
        fail(&|| Failure::new(trail, invalid(shown), &format!("should be a multiple of {}", factor.text())));
    }
}

struct Bound {
    limit: f64,
    exclusive: bool,
    is_maximum: bool,
    boundary: &'static str,
}

impl Bound {
    fn minimum(validation: &ValueValidation) -> Option<Bound> {
        let exclusive = validation.exclusive_minimum;
        validation.minimum.map(|limit| Bound { limit, exclusive, is_maximum: false, boundary: "Minimum boundary" })
    }

    fn maximum(validation: &ValueValidation) -> Option<Bound> {
        let exclusive = validation.exclusive_maximum;
        validation.maximum.map(|limit| Bound { limit, exclusive, is_maximum: true, boundary: "Maximum boundary" })
    }

    fn check(&self, number: Number, native: bool, trail: &Trail<'_>, fail: &mut dyn FnMut(&dyn Fn() -> Failure)) {
        let (order, limit, shown) = match number {
            Number::Int(number) if native => {
                let limit = to_int(self.limit);
                (Some(number.cmp(&limit)), Number::Int(limit), Number::Int(number))
            }
            number => {
                let number = number.as_float();
                (number.partial_cmp(&self.limit), Number::Float(self.limit), Number::Float(number))
            }
        };
        let beyond = order.is_some_and(|order| if self.is_maximum { order.is_gt() } else { order.is_lt() });
        if beyond || self.exclusive && order.is_some_and(std::cmp::Ordering::is_eq) {
            fail(&|| {
                let relation = match (self.is_maximum, self.exclusive) {
                    (true, false) => "less than or equal to",
                    (true, true) => "less than",
                    (false, false) => "greater than or equal to",
                    (false, true) => "greater than",
                };
                let what = What::Invalid(BadValue::Text(shown.text()));
                Failure::new(trail, what, &format!("should be {relation} {}", limit.text()))
            });
        }
    }
}
