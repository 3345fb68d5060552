//! Selectors of devices: CEL expressions over a device.

use std::sync::{Arc, LazyLock};

use rkube_cel::{Environment, ObjectTypes, Range, Sizes, Type};
use rkube_machinery::Value;
use rkube_machinery::field::{Errors, Path};

use super::lists::slice;

const SELECTORS_MAX: usize = 32;
const EXPRESSION_MAX_BYTES: usize = 10 * 1024;
/// An expression that can cost more is refused.
const COST_MAX: u64 = 1_000_000;
const DRIVER_MAX_BYTES: u64 = 63;
const DOMAIN_MAX_BYTES: u64 = 63;
const NAME_MAX_BYTES: u64 = 32;
const ATTRIBUTE_MAX_BYTES: u64 = 64;
const ENTRIES_MAX: u64 = 32;
const DEVICE: &str = "kubernetes.DRADevice";

static ENVIRONMENT: LazyLock<Environment<'static>> = LazyLock::new(environment);

pub(super) fn validate_all(path: Path<'_>, selectors: &[Value], errors: &mut Errors) {
    slice(path, selectors, SELECTORS_MAX, errors, |path, selector, errors| {
        let path = path.child("cel");
        if selector.has("cel") {
            validate(path.child("expression"), selector.get("cel").str("expression"), errors);
        } else {
            errors.required(path, "");
        }
    });
}

fn validate(path: Path<'_>, expression: &str, errors: &mut Errors) {
    if expression.len() > EXPRESSION_MAX_BYTES {
        return errors.too_long(path, EXPRESSION_MAX_BYTES);
    }
    let checked = match ENVIRONMENT.check(expression) {
        Ok(checked) => checked,
        Err(issues) => return errors.invalid(path, expression, format!("compilation failed: {issues}")),
    };
    let found = checked.result_type();
    if !matches!(found, Type::Bool | Type::Any) {
        let detail = format!("must evaluate to bool or the unknown type, not {found}");
        return errors.invalid(path, expression, detail);
    }
    if let Err(error) = checked.program() {
        errors.internal(path, format!("program instantiation failed: {error}"));
    } else if checked.estimate(&DeviceSizes).max > COST_MAX {
        errors.forbidden(path, "too complex, exceeds cost limit");
    }
}

/// How large what a device has can be.
struct DeviceSizes;

impl Sizes for DeviceSizes {
    fn size(&self, path: &[String]) -> Option<Range> {
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        let max = match path[..] {
            ["device"] => 0,
            ["device", "driver"] => DRIVER_MAX_BYTES,
            ["device", "allowMultipleAllocations"] => 1,
            ["device", "attributes" | "capacity"] => ENTRIES_MAX,
            ["device", "attributes" | "capacity", "@keys"] => DOMAIN_MAX_BYTES,
            ["device", "attributes" | "capacity", "@values" | "@items"] => ENTRIES_MAX,
            ["device", "attributes" | "capacity", "@values" | "@items", "@keys"] => NAME_MAX_BYTES,
            ["device", "capacity", "@values" | "@items", "@values" | "@items"] => 0,
            ["device", "attributes", "@values" | "@items", _] => ATTRIBUTE_MAX_BYTES,
            _ => return None,
        };
        Some(Range { min: 0, max })
    }
}

/// What selectors may speak of: the device with its driver, its attributes and its capacity by domain and name.
fn environment() -> Environment<'static> {
    let by_domain_and_name = |of: Type| Type::map(Type::String, Type::map(Type::String, of));
    let fields = [
        ("driver", Type::String),
        ("allowMultipleAllocations", Type::Bool),
        ("attributes", by_domain_and_name(Type::Any)),
        ("capacity", by_domain_and_name(Type::object("kubernetes.Quantity"))),
    ];
    Environment::new()
        .with_bind()
        .types(Arc::new(ObjectTypes::new().object(DEVICE, fields)))
        .variable("device", Type::object(DEVICE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_refused() {
        let long = "x".repeat(EXPRESSION_MAX_BYTES + 1);
        for (expression, wrong) in [
            ("true", 0),
            ("device.driver == 'x'", 0),
            ("device.attributes['x'].y", 0),
            ("cel.bind(x, device.attributes['x'], x.y && x.z)", 0),
            ("device.capacity['x'].y.isLessThan(quantity('1'))", 0),
            ("", 1),
            ("nothing", 1),
            ("device.driver", 1),
            ("device.nothing == 1", 1),
            ("device.driver == 1", 1),
            ("int('x') == 1", 1),
            ("device.attributes.all(k, device.attributes[k].all(n, device.attributes[k][n] == 'a'))", 0),
            ("lists.range(1000000).all(x, x > 0)", 1),
            ("device.attributes.a.b.contains('x')", 1),
            (&long, 1),
        ] {
            let mut errors = Errors::new();
            validate(Path::new("x"), expression, &mut errors);
            assert_eq!(errors.len(), wrong, "{expression}");
        }
    }
}
